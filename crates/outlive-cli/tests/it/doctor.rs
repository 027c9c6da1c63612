//! `doctor` on the file of a running program, and on one that has been tampered with.

use outlive::job::{WorkerPool, WorkerPoolCtx};
use outlive::prelude::*;
use serde_json::json;
use tokio::process::Command;

use crate::shop::{OUTLIVE, Shop, Told, tell, wait_for};

const MAIL: WorkerPool<String> = WorkerPool::new("mail");

async fn post(_: WorkerPoolCtx<String>, _: String) -> Result<()> {
    Ok(())
}

async fn busy_shop() -> Shop {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    shop.failed_run("bad-1").await;
    shop.tell(&["start", "nap", "null", "--id", "nap-1"]).await.well();
    wait_for(&shop.engine.get_run::<()>("nap-1").await.unwrap(), StatusKind::Sleeping, |_| true).await;
    shop.tell(&["signal", "order-1", "unheard", "1", "--dedup-key", "k"]).await.well();
    shop
}

async fn tampered(shop: &Shop, damage: &str) -> Told {
    let sql = rusqlite::Connection::open(shop.file()).unwrap();
    sql.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    assert_eq!(sql.execute(damage, []).unwrap(), 1, "{damage}");
    shop.tell(&["doctor", "--full"]).await
}

#[tokio::test]
async fn store_in_use_is_sound() {
    let shop = busy_shop().await;
    let out = shop.tell(&["doctor"]).await.well();
    assert!(out.starts_with("sound: 3 runs, ") && out.trim_end().ends_with("1 pending message"), "{out}");
    let facts = shop.ask(&["doctor"]).await;
    assert_eq!((&facts["is_sound"], &facts["instances"], &facts["findings"]), (&json!(true), &json!(3), &json!([])));
}

/// What broke: a bare name was refused, because its parent folder "" does not exist.
#[tokio::test]
async fn store_in_the_current_folder_is_found_by_bare_name() {
    let shop = busy_shop().await;
    let folder = shop.file();
    let folder = folder.parent().unwrap();
    for command in ["doctor", "events", "ps", "export"] {
        let told = Command::new(OUTLIVE).args([command, "shop.db"]).current_dir(folder).output().await.unwrap();
        let told = Told::from(told);
        assert_eq!((told.code, told.out.is_empty()), (Some(0), false), "{command}: {}", told.err);
    }
}

#[tokio::test]
async fn finding_names_the_run_and_the_fix_and_exits_with_code_1() {
    let shop = busy_shop().await;
    let told = tampered(&shop, "UPDATE instance SET wake = NULL WHERE id = 'nap-1'").await;
    assert_eq!((told.code, told.err.as_str()), (Some(1), ""));
    let line = told.out.lines().find(|line| line.contains("no wake is set")).unwrap_or_else(|| panic!("{}", told.out));
    assert!(line.starts_with("nap-1  no wake  it is sleeping, nobody drives it"), "{line}");
    assert!(line.contains("`outlive resume` makes it due at once"), "{line}");
    assert!(told.out.trim_end().lines().last().unwrap().starts_with("1 finding: 3 runs, "), "{}", told.out);
}

#[tokio::test]
async fn doctor_prints_one_json_document() {
    let shop = busy_shop().await;
    tampered(&shop, "UPDATE counter SET n = n + 1 WHERE workflow = 'doomed' AND status = 5").await;
    let told = shop.tell(&["doctor", "-o", "json"]).await;
    assert_eq!(told.code, Some(1));
    let facts: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&facts["is_sound"], &facts["findings_count"]), (&json!(false), &json!(1)));
    let finding = &facts["findings"][0];
    assert_eq!(finding["problem"], "counter");
    assert_eq!(finding["found"], "workflow \"doomed\" has 1 instances of status 5, but 2 are counted");
}

#[tokio::test]
async fn non_store_file_is_an_error() {
    let error = tell(&["doctor", "/no/such/file.db"]).await.error();
    assert!(error.contains("no such store"), "{error}");
    let error = tell(&["doctor", "postgres://host/db"]).await.error();
    assert!(error.contains("is not a file"), "{error}");
}

/// What broke: job instances were counted as runs.
#[tokio::test]
async fn job_instances_are_not_counted_as_runs() {
    let shop = Shop::with(|engine| engine.job(MAIL.concurrency(1).execute(post))).await;
    shop.waiting_order("order-1").await;
    shop.engine.job(MAIL).push(&"ada".to_owned()).await.unwrap();
    let out = shop.tell(&["doctor"]).await.well();
    assert!(out.starts_with("sound: 1 run, 1 job instance, "), "{out}");
    let facts = shop.ask(&["doctor"]).await;
    assert_eq!((&facts["instances"], &facts["runs"], &facts["jobs"]), (&json!(2), &json!(1), &json!(1)));
}
