//! Bad input: each is a typed error that names the value, and nothing is written.

use std::path::Path;
use std::time::Duration;

use outlive::prelude::*;
use outlive::{ErrorKind, Jitter};
use outlive_testkit::TestEngine;

async fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

async fn double(ctx: Ctx, n: u32) -> Result<u32> {
    Ok(ctx.step("double", || ok(n * 2)).await?)
}

async fn waits(ctx: Ctx, _: ()) -> Result<String> {
    Ok(ctx.wait("n").await?)
}

/// Asserts that no run exists.
async fn assert_nothing_written(test: &TestEngine) {
    assert_eq!(test.count(Filter::runs()).await.unwrap().total(), 0);
}

/// The error that an operation was refused with: code and message.
type Refusal = (String, String);

fn refusal<T: std::fmt::Debug>(given: std::result::Result<T, Error>) -> Result<Refusal> {
    let error = given.expect_err("the call is refused");
    assert_eq!(error.kind(), ErrorKind::Input, "{error:?}");
    Ok((error.code().to_owned(), error.to_string()))
}

/// Runs a workflow that returns the error an operation was refused with, and asserts that nothing was recorded.
async fn refused_in<I>(input: &I, workflow: impl Target<I>) -> Refusal
where
    I: serde::Serialize,
{
    let test = TestEngine::new(workflow.setup()).await;
    let run = test.start_json("refused", &serde_json::to_string(input).unwrap()).await.unwrap();
    let given = test.result(&run).await.unwrap();
    assert_eq!(test.executions("s"), 0);
    assert_eq!(run.journal().await.unwrap(), []);
    serde_json::from_value(given).unwrap()
}

/// A workflow to register as "refused".
trait Target<I> {
    fn setup(self) -> impl Fn(outlive::Builder) -> outlive::Builder + Send + Sync + 'static;
}

impl<I, F, Fut> Target<I> for F
where
    I: serde::Serialize + serde::de::DeserializeOwned + 'static,
    F: Fn(Ctx, I) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Refusal>> + Send + 'static,
{
    fn setup(self) -> impl Fn(outlive::Builder) -> outlive::Builder + Send + Sync + 'static {
        move |engine| engine.workflow("refused", self.clone())
    }
}

// ---- durations ----

const BAD_DURATIONS: [&str; 13] = [
    "",
    " ",
    "5 parsecs",
    "-1s",
    "NaN",
    "inf",
    "1e400 s",
    "99999999999999999999 s",
    "five minutes",
    "1h30",
    "1 month",
    "P1Y",
    "s",
];

async fn bad_duration(ctx: Ctx, (what, text): (String, String)) -> Result<Refusal> {
    match what.as_str() {
        "sleep" => refusal(ctx.sleep(&text).await),
        "step" => refusal(ctx.step("s", || ok(())).timeout(&text).await),
        "all attempts" => refusal(ctx.step("s", || ok(())).retry(3).timeout(&text).await),
        "wait" => refusal(ctx.wait::<()>("n").timeout(&text).await),
        other => unreachable!("{other}"),
    }
}

#[tokio::test]
async fn invalid_duration_text_is_refused_and_named_by_each_operation() {
    for what in ["sleep", "step", "all attempts", "wait"] {
        for text in BAD_DURATIONS {
            let (code, message) = refused_in(&(what.to_string(), text.to_string()), bad_duration).await;
            assert_eq!(code, "duration", "{what} {text:?}: {message}");
            assert!(message.contains(&format!("{text:?}")), "{what} {text:?}: {message}");
        }
    }
}

async fn bad_number(ctx: Ctx, n: u32) -> Result<Refusal> {
    match n {
        0 => refusal(ctx.sleep(-1).await),
        1 => refusal(ctx.sleep(i64::MIN).await),
        2 => refusal(ctx.sleep(u64::MAX).await),
        3 => refusal(ctx.sleep(Duration::MAX).await),
        _ => refusal(ctx.wait::<()>("n").timeout(Duration::MAX).await),
    }
}

#[tokio::test]
async fn out_of_range_duration_is_refused_and_named() {
    let named = ["-1", "-9223372036854775808", "18446744073709551615", "18446744073709551615", "18446744073709551615"];
    for (n, value) in named.into_iter().enumerate() {
        let (code, message) = refused_in(&u32::try_from(n).unwrap(), bad_number).await;
        assert_eq!(code, "duration");
        assert!(message.contains(value), "{message}");
    }
}

