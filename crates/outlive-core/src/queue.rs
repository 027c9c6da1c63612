//! Events on their way to the handlers of a job: pushed, queued and dead letters.

use std::collections::BTreeMap;

use crate::event::Event;
use crate::id::Name;
use crate::payload::Payload;
use crate::time::Timestamp;

/// Events for an instance of a job, which is created if it does not exist. They go into its inbox, in order, or into
/// its queue. Unless this process drives the instance, the same write makes it due. Refused if the instance has ended
/// or belongs to another job; a stuck instance keeps the events and is not woken.
#[derive(Clone, Debug)]
pub struct PushWrite {
    /// The receiving instance.
    pub id: Name,
    /// The name of the job with its kind, such as `task:orders`.
    pub job: Name,
    /// The events, in order.
    pub events: Vec<Event>,
    /// Where they are stored until they are taken.
    pub place: PushTarget,
    /// When they were accepted.
    pub at: Timestamp,
    /// The seed of the instance, if it is created.
    pub seed: u64,
    /// Random; distinguishes this push from an equal one when a reply was lost.
    pub token: u64,
}

/// Where pushed events are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PushTarget {
    /// In the inbox of the instance: handled in order, all of them in memory while it is driven.
    Inbox,
    /// In a queue that is read page by page, by priority, fairly between keys.
    Queue,
}

/// A change to an event in a queue.
#[derive(Clone, PartialEq, Debug)]
pub struct Moved {
    /// The position of the event.
    pub pos: u64,
    /// Its current spot.
    pub from: Spot,
    /// Its dedup key, which is released unless the event stays.
    pub key: Option<Name>,
    /// The updated event; `None` if it is done.
    pub to: Option<Event>,
}

/// The sort key of an event in a queue, so that the next events are found without scanning the rest.
///
/// ```
/// use outlive_core::event::Event;
/// use outlive_core::payload::Payload;
/// use outlive_core::queue::Spot;
///
/// let urgent = Event { priority: 5, ..Event::new(Payload::recorded("1")) };
/// assert!(Spot::of(&urgent) < Spot::of(&Event::new(Payload::recorded("2"))));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Spot {
    /// Smaller ranks come first; [`Spot::DELAYED`] for events that wait for a time.
    pub rank: i64,
    /// Events of one rank take turns by lane; for delayed events it is the due time.
    pub lane: String,
}

impl Spot {
    /// The rank of events that wait for a time.
    pub const DELAYED: i64 = i64::MAX;

    /// Returns the spot of an event.
    #[must_use]
    pub fn of(event: &Event) -> Self {
        match event.due {
            Some(due) => Self::delayed_until(due),
            None => {
                let lane = event.key.as_ref().map_or_else(String::new, ToString::to_string);
                Self { rank: Self::rank_of(event.priority), lane }
            }
        }
    }

    /// Returns the rank of a priority; never 0, which stands for the inbox.
    #[must_use]
    pub fn rank_of(priority: i32) -> i64 {
        1 + i64::from(i32::MAX) - i64::from(priority)
    }

    /// Returns the spot of events that wait until `due`.
    #[must_use]
    pub fn delayed_until(due: Timestamp) -> Self {
        Self { rank: Self::DELAYED, lane: format!("{:020}", due.as_millis().max(0)) }
    }

    /// Returns when an event at this spot wakes its instance: immediately, or at its due time.
    #[must_use]
    pub fn wake(&self) -> Timestamp {
        if self.rank == Self::DELAYED { self.due() } else { Timestamp::AT_ONCE }
    }

    /// Returns the due time of a delayed event.
    #[must_use]
    pub fn due(&self) -> Timestamp {
        Timestamp::from_millis(self.lane.parse().unwrap_or(0))
    }
}

/// A dead letter: an event, or a batch of events, that was given up.
#[derive(Clone, PartialEq, Debug)]
pub struct Dead {
    /// The position at which it was accepted, which identifies the dead letter.
    pub pos: u64,
    /// The name of the job with its kind.
    pub job: Name,
    /// The instance that received it.
    pub id: Name,
    /// When it was given up.
    pub at: Timestamp,
    /// The number of attempts.
    pub attempts: u32,
    /// The last failure, in the format of [`Failure::to_payload`](crate::failure::Failure::to_payload).
    pub failure: Payload,
    /// The event as it was accepted, or the batch.
    pub event: Event,
    /// Where it goes if it is retried.
    pub place: PushTarget,
}

