//! Subscriptions to lifecycle events: read from what is committed, so that none is missed and none repeated.

mod convert;
mod event;
mod kind;
mod live;
#[cfg(test)]
mod schema;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use outlive_core::id::Name;

pub use event::{Cursor, LifecycleEvent};
pub use kind::{JobWork, LifecycleKind, RetryScheduled};
use live::Live;

use crate::error::Error;
use crate::runtime::call::PendingCall;
use crate::runtime::feed::FeedListener;
use crate::runtime::shared::Shared;

/// How many feed entries are read at once, and so held in memory.
const PAGE: usize = 256;

/// A subscription to lifecycle events, created by [`Client::events`](crate::Client::events). Await it for [`Events`].
///
/// ```
/// use outlive::Subscribe;
/// # use outlive::prelude::*;
/// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
/// # engine.start(double, &21).id("twice").await?.result().await?;
/// let from_start: Subscribe = engine.events().from_start().of("twice");
/// assert_eq!(from_start.await?.next().await?.number, 1);
/// # Ok(()) }
/// ```
#[must_use = "a subscription does not start until it is awaited"]
pub struct Subscribe {
    call: PendingCall<SubscribeCall, Result<Events, Error>>,
}

struct SubscribeCall {
    shared: Arc<Shared>,
    from: Option<Cursor>,
    of: Option<String>,
    is_committed_only: bool,
}

impl Subscribe {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let call = SubscribeCall { shared, from: None, of: None, is_committed_only: false };
        Self { call: PendingCall::new(call) }
    }

    /// Resumes after a [cursor](LifecycleEvent::cursor), however old it is.
    ///
    /// Events older than [`keep_events`](crate::Builder::keep_events) are gone.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// let kept = engine.events().await?.cursor().to_string(); // store it in a file
    /// engine.start(double, &21).await?.result().await?;
    /// let mut events = engine.events().since(kept.parse()?).await?;
    /// assert_eq!(events.next().await?.number, 1);
    /// # Ok(()) }
    /// ```
    pub fn since(mut self, cursor: Cursor) -> Self {
        self.call.set(|call| call.from = Some(cursor));
        self
    }

    /// Starts with the oldest event that the store still has.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").start().await?;
    /// let events = engine.events().from_start().await?;
    /// assert_eq!(events.cursor(), outlive::Cursor::START);
    /// # Ok(()) }
    /// ```
    pub fn from_start(self) -> Self {
        self.since(Cursor::START)
    }

    /// Returns only the events of one run, or of one instance of a job, by its id.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// let mut events = engine.events().of("second").await?;
    /// engine.start(double, &1).id("first").await?;
    /// engine.start(double, &2).id("second").await?;
    /// assert_eq!(events.next().await?.instance, "second");
    /// # Ok(()) }
    /// ```
    pub fn of(mut self, instance: &str) -> Self {
        self.call.set(|call| call.of = Some(instance.to_owned()));
        self
    }

    /// Returns only [committed](LifecycleEvent::is_committed) events: those that every other subscriber gets, now or
    /// later.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// # async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("pay", pay).start().await?;
    /// let mut events = engine.events().committed().await?;
    /// engine.start(pay, &()).await?.result().await?;
    /// assert!(events.read(100).await?.iter().all(|event| event.is_committed()));
    /// # Ok(()) }
    /// ```
    pub fn committed(mut self) -> Self {
        self.call.set(|call| call.is_committed_only = true);
        self
    }
}

impl Future for Subscribe {
    type Output = Result<Events, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.call.poll(cx, SubscribeCall::subscribe)
    }
}

impl SubscribeCall {
    async fn subscribe(self) -> Result<Events, Error> {
        let of = self.of.map(|id| Name::new("instance id", &id)).transpose()?;
        let listener = self.shared.committer.bell.listen();
        let services = self.shared.services.as_ref().filter(|_| !self.is_committed_only);
        let live = services.map(|services| Live::new(&services.env.attempts));
        let cursor = match self.from {
            Some(cursor) => cursor,
            None => Cursor::after(self.shared.store.mark(None).await?.unwrap_or(0)),
        };
        let read = cursor.pos();
        let waiting = VecDeque::new();
        Ok(Events::new(FeedReader { shared: self.shared, listener, cursor, read, of, live, waiting }))
    }
}

/// Lifecycle events as they are committed: each once, in order, from where the [subscription](Subscribe) starts.
///
/// ```
/// use outlive::{Events, LifecycleKind};
/// # use outlive::prelude::*;
/// # async fn charge() -> Result<u32> { Ok(42) }
/// # async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("pay", pay).start().await?;
/// let mut events: Events = engine.events().await?;
/// engine.start(pay, &()).await?;
/// loop {
///     match events.next().await?.kind {
///         LifecycleKind::StepCompleted { step, attempt, .. } => assert_eq!((step.as_str(), attempt), ("charge", 1)),
///         LifecycleKind::RunCompleted => break,
///         _ => {}
///     }
/// }
/// # Ok(()) }
/// ```
pub struct Events {
    reader: Arc<tokio::sync::Mutex<FeedReader>>,
    /// The position after the last event returned.
    cursor: Cursor,
    /// The next event, while it is waited for.
    next: Option<NextEvent>,
    is_over: bool,
}

type NextEvent = Pin<Box<dyn Future<Output = Result<LifecycleEvent, Error>> + Send>>;

impl Events {
    fn new(reader: FeedReader) -> Self {
        let cursor = reader.cursor;
        Self { reader: Arc::new(tokio::sync::Mutex::new(reader)), cursor, next: None, is_over: false }
    }

