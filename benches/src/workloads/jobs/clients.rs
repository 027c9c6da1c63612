//! Code shared by the job workloads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outlive::prelude::*;

/// Does something `n` times, by this many clients at once. Returns how long each call took.
pub(crate) async fn many<F>(
    n: u64,
    clients: u64,
    work: impl Fn(u64) -> F + Send + Sync + 'static,
) -> Result<Vec<Duration>>
where
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
    let (next, work) = (Arc::new(AtomicU64::new(0)), Arc::new(work));
    let mut tasks = Vec::new();
    for _ in 0..clients.min(n) {
        let (next, work) = (next.clone(), work.clone());
        tasks.push(tokio::spawn(async move {
            let mut times = Vec::new();
            loop {
                let nth = next.fetch_add(1, Ordering::Relaxed);
                if nth >= n {
                    return Ok::<_, Error>(times);
                }
                let begun = Instant::now();
                work(nth).await?;
                times.push(begun.elapsed());
            }
        }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await??);
    }
    Ok(times)
}
