//! Values and streams that runs give out: durable, read live, and typed errors for what cannot be stored.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::TryStreamExt as _;
use outlive::prelude::*;
use outlive::{Client, Error, Share};
use outlive_testkit::TestEngine;

async fn deliver(ctx: Ctx, _: ()) -> Result<()> {
    ctx.publish("state", "on its way").await?;
    ctx.sleep("1 day").await?;
    ctx.publish("state", "at the door").await?;
    ctx.publish("progress", &Share::count(2, 2)).await?;
    Ok(())
}

async fn count(ctx: Ctx, n: u32) -> Result<u32> {
    for i in 0..n {
        ctx.append("numbers", &i).await?;
        ctx.sleep("1 second").await?;
    }
    Ok(n)
}

/// Appends three tokens and fails the first two attempts after the second token.
async fn talk(ctx: Ctx, _: ()) -> Result<String> {
    let say = |attempt: Attempt| async move {
        attempt.append("tokens", "a").await?;
        attempt.append("tokens", "b").await?;
        if attempt.number < 3 {
            return Err(format!("attempt {} failed", attempt.number).into());
        }
        attempt.append("tokens", "c").await?;
        outlive::Ok("abc".to_owned())
    };
    Ok(ctx.step("say", say).retry(Retry::times(5).constant("1 second")).await?)
}

async fn kit() -> TestEngine {
    TestEngine::new(|engine| {
        engine
            .workflow("deliver", deliver)
            .workflow("count", count)
            .workflow("talk", talk)
            .workflow("bad input", bad_input)
            .workflow("few", few)
            .workflow("in step", in_step)
            .workflow("leaking", leaking)
            .workflow("cleaning up", cleaning_up)
    })
    .await
}

#[tokio::test]
async fn value_is_the_last_one_published() {
    let test = kit().await;
    let run = test.start(deliver, &()).await.unwrap();
    assert_eq!(run.value::<String>("weather").await.unwrap(), None);
    test.settle().await;
    assert_eq!(run.value::<String>("state").await.unwrap().unwrap(), "on its way");
    test.result(&run).await.unwrap();
    assert_eq!(run.value::<String>("state").await.unwrap().unwrap(), "at the door");
    let values = run.values().await.unwrap();
    assert_eq!(values.keys().collect::<Vec<_>>(), ["progress", "state"]);
    assert!(matches!(run.value::<u32>("state").await, Err(Error::Payload { .. })));
    assert!(matches!(run.value::<u32>("").await, Err(Error::Name(_))));
}

#[tokio::test]
async fn value_survives_a_crash_and_is_published_once() {
    let mut test = kit().await;
    test.start(deliver, &()).id("d").await.unwrap();
    test.settle().await;
    test.crash().await;
    let run = test.get_run::<()>("d").await.unwrap();
    assert_eq!(run.value::<String>("state").await.unwrap().unwrap(), "on its way");
    test.result(&run).await.unwrap();
    let published = run.journal().await.unwrap().iter().filter(|entry| entry.op.starts_with("publish:")).count();
    assert_eq!(published, 3);
}

#[tokio::test]
async fn watch_returns_each_new_value_and_ends_with_the_run() {
    let test = kit().await;
    let run = test.start(deliver, &()).await.unwrap();
    test.settle().await;
    let mut states = run.watch::<String>("state");
    assert_eq!(states.next().await.unwrap().as_deref(), Some("on its way"));
    {
        let mut waiting = std::pin::pin!(states.next());
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        // Dropped while it waits.
    }
    test.result(&run).await.unwrap();
    assert_eq!(states.next().await.unwrap().as_deref(), Some("at the door"));
    assert_eq!(states.next().await.unwrap(), None);
    assert_eq!(states.next().await.unwrap(), None);
}

#[tokio::test]
async fn stream_is_read_live_from_an_offset_and_ends_with_the_run() {
    let test = kit().await;
    let run = test.start(count, &4).await.unwrap();
    let reader = run.clone();
    let reading = tokio::spawn(async move { reader.stream::<u32>("numbers").from(1).try_collect::<Vec<_>>().await });
    assert_eq!(test.result(&run).await.unwrap(), 4);
    let items = reading.await.unwrap().unwrap();
    assert_eq!(items.iter().map(|item| (item.offset, item.value)).collect::<Vec<_>>(), [(1, 1), (2, 2), (3, 3)]);
    assert!(items.iter().all(|item| item.attempt.is_none() && !item.is_failed));
    let mut past = run.stream::<u32>("numbers").from(4);
    assert!(past.next().await.unwrap().is_none());
    assert_eq!(run.stream::<u32>("numbers").read(2).await.unwrap().len(), 2);
}

