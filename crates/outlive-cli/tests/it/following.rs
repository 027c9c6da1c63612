//! `show -f`: a live run until its end.

use std::time::Duration;

use crate::shop::Shop;

/// Approves an order once the follower has had time to see it wait.
async fn approve_soon(shop: &Shop, id: &str) {
    tokio::time::sleep(Duration::from_millis(400)).await;
    shop.engine.run::<String>(id).await.unwrap().signal("approval", "ada").await.unwrap();
}

#[tokio::test]
async fn following_prints_entries_as_they_come_and_ends_well_with_a_run_that_completes() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let (told, ()) = tokio::join!(shop.tell(&["show", "order-1", "-f"]), approve_soon(&shop, "order-1"));
    let out = told.well();
    assert!(out.contains("paused (wait)"), "it was seen waiting: {out}");
    assert_eq!(out.matches("signal taken").count(), 1, "{out}");
    assert_eq!(out.matches("operation").count(), 1, "one heading: {out}");
    assert!(out.ends_with("\ncompleted: \"a tent for 7, approved by ada\"\n"), "{out}");
}

#[tokio::test]
async fn following_gives_one_json_document_once_the_run_has_ended() {
    let shop = Shop::open().await;
    shop.waiting_order("order-1").await;
    let (shown, ()) = tokio::join!(shop.ask(&["show", "order-1", "-f"]), approve_soon(&shop, "order-1"));
    assert_eq!(shown["run"]["status"], "completed");
    assert_eq!(shown["journal"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn following_a_run_that_failed_gives_exit_code_1_and_shows_why() {
    let shop = Shop::open().await;
    shop.failed_run("bad-1").await;
    let told = shop.tell(&["show", "bad-1", "-f"]).await;
    assert_eq!((told.code, told.err.as_str()), (Some(1), ""));
    assert!(told.out.lines().last().unwrap().starts_with("failed: ") && told.out.contains("it burnt"), "{}", told.out);
    assert_eq!(shop.tell(&["show", "bad-1"]).await.code, Some(0), "only a follower is told by the exit code");
}
