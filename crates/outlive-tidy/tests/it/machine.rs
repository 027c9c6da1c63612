//! Nothing in the tree depends on the machine it was written on.

use outlive_tidy::machine::places;
use outlive_tidy::tree;

use crate::assert_none;

/// Builds a machine-specific path, so that this file does not contain one.
fn place(folder: &str) -> String {
    format!("/{folder}/x.db")
}

#[test]
fn machine_specific_path_is_found() {
    for folder in ["tmp", "home", "root", "work"] {
        let text = format!("one\nopen(\"{}\")\n", place(folder));
        assert_eq!(places("a.md", &text).len(), 1, "{text}");
        assert!(places("a.md", &text)[0].starts_with("a.md:2 "));
        assert_eq!(places("a.md", &format!("sqlite://{}", place(folder))).len(), 1);
    }
}

#[test]
fn part_of_a_longer_path_or_url_host_is_not_a_machine_path() {
    let longer = ["crates", "$DIR", "${PWD}", "..", "https:/"].map(|before| format!("{before}{}", place("work")));
    assert_eq!(places("a.md", &longer.join("\n")), [""; 0]);
}

#[test]
fn no_tracked_file_contains_a_machine_specific_path() {
    let texts = tree::texts().expect("the tracked files can be read");
    assert!(texts.len() > 50, "only {} tracked files were found", texts.len());
    let found = texts.iter().flat_map(|(path, text)| places(path, text));
    assert_none(&found.collect::<Vec<_>>());
}
