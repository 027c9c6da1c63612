//! What user code hands over and gets back: JSON text, so that people, SQL and other languages can read it.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::scratch;

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
    /// If the value's `Serialize` fails, or it cannot be JSON (a map whose keys are not text).
    ///
    /// ```
    /// # use outlive_core::payload::Payload;
    /// assert_eq!(Payload::encode(&["tea", "milk"]).unwrap().as_str(), r#"["tea","milk"]"#);
    /// ```
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        scratch::text(|text| serde_json::to_writer(text, value)).map(Self)
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
    /// If it is not one JSON value.
    ///
    /// ```
    /// # use outlive_core::payload::Payload;
    /// assert!(Payload::parse(r#"{"amount":42}"#).is_ok());
    /// assert!(Payload::parse("forty-two").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<serde::de::IgnoredAny>(text)?;
        Ok(Self(text.into()))
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
    use super::*;

    /// JSON was read with "best effort" precision: one random fraction in ten came back as its neighbour, so that a run
    /// saw another value after a restart than it had seen before.
    #[test]
    fn a_number_is_read_back_to_the_last_bit() {
        for number in [9.633605973796545, 0.9196939335013967, 0.1, f64::MAX, f64::MIN_POSITIVE, 5e-324, -0.0] {
            let again: f64 = Payload::encode(&number).expect("a number is JSON").decode().expect("it is a number");
            assert_eq!(again.to_bits(), number.to_bits(), "{number}");
        }
    }
}
