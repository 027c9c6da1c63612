//! `tree`, and what `ps` and `show` say about parents and children.

use outlive::IgnoredAny;
use outlive::prelude::*;
use serde_json::{Value, json};

use crate::shop::Shop;

async fn label(_: Ctx, parcel: u32) -> Result<u32> {
    Ok(parcel * 10)
}

/// Prints a label, and fails or waits.
async fn ship(ctx: Ctx, parcel: u32) -> Result<u32> {
    let label = ctx.run(label, &parcel).await?;
    match parcel {
        2 => Err("no stock".into()),
        3 => {
            ctx.wait::<IgnoredAny>("go").await?;
            Ok(label)
        }
        _ => Ok(label),
    }
}

/// Ships three parcels one after the other, and leaves a reminder behind.
async fn purchase(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.signal("nobody", "hello", &1).await.unwrap_err();
    ctx.spawn(reminder, &()).id("reminder").detach().await?;
    for parcel in 1..=2 {
        let _ = ctx.run(ship, &parcel).key(parcel).await;
    }
    Ok(ctx.run(ship, &3).key(3).await?)
}

async fn gift(ctx: Ctx, _: ()) -> Result<u32> {
    Ok(ctx.run(ship, &1).await?)
}

async fn reminder(ctx: Ctx, _: ()) -> Result<()> {
    Ok(ctx.sleep("1 day").await?)
}

async fn many(ctx: Ctx, parcels: u32) -> Result<()> {
    ctx.map(0..parcels, |n| *n, |ctx, n| async move { ctx.run(label, &n).await }).concurrency(50).await?;
    Ok(())
}

async fn shop() -> Shop {
    Shop::with(|engine| {
        engine
            .workflow("purchase", purchase)
            .workflow("gift", gift)
            .workflow("ship", ship)
            .workflow("label", label)
            .workflow("reminder", reminder)
            .workflow("many", many)
    })
    .await
}

