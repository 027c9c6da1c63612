//! Progress of a run: what each of its branches waits for, from its row and its journal, in any process.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use outlive_core::failure::Failure;
use outlive_core::journal::{Entry, EntryKind, SentTo};
use outlive_core::status::Status;
use outlive_core::store::query::Instance;
use outlive_core::time::Timestamp;

use crate::runtime::awaited::{self, Awaited};
use outlive_core::workflow::{ParsedIdentity, unescaped};

/// The progress of a run, returned by [`Run::progress`](crate::Run::progress).
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive_testkit::TestEngine;
/// async fn approve(ctx: Ctx, _: ()) -> Result<String> {
///     Ok(ctx.wait("approval").timeout("3 days").await?)
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let test = TestEngine::new(|engine| engine.workflow("approve", approve)).await;
/// let run = test.start(approve, &()).await?;
/// # test.settle().await;
/// # test.advance("1 hour").await;
/// let progress = run.progress().await?;
/// assert_eq!(progress.to_string(), "waiting (approval, 2d 23h left)");
/// assert_eq!(progress.completed, 0);
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// The run's status.
    pub status: Status,
    /// What each branch waits for, in the order in which they are due. For a running run: the attempts recorded as
    /// begun, which are those of steps with a timeout, an earlier failed attempt or `at_most_once`.
    pub branches: Vec<Branch>,
    /// The last failure of an attempt, a step or a child.
    pub last_failure: Option<Failure>,
    /// The number of operations that have ended: steps, sleeps, waits, effects, and both the start and the end of each
    /// child.
    pub completed: usize,
    /// The undos of what the run has done, in the order in which they run if it fails or is cancelled.
    pub undos_left: Vec<String>,
    /// `true` if the run has failed or was cancelled, and undoes what it has done.
    pub is_unwinding: bool,
    /// When this was determined.
    pub at: Timestamp,
}

/// What one branch of a run waits for.
///
/// ```
/// use outlive::Branch;
/// fn is_for_people(branch: &Branch) -> bool {
///     matches!(branch, Branch::Signal { name, .. } if name == "approval")
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Branch {
    /// The end of a sleep.
    Sleep {
        /// The sleep's identity in the journal.
        operation: String,
        /// When the sleep ends.
        until: Timestamp,
    },
    /// A signal.
    Signal {
        /// The signal's name.
        name: String,
        /// When the wait times out, if it does.
        until: Option<Timestamp>,
    },
    /// The next attempt of a step.
    Retry {
        /// The step, as in [`completed_steps`](crate::Run::completed_steps).
        step: String,
        /// The number of the next attempt.
        attempt: u32,
        /// When the attempt is due.
        at: Timestamp,
    },
    /// The next attempt of a step, which was due and is held back by its [breaker](crate::Breaker) or its
    /// [retry budget](crate::RetryBudget).
    Held {
        /// The step, as in [`completed_steps`](crate::Run::completed_steps).
        step: String,
        /// The number of the next attempt.
        attempt: u32,
        /// When it is tried again.
        until: Timestamp,
        /// What holds it back, such as `breaker stripe is open`.
        reason: String,
    },
    /// An attempt of a step that has begun.
    Step {
        /// The step, as in [`completed_steps`](crate::Run::completed_steps).
        step: String,
        /// The number of the attempt.
        attempt: u32,
    },
    /// The end of a child.
    Child {
        /// The child's id.
        id: String,
    },
}

impl Progress {
    pub(super) fn of(instance: &Instance, journal: &[Entry], at: Timestamp) -> Self {
        let open = Open::of(journal);
        let status = instance.status;
        let (awaited, has_more) = awaited::read(status, instance.note.as_deref());
        let mut branches: Vec<_> = awaited.into_iter().filter_map(|one| open.branch(one, status)).collect();
        let is_unlisted = |branch: &Branch| !branches.contains(branch);
        let others: Vec<_> = match status {
            Status::Running => open.branches(at).filter(|branch| matches!(branch, Branch::Step { .. })).collect(),
            _ if status.is_idle() && has_more => open.branches(at).filter(is_unlisted).collect(),
            _ => Vec::new(),
        };
        branches.extend(others);
        branches.sort_by_key(|branch| branch.due().unwrap_or(Timestamp::MAX));
        let (undos_left, is_unwinding) = undos(journal);
        Self {
            status,
            branches,
            last_failure: journal.iter().rev().find_map(Entry::failure),
            completed: journal.iter().filter(|entry| entry.kind.is_outcome()).count(),
            undos_left,
            is_unwinding: is_unwinding && !status.is_ended(),
            at,
        }
    }

