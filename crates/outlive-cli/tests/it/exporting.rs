//! `export` on the file of a running program.

use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::Value;

use crate::shop::{OUTLIVE, Shop, Told, tell};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn export_has_a_header_a_line_per_run_and_a_last_line() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    shop.failed_run("bad-1").await;
    let told = shop.tell(&["export"]).await;
    assert_eq!(told.err, "note: left out: 1 ended run (--all includes them)\n");
    let unfinished = lines(&told.out);
    assert_eq!((&unfinished[0]["format"], &unfinished[0]["version"]), (&"outlive-export".into(), &1.into()));
    assert!(unfinished[0]["source"].as_str().unwrap().ends_with("shop.db"));
    assert_eq!((unfinished.len(), &unfinished[2]["end"]), (3, &1.into()));
    let run = &unfinished[1];
    assert_eq!((&run["id"], &run["status"]), (&"order-1".into(), &"waiting".into()));
    assert_eq!(run["journal"].as_array().unwrap().len(), 2);
    assert_eq!((&run["journal"][1]["kind"], &run["journal"][1]["payload"]), (&"step done".into(), &7.into()));
}

#[tokio::test]
async fn export_applies_its_filters() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    shop.failed_run("bad-1").await;
    shop.engine.start_json("nap", "null").id("nap-1").tag("city", "rome").await.unwrap();
    let table: [(&[&str], &[&str]); 5] = [
        (&["export", "--all"], &["nap-1", "bad-1", "order-1"]),
        (&["export", "--status", "failed"], &["bad-1"]),
        (&["export", "--workflow", "nap"], &["nap-1"]),
        (&["export", "--all", "--prefix", "bad"], &["bad-1"]),
        (&["export", "--tag", "city=rome"], &["nap-1"]),
    ];
    for (words, expected) in table {
        let told = shop.tell(words).await;
        assert_eq!(told.code, Some(0), "{}", told.err);
        let lines = lines(&told.out);
        let ids: Vec<&str> = lines[1..lines.len() - 1].iter().map(|run| run["id"].as_str().unwrap()).collect();
        assert_eq!(ids, expected, "{words:?}");
    }
}

#[tokio::test]
async fn export_to_a_file_is_all_or_nothing() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let folder = tempfile::tempdir().unwrap();
    let export = folder.path().join("orders.jsonl");
    let name = export.to_str().unwrap();
    let out = shop.tell(&["export", "--out", name]).await.well();
    assert_eq!(out, format!("1 run written to {name}\n"));
    assert_eq!(lines(&std::fs::read_to_string(&export).unwrap()).len(), 3);
    let document = shop.ask(&["export", "--out", name]).await;
    assert_eq!((&document["runs"], &document["out"]), (&1.into(), &name.into()));
    let again = folder.path().join("again.jsonl");
    tell(&["export", name, "--out", again.to_str().unwrap()]).await.well();
    let body = |file| lines(&std::fs::read_to_string(file).unwrap())[1..].to_vec();
    assert_eq!(body(&again), body(&export), "an export of an export is the same");

    std::fs::write(
        &export,
        "{\"format\":\"outlive-export\",\"version\":1,\"source\":\"\",\"at\":0,\"runs\":1}\n{\"id\"",
    )
    .unwrap();
    let error = tell(&["export", name, "--out", again.to_str().unwrap()]).await.error();
    assert!(error.contains("line 2: the export ends without its last line"), "{error}");
    assert_eq!(lines(&std::fs::read_to_string(&again).unwrap()).len(), 3, "the previous file is kept");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left behind");
}

#[tokio::test]
async fn export_does_not_overwrite_its_store() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let file = shop.file();
    let error = shop.tell(&["export", "--out", file.to_str().unwrap()]).await.error();
    assert!(error.contains("is the store itself"), "{error}");
    assert_eq!(shop.ask(&["ps"]).await["counts"]["total"], 1);
}

