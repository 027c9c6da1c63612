//! The moves that can happen next in a world.

use std::fmt;

use crate::random::Random;

/// The outcome of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// Written, with a reply.
    Done,
    /// Written, but the reply is lost.
    UnknownWritten,
    /// Not written, and the reply is lost.
    UnknownLost,
    /// Not written, and the reply says so.
    Refused,
    /// The process dies before the write.
    CrashBefore,
    /// The process dies after the write.
    CrashAfter,
}

impl Fate {
    /// The fates that are faults.
    pub(super) const FAULTS: [Self; 5] =
        [Self::UnknownWritten, Self::UnknownLost, Self::Refused, Self::CrashBefore, Self::CrashAfter];

    fn words(self) -> &'static str {
        match self {
            Self::Done => "gets its reply",
            Self::UnknownWritten => "writes, but loses the reply",
            Self::UnknownLost => "writes nothing, and loses the reply",
            Self::Refused => "is refused",
            Self::CrashBefore => "dies before its write",
            Self::CrashAfter => "dies after its write",
        }
    }

    pub(super) fn is_written(self) -> bool {
        matches!(self, Self::Done | Self::UnknownWritten | Self::CrashAfter)
    }
}

/// A move. Workers, bodies and actions are given by number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Move {
    /// A worker's first pending call gets its reply.
    Answer(usize, Fate),
    Crash(usize),
    /// A worker takes the lease, whether or not another one holds it.
    Start(usize),
    /// The store stops replying to a worker.
    Cut(usize),
    /// The store replies to a worker again.
    Mend(usize),
    /// A worker is notified that another process has written, whether or not that is so.
    Hint(usize),
    /// A step body may begin.
    Open(usize),
    /// An action happens, through a worker's client or from another process.
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
            Self::Hint(worker) => write!(f, "worker {worker} is notified of a write"),
            Self::Open(_) => write!(f, "a step body begins"),
            Self::Act(act, Some(worker)) => write!(f, "action {act} through worker {worker}"),
            Self::Act(act, None) => write!(f, "action {act} from another process"),
            Self::Time => write!(f, "time may pass"),
        }
    }
}

/// Picks one of the moves, by weight.
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