#[tokio::test]
async fn items_of_failed_attempts_are_marked() {
    let test = kit().await;
    let run = test.start(talk, &()).await.unwrap();
    test.settle().await;
    let first = run.stream::<String>("tokens").read(10).await.unwrap();
    assert_eq!(first.len(), 2);
    assert!(first.iter().all(|item| item.is_failed));
    assert_eq!(test.result(&run).await.unwrap(), "abc");
    let items = run.stream::<String>("tokens").read(10).await.unwrap();
    let seen: Vec<_> = items
        .iter()
        .map(|item| (item.offset, &*item.value, item.attempt.as_ref().unwrap().number, item.is_failed))
        .collect();
    assert_eq!(
        seen,
        [
            (0, "a", 1, true),
            (1, "b", 1, true),
            (2, "a", 2, true),
            (3, "b", 2, true),
            (4, "a", 3, false),
            (5, "b", 3, false),
            (6, "c", 3, false),
        ]
    );
    assert_eq!(items[0].attempt.as_ref().unwrap().step, "say");
}

#[tokio::test]
async fn items_of_an_attempt_that_a_crash_interrupted_are_marked() {
    let begun = Arc::new(AtomicU32::new(0));
    let lives = begun.clone();
    let talk = move |ctx: Ctx, _: ()| {
        let lives = lives.clone();
        async move {
            let say = |attempt: Attempt| {
                let lives = lives.clone();
                async move {
                    attempt.append("tokens", "a").await?;
                    if lives.fetch_add(1, Ordering::SeqCst) == 0 {
                        // The process dies here.
                        std::future::pending::<()>().await;
                    }
                    outlive::Ok(())
                }
            };
            Ok::<_, BoxError>(ctx.step("say", say).await?)
        }
    };
    let mut test = TestEngine::new(move |engine| engine.workflow("talk", talk.clone())).await;
    let workflow = Workflow::<(), ()>::new("talk");
    let run = test.start(workflow, &()).id("t").await.unwrap();
    while run.stream::<String>("tokens").read(1).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(!run.stream::<String>("tokens").read(1).await.unwrap()[0].is_failed, "it is in progress");
    test.crash().await;
    let run = test.get_run::<()>("t").await.unwrap();
    test.result(&run).await.unwrap();
    let items = run.stream::<String>("tokens").read(10).await.unwrap();
    assert_eq!(items.iter().map(|item| item.is_failed).collect::<Vec<_>>(), [true, false]);
    let of = |n: usize| items[n].attempt.as_ref().unwrap();
    assert_eq!((of(0).number, of(1).number), (1, 1), "an interrupted attempt is repeated under its number");
    assert!(of(0).epoch < of(1).epoch);
}

async fn bad_input(ctx: Ctx, _: ()) -> Result<Vec<String>> {
    let long = "x".repeat(2 << 20);
    let errors = [
        ctx.publish("", &1).await,
        ctx.publish(&"x".repeat(201), &1).await,
        ctx.publish("a\nb", &1).await,
        ctx.publish("state", &f64::NAN).await,
        ctx.publish("state", &long).await,
        ctx.append("", &1).await,
        ctx.append("log", &f64::NAN).await,
        ctx.append("log", &long).await,
    ];
    let in_step = ctx
        .step("step", |attempt: Attempt| async move {
            let bad = [attempt.append("", &1).await, attempt.append("log", &f64::NAN).await];
            outlive::Ok(bad.map(|error| error.unwrap_err().code().to_owned()).to_vec())
        })
        .await?;
    Ok(errors.into_iter().map(|error| error.unwrap_err().code().to_owned()).chain(in_step).collect())
}

#[tokio::test]
async fn bad_input_is_a_typed_error_and_stores_nothing() {
    let test = kit().await;
    let run = test.start(bad_input, &()).await.unwrap();
    let codes = test.result(&run).await.unwrap();
    let expected = [
        "name",
        "name",
        "name",
        "payload",
        "payload_too_large",
        "name",
        "payload",
        "payload_too_large",
        "name",
        "payload",
    ];
    assert_eq!(codes, expected);
    assert!(run.values().await.unwrap().is_empty());
    assert!(run.stream::<u32>("log").read(1).await.unwrap().is_empty());
    assert_eq!(run.journal().await.unwrap().len(), 1, "only the step is recorded");
}

async fn few(ctx: Ctx, _: ()) -> Result<String> {
    ctx.append("log", &1).max_items(2).await?;
    ctx.append("log", &2).max_items(2).await?;
    let full = ctx.append("log", &3).max_items(2).await.unwrap_err();
    let in_step = |attempt: Attempt| async move {
        Ok::<_, BoxError>(attempt.append("log", &4).max_items(2).await.unwrap_err().to_string())
    };
    let again = ctx.step("append", in_step).await?;
    assert!(matches!(full, Error::StreamFull { max_items: 2, .. }));
    assert_eq!(full.to_string(), again);
    Ok(again)
}

#[tokio::test]
async fn full_stream_refuses_an_item() {
    let mut test = kit().await;
    test.start(few, &()).id("f").await.unwrap();
    let run = test.get_run::<String>("f").await.unwrap();
    let full = "stream \"log\" has 2 items, which is its limit; raise `max_items`, or append to another stream";
    assert_eq!(test.result(&run).await.unwrap(), full);
    test.crash().await;
    let run = test.get_run::<String>("f").await.unwrap();
    assert_eq!(run.stream::<u32>("log").read(10).await.unwrap().len(), 2);
}

