//! Ids and names, validated once at the boundary.

use std::fmt;
use std::sync::Arc;

/// The maximum length of an id or name, in bytes.
pub const LENGTH_MAX: usize = 200;

/// The number a store assigns to an instance. Numbers are never reused, so a new instance with the id of a purged one
/// cannot pick up anything that belonged to the old one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InstanceNum(pub u64);

impl fmt::Display for InstanceNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The fencing number of a lease. It grows each time the lease changes hands; 0 means no owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);

/// A validated name of a run, workflow, step, signal, scope or key. Cheap to clone.
///
/// ```
/// use outlive_core::id::Name;
/// assert_eq!(Name::new("run id", "order-42").unwrap().as_str(), "order-42");
/// let error = Name::new("run id", "").unwrap_err();
/// assert_eq!(error.to_string(), "run id \"\" is empty; use 1 to 200 bytes");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Validates `text`. Error messages refer to it as `what` ("run id", "step name", …).
    ///
    /// # Errors
    /// If the text is empty, longer than [`LENGTH_MAX`] bytes or contains a control character.
    pub fn new(what: &'static str, text: &str) -> Result<Self, NameError> {
        check(what, text)?;
        Ok(Self(text.into()))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Wraps a name read back from a store without validating it again.
    #[must_use]
    pub fn recorded(text: &str) -> Self {
        Self(text.into())
    }
}

/// Validates a name without creating a [`Name`].
///
/// # Errors
/// The errors of [`Name::new`].
pub fn check(what: &'static str, text: &str) -> Result<(), NameError> {
    let problem = if text.is_empty() {
        NameProblem::Empty
    } else if text.len() > LENGTH_MAX {
        NameProblem::Long(text.len())
    } else if let Some(found) = text.chars().find(|c| c.is_control()) {
        NameProblem::Control(found)
    } else {
        return Ok(());
    };
    Err(NameError { what, text: text.chars().take(40).collect(), problem })
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// Why a text is not a valid name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameError {
    what: &'static str,
    text: String,
    problem: NameProblem,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum NameProblem {
    Empty,
    Long(usize),
    Control(char),
    Colon,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, text, problem } = self;
        match problem {
            NameProblem::Empty => write!(f, "{what} \"\" is empty; use 1 to {LENGTH_MAX} bytes"),
            NameProblem::Long(bytes) => {
                write!(f, "{what} {text:?}… is {bytes} bytes long; use at most {LENGTH_MAX} bytes")
            }
            NameProblem::Colon => {
                write!(f, "{what} {text:?} contains a colon, which separates kind, name and id; remove it")
            }
            NameProblem::Control(found) => {
                write!(f, "{what} {text:?} contains the control character {found:?}; remove it")
            }
        }
    }
}

impl std::error::Error for NameError {}

impl NameError {
    /// Creates the error for a name that must not contain a colon.
    pub(crate) fn with_colon(what: &'static str, text: &str) -> Self {
        Self { what, text: text.chars().take(40).collect(), problem: NameProblem::Colon }
    }
}