#[tokio::test]
async fn uncaught_error_fails_the_workflow() {
    async fn careless(ctx: Ctx, _: ()) -> Result<()> {
        Ok(ctx.sleep("5 parsecs").await?)
    }
    let test = TestEngine::new(|engine| engine.workflow("careless", careless)).await;
    let run = test.start(careless, &()).await.unwrap();
    let error = test.result(&run).await.unwrap_err();
    assert!(matches!(&error, Error::Failed { failure, .. } if failure.message.contains("5 parsecs")), "{error:?}");
}

#[tokio::test]
async fn start_with_an_invalid_delay_is_refused_and_writes_nothing() {
    let test = TestEngine::new(|engine| engine.workflow("double", double)).await;
    for text in BAD_DURATIONS {
        let error = test.start(double, &1).delay(text).await.unwrap_err();
        assert!(matches!(&error, Error::Duration(error) if error.text() == text), "{error:?}");
    }
    let error = test.start(double, &1).delay(Duration::MAX).await.unwrap_err();
    assert!(matches!(&error, Error::Duration(_)), "{error:?}");
    assert_nothing_written(&test).await;
}

#[tokio::test]
async fn invalid_grace_time_is_refused() {
    let error = Engine::open("memory:").grace("5 parsecs").start().await.err().unwrap();
    assert!(matches!(&error, Error::Duration(error) if error.text() == "5 parsecs"), "{error:?}");
}

// ---- policies ----

fn bad_policy(n: u32) -> Option<(Retry, &'static str)> {
    let retry = Retry::times(3);
    Some(match n {
        0 => (retry.exponential("1s").factor(1.0), "factor 1"),
        1 => (retry.exponential("1s").factor(0.5), "factor 0.5"),
        2 => (retry.exponential("1s").factor(-2.0), "factor -2"),
        3 => (retry.exponential("1s").factor(f64::NAN), "factor NaN"),
        4 => (retry.exponential("1s").factor(f64::INFINITY), "factor inf"),
        5 => (retry.exponential("1 minute").max_delay("30s"), "max_delay 30s"),
        6 => (retry.linear("1 minute", "1s").max_delay("30s"), "max_delay 30s"),
        7 => (retry.constant("0s"), "0"),
        8 => (retry.exponential(0), "0"),
        9 => (retry.constant("5 parsecs"), "\"5 parsecs\""),
        10 => (retry.exponential("-1s"), "\"-1s\""),
        11 => (retry.max_delay(""), "\"\""),
        12 => (retry.max_duration("NaN"), "\"NaN\""),
        13 => (retry.max_duration(0), "max_duration 0"),
        14 => (retry.jitter(Jitter::proportional(f64::NAN)), "NaN"),
        15 => (retry.jitter(Jitter::proportional(1.5)), "1.5"),
        16 => (retry.jitter(Jitter::proportional(-0.1)), "-0.1"),
        17 => (retry.jitter(Jitter::full().factor(0.0)), "factor 0"),
        18 => (retry.jitter(Jitter::equal().factor(1.5)), "factor 1.5"),
        19 => (retry.jitter(Jitter::decorrelated().factor(f64::NAN)), "factor NaN"),
        20 => (retry.jitter(Jitter::none().factor(0.5)), "factor 0.5"),
        _ => return None,
    })
}

#[tokio::test]
async fn invalid_retry_policy_is_refused_and_named() {
    async fn tries(ctx: Ctx, n: u32) -> Result<Refusal> {
        let (retry, _) = bad_policy(n).expect("the policy exists");
        refusal(ctx.step("s", || ok(())).retry(retry).await)
    }
    for n in 0.. {
        let Some((_, named)) = bad_policy(n) else { break };
        let (code, message) = refused_in(&n, tries).await;
        assert_eq!(code, "policy", "{n}: {message}");
        assert!(message.contains(named), "{n}: {message}");
    }
}

