//! Values of user code as JSON text, so that people, SQL and other languages can read them.

use std::fmt;
use std::io::{Error as IoError, Result as IoResult, Write};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::ser::{Formatter, Serializer};
use serde_json::value::RawValue;

use crate::scratch;

/// The maximum nesting depth of a value. `serde_json` reads 127 levels, of which Outlive needs a few: an event is
/// nested in a batch, a failure in a record.
pub const DEPTH_MAX: usize = 120;

/// A JSON value as text. Cheap to clone.
///
/// ```
/// use outlive_core::payload::Payload;
/// let payload = Payload::encode(&("ada", 3)).unwrap();
/// assert_eq!(payload.as_str(), r#"["ada",3]"#);
/// assert_eq!(payload.decode::<(String, u8)>().unwrap(), ("ada".to_string(), 3));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(Arc<str>);

impl Payload {
    /// Serializes a value to JSON.
    ///
    /// # Errors
    /// If the `Serialize` implementation fails, the value cannot be JSON (such as a map with non-string keys), or it is
    /// nested deeper than [`DEPTH_MAX`].
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        scratch::text(|text| value.serialize(&mut Serializer::with_formatter(text, Levels(0)))).map(Self)
    }

    /// Deserializes the JSON to a `T`.
    ///
    /// # Errors
    /// If the JSON does not fit the type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// Validates JSON text.
    ///
    /// # Errors
    /// If the text is not a single JSON value or is nested deeper than [`DEPTH_MAX`].
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<serde::de::IgnoredAny>(text)?;
        match depth(text) {
            ..=DEPTH_MAX => Ok(Self(text.into())),
            _ => Err(serde::de::Error::custom(too_deep())),
        }
    }

    /// Wraps text read back from a store without validating it again.
    #[must_use]
    pub fn recorded(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if the text is empty, which no JSON value is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A compact JSON formatter that rejects nesting too deep to be read back.
struct Levels(usize);

impl Levels {
    fn enter(&mut self) -> IoResult<()> {
        self.0 += 1;
        if self.0 > DEPTH_MAX { Err(IoError::other(too_deep())) } else { Ok(()) }
    }
}

impl Formatter for Levels {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> IoResult<()> {
        self.enter()?;
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> IoResult<()> {
        self.0 -= 1;
        writer.write_all(b"]")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> IoResult<()> {
        self.enter()?;
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> IoResult<()> {
        self.0 -= 1;
        writer.write_all(b"}")
    }
}

fn too_deep() -> String {
    format!("value is nested more than {DEPTH_MAX} levels deep; flatten it or store it as text")
}

/// Returns the nesting depth of JSON text.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Deserializes an optional member, for `#[serde(default, deserialize_with = "present")]`. A `null` counts as present;
/// a plain `Option` would treat it as missing.
///
/// ```
/// use outlive_core::payload::present;
/// use serde_json::value::RawValue;
///
/// #[derive(serde::Deserialize)]
/// struct Kept {
///     #[serde(default, deserialize_with = "present")]
///     state: Option<Box<RawValue>>,
/// }
/// let read = |text| serde_json::from_str::<Kept>(text).map(|kept| kept.state.is_some());
/// assert_eq!((read(r#"{"state":null}"#)?, read("{}")?), (true, false));
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
/// If the member is not JSON.
pub fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Regression: a value was written however deep it was, and more than 127 levels could not be read back.
    #[test]
    fn values_round_trip_or_are_refused_for_their_depth() {
        let nested = |levels| {
            (1..levels).fold(json!([]), |value, n| if n % 2 == 0 { json!([value]) } else { json!({"a": value}) })
        };
        for levels in [1, DEPTH_MAX - 1, DEPTH_MAX] {
            let payload = Payload::encode(&nested(levels)).expect("not too deep");
            assert_eq!(depth(payload.as_str()), levels);
            assert_eq!(payload.decode::<serde_json::Value>().expect("can be read back"), nested(levels));
            assert_eq!(Payload::parse(payload.as_str()).expect("valid JSON"), payload);
        }
        let error = Payload::encode(&nested(DEPTH_MAX + 1)).expect_err("too deep");
        assert_eq!(error.to_string(), "value is nested more than 120 levels deep; flatten it or store it as text");
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(Payload::parse(&deep).expect_err("too deep").to_string().contains("120 levels"));
        assert_eq!(depth(r#"["[[\"[[", {"{": 1}]"#), 2, "brackets in strings do not count");
    }

    /// Regression: JSON was parsed with "best effort" precision. One random fraction in ten came back as its neighbor,
    /// so a run saw a different value after a restart.
    #[test]
    fn numbers_round_trip_to_the_last_bit() {
        for number in [9.633605973796545, 0.9196939335013967, 0.1, f64::MAX, f64::MIN_POSITIVE, 5e-324, -0.0] {
            let again: f64 = Payload::encode(&number).expect("a number is JSON").decode().expect("a number");
            assert_eq!(again.to_bits(), number.to_bits(), "{number}");
        }
    }
}
