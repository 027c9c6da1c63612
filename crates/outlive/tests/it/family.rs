//! Parents and children as seen from outside: lists, handles, progress and exports.

use outlive::export::{self, Reader};
use outlive::prelude::*;
use outlive::{Branch, IgnoredAny};
use outlive_testkit::TestEngine;

async fn ship(ctx: Ctx, parcel: u32) -> Result<u32> {
    ctx.wait::<IgnoredAny>("go").await?;
    if parcel == 2 { Err("no stock".into()) } else { Ok(parcel) }
}

async fn order(ctx: Ctx, parcels: u32) -> Result<usize> {
    let all = ctx.map(1..=parcels, |n| *n, |ctx, n| async move { Ok::<_, Error>(ctx.run(ship, &n).await.is_ok()) });
    Ok(all.await?.into_iter().filter(|is_shipped| *is_shipped).count())
}

async fn single(ctx: Ctx, _: ()) -> Result<u32> {
    Ok(ctx.run(ship, &1).await?)
}

async fn racing(ctx: Ctx, _: ()) -> Result<u32> {
    tokio::select! {
        biased;
        parcel = ctx.run(ship, &1) => Ok(parcel?),
        _ = ctx.sleep("1 day") => Ok(0),
    }
}

async fn letting_go(ctx: Ctx, _: ()) -> Result<()> {
    ctx.spawn(ship, &1).id("loose").detach().await?;
    Ok(())
}

async fn kit() -> TestEngine {
    TestEngine::new(|engine| {
        engine
            .workflow("order", order)
            .workflow("ship", ship)
            .workflow("single", single)
            .workflow("racing", racing)
            .workflow("letting go", letting_go)
    })
    .await
}

fn child(id: &str) -> Branch {
    Branch::Child { id: id.into() }
}

#[tokio::test]
async fn children_are_listed_filtered_and_counted_page_by_page() {
    let test = kit().await;
    let run = test.start(order, &120).id("o").await.unwrap();
    test.start(single, &()).id("other").await.unwrap();
    test.settle().await;
    for n in 1..=3 {
        test.client().get_run::<u32>(&format!("o/{n}/ship")).await.unwrap().signal("go", &()).await.unwrap();
    }
    test.settle().await;
    let first = run.children().await.unwrap();
    assert_eq!((first.runs.len(), first.runs[0].parent.as_deref()), (100, Some("o")));
    let rest = run.children().after(first.next).await.unwrap();
    assert_eq!((rest.runs.len(), rest.next), (20, None));
    let failed = run.children().filter(Filter::runs().status(StatusKind::Failed)).await.unwrap();
    assert_eq!(failed.runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["o/2/ship"]);
    let counts = run.children().count().await.unwrap();
    let by_status = [StatusKind::Waiting, StatusKind::Completed, StatusKind::Failed].map(|kind| counts.of(kind));
    assert_eq!((by_status, counts.total()), ([117, 2, 1], 120));
}

#[tokio::test]
async fn children_of_a_purged_run_are_not_found_through_it() {
    let test = kit().await;
    let run = test.start(letting_go, &()).await.unwrap();
    test.result(&run).await.unwrap();
    run.purge().await.unwrap();
    assert!(run.children().await.unwrap_err().is_not_found());
    assert!(run.children().count().await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn parent_is_found_until_it_is_purged_even_if_its_id_is_used_again() {
    let test = kit().await;
    let run = test.start(letting_go, &()).id("p").await.unwrap();
    test.result(&run).await.unwrap();
    let loose = test.client().get_run::<u32>("loose").await.unwrap();
    let info = loose.info().await.unwrap();
    assert_eq!((info.parent.as_deref(), info.is_detached), (Some("p"), true));
    assert_eq!(loose.parent::<()>().await.unwrap().unwrap().id(), "p");
    assert!(run.parent::<()>().await.unwrap().is_none());
    run.purge().await.unwrap();
    test.start(single, &()).id("p").await.unwrap();
    assert!(loose.parent::<()>().await.unwrap().is_none(), "another run has the id now");
    assert_eq!(loose.info().await.unwrap().parent.as_deref(), Some("p"));
}

#[tokio::test]
async fn progress_names_the_child_that_a_run_waits_for() {
    let test = kit().await;
    let run = test.start(single, &()).id("o").await.unwrap();
    test.settle().await;
    let progress = run.progress().await.unwrap();
    assert_eq!(progress.branches, [child("o/ship")]);
    assert_eq!(progress.to_string(), "waiting (child o/ship)");
    assert_eq!(run.info().await.unwrap().status_text(progress.at), "waiting (child o/ship)");
}

#[tokio::test]
async fn progress_lists_a_child_next_to_other_branches() {
    let test = kit().await;
    let run = test.start(racing, &()).id("o").await.unwrap();
    test.settle().await;
    let branches = run.progress().await.unwrap().branches;
    assert!(matches!(&branches[..], [Branch::Sleep { .. }, other] if *other == child("o/ship")), "{branches:?}");
}

/// The row of a run names only the first few branches.
#[tokio::test]
async fn progress_lists_all_children_that_have_not_ended() {
    let test = kit().await;
    let run = test.start(order, &40).id("o").await.unwrap();
    test.settle().await;
    for n in 1..=2 {
        test.client().get_run::<u32>(&format!("o/{n}/ship")).await.unwrap().signal("go", &()).await.unwrap();
    }
    test.settle().await;
    let progress = run.progress().await.unwrap();
    assert_eq!(progress.branches.len(), 38);
    assert!((3..=40).all(|n| progress.branches.contains(&child(&format!("o/{n}/ship")))), "{:?}", progress.branches);
    assert_eq!(progress.last_failure.unwrap().message, "no stock");
}

#[tokio::test]
async fn export_keeps_the_parent_of_a_run() {
    let test = kit().await;
    test.start(single, &()).id("o").await.unwrap();
    test.start(letting_go, &()).id("p").await.unwrap();
    test.settle().await;
    let mut file = Vec::new();
    export::write(&test, Filter::runs(), &mut file, |_| {}).await.unwrap();
    let mut children = 0;
    for run in Reader::new(&file[..]).unwrap() {
        let run = run.unwrap();
        let stored = test.store().instance(&run.instance.id).await.unwrap().unwrap();
        children += usize::from(stored.parent.is_some());
        assert_eq!(run.instance.parent, stored.parent);
    }
    assert_eq!(children, 2);
}

/// What broke: every run that waits for a child was resumed after each deploy.
#[tokio::test]
async fn run_that_waits_for_a_child_stays_parked_after_a_deploy() {
    let mut test = kit().await;
    let run = test.start(single, &()).id("o").await.unwrap();
    test.settle().await;
    let before = run.journal().await.unwrap();
    let events = feed_of(&test, "o").await;
    test.deploy(|engine| engine.workflow("single", single).workflow("ship", ship).version("2")).await;
    test.settle().await;
    assert_eq!((run.journal().await.unwrap(), feed_of(&test, "o").await), (before, events), "it was not resumed");
    test.client().get_run::<u32>("o/ship").await.unwrap().signal("go", &()).await.unwrap();
    assert_eq!(test.client().get_run::<u32>("o").await.unwrap().result().await.unwrap(), 1);
}

/// Returns the names of the lifecycle events of a run.
async fn feed_of(test: &TestEngine, id: &str) -> Vec<String> {
    let mut events = test.client().events().of(id).from_start().committed().await.unwrap();
    events.read(1_000).await.unwrap().iter().map(|event| event.kind.as_str().to_owned()).collect()
}
