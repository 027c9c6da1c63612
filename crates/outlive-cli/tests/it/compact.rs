//! `compact` gives space back, and leaves a file alone that a program executes.

use outlive::prelude::*;
use serde_json::json;

use crate::shop::{Shop, tell};

async fn measure(_: Ctx, text: String) -> Result<usize> {
    Ok(text.len())
}

#[tokio::test]
async fn compact_gives_the_space_of_removed_runs_back() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("large.db");
    let engine = Engine::open(&path).workflow("measure", measure).start().await.unwrap();
    let text = "long ".repeat(10_000);
    for n in 0..40 {
        engine.start(measure, &text).id(&format!("m{n}")).await.unwrap().result().await.unwrap();
    }
    for n in 1..40 {
        engine.get_run::<usize>(&format!("m{n}")).await.unwrap().purge().await.unwrap();
    }
    engine.shutdown().await.unwrap();
    drop(engine);
    let file = path.to_str().unwrap();
    let out = tell(&["compact", file, "-o", "json"]).await.well();
    let sizes: serde_json::Value = serde_json::from_str(&out).unwrap();
    let (before, after) = (sizes["bytes_before"].as_u64().unwrap(), sizes["bytes_after"].as_u64().unwrap());
    assert!(before > 40 * 50_000 && after < before / 4, "{sizes}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), after);
    let out = tell(&["compact", file]).await.well();
    assert!(out.contains("given back"), "{out}");
    let out = tell(&["doctor", file]).await.well();
    assert!(out.starts_with("sound: 1 run, "), "{out}");
}

#[tokio::test]
async fn compact_refuses_a_file_that_a_program_executes() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let error = shop.tell(&["compact"]).await.error();
    assert!(error.contains(&std::process::id().to_string()), "{error}");
    assert_eq!(shop.ask(&["ps"]).await["runs"][0]["id"], json!("order-1"));
}

#[tokio::test]
async fn compact_refuses_what_is_not_a_store() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("missing.db");
    let error = tell(&["compact", path.to_str().unwrap()]).await.error();
    assert!(error.contains("does not exist") && !path.exists(), "{error}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}
