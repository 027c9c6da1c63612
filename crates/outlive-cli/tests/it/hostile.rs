//! Ids and payloads crafted to mislead a reader on a terminal.

use outlive::job::{Task, TaskCtx};
use outlive::prelude::*;
use serde_json::{Value, json};

use crate::shop::{Shop, tell};

const ORDERS: Task<Value, Value> = Task::new("orders");

async fn keep(ctx: TaskCtx<Value, Value>, event: Value) -> Result<()> {
    ctx.set_state(event);
    Ok(())
}

async fn nothing(_: TaskCtx<Value, Value>) -> Result<()> {
    Ok(())
}

/// A bidi override reverses `fdp.exe`; C1 controls set colours and clear the screen without an escape character.
const ID: &str = "order\u{202e}fdp.exe\u{2066}";
const VALUE: &str = "\u{9b}31m\u{9b}2J\u{202e}\u{7f}\u{200f}\u{2028}";

fn is_hostile(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What broke: only tables escaped their content, and only control characters; JSON passed C1 and overrides through.
#[tokio::test]
async fn hostile_ids_and_payloads_never_reach_the_terminal_unescaped() {
    let shop = Shop::with(|engine| engine.job(ORDERS.on_event(keep).execute(nothing))).await;
    let instance = format!("task:orders:{ID}");
    let value = json!(VALUE).to_string();
    let commands: [&[&str]; 20] = [
        &["start", "order", &value, "--id", ID, "--tag", &format!("k={VALUE}")],
        &["signal", ID, VALUE.trim_matches(char::is_control), &value],
        &["signal", ID, "note", &value, "--dedup-key", ID],
        &["ps"],
        &["ps", "--full"],
        &["show", ID],
        &["show", ID, "--full"],
        &["tree", ID],
        &["tree", ID, "--full"],
        &["send", &instance, &value],
        &["jobs"],
        &["jobs", "task:orders"],
        &["job", &instance],
        &["events"],
        &["events", "--full"],
        &["cancel", ID, "--reason", VALUE],
        &["show", ID, "-f"],
        &["purge", ID],
        &["show", ID],
        &["terminate", &instance],
    ];
    for words in commands {
        for format in ["table", "json"] {
            let mut words = words.to_vec();
            words.extend(["-o", format]);
            let told = shop.tell(&words).await;
            assert!(told.out.len() + told.err.len() > 0, "{words:?}");
            for text in [&told.out, &told.err] {
                let found = text.chars().find(|c| is_hostile(*c));
                assert_eq!(found, None, "{words:?}: {text:?}");
            }
        }
    }
    let error = tell(&["ps", &format!("{ID}.db")]).await.error();
    assert!(!error.trim_end().chars().any(is_hostile), "{error:?}");
}

#[tokio::test]
async fn escaped_json_decodes_to_the_stored_value() {
    let shop = Shop::open().await;
    let value = json!(VALUE);
    shop.tell(&["start", "order", &value.to_string(), "--id", ID, "--tag", &format!("k={VALUE}")]).await.well();
    let listing = shop.ask(&["ps"]).await;
    let run = &listing["runs"][0];
    assert_eq!((&run["id"], &run["input"], &run["tags"]["k"]), (&json!(ID), &value, &value));
    assert_eq!(shop.ask(&["show", ID]).await["run"]["input"], value);
}