#[tokio::test]
async fn zero_timeout_is_refused() {
    async fn no_time(ctx: Ctx, _: ()) -> Result<Refusal> {
        refusal(ctx.step("s", || ok(())).timeout(0).await)
    }
    let (code, message) = refused_in(&(), no_time).await;
    assert!(code == "setup" && message.contains("must be greater than zero"), "{message}");
}

// ---- names ----

/// Invalid names, and what the error says about them.
fn bad_names() -> Vec<(String, &'static str)> {
    vec![
        (String::new(), "\"\" is empty"),
        ("x".repeat(201), "is 201 bytes long"),
        ("é".repeat(101), "is 202 bytes long"),
        ("a\nb".into(), r#""a\nb" contains the control character '\n'"#),
        ("a\0b".into(), r#""a\0b" contains the control character '\0'"#),
        ("a\u{7f}".into(), "contains the control character"),
        ("a\u{85}".into(), "contains the control character"),
    ]
}

fn assert_names(error: &Error, what: &str, says: &str) {
    assert!(matches!(error, Error::Name(_)) && error.kind() == ErrorKind::Input, "{error:?}");
    let message = error.to_string();
    assert!(message.starts_with(what) && message.contains(says), "{message}");
}

#[tokio::test]
async fn invalid_run_id_is_refused_and_writes_nothing() {
    let test = TestEngine::new(|engine| engine.workflow("double", double)).await;
    for (text, says) in bad_names() {
        assert_names(&test.start(double, &1).id(&text).await.unwrap_err(), "run id", says);
        assert_names(&test.get_run::<u32>(&text).await.unwrap_err(), "run id", says);
    }
    assert_nothing_written(&test).await;
}

#[tokio::test]
async fn unusual_names_up_to_the_maximum_length_are_accepted() {
    let test = TestEngine::new(|engine| engine.workflow("double", double)).await;
    for id in ["x".repeat(200), "é".repeat(100), " ".into(), "/[]#%".into(), "'; DROP TABLE instance; --".into()] {
        let run = test.start(double, &1).id(&id).await.unwrap();
        assert_eq!(test.result(&run).await.unwrap(), 2);
        assert_eq!(test.get_run::<u32>(&id).await.unwrap().id(), id);
    }
}

#[tokio::test]
async fn invalid_workflow_name_is_refused_and_writes_nothing() {
    let test = TestEngine::new(|engine| engine.workflow("double", double)).await;
    for (text, says) in bad_names() {
        let error = Engine::open("memory:").workflow(&text, double).start().await.err().unwrap();
        assert_names(&error, "workflow name", says);
        assert_names(&test.start_json(&text, "1").await.unwrap_err(), "workflow name", says);
        let contract: Workflow<u32, u32> = Workflow::new(text.leak());
        assert_names(&test.start(contract, &1).await.unwrap_err(), "workflow name", says);
    }
    assert_nothing_written(&test).await;
}

#[tokio::test]
async fn invalid_signal_name_or_dedup_key_is_refused_and_writes_nothing() {
    let test = TestEngine::new(|engine| engine.workflow("waits", waits)).await;
    let run = test.start(waits, &()).await.unwrap();
    test.settle().await;
    let before = (run.info().await.unwrap(), test.store().wakes(Timestamp::MAX, 9).await.unwrap());
    for (text, says) in bad_names() {
        assert_names(&run.signal(&text, "x").await.unwrap_err(), "signal name", says);
        assert_names(&run.signal("n", "x").dedup_key(&text).await.unwrap_err(), "dedup key", says);
    }
    test.settle().await;
    assert_eq!((run.info().await.unwrap(), test.store().wakes(Timestamp::MAX, 9).await.unwrap()), before);
}

#[tokio::test]
async fn invalid_tag_is_refused_and_writes_nothing() {
    let test = TestEngine::new(|engine| engine.workflow("double", double)).await;
    for (text, says) in bad_names() {
        assert_names(&test.start(double, &1).tag(&text, "x").await.unwrap_err(), "tag", says);
    }
    let error = test.start(double, &1).tag("shop", &"x".repeat(201)).await.unwrap_err();
    assert!(
        matches!(&error, Error::PayloadTooLarge { what, bytes: 201, .. } if what.contains("\"shop\"")),
        "{error:?}"
    );
    assert_nothing_written(&test).await;
}

#[tokio::test]
async fn start_with_too_many_or_too_long_tags_is_refused_and_writes_nothing() {
    let test = TestEngine::new(|engine| engine.workflow("echo", echo).max_payload(1000)).await;
    let tagged =
        |count: usize| (0..count).fold(test.start(echo, &json_of(10)), |start, n| start.tag(&format!("tag {n}"), ""));
    let error = tagged(65).await.unwrap_err();
    assert!(matches!(error, Error::TooManyTags { tags: 65, tags_max: 64 }), "{error:?}");
    let error = test.start(echo, &json_of(999)).tag("k", "v").await.unwrap_err();
    let Error::PayloadTooLarge { what, bytes: 1001, max_bytes: 1000 } = &error else { panic!("{error:?}") };
    assert_eq!(what, "the input with its tags");
    assert_nothing_written(&test).await;
    tagged(64).await.unwrap();
    test.start(echo, &json_of(998)).tag("k", "v").await.unwrap();
}

fn nested(levels: usize) -> serde_json::Value {
    (1..levels).fold(serde_json::json!([]), |value, _| serde_json::json!([value]))
}

async fn keeps(ctx: Ctx, levels: usize) -> Result<String> {
    let kept = ctx.step("nest", move || async move { Ok::<_, Error>(nested(levels)) }).await;
    let _: serde_json::Value = ctx.wait("more").await?;
    Ok(kept.map_or_else(|error| error.to_string(), |kept| kept.to_string()))
}

async fn swallow(_: Ctx, _: serde_json::Value) -> Result<()> {
    Ok(())
}

/// What broke: a value that was nested too deeply was written, and could not be read back after a crash.
#[tokio::test]
async fn value_nested_too_deeply_is_refused_everywhere() {
    let test = TestEngine::new(|engine| engine.workflow("swallow", swallow).workflow("keeps", keeps)).await;
    let text = nested(121).to_string();
    for refused in [test.start(swallow, &nested(121)).await.err(), test.start_json("swallow", &text).await.err()] {
        let error = refused.unwrap();
        assert!(matches!(&error, Error::Payload { problem, .. } if problem.contains("120 levels")), "{error:?}");
    }
    assert_nothing_written(&test).await;
    test.result(&test.start(swallow, &nested(120)).await.unwrap()).await.unwrap();
    for (levels, says) in [(120, "[[["), (121, "120 levels")] {
        let run = test.start(keeps, &levels).await.unwrap();
        test.settle().await;
        let error = run.signal("more", &nested(121)).await.unwrap_err();
        assert!(matches!(&error, Error::Payload { problem, .. } if problem.contains("120 levels")), "{error:?}");
        run.signal("more", &nested(120)).await.unwrap();
        let result = test.result(&run).await.unwrap();
        assert!(result.contains(says), "{result}");
    }
}

async fn bad_name(ctx: Ctx, (what, text): (String, String)) -> Result<Refusal> {
    match what.as_str() {
        "step name" => refusal(ctx.step(&text, || ok(())).await),
        "key" => refusal(ctx.step("s", || ok(())).key(&text).await),
        "sleep key" => refusal(ctx.sleep("1 hour").key(&text).await),
        "wait key" => refusal(ctx.wait::<()>("n").key(&text).await),
        "old step name" => refusal(ctx.step("s", || ok(())).was(&text).await),
        "signal name" => refusal(ctx.wait::<()>(&text).await),
        "scope" => refusal(ctx.scope(&text).step("s", || ok(())).await),
        other => unreachable!("{other}"),
    }
}

#[tokio::test]
async fn invalid_name_in_a_workflow_is_refused_by_the_operation() {
    for what in ["step name", "key", "sleep key", "wait key", "old step name", "signal name"] {
        for (text, says) in bad_names() {
            let (code, message) = refused_in(&(what.to_string(), text), bad_name).await;
            assert!(code == "name" && message.contains(says), "{what}: {message}");
        }
    }
}

#[tokio::test]
async fn invalid_scope_key_is_refused_by_its_operations() {
    for (text, says) in bad_names().into_iter().filter(|(text, _)| !text.is_empty()) {
        let (code, message) = refused_in(&("scope".to_string(), text), bad_name).await;
        assert!(code == "name" && message.contains(says), "{message}");
    }
}

#[tokio::test]
async fn scopes_with_different_keys_are_different_scopes() {
    async fn side_by_side(ctx: Ctx, keys: Vec<String>) -> Result<Vec<String>> {
        let branches = keys.iter().map(|key| {
            let scope = ctx.scope(key);
            async move { scope.step("s", || ok(key.clone())).await }
        });
        Ok(futures_util::future::try_join_all(branches).await?)
    }
    let keys: Vec<String> = ["", "-", " ", "a/b", "a%2Fb", "a", "a[1]", "a#2", "#2", "%"].map(Into::into).to_vec();
    let mut test = TestEngine::new(|engine| engine.workflow("side", side_by_side)).await;
    let run = test.start(side_by_side, &keys).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), keys);
    test.crash().await;
    assert_eq!(test.get_run::<Vec<String>>(run.id()).await.unwrap().completed_steps().await.unwrap().len(), keys.len());
}

