//! Reads what a crate depends on, and which lints it keeps.

/// The parts of a `Cargo.toml` that the rules need.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Path from the workspace root.
    pub path: String,
    lines: Vec<Line>,
}

#[derive(Clone, Debug)]
struct Line {
    section: String,
    key: String,
    value: String,
}

/// Crates that only tests may use.
const TEST_CRATES: [&str; 7] =
    ["outlive-testkit", "outlive-tidy", "outlive-powercut", "proptest", "trybuild", "tempfile", "insta"];
/// Crates for tests and measurements, which are never part of what is shipped.
const TEST_SIDE: [&str; 6] =
    ["outlive-testkit", "outlive-tidy", "outlive-counts", "outlive-fuzz", "outlive-powercut", "outlive-proof"];
/// The only crate with unsafe code: SQLite calls a disk through C. Never shipped.
const UNSAFE: &str = "outlive-powercut";
/// Crates that may use a test crate anyway, and why.
const EXCEPTIONS: [(&str, &str); 2] = [
    ("outlive-cli", "tempfile"),   // The demo runs in its own folder.
    ("outlive-bench", "tempfile"), // So does every measurement.
];
/// The workspace crates that each of these may depend on.
const LAYERS: [(&str, &[&str]); 5] = [
    ("outlive-core", &[]),
    ("outlive-sqlite", &["outlive-core"]),
    ("outlive", &["outlive-core", "outlive-sqlite"]),
    ("outlive-testkit", &["outlive", "outlive-core"]),
    ("outlive-tidy", &[]),
];

impl Manifest {
    /// Parses a manifest.
    #[must_use]
    pub fn new(path: &str, text: &str) -> Self {
        let mut section = String::new();
        let mut lines = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name.replace(' ', "");
                lines.push(Line { section: section.clone(), key: String::new(), value: String::new() });
            } else if let Some((key, value)) = line.split_once('=') {
                let (key, value) = (key.trim().trim_matches('"').to_owned(), value.trim().to_owned());
                lines.push(Line { section: section.clone(), key, value });
            }
        }
        Self { path: path.to_owned(), lines }
    }

    fn value(&self, section: &str, key: &str) -> Option<&str> {
        let line = self.lines.iter().find(|line| line.section == section && line.key == key)?;
        Some(line.value.trim_matches('"'))
    }

    /// Returns the crate's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.value("package", "name").unwrap_or_default()
    }

    /// Returns the license it declares.
    #[must_use]
    pub fn licence(&self) -> &str {
        self.value("package", "license").unwrap_or_default()
    }

    /// Returns what the crate depends on when it is shipped: on any target, for building and running, optional or not.
    #[must_use]
    pub fn dependencies(&self) -> Vec<String> {
        let mut names: Vec<String> = self.lines.iter().filter_map(dependency).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns the test-only crates that this one ships.
    #[must_use]
    pub fn shipped_test_crates(&self) -> Vec<String> {
        let name = self.name();
        let is_test_crate = |used: &String| TEST_CRATES.contains(&used.as_str());
        let is_exception = |used: &String| EXCEPTIONS.contains(&(name, used.as_str()));
        let used = self.dependencies().into_iter().filter(|used| is_test_crate(used) && !is_exception(used));
        if TEST_SIDE.contains(&name) { Vec::new() } else { used.collect() }
    }

    /// Returns the crates of the workspace that this one depends on but must not.
    #[must_use]
    pub fn upward_dependencies(&self) -> Vec<String> {
        let Some((_, below)) = LAYERS.iter().find(|(name, _)| *name == self.name()) else { return Vec::new() };
        let of_ours = self.dependencies().into_iter().filter(|used| used.starts_with("outlive"));
        of_ours.filter(|used| !below.contains(&used.as_str())).collect()
    }

    /// Whether the crate uses the lints of the workspace.
    #[must_use]
    pub fn keeps_workspace_lints(&self) -> bool {
        self.value("lints", "workspace") == Some("true")
    }

    /// Whether the crate is the one that may have unsafe code, is not published, and must document why each block is
    /// safe.
    #[must_use]
    pub fn may_be_unsafe(&self) -> bool {
        self.name() == UNSAFE
            && self.value("package", "publish") == Some("false")
            && self.value("lints.clippy", "undocumented_unsafe_blocks") == Some("deny")
    }

    /// Whether the workspace forbids unsafe code.
    #[must_use]
    pub fn forbids_unsafe_code(&self) -> bool {
        self.value("workspace.lints.rust", "unsafe_code") == Some("forbid")
    }
}

/// Returns the crate that a line makes a dependency, if any.
fn dependency(line: &Line) -> Option<String> {
    let (kind, rest) = line.section.split_once("dependencies")?;
    let is_shipped = matches!(kind, "" | "build-") || kind.starts_with("target.") && !kind.ends_with("dev-");
    if !is_shipped {
        return None;
    }
    let renamed = match rest.strip_prefix('.') {
        Some(_) => (line.key == "package").then_some(line.value.as_str()),
        None => line.value.split_once("package").map(|(_, value)| value),
    };
    let renamed = renamed.and_then(|value| value.split('"').nth(1));
    let name = rest.strip_prefix('.').or(line.key.split('.').next()).filter(|name| !name.is_empty())?;
    Some(renamed.unwrap_or(name).to_owned())
}
