//! Two engines on one store: whoever took the lease last drives, and nobody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use outlive::prelude::*;
use outlive_core::memory::MemoryStore;

/// How often a body ran in one engine.
#[derive(Clone, Default)]
struct Bodies(Arc<AtomicU32>);

async fn work(ctx: Ctx, _: ()) -> Result<()> {
    let bodies = ctx.get::<Bodies>();
    let body = || async {
        bodies.0.fetch_add(1, Ordering::Relaxed);
        Ok::<_, BoxError>(())
    };
    Ok(ctx.step("work", body).await?)
}

async fn engine(store: &Arc<MemoryStore>, bodies: &Bodies) -> Engine {
    Engine::on(store.clone()).workflow("w", work).provide(bodies.clone()).start().await.unwrap()
}

/// An engine that had lost its lease drove the runs that its own client started: the store had them as pending, for
/// the new owner to claim, and the old one ran their bodies beside it.
#[tokio::test]
async fn an_engine_that_lost_its_lease_does_not_drive_what_its_client_starts() {
    let (store, old_bodies, new_bodies) = (Arc::new(MemoryStore::new()), Bodies::default(), Bodies::default());
    let old = engine(&store, &old_bodies).await;
    let _new = engine(&store, &new_bodies).await;

    let run = old.start(work, &()).id("a").await.unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!((old_bodies.0.load(Ordering::Relaxed), old.resident()), (0, 0));
    assert_eq!(new_bodies.0.load(Ordering::Relaxed), 1);
    assert_eq!(run.status().await.unwrap(), Status::Completed);
}
