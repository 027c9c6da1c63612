//! Job behaviour specific to this store: token expiry, damage and lost replies.

use std::sync::Arc;

use outlive_core::queue::{ResolveDeadLetters, WhichDeadLetters};
use outlive_core::store::Store;
use outlive_core::store::commit::{Answer, Write};
use outlive_core::store::query::{FeedContent, Query};

use crate::doctor_of_jobs::{POOL, TASK, event, push, pushed, with_jobs};
use crate::lost_answer::write_unknown;
use crate::support::{Place, at, commit, driven, name, write};

/// Tokens this many positions old may be dropped.
const FAR: i64 = (1 << 20) + 1;

fn advance_positions(place: &Place) {
    place.sql().execute("UPDATE meta SET value = value + ?1 WHERE key = 'pos'", [FAR]).unwrap();
}

#[tokio::test]
async fn push_tokens_are_dropped_only_when_old() {
    let place = Place::new();
    let store = place.open();
    let pushes = [1, 2, 3].map(|token| push(TASK, vec![event("x")], token));
    let first = pushed(&store, pushes[0].clone()).await;
    advance_positions(&place);
    let second = pushed(&store, pushes[1].clone()).await;
    assert_eq!(pushed(&store, pushes[0].clone()).await, first, "its token is in the younger half");
    advance_positions(&place);
    pushed(&store, pushes[2].clone()).await;
    assert_eq!(pushed(&store, pushes[1].clone()).await, second);
    let tokens = "SELECT count(*) FROM (SELECT token FROM pushed_a UNION ALL SELECT token FROM pushed_b)";
    assert_eq!(place.number(tokens), 2);
    assert_ne!(pushed(&store, pushes[0].clone()).await, first, "its token was dropped");
}

#[tokio::test]
async fn tokens_of_empty_pushes_age_too() {
    let place = Place::new();
    let store = place.open();
    pushed(&store, push(TASK, vec![], 1)).await;
    let before = place.number("SELECT value FROM meta WHERE key = 'pos'");
    pushed(&store, push(TASK, vec![], 2)).await;
    assert!(place.number("SELECT value FROM meta WHERE key = 'pos'") > before);
}

#[tokio::test]
async fn dead_letter_retry_with_a_lost_reply_happens_once() {
    for is_durable in [false, true] {
        let place = with_jobs().await;
        let store = place.open();
        let pos = place.number("SELECT pos FROM dead").cast_unsigned();
        let bury = ResolveDeadLetters {
            job: name("pool:mail"),
            which: WhichDeadLetters::One(pos),
            is_retry: true,
            at: at(90),
        };
        let batch = Arc::new(vec![Write::ResolveDeadLetters(bury.clone())]);
        write_unknown(&place, &store, &batch).await;
        if is_durable {
            write(&place.open(), Write::ResolveDeadLetters(bury.clone())).await;
        }
        let answers = store.write(batch).await.unwrap();
        assert!(matches!(answers[..], [Answer::DeadLettersResolved { count: 1, .. }]), "{answers:?}");
        assert_eq!(place.number("SELECT count(*) FROM inbox WHERE rank > 0"), 4);
        let again = write(&store, Write::ResolveDeadLetters(bury)).await;
        assert!(matches!(again, Answer::Refused(_)), "{again:?}");
    }
}

#[tokio::test]
async fn unreadable_feed_item_hides_no_other() {
    let place = Place::new();
    let store = place.open();
    let epoch = store.lease(at(0)).await.unwrap();
    let (a, b) = (driven(&store, "a", epoch).await, driven(&store, "b", epoch).await);
    for seq in 0..3 {
        write(&store, Write::Commit(commit(a, epoch, seq))).await;
    }
    driven(&store, "c", epoch).await;
    driven(&store, "d", epoch).await;
    for seq in 0..3 {
        write(&store, Write::Commit(commit(b, epoch, seq))).await;
    }
    place.sql().execute_batch("UPDATE entry SET payload = '2' WHERE instance = 1").unwrap();
    for limit in 1..8 {
        let (mut after, mut read) = (0, Vec::new());
        while let Some(last) = {
            let page = store.feed(after, limit).await.unwrap();
            read.extend(page.iter().map(|item| (item.id.to_string(), matches!(item.content, FeedContent::Entry(_)))));
            page.last().map(|item| item.pos)
        } {
            after = last;
        }
        let said: Vec<_> = read.iter().map(|(id, is_entry)| (id.as_str(), *is_entry)).collect();
        let lifecycle = ["a", "b", "c", "d"].map(|id| (id, false));
        assert_eq!(said, [&lifecycle[..], &[("b", true); 3]].concat(), "pages of {limit}");
    }
}

#[tokio::test]
async fn queue_reads_use_the_primary_key() {
    let place = with_jobs().await;
    let connection = place.sql();
    let plan = |sql: &str| -> String {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let lines: Vec<String> = statement.query_map([], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
        lines.join("; ")
    };
    for sql in [
        "SELECT pos FROM inbox WHERE instance = 1 AND rank = 2 AND lane = 'x' AND pos > 3 ORDER BY pos LIMIT 4",
        "SELECT pos FROM inbox WHERE instance = 1 AND rank = 2 AND lane <= 'x' AND pos > 0 ORDER BY lane, pos LIMIT 4",
        "SELECT rank FROM inbox WHERE instance = 1 AND rank > 2 AND rank < 9 ORDER BY rank LIMIT 1",
        "SELECT lane FROM inbox WHERE instance = 1 AND rank = 2 AND lane > 'x' ORDER BY lane LIMIT 1",
    ] {
        let plan = plan(sql);
        assert!(plan.contains("SEARCH inbox USING PRIMARY KEY") && !plan.contains("TEMP"), "{sql}: {plan}");
    }
    assert_eq!(place.number(&format!("SELECT count(*) FROM instance WHERE id = '{POOL}'")), 1);
}
