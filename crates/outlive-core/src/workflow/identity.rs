//! Operation identity: scope, kind, name, and key or occurrence, as one readable text.

use std::convert::Infallible;
use std::sync::Arc;

use crate::scratch;
use crate::small_map::SmallMap;

use super::spec::OpKind;

/// Counts the calls and the outstanding operations of each base, and numbers occurrences.
#[derive(Default)]
pub(super) struct Identities(SmallMap<Arc<str>, Calls>);

#[derive(Default)]
struct Calls {
    /// The number of calls. Grows with each call and shrinks only when a call turns out to have a key.
    called: u32,
    /// The number of calls that are neither consumed nor dropped.
    outstanding: u32,
}

/// The identity assigned to one call.
#[derive(Clone)]
pub(super) struct Identity {
    /// Scope, kind, name and key.
    pub(super) base: Arc<str>,
    /// The number of the call with this base, from 1.
    pub(super) occurrence: u32,
    /// Whether another call with the same base was outstanding: a replay could not tell the two apart.
    pub(super) is_ambiguous: bool,
}

impl Identity {
    /// Returns the identity as written in the journal.
    pub(super) fn text(&self) -> Arc<str> {
        numbered(&self.base, self.occurrence)
    }
}

/// Appends the occurrence to a base, except for the first one.
pub(super) fn numbered(base: &Arc<str>, occurrence: u32) -> Arc<str> {
    match occurrence {
        1 => base.clone(),
        n => scratch::text(|text| {
            text.extend_from_slice(base.as_bytes());
            text.push(b'#');
            push_number(text, n);
            Ok::<_, Infallible>(())
        })
        .unwrap_or_else(|never| match never {}),
    }
}

fn push_number(text: &mut Vec<u8>, mut number: u32) {
    let place = text.len();
    while number > 0 {
        text.push(b'0' + (number % 10) as u8);
        number /= 10;
    }
    text[place..].reverse();
}

/// Names the kind of operation in an error message.
pub(super) fn op_words(key: &str) -> &'static str {
    let last = key.rsplit('/').next().unwrap_or(key);
    match OpKind::ALL.into_iter().find(|kind| last.starts_with(kind.prefix())) {
        Some(OpKind::Sleep) => "sleep",
        Some(OpKind::Wait) => "wait for that signal",
        Some(OpKind::Child) => "child of that workflow",
        Some(OpKind::Result) => "wait for that child",
        Some(OpKind::Start) => "start of that workflow",
        Some(OpKind::Signal | OpKind::Cancel) => "message to that run",
        Some(OpKind::Send | OpKind::Push) => "event for that job",
        Some(OpKind::Patch) => "patch of that name",
        Some(OpKind::Undo) => "undo of that name",
        Some(OpKind::Unwind) => "end of that run",
        Some(OpKind::Restart) => "restart",
        Some(OpKind::Publish) => "publication of that name",
        Some(OpKind::Append) => "append to that stream",
        Some(OpKind::Question) => "wait for that question",
        Some(OpKind::Reply) => "reply to that question",
        Some(OpKind::Step) | None => "step of that name",
    }
}

impl Identities {
    /// Counts a call and assigns its identity.
    pub(super) fn take(&mut self, base: Arc<str>) -> Identity {
        let calls = match self.0.get_mut(&base) {
            Some(calls) => calls,
            None => self.0.or_default(base.clone()),
        };
        calls.called += 1;
        calls.outstanding += 1;
        Identity { base, occurrence: calls.called, is_ambiguous: calls.outstanding > 1 }
    }

    /// Returns `true` if an operation with this base has been called.
    pub(super) fn is_called(&self, base: &str) -> bool {
        self.0.get(base).is_some_and(|calls| calls.called > 0)
    }

