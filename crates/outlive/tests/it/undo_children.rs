//! Undo of children: a child that completed is undone like a step; one that still runs is ended first.

use std::sync::{Arc, Mutex};

use outlive::Builder;
use outlive::prelude::*;
use outlive_testkit::TestEngine;

#[derive(Clone, Default)]
struct World(Arc<Mutex<Vec<String>>>);

impl World {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

async fn ship(ctx: Ctx, n: u32) -> Result<u32> {
    ctx.step("ship", || async {
        ctx.get::<World>().note(format!("ship {n}"));
        outlive::Ok(())
    })
    .await?;
    Ok(n)
}

async fn patient(ctx: Ctx, _: ()) -> Result<u32> {
    let world = ctx.get::<World>().clone();
    let undo = move |_: ()| {
        world.note("un-pack");
        async { outlive::Ok(()) }
    };
    ctx.step("pack", || async { outlive::Ok(()) }).undo("unpack", undo).await?;
    Ok(ctx.wait("go").await?)
}

async fn failing(_: Ctx, _: ()) -> Result<u32> {
    Err("no courier".into())
}

fn call_back(ctx: &Ctx) -> impl FnMut(u32) -> std::future::Ready<Result<()>> + Send + 'static {
    let world = ctx.get::<World>().clone();
    move |parcel| {
        world.note(format!("call {parcel} back"));
        std::future::ready(Ok(()))
    }
}

async fn no_stock() -> Result<u32> {
    Err("no stock".into())
}

async fn engine(add: impl Fn(Builder) -> Builder + Send + Sync + 'static) -> (TestEngine, World) {
    let world = World::default();
    let provided = world.clone();
    let setup = move |engine: Builder| {
        let engine = engine.workflow("ship", ship).workflow("patient", patient).workflow("failing", failing);
        add(engine).provide(provided.clone())
    };
    (TestEngine::new(setup).await, world)
}

async fn runs(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.run(ship, &1).undo("call back", call_back(&ctx)).await?;
    ctx.spawn(ship, &2).key("two").undo("call back", call_back(&ctx)).await?.result().await?;
    let failed = ctx.run(failing, &()).undo("call back", call_back(&ctx)).await;
    assert!(failed.is_err());
    Ok(ctx.step("pay", no_stock).await?)
}

#[tokio::test]
async fn completed_children_are_undone_last_first() {
    let (test, world) = engine(|engine| engine.workflow("order", runs)).await;
    let run = test.start(runs, &()).id("r").await.unwrap();
    assert!(test.result(&run).await.unwrap_err().to_string().contains("no stock"));
    assert_eq!(world.take(), ["ship 1", "ship 2", "call 2 back", "call 1 back"]);
}

/// The undone child was started once more under an id of its own, as that of the first is taken.
#[tokio::test]
async fn retried_parent_starts_an_undone_child_again() {
    let (test, world) = engine(|engine| engine.workflow("order", runs)).await;
    let run = test.start(runs, &()).id("r").await.unwrap();
    assert!(test.result(&run).await.is_err());
    for round in ["~r2", "~r3"] {
        world.take();
        run.retry().await.unwrap();
        assert!(test.result(&run).await.unwrap_err().to_string().contains("no stock"));
        assert_eq!(world.take(), ["ship 1", "ship 2", "call 2 back", "call 1 back"]);
        let again = test.client().get_run::<u32>(&format!("r/ship{round}")).await.unwrap();
        assert_eq!(again.status().await.unwrap(), Status::Completed);
    }
}

async fn leaves(ctx: Ctx, _: ()) -> Result<u32> {
    ctx.spawn(patient, &()).id("waiting").undo("call back", call_back(&ctx)).await?;
    ctx.spawn(ship, &3).id("done").undo("call back", call_back(&ctx)).await?;
    ctx.sleep("1 minute").await?;
    Ok(ctx.step("pay", no_stock).await?)
}

#[tokio::test]
async fn spawned_children_are_ended_and_undone_if_they_completed() {
    let (test, world) = engine(|engine| engine.workflow("order", leaves)).await;
    let run = test.start(leaves, &()).id("r").await.unwrap();
    assert!(test.result(&run).await.unwrap_err().to_string().contains("no stock"));
    let waiting = test.client().get_run::<u32>("waiting").await.unwrap();
    assert_eq!(waiting.status().await.unwrap(), Status::Cancelled);
    assert_eq!(world.take(), ["ship 3", "un-pack", "call 3 back"]);
}

#[tokio::test]
async fn children_of_a_cancelled_run_are_undone() {
    let (test, world) = engine(|engine| engine.workflow("order", leaves)).await;
    let run = test.start(leaves, &()).id("r").await.unwrap();
    test.settle().await;
    run.cancel("withdrawn").await.unwrap();
    assert!(test.result(&run).await.unwrap_err().is_cancelled());
    assert_eq!(world.take(), ["ship 3", "un-pack", "call 3 back"]);
}

async fn loses(ctx: Ctx, _: ()) -> Result<u32> {
    tokio::select! {
        biased;
        shipped = ctx.run(patient, &()).id("slow").undo("call back", call_back(&ctx)) => { shipped?; }
        slept = ctx.sleep("1 minute") => slept?,
    }
    ctx.signal("slow", "go", &9).await?;
    ctx.sleep("1 minute").await?;
    Ok(ctx.step("pay", no_stock).await?)
}

#[tokio::test]
async fn child_that_lost_a_race_is_undone_if_it_completed_later() {
    let (test, world) = engine(|engine| engine.workflow("order", loses)).await;
    let run = test.start(loses, &()).await.unwrap();
    assert!(test.result(&run).await.unwrap_err().to_string().contains("no stock"));
    assert_eq!(world.take(), ["call 9 back"]);
}

#[tokio::test]
async fn detached_child_cannot_have_an_undo() {
    async fn detaches(ctx: Ctx, _: ()) -> Result<u32> {
        ctx.spawn(ship, &1).undo("call back", call_back(&ctx)).detach().await?;
        Ok(1)
    }
    let (test, world) = engine(|engine| engine.workflow("order", detaches)).await;
    let run = test.start(detaches, &()).await.unwrap();
    assert!(test.result(&run).await.unwrap_err().to_string().contains("detached"));
    assert!(run.journal().await.unwrap().is_empty() && world.take().is_empty());
}