// ---- payloads ----

/// Returns a text that takes this many bytes as JSON.
fn json_of(bytes: usize) -> String {
    "x".repeat(bytes - 2)
}

async fn echo(_: Ctx, text: String) -> Result<usize> {
    Ok(text.len())
}

#[tokio::test]
async fn oversized_input_is_refused_and_writes_nothing() {
    let test = TestEngine::new(|engine| engine.workflow("echo", echo).max_payload(1000)).await;
    for start in [
        test.start(echo, &json_of(1001)).id("r").await.err(),
        test.start_json("echo", &format!("{:?}", json_of(1001))).await.err(),
    ] {
        let error = start.unwrap();
        assert!(matches!(&error, Error::PayloadTooLarge { bytes: 1001, max_bytes: 1000, .. }), "{error:?}");
        assert!(error.to_string().contains("the input has 1001 bytes"), "{error}");
    }
    assert_nothing_written(&test).await;
    let run = test.start(echo, &json_of(1000)).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 998);
}

#[tokio::test]
async fn payload_limit_defaults_to_one_mebibyte() {
    let test = TestEngine::new(|engine| engine.workflow("echo", echo)).await;
    let error = test.start(echo, &json_of((1 << 20) + 1)).await.unwrap_err();
    assert!(matches!(&error, Error::PayloadTooLarge { max_bytes: 1_048_576, .. }), "{error:?}");
    let run = test.start(echo, &json_of(1 << 20)).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), (1 << 20) - 2);
}

