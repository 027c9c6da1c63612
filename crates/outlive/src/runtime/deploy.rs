//! Applies what a deploy may have changed to the instances that are in the store.

mod parked;
mod schedules;

use std::sync::Arc;

use outlive_core::checksum::Sum;
use outlive_core::id::InstanceNum;
use outlive_core::status::StatusKind;
use outlive_core::store::commit::{Reopen, Write};
use outlive_core::store::query::Filter;

use crate::error::Error;
use crate::runtime::registry::Registry;
use crate::runtime::services::due::CLAIM_MAX;
use crate::runtime::services::{RETRY, Services};

/// Returns a sum that identifies the version of the code: the declared version, or the executable file.
pub(crate) fn code(declared: Option<&str>) -> Option<u64> {
    if let Some(version) = declared {
        return Some(u64::from(Sum::new().text(version).end()));
    }
    let path = std::env::current_exe().ok()?;
    let facts = path.metadata().ok()?;
    let changed = facts.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    let changed = u64::try_from(changed.as_nanos()).unwrap_or(u64::MAX);
    Some(u64::from(Sum::new().text(&path.to_string_lossy()).number(facts.len()).number(changed).end()))
}

/// The code of this process, for instances that were left by earlier code. Each of its tasks looks once, at the start.
#[derive(Clone)]
pub(crate) struct Deploy {
    pub(crate) services: Arc<Services>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) max_recoveries: u32,
}

impl Deploy {
    /// Reopens stuck runs and jobs, because the program may have been fixed. Those that crashed the process repeatedly
    /// wait for a person to retry them.
    pub(crate) async fn reopen_stuck(self) {
        let filter = Filter::all().status(StatusKind::Stuck);
        let mut before = None;
        loop {
            match self.reopen_page(&filter, before).await {
                Ok(None) | Err(Error::Shutdown | Error::Fenced { .. }) => return,
                Ok(next) => before = next,
                // The store is in trouble; this can wait until it is not.
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    async fn reopen_page(&self, filter: &Filter, before: Option<InstanceNum>) -> Result<Option<InstanceNum>, Error> {
        let page = self.services.store.list(filter, before, CLAIM_MAX).await?;
        for instance in page.instances.iter().filter(|instance| instance.blamed <= self.max_recoveries) {
            let reopen = Reopen { id: instance.id.clone(), num: Some(instance.num), at: self.services.now() };
            self.services.committer.write(Write::Reopen(reopen)).await?;
        }
        Ok(page.next)
    }
}
