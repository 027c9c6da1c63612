//! Values and streams of a run, read live from any process.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use outlive_core::output::{Output, OutputKind, OutputRead};
use outlive_core::payload::Payload;
use outlive_core::time::Timestamp;
use outlive_core::workflow::{ParsedIdentity, unescaped};
use serde::de::DeserializeOwned;

use super::Run;
use super::outputs::{OutputCursor, OutputReader};
use crate::error::Error;
use crate::instance::codec;

impl<O> Run<O> {
    /// Returns the value that the run last [published](crate::Ctx::publish) under a name, if it has published one.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # use outlive_testkit::TestEngine;
    /// async fn deliver(ctx: Ctx, _: ()) -> Result<()> {
    ///     ctx.publish("state", "on its way").await?;
    ///     Ok(ctx.sleep("2 days").await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let test = TestEngine::new(|engine| engine.workflow("deliver", deliver)).await;
    /// let run = test.start(deliver, &()).await?;
    /// # test.settle().await;
    /// assert_eq!(run.value::<String>("state").await?.as_deref(), Some("on its way"));
    /// assert_eq!(run.value::<String>("weather").await?, None);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`] if the run was purged, [`Error::Payload`] if the value does not deserialize as a `T`.
    pub async fn value<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let found = self.cursor(OutputKind::Value, name).read_now(1).await?;
        found.first().map(|output| decode(output)).transpose()
    }

    /// Returns all values that the run has published, as JSON, by name.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn greet(ctx: Ctx, name: String) -> Result<()> { Ok(ctx.publish("greeted", &name).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("greet", greet).start().await?;
    /// let run = engine.start(greet, &"ada".to_string()).await?;
    /// run.result().await?;
    /// for (name, value) in run.values().await? {
    ///     println!("{name} = {value}");
    /// #   assert_eq!((name.as_str(), value.as_str()), ("greeted", "\"ada\""));
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`] if the run was purged.
    pub async fn values(&self) -> Result<BTreeMap<String, Payload>, Error> {
        self.instance().await?;
        let (mut values, mut after) = (BTreeMap::new(), None);
        loop {
            let page = self.shared.store.outputs(self.num, OutputRead::All { after }, VALUES).await?;
            let is_last = page.len() < VALUES;
            after = page.last().map(|output| output.key.clone());
            for output in page {
                if output.key.kind != OutputKind::Value {
                    return Ok(values);
                }
                values.insert(output.key.name.to_string(), output.payload);
            }
            if is_last {
                return Ok(values);
            }
        }
    }

    /// Follows the value that the run publishes under a name: the current one, if there is one, and each later one that
    /// is still the latest when it is read. Ends when the run ends.
    ///
    /// ```
    /// # use outlive::{Share, prelude::*};
    /// # async fn work(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.publish("progress", &Share::count(1, 1)).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("work", work).start().await?;
    /// let run = engine.start(work, &()).await?;
    /// let mut progress = run.watch::<Share>("progress");
    /// while let Some(share) = progress.next().await? {
    ///     println!("{share}"); // 1 of 1 (100 %)
    /// }
    /// # Ok(()) }
    /// ```
    pub fn watch<T>(&self, name: &str) -> ValueWatch<T> {
        let reader = OutputReader::new(self.cursor(OutputKind::Value, name));
        ValueWatch { reader, is_over: false, value: PhantomData }
    }

    /// Reads a stream that the run appends to, from its first item, live. Ends when the run ends.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn count(ctx: Ctx, n: u32) -> Result<()> {
    /// #     for i in 0..n { ctx.append("numbers", &i).await?; }
    /// #     Ok(())
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("count", count).start().await?;
    /// let run = engine.start(count, &5).await?;
    /// let mut numbers = run.stream::<u32>("numbers").from(3);
    /// while let Some(item) = numbers.next().await? {
    ///     assert_eq!(item.offset, u64::from(item.value));
    /// }
    /// # Ok(()) }
    /// ```
    pub fn stream<T>(&self, name: &str) -> ItemStream<T> {
        let reader = OutputReader::new(self.cursor(OutputKind::Item, name));
        ItemStream { reader, is_over: false, value: PhantomData }
    }

    fn cursor(&self, kind: OutputKind, name: &str) -> OutputCursor {
        OutputCursor::new(self.shared.clone(), (self.id.clone(), self.num), kind, name)
    }
}

