//! Makes recurring jobs recompute their next tick when their schedule has changed in the code.

use std::sync::Arc;

use outlive_core::checksum::Sum;
use outlive_core::id::{InstanceNum, Name};
use outlive_core::job::{Record, Rules};
use outlive_core::message::Message;
use outlive_core::store::commit::{SendWrite, Write};
use outlive_core::store::query::{Filter, Instance};

use super::Deploy;
use crate::error::Error;
use crate::runtime::handlers::Work;
use crate::runtime::services::RETRY;

/// How many instances are read at a time.
const PAGE: usize = 256;

impl Deploy {
    /// Looks for instances whose next tick follows another schedule. Their wake may be a year away, and nothing else
    /// would load them before. A mark for each job records which schedule all its instances know.
    pub(crate) async fn look_at_schedules(self) {
        for (job, schedule) in self.schedules() {
            loop {
                match self.apply_schedule(&job, &schedule).await {
                    Ok(()) => break,
                    Err(Error::Shutdown | Error::Fenced { .. }) => return,
                    // The store is in trouble; this can wait until it is not.
                    Err(_) => tokio::time::sleep(RETRY).await,
                }
            }
        }
    }

    fn schedules(&self) -> Vec<(Name, String)> {
        let of = |definition: &Arc<crate::runtime::handlers::Definition>| match &definition.work {
            Work::Single(Rules::Continuous(rules)) => Some((definition.job.clone(), rules.schedule.to_string())),
            _ => None,
        };
        self.registry.all_jobs().filter_map(of).collect()
    }

    async fn apply_schedule(&self, job: &Name, schedule: &str) -> Result<(), Error> {
        let mark = Name::recorded(&format!("schedule:{job}"));
        let sum = u64::from(Sum::new().text(schedule).end());
        if self.services.store.mark(Some(&mark)).await? == Some(sum) {
            return Ok(());
        }
        let filter = Filter::all().workflow(job.as_str());
        let (mut before, mut is_any) = (None, false);
        loop {
            let page = self.services.store.list(&filter, before, PAGE).await?;
            is_any |= !page.instances.is_empty();
            for instance in page.instances.iter().filter(|instance| is_behind(instance, schedule)) {
                self.stir(instance.num, &instance.id).await?;
            }
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        if is_any {
            self.services.committer.write(Write::Mark(mark, sum)).await?;
        }
        Ok(())
    }

    /// Loads an instance by a message that has no effect on it. The message is durable, so a crash before the instance
    /// has looked at its schedule does no harm.
    async fn stir(&self, num: InstanceNum, id: &Name) -> Result<(), Error> {
        let (at, token) = (self.services.now(), self.services.handler_env.random.token());
        let send = SendWrite { id: id.clone(), num: Some(num), message: Message::Clear, at, dedup: None, token };
        self.services.committer.write(Write::Message(send)).await.map(drop)
    }
}

fn is_behind(instance: &Instance, schedule: &str) -> bool {
    let record = instance.outcome.as_ref().and_then(|outcome| Record::from_payload(outcome).ok());
    record.and_then(|record| record.schedule).is_some_and(|kept| kept != schedule)
}
