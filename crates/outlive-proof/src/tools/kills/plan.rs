//! The plan of a client: blocks of operations that follow from the seed alone, so that a client's progress determines
//! what it did.

use serde::{Deserialize, Serialize};

/// The kind of a run; see the programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Kind {
    /// Steps that fail at first, with sleeps between them.
    Chain,
    /// A wait for each of several signals, and a step for each.
    Collect,
    /// Concurrent branches: steps, a sleep, a wait, and a map.
    Spread,
    /// A wait against a sleep; the loser of the race must not swallow the signal.
    Race,
    /// An at-most-once step.
    Once,
    /// Waits forever until it is cancelled, and then cleans up.
    Doomed,
}

impl Kind {
    const ALL: [Self; 6] = [Self::Chain, Self::Collect, Self::Spread, Self::Race, Self::Once, Self::Doomed];

    /// Returns the name of its workflow.
    pub(super) fn workflow(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Collect => "collect",
            Self::Spread => "spread",
            Self::Race => "race",
            Self::Once => "once",
            Self::Doomed => "doomed",
        }
    }
}

/// The input of a run, which determines everything it does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Input {
    pub(super) kind: Kind,
    /// Amount of work.
    pub(super) n: u64,
    pub(super) salt: u64,
}

impl Input {
    /// Returns its `i`th value.
    pub(super) fn value(self, i: u64) -> u64 {
        mix(self.salt ^ mix(i)) % 1_000
    }

    /// Returns how many signals it waits for.
    pub(super) fn signals(self) -> u64 {
        match self.kind {
            Kind::Collect => self.n,
            Kind::Spread | Kind::Race => 1,
            Kind::Chain | Kind::Once | Kind::Doomed => 0,
        }
    }

    /// Returns the result it must have if it completes, computed without a workflow; `None` if that depends on the
    /// kills.
    pub(super) fn result(self) -> Option<serde_json::Value> {
        let sum = |range: std::ops::Range<u64>| range.map(|i| self.value(i)).sum::<u64>();
        match self.kind {
            Kind::Chain => Some(sum(0..self.n).into()),
            Kind::Collect => Some((0..self.n).map(|i| self.value(i)).collect()),
            Kind::Spread => Some((self.value(0) + sum(100..102) + sum(200..200 + self.n)).into()),
            Kind::Race => Some(self.value(0).into()),
            Kind::Once | Kind::Doomed => None,
        }
    }
}

/// An operation that a client requests. All can be repeated if the reply was lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Op {
    Start { id: String, input: Input },
    Signal { id: String, nth: u64, value: u64 },
    Cancel { id: String },
}

/// The progress of a client: everything before this operation of this block is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Progress {
    pub(super) block: u64,
    pub(super) index: usize,
}

/// Number of runs a block starts.
const RUNS: u64 = 6;
/// One in this many runs is cancelled although it would end by itself.
const CANCELLED: u64 = 8;

/// Returns the operations of a block: in order for each run, with the runs interleaved.
pub(super) fn block(seed: u64, client: usize, block: u64) -> Vec<Op> {
    let mut chance = Chance(mix(seed ^ mix(client as u64 + 1) ^ mix(block.wrapping_mul(7_919))));
    let mut runs: Vec<std::vec::IntoIter<Op>> =
        (0..RUNS).map(|run| operations(&mut chance, format!("c{client}-{block}-{run}")).into_iter()).collect();
    let mut ops = Vec::new();
    while !runs.is_empty() {
        let at = chance.below(runs.len() as u64);
        let at = usize::try_from(at).unwrap_or(0);
        match runs[at].next() {
            Some(op) => ops.push(op),
            None => drop(runs.swap_remove(at)),
        }
    }
    ops
}

fn operations(chance: &mut Chance, id: String) -> Vec<Op> {
    let kind = Kind::ALL[usize::try_from(chance.below(Kind::ALL.len() as u64)).unwrap_or(0)];
    let input = Input { kind, n: 2 + chance.below(4), salt: chance.next() };
    let mut ops = vec![Op::Start { id: id.clone(), input }];
    ops.extend((0..input.signals()).map(|nth| Op::Signal { id: id.clone(), nth, value: input.value(nth) }));
    if kind == Kind::Doomed || chance.below(CANCELLED) == 0 {
        let at = 1 + usize::try_from(chance.below(ops.len() as u64)).unwrap_or(0);
        ops.insert(at, Op::Cancel { id });
    }
    ops
}

/// Seeded random numbers.
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

/// Scrambles a number (splitmix64).
pub(super) fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}
