//! Waits for a store's reply, and records the very moment it is given.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::disk::Disk;
use crate::log::Op;

/// How long a reply may take: a store that takes longer hangs.
const LOOKS_MAX: usize = 600;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Wakes the waiting thread.
struct Awake(Thread);

impl Wake for Awake {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Marks the reply when it is given, in the thread of the store, before that does anything else to the disk.
struct Ack {
    disk: Arc<Disk>,
    step: usize,
    thread: Thread,
}

impl Wake for Ack {
    fn wake(self: Arc<Self>) {
        self.disk.mark(Op::Acked(self.step));
        self.thread.unpark();
    }
}

/// Waits for a reply.
///
/// # Errors
/// If there is none.
pub(crate) fn wait<T>(mut answer: Pin<Box<dyn Future<Output = T> + Send + '_>>) -> Result<T, String> {
    let waker = Waker::from(Arc::new(Awake(thread::current())));
    match answer.as_mut().poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(answer) => Ok(answer),
        Poll::Pending => wait_on(answer, &waker),
    }
}

/// Waits for the reply to a step, and marks on the disk when it was given.
///
/// # Errors
/// If there is none.
pub(crate) fn wait_for_ack<T>(
    disk: &Arc<Disk>,
    step: usize,
    mut answer: Pin<Box<dyn Future<Output = T> + Send + '_>>,
) -> Result<T, String> {
    let waker = Waker::from(Arc::new(Ack { disk: disk.clone(), step, thread: thread::current() }));
    disk.mark(Op::Begun(step));
    // The store cannot reply while its disk is blocked, so the waker is in place when it does.
    match disk.hold(|| answer.as_mut().poll(&mut Context::from_waker(&waker))) {
        Poll::Ready(_) => Err(format!("step {step} got a reply without any disk access")),
        Poll::Pending => wait_on(answer, &waker),
    }
}

fn wait_on<T>(mut answer: Pin<Box<dyn Future<Output = T> + Send + '_>>, waker: &Waker) -> Result<T, String> {
    for _ in 0..LOOKS_MAX {
        thread::park_timeout(LOOK_EVERY);
        if let Poll::Ready(answer) = answer.as_mut().poll(&mut Context::from_waker(waker)) {
            return Ok(answer);
        }
    }
    Err(format!("no reply within {:?}", LOOK_EVERY * u32::try_from(LOOKS_MAX).unwrap_or(u32::MAX)))
}
