//! Orders to job instances: durable when the call returns, with an optional wait for the effect.

use std::pin::Pin;
use std::time::Duration;

use outlive_core::duration::IntoDuration;
use outlive_core::message::Message;

use super::client::JobClient;
use crate::error::Error;

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
    pub(super) client: JobClient,
    pub(super) id: String,
    pub(super) message: Message,
    pub(super) limit: Limit,
}

impl Order {
    /// Waits until the instance has acted on the order.
    ///
    /// If that takes longer than the limit, the future returns [`Error::NotHandled`]. The order stays durable.
    pub fn wait(mut self, limit: impl IntoDuration) -> Self {
        self.limit = Limit::new(limit);
        self
    }
}

impl IntoFuture for Order {
    type Output = Result<(), Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let limit = self.limit.get()?;
            self.client.tell(&self.id, self.message, limit).await
        })
    }
}
