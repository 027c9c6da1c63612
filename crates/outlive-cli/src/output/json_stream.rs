//! Writes a JSON document piece by piece, so that a long list need not fit in memory.

use std::io::{self, BufWriter, Stdout, Write as _};

use serde::Serialize;

use crate::error::CliError;
use crate::output::escape;

/// A JSON object being written to stdout.
pub(crate) struct JsonStream {
    stdout: BufWriter<Stdout>,
    /// The separator before the next field or item: nothing, or a comma.
    comma: &'static str,
}

impl JsonStream {
    pub(crate) fn begin() -> Result<Self, CliError> {
        let mut stream = Self { stdout: BufWriter::new(io::stdout()), comma: "" };
        stream.put("{")?;
        Ok(stream)
    }

    /// Writes a complete field.
    pub(crate) fn field(&mut self, name: &str, value: &impl Serialize) -> Result<(), CliError> {
        let text = text(value, "\n  ")?;
        self.put(&format!("{}\n  \"{name}\": {text}", self.comma))?;
        self.comma = ",";
        Ok(())
    }

    /// Starts a field that is a list.
    pub(crate) fn begin_list(&mut self, name: &str) -> Result<(), CliError> {
        self.put(&format!("{}\n  \"{name}\": [", self.comma))?;
        self.comma = "";
        Ok(())
    }

    /// Writes an item of the list.
    pub(crate) fn item(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        let text = text(value, "\n    ")?;
        self.put(&format!("{}\n    {text}", self.comma))?;
        self.comma = ",";
        Ok(())
    }

    pub(crate) fn end_list(&mut self) -> Result<(), CliError> {
        let is_empty = self.comma.is_empty();
        self.comma = ",";
        self.put(if is_empty { "]" } else { "\n  ]" })
    }

    pub(crate) fn end(mut self) -> Result<(), CliError> {
        self.put("\n}\n")?;
        self.stdout.flush().map_err(CliError::Output)
    }

    fn put(&mut self, text: &str) -> Result<(), CliError> {
        self.stdout.write_all(text.as_bytes()).map_err(CliError::Output)
    }
}

/// Returns a value as JSON that is safe to display, with its lines indented. Outside strings, a line break is mere
/// whitespace.
fn text(value: &impl Serialize, line_end: &str) -> Result<String, CliError> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| CliError::message(format!("cannot write the output as JSON: {error}")))?;
    Ok(escape::json(&text).replace('\n', line_end))
}
