//! What runs give out for others to read: values that can be recorded, and how much of the work is done.

use std::fmt;

use outlive_core::payload::Payload;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::instance::codec;

/// A value that can be given out: it serializes, and what was written reads back. Any type with serde's `Serialize` and
/// `Deserialize` can, and text.
///
/// ```
/// # use outlive::{Recordable, prelude::*};
/// /// Publishes a value under two names.
/// async fn publish_both<T: Recordable>(ctx: &Ctx, value: &T) -> Result<(), Error> {
///     ctx.publish("now", value).await?;
///     ctx.publish("last seen", value).await
/// }
/// # async fn work(ctx: Ctx, _: ()) -> Result<()> { Ok(publish_both(&ctx, &1).await?) }
/// # fn main() { let _ = Engine::open("memory:").workflow("work", work); }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be given out of a run",
    label = "this value cannot be recorded and read back",
    note = "derive `serde::Serialize` and `serde::Deserialize` for it, and own what it borrows"
)]
pub trait Recordable: Sync {
    /// Returns the value as JSON of at most `max_bytes` bytes.
    ///
    /// # Errors
    /// If it does not serialize, is too large, or does not read back, as `NaN`.
    fn record(&self, what: &str, max_bytes: usize) -> Result<Payload, Error>;
}

impl<T: Serialize + DeserializeOwned + Sync> Recordable for T {
    fn record(&self, what: &str, max_bytes: usize) -> Result<Payload, Error> {
        let payload = codec::encode(what, self, max_bytes)?;
        codec::check::<T>(what, &payload)?;
        Ok(payload)
    }
}

impl Recordable for str {
    fn record(&self, what: &str, max_bytes: usize) -> Result<Payload, Error> {
        codec::encode(what, self, max_bytes)
    }
}

/// How much of the work is done: a fraction, or a count. Published as `progress`, it shows in `outlive ps`.
///
/// ```
/// # use outlive::{Share, prelude::*};
/// # async fn import(_: &str) -> Result<()> { Ok(()) }
/// async fn import_all(ctx: Ctx, files: Vec<String>) -> Result<()> {
///     for (done, file) in (1..).zip(&files) {
///         ctx.step("import", || import(file)).key(file).await?;
///         ctx.publish("progress", &Share::count(done, files.len() as u64)).await?;
///     }
///     Ok(())
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("import all", import_all).start().await?;
/// let run = engine.start(import_all, &vec!["a".to_string(), "b".to_string()]).await?;
/// run.result().await?;
/// assert_eq!(run.value::<Share>("progress").await?.unwrap().to_string(), "2 of 2 (100 %)");
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Share {
    /// A part of 1, as JSON `0.42`.
    Fraction(f64),
    /// A number of all there are, as JSON `{"done":3,"of":10}`.
    Count {
        /// How many are done.
        done: u64,
        /// How many there are.
        of: u64,
    },
}

impl Share {
    /// Returns a share of so many of all.
    ///
    /// ```
    /// assert_eq!(outlive::Share::count(3, 10).to_string(), "3 of 10 (30 %)");
    /// ```
    #[must_use]
    pub const fn count(done: u64, of: u64) -> Self {
        Self::Count { done, of }
    }

    /// Returns a share as a part of 1.
    ///
    /// ```
    /// assert_eq!(outlive::Share::fraction(0.423).to_string(), "42 %");
    /// ```
    #[must_use]
    pub const fn fraction(part: f64) -> Self {
        Self::Fraction(part)
    }

    /// Returns the share as a part of 1, between 0 and 1. All of nothing is 1.
    ///
    /// ```
    /// use outlive::Share;
    /// let bar = "#".repeat((Share::count(3, 10).as_fraction() * 20.0) as usize);
    /// assert_eq!(bar, "######");
    /// ```
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share is shown, not counted with")]
    pub fn as_fraction(&self) -> f64 {
        let part = match *self {
            Self::Fraction(part) => part,
            Self::Count { of: 0, .. } => 1.0,
            Self::Count { done, of } => done as f64 / of as f64,
        };
        if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded down: nothing is done before it is.
        let percent = (self.as_fraction() * 100.0 + 1e-9).floor();
        match self {
            Self::Fraction(_) => write!(f, "{percent} %"),
            Self::Count { done, of } => write!(f, "{done} of {of} ({percent} %)"),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn share_is_written_as_something_obvious_and_read_back() {
        for (share, json) in [(Share::count(3, 10), r#"{"done":3,"of":10}"#), (Share::fraction(0.5), "0.5")] {
            let payload = share.record("the share", 100).unwrap();
            assert_eq!(payload.as_str(), json);
            assert_eq!(payload.decode::<Share>().unwrap(), share);
        }
        assert!(Share::fraction(f64::NAN).record("the share", 100).is_err());
    }

    #[test]
    fn share_is_shown_as_a_percentage_between_0_and_100() {
        let shown =
            [Share::count(999, 1000), Share::count(0, 0), Share::fraction(-1.0), Share::fraction(f64::INFINITY)];
        assert_eq!(shown.map(|share| share.to_string()), ["999 of 1000 (99 %)", "0 of 0 (100 %)", "0 %", "100 %"]);
    }
}
