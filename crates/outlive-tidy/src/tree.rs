//! Reads the files of the workspace.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::manifest::Manifest;
use crate::source::Source;

/// Returns the root of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads all Rust files of the crates, benches and examples.
///
/// # Errors
/// If a file cannot be read.
pub fn sources() -> io::Result<Vec<Source>> {
    let files = ["crates", "benches", "examples"].map(|folder| walk(&root().join(folder)));
    let files = files.into_iter().collect::<io::Result<Vec<_>>>()?.concat();
    let rust = files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    rust.map(|path| Ok(Source::new(&from_root(path), &fs::read_to_string(path)?))).collect()
}

/// Reads the sources of each crate: the files in its `src`.
///
/// # Errors
/// If a file cannot be read.
pub fn crates() -> io::Result<Vec<Vec<Source>>> {
    let mut crates: Vec<Vec<Source>> = Vec::new();
    for source in sources()?.into_iter().filter(Source::is_in_src) {
        let folder = |source: &Source| source.path.split("/src/").next().map(str::to_owned);
        match crates.last_mut() {
            Some(last) if folder(&last[0]) == folder(&source) => last.push(source),
            _ => crates.push(vec![source]),
        }
    }
    Ok(crates)
}

/// Reads the manifests of all crates.
///
/// # Errors
/// If a file cannot be read.
pub fn manifests() -> io::Result<Vec<Manifest>> {
    let folders = [walk(&root().join("crates"))?, walk(&root().join("benches"))?].concat();
    let files = folders.iter().filter(|path| path.file_name().is_some_and(|name| name == "Cargo.toml"));
    files.map(|path| Ok(Manifest::new(&from_root(path), &fs::read_to_string(path)?))).collect()
}

/// Reads the manifest of the workspace.
///
/// # Errors
/// If it cannot be read.
pub fn workspace_manifest() -> io::Result<Manifest> {
    Ok(Manifest::new("Cargo.toml", &fs::read_to_string(root().join("Cargo.toml"))?))
}

/// Returns the path and text of every text file that is, or is about to be, under version control.
///
/// # Errors
/// If a file cannot be read.
pub fn texts() -> io::Result<Vec<(String, String)>> {
    let listed = Command::new("git")
        .current_dir(root())
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .output();
    let files: Vec<PathBuf> = match listed {
        Ok(listed) if listed.status.success() => {
            String::from_utf8_lossy(&listed.stdout).lines().map(|line| root().join(line)).collect()
        }
        // An unpacked archive has no version control.
        _ => walk(&root())?,
    };
    let read = files.iter().filter(|path| path.is_file()).map(|path| Ok((from_root(path), fs::read(path)?)));
    let read = read.collect::<io::Result<Vec<_>>>()?;
    Ok(read.into_iter().filter_map(|(path, bytes)| Some((path, String::from_utf8(bytes).ok()?))).collect())
}

/// Returns all files below a folder, in order; none if the folder does not exist.
fn walk(folder: &Path) -> io::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    let mut files = Vec::new();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() {
            files.push(path);
        } else if name != "target" && name != "wip" && !name.starts_with('.') {
            files.extend(walk(&path)?);
        }
    }
    Ok(files)
}

fn from_root(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).to_string_lossy().replace('\\', "/")
}
