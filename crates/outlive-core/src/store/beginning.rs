//! How the current journal of a run began: with its start, or with its last restart.

use crate::checksum::Sum;
use crate::journal::{Entry, EntryKind};
use crate::payload::Payload;
use crate::restart::RestartRecord;
use crate::store::query::Instance;
use crate::time::Timestamp;

/// What the current journal of a run began with: the start of the run, or its last restart.
#[derive(Clone, PartialEq, Debug)]
pub struct Beginning {
    /// The input.
    pub input: Payload,
    /// When it began.
    pub started_at: Timestamp,
    /// Which run it is, from 1.
    pub run_number: u32,
    /// The seed of its random streams, another one for each run.
    pub seed: u64,
}

impl Beginning {
    /// Returns how the run of an instance with this journal began.
    #[must_use]
    pub fn of(instance: &Instance, journal: &[Entry]) -> Self {
        // A damaged entry makes the run stuck when its machine is created.
        let first = journal.first().filter(|first| first.kind == EntryKind::Restarted);
        let restart = first.and_then(RestartRecord::of_entry).and_then(Result::ok);
        let run_number = first.map_or(1, |first| first.attempt);
        Self {
            input: restart.map_or_else(|| instance.input.clone(), |restart| restart.input),
            started_at: first.map_or(instance.started_at.unwrap_or(instance.created_at), |first| first.at),
            run_number,
            seed: seed_of_run(instance.seed, run_number),
        }
    }
}

/// Returns the seed of a run, given that of the first one.
fn seed_of_run(seed: u64, run_number: u32) -> u64 {
    if run_number <= 1 { seed } else { Sum::new().number(seed).number(run_number.into()).whole() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_a_seed_of_its_own() {
        let seeds: std::collections::BTreeSet<_> = (1..100).map(|number| seed_of_run(7, number)).collect();
        assert_eq!((seeds.len(), seed_of_run(7, 1)), (99, 7));
    }
}