#[tokio::test]
async fn oversized_signal_is_refused_and_writes_nothing() {
    let test = TestEngine::new(|engine| engine.workflow("waits", waits).max_payload(1000)).await;
    let run = test.start(waits, &()).await.unwrap();
    test.settle().await;
    let error = run.signal("n", &json_of(1001)).await.unwrap_err();
    assert!(matches!(&error, Error::PayloadTooLarge { what, bytes: 1001, .. } if what.contains("\"n\"")), "{error:?}");
    test.settle().await;
    assert!(!run.status().await.unwrap().is_ended());
    run.signal("n", &json_of(1000)).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap().len(), 998);
}

#[tokio::test]
async fn step_with_an_oversized_value_fails_and_is_not_retried() {
    async fn large(ctx: Ctx, bytes: usize) -> Result<String> {
        match ctx.step("make", || ok(json_of(bytes))).retry(5).await {
            Ok(_) => Ok("kept".into()),
            Err(Error::Step { step, failure }) => Ok(format!("{step}: {}", failure.message)),
            Err(other) => Err(other.into()),
        }
    }
    let test = TestEngine::new(|engine| engine.workflow("large", large).max_payload(1000)).await;
    let run = test.start(large, &1001).await.unwrap();
    let message = test.result(&run).await.unwrap();
    assert!(
        message.starts_with("make: ") && message.contains("1001 bytes") && message.contains("limit is 1000"),
        "{message}"
    );
    assert_eq!(test.executions("make"), 1);
    let run = test.start(large, &1000).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), "kept");
}

