//! Job kinds and the names built from them: `task:orders` for a job, `task:orders:42` for an instance of it.

use std::fmt;

use crate::id::{Name, NameError, check};

/// The kind of a job.
///
/// ```
/// use outlive_core::id::Name;
/// use outlive_core::kind::JobKind;
///
/// assert_eq!(JobKind::of(&Name::recorded("task:orders")), Some(JobKind::Task));
/// assert_eq!(JobKind::of(&Name::recorded("checkout")), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum JobKind {
    /// Runs repeatedly on a schedule.
    Continuous,
    /// Collects events and handles them together.
    Debounce,
    /// Handles one event after the other and can schedule its own wakes.
    Task,
    /// Handles many events concurrently.
    Pool,
}

impl JobKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Continuous, Self::Debounce, Self::Task, Self::Pool];

    /// Returns the prefix used in names.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Continuous => "continuous",
            Self::Debounce => "debounce",
            Self::Task => "task",
            Self::Pool => "pool",
        }
    }

    /// Returns the kind with this prefix, if there is one.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// Returns the kind of a job from its name or the id of an instance; `None` for workflows and runs.
    #[must_use]
    pub fn of(name: &Name) -> Option<Self> {
        let (kind, _) = name.as_str().split_once(':')?;
        Self::from_text(kind)
    }

    /// Returns the full name of a job: its kind and name.
    ///
    /// # Errors
    /// If the name is empty, too long, or contains a colon or a control character.
    pub fn job(self, name: &str) -> Result<Name, NameError> {
        check("job name", name)?;
        if name.contains(':') {
            return Err(NameError::with_colon("job name", name));
        }
        Name::new("job name", &format!("{self}:{name}"))
    }

    /// Returns the full id of an instance: kind, job name and id.
    ///
    /// # Errors
    /// If the id is empty, too long, or contains a control character.
    pub fn instance(job: &Name, id: &str) -> Result<Name, NameError> {
        check("instance id", id)?;
        Name::new("instance id", &format!("{job}:{id}"))
    }

    /// Returns the full name of the job of an instance.
    #[must_use]
    pub fn job_of(instance: &Name) -> Name {
        let text = instance.as_str();
        let end = text.match_indices(':').nth(1).map_or(text.len(), |(place, _)| place);
        Name::recorded(&text[..end])
    }

    /// Returns the part of an instance id that the user chose.
    ///
    /// ```
    /// # use outlive_core::{id::Name, kind::JobKind};
    /// assert_eq!(JobKind::own_id(&Name::recorded("task:orders:paris:42")), "paris:42");
    /// ```
    #[must_use]
    pub fn own_id(instance: &Name) -> &str {
        instance.as_str().splitn(3, ':').nth(2).unwrap_or_default()
    }
}

/// A selection of instances: runs, instances of jobs, or both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kinds {
    /// Runs of workflows.
    #[default]
    Runs,
    /// Instances of jobs.
    Jobs,
    /// Both.
    All,
}

impl Kinds {
    /// Returns `true` if instances of the workflow or job with this name are selected.
    #[must_use]
    pub fn has(self, name: &Name) -> bool {
        match self {
            Self::Runs => JobKind::of(name).is_none(),
            Self::Jobs => JobKind::of(name).is_some(),
            Self::All => true,
        }
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
