//! Replays every input the fuzzer has kept: those that reach new code, and those that once broke something.

use std::fs;
use std::path::Path;

use outlive_fuzz::TARGETS;

#[test]
fn every_corpus_input_is_handled_by_its_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, run) in TARGETS {
        let mut paths: Vec<_> = fs::read_dir(corpus.join(name)).unwrap().map(|file| file.unwrap().path()).collect();
        paths.sort();
        assert!(paths.len() > 5, "only {} inputs for {name}", paths.len());
        for path in paths {
            let bytes = fs::read(&path).unwrap();
            if std::panic::catch_unwind(|| run(&bytes)).is_err() {
                panic!("the input is {}", path.display());
            }
        }
    }
}

#[test]
fn fuzzer_has_a_program_for_every_target() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in fuzz/Cargo.toml");
        let text = fs::read_to_string(folder.join(format!("targets/{name}.rs"))).unwrap();
        assert!(text.contains(&format!("outlive_fuzz::{name}::run")), "{text}");
    }
}
