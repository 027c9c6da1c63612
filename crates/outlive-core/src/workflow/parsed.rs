//! Parses the identity of an operation; the grammar is in `docs/design/journal-format.md`.

use super::spec::OpKind;

/// An operation identity, split into its parts as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParsedIdentity<'a> {
    /// Empty, or ending with `/`.
    pub scope: &'a str,
    /// The [prefix](OpKind::prefix) of the kind.
    pub kind: &'a str,
    /// The name, escaped.
    pub name: &'a str,
    /// The key, escaped.
    pub key: Option<&'a str>,
    /// The occurrence, from 1.
    pub count: u32,
    /// Everything but the count.
    pub base: &'a str,
}

impl<'a> ParsedIdentity<'a> {
    /// Splits an identity. Never fails: any text is a step name at worst.
    #[must_use]
    pub fn of(identity: &'a str) -> Self {
        let begin = identity.rfind('/').map_or(0, |at| at + 1);
        let (scope, rest) = identity.split_at(begin);
        let (operation, count) = match rest.rsplit_once('#') {
            Some((operation, count)) => (operation, count.parse().unwrap_or(1)),
            None => (rest, 1),
        };
        let (plain, key) = match operation.strip_suffix(']').and_then(|inner| inner.split_once('[')) {
            Some((plain, key)) => (plain, Some(key)),
            None => (operation, None),
        };
        let mut kinds = OpKind::ALL.into_iter().map(OpKind::prefix);
        let kind = kinds.find(|kind| plain.starts_with(kind)).unwrap_or_default();
        let name = &plain[kind.len()..];
        Self { scope, kind, name, key, count, base: &identity[..begin + operation.len()] }
    }
}

/// Returns a name as user code has it.
#[must_use]
pub fn unescaped(name: &str) -> String {
    if name == "%-" {
        return String::new();
    }
    // The escape of `%` itself comes last, or its result could be taken for another escape.
    [("%2F", "/"), ("%5B", "["), ("%5D", "]"), ("%23", "#"), ("%25", "%")]
        .iter()
        .fold(name.to_owned(), |text, (written, meant)| text.replace(written, meant))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::{OpKind, base, scope};

    #[test]
    fn identities_parse_back_to_their_parts() {
        let hard = ["a", "a/b", "a[b]", "a#2", "%", "%2F", "%25", ""];
        for outer in hard {
            for name in hard {
                for key in [None, Some("k"), Some("]#[")] {
                    let path = scope("", outer);
                    let text = base(&path, OpKind::Step, name, key);
                    let counted = format!("{text}#3");
                    let parts = ParsedIdentity::of(&counted);
                    assert_eq!((parts.scope, parts.kind, parts.count, parts.base), (&*path, "step:", 3, &*text));
                    assert_eq!(unescaped(parts.name), name);
                    assert_eq!(parts.key.map(unescaped).as_deref(), key);
                    assert_eq!(ParsedIdentity::of(&text).count, 1);
                }
            }
        }
        let sleep = base("", OpKind::Sleep, "", Some("nap"));
        assert_eq!((ParsedIdentity::of(&sleep).kind, ParsedIdentity::of(&sleep).key), ("sleep", Some("nap")));
    }
}
