//! Commands about jobs, on the file of a running program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outlive::job::{Continuous, ContinuousCtx, Debounce, DebounceCtx, Task, TaskCtx, WorkerPool, WorkerPoolCtx};
use outlive::prelude::*;
use serde_json::{Value, json};

use crate::shop::{Shop, Told, order, tell};

const BEAT: Continuous<u32> = Continuous::new("beat");
const HOOKS: Debounce<u32, Vec<u32>> = Debounce::new("hooks");
const ORDERS: Task<u32, u32> = Task::new("orders");
const MAIL: WorkerPool<String> = WorkerPool::new("mail");

/// Decides whether mails reach their addresses.
struct Post(Arc<AtomicBool>);

async fn beat(ctx: ContinuousCtx<u32>) -> Result<()> {
    ctx.update_state(|beats| *beats += 1);
    Ok(())
}

async fn collect(ctx: DebounceCtx<u32, Vec<u32>>, hook: u32) -> Result<()> {
    ctx.update_state(|batch| batch.push(hook));
    Ok(())
}

async fn flush(ctx: DebounceCtx<u32, Vec<u32>>) -> Result<()> {
    let sum: u32 = ctx.state().unwrap_or_default().iter().sum();
    ctx.send(ORDERS, "flushed", &sum)?;
    Ok(())
}

async fn add(ctx: TaskCtx<u32, u32>, n: u32) -> Result<()> {
    ctx.update_state(|sum| *sum += n);
    Ok(())
}

async fn double(ctx: TaskCtx<u32, u32>) -> Result<()> {
    ctx.update_state(|sum| *sum *= 2);
    Ok(())
}

async fn send(ctx: WorkerPoolCtx<String>, to: String) -> Result<()> {
    let reaches = ctx.get::<Post>().0.load(Ordering::SeqCst);
    if reaches { Ok(()) } else { Err(format!("{to} does not answer").into()) }
}

/// Opens a store with jobs of each kind, and returns it with the switch that lets mails through.
async fn open() -> (Shop, Arc<AtomicBool>) {
    let reaches = Arc::new(AtomicBool::new(true));
    let post = Post(reaches.clone());
    let shop = Shop::with(|engine| {
        engine
            .provide(post)
            .job(BEAT.every("1 hour").execute(beat))
            .job(HOOKS.flush_after("1 hour").on_event(collect).execute(flush))
            .job(ORDERS.on_event(add).execute(double))
            .job(MAIL.concurrency(2).retry(Retry::times(1).constant("1 ms")).execute(send))
    });
    (shop.await, reaches)
}

/// Runs a two-word command, with the store's file after the second word.
async fn tell_two(shop: &Shop, words: &[&str]) -> Told {
    let file = shop.file();
    let mut all = words[..2].to_vec();
    all.push(file.to_str().unwrap());
    all.extend(&words[2..]);
    tell(&all).await
}

async fn ask_two(shop: &Shop, words: &[&str]) -> Value {
    let mut words = words.to_vec();
    words.extend(["-o", "json"]);
    serde_json::from_str(&tell_two(shop, &words).await.well()).unwrap()
}

