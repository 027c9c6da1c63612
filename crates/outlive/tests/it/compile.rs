//! A wrong workflow does not compile, and the compiler says what is wrong with it.
//!
//! What it says is compared with the `.stderr` beside each case, which is the text of one compiler version; with any
//! other, a wrong case need only fail. After a wanted change: `TRYBUILD=overwrite cargo test -p outlive --test it compile`.

use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "../compile/right.rs"]
mod right;

/// The compiler whose words are recorded.
const RECORDED: &str = "rustc 1.95.";
/// Where the other process of the test finds its cases.
const CASES: &str = "OUTLIVE_COMPILE_CASES";

#[test]
fn a_right_workflow_compiles_and_runs() {
    right::main().expect("it is right");
}

#[test]
fn a_wrong_workflow_is_told_what_is_wrong() {
    if let Some(cases) = std::env::var_os(CASES) {
        check(Path::new(&cases));
    } else if compiler().starts_with(RECORDED) {
        check(&recorded());
    } else {
        check_without_words();
    }
}

fn compiler() -> String {
    let version = Command::new("rustc").arg("--version").output().expect("there is a compiler, it built this");
    String::from_utf8_lossy(&version.stdout).into_owned()
}

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compile")
}

fn check(cases: &Path) {
    let test = trybuild::TestCases::new();
    wrong_cases(cases).into_iter().for_each(|case| test.compile_fail(case));
}

fn wrong_cases(cases: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(cases).expect("the cases are there");
    let files = entries.map(|entry| entry.expect("the cases can be listed").path());
    let is_wrong = |file: &PathBuf| file.extension().is_some_and(|end| end == "rs") && !file.ends_with("right.rs");
    let mut wrong: Vec<PathBuf> = files.filter(is_wrong).collect();
    wrong.sort();
    wrong
}

/// Checks copies that have no `.stderr`, in a process that is told to write what is missing: all that can fail is that
/// a case compiles.
fn check_without_words() {
    let copies = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile");
    let _ = std::fs::remove_dir_all(&copies);
    std::fs::create_dir_all(&copies).expect("cargo's own folder can be written");
    for case in wrong_cases(&recorded()) {
        let name = case.file_name().expect("a file has a name");
        std::fs::copy(&case, copies.join(name)).expect("a case can be copied");
    }
    let this = std::env::current_exe().expect("this is a program");
    let name = "compile::a_wrong_workflow_is_told_what_is_wrong";
    let ended = Command::new(this).args([name, "--exact"]).env(CASES, &copies).env("TRYBUILD", "overwrite").status();
    assert!(ended.expect("it can be run again").success(), "see above");
}
