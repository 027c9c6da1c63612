//! Turns a panic in user code into a failure that says what happened and where.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll};

use outlive_core::failure::{Cause, Failure};

thread_local! {
    /// Where this thread last panicked.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
    /// `true` while panics of this thread are expected and reported by the caller.
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Installs a hook that notes the place of each panic, then calls the previous hook.
pub(crate) fn note_places() {
    static NOTED: Once = Once::new();
    NOTED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let place = info.location().map(ToString::to_string);
            // A panic while the thread ends has nowhere to be noted.
            let _ = PLACE.try_with(|noted| noted.replace(place));
            if !IS_QUIET.try_with(Cell::get).unwrap_or(false) {
                before(info);
            }
        }));
    });
}

/// Runs `f` with panics noted but not printed: a panic in a copy has not happened to the run.
#[cfg(feature = "tokio")]
pub(crate) fn quietly<T>(f: impl FnOnce() -> T) -> T {
    struct Loud(bool);
    impl Drop for Loud {
        fn drop(&mut self) {
            IS_QUIET.set(self.0);
        }
    }
    let _loud = Loud(IS_QUIET.replace(true));
    f()
}

/// Runs user code, and returns a panic as a failure.
pub(crate) fn catch<T>(f: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| {
        let failure = failure(&*panic);
        drop_quietly(panic);
        failure
    })
}

/// Runs user code that describes a failure; if it panics, the panic is the failure.
pub(crate) fn flatten(f: impl FnOnce() -> Failure) -> Failure {
    catch(f).unwrap_or_else(|panic| panic)
}

/// Polls user code, and returns a panic as a failure.
pub(crate) fn poll<F: Future + ?Sized>(future: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<Result<F::Output, Failure>> {
    match catch(|| future.poll(cx)) {
        Ok(polled) => polled.map(Ok),
        Err(failure) => Poll::Ready(Err(failure)),
    }
}

/// Drops what user code panicked with. That may panic in turn; what it panics with then is leaked, or there is no end to it.
fn drop_quietly(panic: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

fn failure(panic: &(dyn Any + Send)) -> Failure {
    let message = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => *text,
        (_, Some(text)) => text,
        _ => "a panic without a message",
    };
    let place = PLACE.try_with(|noted| noted.take()).ok().flatten();
    let place = place.map(|place| format!(" at {place}")).unwrap_or_default();
    Failure::new(Cause::Panic, format!("{message}{place}"))
}
