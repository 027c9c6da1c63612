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
    /// The line break before the next field or item, with its indentation.
    line: String,
}

impl JsonStream {
    pub(crate) fn begin() -> Result<Self, CliError> {
        let mut stream = Self { stdout: BufWriter::new(io::stdout()), comma: "", line: "\n".to_owned() };
        stream.put("{")?;
        stream.indent();
        Ok(stream)
    }

    /// Writes a complete field.
    pub(crate) fn field(&mut self, name: &str, value: &impl Serialize) -> Result<(), CliError> {
        let text = self.text(value)?;
        self.next(&format!("\"{name}\": {text}"))
    }

    /// Starts a field that is a list.
    pub(crate) fn begin_list(&mut self, name: &str) -> Result<(), CliError> {
        self.next(&format!("\"{name}\": ["))?;
        self.indent();
        Ok(())
    }

    /// Writes a complete item of the list.
    pub(crate) fn item(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        let text = self.text(value)?;
        self.next(&text)
    }

    /// Starts an item of the list that is an object. Its fields follow.
    pub(crate) fn begin_item(&mut self) -> Result<(), CliError> {
        self.next("{")?;
        self.indent();
        Ok(())
    }

    pub(crate) fn end_item(&mut self) -> Result<(), CliError> {
        self.close("}")
    }

    pub(crate) fn end_list(&mut self) -> Result<(), CliError> {
        self.close("]")
    }

    pub(crate) fn end(mut self) -> Result<(), CliError> {
        self.put("\n}\n")?;
        self.stdout.flush().map_err(CliError::Output)
    }

    fn indent(&mut self) {
        self.line.push_str("  ");
        self.comma = "";
    }

    /// Ends a list or an object; an empty one on the line where it began.
    fn close(&mut self, end: &str) -> Result<(), CliError> {
        self.line.truncate(self.line.len() - 2);
        let line = if self.comma.is_empty() { "" } else { &self.line };
        let text = format!("{line}{end}");
        self.comma = ",";
        self.put(&text)
    }

    /// Writes a field or an item, or the start of one.
    fn next(&mut self, text: &str) -> Result<(), CliError> {
        let text = format!("{}{}{text}", self.comma, self.line);
        self.comma = ",";
        self.put(&text)
    }

    fn put(&mut self, text: &str) -> Result<(), CliError> {
        self.stdout.write_all(text.as_bytes()).map_err(CliError::Output)
    }

    /// Returns a value as JSON that is safe to display, with its lines indented. Outside strings, a line break is mere
    /// whitespace.
    fn text(&self, value: &impl Serialize) -> Result<String, CliError> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| CliError::message(format!("cannot write the output as JSON: {error}")))?;
        Ok(escape::json(&text).replace('\n', &self.line))
    }
}
