//! A polite crawler: pages are fetched at a limited rate, each once, however many pages link to it.
//!
//! A pool fetches pages. Their links go to a task, which knows what was seen and pushes the rest to the pool. Each of
//! the two is one commit, so no page is lost and none is pushed twice.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outlive::job::{Task, TaskCtx, WorkerPool, WorkerPoolCtx};
use outlive::prelude::*;
use tokio::time::Instant;

const FETCH: WorkerPool<u32> = WorkerPool::new("fetch");
const SITES: Task<Vec<u32>, BTreeSet<u32>> = Task::new("site");

/// The number of pages on the site.
const PAGES: u32 = 60;
/// How many fetches may begin in any period of this length.
const RATE: (usize, Duration) = (10, Duration::from_millis(200));

/// The pages that were fetched, and when.
type Fetches = Arc<Mutex<Vec<(Instant, u32)>>>;

/// The web: each page links to two more, and all of them to the first.
fn links_of(page: u32) -> Vec<u32> {
    [1, page * 2, page * 2 + 1].into_iter().filter(|link| *link <= PAGES).collect()
}

async fn fetch(ctx: WorkerPoolCtx<u32>, page: u32) -> Result<()> {
    let fetches: &Fetches = ctx.get();
    fetches.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), page));
    Ok(ctx.send(SITES, "example.com", &links_of(page))?)
}

async fn discover(ctx: TaskCtx<Vec<u32>, BTreeSet<u32>>, links: Vec<u32>) -> Result<()> {
    for link in links {
        if ctx.update_state(|seen| seen.insert(link)) {
            ctx.push(FETCH, &link)?;
        }
    }
    Ok(())
}

async fn nothing(_: TaskCtx<Vec<u32>, BTreeSet<u32>>) -> Result<()> {
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let fetches = Fetches::default();
    let engine = Engine::open("memory:")
        .provide(fetches.clone())
        .job(FETCH.concurrency(4).rate(RATE.0, RATE.1).execute(fetch))
        .job(SITES.on_event(discover).execute(nothing))
        .start()
        .await?;
    engine.job(SITES).send("example.com", &vec![1]).await?;

    let is_done = || fetches.lock().unwrap_or_else(PoisonError::into_inner).len() >= PAGES as usize;
    while !is_done() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    engine.job(FETCH).wait_idle().await?;
    engine.shutdown().await?;

    let fetches = fetches.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let pages: BTreeSet<u32> = fetches.iter().map(|(_, page)| *page).collect();
    let took = fetches[fetches.len() - 1].0 - fetches[0].0;
    println!("{} pages in {took:.1?}, at most {} per {:?}", pages.len(), RATE.0, RATE.1);
    assert_eq!((pages.len(), fetches.len()), (PAGES as usize, PAGES as usize), "each page once");
    let quickest = fetches.windows(RATE.0 + 1).map(|some| some[RATE.0].0 - some[0].0).min();
    println!("the fastest {} of them took {:.1?}", RATE.0 + 1, quickest.unwrap_or_default());
    Ok(())
}
