//! The value of a step as it is recorded and read back.

use outlive_core::failure::{Cause, Failure};
use outlive_core::payload::Payload;

use crate::error::Error;
use crate::instance::panics;

/// Converts a step's value to JSON and back. These are function pointers rather than bounds on the future, because with
/// such bounds the compiler cannot see that a `tokio::join!` of steps is `Send`.
pub(super) struct Codec<T> {
    pub(super) encode: fn(&T) -> Result<Payload, serde_json::Error>,
    pub(super) decode: fn(&Payload) -> Result<T, serde_json::Error>,
}

impl<T> Clone for Codec<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Codec<T> {}

impl<T> Codec<T> {
    /// Returns a value as it is recorded, and as it is read back.
    pub(super) fn keep(&self, value: &T, max_bytes: usize) -> Result<(Payload, T), Failure> {
        let encoded = panics::catch(|| (self.encode)(value))?;
        let kept = encoded.map_err(|error| unkept::<T>(&format!("does not serialize: {error}")))?;
        if kept.len() > max_bytes {
            let bytes = kept.len();
            let problem =
                format!("has {bytes} bytes of JSON, the limit is {max_bytes}; store it elsewhere and return its key");
            return Err(unkept::<T>(&problem));
        }
        self.read_back(kept)
    }

    /// Reads a recorded value, or returns why the run would be stuck with it.
    pub(super) fn read(&self, step: &str, payload: &Payload) -> Result<T, String> {
        (self.decode)(payload).map_err(|error| {
            format!(
                "the value recorded for step {step:?} does not read as {}: {}; \
                 fix the type, or give the step another name, and restart the program",
                std::any::type_name::<T>(),
                Error::decode("it".into(), payload, &error),
            )
        })
    }

    /// Reads a value back from its record, so that user code gets exactly what a replay would read.
    pub(super) fn read_back(&self, payload: Payload) -> Result<(Payload, T), Failure> {
        match panics::catch(|| (self.decode)(&payload))? {
            Ok(value) => Ok((payload, value)),
            Err(error) => Err(unkept::<T>(&format!("does not read back: {error}"))),
        }
    }
}

fn unkept<T>(problem: &str) -> Failure {
    Failure::new(Cause::Output, format!("the value ({}) {problem}", std::any::type_name::<T>())).permanent()
}
