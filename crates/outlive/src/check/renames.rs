//! Detects renames: a copy is given the old record under the new name, and if it gets further, the rename is believed.

use std::sync::Arc;

use outlive_core::workflow::Asked;

use super::original::{Original, ReachedFrontier, operation};
use super::verdict::{Operation, Rename};
use crate::instance::resident::Guesses;
use outlive_core::workflow::{ParsedIdentity, unescaped};

/// The maximum number of renames in one run.
const RENAMES_MAX: usize = 16;

/// Finds what seems to be renamed, one after the other: what comes after a new name is only seen with the old record.
///
/// Returns nothing unless all of it fits: the copy gets to where the run is, or to its end, with every new name
/// explained, and no other record of the kind is left that could be meant as well.
pub(super) fn find(original: &Original<'_>, first: &ReachedFrontier) -> Vec<Rename> {
    let (mut renames, mut guesses, mut frontier) = (Vec::<Rename>::new(), Guesses::new(), first.clone());
    while renames.len() < RENAMES_MAX {
        let Some((rename, tried, next)) = one_more(original, &frontier, &guesses) else { break };
        renames.push(rename);
        (guesses, frontier) = (tried, next);
        let are_waits = frontier.unrecorded.iter().all(|asked| asked.kind.is_wait());
        if frontier.unrecorded.is_empty() || (are_waits && original.is_quiet()) {
            let kind = |operation: &Operation| ParsedIdentity::of(&operation.name).kind.to_owned();
            let is_other = |orphan: &Operation| renames.iter().any(|rename| kind(&rename.from) == kind(orphan));
            return if frontier.orphans.iter().any(is_other) { Vec::new() } else { renames };
        }
    }
    Vec::new()
}

/// Finds one more rename; returns it with the guesses made so far and where the copy then is.
fn one_more(
    original: &Original<'_>,
    frontier: &ReachedFrontier,
    guesses: &Guesses,
) -> Option<(Rename, Guesses, ReachedFrontier)> {
    frontier.last.iter().find_map(|asked| {
        let orphan = candidate(asked, &frontier.orphans)?;
        let old = old_base(asked, orphan)?;
        let mut tried = guesses.clone();
        tried.insert(asked.base.clone(), old);
        let copy = original.replay(tried.clone()).ok()?;
        if let Some(end) = copy.end.as_ref().filter(|_| !copy.is_ahead) {
            original.ended(&copy, end).ok()?;
        }
        let next = original.frontier(&copy).ok()?;
        (next.orphans.len() < frontier.orphans.len()).then(|| (rename(asked, orphan), tried, next))
    })
}

/// Returns the record that an operation would have: of the same kind, and if possible of the same scope or name; the
/// earliest, unless one was called on the very same line.
fn candidate<'a>(asked: &Asked, orphans: &'a [Operation]) -> Option<&'a Operation> {
    let new = ParsedIdentity::of(&asked.op);
    let alike = |is_alike: &dyn Fn(ParsedIdentity<'_>) -> bool| -> Option<&'a Operation> {
        let fitting = || orphans.iter().filter(|orphan| is_alike(ParsedIdentity::of(&orphan.name)));
        fitting().find(|orphan| *orphan.site == *asked.site).or_else(|| fitting().next())
    };
    alike(&|old| old.kind == new.kind && old.scope == new.scope)
        .or_else(|| alike(&|old| old.kind == new.kind && old.name == new.name))
        .or_else(|| alike(&|old| old.kind == new.kind))
}

/// Returns the identity that an operation would have had, without the count.
fn old_base(asked: &Asked, orphan: &Operation) -> Option<Arc<str>> {
    let (new, old) = (ParsedIdentity::of(&asked.op), ParsedIdentity::of(&orphan.name));
    match (new.count, old.count) {
        (new, old_count) if new == old_count => Some(old.base.into()),
        (1, _) => Some((*orphan.name).into()),
        _ => None,
    }
}

fn rename(asked: &Asked, orphan: &Operation) -> Rename {
    let (new, old) = (ParsedIdentity::of(&asked.op), ParsedIdentity::of(&orphan.name));
    let is_name_alone = old.kind == "step:" && (new.scope, new.key, new.count) == (old.scope, old.key, old.count);
    Rename { from: orphan.clone(), to: operation(asked), was: is_name_alone.then(|| unescaped(old.name)) }
}
