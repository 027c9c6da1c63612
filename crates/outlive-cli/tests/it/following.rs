//! `show -f` follows a live run until it ends.

use std::process::Stdio;
use std::time::Duration;

use outlive::{OnConflict, StatusKind};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::shop::{OUTLIVE, Shop, Told, wait_for};

/// Approves an order once the follower has had time to see it wait.
async fn approve_soon(shop: &Shop, id: &str) {
    tokio::time::sleep(Duration::from_millis(400)).await;
    shop.engine.get_run::<String>(id).await.unwrap().signal("approval", "ada").await.unwrap();
}

#[tokio::test]
async fn follow_prints_new_entries_and_exits_with_0_on_completion() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let (told, ()) = tokio::join!(shop.tell(&["show", "order-1", "-f"]), approve_soon(&shop, "order-1"));
    let out = told.well();
    assert!(out.contains("waiting (approval)"), "it was seen waiting: {out}");
    assert_eq!(out.matches("signal taken").count(), 1, "{out}");
    assert_eq!(out.matches("operation").count(), 1, "one heading: {out}");
    assert!(out.ends_with("\ncompleted: \"a tent for 7, approved by ada\"\n"), "{out}");
}

#[tokio::test]
async fn follow_prints_one_json_document_when_the_run_has_ended() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let (shown, ()) = tokio::join!(shop.ask(&["show", "order-1", "-f"]), approve_soon(&shop, "order-1"));
    assert_eq!(shown["run"]["status"], "completed");
    assert_eq!(shown["journal"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn following_a_failed_run_exits_with_code_1_and_shows_why() {
    let shop = Shop::open().await;
    shop.failed_run("bad-1").await;
    let told = shop.tell(&["show", "bad-1", "-f"]).await;
    assert_eq!((told.code, told.err.as_str()), (Some(1), ""));
    assert!(told.out.lines().last().unwrap().starts_with("failed: ") && told.out.contains("it burnt"), "{}", told.out);
    assert_eq!(shop.tell(&["show", "bad-1"]).await.code, Some(0), "only `-f` sets the exit code");
}

/// What broke: the follower reported that the run had never been started.
#[tokio::test]
async fn follow_reports_a_replaced_or_removed_run() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let (follower, mut lines) = follower(&shop, "order-1").await;
    while !lines.next_line().await.unwrap().unwrap().contains("step done") {}
    shop.engine.start_json("nap", "null").id("order-1").on_conflict(OnConflict::Replace).await.unwrap();
    let told: Told = follower.wait_with_output().await.unwrap().into();
    let sentence = "error: run \"order-1\" was replaced by a new run with the same id while it was shown; repeat the \
                    command to show that one\n";
    assert_eq!((told.code, told.err.as_str()), (Some(1), sentence));

    let run = shop.waiting_order("order-2").await;
    let (follower, mut lines) = self::follower(&shop, "order-2").await;
    while !lines.next_line().await.unwrap().unwrap().contains("step done") {}
    shop.tell(&["terminate", "order-2"]).await.well();
    // The follower may see the end before the run is purged.
    wait_for(&run, StatusKind::Cancelled, |_| true).await;
    run.purge().await.unwrap();
    let told: Told = follower.wait_with_output().await.unwrap().into();
    assert_eq!(told.code, Some(1), "{}", told.err);
    assert!(told.err.is_empty() || told.err.contains("there is no run \"order-2\""), "{}", told.err);
}

/// Spawns a process that follows a run, and returns its output lines.
async fn follower(shop: &Shop, id: &str) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut command = Command::new(OUTLIVE);
    command.args(["show", shop.file().to_str().unwrap(), id, "-f"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

/// What broke: a closed pipe produced the exit code of a completed run.
#[tokio::test]
async fn follow_with_a_closed_pipe_does_not_exit_with_0() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let (follower, lines) = follower(&shop, "order-1").await;
    drop(lines);
    // The follower writes again only when there is something new.
    shop.tell(&["signal", "order-1", "other", "1"]).await.well();
    shop.tell(&["cancel", "order-1"]).await.well();
    let told: Told = follower.wait_with_output().await.unwrap().into();
    assert_eq!((told.code, told.err.as_str()), (Some(1), ""));
}
