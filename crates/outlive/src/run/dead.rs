//! Dead letters of a run: signals that did not deserialize as what the run waited for.

use outlive_core::id::Name;
use outlive_core::journal::Entry;
use outlive_core::message::Message;
use outlive_core::payload::Payload;
use outlive_core::restart::dead_letters;
use outlive_core::time::Timestamp;

use super::{Run, send};
use crate::error::Error;
use outlive_core::workflow::{ParsedIdentity, unescaped};

/// A signal that did not deserialize as what the run waited for, and was refused so that the wait could continue.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive_testkit::TestEngine;
/// # async fn approve(ctx: Ctx, _: ()) -> Result<bool> { Ok(ctx.wait("approval").await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let test = TestEngine::new(|engine| engine.workflow("approve", approve)).await;
/// let run = test.start(approve, &()).await?;
/// run.signal("approval", "yes").await?; // the run waits for a boolean
/// # test.settle().await;
/// let dead = run.dead_signals().await?;
/// assert_eq!((dead[0].name.as_str(), dead[0].value.as_str()), ("approval", "\"yes\""));
/// run.signal("approval", &true).await?;
/// assert!(test.result(&run).await?);
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DeadSignal {
    /// The `seq` of the journal entry that refused it.
    pub seq: u64,
    /// The signal's name.
    pub name: String,
    /// The value that was sent, as JSON.
    pub value: Payload,
    /// Why it does not deserialize as what the run waited for.
    pub problem: String,
    /// When it was refused.
    pub at: Timestamp,
}

impl DeadSignal {
    fn of(entry: &Entry) -> Option<Self> {
        let refused = entry.refused()?;
        let name = unescaped(ParsedIdentity::of(&entry.op).name);
        Some(Self { seq: entry.seq, name, value: refused.value, problem: refused.problem, at: entry.at })
    }
}

impl<O> Run<O> {
    /// Returns the run's dead letters, without those that were discarded.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// let run = engine.start(double, &21).await?;
    /// assert!(run.dead_signals().await?.is_empty());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Same as [`journal`](Self::journal).
    pub async fn dead_signals(&self) -> Result<Vec<DeadSignal>, Error> {
        Ok(dead_letters(&self.journal().await?).iter().filter_map(DeadSignal::of).collect())
    }

    /// Sends a dead letter to the run again, as the original signal. Call it once the code that reads it is fixed.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn strict(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.wait("n").await?) }
    /// # async fn lenient(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.wait::<String>("n").await?.parse()?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let mut test = TestEngine::new(|engine| engine.workflow("w", strict)).await;
    /// let run = test.start(strict, &()).id("r").await?;
    /// run.signal("n", "42").await?; // the run waits for a number
    /// # test.settle().await;
    /// test.deploy(|engine| engine.workflow("w", lenient)).await; // now it reads strings
    /// let run: Run<u32> = test.get_run("r").await?;
    /// for dead in run.dead_signals().await? {
    ///     run.retry_dead_signal(dead.seq).await?;
    /// }
    /// assert_eq!(test.result(&run).await?, 42);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Same as [`discard_dead_signal`](Self::discard_dead_signal).
    pub async fn retry_dead_signal(&self, seq: u64) -> Result<(), Error> {
        let dead = self.dead_signal(seq).await?;
        let message = Message::Signal { name: Name::recorded(&dead.name), payload: dead.value };
        // With this key, calling it twice sends the signal once.
        let dedup = Name::recorded(&format!("dead letter {seq}"));
        send(&self.shared, &self.id, self.num, message, Some(dedup)).await?;
        match send(&self.shared, &self.id, self.num, Message::Discard { seq }, None).await {
            // The signal was the last one that the run waited for.
            Err(Error::Status { .. }) => Ok(()),
            other => other.map(drop),
        }
    }

    async fn dead_signal(&self, seq: u64) -> Result<DeadSignal, Error> {
        let none = || Error::Setup(format!("run {:?} has no dead letter {seq}; `dead_signals` lists them", self.id()));
        self.dead_signals().await?.into_iter().find(|dead| dead.seq == seq).ok_or_else(none)
    }

    /// Discards a dead letter of the run: the one with this `seq` is no longer listed. It stays in the journal.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// # async fn approve(ctx: Ctx, _: ()) -> Result<bool> { Ok(ctx.wait("approval").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("approve", approve)).await;
    /// # let run = test.start(approve, &()).await?;
    /// # run.signal("approval", "yes").await?;
    /// # test.settle().await;
    /// for dead in run.dead_signals().await? {
    ///     run.discard_dead_signal(dead.seq).await?;
    /// }
    /// # test.settle().await;
    /// assert!(run.dead_signals().await?.is_empty());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Status`] if the run has ended; [`Error::Setup`] if it has no such dead letter.
    pub async fn discard_dead_signal(&self, seq: u64) -> Result<(), Error> {
        self.dead_signal(seq).await?;
        send(&self.shared, &self.id, self.num, Message::Discard { seq }, None).await.map(drop)
    }
}
