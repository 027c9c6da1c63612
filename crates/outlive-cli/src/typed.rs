//! Parses arguments: pairs, statuses, and JSON with whitespace. Pure, so that the fuzzer can run it too.

use outlive::StatusKind;

/// Parses `key=value`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected key=value".into()),
    }
}

/// Parses a status.
pub(crate) fn status(text: &str) -> Result<StatusKind, String> {
    StatusKind::from_text(text).ok_or_else(|| {
        let known: Vec<&str> = StatusKind::ALL.into_iter().map(StatusKind::as_str).collect();
        format!("expected one of {}", known.join(", "))
    })
}

/// Removes whitespace between tokens. Inputs are equal if their texts are, and people type spaces where programs do
/// not.
pub(crate) fn compact(json: &str) -> String {
    let (mut is_text, mut is_escaped) = (false, false);
    let keep = |c: &char| {
        let is_space = !is_text && c.is_ascii_whitespace();
        if *c == '"' && !is_escaped {
            is_text = !is_text;
        }
        is_escaped = *c == '\\' && !is_escaped;
        !is_space
    };
    json.chars().filter(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pair_needs_a_key_and_accepts_any_value() {
        assert_eq!(pair("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(pair("a="), Ok(("a".into(), String::new())));
        assert!(pair("a").is_err() && pair("=b").is_err());
    }
}
