//! A JSON document that is written part by part, so that a long list need not fit in memory.

use std::io::{self, BufWriter, Stdout, Write as _};

use serde::Serialize;

use crate::error::Error;
use crate::escape;

/// One JSON object on its way to stdout.
pub(crate) struct Document {
    stdout: BufWriter<Stdout>,
    /// What goes before the next field or item: nothing, or a comma.
    comma: &'static str,
}

impl Document {
    pub(crate) fn begin() -> Result<Self, Error> {
        let mut document = Self { stdout: BufWriter::new(io::stdout()), comma: "" };
        document.put("{")?;
        Ok(document)
    }

    /// Writes a field as a whole.
    pub(crate) fn field(&mut self, name: &str, value: &impl Serialize) -> Result<(), Error> {
        let text = text(value, "\n  ")?;
        self.put(&format!("{}\n  \"{name}\": {text}", self.comma))?;
        self.comma = ",";
        Ok(())
    }

    /// Begins a field that is a list.
    pub(crate) fn begin_list(&mut self, name: &str) -> Result<(), Error> {
        self.put(&format!("{}\n  \"{name}\": [", self.comma))?;
        self.comma = "";
        Ok(())
    }

    /// Writes an item of the list.
    pub(crate) fn item(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let text = text(value, "\n    ")?;
        self.put(&format!("{}\n    {text}", self.comma))?;
        self.comma = ",";
        Ok(())
    }

    pub(crate) fn end_list(&mut self) -> Result<(), Error> {
        let is_empty = self.comma.is_empty();
        self.comma = ",";
        self.put(if is_empty { "]" } else { "\n  ]" })
    }

    pub(crate) fn end(mut self) -> Result<(), Error> {
        self.put("\n}\n")?;
        self.stdout.flush().map_err(Error::Output)
    }

    fn put(&mut self, text: &str) -> Result<(), Error> {
        self.stdout.write_all(text.as_bytes()).map_err(Error::Output)
    }
}

/// A value as JSON that can be shown, its lines set in. Outside of strings a line end is a space like any other.
fn text(value: &impl Serialize, line_end: &str) -> Result<String, Error> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Error::said(format!("the answer cannot be written as JSON: {error}")))?;
    Ok(escape::json(&text).replace('\n', line_end))
}
