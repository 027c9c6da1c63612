//! Rules for third-party crates: their licenses, their sources, and which are banned. The rules are in `deny.toml`.

/// The parts of `deny.toml` that are checked here. `cargo deny` checks the rest, where it is installed.
#[derive(Clone, Debug)]
pub struct Rules {
    licences: Vec<String>,
    exceptions: Vec<(String, String)>,
    registries: Vec<String>,
    banned: Vec<String>,
}

impl Rules {
    /// Parses the text of a `deny.toml`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let list = |key: &str| text.lines().find(|line| line.starts_with(key)).map(quoted).unwrap_or_default();
        let banned = text.lines().filter(|line| line.trim_start().starts_with("{ crate = "));
        let exceptions = list("exceptions = ");
        Self {
            licences: list("allow = "),
            exceptions: exceptions.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
            registries: list("allow-registry = "),
            banned: banned.filter_map(|line| quoted(line).into_iter().next()).collect(),
        }
    }

    /// Whether a crate may be used under a license expression, as in its manifest:
    /// `(MIT OR Apache-2.0) AND Unicode-3.0`.
    #[must_use]
    pub fn allows(&self, name: &str, licence: &str) -> bool {
        let spaced = licence.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
        let words: Vec<&str> = spaced.split_whitespace().collect();
        let is_allowed = |word: &str| {
            self.licences.iter().any(|one| one == word)
                || self.exceptions.iter().any(|(of, one)| of == name && one == word)
        };
        let mut rest = words.as_slice();
        any_of(&mut rest, &is_allowed) && rest.is_empty()
    }

    /// Reports what is wrong with a `Cargo.lock`: crates from elsewhere, and banned crates.
    #[must_use]
    pub fn broken_by(&self, lock: &str) -> Vec<String> {
        let mut found = Vec::new();
        for package in lock.split("[[package]]") {
            let value = |key: &str| package.lines().find(|line| line.starts_with(key)).map(quoted).unwrap_or_default();
            let name = value("name = ").concat();
            let source = value("source = ").concat();
            if self.banned.contains(&name) {
                found.push(format!("{name} is banned; deny.toml says why"));
            }
            let is_known = self.registries.iter().any(|one| source == format!("registry+{one}"));
            if !source.is_empty() && !is_known {
                found.push(format!("{name} comes from {source}; add it to allow-registry in deny.toml, or drop it"));
            }
        }
        found
    }
}

/// Returns what is between the quotes of a line.
fn quoted(line: &str) -> Vec<String> {
    line.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

fn any_of(rest: &mut &[&str], is_allowed: &impl Fn(&str) -> bool) -> bool {
    let mut is_any = all_of(rest, is_allowed);
    while let Some(("OR", after)) = rest.split_first().map(|(word, after)| (*word, after)) {
        *rest = after;
        is_any |= all_of(rest, is_allowed);
    }
    is_any
}

fn all_of(rest: &mut &[&str], is_allowed: &impl Fn(&str) -> bool) -> bool {
    let mut are_all = one(rest, is_allowed);
    while let Some(("AND", after)) = rest.split_first().map(|(word, after)| (*word, after)) {
        *rest = after;
        are_all &= one(rest, is_allowed);
    }
    are_all
}

/// Parses one license, or an expression in parentheses. A license exception (`WITH`) grants more rights and takes none
/// away.
fn one(rest: &mut &[&str], is_allowed: &impl Fn(&str) -> bool) -> bool {
    let Some((word, after)) = rest.split_first() else { return false };
    *rest = after;
    let is_one = match *word {
        "(" => {
            let inner = any_of(rest, is_allowed);
            let is_closed = rest.first() == Some(&")");
            *rest = rest.get(1..).unwrap_or_default();
            inner && is_closed
        }
        licence => is_allowed(licence),
    };
    if rest.first() == Some(&"WITH") {
        *rest = rest.get(2..).unwrap_or_default();
    }
    is_one
}
