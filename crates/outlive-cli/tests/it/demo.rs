//! The demo, as a new user runs it.

use serde_json::Value;
use tokio::process::Command;

use crate::shop::{OUTLIVE, tell};

#[tokio::test]
async fn demo_kills_its_process_twice_and_no_recorded_step_runs_twice() {
    let folder = tempfile::tempdir().unwrap();
    // No command, as with `cargo run`.
    let ended = Command::new(OUTLIVE).env("TMPDIR", folder.path()).output().await.unwrap();
    let out = String::from_utf8(ended.stdout).unwrap();
    assert_eq!((ended.status.code(), ended.stderr), (Some(0), Vec::new()), "{out}");
    assert!(out.contains("\n2 kills, 3 processes, no recorded step ran twice\n"), "{out}");
    assert!(out.contains("\nno webhook or mail was lost or counted twice\n"), "{out}");
    assert_eq!(out.matches("KILLED").count(), 2, "{out}");
    assert!(!out.contains('\u{1b}'), "no terminal, no escapes: {out:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[tokio::test]
async fn demo_counts_executions_and_keeps_its_store_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    let kept = kept.to_str().unwrap();
    let report: Value = serde_json::from_str(&tell(&["demo", "--keep", kept, "-o", "json"]).await.well()).unwrap();
    let numbers = |step: usize| {
        let step = &report["steps"][step];
        ["attempts", "executions", "recorded", "executions_after_record"].map(|field| step[field].as_u64().unwrap())
    };
    assert_eq!([numbers(0), numbers(1), numbers(2)], [[1, 1, 1, 0], [3, 3, 1, 0], [1, 2, 1, 0]], "{report}");
    let jobs = &report["jobs"];
    let numbers = |job: &str| ["came", "done", "dead"].map(|field| jobs[job][field].as_u64().unwrap());
    assert_eq!([numbers("webhooks"), numbers("mails")], [[16, 16, 0], [7, 6, 1]], "{jobs}");
    assert!(numbers("heartbeats")[1] > 8, "{jobs}");
    let store = format!("{kept}/shop.db");
    let listed: Value = serde_json::from_str(&tell(&["jobs", &store, "-o", "json"]).await.well()).unwrap();
    assert_eq!((&listed["jobs"][0]["job"], &listed["jobs"][0]["stopped"]), (&"continuous:heartbeat".into(), &1.into()));
    let shown: Value = serde_json::from_str(&tell(&["show", &store, "order-1", "-o", "json"]).await.well()).unwrap();
    assert_eq!((&shown["run"]["status"], &shown["run"]["output"]), (&report["status"], &report["result"]));
    let error = tell(&["demo", "--keep", kept]).await.error();
    assert!(error.contains("already exists"), "{error}");
}
