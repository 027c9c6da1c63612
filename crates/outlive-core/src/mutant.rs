//! Defects that are put in on purpose, one at a time, to see that the proofs find them. Without the feature `mutants`
//! there is none, and the compiler leaves out the places where they would be.

/// Lists the defects, and says of each what is broken.
macro_rules! mutants {
    ($($(#[doc = $sentence:literal])+ $name:ident,)+) => {
        /// A defect, and the promise of `GUARANTEES.md` that it breaks.
        ///
        /// ```
        /// use outlive_core::mutant::{Mutant, is_on};
        /// assert!(!is_on(Mutant::CommitUnfenced), "none is on unless somebody asks for it");
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Mutant {
            $($(#[doc = $sentence])+ $name,)+
        }

        impl Mutant {
            /// All of them.
            ///
            /// ```
            /// use outlive_core::mutant::Mutant;
            /// assert!(Mutant::ALL.contains(&Mutant::CommitUnfenced));
            /// ```
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Its name.
            ///
            /// ```
            /// # use outlive_core::mutant::Mutant;
            /// assert_eq!(Mutant::CommitUnfenced.name(), "CommitUnfenced");
            /// ```
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name)),+
                }
            }

            /// What is broken.
            ///
            /// ```
            /// # use outlive_core::mutant::Mutant;
            /// assert_eq!(Mutant::CommitUnfenced.sentence(), "A commit of a lost lease is taken. Breaks P5.");
            /// ```
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
    // ---- the store in memory ----
    /// A commit of a lost lease is taken. Breaks P5.
    CommitUnfenced,
    /// A commit is taken wherever its numbers begin. Breaks P2.
    CommitUnnumbered,
    /// The entries of a commit are kept, the state is not. Breaks P1.
    CommitHalved,
    /// A message that a commit takes stays in the inbox. Breaks P4.
    TakenMessageStays,
    /// A message wakes nobody. Breaks P4.
    MessageWakesNobody,
    /// A dedup key is not looked at. Breaks P4.
    DedupIgnored,
    /// The same message again, after a lost answer, is kept twice. Breaks P4.
    RepeatKeptTwice,
    /// A message to a run that has ended is accepted. Breaks P4.
    EndedTakesMessage,
    /// A pause or an end passes a message that the run has not seen. Breaks P4.
    PausePassesMessage,
    /// A new lease leaves what the dead one drove to the dead. Breaks P5.
    LeaseFreesNobody,
    /// A claim of a lost lease is taken. Breaks P5.
    ClaimUnfenced,
    /// Who claims an instance is not written down as its owner. Breaks P5.
    ClaimOwnsNothing,
    /// An instance is claimed before its start is due. Breaks P6.
    ClaimBeforeDue,
    /// A retried run loses its journal. Breaks P2.
    ReopenForgets,
    /// A run that gets on is blamed for crashes all the same. Breaks P7.
    ProgressUncounted,
    /// A turn of a job is taken whatever was told before it. Breaks P2.
    TurnUnnumbered,
    /// What a turn has sent stays though the turn is refused. Breaks P1.
    RefusedTurnSends,
    /// An event that waits for a time is ready before it. Breaks P6.
    DelayIgnored,
    /// Lanes of a queue do not take turns: the first is emptied before the next. Breaks P4.
    LanesUnfair,

    // ---- the store on SQLite ----
    /// SQLite: a write of a lost lease is taken. Breaks P5.
    SqliteUnfenced,
    /// SQLite: the entries of a commit are kept, the state is not. Breaks P1.
    SqliteHalved,
    /// SQLite: a pause or an end passes a message that the run has not seen. Breaks P4.
    SqlitePassesMessage,
    /// SQLite: a dedup key is not looked at. Breaks P4.
    SqliteDedupIgnored,
    /// SQLite: a message wakes nobody. Breaks P4.
    SqliteWakesNobody,
    /// SQLite: a new lease leaves what the dead one drove to the dead. Breaks P5.
    SqliteFreesNobody,
    /// SQLite: the numbers given last are not kept, and are given again. Breaks P4.
    SqliteMarksUnkept,
    /// SQLite: what is remembered of the file counts though another process has written. Breaks P4.
    SqliteStaleMemory,
    /// SQLite: the same push again, after a lost answer, is kept twice. Breaks P4.
    SqlitePushKeptTwice,
    /// SQLite: what a turn has sent stays though the turn is refused. Breaks P1.
    SqliteRefusedTurnSends,
    /// SQLite: what a turn has not seen, in its queue or sent to itself, is passed by when it leaves. Breaks P4.
    SqliteTurnPassesItself,

    // ---- the machine ----
    /// All outcomes that are there are handed over in one poll. Breaks P3.
    DeliverTwo,
    /// An operation is ready though another one is the current. Breaks P3.
    ReadyBesides,
    /// Outcomes are numbered as they arrive and handed over in another order. Breaks P3.
    NumberAtArrival,
    /// A replay hands over in the order of asking, not of the journal. Breaks P3.
    ReplayAsAsked,
    /// Polls that a replay does not make are not made up for, so that a join begins with another branch. Breaks P3.
    PollsUncounted,
    /// A body begins in the middle of a replay. Breaks P3.
    BodyBeforeFrontier,
    /// An outcome is handed over before it is durable. Breaks P1.
    DeliverUndurable,
    /// What is recorded of a step is not looked at. Breaks P2.
    RecordIgnored,
    /// A failure of a step is forgotten in a replay. Breaks P2.
    FailureForgotten,
    /// That the fallback was taken is forgotten in a replay. Breaks P2.
    FallbackForgotten,
    /// Failed attempts are not counted, all are the first. Breaks P2.
    AttemptsUncounted,
    /// All calls of one name share one record and one key. Breaks P2.
    OccurrencesShared,
    /// The idempotency key of an attempt is that of the run. Breaks P2.
    KeyShared,
    /// A step that may run once begins before its start is durable. Breaks P2.
    OnceUnrecorded,
    /// A step that may run once is resumed like any other. Breaks P2.
    OnceResumed,
    /// A sleep begins anew after a restart. Breaks P6.
    SleepRearmed,
    /// The time limit of a wait begins anew after a restart. Breaks P6.
    WaitRearmed,
    /// The time limit of an attempt begins anew after a restart. Breaks P6.
    TimeoutRearmed,
    /// A retry comes at once after a restart, whenever it was due. Breaks P6.
    RetryEarly,
    /// What is due at a time happens a second before it. Breaks P6.
    TimerEarly,
    /// A signal is gone with the wait that lost its race. Breaks P4.
    SignalNotGivenBack,
    /// The last signal of a name is the first to be consumed. Breaks P4.
    SignalsLastFirst,
    /// A message that comes twice counts twice. Breaks P4.
    MessageTwice,
    /// A cancel that was taken is forgotten in a replay. Breaks P3.
    CancelForgotten,

    // ---- the engine ----
    /// A run is told that its entries are durable before they are written. Breaks P1.
    AckBeforeWrite,
    /// A write whose fate is unknown counts as done. Breaks P1.
    UnknownIsDone,
    /// A write whose fate is unknown counts as not done. Breaks P5.
    UnknownIsRefused,
    /// What the store could not take is not tried again. Breaks P1.
    RefusedIsDropped,
    /// What the store could not take is tried again after what came later. Breaks P1.
    RefusedIsReordered,
    /// A run whose commit was fenced takes it for done. Breaks P5.
    FencedIsDone,
    /// The end of a run passes a message that it has not seen. Breaks P4.
    EndPassesMessage,
    /// A cancel that is there when the code ends is not taken. Breaks P4.
    LastCancelDropped,
    /// A message is taken though one before it is missing. Breaks P4.
    GapIgnored,
    /// A paused run is not remembered until its wake. Breaks P6.
    WakeForgotten,
    /// The timer of a run that has a body at work is not set. Breaks P6.
    TimerUnset,
    /// A claimed run that is in memory is brought in a second time. Breaks P5.
    BroughtInTwice,
    /// A run is driven by an engine that had lost its lease when it started it. Breaks P5.
    DrivenUnleased,
    /// A run leaves memory while a body of it is at work. Breaks P2.
    EvictedAtWork,
    /// A run pauses while a body of it is at work. Breaks P2.
    PausedAtWork,
    /// Random numbers of a run are not from its seed. Breaks P3.
    RandomUnseeded,
    /// A run is told the time of the machine, not of its last delivery. Breaks P3.
    TimeUnrecorded,
}

#[cfg(feature = "mutants")]
static CHOSEN: std::sync::OnceLock<Mutant> = std::sync::OnceLock::new();

/// Puts one defect in, until the process ends. Answers whether there is one of that name, and no other is in.
///
/// ```
/// assert!(!outlive_core::mutant::set("NoSuchDefect"));
/// ```
#[cfg(feature = "mutants")]
pub fn set(name: &str) -> bool {
    let found = Mutant::ALL.iter().find(|mutant| mutant.name() == name);
    found.is_some_and(|mutant| CHOSEN.set(*mutant).is_ok())
}

/// Whether this defect is in.
///
/// ```
/// use outlive_core::mutant::{Mutant, is_on};
/// assert!(!is_on(Mutant::SleepRearmed));
/// ```
#[cfg(feature = "mutants")]
#[must_use]
pub fn is_on(mutant: Mutant) -> bool {
    CHOSEN.get() == Some(&mutant)
}

/// Whether this defect is in: it is not.
///
/// ```
/// use outlive_core::mutant::{Mutant, is_on};
/// assert!(!is_on(Mutant::SleepRearmed));
/// ```
#[cfg(not(feature = "mutants"))]
#[must_use]
pub const fn is_on(_: Mutant) -> bool {
    false
}
