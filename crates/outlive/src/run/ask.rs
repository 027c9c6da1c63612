//! Questions to a run: sent like signals, answered by the run, and the answer is kept as long as the run.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use outlive_core::duration::IntoDuration;
use outlive_core::id::{InstanceNum, Name, check};
use outlive_core::message::Message;
use outlive_core::output::{AnswerRecord, OutputKind, OutputRead};
use outlive_core::payload::Payload;
use outlive_core::status::Status;
use outlive_core::store::commit::{Answer, SendWrite, Write};
use serde::de::DeserializeOwned;

use super::{Run, refused};
use crate::error::Error;
use crate::instance::codec;
use crate::output::Recordable;
use crate::question::QuestionNamed;
use crate::runtime::call::PendingCall;
use crate::runtime::shared::Shared;
use crate::runtime::waiters::Until;

impl<O> Run<O> {
    /// Asks the run a question and waits for its answer. The question is stored as a signal is, and a
    /// [`wait_ask`](crate::Ctx::wait_ask) receives it, now or whenever the run gets to one. Asker and run may be in
    /// different processes.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// async fn shop(ctx: Ctx, price: u32) -> Result<()> {
    ///     let (item, reply) = ctx.wait_ask::<String, u32>("price").await?;
    ///     Ok(reply.send(&(price * item.len() as u32)).await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("shop", shop).start().await?;
    /// let run = engine.start(shop, &2).await?;
    /// let cents: u32 = run.ask("price", "tea").wait("10 seconds").await?;
    /// assert_eq!(cents, 6);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Unanswered`] if the run ends without answering, [`Error::Status`] if it has ended before,
    /// [`Error::QuestionRefused`] if it cannot read the question, [`Error::Stuck`] if it is stuck,
    /// [`Error::NotHandled`] after a [limit](RunQuestion::wait), and [`Error::Payload`] if the answer does not deserialize
    /// as an `A`.
    pub fn ask<Q: Recordable + ?Sized, A: DeserializeOwned>(
        &self,
        name: impl QuestionNamed<Q, A>,
        question: &Q,
    ) -> RunQuestion<A> {
        let name = name.as_name();
        let message = Name::new("question name", name).map_err(Error::from).and_then(|name| {
            let what = format!("question {:?}", name.as_str());
            Ok(Message::Question { payload: question.record(&what, self.shared.max_payload)?, name })
        });
        let (shared, id, name) = (self.shared.clone(), self.id.clone(), name.to_owned());
        let call = AskedQuestion { shared, id, num: self.num, name, message, dedup: None, limit: None };
        RunQuestion { call: PendingCall::new(call), answer: PhantomData }
    }
}

/// A question, created by [`Run::ask`]. Nothing is asked until it is awaited.
///
/// ```
/// # use outlive::prelude::*;
/// # async fn shop(ctx: Ctx, price: u32) -> Result<()> {
/// #     let (_, reply) = ctx.wait_ask::<String, u32>("price").await?;
/// #     Ok(reply.send(&price).await?)
/// # }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("shop", shop).start().await?;
/// # let run = engine.start(shop, &2).await?;
/// let question: outlive::RunQuestion<u32> = run.ask("price", "tea");
/// assert_eq!(question.await?, 2); // it is asked here
/// # Ok(()) }
/// ```
#[must_use = "nothing is asked until this is awaited"]
pub struct RunQuestion<A> {
    call: PendingCall<AskedQuestion, Result<Payload, Error>>,
    answer: PhantomData<fn() -> A>,
}

impl<A> RunQuestion<A> {
    /// Sets a deduplication key: a second question of this name and key is not asked again, and gets the answer of the
    /// first. A run that has ended takes no questions, with or without a key.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn till(ctx: Ctx, mut cents: i64) -> Result<()> {
    /// #     loop {
    /// #         let (change, reply) = ctx.wait_ask::<i64, i64>("add").await?;
    /// #         cents += change;
    /// #         reply.send(&cents).await?;
    /// #     }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("till", till).start().await?;
    /// let run = engine.start(till, &100).await?;
    /// let paid = || run.ask::<i64, i64>("add", &20).dedup_key("request-1");
    /// assert_eq!(paid().await?, 120);
    /// assert_eq!(paid().await?, 120); // asked again after a lost reply: not added twice
    /// # Ok(()) }
    /// ```
    pub fn dedup_key(mut self, key: &str) -> Self {
        let key = check("dedup key", key).map(|()| key.to_owned()).map_err(Error::from);
        self.call.set(|call| call.dedup = Some(key));
        self
    }

