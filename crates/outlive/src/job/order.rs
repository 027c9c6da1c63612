//! Orders to job instances: durable when the call returns, with an optional wait for the effect.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use outlive_core::duration::IntoDuration;
use outlive_core::message::Message;

use super::client::JobClient;
use crate::error::Error;
use crate::runtime::call::PendingCall;

/// How long the caller waits for the outcome, if at all.
#[derive(Clone, Default)]
pub(crate) struct Limit(Option<Result<Duration, Error>>);

impl Limit {
    pub(crate) fn new(limit: impl IntoDuration) -> Self {
        Self(Some(limit.into_duration().map_err(Error::from)))
    }

    pub(crate) fn get(self) -> Result<Option<Duration>, Error> {
        self.0.transpose()
    }
}

/// An order to an instance, created by calls such as [`stop`](super::ContinuousClient::stop),
/// [`flush`](super::DebounceClient::flush) or [`terminate`](super::TaskClient::terminate). Nothing is sent until it is
/// awaited.
///
/// The order is durable when its future returns, whether or not a process is executing the store, and takes effect in
/// sequence with everything else sent to the instance. From then on, `status` and `state` show it as done. To return
/// only once it has taken effect, use [`wait`](Self::wait).
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::*;
/// # const BEAT: Continuous<u32> = Continuous::new("heartbeat");
/// # async fn beat(_: ContinuousCtx<u32>) -> Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").job(BEAT.every("1 minute").execute(beat)).start().await?;
/// let beats = engine.job(BEAT);
/// beats.start("paris", &7).await?;
/// beats.stop("paris").await?;
/// assert_eq!(beats.status("paris").await?.status, JobStatus::Stopped);
/// beats.terminate("paris", "moved away").wait("10 seconds").await?;
/// # Ok(()) }
/// ```
#[must_use = "nothing is sent until it is awaited"]
pub struct Order {
    call: PendingCall<OrderCall, Result<(), Error>>,
}

struct OrderCall {
    client: JobClient,
    id: String,
    message: Message,
    limit: Limit,
}

impl Order {
    /// Waits until the instance has acted on the order.
    ///
    /// If that takes longer than the limit, the future returns [`Error::NotHandled`]. The order stays durable.
    pub fn wait(mut self, limit: impl IntoDuration) -> Self {
        self.call.set(|call| call.limit = Limit::new(limit));
        self
    }
}

impl JobClient {
    /// Builds an order to an instance, for the caller to await.
    pub(crate) fn order(&self, id: &str, message: Message) -> Order {
        let call = OrderCall { client: self.clone(), id: id.to_owned(), message, limit: Limit::default() };
        Order { call: PendingCall::new(call) }
    }
}

impl Future for Order {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.call.poll(cx, async |OrderCall { client, id, message, limit }: OrderCall| {
            let limit = limit.get()?;
            client.send_message(&id, message, limit).await
        })
    }
}

/// Retries or discards dead letters, created by calls such as [`retry_dead`](super::WorkerPoolClient::retry_dead). Nothing is
/// done until it is awaited; it returns how many dead letters were resolved.
///
/// ```
/// # use outlive::prelude::*;
/// # use outlive::job::*;
/// # const MAIL: WorkerPool<String> = WorkerPool::new("mail");
/// # async fn send(_: WorkerPoolCtx<String>, _: String) -> Result<()> { Err("no such address".into()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").job(MAIL.concurrency(4).execute(send)).start().await?;
/// let mail = engine.job(MAIL);
/// mail.push(&"nowhere".to_owned()).await?;
/// mail.wait_idle().await?;
/// for letter in mail.dead().await? {
///     assert_eq!(mail.discard_dead().only(letter.number).await?, 1);
/// }
/// assert_eq!(mail.retry_dead().await?, 0);
/// # Ok(()) }
/// ```
#[must_use = "nothing is done until it is awaited"]
pub struct ResolveDead {
    call: PendingCall<ResolveCall, Result<u64, Error>>,
}

struct ResolveCall {
    client: JobClient,
    is_retry: bool,
    only: Option<u64>,
}

impl ResolveDead {
    pub(super) fn new(client: &JobClient, is_retry: bool) -> Self {
        Self { call: PendingCall::new(ResolveCall { client: client.clone(), is_retry, only: None }) }
    }

    /// Resolves only the dead letter with this [number](super::DeadLetter::number). If there is none, the future returns
    /// [`Error::NoDeadLetter`].
    pub fn only(mut self, number: u64) -> Self {
        self.call.set(|call| call.only = Some(number));
        self
    }
}

impl Future for ResolveDead {
    type Output = Result<u64, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.call.poll(cx, async |ResolveCall { client, is_retry, only }: ResolveCall| match only {
            Some(number) => client.resolve(number, is_retry).await.map(u64::from),
            None => client.resolve_all(is_retry).await,
        })
    }
}
