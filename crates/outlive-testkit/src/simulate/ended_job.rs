//! The final state of the jobs of a world.

use std::collections::BTreeMap;

use outlive::{Payload, Timestamp};
use outlive_core::id::Name;
use outlive_core::job::Record;
use outlive_core::kind::JobKind;
use outlive_core::lifecycle::LifecycleRecord;
use outlive_core::queue::Dead;
use outlive_core::store::query::{FeedContent, FeedItem, Query};
use serde::de::DeserializeOwned;

use crate::words::last_lines;

use super::accepted::Acceptance;
use super::kept::{self, Kept, Since};
use super::lives::Life;
use super::plan::Sim;

/// Limit on the dead letters that are read.
const LETTERS_MAX: usize = 100_000;

/// The final state of a job instance.
///
/// ```
/// use outlive_testkit::simulate::EndedJob;
/// fn is_all_handled(mail: &EndedJob) -> bool {
///     mail.dead_letters.is_empty() && mail.lifecycle.iter().filter(|news| **news == "job executed").count() == mail.events.len()
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct EndedJob {
    /// Its record; `None` if the instance is gone.
    pub record: Option<Record>,
    /// Names of its lifecycle events, in order.
    pub lifecycle: Vec<&'static str>,
    /// Events that were accepted for it, by position.
    pub events: BTreeMap<u64, Payload>,
    /// Its dead letters, except for those that were retried.
    pub dead_letters: Vec<Dead>,
    /// The time of its next run.
    pub next_run: Option<Timestamp>,
}

impl EndedJob {
    /// Returns its state, if it has one that decodes as this type.
    ///
    /// ```
    /// # use outlive_testkit::simulate::EndedJob;
    /// fn total(counter: &EndedJob) -> u64 { counter.state().unwrap_or_default() }
    /// ```
    #[must_use]
    pub fn state<T: DeserializeOwned>(&self) -> Option<T> {
        self.record.as_ref()?.state.as_ref()?.decode().ok()
    }

    /// Returns the accepted events that decode as this type.
    ///
    /// ```
    /// # use outlive_testkit::simulate::EndedJob;
    /// fn total(mail: &EndedJob) -> u64 { mail.accepted::<u64>().iter().sum() }
    /// ```
    #[must_use]
    pub fn accepted<T: DeserializeOwned>(&self) -> Vec<T> {
        self.events.values().filter_map(|event| event.decode().ok()).collect()
    }

    /// Returns the dead letters that decode as this type; those of a debounce are batches.
    ///
    /// ```
    /// # use outlive_testkit::simulate::EndedJob;
    /// fn total(mail: &EndedJob) -> u64 { mail.dead::<u64>().iter().sum() }
    /// ```
    #[must_use]
    pub fn dead<T: DeserializeOwned>(&self) -> Vec<T> {
        self.dead_letters.iter().filter_map(|dead| dead.event.payload.decode().ok()).collect()
    }
}

/// Reads and checks the jobs of a world that is over: those of the plan, and all others that exist or existed.
pub(super) async fn look(
    store: &dyn Query,
    plan: &Sim,
    acceptance: &Acceptance,
    since: &Since,
) -> Result<BTreeMap<String, EndedJob>, String> {
    let all = kept::all(store).await?;
    let mut ids = plan.jobs();
    if let Some(problem) = all.iter().find_map(|kept| kept.problem(since)) {
        return Err(problem);
    }
    let mut kept: BTreeMap<Name, Kept> = all.into_iter().map(|kept| (kept.instance.id.clone(), kept)).collect();
    let feed = store.feed(0, usize::MAX >> 1).await.map_err(|error| error.to_string())?;
    ids.extend(kept.keys().cloned());
    ids.extend(feed.iter().filter(|item| JobKind::of(&item.id).is_some()).map(|item| item.id.clone()));
    let mut jobs = BTreeMap::new();
    for id in ids {
        let kept = kept.remove(&id);
        let dead = dead_letters(store, &id).await?;
        let lines: Vec<&FeedItem> = feed.iter().filter(|item| item.id == id).collect();
        let life = Life {
            id: &id,
            lines: &lines,
            kept: kept.as_ref(),
            dead: &dead,
            acceptance,
            skew_max_ms: plan.skew_max_ms,
        };
        life.check().map_err(|what| format!("{id}: {what}; its lifecycle events:{}", told(&lines)))?;
        jobs.insert(id.to_string(), ended(&id, kept, dead, &lines, acceptance));
    }
    Ok(jobs)
}

/// Formats lifecycle events, one line each.
fn told(lines: &[&FeedItem]) -> String {
    let line = |item: &&FeedItem| match &item.content {
        FeedContent::Lifecycle(LifecycleRecord { at, kind, attempt, detail }) => {
            let detail = detail.as_ref().map_or(String::new(), ToString::to_string);
            format!("    {} of {}: {at} {} {attempt} {detail}", item.number, item.num, kind.as_str())
        }
        other => format!("    {other:?}"),
    };
    let lines: Vec<String> = lines.iter().map(line).collect();
    format!("\n{}", last_lines(lines.iter().map(String::as_str)).trim_end())
}

fn ended(id: &Name, kept: Option<Kept>, dead: Vec<Dead>, lines: &[&FeedItem], acceptance: &Acceptance) -> EndedJob {
    let events = acceptance.events.iter().filter(|(_, accepted)| accepted.id == *id);
    let records = lines.iter().filter_map(|item| match &item.content {
        FeedContent::Lifecycle(record) => Some(record.kind.as_str()),
        _ => None,
    });
    EndedJob {
        lifecycle: records.collect(),
        events: events.map(|(pos, accepted)| (*pos, accepted.payload.clone())).collect(),
        dead_letters: dead,
        next_run: kept.as_ref().and_then(|kept| kept.instance.wake),
        record: kept.map(|kept| kept.record),
    }
}

async fn dead_letters(store: &dyn Query, id: &Name) -> Result<Vec<Dead>, String> {
    let all = store.dead(&JobKind::job_of(id), 0, LETTERS_MAX).await.map_err(|error| error.to_string())?;
    Ok(all.into_iter().filter(|dead| dead.id == *id).collect())
}
