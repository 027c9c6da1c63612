//! Where an engine's random numbers come from: chance, or a seed in tests.

use std::sync::atomic::{AtomicU64, Ordering};

use outlive_core::time::Timestamp;

/// Random numbers for ids, tokens and the seeds of runs. Good enough to meet nobody else's; not secret.
pub(crate) struct Chance {
    state: AtomicU64,
    /// How many ids were made, counted on from somewhere.
    ids: AtomicU64,
    /// How many tokens were made, counted on from somewhere.
    tokens: AtomicU64,
    is_seeded: bool,
}

impl Chance {
    /// With a seed, ids are counted on from its upper half: a later engine of a test counts higher.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let (state, ids) = match seed {
            Some(seed) => (seed, seed >> 32 << 32),
            None => uuid::Uuid::new_v4().as_u64_pair(),
        };
        let tokens = mixed(state.rotate_left(32) ^ ids);
        let [state, ids, tokens] = [state, ids, tokens].map(AtomicU64::new);
        Self { state, ids, tokens, is_seeded: seed.is_some() }
    }

    /// A number that nobody else draws (splitmix64).
    pub(crate) fn number(&self) -> u64 {
        mixed(self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed))
    }

    /// A token for a write, that nobody else draws. Those of one engine grow, so that a store finds the place of the
    /// next beside that of the last.
    pub(crate) fn token(&self) -> u64 {
        let count = self.tokens.fetch_add(1, Ordering::Relaxed);
        (count << 24) | (self.number() >> 40)
    }

    /// A new id: ids sort by the time they were made at, and those of one millisecond by their count.
    pub(crate) fn id(&self, now: Timestamp) -> uuid::Uuid {
        let count = self.ids.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0; 10];
        if self.is_seeded {
            bytes[2..].copy_from_slice(&count.to_be_bytes());
        } else {
            // The upper bits of two of these bytes are not ours: they say which kind of id it is.
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
