//! P1, P2, P4 for what runs give out: a crash before or after any commit neither loses an output nor repeats one.

use outlive::prelude::*;
use outlive_testkit::crash_everywhere;
use outlive_testkit::crashes::{CrashEverywhere, Ledger, Report};

/// Crashes a workflow everywhere; the rules of the search compare values, streams and answers.
async fn crash<I: 'static>(crashes: CrashEverywhere<I>) -> Report {
    let report = crashes.run().await;
    assert!(report.commits() > 2 && report.schedules() > 2 * report.commits(), "{report}");
    report
}

async fn publishing(ctx: Ctx, n: u32) -> Result<u32> {
    for i in 0..n {
        ctx.publish("state", &i).await?;
        ctx.step("work", |_: Attempt| async { outlive::Ok(()) }).await?;
    }
    ctx.sleep("1 hour").await?;
    ctx.publish("state", "done").await?;
    Ok(n)
}

#[tokio::test]
async fn published_values_survive_a_crash_at_every_commit() {
    crash(crash_everywhere(publishing).input(&3).invariant("it is done", |ledger: &Ledger| {
        match ledger.value::<String>("state").as_deref() {
            Some("done") => Ok(()),
            other => Err(format!("its state is {other:?}")),
        }
    }))
    .await;
}

async fn appending(ctx: Ctx, n: u32) -> Result<()> {
    for i in 0..n {
        ctx.append("numbers", &i).await?;
    }
    let (one, other) = (ctx.scope("one"), ctx.scope("other"));
    tokio::try_join!(one.append("pair", "a"), other.append("pair", "b"))?;
    ctx.sleep("1 hour").await?;
    ctx.append("numbers", &n).await?;
    Ok(())
}

#[tokio::test]
async fn appended_items_survive_a_crash_at_every_commit() {
    crash(crash_everywhere(appending).input(&3).invariant("each once, in order", |ledger: &Ledger| {
        let numbers = ledger.stream::<u32>("numbers");
        if numbers == [0, 1, 2, 3] { Ok(()) } else { Err(format!("{numbers:?}")) }
    }))
    .await;
}

async fn full(ctx: Ctx, _: ()) -> Result<u32> {
    let mut refused = 0;
    for i in 0..4 {
        match ctx.append("log", &i).max_items(2).await {
            Err(Error::StreamFull { .. }) => refused += 1,
            appended => appended?,
        }
    }
    Ok(refused)
}

#[tokio::test]
async fn full_stream_stays_full_through_a_crash_at_every_commit() {
    crash(crash_everywhere(full)).await;
}

async fn talking(ctx: Ctx, _: ()) -> Result<String> {
    let say = |attempt: Attempt| async move {
        for token in ["to ", "be ", "or"] {
            attempt.append("tokens", token).await?;
            if attempt.number == 1 && token == "be " {
                return Err("the line is dead".into());
            }
        }
        outlive::Ok("to be or".to_owned())
    };
    let text = ctx.step("say", say).retry(Retry::times(3).constant("1 second")).await?;
    ctx.publish("text", &text).await?;
    Ok(text)
}

#[tokio::test]
async fn items_of_attempts_that_count_survive_a_crash_at_every_commit() {
    crash(crash_everywhere(talking).invariant("what counts is the text", |ledger: &Ledger| {
        let text = ledger.stream::<String>("tokens").concat();
        if text == "to be or" { Ok(()) } else { Err(format!("it said {text:?}")) }
    }))
    .await;
}

async fn answering(ctx: Ctx, mut sum: i64) -> Result<i64> {
    for _ in 0..3 {
        let (n, reply) = ctx.wait_ask::<i64, i64>("add").await?;
        sum += n;
        ctx.step("think", |_: Attempt| async { outlive::Ok(()) }).await?;
        reply.send(&sum).await?;
    }
    Ok(sum)
}

#[tokio::test]
async fn questions_are_answered_once_through_a_crash_at_every_commit() {
    let crashes = crash_everywhere(answering).input(&10);
    let crashes = crashes.ask_at("0 s", "add", &1).ask_at("1 s", "add", "one").ask_at("1 s", "add", &2);
    crash(crashes.ask_at("1 hour", "add", &3)).await;
}
