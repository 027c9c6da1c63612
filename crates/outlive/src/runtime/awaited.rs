//! The note in a paused run's row that says what the run waits for, written when it pauses and read in any process.

use outlive_core::status::Status;
#[cfg(feature = "tokio")]
use outlive_core::time::Timestamp;
use outlive_core::workflow::{Asked, HeldBack, Machine, OpKind, base};

/// How such a note starts.
const BEGIN: &str = "waits for ";
const MORE: &str = " and more";
const ATTEMPT: &str = "attempt ";
const OF: &str = " of ";
const SLEEP: &str = "the end of ";
const AT: &str = " at ";
const UNTIL: &str = " until ";
const AS: &str = " as ";
const CHILD: &str = "child ";
/// The most branches to write down at each pause. The journal has all of them.
const BRANCHES_MAX: usize = 16;

/// Returns the note of a run that pauses with this status. A single sleep needs none, as the status says it all.
pub(crate) fn note(machine: &Machine, status: Status) -> Option<String> {
    if machine.inbox().is_held() || (machine.operations().is_single() && status.as_str() == "sleeping") {
        return None;
    }
    let (awaited, has_more) = machine.pause().awaited(BRANCHES_MAX);
    let is_single = awaited.len() == 1;
    let parts: Vec<_> = awaited.iter().map(|asked| part(asked, is_single)).collect();
    (!parts.is_empty()).then(|| format!("{BEGIN}{}{}", parts.join(", "), if has_more { MORE } else { "" }))
}

