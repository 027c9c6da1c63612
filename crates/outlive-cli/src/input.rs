//! Values that are typed: JSON, from the command line or stdin, and `key=value` pairs.

use std::io;

use outlive::StatusKind;
use serde_json::value::RawValue;

use crate::error::Error;

/// The JSON in an argument, or in stdin if that is `-`, without the spaces between its parts.
pub(crate) fn json(what: &str, argument: &str) -> Result<Box<RawValue>, Error> {
    let text = match argument {
        "-" => io::read_to_string(io::stdin())
            .map_err(|error| Error::said(format!("the {what} cannot be read from stdin: {error}")))?,
        text => text.to_owned(),
    };
    let refuse = |error: serde_json::Error| {
        let shown: String = text.chars().take(60).collect();
        let more = if shown.len() < text.len() { "…" } else { "" };
        Error::said(format!(
            "the {what} {shown:?}{more} is not JSON ({error}); text needs quotes of its own, as in '\"ada\"'"
        ))
    };
    serde_json::from_str::<&RawValue>(&text).map_err(refuse)?;
    RawValue::from_string(compact(&text)).map_err(refuse)
}

/// JSON as programs write it. Inputs are the same if their text is, and people put spaces where programs do not.
fn compact(json: &str) -> String {
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

/// Reads `key=value`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as key=value".into()),
    }
}

/// Reads the word for a status.
pub(crate) fn status(text: &str) -> Result<StatusKind, String> {
    StatusKind::from_text(text).ok_or_else(|| {
        let known: Vec<&str> = StatusKind::ALL.into_iter().map(StatusKind::as_str).collect();
        format!("write one of {}", known.join(", "))
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn spaces_between_the_parts_of_json_go_and_those_in_text_stay() {
        let given = " { \"a b\" : [ 1 , \"c \\\" d\\\\\" , 1e400 ] } \n";
        assert_eq!(json("input", given).unwrap().get(), r#"{"a b":[1,"c \" d\\",1e400]}"#);
    }

    #[test]
    fn what_is_not_json_is_refused_by_its_text() {
        let error = json("input", "ada").unwrap_err().to_string();
        assert!(error.starts_with("the input \"ada\" is not JSON"), "{error}");
        assert!(json("input", "").is_err() && json("input", "1 2").is_err());
    }

    #[test]
    fn a_pair_has_a_key_and_may_have_any_value() {
        assert_eq!(pair("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(pair("a="), Ok(("a".into(), String::new())));
        assert!(pair("a").is_err() && pair("=b").is_err());
    }
}
