//! Sends events to the demo's jobs, and counts at the end what was done with them.

use comfy_table::{Table, presets};
use outlive::job::AnyJob;
use outlive::{Client, Timestamp};
use serde::Serialize;
use std::time::Duration;

use super::execution_log::ExecutionLog;
use super::folder::DemoFolder;
use super::jobs::{HEARTBEAT, MAIL, SHOP, TALLIES, TALLY};
use crate::error::CliError;
use crate::output::time;

/// How many webhooks are sent, and how often.
const WEBHOOKS: u32 = 16;
const WEBHOOK_EVERY: Duration = Duration::from_millis(300);
/// How many mails are pushed.
const MAILS: u32 = 7;

/// Sends events to the jobs.
pub(crate) struct Sender {
    webhooks: AnyJob,
    sent: u32,
    next: Timestamp,
}

/// What was sent, how often handlers ran, and what was done.
#[derive(Serialize)]
pub(crate) struct Tally {
    heartbeats: Counted,
    webhooks: Counted,
    mails: Counted,
}

#[derive(Serialize)]
struct Counted {
    /// How many were sent.
    came: u64,
    /// How often a handler really started.
    calls: usize,
    /// How many were counted as done.
    done: u64,
    /// How many became dead letters.
    dead: u64,
}

impl Sender {
    /// Starts the heartbeat, and pushes the mails in one commit.
    pub(crate) async fn begin(client: &Client) -> Result<Self, CliError> {
        client.job(HEARTBEAT).start(SHOP, &0).await?;
        client.job(MAIL).push_many((0..MAILS).map(outlive::job::Push::new)).await?;
        Ok(Self { webhooks: client.job_by_name("debounce:webhooks")?, sent: 0, next: time::now() })
    }

    /// Sends the next webhook if it is due, whether or not a process is there to handle it.
    pub(crate) async fn send(&mut self, now: Timestamp) -> Result<(), CliError> {
        if self.sent < WEBHOOKS && now >= self.next {
            self.webhooks.send_json(SHOP, &self.sent.to_string()).await?;
            self.sent += 1;
            self.next = now.after(WEBHOOK_EVERY);
        }
        Ok(())
    }

    /// Counts what was done with everything that was sent.
    pub(crate) async fn tally(&self, client: &Client, folder: &DemoFolder) -> Result<Tally, CliError> {
        let calls = ExecutionLog::at(folder.calls())
            .read()
            .map_err(|error| CliError::message(format!("cannot read execution log {:?}: {error}", folder.calls())))?;
        let calls = |of: &str| calls.iter().filter(|call| call.step == of).count();
        let done = async |of: &str| -> Result<u64, CliError> {
            Ok(client.job(TALLY).state(of).await?.unwrap_or_default() as u64)
        };
        let beats = client.job(HEARTBEAT).state(SHOP).await?.unwrap_or_default().into();
        let dead = client.job(MAIL).status().await?.dead;
        Ok(Tally {
            heartbeats: Counted {
                came: client.job(HEARTBEAT).status(SHOP).await?.run_count,
                calls: calls("heartbeat"),
                done: beats,
                dead: 0,
            },
            webhooks: Counted {
                came: self.sent.into(),
                calls: calls("webhooks"),
                done: done(TALLIES[0]).await?,
                dead: 0,
            },
            mails: Counted { came: MAILS.into(), calls: calls("mails"), done: done(TALLIES[1]).await?, dead },
        })
    }
}

impl Tally {
    fn rows(&self) -> [(&'static str, &Counted); 3] {
        [
            ("heartbeat, every 250 ms", &self.heartbeats),
            ("webhooks, in batches", &self.webhooks),
            ("mails, one undelivered", &self.mails),
        ]
    }

    pub(crate) fn is_well(&self) -> bool {
        self.rows().iter().all(|(_, counted)| counted.is_well())
    }

    pub(crate) fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED).set_header(["job", "total", "calls", "done", "dead letters"]);
        for (name, Counted { came, calls, done, dead }) in self.rows() {
            table.add_row([name.to_owned(), came.to_string(), calls.to_string(), done.to_string(), dead.to_string()]);
        }
        table.to_string()
    }

    pub(crate) fn verdict(&self) -> &'static str {
        match self.is_well() {
            true => "no webhook or mail was lost or counted twice",
            false => "WEBHOOKS OR MAILS WERE LOST OR COUNTED TWICE",
        }
    }
}

impl Counted {
    fn is_well(&self) -> bool {
        self.came == self.done + self.dead && self.done > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(done: u64, dead: u64) -> Tally {
        let counted = |done, dead| Counted { came: 7, calls: 9, done, dead };
        Tally { heartbeats: counted(7, 0), webhooks: counted(7, 0), mails: counted(done, dead) }
    }

    #[test]
    fn lost_or_duplicate_counts_are_found() {
        assert!(tally(6, 1).is_well() && tally(6, 1).verdict().starts_with("no webhook"));
        assert!(!tally(5, 1).is_well() && !tally(7, 1).is_well());
        assert!(tally(5, 1).verdict().starts_with("WEBHOOKS"));
    }
}
