//! Parses any text as a duration: accepted or rejected, never a panic and never zero by accident.

use outlive_core::duration::{LONGEST, parse};

/// Parses the bytes as the text of a duration.
///
/// ```
/// outlive_fuzz::duration::run(b"1h 30m");
/// outlive_fuzz::duration::run(b"5 parsecs");
/// ```
///
/// # Panics
/// If the parsed duration is not what the text says.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match parse(text) {
        Ok(duration) => {
            assert!(duration <= LONGEST, "{text:?} is longer than the limit: {duration:?}");
            let is_more = text.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
            assert_eq!(!duration.is_zero(), is_more, "{text:?} is {duration:?}");
            for again in [
                format!("{}s {}ns", duration.as_secs(), duration.subsec_nanos()),
                format!("{}.{:09} seconds", duration.as_secs(), duration.subsec_nanos()),
                format!("PT{}.{:09}S", duration.as_secs(), duration.subsec_nanos()),
                format!(" {text}\t"),
            ] {
                assert_eq!(parse(&again), Ok(duration), "{text:?} as {again:?}");
            }
        }
        Err(error) => {
            assert_eq!(error.text(), text);
            let sentence = error.to_string();
            assert!(sentence.starts_with("duration \"") && sentence.len() < 1_500, "{sentence}");
        }
    }
}
