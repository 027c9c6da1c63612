//! Parses the identity of an operation; the grammar is in `docs/design/journal-format.md`.

/// The parts of an identity, as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parts<'a> {
    /// Empty, or ending with `/`.
    pub(crate) scope: &'a str,
    /// `step:`, `wait:` or `sleep`.
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    pub(crate) key: Option<&'a str>,
    pub(crate) count: u32,
    /// Everything but the count.
    pub(crate) base: &'a str,
}

impl<'a> Parts<'a> {
    pub(crate) fn of(identity: &'a str) -> Self {
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
        let kinds = ["step:", "wait:", "sleep"];
        let kind = kinds.into_iter().find(|kind| plain.starts_with(kind)).unwrap_or_default();
        let name = &plain[kind.len()..];
        Self { scope, kind, name, key, count, base: &identity[..begin + operation.len()] }
    }
}

/// Returns a name as user code has it.
pub(crate) fn unescaped(name: &str) -> String {
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
    use outlive_core::workflow::{OpKind, base, scope};

    #[test]
    fn what_was_put_together_comes_apart_again() {
        let hard = ["a", "a/b", "a[b]", "a#2", "%", "%2F", "%25", ""];
        for outer in hard {
            for name in hard {
                for key in [None, Some("k"), Some("]#[")] {
                    let path = scope("", outer);
                    let text = base(&path, OpKind::Step, name, key);
                    let counted = format!("{text}#3");
                    let parts = Parts::of(&counted);
                    assert_eq!((parts.scope, parts.kind, parts.count, parts.base), (&*path, "step:", 3, &*text));
                    assert_eq!(unescaped(parts.name), name);
                    assert_eq!(parts.key.map(unescaped).as_deref(), key);
                    assert_eq!(Parts::of(&text).count, 1);
                }
            }
        }
        let sleep = base("", OpKind::Sleep, "", Some("nap"));
        assert_eq!((Parts::of(&sleep).kind, Parts::of(&sleep).key), ("sleep", Some("nap")));
    }
}
