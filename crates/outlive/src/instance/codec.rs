//! Converts user values to JSON and back: a panic in `Serialize` or `Deserialize` is an error like any other.

use outlive_core::payload::Payload;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::instance::panics;

/// Serializes a value as JSON of at most `max_bytes` bytes.
pub(crate) fn encode<T: Serialize + ?Sized>(what: &str, value: &T, max_bytes: usize) -> Result<Payload, Error> {
    let refuse = |problem| Error::Payload { what: format!("{what} cannot be written as JSON"), problem };
    let payload = match panics::catch(|| Payload::encode(value)) {
        Ok(encoded) => encoded.map_err(|error| refuse(error.to_string()))?,
        Err(panic) => return Err(refuse(panic.to_string())),
    };
    match payload.len() {
        bytes if bytes > max_bytes => Err(Error::PayloadTooLarge { what: what.to_owned(), bytes, max_bytes }),
        _ => Ok(payload),
    }
}

/// Deserializes JSON as a `T`.
pub(crate) fn decode<T: DeserializeOwned>(what: &str, payload: &Payload) -> Result<T, Error> {
    read(payload).map_err(|problem| {
        let shown: String = payload.as_str().chars().take(120).collect();
        let what = format!("{what} does not read as {}", std::any::type_name::<T>());
        Error::Payload { what, problem: format!("{problem} in {shown}") }
    })
}

/// Returns an error if a value that was just serialized does not read back: `NaN`, for one, is written as `null`.
pub(crate) fn check<T: DeserializeOwned>(what: &str, payload: &Payload) -> Result<(), Error> {
    // Dropping the value is user code, too.
    match panics::catch(|| decode::<T>(what, payload).map(drop)) {
        Ok(read) => read,
        Err(panic) => Err(Error::Payload { what: format!("{what} cannot be dropped"), problem: panic.to_string() }),
    }
}

/// Deserializes JSON as a `T`; the error says what is wrong with it.
pub(crate) fn read<T: DeserializeOwned>(payload: &Payload) -> Result<T, String> {
    match panics::catch(|| payload.decode::<T>()) {
        Ok(decoded) => decoded.map_err(|error| error.to_string()),
        Err(panic) => Err(panic.to_string()),
    }
}
