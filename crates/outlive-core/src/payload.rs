//! What user code hands over and gets back: JSON text, so that people, SQL and other languages can read it.

use std::fmt;
use std::io::{Error as IoError, Result as IoResult, Write};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::ser::{Formatter, Serializer};
use serde_json::value::RawValue;

use crate::scratch;

/// The most levels of arrays and objects that a value may have. `serde_json` reads 127, of which a few are ours: an
/// event lies in a batch, a failure in a record.
///
/// ```
/// use outlive_core::payload::{DEPTH_MAX, Payload};
/// let nested = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
/// assert!(Payload::parse(&nested(DEPTH_MAX)).is_ok());
/// assert!(Payload::parse(&nested(DEPTH_MAX + 1)).is_err());
/// ```
pub const DEPTH_MAX: usize = 120;

/// One JSON value as text. Cheap to clone.
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
    /// Writes `value` as JSON.
    ///
    /// # Errors
    /// If the value's `Serialize` fails, it cannot be JSON (a map whose keys are not text), or it is nested deeper than
    /// [`DEPTH_MAX`].
    ///
    /// ```
    /// # use outlive_core::payload::Payload;
    /// assert_eq!(Payload::encode(&["tea", "milk"]).unwrap().as_str(), r#"["tea","milk"]"#);
    /// ```
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        scratch::text(|text| value.serialize(&mut Serializer::with_formatter(text, Levels(0)))).map(Self)
    }

    /// Reads the JSON as a `T`.
    ///
    /// # Errors
    /// If the JSON does not fit the type.
    ///
    /// ```
    /// # use outlive_core::payload::Payload;
    /// let payload = Payload::recorded("42");
    /// assert_eq!(payload.decode::<u8>().unwrap(), 42);
    /// assert!(payload.decode::<String>().is_err());
    /// ```
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// Takes text that is said to be JSON, and checks it.
    ///
    /// # Errors
    /// If it is not one JSON value, or nested deeper than [`DEPTH_MAX`].
    ///
    /// ```
    /// # use outlive_core::payload::Payload;
    /// assert!(Payload::parse(r#"{"amount":42}"#).is_ok());
    /// assert!(Payload::parse("forty-two").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<serde::de::IgnoredAny>(text)?;
        match depth(text) {
            ..=DEPTH_MAX => Ok(Self(text.into())),
            _ => Err(serde::de::Error::custom(too_deep())),
        }
    }

    /// Text read back from a store, where it was JSON when it was written.
    ///
    /// ```
    /// # use outlive_core::payload::Payload;
    /// assert_eq!(Payload::recorded("[1,2]").decode::<Vec<u8>>().unwrap(), [1, 2]);
    /// ```
    #[must_use]
    pub fn recorded(text: &str) -> Self {
        Self(text.into())
    }

    /// The JSON text.
    ///
    /// ```
    /// # use outlive_core::payload::Payload;
    /// assert_eq!(Payload::encode("tea").unwrap().as_str(), r#""tea""#);
    /// ```
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its length in bytes.
    ///
    /// ```
    /// # use outlive_core::payload::Payload;
    /// assert_eq!(Payload::encode("tea").unwrap().len(), 5);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no text at all, which no JSON value has.
    ///
    /// ```
    /// # use outlive_core::payload::Payload;
    /// assert!(!Payload::encode("").unwrap().is_empty(), "it is two quotation marks");
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writes JSON without spaces, and no more levels of it than can be read back.
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
    format!("it is nested more than {DEPTH_MAX} levels deep; flatten it, or keep it as text")
}

/// How many levels of arrays and objects JSON text has.
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

/// Reads a member that may be missing, for `#[serde(default, deserialize_with = "present")]`. One that is `null` is there:
/// a plain `Option` would take it for missing.
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
/// If it is not JSON.
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

    /// JSON was read with "best effort" precision: one random fraction in ten came back as its neighbour, so that a run
    /// saw another value after a restart than it had seen before.
    /// What broke: a value was written however deep it was, and what was deeper than 127 levels never read back.
    #[test]
    fn what_is_written_reads_back_or_is_refused_for_its_depth() {
        let nested = |levels| {
            (1..levels).fold(json!([]), |value, n| if n % 2 == 0 { json!([value]) } else { json!({"a": value}) })
        };
        for levels in [1, DEPTH_MAX - 1, DEPTH_MAX] {
            let payload = Payload::encode(&nested(levels)).expect("it is not too deep");
            assert_eq!(depth(payload.as_str()), levels);
            assert_eq!(payload.decode::<serde_json::Value>().expect("it reads back"), nested(levels));
            assert_eq!(Payload::parse(payload.as_str()).expect("it is JSON"), payload);
        }
        let error = Payload::encode(&nested(DEPTH_MAX + 1)).expect_err("it is too deep");
        assert_eq!(error.to_string(), "it is nested more than 120 levels deep; flatten it, or keep it as text");
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(Payload::parse(&deep).expect_err("it is too deep").to_string().contains("120 levels"));
        assert_eq!(depth(r#"["[[\"[[", {"{": 1}]"#), 2, "brackets in texts do not count");
    }

    #[test]
    fn a_number_is_read_back_to_the_last_bit() {
        for number in [9.633605973796545, 0.9196939335013967, 0.1, f64::MAX, f64::MIN_POSITIVE, 5e-324, -0.0] {
            let again: f64 = Payload::encode(&number).expect("a number is JSON").decode().expect("it is a number");
            assert_eq!(again.to_bits(), number.to_bits(), "{number}");
        }
    }
}
