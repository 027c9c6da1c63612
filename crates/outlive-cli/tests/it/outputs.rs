//! `value`, `stream` and `ask`, and what `ps` and `show` say about published values.

use outlive::Share;
use outlive::prelude::*;
use serde_json::{Value, json};

use crate::shop::{Shop, wait_for};

/// Publishes and appends, and answers questions until one is 0.
async fn till(ctx: Ctx, mut sum: i64) -> Result<i64> {
    ctx.publish("progress", &Share::count(3, 10)).await?;
    ctx.publish("state", "open\u{1b}[31m").await?;
    let say = |attempt: Attempt| async move {
        attempt.append("log", &format!("attempt {}", attempt.number)).await?;
        if attempt.number == 1 { Err("no".into()) } else { outlive::Ok(()) }
    };
    ctx.step("say", say).retry(Retry::times(1).constant("1 ms")).await?;
    loop {
        let (n, reply) = ctx.wait_ask::<i64, i64>("add").await?;
        sum += n;
        ctx.append("log", &sum).await?;
        reply.send(&sum).await?;
        if n == 0 {
            return Ok(sum);
        }
    }
}

async fn shop() -> Shop {
    let shop = Shop::with(|engine| engine.workflow("till", till)).await;
    let run = shop.engine.start(till, &5).id("t").await.unwrap();
    wait_for(&run, StatusKind::Waiting, |_| true).await;
    shop
}

#[tokio::test]
async fn value_prints_what_a_run_has_published() {
    let shop = shop().await;
    assert_eq!(shop.tell(&["value", "t", "progress"]).await.well(), "{\"done\":3,\"of\":10}\n");
    let all = shop.tell(&["value", "t"]).await.well();
    assert!(all.starts_with("progress = {") && all.contains("state = \"open") && !all.contains('\u{1b}'), "{all}");
    let document = shop.ask(&["value", "t", "progress"]).await;
    assert_eq!(document, json!({ "id": "t", "name": "progress", "value": { "done": 3, "of": 10 } }));
    assert_eq!(shop.ask(&["value", "t"]).await["values"]["progress"]["of"], 10);
    let error = shop.tell(&["value", "t", "weather"]).await.error();
    assert!(error.contains("has published no \"weather\"; so far it has published \"progress\", \"state\""), "{error}");
}

#[tokio::test]
async fn progress_shows_in_ps_and_show() {
    let shop = shop().await;
    let listed = shop.tell(&["ps"]).await.well();
    assert!(listed.contains("3 of 10 (30 %)"), "{listed}");
    assert_eq!(shop.ask(&["ps"]).await["runs"][0]["progress"], json!({ "done": 3, "of": 10 }));
    let shown = shop.tell(&["show", "t"]).await.well();
    assert!(shown.contains("progress = 3 of 10 (30 %)") && shown.contains("waiting (add)"), "{shown}");
    assert_eq!(shop.ask(&["show", "t"]).await["values"]["progress"]["done"], 3);
    shop.tell(&["ask", "t", "add", "0"]).await.well();
    shop.engine.get_run::<i64>("t").await.unwrap().result().await.unwrap();
    assert!(!shop.tell(&["ps"]).await.well().contains("30 %"), "a run that has ended is not under way");
}

#[tokio::test]
async fn ask_prints_the_answer() {
    let shop = shop().await;
    assert_eq!(shop.tell(&["ask", "t", "add", "3", "--dedup-key", "one"]).await.well(), "8\n");
    assert_eq!(shop.tell(&["ask", "t", "add", "3", "--dedup-key", "one"]).await.well(), "8\n");
    let document = shop.ask(&["ask", "t", "add", "-1", "--wait", "1 minute"]).await;
    assert_eq!(document, json!({ "id": "t", "question": "add", "answer": 7 }));
    let error = shop.tell(&["ask", "t", "add", "\"x\""]).await.error();
    assert!(error.contains("cannot read question \"add\""), "{error}");
    let error = shop.tell(&["ask", "t", "price", "1", "--wait", "10 ms"]).await.error();
    assert!(error.contains("was not handled within"), "{error}");
    assert!(shop.tell(&["ask", "t", "add", "three"]).await.error().contains("is not JSON"));
}

#[tokio::test]
async fn stream_prints_items_and_follows_them() {
    let shop = shop().await;
    shop.tell(&["ask", "t", "add", "1"]).await.well();
    let printed = shop.tell(&["stream", "t", "log"]).await.well();
    assert_eq!(printed, "\"attempt 1\"  (attempt 1 of say failed)\n\"attempt 2\"\n6\n");
    assert_eq!(shop.tell(&["stream", "t", "log", "--from", "2"]).await.well(), "6\n");
    assert_eq!(shop.tell(&["stream", "t", "nothing"]).await.well(), "");
    let (followed, _) = tokio::join!(shop.tell(&["stream", "t", "log", "--follow", "-o", "json"]), async {
        shop.tell(&["ask", "t", "add", "0"]).await.well()
    });
    let lines: Vec<Value> = followed.well().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!((&lines[3]["offset"], &lines[3]["value"], &lines[3]["attempt"]), (&json!(3), &json!(6), &json!(null)));
    assert_eq!((&lines[0]["failed"], &lines[0]["attempt"]["step"]), (&json!(true), &json!("say")));
}

#[tokio::test]
async fn exported_run_has_what_it_gave_out() {
    let shop = shop().await;
    let exported = shop.tell(&["export"]).await.well();
    let run: Value = serde_json::from_str(exported.lines().nth(1).unwrap()).unwrap();
    let outputs = run["outputs"].as_array().unwrap();
    assert_eq!((outputs.len(), &outputs[0]["name"], &outputs[2]["failed"]), (6, &json!("progress"), &json!(true)));
}