/// Returns a shop with a purchase that waits for its third parcel.
async fn waiting_purchase() -> Shop {
    let shop = shop().await;
    let run = shop.engine.start(purchase, &()).id("p").await.unwrap();
    while run.progress().await.unwrap().to_string() != "waiting (child p/ship[3])" {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let third = shop.engine.get_run::<u32>("p/ship[3]").await.unwrap();
    while third.progress().await.unwrap().to_string() != "waiting (go)" {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    shop
}

#[tokio::test]
async fn tree_shows_children_to_any_depth() {
    let shop = waiting_purchase().await;
    let out = shop.tell(&["tree", "p"]).await.well();
    let lines = out.lines().collect::<Vec<_>>();
    let starts = [
        "run ",
        "p ",
        "├── p/ship[3] ",
        "│   └── p/ship[3]/label ",
        "├── p/ship[2] ",
        "│   └── p/ship[2]/label ",
        "├── p/ship[1] ",
        "│   └── p/ship[1]/label ",
        "└── reminder (detached) ",
    ];
    assert_eq!(lines.len(), starts.len(), "{out}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{start:?} in {out}");
    }
    assert!(lines[1].contains("purchase  waiting (child p/ship[3])"), "{out}");
    assert!(lines[4].contains("failed") && lines[4].contains("no stock"), "{out}");
    assert!(lines[7].contains("label     completed"), "{out}");
}

#[tokio::test]
async fn lines_of_a_tree_end_with_the_last_child() {
    let shop = shop().await;
    shop.engine.start(gift, &()).id("g").await.unwrap().result().await.unwrap();
    let out = shop.tell(&["tree", "g"]).await.well();
    let lines: Vec<&str> = out.lines().skip(1).collect();
    assert!(lines[1].starts_with("└── g/ship ") && lines[2].starts_with("    └── g/ship/label "), "{out}");
}

#[tokio::test]
async fn tree_begins_with_the_ancestors() {
    let shop = waiting_purchase().await;
    let out = shop.tell(&["tree", "p/ship[2]/label"]).await.well();
    assert!(out.starts_with("child of p › p/ship[2]\n\n"), "{out}");
    assert!(out.lines().last().unwrap().starts_with("p/ship[2]/label  label     completed"), "{out}");
    shop.engine.get_run::<u32>("p/ship[2]").await.unwrap().purge().await.unwrap();
    assert_eq!(shop.ask(&["tree", "p/ship[2]/label"]).await["ancestors"], json!(["p/ship[2]"]));
    let out = shop.tell(&["tree", "p/ship[2]/label"]).await.well();
    assert!(out.starts_with("child of (purged) p/ship[2]\n"), "{out}");
}

#[tokio::test]
async fn tree_as_json_is_nested() {
    let shop = waiting_purchase().await;
    let tree = shop.ask(&["tree", "p"]).await;
    assert_eq!((&tree["ancestors"], &tree["left_out"]), (&json!([]), &json!(0)));
    assert_eq!((&tree["run"]["id"], &tree["run"]["parent"]), (&json!("p"), &json!(null)));
    let children = tree["children"].as_array().unwrap();
    let ids: Vec<&Value> = children.iter().map(|child| &child["run"]["id"]).collect();
    assert_eq!(ids, ["p/ship[3]", "p/ship[2]", "p/ship[1]", "reminder"]);
    assert_eq!((&children[3]["run"]["parent"], &children[3]["run"]["detached"]), (&json!("p"), &json!(true)));
    assert_eq!(children[1]["children"][0]["run"]["output"], 20);
    assert_eq!(children[1]["children"][0]["children"], json!([]));
    assert_eq!(shop.ask(&["tree", "p/ship[2]/label"]).await["ancestors"], json!(["p", "p/ship[2]"]));
}

#[tokio::test]
async fn tree_says_how_many_children_it_leaves_out() {
    let shop = shop().await;
    shop.engine.start(many, &230).id("m").await.unwrap().result().await.unwrap();
    let out = shop.tell(&["tree", "m"]).await.well();
    assert_eq!(out.matches("├── ").count(), 20, "{out}");
    assert!(out.contains("└── 210 more, not shown (of all: 230 completed)"), "{out}");
    assert!(
        out.trim_end().ends_with("use --all to show all children, or `outlive ps FILE --parent ID` to filter them")
    );
    for (limit, shown) in [("0", 0), ("1", 1), ("229", 229), ("230", 230)] {
        let tree = shop.ask(&["tree", "m", "--limit", limit]).await;
        let (children, left_out) = (tree["children"].as_array().unwrap().len(), tree["left_out"].as_u64().unwrap());
        assert_eq!((children, left_out), (shown, 230 - shown as u64), "--limit {limit}");
    }
    let all = shop.tell(&["tree", "m", "--all"]).await.well();
    assert_eq!((all.matches("── m/").count(), all.matches("└── ").count()), (230, 1));
    assert!(!all.contains("--all"), "{all}");
}

#[tokio::test]
async fn tree_fits_the_given_width() {
    let shop = waiting_purchase().await;
    let mut command = tokio::process::Command::new(crate::shop::OUTLIVE);
    command.arg("tree").arg(shop.file()).arg("p").env("COLUMNS", "80");
    let told: crate::shop::Told = command.output().await.unwrap().into();
    let out = told.well();
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    assert!(out.contains("│   └── p/ship[3]/label"), "{out}");
}

#[tokio::test]
async fn ps_lists_the_children_of_a_run() {
    let shop = waiting_purchase().await;
    let ids = async |words: &[&str]| -> Vec<String> {
        let listing = shop.ask(words).await;
        let runs = listing["runs"].as_array().unwrap().iter();
        runs.map(|run| run["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&["ps", "--parent", "p"]).await, ["p/ship[3]", "p/ship[2]", "p/ship[1]", "reminder"]);
    assert_eq!(ids(&["ps", "--parent", "p", "--status", "failed"]).await, ["p/ship[2]"]);
    assert_eq!(ids(&["ps", "--parent", "p", "--workflow", "reminder"]).await, ["reminder"]);
    let out = shop.tell(&["ps", "--parent", "p", "--limit", "1"]).await.well();
    assert!(out.contains("4 runs: 1 sleeping, 1 waiting, 1 completed, 1 failed; showing the newest 1"), "{out}");
    let out = shop.tell(&["ps", "--prefix", "p", "--workflow", "purchase"]).await.well();
    assert!(out.contains("waiting (child p/ship[3])"), "{out}");
    assert!(shop.tell(&["ps", "--parent", "nobody"]).await.error().contains("\"nobody\""));
}

#[tokio::test]
async fn show_names_the_parent_and_counts_the_children() {
    let shop = waiting_purchase().await;
    let out = shop.tell(&["show", "p"]).await.well();
    assert!(out.contains("children  4: 1 sleeping, 1 waiting, 1 completed, 1 failed"), "{out}");
    assert!(out.contains("status    waiting (child p/ship[3])") && !out.contains("parent"), "{out}");
    let out = shop.tell(&["show", "reminder"]).await.well();
    assert!(out.contains("parent    p (detached)") && !out.contains("children"), "{out}");
    let shown = shop.ask(&["show", "p/ship[2]"]).await;
    assert_eq!((&shown["run"]["parent"], &shown["run"]["detached"]), (&json!("p"), &json!(false)));
    assert_eq!((&shown["children"]["completed"], &shown["children"]["total"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn journal_says_where_effects_went_and_how_children_ended() {
    let shop = waiting_purchase().await;
    let out = shop.tell(&["show", "p", "--full"]).await.well();
    for text in [
        "not to nobody: not found",
        "child started",
        "to reminder (detached)",
        "to p/ship[1]",
        "completed: 10",
        "failed: no stock",
    ] {
        assert!(out.contains(text), "no {text:?} in {out}");
    }
    assert!(out.lines().filter(|line| line.contains("child ended")).all(|line| !line.contains("1970")), "{out}");
    let journal = shop.ask(&["show", "p"]).await["journal"].clone();
    let entry = |seq: usize| &journal[seq - 1];
    assert_eq!((&entry(1)["kind"], &entry(1)["to"]), (&json!("send_refused"), &json!("nobody")));
    assert_eq!(entry(1)["reason"], "not found");
    assert_eq!((&entry(2)["to"], &entry(2)["detached"]), (&json!("reminder"), &json!(true)));
    assert_eq!((&entry(4)["kind"], &entry(4)["value"]), (&json!("child_ended"), &json!(10)));
    assert_eq!((&entry(4)["ended_by"], &entry(4)["due_at"]), (&json!("completed"), &json!(null)));
    assert_eq!((&entry(6)["ended_by"], &entry(6)["failure"]["message"]), (&json!("failed"), &json!("no stock")));
}