#[tokio::test]
async fn run_with_an_oversized_result_is_stuck_and_says_why() {
    async fn large(ctx: Ctx, bytes: usize) -> Result<String> {
        ctx.step("s", || ok(())).await?;
        Ok(json_of(bytes))
    }
    let mut test = TestEngine::new(|engine| engine.workflow("large", large).max_payload(1000)).await;
    let run = test.start(large, &1001).id("r").await.unwrap();
    let error = test.result(&run).await.unwrap_err();
    assert!(matches!(&error, Error::Stuck { reason, .. } if reason.contains("1001 bytes")), "{error:?}");
    test.deploy(|engine| engine.workflow("large", large).max_payload(1001)).await;
    test.settle().await;
    assert_eq!(test.result(&run).await.unwrap().len(), 999);
    assert_eq!(test.executions("s"), 1);
}

#[tokio::test]
async fn input_of_the_wrong_type_is_refused_and_writes_nothing() {
    let test = TestEngine::new(|engine| engine.workflow("double", double)).await;
    for input in ["\"twelve\"", "-1", "1.5", "null", "[1]", "4294967296", "{\"n\":1}"] {
        let error = test.start_json("double", input).id("r").await.unwrap_err();
        assert!(
            matches!(&error, Error::Payload { what, problem } if what.contains("u32") && problem.contains(input)),
            "{error:?}"
        );
    }
    for input in ["", "{", "1 2", "twelve", "NaN"] {
        let error = test.start_json("double", input).id("r").await.unwrap_err();
        assert!(
            matches!(&error, Error::Payload { what, .. } if what.contains(&format!("{input:?} is not JSON"))),
            "{error:?}"
        );
    }
    assert_nothing_written(&test).await;
}

#[tokio::test]
async fn unserializable_input_or_signal_is_refused_and_writes_nothing() {
    async fn maps(_: Ctx, _: std::collections::BTreeMap<(u8, u8), u8>) -> Result<()> {
        Ok(())
    }
    let map = std::collections::BTreeMap::from([((1, 2), 3)]);
    let test = TestEngine::new(|engine| engine.workflow("maps", maps).workflow("waits", waits)).await;
    let error = test.start(maps, &map).await.unwrap_err();
    assert!(matches!(&error, Error::Payload { what, .. } if what.contains("cannot be written as JSON")), "{error:?}");
    assert_nothing_written(&test).await;
    let run = test.start(waits, &()).await.unwrap();
    let error = run.signal("n", &map).await.unwrap_err();
    assert!(matches!(&error, Error::Payload { what, .. } if what.contains("signal \"n\"")), "{error:?}");
}

// ---- workflows and runs that do not exist ----

#[tokio::test]
async fn unregistered_workflow_is_refused_by_name_and_by_function() {
    const NOBODY: Workflow<u32, u32> = Workflow::new("nobody");
    let test = TestEngine::new(|engine| engine.workflow("double", double).workflow("waits", waits)).await;
    for error in [test.start(NOBODY, &1).await.unwrap_err(), test.start_json("nobody", "1").await.unwrap_err()] {
        assert!(
            matches!(&error, Error::UnknownWorkflow { workflow, known } if workflow.contains("\"nobody\"") && known == "double, waits"),
            "{error:?}"
        );
    }
    let error = test.start(echo, &String::new()).await.unwrap_err();
    assert!(matches!(&error, Error::UnknownWorkflow { workflow, .. } if workflow.contains("echo")), "{error:?}");
    assert_nothing_written(&test).await;
}

#[tokio::test]
async fn missing_run_is_named_in_the_error() {
    let test = TestEngine::new(|engine| engine.workflow("double", double)).await;
    let error = test.get_run::<u32>("nobody").await.unwrap_err();
    assert!(matches!(&error, Error::NotFound { id } if id == "nobody"), "{error:?}");
}

#[tokio::test]
async fn result_read_as_the_wrong_type_is_an_error_and_stays_readable() {
    let test = TestEngine::new(|engine| engine.workflow("double", double)).await;
    test.start(double, &21).id("r").await.unwrap();
    test.settle().await;
    let error = test.get_run::<Vec<String>>("r").await.unwrap().result().await.unwrap_err();
    assert!(
        matches!(&error, Error::Payload { what, .. } if what.contains("\"r\"") && what.contains("Vec")),
        "{error:?}"
    );
    assert_eq!(test.get_run::<u32>("r").await.unwrap().result().await.unwrap(), 42);
}

// ---- setup ----

