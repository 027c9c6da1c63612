//! Questions to runs: each answered once, through crashes, from any process, with typed errors for those that are not.

use outlive::prelude::*;
use outlive::{Client, Error, QuestionName};
use outlive_testkit::TestEngine;

const ADD: QuestionName<i64, i64> = QuestionName::new("add");

/// Adds up until it is told to stop.
async fn till(ctx: Ctx, mut sum: i64) -> Result<i64> {
    loop {
        let (n, reply) = ctx.wait_ask(ADD).await?;
        sum += n;
        reply.send(&sum).await?;
        if n == 0 {
            return Ok(sum);
        }
    }
}

/// Takes a question and keeps the answer to itself.
async fn silent(ctx: Ctx, _: ()) -> Result<()> {
    let (_, _reply) = ctx.wait_ask::<i64, i64>("add").await?;
    ctx.wait::<()>("go").await?;
    Ok(())
}

async fn broken(ctx: Ctx, _: ()) -> Result<()> {
    let (_, _reply) = ctx.wait_ask::<i64, i64>("add").await?;
    panic!("a bug")
}

async fn bad_answer(ctx: Ctx, _: ()) -> Result<String> {
    let (_, reply) = ctx.wait_ask::<i64, f64>("add").await?;
    Ok(reply.send(&f64::NAN).await.unwrap_err().code().to_owned())
}

async fn racing(ctx: Ctx, _: ()) -> Result<i64> {
    let patience = async {
        ctx.sleep("1 minute").await?;
        Ok::<_, Error>(None)
    };
    let asked = async { ctx.wait_ask::<i64, i64>("add").await.map(Some) };
    let asked = tokio::select! { biased; late = patience => late?, asked = asked => asked? };
    let Some((n, reply)) = asked else { return Ok(0) };
    reply.send(&(n + 1)).await?;
    Ok(n)
}

async fn kit() -> TestEngine {
    TestEngine::new(|engine| {
        engine
            .workflow("till", till)
            .workflow("silent", silent)
            .workflow("broken", broken)
            .workflow("bad answer", bad_answer)
            .workflow("racing", racing)
    })
    .await
}

#[tokio::test]
async fn question_asked_before_the_wait_is_answered() {
    let test = kit().await;
    let run = test.start(till, &10).await.unwrap();
    assert_eq!(run.ask(ADD, &5).await.unwrap(), 15);
    assert_eq!(run.ask::<i64, i64>("add", &1).await.unwrap(), 16);
    assert_eq!(run.ask(ADD, &0).await.unwrap(), 16, "answered by the run that ends with it");
    assert_eq!(test.result(&run).await.unwrap(), 16);
}

#[tokio::test]
async fn questions_of_many_askers_are_answered_one_after_another() {
    let test = kit().await;
    let run = test.start(till, &0).await.unwrap();
    let asked = (1..=20).map(|n| run.ask(ADD, &n));
    let mut sums = futures_util::future::try_join_all(asked).await.unwrap();
    sums.sort_unstable();
    assert_eq!((sums[0], sums[19]), (1, 210));
}

#[tokio::test]
async fn answer_survives_a_crash_and_is_recorded_once() {
    let mut test = kit().await;
    let run = test.start(till, &10).id("t").await.unwrap();
    assert_eq!(run.ask(ADD, &5).dedup_key("one").await.unwrap(), 15);
    for _ in 0..3 {
        test.crash().await;
        let run = test.get_run::<i64>("t").await.unwrap();
        assert_eq!(run.ask(ADD, &5).dedup_key("one").await.unwrap(), 15);
    }
    let run = test.get_run::<i64>("t").await.unwrap();
    assert_eq!(run.ask(ADD, &5).dedup_key("two").await.unwrap(), 20);
    let answers = run.journal().await.unwrap().iter().filter(|entry| entry.op.starts_with("reply:")).count();
    assert_eq!(answers, 2);
}

#[tokio::test]
async fn dedup_key_of_a_signal_is_not_the_one_of_a_question() {
    let test = kit().await;
    let run = test.start(till, &10).await.unwrap();
    run.signal("other", &1).dedup_key("one").await.unwrap();
    assert_eq!(run.ask(ADD, &5).dedup_key("one").await.unwrap(), 15);
}

#[tokio::test]
async fn run_that_ends_without_answering_is_a_typed_error() {
    let test = kit().await;
    let run = test.start(silent, &()).await.unwrap();
    let asking = tokio::spawn(run.ask::<i64, i64>("add", &1).dedup_key("one"));
    test.settle().await;
    run.signal("go", &()).await.unwrap();
    let error = asking.await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::Unanswered { question, status: Status::Completed, .. } if question == "add"));
    assert_eq!(error.code(), "unanswered");
    let late = run.ask::<i64, i64>("add", &1).await.unwrap_err();
    assert!(matches!(late, Error::Status { status: Status::Completed, .. }));
}

