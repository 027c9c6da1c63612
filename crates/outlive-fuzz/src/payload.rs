//! Reads any text as JSON: a payload, a recorded failure, and what people type for one.

use std::collections::BTreeMap;

use outlive_core::failure::Failure;
use outlive_core::payload::Payload;
use serde_json::Value;

use crate::typed::compact;

/// Reads the bytes as a payload.
///
/// ```
/// outlive_fuzz::payload::run(br#"{"cause":"error","message":"declined"}"#);
/// ```
///
/// # Panics
/// If what was read changes when it is written and read again.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let payload = Payload::recorded(text);
    let parsed = Payload::parse(text);
    decode_as_anything(&payload);
    if let Ok(value) = payload.decode::<Value>() {
        assert_eq!(parsed.as_ref().ok(), Some(&payload), "{text:?} is JSON, but was rejected");
        let again = Payload::encode(&value).expect("a value is JSON");
        assert_eq!(again.decode::<Value>().ok(), Some(value.clone()), "{text:?}");
        let short = compact(text);
        assert_eq!(serde_json::from_str::<Value>(&short).ok(), Some(value), "{text:?} as {short:?}");
        assert_eq!(compact(&short), short);
    }
    if let Ok(failure) = Failure::from_payload(&payload) {
        let again = failure.to_payload();
        assert_eq!(Failure::from_payload(&again), Ok(failure), "{text:?} as {again}");
    }
}

fn decode_as_anything(payload: &Payload) {
    let _ = payload.decode::<()>();
    let _ = payload.decode::<u8>();
    let _ = payload.decode::<f64>();
    let _ = payload.decode::<String>();
    let _ = payload.decode::<(String, Option<i64>)>();
    let _ = payload.decode::<Vec<bool>>();
    let _ = payload.decode::<BTreeMap<String, Vec<u64>>>();
}
