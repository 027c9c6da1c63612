//! The tags of a run to start.

use std::collections::BTreeMap;

use outlive_core::id::{self, LENGTH_MAX};
use outlive_core::payload::Payload;

use crate::error::Error;

/// The maximum number of tags on one run.
const TAGS_MAX: usize = 64;

/// Tags, each of which is valid.
#[derive(Clone, Default)]
pub(crate) struct Tags(BTreeMap<String, String>);

impl Tags {
    pub(crate) fn add(&mut self, key: &str, value: &str) -> Result<(), Error> {
        id::check("tag", key)?;
        if value.len() > LENGTH_MAX {
            let what = format!("the value of tag {key:?}");
            return Err(Error::PayloadTooLarge { what, bytes: value.len(), max_bytes: LENGTH_MAX });
        }
        self.0.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    /// Checks their number, and their size with the input: tags are stored with it, so they count towards its size.
    pub(crate) fn check(&self, input: &Payload, max_bytes: usize) -> Result<(), Error> {
        let too_large = |what: &str, bytes| Error::PayloadTooLarge { what: what.to_owned(), bytes, max_bytes };
        if input.len() > max_bytes {
            return Err(too_large("the input", input.len()));
        }
        if self.0.len() > TAGS_MAX {
            return Err(Error::TooManyTags { tags: self.0.len(), tags_max: TAGS_MAX });
        }
        let bytes = input.len() + self.0.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        if bytes > max_bytes { Err(too_large("the input with its tags", bytes)) } else { Ok(()) }
    }

    pub(crate) fn into_map(self) -> BTreeMap<String, String> {
        self.0
    }
}