fn part(asked: &Asked, is_single: bool) -> String {
    let op = quoted(&asked.op);
    if let Some(child) = &asked.child {
        return format!("{CHILD}{}", quoted(child.as_str()));
    }
    match (asked.kind, &asked.signal) {
        (OpKind::Step | OpKind::Undo, _) => {
            let held = |held: &HeldBack| {
                let (until, reason) = (held.until.as_millis(), quoted(&held.reason));
                format!("{UNTIL}{until}{AS}{reason}")
            };
            let held = asked.held.as_ref().map(held).unwrap_or_default();
            format!("{ATTEMPT}{}{OF}{op}{held}", asked.attempt)
        }
        (OpKind::Wait | OpKind::Question, Some(name)) => {
            let is_plain = is_single || asked.op == base("", OpKind::Wait, name.as_str(), None);
            let name = quoted(name.as_str());
            if is_plain { name } else { format!("{name}{AT}{op}") }
        }
        _ => format!("{SLEEP}{op}"),
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns `true` if a note says what a run waits for.
#[cfg(feature = "tokio")]
pub(crate) fn is_in(note: &str) -> bool {
    note.starts_with(BEGIN)
}

/// Something that a run waits for.
#[cfg(feature = "tokio")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Awaited {
    /// The end of a sleep, by its identity if there are other branches.
    Sleep { op: Option<String> },
    /// A signal, and the identity of the wait if there are other branches.
    Signal { name: String, op: Option<String> },
    /// An attempt of a step.
    Attempt { op: String, attempt: u32 },
    /// An attempt of a step that is held back.
    Held { op: String, attempt: u32, held: HeldBack },
    /// The outcome of a child, by its id.
    Child { id: String },
}

/// Reads what a paused run waits for from its row, and whether there is more.
#[cfg(feature = "tokio")]
pub(crate) fn read(status: Status, note: Option<&str>) -> (Vec<Awaited>, bool) {
    let note = note.and_then(|note| note.strip_prefix(BEGIN));
    match (status, note) {
        (Status::Sleeping { .. }, None) => (vec![Awaited::Sleep { op: None }], false),
        (Status::Sleeping { .. } | Status::Waiting { .. } | Status::Retrying { .. }, note) => {
            note.map_or((Vec::new(), true), parts)
        }
        _ => (Vec::new(), false),
    }
}

#[cfg(feature = "tokio")]
fn parts(mut rest: &str) -> (Vec<Awaited>, bool) {
    let mut found = Vec::new();
    while let Some(one) = next(&mut rest) {
        found.push(one);
        match rest.strip_prefix(", ") {
            Some(more) => rest = more,
            None => break,
        }
    }
    // The identity of a wait is useful only if there are other branches.
    if let [Awaited::Signal { op, .. }] = &mut found[..] {
        *op = None;
    }
    // What does not parse may be more.
    (found, !rest.is_empty())
}

#[cfg(feature = "tokio")]
fn next(rest: &mut &str) -> Option<Awaited> {
    if let Some(text) = rest.strip_prefix(ATTEMPT) {
        let (attempt, text) = text.split_once(OF)?;
        let attempt = attempt.parse().ok()?;
        *rest = text;
        let op = unquoted(rest)?;
        let Some(text) = rest.strip_prefix(UNTIL) else { return Some(Awaited::Attempt { op, attempt }) };
        let (until, text) = text.split_once(AS)?;
        let until = Timestamp::from_millis(until.parse().ok()?);
        *rest = text;
        return Some(Awaited::Held { op, attempt, held: HeldBack { until, reason: unquoted(rest)? } });
    }
    if let Some(text) = rest.strip_prefix(SLEEP) {
        *rest = text;
        return Some(Awaited::Sleep { op: Some(unquoted(rest)?) });
    }
    if let Some(text) = rest.strip_prefix(CHILD) {
        *rest = text;
        return Some(Awaited::Child { id: unquoted(rest)? });
    }
    let name = unquoted(rest)?;
    let op = match rest.strip_prefix(AT) {
        Some(text) => {
            *rest = text;
            unquoted(rest)?
        }
        None => base("", OpKind::Wait, &name, None).to_string(),
    };
    Some(Awaited::Signal { name, op: Some(op) })
}

/// Takes a quoted text from the front.
#[cfg(feature = "tokio")]
fn unquoted(rest: &mut &str) -> Option<String> {
    let mut texts = serde_json::Deserializer::from_str(rest).into_iter::<String>();
    let text = texts.next()?.ok()?;
    *rest = &rest[texts.byte_offset()..];
    Some(text)
}

#[cfg(all(test, feature = "tokio"))]
mod tests {
    use super::*;

    #[test]
    fn note_is_parsed_back() {
        let waiting = Status::Waiting { until: None };
        let note = concat!(
            r#"waits for "a, \"b\"", "paid" at "x/wait:paid#2", attempt 3 of "step:charge card", the end of "sleep#2", "#,
            r#"child "o-42/ship", attempt 1 of "step:pay" until 1500 as "breaker a, b is open""#
        );
        let (found, has_more) = read(waiting, Some(note));
        let signal = |name: &str, op: &str| Awaited::Signal { name: name.into(), op: Some(op.into()) };
        assert_eq!(found[0], signal("a, \"b\"", "wait:a, \"b\""));
        assert_eq!(found[1], signal("paid", "x/wait:paid#2"));
        assert_eq!(found[2], Awaited::Attempt { op: "step:charge card".into(), attempt: 3 });
        assert_eq!(found[3], Awaited::Sleep { op: Some("sleep#2".into()) });
        assert_eq!(found[4], Awaited::Child { id: "o-42/ship".into() });
        let held = HeldBack { until: Timestamp::from_millis(1_500), reason: "breaker a, b is open".into() };
        assert_eq!(found[5], Awaited::Held { op: "step:pay".into(), attempt: 1, held });
        assert_eq!((found.len(), has_more), (6, false));
        assert!(read(waiting, Some(&format!("{note} and more"))).1);
    }

    #[test]
    fn unrecognized_note_is_incomplete() {
        let waiting = Status::Waiting { until: None };
        for note in [None, Some("damaged"), Some("waits for attempt x of \"a\""), Some("waits for \"a")] {
            assert!(read(waiting, note).1, "{note:?}");
        }
        assert_eq!(read(Status::Running, Some("waits for \"a\"")), (Vec::new(), false));
    }
}
