//! Replays parked runs after a deploy, and resumes those that the new code does not leave where they are.
//!
//! Each run is replayed once, without side effects. Otherwise a wait that was removed, or one that got a timeout, would
//! be noticed when the next signal comes, or never.

use std::sync::Arc;
use std::time::Duration;

use outlive_core::id::{InstanceNum, Name};
use outlive_core::message::{Inbound, Message};
use outlive_core::status::StatusKind;
use outlive_core::store::ErrorKind;
use outlive_core::store::beginning::Beginning;
use outlive_core::store::commit::Write;
use outlive_core::store::page::{whole_inbox, whole_journal};
use outlive_core::store::query::{Filter, Instance};
use outlive_core::workflow::{Asked, OpKind};

use super::Deploy;
use crate::error::Error;
use crate::instance::info::Info;
use crate::instance::panics;
use crate::runtime::replay;
use crate::runtime::services::RETRY;
use crate::runtime::stuck;
use outlive_core::workflow::{ParsedIdentity, unescaped};

/// How many parked runs are replayed before others get a turn, and for how long: a few thousand runs per second are
/// replayed, which takes a tenth of a core.
const PAGE: usize = 64;
const PAUSE: Duration = Duration::from_millis(20);
/// The mark under which the store keeps which code has replayed all parked runs.
const MARK: &str = "outlive:code";

/// Progress so far.
#[derive(Default)]
struct ParkedProgress {
    runs: u64,
    /// Those of them that resume.
    moved: u64,
}

impl Deploy {
    /// Replays all parked runs, unless this code has done so before.
    pub(crate) async fn look_at_parked(self, code: Option<u64>) {
        let Some(code) = code else { return };
        let mark = Name::recorded(MARK);
        let known = loop {
            match self.services.store.mark(Some(&mark)).await {
                Ok(known) => break known,
                Err(_) if self.services.committer.is_closed() => return,
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        };
        if known == Some(code) {
            return;
        }
        let mut seen = ParkedProgress::default();
        let mut kinds = [StatusKind::Waiting, StatusKind::Sleeping, StatusKind::Retrying].into_iter();
        let (mut kind, mut before) = (kinds.next(), None);
        while let Some(parked) = kind {
            match self.look_at_page(parked, before, &mut seen).await {
                Ok(next) => {
                    before = next;
                    match before {
                        Some(_) => tokio::time::sleep(PAUSE).await,
                        None => kind = kinds.next(),
                    }
                }
                Err(_) if self.services.committer.is_closed() => return,
                // The store is in trouble; this can wait until it is not.
                Err(error) => {
                    tracing::warn!("could not replay parked runs after a deploy, trying again: {error}");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
        if seen.runs > 0 {
            tracing::info!("the code has changed: replayed {} parked runs, {} of them resume", seen.runs, seen.moved);
        }
        // If this is not stored, the next process replays them again.
        let _ = self.services.committer.write(Write::Mark(mark, code)).await;
    }

    async fn look_at_page(
        &self,
        kind: StatusKind,
        before: Option<InstanceNum>,
        seen: &mut ParkedProgress,
    ) -> Result<Option<InstanceNum>, Error> {
        let page = self.services.store.list(&Filter::runs().status(kind), before, PAGE).await?;
        let mut moved = Vec::new();
        for instance in &page.instances {
            if self.services.committer.is_closed() {
                return Ok(None);
            }
            self.services.touch();
            if self.services.residency.mailbox(instance.num).is_some() {
                continue;
            }
            seen.runs += 1;
            if !self.stays_parked(instance).await? {
                moved.push(instance.num);
                self.services.due.add(instance.num);
            }
            tokio::task::yield_now().await;
        }
        seen.moved += moved.len() as u64;
        // Only memory knows that they are to resume, so this page is done once they have been claimed.
        while moved.iter().any(|num| self.services.due.has(*num)) && !self.services.committer.is_closed() {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(page.next)
    }

    /// Returns `true` if, with the current code, a run waits for nothing but what it waits for in the store.
    async fn stays_parked(&self, instance: &Instance) -> Result<bool, Error> {
        // A run whose workflow is not registered can wait until it is.
        let Some(registered) = self.registry.get(&instance.workflow) else { return Ok(true) };
        let journal = whole_journal(&*self.services.store, instance.num, 0).await;
        let inbox = whole_inbox(&*self.services.store, instance.num).await;
        let (journal, inbox) = match (journal, inbox) {
            (Ok(journal), Ok(inbox)) => (journal, inbox),
            // A damaged run becomes stuck when it is claimed.
            (Err(error), _) | (_, Err(error)) if error.kind == ErrorKind::Corrupt => return Ok(false),
            (Err(error), _) | (_, Err(error)) => return Err(error.into()),
        };
        let beginning = Beginning::of(instance, &journal);
        let info = Info::of(instance, &beginning);
        let Ok(resident) = replay::cell_of(info, self.services.env.clone(), &journal) else {
            return Ok(false);
        };
        let resident = Arc::new(resident);
        let replay = || replay::replay(&*registered.handler, &resident, &beginning.input, |_| false);
        let Ok(copy) = panics::quietly(replay) else { return Ok(false) };
        let state = copy.resident.lock();
        let is_in_trouble = state.machine.trouble().is_some()
            || registered.is_strict && stuck::strict(&state.machine, &replay::names(&copy.asked)).is_some();
        let stays = |asked: &Asked| stays(asked, &inbox);
        Ok(copy.end.is_none() && !is_in_trouble && !copy.asked.is_empty() && copy.asked.iter().all(stays))
    }
}

/// Returns `true` if an operation has gone as far as it can without time passing or a message.
fn stays(asked: &Asked, inbox: &[Inbound]) -> bool {
    if !asked.kind.is_wait() {
        return asked.is_recorded;
    }
    let awaited = unescaped(ParsedIdentity::of(&asked.op).name);
    let is_for_it = |inbound: &Inbound| match &inbound.message {
        Message::Signal { name, .. } => asked.kind == OpKind::Wait && name.as_str() == awaited,
        Message::ChildEnded { id, .. } => asked.kind == OpKind::Result && id.as_str() == awaited,
        _ => false,
    };
    (asked.is_recorded || !asked.has_timeout) && !inbox.iter().any(is_for_it)
}
