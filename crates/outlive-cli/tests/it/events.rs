//! `events`: past and live lifecycle events, worded as in the library.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use outlive::job::{Task, TaskCtx};
use outlive::prelude::*;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::shop::{OUTLIVE, Shop, tell};

const ORDERS: Task<u32, u32> = Task::new("orders");

async fn add(ctx: TaskCtx<u32, u32>, n: u32) -> Result<()> {
    ctx.update_state(|sum| *sum += n);
    Ok(())
}

async fn rest(_: TaskCtx<u32, u32>) -> Result<()> {
    Ok(())
}

/// Opens a store with a task that has handled an event, a waiting run and a failed one.
async fn open() -> Shop {
    let shop = Shop::with(|engine| engine.job(ORDERS.on_event(add).execute(rest))).await;
    shop.engine.job(ORDERS).send("7", &1).await.unwrap();
    shop.waiting_order("order-1").await;
    shop.failed_run("bad-1").await;
    let handled = async {
        while shop.engine.job(ORDERS).state("7").await.unwrap() != Some(1) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), handled).await.unwrap();
    shop
}

/// Reads all events of a store with the library.
async fn all_events(client: &Client) -> Vec<Value> {
    let events = client.events().from_start().await.unwrap().read(usize::MAX).await.unwrap();
    events.iter().map(|event| serde_json::to_value(event).unwrap()).collect()
}

fn events(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Spawns `events -f` and returns its output lines.
fn follow(shop: &Shop, words: &[&str]) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut command = Command::new(OUTLIVE);
    command.arg("events").arg(shop.file()).arg("-f").args(words).args(["-o", "json"]);
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> Value {
    let line = tokio::time::timeout(Duration::from_secs(120), lines.next_line()).await.unwrap();
    serde_json::from_str(&line.unwrap().unwrap()).unwrap()
}

/// Validates a value against a schema node. Supports only the rules our schema uses.
fn fits(schema: &Value, root: &Value, value: &Value) -> bool {
    let Value::Object(rules) = schema else { return schema == &Value::Bool(true) };
    rules.iter().all(|(rule, says)| match rule.as_str() {
        "$schema" | "$defs" | "title" | "description" => true,
        "$ref" => fits(root.pointer(&says.as_str().unwrap()[1..]).unwrap(), root, value),
        "const" => says == value,
        "enum" => says.as_array().unwrap().contains(value),
        "oneOf" => says.as_array().unwrap().iter().filter(|one| fits(one, root, value)).count() == 1,
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| fits(says, root, item))),
        "required" => says.as_array().unwrap().iter().all(|key| value.get(key.as_str().unwrap()).is_some()),
        "properties" => {
            let members = says.as_object().unwrap();
            members.iter().all(|(key, rule)| value.get(key).is_none_or(|value| fits(rule, root, value)))
        }
        "type" => match says.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "boolean" => value.is_boolean(),
            other => panic!("our schema has no type {other}"),
        },
        other => panic!("our schema has no rule {other}"),
    })
}

#[tokio::test]
async fn json_events_match_the_library_and_the_schema() {
    let shop = open().await;
    let out = shop.tell(&["events", "-o", "json"]).await.well();
    let events = events(&out);
    assert_eq!(events, all_events(&shop.engine.client()).await);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lifecycle-events.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for event in &events {
        assert!(fits(&schema, &schema, event), "{event}");
    }
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    for one in ["job.started", "event.handled", "run.queued", "step.failed", "run.paused", "run.failed"] {
        assert!(types.contains(&one), "{one} is not in {types:?}");
    }
    let mut broken = events[0].clone();
    broken["number"] = "one".into();
    assert!(!fits(&schema, &schema, &broken), "the schema accepts a string as a number");
}

#[tokio::test]
async fn table_shows_each_event_as_the_library_words_it() {
    let shop = open().await;
    let out = shop.tell(&["events", "--of", "order-1", "--full"]).await.well();
    let mut lines = out.lines();
    let heading: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(heading, ["cursor", "time", "(UTC)", "name", "instance", "number", "event"]);
    let events = shop.engine.events().from_start().of("order-1").await.unwrap().read(99).await.unwrap();
    assert!(events.len() > 4, "{events:?}");
    for (line, event) in lines.zip(&events) {
        assert!(line.starts_with(&event.cursor().to_string()), "{line}");
        assert!(line.trim_end().ends_with(&event.kind.to_string()), "{line} is not {event}");
    }
    assert_eq!(out.lines().count(), events.len() + 1, "{out}");
}

#[tokio::test]
async fn events_are_selected_by_cursor_instance_and_limit() {
    let shop = open().await;
    let all = all_events(&shop.engine.client()).await;
    let some = events(&shop.tell(&["events", "--limit", "3", "-o", "json"]).await.well());
    assert_eq!(some, all[..3]);
    let cursor = some[2]["cursor"].to_string();
    let rest = events(&shop.tell(&["events", "--since", &cursor, "-o", "json"]).await.well());
    assert_eq!(rest, all[3..]);
    let of: Vec<_> = all.iter().filter(|event| event["instance"] == "task:orders:7").cloned().collect();
    assert_eq!(events(&shop.tell(&["events", "--of", "task:orders:7", "-o", "json"]).await.well()), of);
    let last = all.last().unwrap()["cursor"].to_string();
    assert_eq!(shop.tell(&["events", "--since", &last]).await.well(), "");
    assert_eq!(shop.tell(&["events", "--of", "nobody"]).await.well(), "");
    let refused = shop.tell(&["events", "--since", "here"]).await;
    assert!(refused.code == Some(2) && refused.err.contains("is not a cursor"), "{}", refused.err);
}

#[tokio::test]
async fn follower_sees_events_of_another_process() {
    let shop = open().await;
    let last = all_events(&shop.engine.client()).await.last().unwrap()["cursor"].to_string();
    let (_child, mut lines) = follow(&shop, &["--since", &last]);
    shop.engine.job(ORDERS).send("8", &1).await.unwrap();
    let event = next(&mut lines).await;
    assert_eq!((&event["instance"], &event["type"]), (&"task:orders:8".into(), &"job.started".into()));
}

#[tokio::test]
async fn follower_exits_after_its_limit() {
    let shop = open().await;
    let (mut child, mut lines) = follow(&shop, &["--since", "0", "--limit", "2"]);
    let some = [next(&mut lines).await, next(&mut lines).await];
    assert_eq!(some, all_events(&shop.engine.client()).await[..2]);
    let ended = tokio::time::timeout(Duration::from_secs(120), child.wait()).await.unwrap();
    assert!(ended.unwrap().success() && lines.next_line().await.unwrap().is_none());
}

#[tokio::test]
async fn events_of_an_unexecuted_store_can_be_read() {
    let shop = open().await;
    let before = all_events(&shop.engine.client()).await;
    let shop = shop.stop().await;
    let out = tell(&["events", shop.file().to_str().unwrap(), "-o", "json"]).await.well();
    assert_eq!(events(&out)[..before.len()], before);
}