/// A request to retry or discard dead letters.
#[derive(Clone, Debug)]
pub struct ResolveDeadLetters {
    /// The name of the job with its kind.
    pub job: Name,
    /// The dead letters to process.
    pub which: WhichDeadLetters,
    /// `true` to retry them as new events, `false` to discard them.
    pub is_retry: bool,
    /// When the request is made.
    pub at: Timestamp,
}

/// A selection of the dead letters of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhichDeadLetters {
    /// All dead letters of the job.
    All,
    /// The dead letter with this position.
    One(u64),
}

impl WhichDeadLetters {
    /// Returns `true` if the dead letter with this position is selected.
    #[must_use]
    pub fn has(self, pos: u64) -> bool {
        self == Self::All || self == Self::One(pos)
    }
}

/// A read of the next events of a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueRead {
    /// The current time: delayed events due by now are ready.
    pub now: Timestamp,
    /// The lane that had the last turn; the one after it is next.
    pub after: Option<String>,
    /// The maximum number of events; a store may return fewer of a long queue.
    pub limit: usize,
}

/// The next events of a queue.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct QueuePage {
    /// The ready events: by priority, with lanes taking turns, in order of arrival.
    pub events: Vec<Queued>,
    /// When the next delayed event is ready.
    pub next_due: Option<Timestamp>,
}

/// An event in a queue.
#[derive(Clone, PartialEq, Debug)]
pub struct Queued {
    /// Its position in order of arrival.
    pub pos: u64,
    /// Its spot in the queue.
    pub spot: Spot,
    /// When it was accepted.
    pub at: Timestamp,
    /// The event, or a description of the damage to its row.
    pub event: Result<Event, String>,
}

impl Queued {
    /// Returns its rank and lane for [`take_turns`]; a delayed event that is due ranks like any other of its priority.
    #[must_use]
    pub fn turn(&self) -> (i64, String) {
        match &self.event {
            Ok(event) => (Spot::rank_of(event.priority), event.key.as_ref().map_or_else(String::new, Name::to_string)),
            Err(_) => (self.spot.rank, self.spot.lane.clone()),
        }
    }
}

/// The number of events of a job, by place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Depth {
    /// Events in the queue, including delayed ones and those being handled.
    pub queued: u64,
    /// Delayed events.
    pub delayed: u64,
    /// Dead letters.
    pub dead: u64,
}

/// Returns up to `limit` items in turns: by rank, then one item of each lane in rotation, starting after the lane
/// `after`.
///
/// ```
/// use outlive_core::queue::take_turns;
/// let waiting = [(1, "a", 1), (1, "a", 2), (1, "b", 3), (0, "c", 4)];
/// let turns = take_turns(waiting.to_vec(), None, 3, |one| (one.0, one.1.to_owned()));
/// assert_eq!(turns.iter().map(|one| one.2).collect::<Vec<_>>(), [4, 1, 3]);
/// ```
pub fn take_turns<T>(ranked: Vec<T>, after: Option<&str>, limit: usize, place: impl Fn(&T) -> (i64, String)) -> Vec<T> {
    let mut lanes: BTreeMap<(i64, bool, String), u64> = BTreeMap::new();
    let mut turns: Vec<_> = ranked
        .into_iter()
        .map(|one| {
            let (rank, lane) = place(&one);
            // Lanes up to the one that had the last turn come after the others.
            let lane = (rank, after.is_some_and(|after| lane.as_str() <= after), lane);
            let nth = lanes.entry(lane.clone()).or_default();
            *nth += 1;
            ((lane.0, *nth, lane.1, lane.2), one)
        })
        .collect();
    turns.sort_by(|one, other| one.0.cmp(&other.0));
    turns.truncate(limit);
    turns.into_iter().map(|(_, one)| one).collect()
}
