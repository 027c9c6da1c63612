//! Refreshes a token every half hour, even when its server is down and when the process dies.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use outlive::job::{Continuous, ContinuousCtx};
use outlive::prelude::*;
use outlive_testkit::TestEngine;
use serde::{Deserialize, Serialize};

const TOKENS: Continuous<Token> = Continuous::new("token-refresher");

#[derive(Clone, PartialEq, Serialize, Deserialize, Debug, Default)]
struct Token {
    text: String,
    refreshed: u32,
}

/// Issues tokens, but fails the second request.
#[derive(Default)]
struct Server {
    asked: AtomicU32,
}

impl Server {
    fn token(&self) -> Result<String> {
        match self.asked.fetch_add(1, Ordering::SeqCst) + 1 {
            2 => Err("the server is down".into()),
            asked => Ok(format!("token-{asked}")),
        }
    }
}

async fn refresh(ctx: ContinuousCtx<Token>) -> Result<()> {
    let text = ctx.get::<Arc<Server>>().token()?;
    ctx.update_state(|token| *token = Token { text, refreshed: token.refreshed + 1 });
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    // The test kit controls time: three hours pass in milliseconds.
    let server = Arc::new(Server::default());
    let given = server.clone();
    let mut test = TestEngine::new(move |engine| {
        let job = TOKENS.every("30 minutes").retry(Retry::times(3).constant("10 seconds")).execute(refresh);
        engine.provide(given.clone()).job(job)
    })
    .await;

    test.job(TOKENS).start("google", &Token::default()).await?;
    test.settle().await;
    println!("at once:              {:?}", test.job(TOKENS).state("google").await?);

    test.advance("30 minutes").await;
    let status = test.job(TOKENS).status("google").await?;
    println!("after half an hour:   {} failed attempt: {:?}", status.failed, status.last_error.unwrap_or_default());
    assert_eq!(status.failed, 1);

    test.advance("15 seconds").await;
    println!("after the retry:      {:?}", test.job(TOKENS).state("google").await?);

    test.crash().await;
    test.advance("2 hours").await;
    let token = test.job(TOKENS).state("google").await?.unwrap_or_default();
    println!("after a crash and 2 h: {token:?}");

    assert_eq!(token, Token { text: "token-7".into(), refreshed: 6 });
    assert_eq!(test.job(TOKENS).status("google").await?.run_count, 6, "a retry is not a new run");
    assert_eq!(server.asked.load(Ordering::SeqCst), 7);
    Ok(())
}
