//! Names that people give to things, checked once where they come in.

use std::fmt;
use std::sync::Arc;

/// The longest id or name, in bytes.
///
/// ```
/// use outlive_core::id::{LENGTH_MAX, Name};
/// assert!(Name::new("run id", &"x".repeat(LENGTH_MAX)).is_ok());
/// assert!(Name::new("run id", &"x".repeat(LENGTH_MAX + 1)).is_err());
/// ```
pub const LENGTH_MAX: usize = 200;

/// The number a store gives to an instance. It is never given again, so a purged id that is used once more
/// cannot meet what its earlier bearer left behind.
///
/// ```
/// assert_eq!(outlive_core::id::InstanceNum(7).to_string(), "7");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InstanceNum(pub u64);

impl fmt::Display for InstanceNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The fence: it grows each time the right to execute changes hands. 0 is nobody.
///
/// ```
/// use outlive_core::id::Epoch;
/// assert!(Epoch(2) > Epoch(1), "who holds 1 is fenced off by 2");
/// assert_eq!(Epoch::default(), Epoch(0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);

/// A checked name: of a run, a workflow, a step, a signal, a scope or a key. Cheap to clone.
///
/// ```
/// use outlive_core::id::Name;
/// assert_eq!(Name::new("run id", "order-42").unwrap().as_str(), "order-42");
/// let error = Name::new("run id", "").unwrap_err();
/// assert_eq!(error.to_string(), "run id \"\" is empty; give it 1 to 200 bytes of text");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Checks `text`, which is to serve as `what` ("run id", "step name", …).
    ///
    /// # Errors
    /// If the text is empty, longer than [`LENGTH_MAX`] bytes or holds a control character.
    ///
    /// ```
    /// # use outlive_core::id::Name;
    /// assert_eq!(Name::new("step name", "charge card").unwrap().to_string(), "charge card");
    /// assert!(Name::new("step name", "charge\ncard").is_err());
    /// ```
    pub fn new(what: &'static str, text: &str) -> Result<Self, NameError> {
        check(what, text)?;
        Ok(Self(text.into()))
    }

    /// The text itself.
    ///
    /// ```
    /// # use outlive_core::id::Name;
    /// assert!(Name::recorded("order-42").as_str().starts_with("order-"));
    /// ```
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A name read back from a store, where it was checked before it was written.
    ///
    /// ```
    /// # use outlive_core::id::Name;
    /// assert_eq!(Name::recorded("order-42"), Name::new("run id", "order-42").unwrap());
    /// ```
    #[must_use]
    pub fn recorded(text: &str) -> Self {
        Self(text.into())
    }
}

/// Checks a name without keeping it.
///
/// # Errors
/// As [`Name::new`].
///
/// ```
/// use outlive_core::id::check;
/// assert!(check("signal name", "approved").is_ok());
/// assert!(check("signal name", "").is_err());
/// ```
pub fn check(what: &'static str, text: &str) -> Result<(), NameError> {
    let problem = if text.is_empty() {
        Problem::Empty
    } else if text.len() > LENGTH_MAX {
        Problem::Long(text.len())
    } else if let Some(found) = text.chars().find(|c| c.is_control()) {
        Problem::Control(found)
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

/// Why a text cannot be a name.
///
/// ```
/// let error = outlive_core::id::check("run id", "a\tb").unwrap_err();
/// assert_eq!(error.to_string(), r#"run id "a\tb" holds the control character '\t'; leave it out"#);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameError {
    what: &'static str,
    text: String,
    problem: Problem,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Problem {
    Empty,
    Long(usize),
    Control(char),
    Colon,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, text, problem } = self;
        match problem {
            Problem::Empty => write!(f, "{what} \"\" is empty; give it 1 to {LENGTH_MAX} bytes of text"),
            Problem::Long(bytes) => {
                write!(
                    f,
                    "{what} {text:?}… is {bytes} bytes long; {LENGTH_MAX} is the limit, put the rest in the input"
                )
            }
            Problem::Colon => write!(f, "{what} {text:?} holds a colon, which parts kind, name and id; leave it out"),
            Problem::Control(found) => write!(f, "{what} {text:?} holds the control character {found:?}; leave it out"),
        }
    }
}

impl std::error::Error for NameError {}

impl NameError {
    /// A name with a colon where there must be none.
    pub(crate) fn with_colon(what: &'static str, text: &str) -> Self {
        Self { what, text: text.chars().take(40).collect(), problem: Problem::Colon }
    }
}
