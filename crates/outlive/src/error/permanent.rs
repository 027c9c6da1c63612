//! Errors that are not retried, found in a chain of sources however they were wrapped.

use crate::error::BoxError;

/// Marks an error as permanent: it is not retried, whatever the retry policy says.
///
/// ```
/// use outlive::prelude::*;
/// async fn charge(card: &str) -> Result<u32> {
///     if card.is_empty() {
///         return Err(Permanent("no card").into());
///     }
///     Ok(42)
/// }
/// ```
#[expect(non_snake_case, reason = "reads as a wrapper: `Permanent(error)`")]
pub fn Permanent(error: impl Into<BoxError>) -> Permanent {
    Permanent { marked: Marked(error.into()) }
}

/// An error that is not retried, made by `Permanent(error)`.
///
/// ```
/// use outlive::Permanent;
/// fn check(card: &str) -> Result<(), Permanent> {
///     if card.is_empty() { Err(Permanent("no card")) } else { Ok(()) }
/// }
/// assert_eq!(check("").unwrap_err().to_string(), "no card");
/// ```
#[derive(Debug)]
pub struct Permanent {
    marked: Marked,
}

/// The source of every permanent error, so that it is found in the chain however the error was wrapped.
#[derive(Debug)]
struct Marked(BoxError);

impl std::fmt::Display for Permanent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.marked.0.fmt(f)
    }
}

impl std::error::Error for Permanent {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.marked)
    }
}

impl std::fmt::Display for Marked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Marked {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// Returns `true` if an error, or one in its chain of sources, is [`Permanent`].
pub(crate) fn is_permanent(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<Marked>() || error.is::<Permanent>() {
            return true;
        }
        next = error.source();
    }
    false
}

/// Returns the first error of type `E` in an error's chain of sources, including inside a [`Permanent`] one.
pub(crate) fn find<'e, E: std::error::Error + 'static>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e E> {
    let mut next = Some(error);
    while let Some(error) = next {
        // The source of a marked error is the source of the error it holds, so the held one is looked at here.
        let held = error.downcast_ref::<Marked>().map_or(error, |marked| &*marked.0);
        if let Some(found) = held.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
