//! A wrong workflow does not compile, and the compiler error says what is wrong with it.
//!
//! The error is compared with the `.stderr` file next to each case, which was recorded with one compiler version; with
//! any other, a wrong case only has to fail. To accept a change, run
//! `TRYBUILD=overwrite cargo test -p outlive --test it compile`.

use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "../compile/right.rs"]
mod right;

/// The compiler version whose errors are recorded.
const RECORDED: &str = "rustc 1.95.";
/// Environment variable with the folder of cases for the child process.
const CASES: &str = "OUTLIVE_COMPILE_CASES";

#[test]
fn correct_workflow_compiles_and_runs() {
    right::main().expect("the workflow is correct");
}

#[test]
fn wrong_workflow_gets_a_helpful_compiler_error() {
    if let Some(cases) = std::env::var_os(CASES) {
        check(Path::new(&cases));
    } else if compiler().starts_with(RECORDED) {
        check(&recorded());
    } else {
        check_without_words();
    }
}

fn compiler() -> String {
    let version = Command::new("rustc").arg("--version").output().expect("the compiler that built this is installed");
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

/// Checks copies without `.stderr` files in a process that writes the missing ones: the only possible failure is a case
/// that compiles.
fn check_without_words() {
    let copies = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile");
    let _ = std::fs::remove_dir_all(&copies);
    std::fs::create_dir_all(&copies).expect("cargo's own folder can be written");
    for case in wrong_cases(&recorded()) {
        let name = case.file_name().expect("a file has a name");
        std::fs::copy(&case, copies.join(name)).expect("a case can be copied");
    }
    let this = std::env::current_exe().expect("the test binary has a path");
    let name = "compile::wrong_workflow_gets_a_helpful_compiler_error";
    let ended = Command::new(this).args([name, "--exact"]).env(CASES, &copies).env("TRYBUILD", "overwrite").status();
    assert!(ended.expect("the test binary can be run again").success(), "see above");
}
