//! Reads a journal page by page.

use outlive::Entry;

use crate::open::AnyRun;

/// Reads a journal page by page, without keeping it in memory.
pub(crate) struct JournalPages<'a> {
    run: &'a AnyRun,
    /// The number of the last entry read.
    seen: u64,
}

impl<'a> JournalPages<'a> {
    pub(crate) fn new(run: &'a AnyRun) -> Self {
        Self { run, seen: 0 }
    }

    /// Returns the next entries, or `None` if there are no more now.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Entry>>, outlive::Error> {
        let page = self.run.journal_page(self.seen).await?;
        let Some(last) = page.last() else { return Ok(None) };
        self.seen = last.seq;
        Ok(Some(page))
    }

    /// Returns `true` if nothing has been read.
    pub(crate) fn is_empty(&self) -> bool {
        self.seen == 0
    }
}
