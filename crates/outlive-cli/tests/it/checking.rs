//! `check` compares the code of one program with a store that another one executes.

use std::path::Path;
use std::process::Stdio;

use outlive::prelude::*;
use serde_json::Value;
use tokio::process::Command;

use crate::shop::{OUTLIVE, Shop, Told, order};

/// Selects the version of the shop that the checked program runs.
const VERSION: &str = "OUTLIVE_TEST_VERSION";

/// What a check of one fine run says.
const FINE: &str = "1 unfinished run: 1 fine\nversion 2026-11-16: 1 unfinished run: 1 fine\n";

/// The same order, with a renamed step.
async fn renamed(ctx: Ctx, item: String) -> Result<String> {
    let paid: u32 = ctx.step("charge", || async { Err(BoxError::from("a check runs no step")) }).await?;
    let by: String = ctx.wait("approval").await?;
    Ok(format!("{item} for {paid}, approved by {by}"))
}

/// The same order, with a different payment type.
async fn retyped(ctx: Ctx, item: String) -> Result<String> {
    let paid: Vec<u32> = ctx.step("charge card", || async { Err(BoxError::from("a check runs no step")) }).await?;
    Ok(format!("{item} for {paid:?}"))
}

/// The same order, with a new step before the recorded one.
async fn longer(ctx: Ctx, item: String) -> Result<String> {
    ctx.step("look for fraud", || async { Err::<(), _>(BoxError::from("a check runs no step")) }).await?;
    order(ctx, item).await
}

/// The checked program, in the version the environment variable names. Does nothing without it.
#[tokio::test]
async fn is_the_checked_program() {
    let Ok(version) = std::env::var(VERSION) else { return };
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::open(folder.path().join("its-own.db")).check_from_env();
    let started = match version.as_str() {
        "same" | "server" => engine.workflow("order", order).start().await,
        "renamed" => engine.workflow("order", renamed).start().await,
        "retyped" => engine.workflow("order", retyped).start().await,
        "longer" => engine.workflow("order", longer).start().await,
        "set-up" => {
            assert!(outlive::is_check());
            let connect = || async { Err::<u32, _>(BoxError::from("a check connects to nobody")) };
            engine.workflow("order", order).provide_with(connect).start().await
        }
        // As a program that nobody prepared for a check: it must not be executed instead.
        "unprepared" => Engine::open(folder.path().join("its-own.db")).workflow("order", order).start().await,
        "twice" => engine.workflow("order", order).workflow("order", order).start().await,
        _ => panic!("this program starts no engine"),
    };
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it does not open its own store");
    if version == "server" {
        std::thread::park(); // It never exits by itself.
    }
    started.unwrap();
}

/// Checks a version of the program.
async fn check(file: &Path, version: &str, words: &[&str]) -> Told {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(OUTLIVE);
    command.args(["check", file.to_str().unwrap()]).args(words).arg("--").arg(program);
    command.args(["--exact", "--nocapture", "checking::is_the_checked_program"]).env(VERSION, version);
    command.stdin(Stdio::null()).output().await.unwrap().into()
}

/// It opened its store and executed it, although somebody only wanted to know what it would do.
#[tokio::test]
async fn unprepared_program_executes_nothing_when_a_check_is_asked_for() {
    let shop = Shop::open().await;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", "checking::is_the_checked_program"]).env(VERSION, "unprepared");
    let output = command.env("OUTLIVE_CHECK", shop.file()).stdin(Stdio::null()).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("nothing was checked or executed"), "{said}");
}

/// The bytes of a store's files, read by another process: closing them here would free the locks of the engine.
async fn bytes(file: &Path) -> Vec<u8> {
    let all = [file.to_owned(), file.with_extension("db-wal"), file.with_extension("db.lock")];
    let read = Command::new("cat").args(all).output().await.unwrap();
    assert!(read.status.success(), "{read:?}");
    read.stdout
}

#[tokio::test]
async fn check_reports_code_changes_and_leaves_the_live_store_alone() {
    let shop = Shop::open().await;
    let run = shop.waiting_order("order-1").await;
    shop.failed_run("bad-1").await;
    let before = bytes(&shop.file()).await;
    let table = [
        ("same", 0, FINE),
        ("renamed", 1, "add `.was(\"charge card\")`"),
        ("set-up", 0, FINE),
        ("longer", 1, "cannot tell"),
        ("retyped", 1, "the value recorded for step \"charge card\" does not read as alloc::vec::Vec<u32>"),
    ];
    for (version, code, said) in table {
        let told = check(&shop.file(), version, &["--full"]).await;
        assert_eq!((told.code, told.err.as_str()), (Some(code), ""), "{version}: {}", told.out);
        assert!(told.out.contains(said), "{version}: {}", told.out);
    }
    assert_eq!(bytes(&shop.file()).await, before, "no byte was written");
    run.signal("approval", "ada").await.unwrap();
    assert_eq!(run.result().await.unwrap(), "a tent for 7, approved by ada");
}

