//! Which names are those of jobs: `task:orders`, and `task:orders:42` for an instance of it.

use std::fmt;

use crate::id::{Name, NameError, check};

/// The kinds of job.
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
    /// Runs again and again, by a schedule.
    Continuous,
    /// Collects events, and handles them together.
    Debounce,
    /// Handles one event after the other, and wakes itself.
    Task,
    /// Handles many events at once.
    Pool,
}

impl JobKind {
    /// All of them.
    ///
    /// ```
    /// assert_eq!(outlive_core::kind::JobKind::ALL.len(), 4);
    /// ```
    pub const ALL: [Self; 4] = [Self::Continuous, Self::Debounce, Self::Task, Self::Pool];

    /// The word for it, as names begin with it.
    ///
    /// ```
    /// assert_eq!(outlive_core::kind::JobKind::Pool.as_str(), "pool");
    /// ```
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Continuous => "continuous",
            Self::Debounce => "debounce",
            Self::Task => "task",
            Self::Pool => "pool",
        }
    }

    /// The kind with this word.
    ///
    /// ```
    /// use outlive_core::kind::JobKind;
    /// assert_eq!(JobKind::from_text("debounce"), Some(JobKind::Debounce));
    /// ```
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// The kind of a job by its name, or by the id of an instance; `None` if it is that of a workflow or a run.
    ///
    /// ```
    /// # use outlive_core::{id::Name, kind::JobKind};
    /// assert_eq!(JobKind::of(&Name::recorded("pool:mail:main")), Some(JobKind::Pool));
    /// assert_eq!(JobKind::of(&Name::recorded("task")), None);
    /// ```
    #[must_use]
    pub fn of(name: &Name) -> Option<Self> {
        let (kind, _) = name.as_str().split_once(':')?;
        Self::from_text(kind)
    }

    /// The name of a job with its kind.
    ///
    /// ```
    /// # use outlive_core::kind::JobKind;
    /// assert_eq!(JobKind::Task.job("orders")?.as_str(), "task:orders");
    /// assert!(JobKind::Task.job("or:ders").is_err());
    /// # Ok::<(), outlive_core::id::NameError>(())
    /// ```
    ///
    /// # Errors
    /// If the name is empty, too long, or has a colon or a control character in it.
    pub fn job(self, name: &str) -> Result<Name, NameError> {
        check("job name", name)?;
        if name.contains(':') {
            return Err(NameError::with_colon("job name", name));
        }
        Name::new("job name", &format!("{self}:{name}"))
    }

    /// The name of an instance of a job.
    ///
    /// ```
    /// # use outlive_core::{id::Name, kind::JobKind};
    /// assert_eq!(JobKind::instance(&Name::recorded("task:orders"), "42")?.as_str(), "task:orders:42");
    /// # Ok::<(), outlive_core::id::NameError>(())
    /// ```
    ///
    /// # Errors
    /// If the id is empty, too long, or has a control character in it.
    pub fn instance(job: &Name, id: &str) -> Result<Name, NameError> {
        check("instance id", id)?;
        Name::new("instance id", &format!("{job}:{id}"))
    }

    /// The job of an instance, out of its whole name.
    ///
    /// ```
    /// # use outlive_core::{id::Name, kind::JobKind};
    /// assert_eq!(JobKind::job_of(&Name::recorded("task:orders:paris:42")).as_str(), "task:orders");
    /// ```
    #[must_use]
    pub fn job_of(instance: &Name) -> Name {
        let text = instance.as_str();
        let end = text.match_indices(':').nth(1).map_or(text.len(), |(place, _)| place);
        Name::recorded(&text[..end])
    }

    /// The id that a user gave to an instance, out of its whole name.
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

/// What instances are of: workflows, jobs, or either.
///
/// ```
/// use outlive_core::id::Name;
/// use outlive_core::kind::Kinds;
///
/// assert!(Kinds::Jobs.has(&Name::recorded("task:orders")) && !Kinds::Runs.has(&Name::recorded("task:orders")));
/// ```
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
    /// Whether instances of a workflow or a job of this name are meant.
    ///
    /// ```
    /// # use outlive_core::{id::Name, kind::Kinds};
    /// assert!(Kinds::default().has(&Name::recorded("checkout")) && Kinds::All.has(&Name::recorded("checkout")));
    /// ```
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
