//! The defects that are put in on purpose, one at a time, to see that the suites find them.
//!
//! The product has no switches for them. A defect is a list of edits of its source text, each of which adds a switch:
//! `defect::is_on("Name")`. The tool applies all edits to a copy of the workspace and builds that once; each process of
//! the copy then turns one defect on. Edits are applied one after the other, each to text that occurs once in its file.
//! No two of them share text, so their order does not matter: where two switches belong to one condition, each edit has
//! its own part of it.

mod care;
mod family;
mod layers;
mod long_lives;
mod memory;
mod outputs;
mod repair;
mod runtime;
mod sqlite;
mod undo;
mod workflow;

use std::collections::BTreeMap;

/// A defect, and the edits that put it in.
pub(super) struct Defect {
    pub(super) name: &'static str,
    /// What goes wrong, and which promise of `GUARANTEES.md` that breaks.
    pub(super) breaks: &'static str,
    edits: &'static [Edit],
}

/// A change of one file.
struct Edit {
    /// The path from the root of the workspace.
    file: &'static str,
    /// Text that occurs exactly once in the file.
    original: &'static str,
    replacement: &'static str,
}

/// The binary of the copy. With the name of ours it would replace it, while other tools run it.
pub(super) const BINARY: &str = "outlive-proof-defects";

/// What marks the version of the copy's crates. Cargo tells crates by name, version and path from the root of their
/// workspace: without the mark, it would take those of the copy for ours, as they share a target folder.
const MARK: &str = "+defects";

/// What the copy has besides the defects themselves: the switch, the call that turns it, and names of its own.
const SETUP: &[Edit] = &[
    Edit {
        file: "Cargo.toml",
        original: concat!("[workspace.package]\nversion = \"", env!("CARGO_PKG_VERSION"), "\""),
        replacement: concat!("[workspace.package]\nversion = \"", env!("CARGO_PKG_VERSION"), "+defects\""),
    },
    Edit {
        file: "crates/outlive-proof/Cargo.toml",
        original: "[[bin]]\nname = \"outlive-proof\"",
        replacement: "[[bin]]\nname = \"outlive-proof-defects\"",
    },
    Edit {
        file: "crates/outlive-proof/src/tools/mutants/suites.rs",
        original: r#"Err(format!("{} has no switch in this binary; run `./prove mutants`", defect.name))"#,
        replacement: r#"match outlive_core::defect::set(defect.name) {
        true => Ok(()),
        false => Err("another defect is on".to_owned()),
    }"#,
    },
    Edit {
        file: "crates/outlive-core/src/lib.rs",
        original: "pub mod duration;",
        replacement: r"/// Which defect is on.
pub mod defect {
    use std::sync::OnceLock;

    static CHOSEN: OnceLock<&str> = OnceLock::new();

    /// Turns a defect on until the process ends. Returns `false` if another one is on.
    pub fn set(name: &'static str) -> bool {
        CHOSEN.set(name).is_ok()
    }

    /// Returns `true` if this defect is on.
    #[inline]
    #[must_use]
    pub fn is_on(name: &str) -> bool {
        CHOSEN.get().is_some_and(|chosen| *chosen == name)
    }
}
pub mod duration;",
    },
];

/// All defects.
pub(super) fn all() -> impl Iterator<Item = &'static Defect> {
    let groups = [
        memory::DEFECTS,
        sqlite::DEFECTS,
        workflow::DEFECTS,
        care::DEFECTS,
        family::DEFECTS,
        layers::DEFECTS,
        long_lives::DEFECTS,
        outputs::DEFECTS,
        repair::DEFECTS,
        undo::DEFECTS,
        runtime::DEFECTS,
    ];
    groups.into_iter().flatten()
}

/// Puts all defects into the files of the workspace, which are given by their paths from its root. The error names
/// every edit that does not fit its file any more.
pub(super) fn put_into(files: &mut BTreeMap<String, String>) -> Result<(), String> {
    let switch = SETUP.iter().map(|edit| ("the switch of all defects", edit));
    let edits = all().flat_map(|defect| defect.edits.iter().map(|edit| (defect.name, edit)));
    let apply = |(name, edit): (&str, &Edit)| edit.apply(files).err().map(|problem| format!("{name}: {problem}"));
    let problems: Vec<String> = switch.chain(edits).filter_map(apply).collect();
    if problems.is_empty() { mark_lock(files) } else { Err(problems.join("\n")) }
}

/// Marks the versions of our own crates in the lock file, which are those without a source.
fn mark_lock(files: &mut BTreeMap<String, String>) -> Result<(), String> {
    let lock = files.get_mut("Cargo.lock").ok_or("there is no Cargo.lock")?;
    let version = concat!("\nversion = \"", env!("CARGO_PKG_VERSION"));
    let mark = |package: &str| match package.contains("\nsource = ") {
        true => package.to_owned(),
        false => package.replace(version, &format!("{version}{MARK}")),
    };
    *lock = lock.split("\n\n").map(mark).collect::<Vec<_>>().join("\n\n");
    Ok(())
}

impl Edit {
    fn apply(&self, files: &mut BTreeMap<String, String>) -> Result<(), String> {
        let Self { file, original, replacement } = self;
        let text = files.get_mut(*file).ok_or_else(|| format!("there is no file {file}"))?;
        match text.matches(original).count() {
            1 => *text = text.replacen(original, replacement, 1),
            count => return Err(format!("{file} has this text {count} times, not once; adapt the edit:\n{original}")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn edit_that_does_not_fit_is_named() {
        let edit = |original| Edit { file: "a.rs", original, replacement: "" };
        let mut files = BTreeMap::from([("a.rs".to_owned(), "one two two".to_owned())]);
        for (original, count) in [("two", 2), ("three", 0)] {
            let problem = edit(original).apply(&mut files).expect_err("it does not fit");
            assert!(problem.starts_with(&format!("a.rs has this text {count} times")), "{problem}");
            assert!(problem.ends_with(original), "{problem}");
        }
        let gone = Edit { file: "b.rs", ..edit("one") }.apply(&mut files);
        assert_eq!(gone.expect_err("it is not there"), "there is no file b.rs");
        assert_eq!(edit("one ").apply(&mut files), Ok(()));
        assert_eq!(files["a.rs"], "two two");
    }

    #[test]
    fn defects_have_unique_names_promises_and_switches() {
        let names: BTreeSet<_> = all().map(|defect| defect.name).collect();
        assert!(names.len() >= 70, "{}", names.len());
        assert_eq!(names.len(), all().count());
        for Defect { name, breaks, edits } in all() {
            assert!(breaks.contains(" Breaks P"), "{name} names no promise");
            assert!(!edits.is_empty(), "{name} changes nothing");
            for edit in *edits {
                let switch = format!("defect::is_on(\"{name}\")");
                assert_eq!(edit.replacement.matches(&switch).count(), 1, "{name} in {}", edit.file);
                assert!(!edit.original.contains("is_on("), "{name} needs another edit in {}", edit.file);
            }
        }
    }
}
