//! The ways to resolve a dead letter.

/// What to do with dead letters.
#[derive(Clone, Copy)]
pub(super) enum Resolution {
    Retry,
    Discard,
}

impl Resolution {
    /// Returns the word for what was done.
    pub(super) fn done(self) -> &'static str {
        match self {
            Self::Retry => "retried",
            Self::Discard => "discarded",
        }
    }
}