#[tokio::test]
async fn check_prints_one_json_document() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let told = check(&shop.file(), "renamed", &["-o", "json"]).await;
    assert_eq!((told.code, told.err.as_str()), (Some(1), ""), "{}", told.out);
    let document: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&document["exit_code"], &document["counts"]["looks renamed"]), (&1.into(), &1.into()));
    assert_eq!((&document["runs"][0]["id"], &document["runs"][0]["verdict"]), (&"order-1".into(), &"renamed".into()));
    assert_eq!(document["runs"][0]["renames"][0]["was"], "charge card");
    assert_eq!(document["runs"][0]["version"], "2026-11-16");
    assert_eq!(document["versions"]["2026-11-16"]["looks renamed"], 1);
}

#[tokio::test]
async fn allowed_verdicts_pass_and_no_others() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let allowed = check(&shop.file(), "longer", &["--allow", "new-before-recorded"]).await;
    assert_eq!((allowed.code, allowed.err.as_str()), (Some(0), ""), "{}", allowed.out);
    assert!(allowed.out.contains("1 new steps"), "{}", allowed.out);
    // Nothing else is allowed.
    for version in ["retyped", "renamed"] {
        let told = check(&shop.file(), version, &["--allow", "new-before-recorded"]).await;
        assert_eq!(told.code, Some(1), "{version}: {}", told.out);
    }
    let told = check(&shop.file(), "renamed", &["--allow", "looks-renamed"]).await;
    assert_eq!(told.code, Some(0), "{}", told.out);
}

/// What broke: a misspelt flag in a script had the exit code for "some would be stuck".
#[tokio::test]
async fn usage_error_has_its_own_exit_code() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    for words in [&["--alow"][..], &["--allow", "everything"], &["--limit", "many"]] {
        let told = check(&shop.file(), "same", words).await;
        assert_eq!((told.code, told.out.as_str()), (Some(2), ""), "{words:?}: {}", told.err);
    }
    let told: Told = Command::new(OUTLIVE).arg("check").arg(shop.file()).output().await.unwrap().into();
    assert_eq!(told.code, Some(2), "without a program: {}", told.err);
    for version in ["renamed", "longer", "retyped"] {
        assert_eq!(check(&shop.file(), version, &[]).await.code, Some(1), "{version}");
    }
}

#[tokio::test]
async fn export_is_checked_like_its_store() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let folder = tempfile::tempdir().unwrap();
    let export = folder.path().join("orders.jsonl");
    shop.tell(&["export", "--out", export.to_str().unwrap()]).await.well();
    for (version, code) in [("same", 0), ("renamed", 1), ("retyped", 1)] {
        let (of_store, of_export) = (check(&shop.file(), version, &[]).await, check(&export, version, &[]).await);
        assert_eq!((of_export.code, &of_export.out), (Some(code), &of_store.out), "{version}: {}", of_export.err);
    }
}

#[tokio::test]
async fn program_that_keeps_running_is_killed_after_its_report() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    assert_eq!(check(&shop.file(), "server", &[]).await.well(), FINE);
}

#[tokio::test]
async fn failed_check_exits_with_code_3_and_says_why() {
    let shop = Shop::open().await;
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes.txt");
    std::fs::write(&notes, "milk, tea").unwrap();
    let table = [
        (shop.file(), "none", "it started no engine with `.check_from_env()`"),
        (shop.file(), "none", "this program starts no engine"),
        (shop.file(), "twice", "workflow \"order\" is registered twice"),
        (notes, "same", "line 1: this is neither a store nor an export"),
        (folder.path().join("nope.db"), "same", "no such store"),
    ];
    for (file, version, said) in table {
        let told = check(&file, version, &[]).await;
        assert_eq!((told.code, told.out.as_str()), (Some(3), ""), "{version}: {}", told.err);
        assert!(told.err.starts_with("error: ") && told.err.contains(said), "{version}: {}", told.err);
        assert_eq!(told.err.lines().count(), 1, "{}", told.err);
    }
    let mut command = Command::new(OUTLIVE);
    command.args(["check", shop.file().to_str().unwrap(), "--", "/no/such/program"]);
    let told: Told = command.output().await.unwrap().into();
    assert!(told.code == Some(3) && told.err.contains("cannot start program \"/no/such/program\""), "{}", told.err);
}