#[tokio::test]
async fn two_workflows_under_one_name_are_refused() {
    let error = Engine::open("memory:").workflow("same", double).workflow("same", waits).start().await.err().unwrap();
    assert!(matches!(&error, Error::Setup(message) if message.contains("\"same\" is registered twice")), "{error:?}");
}

#[tokio::test]
async fn function_registered_under_two_names_must_be_started_by_name() {
    const FIRST: Workflow<u32, u32> = Workflow::new("first");
    let test = TestEngine::new(|engine| engine.workflow("first", double).workflow("second", double)).await;
    let error = test.start(double, &1).await.unwrap_err();
    assert!(
        matches!(&error, Error::Setup(message) if message.contains("\"first\"") && message.contains("\"second\"")),
        "{error:?}"
    );
    assert_nothing_written(&test).await;
    let run = test.start(FIRST, &1).await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), 2);
}

#[tokio::test]
async fn max_resident_of_zero_is_refused() {
    let error = Engine::open("memory:").workflow("double", double).max_resident(0).start().await.err().unwrap();
    assert!(matches!(&error, Error::Setup(message) if message.contains("must be at least 1")), "{error:?}");
}

#[tokio::test]
async fn first_setup_error_is_reported() {
    let engine = Engine::open("/no/such/folder/s.db").grace("5 parsecs").workflow("", double).max_resident(0);
    let error = engine.start().await.err().unwrap();
    assert!(matches!(&error, Error::Duration(_)), "{error:?}");
}

// ---- files ----

/// Returns the error for opening a place, which is the same for an engine and a client.
async fn refused_file(place: &Path) -> Error {
    let by_engine = Engine::open(place).workflow("double", double).start().await.expect_err("the call is refused");
    let by_client = Client::open(place).expect_err("the call is refused");
    assert_eq!(by_engine.to_string(), by_client.to_string());
    by_engine
}

fn assert_cannot_open(error: &Error, says: &str) {
    assert!(matches!(error, Error::Store(error) if error.kind == outlive::store::ErrorKind::Open), "{error:?}");
    assert!(error.kind() == ErrorKind::Store && error.to_string().contains(says), "{error}");
}

fn names_in(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[tokio::test]
async fn file_that_is_not_sqlite_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    for content in ["dear diary", &"not a database ".repeat(1000)] {
        std::fs::write(&path, content).unwrap();
        assert_cannot_open(&refused_file(&path).await, "notes.txt");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        assert_eq!(names_in(folder.path()), ["notes.txt"]);
    }
}

#[tokio::test]
async fn database_of_another_application_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    Engine::open(&path).start().await.unwrap().shutdown().await.unwrap();
    // The application id: four bytes in the header of every SQLite file.
    let mut bytes = loop {
        let bytes = std::fs::read(&path).unwrap();
        if bytes.len() > 72 && names_in(folder.path()) == ["other.db", "other.db.lock"] {
            break bytes;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    bytes[68..72].copy_from_slice(b"Mail");
    std::fs::write(&path, &bytes).unwrap();
    std::fs::remove_file(folder.path().join("other.db.lock")).unwrap();
    assert_cannot_open(&refused_file(&path).await, "another application");
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert_eq!(names_in(folder.path()), ["other.db"]);
}

#[tokio::test]
async fn missing_folder_is_named_and_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing").join("s.db");
    assert_cannot_open(&refused_file(&path).await, "missing");
    assert_eq!(names_in(folder.path()), Vec::<String>::new());
}

#[tokio::test]
async fn path_that_is_a_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert_cannot_open(&refused_file(folder.path()).await, "is a directory");
    assert_eq!(names_in(folder.path()), Vec::<String>::new());
}

#[tokio::test]
async fn unwritable_path_is_refused() {
    // Not even root can create a file there.
    assert_cannot_open(&refused_file(Path::new("/proc/outlive.db")).await, "/proc/outlive.db");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert_cannot_open(&refused_file(&file.join("s.db")).await, "s.db");
}

#[tokio::test]
async fn empty_path_and_unsupported_store_are_refused() {
    for (place, says) in
        [("", "\"\" is empty"), ("sqlite:", "\"\" is empty"), ("postgres://host/db", "postgres://host/db")]
    {
        let error = refused_file(Path::new(place)).await;
        assert!(matches!(&error, Error::Setup(message) if message.contains(says)), "{error:?}");
    }
}
