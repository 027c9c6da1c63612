//! Runs the same branch for many items concurrently, each in its own scope.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::ctx::Ctx;

/// A fan-out over items, created by [`Ctx::map`].
///
/// ```
/// # use outlive::prelude::*;
/// # async fn price(shop: &str) -> Result<usize> { Ok(shop.len()) }
/// async fn cheapest(ctx: Ctx, shops: Vec<String>) -> Result<Option<usize>> {
///     let prices = ctx.map(&shops, |shop| shop.to_string(), |scope, shop| async move {
///         Ok::<_, BoxError>(scope.step("ask", || price(shop)).await?)
///     });
///     Ok(prices.await?.into_iter().min()) // all are asked here, concurrently
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("cheapest", cheapest).start().await?;
/// let run = engine.start(cheapest, &vec!["corner".into(), "hall".into()]).await?;
/// assert_eq!(run.result().await?, Some(4));
/// # Ok(()) }
/// ```
#[must_use = "a map does nothing until it is awaited"]
pub struct Map<'a, T, F, R, E> {
    /// What is to run; `None` once it runs.
    fan_out: Option<FanOut<T, F>>,
    /// A function pointer rather than bounds on the future, because with such bounds the compiler cannot see that a
    /// `tokio::join!` with a map is `Send`.
    run: fn(FanOut<T, F>) -> RunningMap<'a, R, E>,
    running: Option<RunningMap<'a, R, E>>,
}

type RunningMap<'a, R, E> = Pin<Box<dyn Future<Output = Result<Vec<R>, E>> + Send + 'a>>;

/// The items, each with its scope, and what to do with each.
struct FanOut<T, F> {
    items: Vec<(Ctx, T)>,
    f: F,
    concurrency: usize,
}

impl<'a, T, F, R, E> Map<'a, T, F, R, E> {
    pub(super) fn new<K, Fut>(ctx: &Ctx, items: impl Iterator<Item = T>, key_of: impl Fn(&T) -> K, f: F) -> Self
    where
        T: Send + 'a,
        K: ToString,
        F: Fn(Ctx, T) -> Fut + Send + 'a,
        Fut: Future<Output = Result<R, E>> + Send + 'a,
        R: Send + 'a,
        E: Send + 'a,
    {
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        let with_scope = |item: T| {
            let key = key_of(&item).to_string();
            let occurrence = seen.entry(key.clone()).or_insert(0);
            *occurrence += 1;
            (ctx.scope_of(&key, *occurrence), item)
        };
        let items = items.map(with_scope).collect();
        let fan_out = FanOut { items, f, concurrency: usize::MAX };
        Self { fan_out: Some(fan_out), run: |fan_out| Box::pin(fan_out.run()), running: None }
    }

    /// Limits how many items are processed at the same time; at least one is.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # async fn resize(image: u32) -> Result<u32> { Ok(image * 2) }
    /// async fn album(ctx: Ctx, images: Vec<u32>) -> Result<Vec<u32>> {
    ///     let resized = ctx.map(images, |image| *image, |scope, image| async move {
    ///         Ok::<_, BoxError>(scope.step("resize", || resize(image)).await?)
    ///     });
    ///     resized.concurrency(4).await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// # let engine = Engine::open("memory:").workflow("album", album).start().await?;
    /// let run = engine.start(album, &vec![1, 2, 3, 4, 5]).await?;
    /// assert_eq!(run.result().await?, [2, 4, 6, 8, 10]);
    /// # Ok(()) }
    /// ```
    pub fn concurrency(mut self, at_once_max: usize) -> Self {
        if let Some(fan_out) = &mut self.fan_out {
            fan_out.concurrency = at_once_max.max(1);
        }
        self
    }
}

impl<T, F, R, E> Future for Map<'_, T, F, R, E> {
    type Output = Result<Vec<R>, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(fan_out) = self.fan_out.take() {
            self.running = Some((self.run)(fan_out));
        }
        match &mut self.running {
            Some(running) => running.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

// Neither the items nor `f` are ever pinned.
impl<T, F, R, E> Unpin for Map<'_, T, F, R, E> {}

impl<T, F> FanOut<T, F> {
    async fn run<Fut, R, E>(self) -> Result<Vec<R>, E>
    where
        F: Fn(Ctx, T) -> Fut,
        Fut: Future<Output = Result<R, E>>,
    {
        let Self { items, f, concurrency } = self;
        let count = items.len();
        let mut waiting = items.into_iter().enumerate();
        let begin = move |(index, (scope, item)): (usize, (Ctx, T))| {
            let branch = f(scope, item);
            async move { (index, branch.await) }
        };
        let mut running: FuturesUnordered<_> = waiting.by_ref().take(concurrency.min(count)).map(&begin).collect();
        let mut results: Vec<Option<R>> = std::iter::repeat_with(|| None).take(count).collect();
        while let Some((index, result)) = running.next().await {
            results[index] = Some(result?);
            if let Some(next) = waiting.next() {
                running.push(begin(next));
            }
        }
        Ok(results.into_iter().flatten().collect())
    }
}