    /// Ends a call that was consumed or dropped.
    pub(super) fn end(&mut self, identity: &Identity) {
        if let Some(calls) = self.0.get_mut(&identity.base) {
            debug_assert!(calls.outstanding > 0, "a call ends only once");
            calls.outstanding = calls.outstanding.saturating_sub(1);
        }
    }

    /// Reverts a call that turns out to have a key, and so another identity.
    pub(super) fn undo(&mut self, identity: &Identity) {
        self.end(identity);
        if let Some(calls) = self.0.get_mut(&identity.base) {
            calls.called = calls.called.saturating_sub(1);
        }
    }
}

/// Joins scope, kind, name and key into one text, and escapes the separators in names and keys.
///
/// ```
/// use outlive_core::workflow::{OpKind, base};
/// assert_eq!(&*base("orders/", OpKind::Step, "charge card", Some("42")), "orders/step:charge card[42]");
/// assert_eq!(&*base("", OpKind::Wait, "a/b", None), "wait:a%2Fb");
/// ```
#[must_use]
pub fn base(scope: &str, kind: OpKind, name: &str, key: Option<&str>) -> Arc<str> {
    let mut text = String::with_capacity(scope.len() + name.len() + 16);
    text.push_str(scope);
    text.push_str(kind.prefix());
    if !matches!(kind, OpKind::Sleep | OpKind::Unwind | OpKind::Restart) {
        escape_into(&mut text, name);
    }
    if let Some(key) = key {
        text.push('[');
        escape_into(&mut text, key);
        text.push(']');
    }
    text.into()
}

/// Returns the path of a scope inside `parent`. Paths end with `/`, so they can be concatenated.
///
/// ```
/// use outlive_core::workflow::scope;
/// assert_eq!(&*scope(&scope("", "orders"), "42"), "orders/42/");
/// ```
#[must_use]
pub fn scope(parent: &str, key: &str) -> Arc<str> {
    let mut text = String::with_capacity(parent.len() + key.len() + 1);
    text.push_str(parent);
    escape_into(&mut text, key);
    text.push('/');
    text.into()
}

/// Returns the path of the n-th scope with the same key, where a key may occur more than once.
///
/// ```
/// use outlive_core::workflow::numbered_scope;
/// assert_eq!(&*numbered_scope("", "orders", 1), "orders/");
/// assert_eq!(&*numbered_scope("", "orders", 2), "orders#2/");
/// ```
#[must_use]
pub fn numbered_scope(parent: &str, key: &str, occurrence: u32) -> Arc<str> {
    if occurrence <= 1 {
        return scope(parent, key);
    }
    let mut text = String::from(parent);
    escape_into(&mut text, key);
    text.push_str(&format!("#{occurrence}/"));
    text.into()
}

fn escape_into(text: &mut String, part: &str) {
    if part.is_empty() {
        return text.push_str("%-");
    }
    if !part.bytes().any(|byte| matches!(byte, b'/' | b'[' | b']' | b'#' | b'%')) {
        text.push_str(part);
        return;
    }
    for char in part.chars() {
        match char {
            '/' => text.push_str("%2F"),
            '[' => text.push_str("%5B"),
            ']' => text.push_str("%5D"),
            '#' => text.push_str("%23"),
            '%' => text.push_str("%25"),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_parts_never_produce_the_same_text() {
        let parts = ["", "-", "%-", "a", "a/b", "a[b]", "a#2", "%", "a%2F"];
        let mut seen = std::collections::BTreeSet::new();
        for scope_key in parts {
            for name in parts {
                for key in [None, Some("a"), Some("b]"), Some("a#2")] {
                    assert!(seen.insert(base(&scope("", scope_key), OpKind::Step, name, key)));
                }
            }
        }
    }

    #[test]
    fn undo_frees_the_number_that_the_call_took() {
        let mut identities = Identities::default();
        let plain: Arc<str> = "step:a".into();
        let first = identities.take(plain.clone());
        identities.undo(&first);
        assert_eq!(identities.take(plain).occurrence, 1);
    }
}