/// How many values to read at once.
const VALUES: usize = 200;

fn decode<T: DeserializeOwned>(output: &Output) -> Result<T, Error> {
    let what = match output.key.kind {
        OutputKind::Value => format!("the value {:?}", output.key.name.as_str()),
        _ => format!("item {} of stream {:?}", output.key.item, output.key.name.as_str()),
    };
    codec::decode(&what, &output.payload)
}

/// An item of a stream.
///
/// ```
/// use outlive::StreamItem;
/// /// Returns the text of all tokens that count.
/// fn text(tokens: &[StreamItem<String>]) -> String {
///     tokens.iter().filter(|token| !token.is_failed).map(|token| token.value.as_str()).collect()
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct StreamItem<T> {
    /// Its place in the stream, from 0.
    pub offset: u64,
    /// The value.
    pub value: T,
    /// When it was appended.
    pub at: Timestamp,
    /// The attempt that appended it; `None` if the workflow itself did.
    pub attempt: Option<ItemAttempt>,
    /// `true` if that attempt has failed or was interrupted, as far as known when the item was read: what a later
    /// attempt appends takes its place.
    pub is_failed: bool,
}

/// The attempt that appended an item.
///
/// ```
/// # use outlive::{ItemAttempt, StreamItem};
/// /// Returns `true` if another attempt has begun, so that what it replaces is taken off the screen.
/// fn begins_again(before: &StreamItem<String>, item: &StreamItem<String>) -> bool {
///     before.attempt != item.attempt
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ItemAttempt {
    /// The step's name.
    pub step: String,
    /// The step's identity in the journal.
    pub operation: String,
    /// The number of the attempt, from 1.
    pub number: u32,
    /// Which process ran the attempt: grows each time the store is taken over. An attempt that a crash interrupted is
    /// repeated under its number by another.
    pub epoch: u64,
}

impl<T: DeserializeOwned> StreamItem<T> {
    fn of(output: &Output) -> Result<Self, Error> {
        let attempt = output.origin.as_ref().map(|origin| ItemAttempt {
            step: unescaped(ParsedIdentity::of(&origin.op).name),
            operation: origin.op.to_string(),
            number: origin.attempt,
            epoch: output.epoch.0,
        });
        let (offset, at, is_failed) = (output.key.item, output.at, output.is_failed);
        Ok(Self { offset, value: decode(output)?, at, attempt, is_failed })
    }
}

/// The items of a stream as they are appended, created by [`Run::stream`]. Implements `Stream`.
///
/// ```
/// use futures_util::TryStreamExt as _;
/// # use outlive::prelude::*;
/// # async fn count(ctx: Ctx, n: u32) -> Result<()> {
/// #     for i in 0..n { ctx.append("numbers", &i).await?; }
/// #     Ok(())
/// # }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("count", count).start().await?;
/// let run = engine.start(count, &3).await?;
/// let numbers: Vec<u32> = run.stream::<u32>("numbers").map_ok(|item| item.value).try_collect().await?;
/// assert_eq!(numbers, [0, 1, 2]);
/// # Ok(()) }
/// ```
#[must_use = "nothing is read until it is polled"]
pub struct ItemStream<T> {
    reader: OutputReader,
    is_over: bool,
    value: PhantomData<fn() -> T>,
}

impl<T> ItemStream<T> {
    /// Begins with the item at this offset. Has no effect once it was polled.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn count(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.append("numbers", &1).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("count", count).start().await?;
    /// let run = engine.start(count, &()).await?;
    /// let seen = 1; // kept from the last time
    /// assert!(run.stream::<u32>("numbers").from(seen).next().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn from(mut self, offset: u64) -> Self {
        self.reader.cursor_mut().into_iter().for_each(|cursor| cursor.next = offset);
        self
    }
}