    /// Waits for the next event. The future may be dropped while it waits: no event is lost.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// let mut events = engine.events().await?;
    /// engine.start(double, &21).id("twice").await?;
    /// assert!(events.next().await?.to_string().ends_with("double twice #1 run.queued"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the store cannot be read; [`Error::Shutdown`] once the engine has shut down and every event was returned, and
    /// [`Error::Fenced`] once another process executes the store.
    pub async fn next(&mut self) -> Result<LifecycleEvent, Error> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<LifecycleEvent, Error>> {
        let next = self.next.get_or_insert_with(|| {
            let reader = self.reader.clone();
            Box::pin(async move { reader.lock().await.next().await })
        });
        let event = ready!(next.as_mut().poll(cx));
        self.next = None;
        if let Ok(event) = &event {
            self.cursor = event.cursor();
        }
        Poll::Ready(event)
    }

    /// Returns the events so far that were not returned yet, at most `max`; empty if there are none.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// let mut events = engine.events().await?;
    /// assert!(events.read(100).await?.is_empty());
    /// engine.start(double, &21).await?.result().await?;
    /// assert_eq!(events.read(100).await?.len(), 3); // queued, started, completed
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn read(&mut self, max: usize) -> Result<Vec<LifecycleEvent>, Error> {
        // Dropped while it waits, it has taken nothing.
        self.next = None;
        let events = self.reader.lock().await.read(max).await?;
        self.cursor = events.last().map_or(self.cursor, LifecycleEvent::cursor);
        Ok(events)
    }

    /// Returns the position after the last event returned.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
    /// # engine.start(double, &21).await?.result().await?;
    /// let mut events = engine.events().from_start().await?;
    /// let event = events.next().await?;
    /// assert_eq!(events.cursor(), event.cursor());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// Waits until there may be more to read.
    #[cfg(feature = "http")]
    pub(crate) async fn changed(&mut self) -> Result<(), Error> {
        self.next = None;
        self.reader.lock().await.changed().await
    }
}

/// Yields events for as long as the store can be read. The last item of an engine that shuts down is its error.
///
/// ```
/// use futures_util::StreamExt as _;
/// # use outlive::prelude::*;
/// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("double", double).start().await?;
/// let events = engine.events().committed().await?;
/// engine.start(double, &21).await?;
/// let first: Vec<_> = events.map(|event| event.map(|event| event.number)).take(3).collect().await;
/// assert_eq!(first.into_iter().collect::<Result<Vec<_>, _>>()?, [1, 2, 3]);
/// # Ok(()) }
/// ```
impl Stream for Events {
    type Item = Result<LifecycleEvent, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.is_over {
            return Poll::Ready(None);
        }
        let event = ready!(this.poll_event(cx));
        this.is_over = matches!(event, Err(Error::Shutdown | Error::Fenced { .. }));
        Poll::Ready(Some(event))
    }
}

/// Reads the feed from a cursor on.
struct FeedReader {
    shared: Arc<Shared>,
    listener: FeedListener,
    /// The position after the last event returned.
    cursor: Cursor,
    /// The position of the last feed entry read.
    read: u64,
    of: Option<Name>,
    /// Events in this process that are not committed.
    live: Option<Live>,
    waiting: VecDeque<LifecycleEvent>,
}

impl FeedReader {
    async fn next(&mut self) -> Result<LifecycleEvent, Error> {
        loop {
            if let Some(event) = self.hand_out() {
                return Ok(event);
            }
            let closed = self.shared.committer.check();
            if !self.fill().await? {
                closed?;
                self.changed().await?;
            }
        }
    }

    async fn read(&mut self, max: usize) -> Result<Vec<LifecycleEvent>, Error> {
        while self.waiting.len() < max && self.fill().await? {}
        Ok(std::iter::from_fn(|| self.hand_out()).take(max).collect())
    }

    fn hand_out(&mut self) -> Option<LifecycleEvent> {
        let mut event = self.waiting.pop_front()?;
        match event.is_committed() {
            true => self.cursor = event.cursor,
            // It is stored nowhere: to resume after it is to resume after the event before it.
            false => event.cursor = self.cursor,
        }
        Some(event)
    }

    /// Reads the next page. Returns `true` if there may be more.
    async fn fill(&mut self) -> Result<bool, Error> {
        self.live.iter_mut().for_each(Live::look);
        let page = self.shared.store.feed(self.read, PAGE).await?;
        let of = self.of.as_ref();
        let Some(last) = page.last() else {
            return Ok(self.live.as_ref().is_some_and(|live| live.at_the_end(of, &mut self.waiting)));
        };
        self.read = last.pos;
        for item in page.iter().filter(|item| of.is_none_or(|of| *of == item.id)) {
            self.live.iter().for_each(|live| live.before(item, &mut self.waiting));
            self.waiting.extend(convert::events(item).into_iter().filter(|event| event.cursor > self.cursor));
            self.live.iter().for_each(|live| live.behind(item, &mut self.waiting));
        }
        Ok(true)
    }

    /// Waits until there may be more to read.
    async fn changed(&mut self) -> Result<(), Error> {
        let changed = self.listener.changed();
        // What was committed before this listened is in the store already.
        let shared = &self.shared;
        if shared.committer.is_closed() || !shared.store.feed(self.read, 1).await?.is_empty() {
            return Ok(());
        }
        match &self.live {
            Some(live) => tokio::select! {
                () = changed => {}
                () = live.more() => {}
            },
            None => changed.await,
        }
        Ok(())
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Events(behind {})", self.cursor)
    }
}

impl std::fmt::Debug for Subscribe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.call.options() {
            Some(call) => write!(f, "Subscribe({:?}, of {:?})", call.from, call.of),
            None => f.write_str("Subscribe(..)"),
        }
    }
}
