//! Pages of a read, bounded by bytes as well as by item count.

use crate::id::InstanceNum;
use crate::journal::Entry;
use crate::message::{Inbound, Message};
use crate::output::{Output, OutputRead};
use crate::payload::Payload;
use crate::queue::Dead;
use crate::store::error::Error;
use crate::store::query::{FeedContent, FeedItem, Instance, Query};

/// The size at which a page is full. The item that reaches it is the last one, so a page holds at least one item,
/// however large, and at most this many bytes plus one item.
pub const PAGE_BYTES: usize = 4 << 20;

/// Assumed size of an item, excluding its text.
const ITEM_BYTES: usize = 64;

/// The approximate size of a page item.
pub trait Weight {
    /// Returns roughly how many bytes the item takes in memory.
    fn weight(&self) -> usize;
}

fn len(payload: Option<&Payload>) -> usize {
    payload.map_or(0, Payload::len)
}

impl Weight for Entry {
    fn weight(&self) -> usize {
        ITEM_BYTES + self.op.len() + self.site.len() + len(self.payload.as_ref())
    }
}

impl Weight for Inbound {
    fn weight(&self) -> usize {
        let texts = match &self.message {
            Message::Signal { name, payload } | Message::Question { name, payload } => {
                name.as_str().len() + payload.len()
            }
            Message::Cancel { reason } | Message::Terminate { reason } => reason.len(),
            Message::Event(event) => event.payload.len(),
            _ => 0,
        };
        ITEM_BYTES + texts
    }
}

impl Weight for FeedItem {
    fn weight(&self) -> usize {
        let content = match &self.content {
            FeedContent::Entry(entry) => entry.weight(),
            FeedContent::Lifecycle(record) => ITEM_BYTES + len(record.detail.as_ref()),
        };
        ITEM_BYTES + self.id.as_str().len() + self.workflow.as_str().len() + content
    }
}

impl Weight for Instance {
    fn weight(&self) -> usize {
        let tags: usize = self.tags.iter().map(|(key, value)| ITEM_BYTES + key.len() + value.len()).sum();
        let names = self.id.as_str().len() + self.workflow.as_str().len();
        let texts = self.note.as_ref().map_or(0, String::len) + self.input.len() + len(self.outcome.as_ref());
        4 * ITEM_BYTES + names + tags + texts
    }
}

impl Weight for Dead {
    fn weight(&self) -> usize {
        2 * ITEM_BYTES + self.id.as_str().len() + self.failure.len() + self.event.payload.len()
    }
}

impl Weight for Output {
    fn weight(&self) -> usize {
        ITEM_BYTES + self.key.name.as_str().len() + self.payload.len()
    }
}

/// The space left on a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    items: usize,
    bytes: usize,
}

impl Room {
    /// Returns the space on an empty page of at most `limit` items.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { items: limit, bytes: PAGE_BYTES }
    }

    /// Returns unlimited space, for reads that need everything at once.
    #[must_use]
    pub fn unbounded() -> Self {
        Self { items: usize::MAX, bytes: usize::MAX }
    }

    /// Subtracts the space an item takes.
    pub fn take(&mut self, item: &impl Weight) {
        self.items = self.items.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(item.weight());
    }

    /// Returns `true` if no further item fits.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.items == 0 || self.bytes == 0
    }
}

/// Collects items until the page is full.
pub fn fill<T: Weight>(items: impl Iterator<Item = T>, limit: usize) -> Vec<T> {
    let (mut page, mut room) = (Vec::new(), Room::new(limit));
    for item in items.take(limit) {
        room.take(&item);
        page.push(item);
        if room.is_full() {
            break;
        }
    }
    page
}

/// Returns `true` if a page of at most `limit` items is full, so that more may follow.
pub fn is_full(page: &[impl Weight], limit: usize) -> bool {
    let mut room = Room::new(limit);
    page.iter().for_each(|item| room.take(item));
    room.is_full()
}

/// Reads the journal of an instance after `after` to its end, page by page.
///
/// # Errors
/// The errors of [`Query::journal`].
pub async fn whole_journal<Q: Query + ?Sized>(query: &Q, num: InstanceNum, after: u64) -> Result<Vec<Entry>, Error> {
    let mut journal = query.journal(num, after, usize::MAX).await?;
    let mut has_more = is_full(&journal, usize::MAX);
    while let Some(last) = journal.last().map(|entry| entry.seq).filter(|_| has_more) {
        let page = query.journal(num, last, usize::MAX).await?;
        has_more = is_full(&page, usize::MAX);
        journal.extend(page);
    }
    Ok(journal)
}

/// Reads everything that a run has given out, page by page.
///
/// # Errors
/// The errors of [`Query::outputs`].
pub async fn whole_outputs<Q: Query + ?Sized>(query: &Q, num: InstanceNum) -> Result<Vec<Output>, Error> {
    let mut outputs = query.outputs(num, OutputRead::All { after: None }, usize::MAX).await?;
    let mut has_more = is_full(&outputs, usize::MAX);
    while let Some(last) = outputs.last().map(|output| output.key.clone()).filter(|_| has_more) {
        let page = query.outputs(num, OutputRead::All { after: Some(last) }, usize::MAX).await?;
        has_more = is_full(&page, usize::MAX);
        outputs.extend(page);
    }
    Ok(outputs)
}

/// Reads the whole inbox of an instance, page by page.
///
/// # Errors
/// The errors of [`Query::inbox`].
pub async fn whole_inbox<Q: Query + ?Sized>(query: &Q, num: InstanceNum) -> Result<Vec<Inbound>, Error> {
    let mut inbox = query.inbox(num, 0, usize::MAX).await?;
    let mut has_more = is_full(&inbox, usize::MAX);
    while let Some(last) = inbox.last().map(|inbound| inbound.pos).filter(|_| has_more) {
        let page = query.inbox(num, last, usize::MAX).await?;
        has_more = is_full(&page, usize::MAX);
        inbox.extend(page);
    }
    Ok(inbox)
}
