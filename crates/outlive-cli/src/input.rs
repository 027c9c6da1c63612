//! Reads JSON from an argument or from stdin.

use std::io;

use serde_json::value::RawValue;

use crate::error::CliError;
use crate::typed::compact;

/// Returns the JSON in an argument, or from stdin if that is `-`, without whitespace between tokens.
pub(crate) fn json(what: &str, argument: &str) -> Result<Box<RawValue>, CliError> {
    let text = match argument {
        "-" => io::read_to_string(io::stdin())
            .map_err(|error| CliError::message(format!("cannot read the {what} from stdin: {error}")))?,
        text => text.to_owned(),
    };
    let refuse = |error: serde_json::Error| {
        let shown: String = text.chars().take(60).collect();
        let more = if shown.len() < text.len() { "…" } else { "" };
        CliError::message(format!(
            "the {what} {shown:?}{more} is not JSON ({error}); a string needs its own quotes, as in '\"ada\"'"
        ))
    };
    serde_json::from_str::<&RawValue>(&text).map_err(refuse)?;
    RawValue::from_string(compact(&text)).map_err(refuse)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn whitespace_in_json_is_removed_except_in_strings() {
        let given = " { \"a b\" : [ 1 , \"c \\\" d\\\\\" , 1e400 ] } \n";
        assert_eq!(json("input", given).unwrap().get(), r#"{"a b":[1,"c \" d\\",1e400]}"#);
    }

    #[test]
    fn invalid_json_is_refused_with_its_text() {
        let error = json("input", "ada").unwrap_err().to_string();
        assert!(error.starts_with("the input \"ada\" is not JSON"), "{error}");
        assert!(json("input", "").is_err() && json("input", "1 2").is_err());
    }
}