/// What broke: whatever was at the output path was replaced by a regular file. As root, that would have replaced
/// `/dev/null`.
#[tokio::test]
async fn export_writes_to_a_device_or_pipe_without_replacing_it() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let folder = tempfile::tempdir().unwrap();
    // A link to the device, so that a bug would replace the link and not the device.
    let null = folder.path().join("null");
    symlink("/dev/null", &null).unwrap();
    shop.tell(&["export", "--out", null.to_str().unwrap()]).await.well();
    assert_eq!(std::fs::read_link(&null).unwrap(), Path::new("/dev/null"));

    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).unwrap()
    });
    let out = shop.tell(&["export", "--out", pipe.to_str().unwrap()]).await.well();
    assert!(out.starts_with("1 run written to"), "{out}");
    assert!(std::fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    assert_eq!(lines(&reader.join().unwrap()).len(), 3);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left behind");
}

#[tokio::test]
async fn export_follows_symlinks_and_keeps_the_file_mode() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let (links, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (there, not_there) = (files.path().join("there.jsonl"), files.path().join("not-there.jsonl"));
    std::fs::write(&there, "old").unwrap();
    std::fs::set_permissions(&there, std::fs::Permissions::from_mode(0o640)).unwrap();
    for (link, file) in [("a", &there), ("b", &not_there)] {
        let link = links.path().join(link);
        symlink(file, &link).unwrap();
        shop.tell(&["export", "--out", link.to_str().unwrap()]).await.well();
        assert_eq!(std::fs::read_link(&link).unwrap(), *file);
        assert_eq!(lines(&std::fs::read_to_string(file).unwrap()).len(), 3);
    }
    assert_eq!(std::fs::metadata(&there).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(std::fs::read_dir(links.path()).unwrap().count(), 2, "nothing else is left behind");
}

#[tokio::test]
async fn export_does_not_overwrite_files_the_store_needs() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link");
    symlink(shop.file(), &link).unwrap();
    let error = shop.tell(&["export", "--out", link.to_str().unwrap()]).await.error();
    assert!(error.contains("is the store itself"), "{error}");
    for suffix in ["-wal", "-shm", ".lock"] {
        let name = format!("{}{suffix}", shop.file().display());
        let error = shop.tell(&["export", "--out", &name]).await.error();
        assert!(error.contains("a file that the store keeps"), "{error}");
    }
    assert_eq!(shop.ask(&["ps"]).await["counts"]["total"], 1);

    // A file that does not exist yet, by bare name: the next program would take it for its journal.
    let folder = shop.file().parent().unwrap().to_owned();
    let name = "shop.db-journal";
    let mut command = tokio::process::Command::new(OUTLIVE);
    command.args(["export", "shop.db", "--out", name]).current_dir(&folder);
    let error = Told::from(command.output().await.unwrap()).error();
    assert!(error.contains("a file that the store keeps") && !folder.join(name).exists(), "{error}");
}

/// What broke: an export reported how many runs it has, but not that others were left out.
#[tokio::test]
async fn export_reports_what_it_left_out() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    shop.failed_run("bad-1").await;
    shop.failed_run("bad-2").await;
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("orders.jsonl");
    let name = name.to_str().unwrap();
    let out = shop.tell(&["export", "--out", name]).await.well();
    let left_out = "; left out: 2 ended runs (--all includes them)";
    assert_eq!(out, format!("1 run written to {name}{left_out}\n"));
    let document = shop.ask(&["export", "--out", name]).await;
    assert_eq!(document["left_out"], serde_json::json!({ "ended": 2, "jobs": 0 }));
    for words in [&["--all"][..], &["--status", "waiting"], &["--workflow", "order"]] {
        let mut all = vec!["export", "--out", name];
        all.extend(words);
        let out = shop.tell(&all).await.well();
        assert!(out.ends_with(&format!("written to {name}\n")), "{words:?}: {out}");
    }
}
