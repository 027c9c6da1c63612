//! Where an engine's random numbers come from: chance, or a seed in tests.

use std::sync::atomic::{AtomicU64, Ordering};

use outlive_core::time::Timestamp;

/// Random numbers for ids, tokens and the seeds of runs.
pub(crate) struct Chance(Option<Seeded>);

struct Seeded {
    state: AtomicU64,
    /// How many ids were made, counted on from the seed's upper half: a later engine of a test counts higher.
    ids: AtomicU64,
}

impl Chance {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let seeded = |seed: u64| Seeded { state: AtomicU64::new(seed), ids: AtomicU64::new(seed >> 32 << 32) };
        Self(seed.map(seeded))
    }

    /// A number that nobody else draws.
    pub(crate) fn number(&self) -> u64 {
        match &self.0 {
            Some(seeded) => {
                let n = seeded.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
                let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                n ^ (n >> 27)
            }
            None => {
                // The random half of a version 7 UUID has 62 bits of chance.
                let (a, b) = (uuid::Uuid::now_v7().as_u64_pair().1, uuid::Uuid::now_v7().as_u64_pair().1);
                a ^ b.rotate_left(32)
            }
        }
    }

    /// A new id; ids sort by the time they were made at.
    pub(crate) fn id(&self, now: Timestamp) -> String {
        let id = match &self.0 {
            Some(seeded) => {
                let count = seeded.ids.fetch_add(1, Ordering::Relaxed).to_be_bytes();
                let millis = u64::try_from(now.as_millis()).unwrap_or(0);
                let mut bytes = [0; 10];
                bytes[2..].copy_from_slice(&count);
                uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
            }
            None => uuid::Uuid::now_v7(),
        };
        id.to_string()
    }
}
