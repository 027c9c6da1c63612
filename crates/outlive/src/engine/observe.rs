//! How an engine is observed: the layers around what it executes, and the version that its runs are stamped with.

use outlive_core::id::Name;

use super::Builder;
use crate::instance::layers::Layer;

impl Builder {
    /// Adds a [layer](Layer) around runs, steps and handlers. The first one added is the outermost.
    ///
    /// ```
    /// use outlive::layer::{Inner, Layer, LayerFuture, ObservedStep};
    /// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
    /// # use outlive::prelude::*;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// # async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
    ///
    /// struct Count(Arc<AtomicU32>);
    /// impl Layer for Count {
    ///     fn step<'a>(&'a self, _: &'a ObservedStep<'a>, inner: Inner<'a>) -> LayerFuture<'a> {
    ///         self.0.fetch_add(1, Ordering::Relaxed);
    ///         inner.run()
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let attempts = Arc::new(AtomicU32::new(0));
    /// let engine = Engine::open("memory:").workflow("pay", pay).layer(Count(attempts.clone())).start().await?;
    /// engine.start(pay, &()).await?.result().await?;
    /// assert_eq!(attempts.load(Ordering::Relaxed), 1);
    /// # Ok(()) }
    /// ```
    pub fn layer(mut self, layer: impl Layer) -> Self {
        self.layers.push(Box::new(layer));
        self
    }

    /// Names the version of the code; by default, the executable file identifies it.
    ///
    /// Runs that this engine starts are stamped with it: see [`RunInfo::version`](crate::RunInfo::version) and
    /// [`Filter::version`](crate::Filter::version). A child has the version that started it, not the one of its
    /// parent. A run that was started by a [`Client`](crate::Client) of another process, or on the command line, has none.
    ///
    /// If the version differs from the previous process's, each parked run is replayed once, in the background and
    /// without side effects. A run resumes if the new code would not leave it waiting where it is.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let engine = Engine::open("memory:").workflow("double", double).version("2026-11-16").start().await?;
    /// engine.start(double, &21).await?.result().await?;
    /// assert_eq!(engine.count(Filter::runs().version("2026-11-16")).await?.total(), 1);
    /// assert_eq!(Engine::open("memory:").version("").start().await.unwrap_err().code(), "name");
    /// # Ok(()) }
    /// ```
    ///
    /// [`start`](Self::start) returns [`Error::Name`](crate::Error::Name) if the text is empty, longer than 200 bytes, or contains a control
    /// character.
    pub fn version(mut self, version: impl AsRef<str>) -> Self {
        match Name::new("version", version.as_ref()) {
            Ok(version) => self.version = Some(version),
            Err(error) => self.refuse(error.into()),
        }
        self
    }
}