    /// Returns when something is due next: the end of a sleep, a wait's timeout, or a retry.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn nap(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.sleep("1 day").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("nap", nap)).await;
    /// # let run = test.start(nap, &()).await?;
    /// # test.settle().await;
    /// let progress = run.progress().await?;
    /// println!("resumes in {:?}", progress.next_at().map(|next| next.since(progress.at)));
    /// # assert_eq!(progress.next_at().unwrap().since(progress.at).as_secs(), 86_400);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn next_at(&self) -> Option<Timestamp> {
        self.branches.first().and_then(Branch::due)
    }

    /// Returns the attempt of the step that is running or due next.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn charge() -> Result<()> { Ok(()) }
    /// # async fn pay(ctx: Ctx, _: ()) -> Result<()> {
    /// #     Ok(ctx.step("charge", charge).retry(Retry::times(3).constant("12 seconds")).await?)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("pay", pay)).await;
    /// # test.fail_next("charge", "the bank is closed");
    /// # let run = test.start(pay, &()).await?;
    /// # test.settle().await;
    /// let progress = run.progress().await?;
    /// if progress.attempt() > Some(1) {
    ///     println!("retrying after {}", progress.last_failure.as_ref().unwrap());
    /// }
    /// # assert_eq!(progress.attempt(), Some(2));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn attempt(&self) -> Option<u32> {
        self.branches.iter().find_map(|branch| match branch {
            Branch::Retry { attempt, .. } | Branch::Held { attempt, .. } | Branch::Step { attempt, .. } => {
                Some(*attempt)
            }
            Branch::Sleep { .. } | Branch::Signal { .. } | Branch::Child { .. } => None,
        })
    }
}

impl fmt::Display for Progress {
    /// Writes the status with what is due first: `retrying (charge card, attempt 3 in 12 s)`, and how many undos are left
    /// while the run undoes what it has done.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self.status, self.branches.first(), self.at))?;
        if self.is_unwinding { write!(f, ", {} left to undo", self.undos_left.len()) } else { Ok(()) }
    }
}

impl Branch {
    fn due(&self) -> Option<Timestamp> {
        match self {
            Self::Sleep { until, .. } | Self::Held { until, .. } => Some(*until),
            Self::Signal { until, .. } => *until,
            Self::Retry { at, .. } => Some(*at),
            Self::Step { .. } | Self::Child { .. } => None,
        }
    }
}

/// Formats a status with what is due first, as far as the row says.
pub(super) fn status_text(status: Status, note: Option<&str>, now: Timestamp) -> String {
    let first = awaited::read(status, note).0.into_iter().next();
    let first = first.and_then(|one| Open::default().branch(one, status));
    text(status, first.as_ref(), now)
}

fn text(status: Status, first: Option<&Branch>, now: Timestamp) -> String {
    let word = status.as_str();
    match first {
        Some(Branch::Signal { name, until: Some(until) }) => format!("{word} ({name}, {} left)", left(*until, now)),
        Some(Branch::Signal { name, until: None }) => format!("{word} ({name})"),
        Some(Branch::Retry { step, attempt, at }) => {
            format!("{word} ({step}, attempt {attempt} in {})", left(*at, now))
        }
        Some(Branch::Held { step, attempt, until, reason }) => {
            format!("{word} ({step}, attempt {attempt} in {}: {reason})", left(*until, now))
        }
        Some(Branch::Step { step, attempt }) => format!("{word} ({step}, attempt {attempt})"),
        Some(Branch::Child { id }) => format!("{word} (child {id})"),
        Some(Branch::Sleep { .. }) | None => status.to_string(),
    }
}

/// Formats the time until a moment in the two largest units: `12 s`, `3m 20s`, `5h 10m`, `2d 23h`.
fn left(until: Timestamp, now: Timestamp) -> String {
    let left = if until > now { until.since(now) } else { Duration::ZERO };
    // Round up, so that the text never understates the time left.
    let seconds = left.as_secs() + u64::from(left.subsec_millis() > 0);
    let two = |large: u64, small: u64, units: [&str; 2]| match seconds % large / small {
        0 => format!("{}{}", seconds / large, units[0]),
        rest => format!("{}{} {rest}{}", seconds / large, units[0], units[1]),
    };
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => two(60, 1, ["m", "s"]),
        3_600..86_400 => two(3_600, 60, ["h", "m"]),
        _ => two(86_400, 3_600, ["d", "h"]),
    }
}

/// What has begun and not ended according to the journal.
#[derive(Default)]
struct Open<'a> {
    /// The operations, each with its last entry.
    entries: BTreeMap<Arc<str>, &'a Entry>,
    /// The ids of the children.
    children: BTreeSet<String>,
}

impl<'a> Open<'a> {
    fn of(journal: &'a [Entry]) -> Self {
        let mut open = Self::default();
        for entry in journal {
            open.follow_children(entry);
            match entry.kind {
                EntryKind::StepStarted
                | EntryKind::Heartbeat
                | EntryKind::AttemptFailed
                | EntryKind::FallingBack
                | EntryKind::SleepSet
                | EntryKind::WaitSet => open.entries.insert(entry.op.clone(), entry),
                kind if kind.is_outcome() => open.entries.remove(&entry.op),
                _ => None,
            };
        }
        open
    }

