//! Pages of a read: bounded by the bytes they hold as well as by the number of their items.

use crate::fault::Error;
use crate::id::InstanceNum;
use crate::journal::Entry;
use crate::message::{Inbound, Message};
use crate::payload::Payload;
use crate::query::{Instance, Line, Query, Told};
use crate::queue::Dead;

/// The weight at which a page is full. The item that reaches it is the last one, so a page holds at least one item
/// however large, and at most this much plus one item.
///
/// ```
/// use outlive_core::page::PAGE_BYTES;
/// assert_eq!(PAGE_BYTES, 4 * 1024 * 1024);
/// ```
pub const PAGE_BYTES: usize = 4 << 20;

/// What an item weighs besides its texts.
const ITEM_BYTES: usize = 64;

/// An item of a page.
///
/// ```
/// use outlive_core::journal::{Entry, EntryKind};
/// use outlive_core::page::Weight;
/// # use outlive_core::{payload::Payload, time::Timestamp};
/// let mut entry = Entry::of_run(1, Timestamp::from_millis(0), EntryKind::StepDone);
/// let without = entry.weight();
/// entry.payload = Some(Payload::recorded("\"paid\""));
/// assert_eq!(entry.weight(), without + 6);
/// ```
pub trait Weight {
    /// Returns about how many bytes it takes in memory.
    ///
    /// ```
    /// # use outlive_core::{page::Weight, query::Told};
    /// fn total(page: &[Told]) -> usize { page.iter().map(Weight::weight).sum() }
    /// ```
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
            Message::Signal { name, payload } => name.as_str().len() + payload.len(),
            Message::Cancel { reason } | Message::Terminate { reason } => reason.len(),
            Message::Event(event) => event.payload.len(),
            _ => 0,
        };
        ITEM_BYTES + texts
    }
}

impl Weight for Told {
    fn weight(&self) -> usize {
        let line = match &self.line {
            Line::Entry(entry) => entry.weight(),
            Line::News(news) => ITEM_BYTES + len(news.detail.as_ref()),
        };
        ITEM_BYTES + self.id.as_str().len() + self.workflow.as_str().len() + line
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

/// The room on a page.
///
/// ```
/// use outlive_core::page::Room;
/// # use outlive_core::{journal::{Entry, EntryKind}, time::Timestamp};
/// let mut room = Room::new(1);
/// assert!(!room.is_full());
/// room.take(&Entry::of_run(1, Timestamp::from_millis(0), EntryKind::StepDone));
/// assert!(room.is_full());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    items: usize,
    bytes: usize,
}

impl Room {
    /// Returns the room on a page of at most `limit` items.
    ///
    /// ```
    /// # use outlive_core::page::Room;
    /// assert!(Room::new(0).is_full());
    /// ```
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { items: limit, bytes: PAGE_BYTES }
    }

    /// Returns the room for all there is, for what has to be read as a whole.
    ///
    /// ```
    /// # use outlive_core::page::Room;
    /// assert!(!Room::unbounded().is_full());
    /// ```
    #[must_use]
    pub fn unbounded() -> Self {
        Self { items: usize::MAX, bytes: usize::MAX }
    }

    /// Takes the room that an item needs.
    ///
    /// ```
    /// # use outlive_core::{journal::{Entry, EntryKind}, page::{PAGE_BYTES, Room}, payload::Payload, time::Timestamp};
    /// # let mut large = Entry::of_run(1, Timestamp::from_millis(0), EntryKind::StepDone);
    /// large.payload = Some(Payload::recorded(&"9".repeat(PAGE_BYTES)));
    /// let mut room = Room::new(100);
    /// room.take(&large);
    /// assert!(room.is_full(), "by its bytes");
    /// ```
    pub fn take(&mut self, item: &impl Weight) {
        self.items = self.items.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(item.weight());
    }

    /// Returns `true` if nothing more goes on the page.
    ///
    /// ```
    /// # use outlive_core::page::Room;
    /// assert!(!Room::new(1).is_full());
    /// ```
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.items == 0 || self.bytes == 0
    }
}

/// Fills a page with the first of these items.
///
/// ```
/// # use outlive_core::{journal::{Entry, EntryKind}, page::fill, time::Timestamp};
/// # let entries: Vec<Entry> =
/// #     (1..=5).map(|seq| Entry::of_run(seq, Timestamp::from_millis(0), EntryKind::StepDone)).collect();
/// assert_eq!(fill(entries.into_iter(), 3).len(), 3);
/// ```
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

/// Reads the journal of an instance from `after` to its end, page by page.
///
/// # Errors
/// As [`Query::journal`].
///
/// ```
/// # async fn example() -> Result<(), outlive_core::store::Error> {
/// # let store = outlive_core::memory::MemoryStore::new();
/// # use outlive_core::{id::InstanceNum, page::whole_journal};
/// assert!(whole_journal(&store, InstanceNum(1), 0).await?.is_empty());
/// # Ok(())
/// # }
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
/// ```
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

/// Reads the inbox of an instance to its end, page by page.
///
/// # Errors
/// As [`Query::inbox`].
///
/// ```
/// # async fn example() -> Result<(), outlive_core::store::Error> {
/// # let store = outlive_core::memory::MemoryStore::new();
/// # use outlive_core::{id::InstanceNum, page::whole_inbox};
/// assert!(whole_inbox(&store, InstanceNum(1)).await?.is_empty());
/// # Ok(())
/// # }
/// # let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(std::pin::pin!(example()).poll(&mut cx), std::task::Poll::Ready(Ok(())));
/// ```
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
