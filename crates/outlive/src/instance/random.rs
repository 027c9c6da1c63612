//! The source of an engine's random numbers: real randomness, or a seed in tests.

use std::sync::atomic::{AtomicU64, Ordering};

use outlive_core::time::Timestamp;

/// Random numbers for ids, tokens and the seeds of runs. Good enough to be unique, but not secret.
pub(crate) struct RandomSource {
    state: AtomicU64,
    /// The number of ids made, counted from an arbitrary start.
    ids: AtomicU64,
    /// The number of tokens made, counted from an arbitrary start.
    tokens: AtomicU64,
    is_seeded: bool,
}

impl RandomSource {
    /// Creates a source. With a seed, ids are counted from its upper half, so that a later engine of a test counts
    /// higher.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let (state, ids) = match seed {
            Some(seed) => (seed, seed >> 32 << 32),
            None => uuid::Uuid::new_v4().as_u64_pair(),
        };
        let tokens = mixed(state.rotate_left(32) ^ ids);
        let [state, ids, tokens] = [state, ids, tokens].map(AtomicU64::new);
        Self { state, ids, tokens, is_seeded: seed.is_some() }
    }

    /// Returns a number that nobody else draws (splitmix64).
    pub(crate) fn number(&self) -> u64 {
        mixed(self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed))
    }

    /// Returns a token for a write that nobody else draws. The tokens of one engine grow, so that a store finds the
    /// place of the next one right after the last.
    pub(crate) fn token(&self) -> u64 {
        let count = self.tokens.fetch_add(1, Ordering::Relaxed);
        (count << 24) | (self.number() >> 40)
    }

    /// Returns a new id. Ids sort by the time they were made, and within a millisecond by their count.
    pub(crate) fn id(&self, now: Timestamp) -> uuid::Uuid {
        let count = self.ids.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0; 10];
        if self.is_seeded {
            bytes[2..].copy_from_slice(&count.to_be_bytes());
        } else {
            // The upper bits of two of these bytes are not ours: they hold the kind of id.
            bytes[..4].copy_from_slice(&[count >> 22, count >> 14, count >> 8, count].map(|part| part as u8));
            bytes[4..].copy_from_slice(&self.number().to_be_bytes()[2..]);
        }
        let millis = u64::try_from(now.as_millis()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
    }
}

fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}
