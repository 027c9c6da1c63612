//! What can happen next in a world.

use std::fmt;

use crate::random::Random;

/// What becomes of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// It is written, and answered.
    Done,
    /// It is written, and nobody knows.
    UnknownWritten,
    /// It is not written, and nobody knows.
    UnknownLost,
    /// It is not written, and the answer says so.
    Refused,
    /// The process dies before it is written.
    CrashBefore,
    /// The process dies when it is written.
    CrashAfter,
}

impl Fate {
    /// Those that nobody wants.
    pub(super) const FAULTS: [Self; 5] =
        [Self::UnknownWritten, Self::UnknownLost, Self::Refused, Self::CrashBefore, Self::CrashAfter];

    fn words(self) -> &'static str {
        match self {
            Self::Done => "is answered",
            Self::UnknownWritten => "has it written, and the answer is lost",
            Self::UnknownLost => "has nothing written, and the answer is lost",
            Self::Refused => "is refused",
            Self::CrashBefore => "dies before it is written",
            Self::CrashAfter => "dies when it is written",
        }
    }

    pub(super) fn is_written(self) -> bool {
        matches!(self, Self::Done | Self::UnknownWritten | Self::CrashAfter)
    }
}

/// What can happen next. Workers, bodies and acts go by their numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Move {
    /// What a worker asked first is answered.
    Answer(usize, Fate),
    Crash(usize),
    /// A worker takes the lease, whoever held it.
    Start(usize),
    /// The store does not answer a worker any more.
    Cut(usize),
    /// It does again.
    Mend(usize),
    /// A worker hears that somebody has written, whether that is so or not.
    Hint(usize),
    /// A body may begin.
    Open(usize),
    /// Somebody does something, by a worker's client or in another process.
    Act(usize, Option<usize>),
    /// Time passes.
    Time,
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(worker, fate) => write!(f, "worker {worker} {}", fate.words()),
            Self::Crash(worker) => write!(f, "worker {worker} crashes"),
            Self::Start(worker) => write!(f, "worker {worker} takes the lease"),
            Self::Cut(worker) => write!(f, "worker {worker} is cut off"),
            Self::Mend(worker) => write!(f, "worker {worker} is back"),
            Self::Hint(worker) => write!(f, "worker {worker} hears that somebody has written"),
            Self::Open(_) => write!(f, "a body begins"),
            Self::Act(act, Some(worker)) => write!(f, "somebody wants, by worker {worker}, wish {act}"),
            Self::Act(act, None) => write!(f, "somebody wants, in another process, wish {act}"),
            Self::Time => write!(f, "time may pass"),
        }
    }
}

/// One of them, by weight.
pub(super) fn pick(moves: &[(u64, Move)], random: &mut Random) -> Option<Move> {
    let sum: u64 = moves.iter().map(|(weight, _)| weight).sum();
    if sum == 0 {
        return None;
    }
    let mut left = random.next() % sum;
    for (weight, next) in moves {
        if left < *weight {
            return Some(*next);
        }
        left -= weight;
    }
    None
}