#[tokio::test]
async fn cancelled_run_leaves_its_questions_unanswered() {
    let test = kit().await;
    let run = test.start(silent, &()).await.unwrap();
    let asking = tokio::spawn(run.ask::<i64, i64>("other", &1));
    test.settle().await;
    run.cancel("enough").await.unwrap();
    let error = asking.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Unanswered { status: Status::Cancelled, .. }), "{error}");
}

#[tokio::test]
async fn stuck_run_is_a_typed_error_for_who_asks() {
    let test = kit().await;
    let run = test.start(broken, &()).await.unwrap();
    let error = run.ask::<i64, i64>("add", &1).await.unwrap_err();
    assert!(matches!(error, Error::Stuck { .. }), "{error}");
}

#[tokio::test]
async fn unreadable_question_is_an_error_for_who_asks_and_a_dead_letter() {
    let test = kit().await;
    let run = test.start(till, &10).await.unwrap();
    let error = run.ask::<str, i64>("add", "five").await.unwrap_err();
    assert!(matches!(&error, Error::QuestionRefused { .. }), "{error}");
    assert_eq!(run.dead_signals().await.unwrap()[0].name, "add");
    assert_eq!(run.ask(ADD, &5).await.unwrap(), 15, "the wait goes on");
}

#[tokio::test]
async fn bad_questions_are_typed_errors_and_reach_nobody() {
    let test = kit().await;
    let run = test.start(till, &10).await.unwrap();
    let long = "x".repeat(2 << 20);
    let codes = [
        run.ask::<i64, i64>("", &1).await.unwrap_err().code(),
        run.ask::<i64, i64>("a\nb", &1).await.unwrap_err().code(),
        run.ask::<f64, i64>("add", &f64::NAN).await.unwrap_err().code(),
        run.ask::<str, i64>("add", &long).await.unwrap_err().code(),
        run.ask::<i64, i64>("add", &1).dedup_key("").await.unwrap_err().code(),
        run.ask::<i64, i64>("add", &1).wait("soon").await.unwrap_err().code(),
    ];
    assert_eq!(codes, ["name", "name", "payload", "payload_too_large", "name", "duration"]);
    test.settle().await;
    assert!(run.journal().await.unwrap().is_empty());
    assert!(
        run.ask::<i64, String>("add", &1).await.is_err_and(|error| error.code() == "payload"),
        "a number is no text"
    );
}

#[tokio::test]
async fn answer_that_cannot_be_stored_is_an_error_in_the_workflow() {
    let test = kit().await;
    let run = test.start(bad_answer, &()).await.unwrap();
    let error = run.ask::<i64, f64>("add", &1).await.unwrap_err();
    assert!(matches!(error, Error::Unanswered { .. }));
    assert_eq!(test.result(&run).await.unwrap(), "payload");
}

#[tokio::test]
async fn question_that_nobody_takes_times_out_for_who_asks() {
    let test = kit().await;
    let run = test.start(silent, &()).await.unwrap();
    let error = run.ask::<i64, i64>("other", &1).wait("10 ms").await.unwrap_err();
    assert!(matches!(error, Error::NotHandled { .. }), "{error}");
}

#[tokio::test]
async fn waiting_run_names_the_question_it_waits_for() {
    let test = kit().await;
    let run = test.start(till, &1).await.unwrap();
    test.settle().await;
    assert_eq!(run.progress().await.unwrap().to_string(), "waiting (add)");
}

#[tokio::test]
async fn question_may_race_a_timer() {
    let test = kit().await;
    let run = test.start(racing, &()).await.unwrap();
    assert_eq!(run.ask::<i64, i64>("add", &4).await.unwrap(), 5);
    assert_eq!(test.result(&run).await.unwrap(), 4);
}

#[tokio::test]
async fn question_is_answered_to_another_process() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("runs.db");
    let engine = Engine::open(&path).workflow("till", till).start().await.unwrap();
    engine.start(till, &10).id("t").await.unwrap();
    let client = Client::open(&path).unwrap();
    let run = client.get_run::<i64>("t").await.unwrap();
    for n in 1..=3 {
        assert_eq!(run.ask(ADD, &1).wait("1 minute").await.unwrap(), 10 + n);
    }
    assert!(matches!(run.ask::<str, i64>("add", "x").await.unwrap_err(), Error::QuestionRefused { .. }));
    engine.shutdown().await.unwrap();
    // Asked while nobody executes the store, and answered later.
    let asking = tokio::spawn(run.ask(ADD, &0));
    let engine = Engine::open(&path).workflow("till", till).start().await.unwrap();
    assert_eq!(asking.await.unwrap().unwrap(), 13);
    engine.shutdown().await.unwrap();
}
