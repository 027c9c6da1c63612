//! Deliberate defects, enabled one at a time to check that the proofs catch them. Without the feature `mutants` all of
//! them are off and the compiler removes the branches.

/// Defines the enum of defects from a list of names and descriptions.
macro_rules! mutants {
    ($($(#[doc = $sentence:literal])+ $name:ident,)+) => {
        /// A deliberate defect and the promise of `GUARANTEES.md` that it breaks.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Mutant {
            $($(#[doc = $sentence])+ $name,)+
        }

        impl Mutant {
            /// All defects.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the name of the variant.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name)),+
                }
            }

            /// Returns the description: what is broken, and which promise that violates.
            #[must_use]
            pub fn sentence(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($sentence),+)),+
                }
                .trim()
            }
        }
    };
}

mutants! {
    // ---- the in-memory store ----
    /// A commit under a lost lease is accepted. Breaks P5.
    CommitUnfenced,
    /// A commit is accepted whatever its first sequence number is. Breaks P2.
    CommitUnnumbered,
    /// The entries of a commit are stored but its state is not. Breaks P1.
    CommitHalved,
    /// A message taken by a commit stays in the inbox. Breaks P4.
    TakenMessageStays,
    /// A message does not wake its receiver. Breaks P4.
    MessageWakesNobody,
    /// Dedup keys are ignored. Breaks P4.
    DedupIgnored,
    /// A message sent again after a lost reply is stored twice. Breaks P4.
    RepeatKeptTwice,
    /// A message to an ended run is accepted. Breaks P4.
    EndedTakesMessage,
    /// A run pauses or ends despite a message it has not seen. Breaks P4.
    PausePassesMessage,
    /// A new lease does not release the instances of the dead owner. Breaks P5.
    LeaseFreesNobody,
    /// A claim under a lost lease is accepted. Breaks P5.
    ClaimUnfenced,
    /// A claim does not record the new owner of the instance. Breaks P5.
    ClaimOwnsNothing,
    /// An instance is claimed before its start is due. Breaks P6.
    ClaimBeforeDue,
    /// A retried run loses its journal. Breaks P2.
    ReopenForgets,
    /// A run that makes progress is still blamed for crashes. Breaks P7.
    ProgressUncounted,
    /// A turn of a job is accepted whatever the number of its last lifecycle event is. Breaks P2.
    TurnUnnumbered,
    /// The messages of a refused turn are sent anyway. Breaks P1.
    RefusedTurnSends,
    /// A delayed event is ready before its time. Breaks P6.
    DelayIgnored,
    /// The lanes of a queue do not take turns: the first is emptied before the next. Breaks P4.
    LanesUnfair,

    // ---- the SQLite store ----
    /// SQLite: a write under a lost lease is accepted. Breaks P5.
    SqliteUnfenced,
    /// SQLite: the entries of a commit are stored but its state is not. Breaks P1.
    SqliteHalved,
    /// SQLite: a run pauses or ends despite a message it has not seen. Breaks P4.
    SqlitePassesMessage,
    /// SQLite: dedup keys are ignored. Breaks P4.
    SqliteDedupIgnored,
    /// SQLite: a message does not wake its receiver. Breaks P4.
    SqliteWakesNobody,
    /// SQLite: a new lease does not release the instances of the dead owner. Breaks P5.
    SqliteFreesNobody,
    /// SQLite: the last assigned numbers are not stored, so they are assigned again. Breaks P4.
    SqliteMarksUnkept,
    /// SQLite: cached state is trusted although another process has written. Breaks P4.
    SqliteStaleMemory,
    /// SQLite: a push sent again after a lost reply is stored twice. Breaks P4.
    SqlitePushKeptTwice,
    /// SQLite: the messages of a refused turn are sent anyway. Breaks P1.
    SqliteRefusedTurnSends,
    /// SQLite: an instance released by a turn misses unseen events in its queue or sent to itself. Breaks P4.
    SqliteTurnPassesItself,

    // ---- the workflow machine ----
    /// All available outcomes are delivered in one poll. Breaks P3.
    DeliverTwo,
    /// An operation is ready although another one is current. Breaks P3.
    ReadyBesides,
    /// Outcomes are numbered on arrival but delivered in another order. Breaks P3.
    NumberAtArrival,
    /// A replay delivers in call order instead of journal order. Breaks P3.
    ReplayAsAsked,
    /// Polls skipped by a replay are not made up for, so a join starts with another branch. Breaks P3.
    PollsUncounted,
    /// A step body starts in the middle of a replay. Breaks P3.
    BodyBeforeFrontier,
    /// An outcome is delivered before it is durable. Breaks P1.
    DeliverUndurable,
    /// The recorded outcome of a step is ignored. Breaks P2.
    RecordIgnored,
    /// A replay forgets the failure of a step. Breaks P2.
    FailureForgotten,
    /// A replay forgets that the fallback was taken. Breaks P2.
    FallbackForgotten,
    /// Failed attempts are not counted: every attempt is the first. Breaks P2.
    AttemptsUncounted,
    /// All calls with the same name share one record and one key. Breaks P2.
    OccurrencesShared,
    /// The idempotency key of an attempt is the key of the run. Breaks P2.
    KeyShared,
    /// An at-most-once step starts before its start is durable. Breaks P2.
    OnceUnrecorded,
    /// An at-most-once step is resumed like any other step. Breaks P2.
    OnceResumed,
    /// A sleep starts over after a restart. Breaks P6.
    SleepRearmed,
    /// The timeout of a wait starts over after a restart. Breaks P6.
    WaitRearmed,
    /// The timeout of an attempt starts over after a restart. Breaks P6.
    TimeoutRearmed,
    /// A retry runs immediately after a restart, whenever it was due. Breaks P6.
    RetryEarly,
    /// Timers fire a second early. Breaks P6.
    TimerEarly,
    /// A signal taken by a wait that lost its race is lost. Breaks P4.
    SignalNotGivenBack,
    /// The newest signal of a name is consumed first. Breaks P4.
    SignalsLastFirst,
    /// A message received twice counts twice. Breaks P4.
    MessageTwice,
    /// A replay forgets an accepted cancel. Breaks P3.
    CancelForgotten,

    // ---- the engine ----
    /// Entries are acknowledged as durable before they are written. Breaks P1.
    AckBeforeWrite,
    /// A write with an unknown outcome counts as done. Breaks P1.
    UnknownIsDone,
    /// A write with an unknown outcome counts as not done. Breaks P5.
    UnknownIsRefused,
    /// A write the store could not accept is not retried. Breaks P1.
    RefusedIsDropped,
    /// A write the store could not accept is retried after later writes. Breaks P1.
    RefusedIsReordered,
    /// A run treats a fenced commit as done. Breaks P5.
    FencedIsDone,
    /// A run ends despite a message it has not seen. Breaks P4.
    EndPassesMessage,
    /// A cancel that is pending when the code ends is not taken. Breaks P4.
    LastCancelDropped,
    /// A message is taken although an earlier one is missing. Breaks P4.
    GapIgnored,
    /// The wake of a paused run is forgotten. Breaks P6.
    WakeForgotten,
    /// The timer of a run with a running step body is not set. Breaks P6.
    TimerUnset,
    /// A claimed run that is already resident is loaded a second time. Breaks P5.
    BroughtInTwice,
    /// An engine drives a run that it started after losing its lease. Breaks P5.
    DrivenUnleased,
    /// A run leaves memory while one of its step bodies is running. Breaks P2.
    EvictedAtWork,
    /// A run pauses while one of its step bodies is running. Breaks P2.
    PausedAtWork,
    /// The random numbers of a run do not come from its seed. Breaks P3.
    RandomUnseeded,
    /// A run sees the clock of the machine instead of the time of its last delivery. Breaks P3.
    TimeUnrecorded,
}

#[cfg(feature = "mutants")]
static CHOSEN: std::sync::OnceLock<Mutant> = std::sync::OnceLock::new();

/// Enables one defect until the process ends. Returns `false` if no defect has that name or another one is already
/// enabled.
#[cfg(feature = "mutants")]
pub fn set(name: &str) -> bool {
    let found = Mutant::ALL.iter().find(|mutant| mutant.name() == name);
    found.is_some_and(|mutant| CHOSEN.set(*mutant).is_ok())
}

/// Returns `true` if this defect is enabled.
#[cfg(feature = "mutants")]
#[must_use]
pub fn is_on(mutant: Mutant) -> bool {
    CHOSEN.get() == Some(&mutant)
}

/// Always returns `false`: without the feature `mutants`, no defect can be enabled.
#[cfg(not(feature = "mutants"))]
#[must_use]
pub const fn is_on(_: Mutant) -> bool {
    false
}