/// Waits until the JSON output of a command satisfies the condition.
async fn until(shop: &Shop, words: &[&str], is_it: impl Fn(&Value) -> bool) -> Value {
    let look = async {
        loop {
            let given = shop.ask(words).await;
            if is_it(&given) {
                return given;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), look).await.unwrap()
}

#[tokio::test]
async fn jobs_lists_jobs_and_ps_lists_runs() {
    let (shop, _) = open().await;
    shop.engine.start(order, &"a tent".to_owned()).id("order-1").await.unwrap();
    shop.engine.job(BEAT).start("paris", &0).await.unwrap();
    shop.engine.job(ORDERS).send("7", &1).await.unwrap();
    shop.engine.job(ORDERS).send("8", &1).await.unwrap();
    shop.engine.job(HOOKS).add("shop", &1).await.unwrap();
    let listing = until(&shop, &["jobs"], |listing| listing["jobs"][2]["idle"] == 2).await;
    let names: Vec<&str> = listing["jobs"].as_array().unwrap().iter().filter_map(|job| job["job"].as_str()).collect();
    assert_eq!(names, ["continuous:beat", "debounce:hooks", "task:orders"]);
    let beat = &listing["jobs"][0];
    assert_eq!((&beat["kind"], &beat["instances"], &beat["running"]), (&json!("continuous"), &json!(1), &json!(1)));
    assert!(beat["next_run"].as_str().unwrap().ends_with('Z'), "{beat}");
    assert_eq!(shop.ask(&["ps"]).await["counts"]["total"], 1);
    let out = shop.tell(&["ps"]).await.well();
    assert!(out.contains("order-1") && !out.contains("beat"), "{out}");
    let out = shop.tell(&["jobs"]).await.well();
    assert!(out.lines().next().unwrap().starts_with("job ") && out.contains("debounce:hooks"), "{out}");
    let instances = shop.ask(&["jobs", "task:orders"]).await;
    let ids: Vec<&str> =
        instances["instances"].as_array().unwrap().iter().filter_map(|one| one["instance"].as_str()).collect();
    assert_eq!(ids, ["task:orders:8", "task:orders:7"]);
}

#[tokio::test]
async fn export_contains_runs_and_leaves_out_jobs() {
    let (shop, _) = open().await;
    shop.engine.start(order, &"a tent".to_owned()).id("order-1").await.unwrap();
    shop.engine.job(BEAT).start("paris", &0).await.unwrap();
    let told = shop.tell(&["export", "--all"]).await;
    assert_eq!(told.err, "note: left out: 1 job instance (exports contain only runs)\n", "the note was missing");
    let out = told.out;
    assert!(out.contains("order-1") && !out.contains("continuous:beat"), "{out}");
    assert_eq!(out.lines().count(), 3, "a header, a run and the end: {out}");
}

#[tokio::test]
async fn event_creates_an_instance_and_a_trigger_executes_it() {
    let (shop, _) = open().await;
    let sent = shop.ask(&["send", "task:orders:7", " 20 "]).await;
    assert_eq!((&sent["instance"], &sent["created"]), (&json!("task:orders:7"), &json!(true)));
    assert_eq!(shop.ask(&["send", "task:orders:7", "1"]).await["created"], false);
    until(&shop, &["job", "task:orders:7"], |job| job["state"] == 21).await;
    shop.tell(&["trigger", "task:orders:7"]).await.well();
    let job = until(&shop, &["job", "task:orders:7"], |job| job["state"] == 42).await;
    assert_eq!((&job["status"], &job["run_count"], &job["event_count"]), (&json!("idle"), &json!(1), &json!(2)));
    let out = shop.tell(&["job", "task:orders:7"]).await.well();
    assert!(out.contains("state    42") && out.contains("no pending messages"), "{out}");
}

#[tokio::test]
async fn batch_can_be_shown_and_flushed() {
    let (shop, _) = open().await;
    for hook in ["3", "4"] {
        shop.tell(&["send", "debounce:hooks:shop", hook]).await.well();
    }
    let job = until(&shop, &["job", "debounce:hooks:shop"], |job| job["event_count"] == 2).await;
    assert_eq!((&job["state"], &job["status"]), (&json!([3, 4]), &json!("running")));
    shop.tell(&["flush", "debounce:hooks:shop"]).await.well();
    until(&shop, &["jobs"], |listing| listing["jobs"][0]["job"] == "task:orders").await;
    until(&shop, &["job", "task:orders:flushed"], |job| job["state"] == 7).await;
}

#[tokio::test]
async fn terminate_ends_a_job_and_leaves_runs_alone() {
    let (shop, _) = open().await;
    shop.engine.job(BEAT).start("paris", &0).await.unwrap();
    let ended = shop.ask(&["terminate", "continuous:beat:paris", "--reason", "sold"]).await;
    assert_eq!((&ended["id"], &ended["taken"]), (&json!("continuous:beat:paris"), &json!(true)));
    until(&shop, &["jobs"], |listing| listing["jobs"] == json!([])).await;
    assert_eq!(shop.tell(&["jobs"]).await.well(), "no jobs; `outlive ps` lists runs\n");
}

#[tokio::test]
async fn dead_letters_of_a_pool_can_be_listed_retried_and_discarded() {
    let (shop, reaches) = open().await;
    reaches.store(false, Ordering::SeqCst);
    for to in [r#""ada""#, r#""bob""#, r#""cid""#] {
        shop.tell(&["send", "pool:mail", to]).await.well();
    }
    let idle = ask_two(&shop, &["queue", "wait-idle", "mail", "--timeout", "10 s"]).await;
    assert_eq!((&idle["pool"]["ready"], &idle["pool"]["dead"]), (&json!(0), &json!(3)));
    let dead = ask_two(&shop, &["dead", "list", "pool:mail"]).await["dead"].clone();
    assert_eq!((&dead[0]["event"], &dead[0]["attempts"]), (&json!("ada"), &json!(2)));
    assert_eq!(dead[0]["failure"]["message"], "ada does not answer");
    let out = tell_two(&shop, &["dead", "list", "pool:mail"]).await.well();
    assert!(out.contains("bob does not answer"), "{out}");
    reaches.store(true, Ordering::SeqCst);
    let number = dead[1]["number"].to_string();
    let out = tell_two(&shop, &["dead", "retry", "pool:mail", &number]).await.well();
    assert_eq!(out, "1 dead letter of \"pool:mail\" retried\n");
    until(&shop, &["job", "pool:mail"], |job| job["pool"]["ready"] == 0 && job["pool"]["dead"] == 2).await;
    let number = dead[0]["number"].to_string();
    let out = tell_two(&shop, &["dead", "discard", "pool:mail", &number]).await.well();
    assert_eq!(out, "1 dead letter of \"pool:mail\" discarded\n");
    assert_eq!(ask_two(&shop, &["dead", "retry", "pool:mail", "--all"]).await["count"], 1);
    assert_eq!(ask_two(&shop, &["dead", "discard", "pool:mail", "--all"]).await["count"], 0);
    until(&shop, &["job", "pool:mail"], |job| job["pool"]["ready"] == 0 && job["pool"]["dead"] == 0).await;
    let out = tell_two(&shop, &["dead", "list", "pool:mail"]).await.well();
    assert_eq!(out, "job \"pool:mail\" has no dead letters\n");
}

#[tokio::test]
async fn paused_queue_keeps_its_events_until_resumed() {
    let (shop, _) = open().await;
    shop.tell(&["send", "pool:mail", r#""ada""#]).await.well();
    tell_two(&shop, &["queue", "wait-idle", "pool:mail"]).await.well();
    tell_two(&shop, &["queue", "pause", "mail"]).await.well();
    until(&shop, &["job", "pool:mail"], |job| job["pool"]["paused"] == true).await;
    shop.tell(&["send", "pool:mail", r#""bob""#]).await.well();
    let shown = shop.ask(&["job", "pool:mail"]).await;
    assert_eq!((&shown["pool"]["ready"], &shown["inbox"][0]["event"]), (&json!(1), &json!("bob")));
    let error = tell_two(&shop, &["queue", "wait-idle", "mail"]).await.error();
    assert!(error.contains("is paused with 1 event in it") && error.contains("queue resume"), "{error}");
    tell_two(&shop, &["queue", "resume", "mail"]).await.well();
    tell_two(&shop, &["queue", "wait-idle", "mail", "--timeout", "10 s"]).await.well();
}

#[tokio::test]
async fn unknown_or_wrong_kind_of_job_is_refused_with_a_fix() {
    let (shop, _) = open().await;
    shop.engine.job(BEAT).start("paris", &0).await.unwrap();
    shop.engine.job(MAIL).push(&"ada".to_owned()).await.unwrap();
    let table: [(&[&str], &str); 14] = [
        (&["job", "orders"], "\"orders\" is not the name of a job; write it as KIND:NAME"),
        (&["job", "cron:beat:paris"], "KIND is one of continuous, debounce, task, pool"),
        (&["job", "continuous:beat"], "name an instance of it as continuous:beat:ID"),
        (&["job", "continuous:beat:rome"], "there is no job \"continuous:beat:rome\""),
        (&["job", "task:nope:1"], "there is no job \"task:nope\" in this store; there are continuous:beat, pool:mail"),
        (&["job", "pool:mail:7"], "a pool has one queue"),
        (&["jobs", "task:nope"], "there is no job \"task:nope\""),
        (&["trigger", "pool:mail"], "push an event instead"),
        (&["trigger", "task:orders:1"], "there is no job \"task:orders\" in this store"),
        (&["flush", "continuous:beat:paris"], "collects no batch to flush"),
        (&["send", "continuous:beat:paris", "1"], "trigger a continuous job"),
        (&["send", "pool:mail", "ada"], "\"ada\" is not JSON"),
        (&["terminate", "task:orders:1"], "there is no job \"task:orders\" in this store"),
        (&["show", "continuous:beat:paris"], "`outlive job` shows it"),
    ];
    for (words, named) in table {
        let error = shop.tell(words).await.error();
        assert!(error.contains(named), "{words:?}: {error}");
    }
    let table: [(&[&str], &str); 3] = [
        (&["dead", "retry", "pool:mail", "99"], "has no dead letter 99; `outlive dead list`"),
        (&["dead", "list", "pool:post"], "there is no job \"pool:post\" in this store"),
        (&["queue", "pause", "continuous:beat:paris"], "only a pool has a queue"),
    ];
    for (words, named) in table {
        let error = tell_two(&shop, words).await.error();
        assert!(error.contains(named), "{words:?}: {error}");
    }
    assert_eq!(tell_two(&shop, &["dead", "retry", "pool:mail"]).await.code, Some(2), "neither a number nor --all");
}

#[tokio::test]
async fn message_to_an_unexecuted_store_is_kept_without_waiting() {
    let (shop, _) = open().await;
    shop.engine.job(ORDERS).send("7", &1).await.unwrap();
    until(&shop, &["job", "task:orders:7"], |job| job["state"] == 1).await;
    let shop = shop.stop().await;
    let file = shop.file();
    let file = file.to_str().unwrap();
    let words = ["trigger", file, "task:orders:7"];
    tokio::time::timeout(Duration::from_secs(120), tell(&words)).await.unwrap().well();
    let told = tell(&["job", file, "task:orders:7", "-o", "json"]).await.well();
    let job: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(job["inbox"][0]["what"], "trigger");
}
