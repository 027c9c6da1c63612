//! Finds paths that exist on one machine only.

/// Folders at the root of a developer's machine.
const FOLDERS: [&str; 4] = ["tmp", "home", "root", "work"];

/// Reports where a text names a path on a developer's machine.
#[must_use]
pub fn places(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().zip(1..);
    let with_folder = lines.flat_map(|(line, number)| FOLDERS.map(|folder| (line, number, folder)));
    let named = with_folder.filter(|(line, _, folder)| has_absolute(line, &format!("/{folder}/")));
    named
        .map(|(_, number, folder)| format!("{path}:{number} names a path under /{folder}, local to one machine"))
        .collect()
}

/// Whether the folder is named from the root: not as part of a longer path, nor as the host of a URL.
fn has_absolute(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = &line[..at];
        let is_longer = before.ends_with(|c: char| c.is_alphanumeric() || "._-~*})>$".contains(c));
        let is_host = before.ends_with(":/");
        !is_longer && !is_host
    })
}
