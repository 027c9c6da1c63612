//! Shared by several test modules: seeded random numbers, bodies that take a while, and a record of what happened.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use outlive::prelude::*;

/// Random numbers from a seed.
#[derive(Clone)]
pub(crate) struct Chance(Arc<Mutex<u64>>);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)))
    }

    pub(crate) fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    pub(crate) fn below(&self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }
}

/// Everything a workflow did and saw, across all its lives.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) chance: Chance,
    ledger: Arc<Mutex<BTreeMap<String, u64>>>,
    lives: Arc<Mutex<Vec<Vec<String>>>>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self { chance: Chance::new(seed), ledger: Arc::default(), lives: Arc::default() }
    }

    /// A side effect that takes a few turns of the runtime and returns its own name.
    pub(crate) async fn work(&self, name: impl Into<String>) -> Result<String> {
        let name = name.into();
        *self.ledger.lock().unwrap().entry(name.clone()).or_insert(0) += 1;
        for _ in 0..self.chance.below(4) {
            tokio::task::yield_now().await;
        }
        Ok(name)
    }

    /// Counts how often each side effect ran.
    pub(crate) fn ledger(&self) -> BTreeMap<String, u64> {
        self.ledger.lock().unwrap().clone()
    }

    /// Records that the workflow function was called: a new life.
    pub(crate) fn born(&self) {
        self.lives.lock().unwrap().push(Vec::new());
    }

    /// Records something the workflow function saw.
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.lives.lock().unwrap().last_mut().unwrap().push(what.into());
    }

    /// Returns what was seen in each life.
    pub(crate) fn lives(&self) -> Vec<Vec<String>> {
        self.lives.lock().unwrap().clone()
    }
}

/// Returns the world of a run.
pub(crate) fn world(ctx: &Ctx) -> &World {
    ctx.get::<World>()
}

/// Gives every other ready task one turn. Tokio's own `yield_now` would run them until none is ready.
pub(crate) async fn turn() {
    let mut is_over = false;
    std::future::poll_fn(|cx| {
        cx.waker().wake_by_ref();
        if std::mem::replace(&mut is_over, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
