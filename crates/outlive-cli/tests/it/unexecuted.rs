//! Stores that no process executes: messages wait, and the command line says so.

use std::process::Stdio;
use std::time::Duration;

use outlive::job::{Task, TaskCtx};
use outlive::prelude::*;
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::shop::{Closed, OUTLIVE, Shop, tell};

const ORDERS: Task<u32, u32> = Task::new("orders");
const NOBODY: &str = "no process is executing this store";

async fn keep(ctx: TaskCtx<u32, u32>, event: u32) -> Result<()> {
    ctx.set_state(event);
    Ok(())
}

async fn nothing(_: TaskCtx<u32, u32>) -> Result<()> {
    Ok(())
}

async fn shop() -> Shop {
    let shop = Shop::with(|engine| engine.job(ORDERS.on_event(keep).execute(nothing))).await;
    for id in ["order-1", "order-2"] {
        shop.waiting_order(id).await;
    }
    shop.failed_run("bad-1").await;
    shop.engine.job(ORDERS).ask::<()>("7", &1).await.unwrap();
    shop
}

async fn tell_closed(shop: &Closed, words: &[&str]) -> String {
    let file = shop.file();
    let mut all = vec![words[0], file.to_str().unwrap()];
    all.extend(&words[1..]);
    tell(&all).await.well()
}

const SENT: [&[&str]; 10] = [
    &["signal", "order-1", "another", "\"ada\""],
    &["pause", "order-1"],
    &["resume", "order-1"],
    &["cancel", "order-1"],
    &["terminate", "order-2"],
    &["retry", "bad-1"],
    &["send", "task:orders:7", "2"],
    &["trigger", "task:orders:7"],
    &["terminate", "task:orders:7"],
    &["start", "nap", "null", "--id", "nap-1"],
];
const SHOWN: [&[&str]; 5] =
    [&["ps"], &["show", "order-1"], &["jobs"], &["jobs", "task:orders"], &["job", "task:orders:7"]];

/// What broke: `terminate` claimed that a run ends at once, although no process was there to end it.
#[tokio::test]
async fn every_command_reports_an_unexecuted_store() {
    let shop = shop().await.stop().await;
    for words in SHOWN {
        let out = tell_closed(&shop, words).await;
        assert!(out.contains(NOBODY), "{words:?}: {out}");
    }
    let file = shop.file();
    let listing: Value = serde_json::from_str(&tell_closed(&shop, &["ps", "-o", "json"]).await).unwrap();
    assert_eq!(listing["executed"], false);
    let (start, sent) = SENT.split_last().unwrap();
    for words in sent {
        let out = tell_closed(&shop, words).await;
        assert!(out.contains(&format!("{NOBODY}, so this waits until one does")), "{words:?}: {out}");
        assert!(!out.contains("at once"), "{words:?}: {out}");
    }
    let mut words = vec![start[0], file.to_str().unwrap()];
    words.extend(&start[1..]);
    let told = tell(&words).await;
    assert_eq!((told.code, told.out.as_str()), (Some(0), "nap-1\n"), "only the id is printed");
    assert_eq!(told.err, format!("note: {NOBODY}, so the run starts once one does\n"));
}

#[tokio::test]
async fn executed_store_gets_no_note() {
    let shop = shop().await;
    for words in SHOWN.iter().chain(&SENT) {
        let out = shop.tell(words).await.well();
        assert!(!out.contains("no process"), "{words:?}: {out}");
    }
    assert_eq!(shop.ask(&["ps"]).await["executed"], true);
}

/// Spawns a process with its own engine.
fn executor(folder: &std::path::Path) -> Child {
    let mut command = Command::new(OUTLIVE);
    command.arg("demo-child").arg(folder).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.kill_on_drop(true);
    command.spawn().unwrap()
}

async fn until_executed(file: &str, expected: bool) {
    let look = async {
        loop {
            let listing: Value = serde_json::from_str(&tell(&["ps", file, "-o", "json"]).await.well()).unwrap();
            if listing["executed"] == expected {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(120), look).await.unwrap();
}

#[tokio::test]
async fn killed_executor_and_its_successor_are_both_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let client = Client::open(&file).unwrap();
    client.start_json("order", r#"{"item":"a tent","cents":100}"#).id("order-1").await.unwrap();
    let file = file.to_str().unwrap();
    until_executed(file, false).await;
    for _ in 0..2 {
        let mut child = executor(folder.path());
        until_executed(file, true).await;
        // Its pid stays in the lock file; only the released lock shows that it is gone.
        child.kill().await.unwrap();
        until_executed(file, false).await;
    }
    let out = tell(&["terminate", file, "order-1"]).await.well();
    assert!(out.starts_with("run \"order-1\": it ends as cancelled; no process is executing"), "{out}");
    let mut child = executor(folder.path());
    let told = tokio::time::timeout(Duration::from_secs(120), tell(&["show", file, "order-1", "-f"])).await.unwrap();
    assert_eq!(told.code, Some(1));
    assert!(told.out.contains("cancelled: requested on the command line"), "{}", told.out);
    child.kill().await.unwrap();
}
