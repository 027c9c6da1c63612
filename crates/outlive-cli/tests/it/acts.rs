//! Commands that change a store while another program executes it.

use std::process::Stdio;

use outlive::prelude::*;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::shop::{OUTLIVE, Shop, Told, wait_for};

#[tokio::test]
async fn start_takes_a_deadline_and_show_prints_it() {
    let shop = Shop::open().await;
    let words = ["start", "nap", "null", "--id", "n", "--delay", "1 day", "--deadline", "2 days"];
    assert_eq!(shop.tell(&words).await.well(), "n\n");
    let shown = shop.tell(&["show", "n"]).await.well();
    assert!(shown.contains("deadline"), "{shown}");
}

#[tokio::test]
async fn started_run_is_executed_by_the_program_that_owns_the_file() {
    let shop = Shop::open().await;
    let out = shop.tell(&["start", "order", r#""a boat""#, "--id", "order-9", "--tag", "city=paris"]).await.well();
    assert_eq!(out, "order-9\n");
    shop.tell(&["signal", "order-9", "approval", r#""bob""#]).await.well();
    let run = shop.engine.get_run::<String>("order-9").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "a boat for 7, approved by bob");
    assert_eq!(run.info().await.unwrap().tags["city"], "paris");
}

#[tokio::test]
async fn start_without_an_id_generates_one() {
    let shop = Shop::open().await;
    let first = shop.ask(&["start", "nap", "null", "--delay", "1 hour"]).await;
    let second = shop.ask(&["start", "nap", "null", "--delay", "1 hour"]).await;
    assert_eq!((&first["workflow"], &first["status"]), (&json!("nap"), &json!("pending")));
    assert_ne!(first["id"], second["id"]);
}

#[tokio::test]
async fn start_with_equal_json_joins_the_run_despite_whitespace() {
    let shop = Shop::open().await;
    let outside = outlive::Client::open(shop.file()).unwrap();
    outside.start_json("other", r#"{"a":[1,"b c"]}"#).id("x").await.unwrap();
    assert_eq!(shop.tell(&["start", "other", r#"{ "a": [1, "b c"] }"#, "--id", "x"]).await.well(), "x\n");
    let error = shop.tell(&["start", "other", "{}", "--id", "x"]).await.error();
    assert!(error.contains("\"x\"") && error.contains("another input") && error.contains("--on-conflict"), "{error}");
    assert_eq!(shop.tell(&["start", "other", "{}", "--id", "x", "--on-conflict", "replace"]).await.well(), "x\n");
}

#[tokio::test]
async fn input_can_come_from_stdin() {
    let shop = Shop::open().await;
    let mut command = tokio::process::Command::new(OUTLIVE);
    command.args(["start", shop.file().to_str().unwrap(), "order", "-", "--id", "piped"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"\"a kite\"\n").await.unwrap();
    assert_eq!(Told::from(child.wait_with_output().await.unwrap()).well(), "piped\n");
    let info = shop.engine.get_run::<Value>("piped").await.unwrap().info().await.unwrap();
    assert_eq!(info.input.as_str(), r#""a kite""#);
}

#[tokio::test]
async fn signal_reaches_a_waiting_run_once_per_dedup_key() {
    let shop = Shop::open().await;
    let run = shop.waiting_order("order-1").await;
    let words = ["signal", "order-1", "unheard", "1", "--dedup-key", "k"];
    for is_kept in [true, false] {
        let told = json!({ "id": "order-1", "signal": "unheard", "dedup": "k", "kept": is_kept });
        assert_eq!(shop.ask(&words).await, told);
    }
    // What broke: a dropped signal was reported as kept.
    let out = shop.tell(&words).await.well();
    assert_eq!(out, "signal \"unheard\" dropped: run \"order-1\" has already had a signal with the dedup key \"k\"\n");
    let out = shop.tell(&["signal", "order-1", "approval", r#" "ada" "#]).await.well();
    assert_eq!(out, "signal \"approval\" sent to run \"order-1\"\n");
    assert_eq!(run.result().await.unwrap(), "a tent for 7, approved by ada");
}

#[tokio::test]
async fn cancel_reports_whether_the_run_had_already_ended() {
    let shop = Shop::open().await;
    let run = shop.waiting_order("order-1").await;
    let taken = shop.ask(&["cancel", "order-1", "--reason", "changed my mind"]).await;
    assert_eq!((&taken["id"], &taken["taken"]), (&json!("order-1"), &json!(true)));
    assert!(run.result().await.unwrap_err().is_cancelled());
    assert_eq!(run.info().await.unwrap().note.as_deref(), Some("changed my mind"));
    let late = shop.ask(&["cancel", "order-1"]).await;
    assert_eq!((&late["taken"], &late["status"]), (&json!(false), &json!("cancelled")));
    let out = shop.tell(&["cancel", "order-1"]).await.well();
    assert_eq!(out, "run \"order-1\" has already ended: cancelled; nothing was changed\n");
}

#[tokio::test]
async fn terminate_ends_a_run_and_purge_frees_its_id() {
    let shop = Shop::open().await;
    let run = shop.waiting_order("order-1").await;
    let error = shop.tell(&["purge", "order-1"]).await.error();
    assert!(error.contains("\"order-1\"") && error.contains("cancel or terminate it first"), "{error}");
    shop.tell(&["terminate", "order-1"]).await.well();
    wait_for(&run, StatusKind::Cancelled, |_| true).await;
    shop.tell(&["purge", "order-1"]).await.well();
    assert!(run.info().await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn paused_run_continues_after_resume() {
    let shop = Shop::open().await;
    let run = shop.waiting_order("order-1").await;
    shop.tell(&["pause", "order-1"]).await.well();
    wait_for(&run, StatusKind::Paused, |status| status.to_string() == "paused").await;
    shop.tell(&["signal", "order-1", "approval", r#""ada""#]).await.well();
    shop.tell(&["resume", "order-1"]).await.well();
    assert_eq!(run.result().await.unwrap(), "a tent for 7, approved by ada");
}

#[tokio::test]
async fn retry_continues_a_failed_run() {
    let shop = Shop::open().await;
    let run = shop.failed_run("bad-1").await;
    shop.tell(&["retry", "bad-1"]).await.well();
    run.result().await.unwrap_err();
    let shown = shop.ask(&["show", "bad-1"]).await;
    let kinds: Vec<&str> = shown["journal"].as_array().unwrap().iter().filter_map(|e| e["kind"].as_str()).collect();
    assert_eq!(kinds, ["step_failed", "retried", "step_failed"]);
}

#[tokio::test]
async fn rewind_repeats_a_run_from_a_step() {
    let shop = Shop::open().await;
    let run = shop.waiting_order("order-1").await;
    shop.tell(&["signal", "order-1", "approval", r#""ada""#]).await.well();
    let expected = run.result().await.unwrap();
    let plan = shop.ask(&["rewind", "order-1", "--to", "approval", "--dry-run"]).await;
    assert_eq!((&plan["kept"][0], &plan["runs_again"][0]), (&"step:charge card".into(), &"wait:approval".into()));
    assert_eq!(plan["signals"][0], "approval");
    let told = shop.tell(&["rewind", "order-1", "--to", "approval"]).await.well();
    assert!(told.contains("kept: step:charge card") && told.contains("signal given back: approval"), "{told}");
    assert_eq!(run.result().await.unwrap(), expected);
    let shown = shop.tell(&["show", "order-1", "--full"]).await.well();
    assert!(shown.contains("rewound") && shown.contains("keeps what precedes it up to entry"), "{shown}");
    let error = shop.tell(&["rewind", "order-1", "--to", "ship"]).await.error();
    assert!(error.contains("has not recorded \"ship\"; choose one of step:charge card, wait:approval"), "{error}");
    let error = shop.tell(&["rewind", "order-1", "--to", "999"]).await.error();
    assert!(error.contains("has not recorded entry 999"), "{error}");
}

#[tokio::test]
async fn fork_continues_a_copy_with_another_input() {
    let shop = Shop::open().await;
    let run = shop.waiting_order("order-1").await;
    shop.tell(&["signal", "order-1", "approval", r#""ada""#]).await.well();
    run.result().await.unwrap();
    let words = ["fork", "order-1", "--at", "approval", "--input", "\"a boat\"", "--id", "order-2"];
    let told = shop.tell(&words).await.well();
    assert!(told.contains("run \"order-2\" is forked from run \"order-1\""), "{told}");
    let fork: outlive::Run<String> = shop.engine.get_run("order-2").await.unwrap();
    assert_eq!(fork.result().await.unwrap(), "a boat for 7, approved by ada");
    let error = shop.tell(&words).await.error();
    assert!(error.contains("\"order-2\" is taken"), "{error}");
}

#[tokio::test]
async fn filter_selects_the_runs_to_change() {
    let shop = Shop::open().await;
    for n in 0..3 {
        shop.failed_run(&format!("bad-{n}")).await;
    }
    let order = shop.waiting_order("order-1").await;
    let doomed = |verb: &'static str| vec![verb, "--where", "--workflow", "doomed"];
    let dry = shop.ask(&[&doomed("retry")[..], &["--dry-run"]].concat()).await;
    assert_eq!((&dry["done"], &dry["skipped"], &dry["dry_run"]), (&3.into(), &0.into(), &true.into()));
    let told = shop.tell(&[&doomed("retry")[..], &["--limit", "2"]].concat()).await.well();
    assert!(told.contains("2 runs retried, 0 skipped"), "{told}");
    for n in 0..3 {
        shop.engine.get_run::<()>(&format!("bad-{n}")).await.unwrap().result().await.unwrap_err();
    }
    let told = shop.tell(&[&doomed("rewind")[..], &["--to", "burn"]].concat()).await.well();
    assert!(told.contains("3 runs rewound"), "{told}");
    for n in 0..3 {
        shop.engine.get_run::<()>(&format!("bad-{n}")).await.unwrap().result().await.unwrap_err();
    }
    assert_eq!(shop.ask(&doomed("purge")).await["done"], 3);
    let told = shop.tell(&["cancel", "--where", "--status", "waiting", "--reason", "closed"]).await.well();
    assert!(told.contains("1 runs cancelled"), "{told}");
    wait_for(&order, StatusKind::Cancelled, |_| true).await;
    let error = shop.tell(&["purge", "--where"]).await.error();
    assert!(error.contains("--where would select every run"), "{error}");
    let error = shop.tell(&["purge", "order-1", "--workflow", "order"]).await.error();
    assert!(error.contains("drop the id and add --where"), "{error}");
}
