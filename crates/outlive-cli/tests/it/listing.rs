//! `ps` and `show` on the file of a running program.

use serde_json::json;

use crate::shop::Shop;

#[tokio::test]
async fn ps_lists_runs_newest_first_and_counts_them() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    shop.failed_run("bad-1").await;
    let out = shop.tell(&["ps"]).await.well();
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("id") && lines[0].contains("started (UTC)"), "{out}");
    assert!(lines[1].starts_with("bad-1") && lines[1].contains("failed") && lines[1].contains("it burnt"), "{out}");
    assert!(lines[2].starts_with("order-1") && lines[2].contains("waiting (approval)"), "{out}");
    assert_eq!(lines.last(), Some(&"2 runs: 1 waiting, 1 failed"));
}

#[tokio::test]
async fn ps_applies_its_filters_and_limit() {
    let shop = Shop::open().await;
    shop.failed_run("bad-1").await;
    for n in 1..=3 {
        let tag = if n == 1 { "paris" } else { "rome" };
        shop.engine.start_json("nap", "null").id(&format!("nap-{n}")).tag("city", tag).await.unwrap();
    }
    let table: [(&[&str], &[&str]); 8] = [
        (&["ps", "--workflow", "doomed"], &["bad-1"]),
        (&["ps", "--status", "failed", "--status", "completed"], &["bad-1"]),
        (&["ps", "--prefix", "nap-"], &["nap-3", "nap-2", "nap-1"]),
        (&["ps", "--tag", "city=rome"], &["nap-3", "nap-2"]),
        (&["ps", "--version", "2026-11-16", "--prefix", "bad"], &["bad-1"]),
        (&["ps", "--version", "2026"], &[]),
        (&["ps", "--limit", "1"], &["nap-3"]),
        (&["ps", "--limit", "0"], &[]),
    ];
    for (words, expected) in table {
        let listing = shop.ask(words).await;
        let ids: Vec<&str> =
            listing["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect();
        assert_eq!(ids, expected, "{words:?}");
    }
    assert_eq!(shop.ask(&["ps", "--limit", "1"]).await["counts"]["total"], 4);
    let out = shop.tell(&["ps", "--limit", "1"]).await.well();
    assert!(out.contains("showing the newest 1, use --limit 4 to list all"), "{out}");
}

#[tokio::test]
async fn ps_pages_through_more_runs_than_fit_on_one_page() {
    let shop = Shop::open().await;
    for n in 0..230 {
        shop.engine.start_json("nap", "null").id(&format!("nap-{n}")).await.unwrap();
    }
    let listing = shop.ask(&["ps", "--limit", "1000"]).await;
    let ids: std::collections::BTreeSet<_> =
        listing["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 230);
}

#[tokio::test]
async fn show_prints_the_run_and_its_journal() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let out = shop.tell(&["show", "order-1"]).await.well();
    for part in [
        "workflow  order",
        "version   2026-11-16",
        "status    waiting (approval)",
        "input     \"a tent\"",
        "it/shop.rs:",
        "step:charge card",
    ] {
        assert!(out.contains(part), "no {part:?} in {out}");
    }
    let failed = out.lines().find(|line| line.contains("attempt failed")).unwrap();
    assert!(failed.contains("the bank does not answer"), "{out}");
    let done = out.lines().find(|line| line.contains("step done")).unwrap();
    assert!(done.starts_with('2') && done.contains("  2  ") && done.ends_with(" 7"), "{out}");
}

#[tokio::test]
async fn show_prints_the_same_as_json() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let shown = shop.ask(&["show", "order-1"]).await;
    let (run, journal) = (&shown["run"], shown["journal"].as_array().unwrap());
    assert_eq!((&run["status"], &run["until"]), (&json!("waiting"), &json!(null)));
    assert_eq!((&run["workflow"], &run["input"]), (&json!("order"), &json!("a tent")));
    assert!(run["created_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(journal.len(), 2);
    assert_eq!((&journal[0]["kind"], &journal[0]["attempt"]), (&json!("attempt_failed"), &json!(1)));
    assert_eq!(journal[0]["failure"]["message"], "the bank does not answer");
    // Timestamps have as many digits as needed, so they cannot be compared as text.
    assert!(journal[0]["due_at"].is_string() && journal[0]["due_at"] != journal[0]["at"]);
    assert_eq!((&journal[1]["kind"], &journal[1]["value"]), (&json!("step_done"), &json!(7)));
    assert!(journal[1]["site"].as_str().unwrap().contains("tests/it/shop.rs:"));
}

#[tokio::test]
async fn failed_step_is_shown_with_its_failure_and_cause() {
    let shop = Shop::open().await;
    shop.failed_run("bad-1").await;
    let shown = shop.ask(&["show", "bad-1"]).await;
    assert_eq!(shown["journal"][0]["failure"]["message"], "it burnt");
    assert_eq!(shown["journal"][0]["ended_by"], "error");
    assert!(shown["run"]["failure"]["message"].as_str().unwrap().contains("it burnt"));
    let out = shop.tell(&["show", "bad-1"]).await.well();
    assert!(out.contains("step failed") && out.contains("it burnt"), "{out}");
}

#[tokio::test]
async fn taken_signal_has_no_due_time() {
    let shop = Shop::open().await;
    let run = shop.waiting_order("order-1").await;
    run.signal("approval", "ada").await.unwrap();
    run.result().await.unwrap();
    let shown = shop.ask(&["show", "order-1"]).await;
    let taken = shown["journal"].as_array().unwrap().iter().find(|entry| entry["kind"] == "signal_taken").unwrap();
    assert_eq!((&taken["value"], &taken["due_at"]), (&json!("ada"), &json!(null)));
}

#[tokio::test]
async fn closed_pipe_ends_the_listing_quietly() {
    let shop = Shop::open().await;
    shop.failed_run("bad-1").await;
    // The reader is gone before the process has written a byte.
    let mut command = tokio::process::Command::new(crate::shop::OUTLIVE);
    command.args(["ps", shop.file().to_str().unwrap()]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let told: crate::shop::Told = child.wait_with_output().await.unwrap().into();
    assert_eq!((told.code, told.err.as_str()), (Some(0), ""));
}

/// What broke: a long id or name made the table wider than the terminal, so its lines wrapped.
#[tokio::test]
async fn tables_fit_the_given_width() {
    let shop = Shop::open().await;
    let long = "order-".repeat(20);
    shop.waiting_order(&long).await;
    shop.failed_run("bad-1").await;
    for words in [&["ps"][..], &["show", &long], &["show", "bad-1"], &["events"]] {
        let mut command = tokio::process::Command::new(crate::shop::OUTLIVE);
        command.arg(words[0]).arg(shop.file()).args(&words[1..]).env("COLUMNS", "80");
        let told: crate::shop::Told = command.output().await.unwrap().into();
        let out = told.well();
        let longest = out.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= 80, "{words:?}: {longest}\n{out}");
        assert!(words[0] != "ps" || out.contains("waiting (approval)"), "{out}");
    }
}

/// Memory limit of a command in kilobytes; without any data it needs about 45,000.
#[cfg(target_os = "linux")]
const MEMORY_MAX: u32 = 80_000;

/// Runs a command with limited memory.
#[cfg(target_os = "linux")]
async fn tell_in_little_memory(shop: &Shop, words: &str) -> String {
    let line = format!("ulimit -v {MEMORY_MAX} && exec \"$0\" {}", words.replace("FILE", "\"$1\""));
    let mut shell = tokio::process::Command::new("sh");
    // One arena per thread would reserve memory that is never used.
    shell.args(["-c", &line]).arg(crate::shop::OUTLIVE).arg(shop.file()).env("MALLOC_ARENA_MAX", "1");
    let told: crate::shop::Told = shell.output().await.unwrap().into();
    told.well()
}

/// What broke: all runs were read before the first was shown, and held again as JSON: gigabytes for a large store.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn long_list_is_shown_and_exported_in_bounded_memory() {
    let shop = Shop::open().await;
    let item = format!("\"{}\"", "x".repeat(1_000_000));
    for n in 0..48 {
        shop.engine.start_json("order", &item).id(&format!("large-{n}")).delay("1 day").await.unwrap();
    }
    for words in ["ps FILE --limit 1000 -o json", "ps FILE --limit 1000", "export FILE"] {
        let out = tell_in_little_memory(&shop, words).await;
        assert_eq!(out.matches("large-").count(), 48, "{words}");
    }
}

/// Records 48 megabytes.
#[cfg(target_os = "linux")]
async fn hoard(ctx: outlive::Ctx, _: ()) -> outlive::prelude::Result<()> {
    for n in 0..48 {
        let _: String = ctx.step("hoard", || async { outlive::Ok("x".repeat(1_000_000)) }).key(n.to_string()).await?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn long_journal_is_shown_in_bounded_memory() {
    let shop = Shop::with(|engine| engine.workflow("hoard", hoard)).await;
    shop.engine.start(hoard, &()).id("large").await.unwrap().result().await.unwrap();
    for words in ["show FILE large -o json", "show FILE large", "show FILE large -f"] {
        let out = tell_in_little_memory(&shop, words).await;
        assert_eq!(out.matches("step:hoard").count(), 48, "{words}");
    }
}

/// What broke: a pipe that was closed early turned every verdict into success.
#[tokio::test]
async fn closed_pipe_does_not_change_the_exit_code_of_a_verdict() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let sql = rusqlite::Connection::open(shop.file()).unwrap();
    sql.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    assert!(sql.execute("UPDATE counter SET n = n + 1 WHERE workflow = 'order'", []).unwrap() > 0);
    let file = shop.file();
    let file = file.to_str().unwrap();
    let table: [(&[&str], Option<i32>); 5] = [
        (&["ps", file], Some(0)),
        (&["show", file, "order-1"], Some(0)),
        (&["doctor", file], Some(1)),
        (&["doctor", file, "-o", "json"], Some(1)),
        (&["export", file], Some(1)),
    ];
    for (words, code) in table {
        let mut command = tokio::process::Command::new(crate::shop::OUTLIVE);
        command.args(words).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let told: crate::shop::Told = child.wait_with_output().await.unwrap().into();
        assert_eq!((told.code, told.err.as_str()), (code, ""), "{words:?}");
    }
    // The same without any stdout: the output is lost, the verdict is not.
    for (words, code) in [("ps", 0), ("doctor", 1)] {
        let line = format!("exec \"$0\" {words} \"$1\" >&-");
        let status = tokio::process::Command::new("sh").args(["-c", &line, crate::shop::OUTLIVE, file]).status();
        assert_eq!(status.await.unwrap().code(), Some(code), "{words}");
    }
}