    /// Limits how long to wait for the answer. After that, the future returns [`Error::NotHandled`]. The question stays
    /// with the run; ask again with the same [key](Self::dedup_key) to get its answer later.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn closed(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.wait("open").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("closed", closed).start().await?;
    /// let run = engine.start(closed, &()).await?;
    /// let error = run.ask::<str, u32>("price", "tea").wait("10 ms").await.unwrap_err();
    /// assert_eq!(error.code(), "not_handled");
    /// # Ok(()) }
    /// ```
    pub fn wait(mut self, limit: impl IntoDuration) -> Self {
        self.call.set(|call| call.limit = Some(limit.into_duration().map_err(Error::from)));
        self
    }
}

impl<A: DeserializeOwned> Future for RunQuestion<A> {
    type Output = Result<A, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self.call.poll(cx, AskedQuestion::answer);
        answer.map(|answer| codec::decode("the answer", &answer?))
    }
}

struct AskedQuestion {
    shared: Arc<Shared>,
    id: Name,
    num: InstanceNum,
    name: String,
    message: Result<Message, Error>,
    dedup: Option<Result<String, Error>>,
    limit: Option<Result<Duration, Error>>,
}

impl AskedQuestion {
    async fn answer(mut self) -> Result<Payload, Error> {
        let limit = self.limit.take().transpose()?;
        let pos = self.ask().await?;
        let Some(limit) = limit else { return self.wait_for(pos).await };
        match tokio::time::timeout(limit, self.wait_for(pos)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::NotHandled { id: self.id.to_string(), limit }),
        }
    }

    /// Sends the question and returns its position, or the position of the first with its key.
    async fn ask(&self) -> Result<u64, Error> {
        let key = self.dedup.clone().transpose()?;
        // A name that no signal's key can have.
        let dedup = key.map(|key| Name::recorded(&format!("\u{2}{}\u{2}{key}", self.name)));
        let (id, num, message) = (self.id.clone(), Some(self.num), self.message.clone()?);
        let (at, token) = (self.shared.clock.now(), self.shared.random.token());
        let send = SendWrite { id, num, message, at, dedup, token };
        match self.shared.committer.write(Write::Message(send)).await? {
            Answer::Refused(refusal) => Err(refused(&self.id, refusal, "it no longer answers questions")),
            Answer::Sent { pos, .. } => Ok(pos),
            _ => Err(Error::Shutdown),
        }
    }

    async fn wait_for(&self, pos: u64) -> Result<Payload, Error> {
        loop {
            // Subscribed before the store is read, so no change in between is missed.
            let wait = self.shared.waiters.wait_for(self.num, Until::Changed);
            // The instance first: an answer that it gave before its end is there when the answer is read.
            let instance = self.shared.instance(&self.id).await?;
            if instance.num != self.num {
                return Err(Error::NotFound { id: self.id.to_string() });
            }
            if let Some(answer) = self.read(pos).await? {
                return Ok(answer);
            }
            let (id, question) = (self.id.to_string(), self.name.clone());
            match instance.status {
                status if status.is_ended() => return Err(Error::Unanswered { id, question, status }),
                Status::Stuck => return Err(Error::Stuck { id, reason: instance.note.unwrap_or_default() }),
                _ => {}
            }
            self.shared.committer.check()?;
            wait.await;
        }
    }

    async fn read(&self, pos: u64) -> Result<Option<Payload>, Error> {
        let read = OutputRead::Of { kind: OutputKind::Answer, name: Name::recorded(""), from: pos };
        let found = self.shared.store.outputs(self.num, read, 1).await?;
        let Some(output) = found.into_iter().find(|output| output.key.item == pos) else { return Ok(None) };
        match AnswerRecord::from_payload(&output.payload) {
            Ok(AnswerRecord::Value(answer)) => Ok(Some(answer)),
            Ok(AnswerRecord::Unreadable(problem)) => {
                let (id, question) = (self.id.to_string(), self.name.clone());
                Err(Error::QuestionRefused { id, question, problem })
            }
            Err(problem) => Err(Error::Payload { what: "the answer".to_owned(), problem }),
        }
    }
}
