//! Reads what a run gives out as it is stored, in this process or in any other.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use outlive_core::id::{InstanceNum, Name};
use outlive_core::output::{Output, OutputKind, OutputRead};
use outlive_core::status::Status;

use crate::error::Error;
use crate::runtime::shared::Shared;
use crate::runtime::waiters::Until;

/// How many outputs to read at once.
const PAGE: usize = 1_000;

/// Where a reader of outputs is.
pub(super) struct OutputCursor {
    pub(super) shared: Arc<Shared>,
    pub(super) id: Name,
    pub(super) num: InstanceNum,
    pub(super) kind: OutputKind,
    /// The name of the value or stream, or the error in it.
    pub(super) name: Result<Name, Error>,
    /// The next item to return.
    pub(super) next: u64,
    /// Items that were read and not returned.
    page: VecDeque<Output>,
    is_over: bool,
}

impl OutputCursor {
    pub(super) fn new(shared: Arc<Shared>, (id, num): (Name, InstanceNum), kind: OutputKind, name: &str) -> Self {
        let what = if kind == OutputKind::Value { "value name" } else { "stream name" };
        let name = Name::new(what, name).map_err(Error::from);
        Self { shared, id, num, kind, name, next: 0, page: VecDeque::new(), is_over: false }
    }

    /// Waits for the next output. Returns `None` once the run has ended and there is no more.
    async fn next(&mut self) -> Result<Option<Output>, Error> {
        let name = self.name.clone()?;
        loop {
            if let Some(output) = self.take() {
                return Ok(Some(output));
            }
            if self.is_over {
                return Ok(None);
            }
            let shared = self.shared.clone();
            // Subscribed before the store is read, so no change in between is missed.
            let wait = shared.waiters.wait_for(self.num, Until::Changed);
            if self.read(&name).await? {
                continue;
            }
            let status = self.status().await?;
            if status.is_ended() {
                // What it gave out last may have come between the two reads.
                self.is_over = !self.read(&name).await?;
                continue;
            }
            if status == Status::Stuck {
                self.is_over = true;
                let reason = shared.instance(&self.id).await?.note.unwrap_or_default();
                return Err(Error::Stuck { id: self.id.to_string(), reason });
            }
            shared.committer.check()?;
            wait.await;
        }
    }

    /// Returns the outputs so far that were not returned yet, at most `max`.
    pub(super) async fn read_now(&mut self, max: usize) -> Result<Vec<Output>, Error> {
        let name = self.name.clone()?;
        let mut found = Vec::new();
        while found.len() < max {
            match self.take() {
                Some(output) => found.push(output),
                None if self.read(&name).await? => {}
                None => break,
            }
        }
        if found.is_empty() {
            self.status().await?;
        }
        Ok(found)
    }

    fn take(&mut self) -> Option<Output> {
        let output = self.page.pop_front()?;
        self.next = output.key.item.saturating_add(1);
        Some(output)
    }

    /// Reads the next page. Returns `false` if it is empty.
    async fn read(&mut self, name: &Name) -> Result<bool, Error> {
        let read = OutputRead::Of { kind: self.kind, name: name.clone(), from: self.next };
        self.page = self.shared.store.outputs(self.num, read, PAGE).await?.into();
        Ok(!self.page.is_empty())
    }

    async fn status(&self) -> Result<Status, Error> {
        let instance = self.shared.instance(&self.id).await?;
        if instance.num != self.num {
            return Err(Error::NotFound { id: self.id.to_string() });
        }
        Ok(instance.status)
    }
}

/// A reader of outputs that can be polled. A wait that is dropped loses nothing.
pub(super) enum OutputReader {
    /// Not waiting; `None` only while a wait begins.
    Idle(Option<Box<OutputCursor>>),
    Waiting(WaitingReader),
}

type WaitingReader = Pin<Box<dyn Future<Output = (Box<OutputCursor>, Result<Option<Output>, Error>)> + Send>>;

impl OutputReader {
    pub(super) fn new(cursor: OutputCursor) -> Self {
        Self::Idle(Some(Box::new(cursor)))
    }

    /// Returns the cursor, unless a wait is in progress.
    pub(super) fn cursor_mut(&mut self) -> Option<&mut OutputCursor> {
        match self {
            Self::Idle(cursor) => cursor.as_deref_mut(),
            Self::Waiting(_) => None,
        }
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Output>, Error>> {
        if let Self::Idle(idle) = self
            && let Some(mut cursor) = idle.take()
        {
            if let Some(output) = cursor.take() {
                *idle = Some(cursor);
                return Poll::Ready(Ok(Some(output)));
            }
            *self = Self::Waiting(Box::pin(async move {
                let next = cursor.next().await;
                (cursor, next)
            }));
        }
        let Self::Waiting(waiting) = self else { return Poll::Pending };
        let (cursor, next) = ready!(waiting.as_mut().poll(cx));
        *self = Self::Idle(Some(cursor));
        Poll::Ready(next)
    }
}
