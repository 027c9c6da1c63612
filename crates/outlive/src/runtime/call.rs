//! A call with options: a value to build, and a future from its first poll on.

use std::pin::Pin;
use std::task::{Context, Poll};

/// A call that starts when it is first polled. Being a future itself, it can be boxed, shared and joined as it is.
pub(crate) enum PendingCall<P, T> {
    /// Not started; `None` only while it starts.
    Ready(Option<P>),
    Running(Pin<Box<dyn Future<Output = T> + Send>>),
}

impl<P, T> PendingCall<P, T> {
    pub(crate) fn new(options: P) -> Self {
        Self::Ready(Some(options))
    }

    /// Changes an option. A call that has started keeps those it has.
    pub(crate) fn set(&mut self, change: impl FnOnce(&mut P)) {
        if let Self::Ready(Some(options)) = self {
            change(options);
        }
    }

    /// Returns the options, unless the call has started.
    pub(crate) fn options(&self) -> Option<&P> {
        match self {
            Self::Ready(options) => options.as_ref(),
            Self::Running(_) => None,
        }
    }

    pub(crate) fn poll<F>(&mut self, cx: &mut Context<'_>, start: impl FnOnce(P) -> F) -> Poll<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        if let Self::Ready(options) = self
            && let Some(options) = options.take()
        {
            *self = Self::Running(Box::pin(start(options)));
        }
        match self {
            Self::Running(call) => call.as_mut().poll(cx),
            Self::Ready(_) => Poll::Pending,
        }
    }
}
