//! Fills a file with many idle runs: sleeping or finished.

use std::path::Path;

use outlive::prelude::*;
use outlive::{Builder, Start};

use crate::harness::load::{Flood, until};
use crate::harness::progress;
use crate::harness::steps::no_step;

/// Number of runs added at a time, and of starts in progress.
const WAVE: u64 = 20_000;
const STARTS: u64 = 2_000;

/// The wanted number of each.
#[derive(Clone, Copy)]
pub(crate) struct Crowd {
    pub(crate) sleepers: u64,
    pub(crate) finished: u64,
}

async fn sleeper(ctx: Ctx, _: u64) -> Result<()> {
    Ok(ctx.sleep("30 days").await?)
}

/// Returns an engine that knows the workflows of a crowd.
pub(crate) fn engine(path: &Path) -> Builder {
    Engine::open(path).workflow("sleeper", sleeper).workflow("nothing", no_step)
}

impl Crowd {
    /// Adds what is missing to a file.
    pub(crate) async fn fill(self, path: &Path) -> Result<()> {
        let engine = engine(path).start().await?;
        let sleepers = Kind { workflow: "sleeper", status: StatusKind::Sleeping, what: "sleepers" };
        sleepers.add(&engine.client(), self.sleepers, |id| engine.start(sleeper, &id)).await?;
        let finished = Kind { workflow: "nothing", status: StatusKind::Completed, what: "finished runs" };
        finished.add(&engine.client(), self.finished, |id| engine.start(no_step, &id)).await?;
        Ok(engine.shutdown().await?)
    }
}

struct Kind {
    workflow: &'static str,
    status: StatusKind,
    what: &'static str,
}

impl Kind {
    async fn add<O>(&self, client: &Client, wanted: u64, start: impl Fn(u64) -> Start<O>) -> Result<()>
    where
        O: Send + 'static,
    {
        let of_it = Filter::runs().workflow(self.workflow);
        let mut present = client.count(of_it.clone()).await?.total();
        let bar = progress::of(wanted, self.what);
        while present < wanted {
            let n = (wanted - present).min(WAVE);
            Flood { n, in_flight: STARTS.min(n) }.start(&start).await?;
            present += n;
            until(client, of_it.clone(), |counts| counts.of(self.status) == present).await?;
            bar.set_position(present);
        }
        bar.finish_and_clear();
        Ok(())
    }
}