    fn follow_children(&mut self, entry: &Entry) {
        match entry.kind {
            EntryKind::Sent => self.children.extend(entry.sent_to().filter(SentTo::is_child).map(|to| to.id)),
            EntryKind::ChildEnded => drop(self.children.remove(&unescaped(ParsedIdentity::of(&entry.op).name))),
            _ => {}
        }
    }

    fn due(&self, op: Option<&String>) -> Option<Timestamp> {
        self.entries.get(op?.as_str())?.due
    }

    /// Returns the branch that the row names, with its time. The row has the time of what is due first.
    fn branch(&self, awaited: Awaited, status: Status) -> Option<Branch> {
        let until = status.until();
        Some(match awaited {
            Awaited::Sleep { op } => Branch::Sleep {
                until: self.due(op.as_ref()).or(until.filter(|_| matches!(status, Status::Sleeping { .. })))?,
                operation: op.or_else(|| self.sleep_until(until?)).unwrap_or_else(|| "sleep".to_owned()),
            },
            Awaited::Signal { name, op: None } => {
                Branch::Signal { name, until: until.filter(|_| matches!(status, Status::Waiting { .. })) }
            }
            Awaited::Signal { name, op } => Branch::Signal { name, until: self.due(op.as_ref()) },
            Awaited::Attempt { op, attempt } => {
                let at = self.due(Some(&op)).or(until.filter(|_| matches!(status, Status::Retrying { .. })))?;
                Branch::Retry { step: step_of(&op), attempt, at }
            }
            Awaited::Held { op, attempt, held } => {
                Branch::Held { step: step_of(&op), attempt, until: held.until, reason: held.reason }
            }
            Awaited::Child { id } => Branch::Child { id },
        })
    }

    /// Returns the sleep that ends at a moment.
    fn sleep_until(&self, until: Timestamp) -> Option<String> {
        let ends = |entry: &&&Entry| entry.kind == EntryKind::SleepSet && entry.due == Some(until);
        self.entries.values().filter(ends).max_by_key(|entry| entry.seq).map(|entry| entry.op.to_string())
    }

    /// Returns all open operations and children. One that lost a race stays open, because nothing is recorded about that.
    fn branches(&self, now: Timestamp) -> impl Iterator<Item = Branch> {
        let children = self.children.iter().map(|id| Branch::Child { id: id.clone() });
        let entries = self.entries.values().filter_map(move |entry| {
            let step = || step_of(&entry.op);
            Some(match entry.kind {
                EntryKind::StepStarted | EntryKind::Heartbeat | EntryKind::FallingBack => {
                    Branch::Step { step: step(), attempt: entry.attempt }
                }
                EntryKind::AttemptFailed => match entry.due? {
                    at if at > now => Branch::Retry { step: step(), attempt: entry.attempt + 1, at },
                    _ => Branch::Step { step: step(), attempt: entry.attempt + 1 },
                },
                EntryKind::SleepSet => Branch::Sleep { operation: entry.op.to_string(), until: entry.due? },
                _ => Branch::Signal { name: unescaped(ParsedIdentity::of(&entry.op).name), until: entry.due },
            })
        });
        entries.chain(children)
    }
}

/// Returns the undos that are left, last first, and whether the run undoes what it has done.
fn undos(journal: &[Entry]) -> (Vec<String>, bool) {
    let (mut planned, mut is_unwinding): (Vec<(&str, bool)>, _) = (Vec::new(), false);
    for entry in journal {
        match entry.kind {
            EntryKind::UndoPlanned => planned.push((&entry.op, false)),
            EntryKind::Unwinding => is_unwinding = true,
            EntryKind::Retried => is_unwinding = false,
            EntryKind::StepDone => {
                let base = ParsedIdentity::of(&entry.op).base;
                let done = planned.iter_mut().rev().find(|(op, _)| *op == base);
                done.into_iter().for_each(|(_, is_done)| *is_done = true);
            }
            _ => {}
        }
    }
    let left = planned.iter().rev().filter(|(_, is_done)| !is_done);
    (left.map(|(op, _)| step_of(op)).collect(), is_unwinding)
}

fn step_of(op: &str) -> String {
    op.replacen("step:", "", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_shown_in_two_units() {
        let table = [
            (-5, "0 s"),
            (1, "1 s"),
            (12_000, "12 s"),
            (59_001, "1m"),
            (200_000, "3m 20s"),
            (18_600_000, "5h 10m"),
            (255_600_000, "2d 23h"),
            (259_200_000, "3d"),
        ];
        for (millis, expected) in table {
            assert_eq!(left(Timestamp::from_millis(millis), Timestamp::from_millis(0)), expected);
        }
    }
}
