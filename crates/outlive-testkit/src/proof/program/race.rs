//! The first of two futures, polled in a seeded order: a reproducible `tokio::select!`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use crate::random::Random;

/// A shared sequence of coin tosses, the same for the same seed.
#[derive(Clone)]
pub(super) struct Coin(Arc<AtomicU64>);

impl Coin {
    pub(super) fn new(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seed)))
    }

    fn toss(&self) -> bool {
        Random::new(self.0.fetch_add(1, Ordering::Relaxed)).is(2)
    }
}

/// Resolves with the first of two futures.
pub(super) struct Race<F> {
    pub(super) branches: [F; 2],
    pub(super) coin: Coin,
}

impl<F: Future + Unpin> Future for Race<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let first = usize::from(self.coin.toss());
        for index in [first, 1 - first] {
            if let Poll::Ready(output) = Pin::new(&mut self.branches[index]).poll(cx) {
                return Poll::Ready(output);
            }
        }
        Poll::Pending
    }
}