async fn in_step(ctx: Ctx, _: ()) -> Result<String> {
    let inside = ctx.clone();
    let body = || {
        let ctx = inside.clone();
        async move { Ok::<_, BoxError>(ctx.append("log", &1).await.unwrap_err().code().to_owned()) }
    };
    Ok(ctx.step("append", body).await?)
}

#[tokio::test]
async fn durable_append_inside_a_step_is_refused() {
    let test = kit().await;
    let run = test.start(in_step, &()).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), "scope");
}

async fn leaking(ctx: Ctx, _: ()) -> Result<String> {
    static LEAKED: Mutex<Option<Attempt>> = Mutex::new(None);
    ctx.step("leak", |attempt: Attempt| {
        *LEAKED.lock().unwrap() = Some(attempt);
        async { outlive::Ok(()) }
    })
    .await?;
    let late = || {
        let attempt = LEAKED.lock().unwrap().take().unwrap();
        async move { outlive::Ok(attempt.append("log", &1).await.unwrap_err().to_string()) }
    };
    Ok(ctx.step("late", late).await?)
}

#[tokio::test]
async fn attempt_that_is_over_appends_nothing() {
    let test = kit().await;
    let run = test.start(leaking, &()).await.unwrap();
    test.settle().await;
    let shown = run.result().await.unwrap();
    assert_eq!(shown, "attempt 1 of step \"leak\" is over; stop what it has left running");
    assert!(run.stream::<u32>("log").read(1).await.unwrap().is_empty());
}

async fn cleaning_up(ctx: Ctx, _: ()) -> Result<()> {
    let waited = ctx.wait::<()>("go").await;
    ctx.publish("state", "given up").await?;
    Ok(waited?)
}

#[tokio::test]
async fn cancelled_run_may_publish_while_it_cleans_up() {
    let test = kit().await;
    let run = test.start(cleaning_up, &()).await.unwrap();
    test.settle().await;
    run.cancel("enough").await.unwrap();
    assert!(test.result(&run).await.unwrap_err().is_cancelled());
    assert_eq!(run.value::<String>("state").await.unwrap().unwrap(), "given up");
}

#[tokio::test]
async fn purged_run_leaves_nothing_to_read() {
    let test = kit().await;
    let run = test.start(count, &1).await.unwrap();
    test.result(&run).await.unwrap();
    let mut numbers = run.stream::<u32>("numbers");
    run.purge().await.unwrap();
    assert!(numbers.next().await.unwrap_err().is_not_found());
    assert!(run.value::<u32>("x").await.unwrap_err().is_not_found());
}

/// In a file, another handle stands for another process: it learns of changes only from the file.
#[tokio::test]
async fn values_and_streams_are_read_live_from_another_process() {
    async fn gated(ctx: Ctx, _: ()) -> Result<()> {
        ctx.publish("state", "open").await?;
        while ctx.wait::<bool>("more").await? {
            ctx.append("items", "one more").await?;
        }
        Ok(())
    }
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("runs.db");
    let engine = Engine::open(&path).workflow("gated", gated).start().await.unwrap();
    let run = engine.start(gated, &()).id("g").await.unwrap();
    let client = Client::open(&path).unwrap();
    let outside = client.get_run::<()>("g").await.unwrap();
    let mut states = outside.watch::<String>("state");
    assert_eq!(states.next().await.unwrap().as_deref(), Some("open"));
    let mut items = outside.stream::<String>("items");
    for offset in 0..3 {
        run.signal("more", &true).await.unwrap();
        assert_eq!(items.next().await.unwrap().unwrap().offset, offset);
    }
    run.signal("more", &false).await.unwrap();
    assert!(items.next().await.unwrap().is_none());
    assert_eq!(states.next().await.unwrap(), None);
    engine.shutdown().await.unwrap();
    let engine = Engine::open(&path).workflow("gated", gated).start().await.unwrap();
    let run = engine.get_run::<()>("g").await.unwrap();
    assert_eq!(run.stream::<String>("items").read(10).await.unwrap().len(), 3);
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn everything_given_out_is_a_lifecycle_event_and_none_is_missing() {
    async fn all(ctx: Ctx, _: ()) -> Result<()> {
        ctx.publish("state", &1).await?;
        ctx.append("log", &1).max_items(1).await?;
        let _ = ctx.append("log", &2).max_items(1).await;
        let (_, reply) = ctx.wait_ask::<u32, u32>("price").await?;
        Ok(reply.send(&5).await?)
    }
    let test = TestEngine::new(|engine| engine.workflow("all", all)).await;
    let mut events = test.events().committed().await.unwrap();
    let run = test.start(all, &()).await.unwrap();
    assert_eq!(run.ask::<u32, u32>("price", &1).await.unwrap(), 5);
    test.result(&run).await.unwrap();
    let seen = events.read(100).await.unwrap();
    assert!(seen.iter().map(|event| event.number).eq(1..=seen.len() as u64), "{seen:?}");
    let types: Vec<&str> = seen.iter().map(|event| event.kind.as_str()).collect();
    for expected in ["value.published", "item.appended", "append.refused", "question.taken", "question.answered"] {
        assert!(types.contains(&expected), "{expected} in {types:?}");
    }
}
