//! Waiting for an answer of a store, and hearing of it at the very moment it is given.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::disk::Disk;
use crate::log::Op;

/// How long an answer may take: a store that takes longer hangs.
const LOOKS_MAX: usize = 600;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Wakes the thread that waits.
struct Awake(Thread);

impl Wake for Awake {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Marks the answer where it is given, in the thread of the store, before that does anything else to the disk.
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

/// Waits for an answer.
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

/// Waits for the answer to a step, and has the disk know when it was given.
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
    // The store cannot answer while its disk is held, so it finds the waker in place when it does.
    match disk.hold(|| answer.as_mut().poll(&mut Context::from_waker(&waker))) {
        Poll::Ready(_) => Err(format!("step {step} was answered without a look at the disk")),
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
    Err(format!("no answer in {:?}", LOOK_EVERY * u32::try_from(LOOKS_MAX).unwrap_or(u32::MAX)))
}
