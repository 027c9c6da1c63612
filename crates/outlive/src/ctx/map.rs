//! The same branch for many items, side by side, each in a scope of its own.

use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;

use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::ctx::Ctx;

/// A fan-out, made by [`Ctx::map`].
#[must_use = "a map does nothing until it is awaited"]
pub struct Map<'a, T, F> {
    items: Vec<(Ctx, T)>,
    f: F,
    concurrency: usize,
    lifetime: PhantomData<&'a ()>,
}

impl<T, F> Map<'_, T, F> {
    pub(super) fn new<K: ToString>(ctx: &Ctx, items: impl Iterator<Item = T>, key_of: impl Fn(&T) -> K, f: F) -> Self {
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        let with_scope = |item: T| {
            let key = key_of(&item).to_string();
            let occurrence = seen.entry(key.clone()).or_insert(0);
            *occurrence += 1;
            (ctx.scope_of(&key, *occurrence), item)
        };
        Self { items: items.map(with_scope).collect(), f, concurrency: usize::MAX, lifetime: PhantomData }
    }

    /// At most this many at the same time; at least one.
    pub fn concurrency(mut self, at_once_max: usize) -> Self {
        self.concurrency = at_once_max.max(1);
        self
    }
}

impl<'a, T, F, Fut, R, E> IntoFuture for Map<'a, T, F>
where
    T: Send + 'a,
    F: Fn(Ctx, T) -> Fut + Send + 'a,
    Fut: Future<Output = Result<R, E>> + Send + 'a,
    R: Send + 'a,
    E: Send + 'a,
{
    type Output = Result<Vec<R>, E>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { items, f, concurrency, .. } = self;
        let count = items.len();
        let mut waiting = items.into_iter().enumerate();
        Box::pin(async move {
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
        })
    }
}
