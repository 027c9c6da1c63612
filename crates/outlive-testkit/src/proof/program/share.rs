//! Branches that share something, so that one result readies several of them: the order in which they continue is part
//! of the result.

use std::sync::Mutex;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, StreamExt};
use outlive::prelude::*;
use tokio::sync::{Notify, broadcast, mpsc, oneshot};

/// The thing that the branches share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Share {
    Future,
    Notify,
    Lock,
    Channel,
    Broadcast,
    Oneshots,
    Streams,
}

impl Share {
    pub(super) const ALL: [Self; 7] =
        [Self::Future, Self::Notify, Self::Lock, Self::Channel, Self::Broadcast, Self::Oneshots, Self::Streams];
}

/// The order in which branches continued.
#[derive(Default)]
struct Order(Mutex<String>);

impl Order {
    fn came(&self, who: char) {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(who);
    }

    /// Like `came`, for a branch that cannot fail.
    fn passed(&self, who: char) -> Result<(), String> {
        self.came(who);
        Ok(())
    }
}

type Branch<'a> = BoxFuture<'a, Result<(), String>>;

/// Lets one step ready several branches. Returns the order in which they continued, after a step whose name contains
/// it.
pub(super) async fn share(ctx: &Ctx, what: Share, name: &str) -> Result<String> {
    let order = Order::default();
    let step = ctx.step(name, || async { Ok::<_, BoxError>(()) });
    let step: Branch<'_> = step.map(|done| done.map_err(|error| error.to_string())).boxed();
    ready(what, step, &order).await?;
    let order = order.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let text = format!("{name} readied {order}");
    Ok(ctx.step(&text, || async { Ok::<_, BoxError>(text.clone()) }).await?)
}

async fn ready<'a>(what: Share, step: Branch<'a>, order: &Order) -> Result<(), String> {
    match what {
        Share::Future => {
            let shared = step.shared();
            let one = |who| shared.clone().map(move |done| done.map(|()| order.came(who)));
            tokio::try_join!(one('a'), one('b'), one('c')).map(drop)
        }
        Share::Broadcast => {
            let (sender, first) = broadcast::channel::<()>(4);
            let one = |who, mut receiver: broadcast::Receiver<()>| async move {
                receiver.recv().await.map(|()| order.came(who)).map_err(|error| error.to_string())
            };
            let second = sender.subscribe();
            let sends = async { step.await.map(|()| drop(sender.send(()))) };
            tokio::try_join!(one('a', first), one('b', second), sends).map(drop)
        }
        Share::Oneshots => {
            let ((one, heard), (other, also_heard)) = (oneshot::channel::<()>(), oneshot::channel::<()>());
            let drops = step.map(|done| done.map(|()| drop((one, other))));
            let hears = |who, heard: oneshot::Receiver<()>| heard.map(move |_| order.passed(who));
            tokio::try_join!(hears('a', heard), drops, hears('b', also_heard)).map(drop)
        }
        Share::Streams => {
            let shared = step.shared();
            let one = |who| stream::once(shared.clone()).map(move |done| (who, done)).boxed();
            let mut both = stream::select(one('a'), one('b'));
            while let Some((who, done)) = both.next().await {
                done?;
                order.came(who);
            }
            Ok(())
        }
        Share::Notify | Share::Lock | Share::Channel => ready_at_a_gate(what, step, order).await,
    }
}

/// The same for branches that wait at a gate, which the step opens.
async fn ready_at_a_gate<'a>(what: Share, step: Branch<'a>, order: &Order) -> Result<(), String> {
    let gate = &Notify::new();
    let opens = step.map(|done| done.map(|()| gate.notify_waiters()));
    let lock = &tokio::sync::Mutex::new(());
    let (sender, mut receiver) = mpsc::channel(1);
    let passes = |who| gate.notified().map(move |()| order.passed(who));
    let locks = |who| async move {
        gate.notified().await;
        let _held = lock.lock().await;
        order.passed(who)
    };
    let sends = |who, sender: mpsc::Sender<char>| async move {
        gate.notified().await;
        sender.send(who).await.map_err(|error| error.to_string())
    };
    match what {
        Share::Channel => {
            let takes = async {
                while let Some(who) = receiver.recv().await {
                    order.came(who);
                }
                Ok(())
            };
            let (a, b, c) = (sends('a', sender.clone()), sends('b', sender.clone()), sends('c', sender));
            tokio::try_join!(a, b, c, takes, opens).map(drop)
        }
        Share::Lock => tokio::try_join!(locks('a'), locks('b'), opens).map(drop),
        _ => tokio::try_join!(passes('a'), passes('b'), passes('c'), opens).map(drop),
    }
}
