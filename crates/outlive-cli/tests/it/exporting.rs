//! `export` on the file of a running program.

use serde_json::Value;

use crate::shop::{Shop, tell};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn an_export_has_a_header_a_line_per_run_and_an_end() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    shop.failed_run("bad-1").await;
    let unfinished = lines(&shop.tell(&["export"]).await.well());
    assert_eq!((&unfinished[0]["format"], &unfinished[0]["version"]), (&"outlive-export".into(), &1.into()));
    assert!(unfinished[0]["source"].as_str().unwrap().ends_with("shop.db"));
    assert_eq!((unfinished.len(), &unfinished[2]["end"]), (3, &1.into()));
    let run = &unfinished[1];
    assert_eq!((&run["id"], &run["status"], &run["pause"]), (&"order-1".into(), &"paused".into(), &"wait".into()));
    assert_eq!(run["journal"].as_array().unwrap().len(), 2);
    assert_eq!((&run["journal"][1]["kind"], &run["journal"][1]["payload"]), (&"step done".into(), &7.into()));
}

#[tokio::test]
async fn an_export_keeps_to_its_filters() {
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
        let lines = lines(&shop.tell(words).await.well());
        let ids: Vec<&str> = lines[1..lines.len() - 1].iter().map(|run| run["id"].as_str().unwrap()).collect();
        assert_eq!(ids, expected, "{words:?}");
    }
}

#[tokio::test]
async fn an_export_to_a_file_is_there_as_a_whole_or_not_at_all() {
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
    assert_eq!(body(&again), body(&export), "an export of an export says the same");

    std::fs::write(
        &export,
        "{\"format\":\"outlive-export\",\"version\":1,\"source\":\"\",\"at\":0,\"runs\":1}\n{\"id\"",
    )
    .unwrap();
    let error = tell(&["export", name, "--out", again.to_str().unwrap()]).await.error();
    assert!(error.contains("line 2: the export ends here"), "{error}");
    assert_eq!(lines(&std::fs::read_to_string(&again).unwrap()).len(), 3, "what was there stays");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left beside");
}

#[tokio::test]
async fn an_export_does_not_take_the_place_of_its_store() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let file = shop.file();
    let error = shop.tell(&["export", "--out", file.to_str().unwrap()]).await.error();
    assert!(error.contains("is the store itself"), "{error}");
    assert_eq!(shop.ask(&["ps"]).await["counts"]["total"], 1);
}
