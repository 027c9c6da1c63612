//! Appends to a stream from inside a step: durable on their own, and marked with the attempt.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use outlive_core::output::{AppendedBy, OutputContent, OutputWrite};
use outlive_core::store::commit::{Answer, Refusal};
use outlive_core::workflow::HeartbeatSource;

use crate::ctx::output::{item, set_max_items};
use crate::ctx::step::AttemptSource;
use crate::ctx::{Attempt, check};
use crate::error::Error;
use crate::instance::outlet::Giving;
use crate::output::Recordable;

impl Attempt {
    /// Appends an item to a stream of the run: a token of a model, a line of a log. It resolves when the item is
    /// durable, so a step that awaits it cannot get ahead of the store.
    ///
    /// The item is not part of the run's journal. If the attempt fails or the process crashes, the next attempt appends
    /// again, and a [reader](crate::Run::stream) of the stream sees which items came from which attempt, and which
    /// attempts have failed.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn complete(attempt: Attempt, prompt: &str) -> Result<String> {
    ///     let mut text = String::new();
    ///     for token in prompt.split_inclusive(' ') { // stands for the tokens of a model
    ///         attempt.append("tokens", token).await?;
    ///         text.push_str(token);
    ///     }
    ///     Ok(text)
    /// }
    /// async fn answer(ctx: Ctx, prompt: String) -> Result<String> {
    ///     Ok(ctx.step("complete", |attempt: Attempt| complete(attempt, &prompt)).retry(3).await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("answer", answer).start().await?;
    /// let run = engine.start(answer, &"to be or not".to_string()).await?;
    /// let mut tokens = run.stream::<String>("tokens");
    /// while let Some(token) = tokens.next().await? {
    ///     print!("{}", token.value); // as they come
    /// }
    /// # assert_eq!(run.result().await?, "to be or not");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::StreamFull`] if the stream is full, [`Error::AttemptOver`] if the attempt has ended, [`Error::Name`],
    /// [`Error::Payload`] and [`Error::PayloadTooLarge`] for what cannot be stored.
    pub fn append<T: Recordable + ?Sized>(&self, stream: &str, value: &T) -> AttemptAppend {
        let source = self.source.clone();
        let content = check("stream name", stream)
            .and_then(|()| source.resident())
            .and_then(|resident| item(stream, value, resident.env.max_payload));
        AttemptAppend { source, content: Some(content), giving: None }
    }
}

/// An item that an attempt appends, created by [`Attempt::append`].
///
/// ```
/// # use outlive::prelude::*;
/// async fn build(attempt: Attempt) -> Result<()> {
///     let first = attempt.append("log", "cargo build");
///     first.await?; // it is appended here
///     Ok(())
/// }
/// # async fn ci(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.step("build", build).await?) }
/// # fn main() { let _ = Engine::open("memory:").workflow("ci", ci); }
/// ```
#[must_use = "nothing is appended until this is awaited"]
pub struct AttemptAppend {
    source: AttemptSource,
    /// What to append, until it is submitted.
    content: Option<Result<OutputContent, Error>>,
    giving: Option<Giving>,
}

impl AttemptAppend {
    /// Sets how many items the stream may have; one million by default.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn build(attempt: Attempt) -> Result<()> {
    ///     Ok(attempt.append("log", "cargo build").max_items(50_000).await?)
    /// }
    /// # async fn ci(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.step("build", build).await?) }
    /// # fn main() { let _ = Engine::open("memory:").workflow("ci", ci); }
    /// ```
    pub fn max_items(mut self, limit: u64) -> Self {
        if let Some(Ok(content)) = &mut self.content {
            set_max_items(content, limit);
        }
        self
    }

    /// Submits the item, unless its attempt is over.
    fn begin(&self, content: Result<OutputContent, Error>) -> Result<Giving, Error> {
        let (mut content, resident) = (content?, self.source.resident()?);
        let HeartbeatSource { slot, op, attempt } = self.source.attempt.clone();
        let origin = AppendedBy { op, attempt };
        let is_current = resident.lock().machine.attempts().appends(slot, &origin);
        let (Some(outlet), true) = (&resident.env.outlet, is_current) else { return Err(self.source.over()) };
        if let OutputContent::Item { origin: by, .. } = &mut content {
            *by = Some(origin);
        }
        let output = OutputWrite { num: resident.info.num, ..OutputWrite::carried(content, resident.now(), 0) };
        Ok(outlet.give(output))
    }
}

impl Future for AttemptAppend {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(content) = self.content.take() {
            let stream = content.as_ref().map(|content| content.stream().to_owned()).unwrap_or_default();
            let giving = self.begin(content)?;
            self.giving = Some(Box::pin(async move {
                match giving.await? {
                    Answer::Refused(Refusal::Full { max_items }) => Err(Error::StreamFull { stream, max_items }),
                    answer => Ok(answer),
                }
            }));
        }
        let Some(giving) = &mut self.giving else { return Poll::Pending };
        Poll::Ready(match ready!(giving.as_mut().poll(cx))? {
            Answer::Given { .. } => Ok(()),
            // The run was ended, or another engine has it.
            _ => Err(self.source.over()),
        })
    }
}
