//! The state shared by clients, engines and the handles they return.

use std::marker::PhantomData;
use std::sync::Arc;

use outlive_core::id::{InstanceNum, Name};
use outlive_core::payload::Payload;
use outlive_core::store::Store;
use outlive_core::store::query::{Filter, Instance, Page};
use serde::Serialize;
use tokio::task::AbortHandle;

use crate::clock::Clock;
use crate::error::Error;
use crate::instance::codec;
use crate::instance::random::RandomSource;
use crate::runtime::committer::Committer;
use crate::runtime::registry::Registry;
use crate::runtime::replies::Replies;
use crate::runtime::services::Services;
use crate::runtime::waiters::Waiters;

/// The state shared by clients and engines.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) replies: Arc<Replies>,
    pub(crate) max_payload: usize,
    pub(crate) random: Arc<RandomSource>,
    /// The services of the worker, if this process executes.
    pub(crate) services: Option<Arc<Services>>,
    /// The tasks behind the handles, aborted with the last of them.
    pub(crate) tasks: Tasks,
}

/// The tasks behind a client or an engine.
pub(crate) struct Tasks {
    pub(crate) committer: AbortHandle,
    /// Tasks that find work or look for changes. Nothing that is executing needs them.
    pub(crate) finders: Vec<AbortHandle>,
}

impl Tasks {
    pub(crate) fn abort(&self) {
        self.abort_finders();
        self.committer.abort();
    }

    pub(crate) fn abort_finders(&self) {
        self.finders.iter().for_each(AbortHandle::abort);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.tasks.abort();
        self.services.iter().for_each(|services| services.residency.abort());
    }
}

impl Shared {
    pub(crate) async fn instance(&self, id: &Name) -> Result<Instance, Error> {
        let found = self.store.instance(id).await?;
        found.ok_or_else(|| Error::NotFound { id: id.to_string() })
    }

    /// Lists a page. It is empty only at the end, as a page on which the store has found nothing is skipped.
    pub(crate) async fn list(&self, filter: &Filter, before: Option<InstanceNum>, limit: usize) -> Result<Page, Error> {
        let mut page = self.store.list(filter, before, limit).await?;
        while let Some(next) = page.next.filter(|_| page.instances.is_empty()) {
            page = self.store.list(filter, Some(next), limit).await?;
        }
        Ok(page)
    }

    pub(crate) fn encode<T: Serialize + ?Sized>(&self, what: &str, value: &T) -> Result<Payload, Error> {
        codec::encode(what, value, self.max_payload)
    }

    pub(crate) fn check_size(&self, what: &str, payload: &Payload) -> Result<(), Error> {
        let (bytes, max_bytes) = (payload.len(), self.max_payload);
        if bytes > max_bytes {
            return Err(Error::PayloadTooLarge { what: what.to_owned(), bytes, max_bytes });
        }
        Ok(())
    }
}

/// Marks the output type of a run, for handles.
pub(crate) type Gives<O> = PhantomData<fn() -> O>;
