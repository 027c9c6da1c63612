//! Sends mail eight at a time: failures are retried, and what cannot be sent is kept for people to look at.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use outlive::job::{DeadLetter, Push, WorkerPool, WorkerPoolCtx};
use outlive::prelude::*;

const MAIL: WorkerPool<String> = WorkerPool::new("mail");

/// The post office: how many mails were sent, and whether the branch in the mountains is open.
#[derive(Default)]
struct Post {
    sent: AtomicUsize,
    is_open: AtomicBool,
}

async fn send(ctx: WorkerPoolCtx<String>, to: String) -> Result<()> {
    let post: &Arc<Post> = ctx.get();
    if to.ends_with("@mountains") && !post.is_open.load(Ordering::SeqCst) {
        return Err(format!("{to} cannot be reached").into());
    }
    if to.starts_with('7') && !ctx.is_retry() {
        return Err("the line is busy".into());
    }
    post.sent.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

async fn keep(_: WorkerPoolCtx<String>, letter: DeadLetter<String>) -> Result<()> {
    println!("gave up after {} attempts: {}", letter.attempts, letter.failure);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let post = Arc::new(Post::default());
    let folder = tempfile::tempdir()?;
    let retry = Retry::times(2).constant("20 ms");
    let engine = Engine::open(folder.path().join("mail.db"))
        .provide(post.clone())
        .job(MAIL.concurrency(8).retry(retry).execute(send).on_dead(keep))
        .start()
        .await?;
    let mail = engine.job(MAIL);

    // All of them in one commit, the urgent ones first, and nobody twice.
    let towns = (0..200).map(|n| Push::new(format!("{n}@town")).dedup_key(format!("{n}@town")));
    let mountains = (0..3).map(|n| Push::new(format!("{n}@mountains")).priority(5));
    let pushed = mail.push_many(towns.chain(mountains)).await?;
    mail.wait_idle().await?;
    let status = mail.status().await?;
    println!("{} of {} sent, {} dead letters", post.sent.load(Ordering::SeqCst), pushed.len(), status.dead);
    assert_eq!((post.sent.load(Ordering::SeqCst), status.dead), (200, 3));

    post.is_open.store(true, Ordering::SeqCst);
    println!("the branch in the mountains opens: retrying {}", mail.retry_dead().await?);
    mail.wait_idle().await?;
    println!("{} sent", post.sent.load(Ordering::SeqCst));

    assert_eq!((post.sent.load(Ordering::SeqCst), mail.status().await?.dead), (203, 0));
    Ok(engine.shutdown().await?)
}