impl<T: DeserializeOwned> ItemStream<T> {
    /// Waits for the next item. Returns `None` once the run has ended and every item was returned. The future may be
    /// dropped while it waits: no item is lost.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn count(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.append("numbers", &1).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("count", count).start().await?;
    /// let run = engine.start(count, &()).await?;
    /// assert_eq!(run.stream::<u32>("numbers").next().await?.unwrap().value, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`] if the run was purged, [`Error::Stuck`] if it is stuck and there is no more,
    /// [`Error::Payload`] if an item does not deserialize as a `T`; the next call returns the item after it.
    pub async fn next(&mut self) -> Result<Option<StreamItem<T>>, Error> {
        std::future::poll_fn(|cx| self.poll_item(cx)).await
    }

    /// Returns the items so far that were not returned yet, at most `max`, without waiting for more.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn count(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.append("numbers", &1).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("count", count).start().await?;
    /// let run = engine.start(count, &()).await?;
    /// run.result().await?;
    /// assert_eq!(run.stream::<u32>("numbers").read(100).await?.len(), 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Same as [`next`](Self::next).
    pub async fn read(&mut self, max: usize) -> Result<Vec<StreamItem<T>>, Error> {
        let Some(cursor) = self.reader.cursor_mut() else { return Ok(Vec::new()) };
        cursor.read_now(max).await?.iter().map(StreamItem::of).collect()
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<StreamItem<T>>, Error>> {
        let next = ready!(self.reader.poll_next(cx));
        Poll::Ready(next.and_then(|output| output.as_ref().map(StreamItem::of).transpose()))
    }
}

impl<T: DeserializeOwned> Stream for ItemStream<T> {
    type Item = Result<StreamItem<T>, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.is_over {
            return Poll::Ready(None);
        }
        let next = ready!(this.poll_item(cx));
        this.is_over = is_last(&next);
        Poll::Ready(next.transpose())
    }
}

/// The values of a name as they are published, created by [`Run::watch`]. Implements `Stream`.
///
/// ```
/// use futures_util::StreamExt as _;
/// # use outlive::prelude::*;
/// # async fn work(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.publish("state", "done").await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("work", work).start().await?;
/// let run = engine.start(work, &()).await?;
/// let states: Vec<Result<String, Error>> = run.watch("state").collect().await;
/// assert_eq!(states.last().unwrap().as_ref().unwrap(), "done");
/// # Ok(()) }
/// ```
#[must_use = "nothing is read until it is polled"]
pub struct ValueWatch<T> {
    reader: OutputReader,
    is_over: bool,
    value: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> ValueWatch<T> {
    /// Waits for a value that was not returned yet. Returns `None` once the run has ended and its last value was
    /// returned.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn work(ctx: Ctx, _: ()) -> Result<()> { Ok(ctx.publish("state", "done").await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("work", work).start().await?;
    /// let run = engine.start(work, &()).await?;
    /// let mut states = run.watch::<String>("state");
    /// assert_eq!(states.next().await?.as_deref(), Some("done"));
    /// assert_eq!(states.next().await?, None);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Same as [`ItemStream::next`].
    pub async fn next(&mut self) -> Result<Option<T>, Error> {
        std::future::poll_fn(|cx| self.poll_value(cx)).await
    }

    fn poll_value(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<T>, Error>> {
        let next = ready!(self.reader.poll_next(cx));
        Poll::Ready(next.and_then(|output| output.as_ref().map(decode).transpose()))
    }
}

impl<T: DeserializeOwned> Stream for ValueWatch<T> {
    type Item = Result<T, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.is_over {
            return Poll::Ready(None);
        }
        let next = ready!(this.poll_value(cx));
        this.is_over = is_last(&next);
        Poll::Ready(next.transpose())
    }
}

/// Returns `true` if nothing comes after this. Only what does not deserialize may be followed by something that does.
fn is_last<T>(next: &Result<Option<T>, Error>) -> bool {
    !matches!(next, Ok(Some(_)) | Err(Error::Payload { .. }))
}
