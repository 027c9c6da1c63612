//! A copy of the workspace in which all defects can be turned on, and the binary that is built from it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use super::defects;

/// What a build needs of the workspace.
const PARTS: [&str; 5] = ["Cargo.toml", "Cargo.lock", "crates", "benches", "examples"];
/// The profile that proofs are built with, which is also the name of its folder.
const PROFILE: &str = "proof";

/// Builds the copy, as far as it has changed since it was built last, and returns its binary.
pub(super) fn build() -> Result<PathBuf, String> {
    let target = target().map_err(|error| format!("the target folder was not found: {error}"))?;
    let tree = target.join("defects/tree");
    let mut files = sources().map_err(|error| format!("the workspace cannot be read: {error}"))?;
    defects::put_into(&mut files)?;
    write(&tree, &files).map_err(|error| format!("{} cannot be written: {error}", tree.display()))?;
    compile(&tree, &target)?;
    Ok(target.join(PROFILE).join(defects::BINARY))
}

/// The text files of the workspace that a build needs, by their paths from its root.
pub(super) fn sources() -> io::Result<BTreeMap<String, String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = BTreeMap::new();
    for part in PARTS {
        for path in walk(&root.join(part))? {
            if let Ok(text) = String::from_utf8(fs::read(&path)?) {
                files.insert(below(&root, &path), text);
            }
        }
    }
    Ok(files)
}

/// The folder that this binary was built into: what its dependencies were compiled to is there.
fn target() -> io::Result<PathBuf> {
    let this = env::current_exe()?;
    let target = this.ancestors().nth(2).ok_or_else(|| io::Error::other("this binary lies outside of it"))?;
    Ok(target.to_owned())
}

/// Makes a folder hold these files and no others. What has not changed keeps its time, by which cargo knows what to
/// build again.
fn write(tree: &Path, files: &BTreeMap<String, String>) -> io::Result<()> {
    for (path, text) in files {
        let path = tree.join(path);
        if fs::read_to_string(&path).is_ok_and(|before| before == *text) {
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)?;
    }
    for path in walk(tree)? {
        if !files.contains_key(&below(tree, &path)) {
            fs::remove_file(&path)?;
            // A folder without a manifest is not a member of the workspace. One that is not empty stays.
            let _ = path.ancestors().skip(1).try_for_each(fs::remove_dir);
        }
    }
    Ok(())
}

fn compile(tree: &Path, target: &Path) -> Result<(), String> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(tree).args(["build", "--quiet", "--locked", "--profile", PROFILE, "-p", "outlive-proof"]);
    cargo.arg("--target-dir").arg(target);
    // `cargo run` has set these for us. Build scripts that look at them would run again, here and in the next build.
    let is_ours = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_ours)) {
        cargo.env_remove(name);
    }
    let done = cargo.output().map_err(|error| format!("cargo cannot be run: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(format!("the copy with the defects in {} does not build:\n{said}", tree.display()))
}

/// All files of a folder, or the one file that it is.
fn walk(path: &Path) -> io::Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() != "target" {
            files.extend(walk(&entry.path())?);
        }
    }
    Ok(files)
}

/// A path from a folder that it lies in.
fn below(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edit_applies_to_the_workspace() {
        let mut files = sources().expect("the workspace can be read");
        defects::put_into(&mut files).expect("all edits apply");
        let marked = files["Cargo.lock"].matches("+defects").count();
        assert!(marked > 5, "only {marked} of our crates have a marked version in the lock file");
        assert!(files["Cargo.toml"].contains("+defects"));
        assert!(files["crates/outlive-proof/Cargo.toml"].contains(defects::BINARY));
    }

    #[test]
    fn product_code_has_no_trace_of_defects() {
        let product = ["outlive-core", "outlive-sqlite", "outlive", "outlive-cli", "outlive-testkit"];
        let product = product.map(|name| format!("crates/{name}/src/"));
        let mut files = sources().expect("the workspace can be read");
        files.retain(|path, _| product.iter().any(|folder| path.starts_with(folder)));
        assert!(files.len() > 100, "only {} files of the product were found", files.len());
        files.retain(|_, text| text.contains("defect::") || text.to_lowercase().contains("mutant"));
        assert_eq!(files.into_keys().collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn second_copy_writes_only_changes_and_removes_stale_files() {
        let folder = tempfile::tempdir().expect("there is a folder");
        let copy = |files: &[(&str, &str)]| {
            let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
            write(folder.path(), &files).expect("it is written");
        };
        let modified = |path: &str| folder.path().join(path).metadata().and_then(|file| file.modified()).expect(path);
        copy(&[("a/one.rs", "1"), ("a/two.rs", "2"), ("b/three.rs", "3")]);
        let before = modified("a/one.rs");
        copy(&[("a/one.rs", "1"), ("a/two.rs", "4")]);
        assert_eq!(modified("a/one.rs"), before);
        assert_eq!(fs::read_to_string(folder.path().join("a/two.rs")).expect("it is there"), "4");
        assert!(!folder.path().join("b").exists(), "an empty folder is left");
    }
}
