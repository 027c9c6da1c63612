//! The result of an examination: what was counted and what was found.

use std::fmt;

use outlive_core::id::InstanceNum;

/// The result of examining a store.
///
/// ```
/// # use outlive_sqlite::{Options, SqliteStore, doctor};
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("shop.db");
/// # let _store = SqliteStore::open(&file, Options::default()).unwrap();
/// let diagnosis = doctor::examine(&file).unwrap();
/// assert_eq!((diagnosis.instances, diagnosis.entries, diagnosis.findings_count), (0, 0, 0));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The number of instances, runs and jobs together.
    pub instances: u64,
    /// The number of instances that belong to jobs; the others are runs.
    pub jobs: u64,
    /// The number of journal entries.
    pub entries: u64,
    /// The number of messages in inboxes and queues.
    pub messages: u64,
    /// The findings, at most a thousand for each [kind](FindingKind).
    pub findings: Vec<Finding>,
    /// The number of findings, listed or not.
    pub findings_count: u64,
}

impl Diagnosis {
    /// Returns `true` if there are no findings.
    ///
    /// ```
    /// assert!(outlive_sqlite::doctor::Diagnosis::default().is_sound());
    /// ```
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings_count == 0
    }
}

/// One violated invariant.
///
/// ```
/// # use outlive_sqlite::{Options, SqliteStore, doctor};
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("shop.db");
/// # let _store = SqliteStore::open(&file, Options::default()).unwrap();
/// for finding in doctor::examine(&file).unwrap().findings {
///     println!("{:?}: {} ({}); {}", finding.id, finding.found, finding.holds, finding.remedy);
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// What it is about.
    pub kind: FindingKind,
    /// The instance concerned, if any.
    pub num: Option<InstanceNum>,
    /// The id of that instance, if it still exists.
    pub id: Option<String>,
    /// What was found.
    pub found: String,
    /// What should hold.
    pub holds: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// What a finding is about.
///
/// ```
/// use outlive_sqlite::doctor::FindingKind;
/// assert_eq!(FindingKind::NoWake.to_string(), "no wake");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum FindingKind {
    /// A page, an index or a table of the file is damaged.
    File,
    /// A file-wide number is missing or behind.
    Mark,
    /// The row of an instance is not what was written.
    Row,
    /// A status contradicts the columns that belong to it.
    Status,
    /// A live instance that nothing will resume: no wake, no lease, and it does not wait for anybody.
    NoWake,
    /// An impossible wake or owner.
    Owner,
    /// A message that nobody will process.
    Unheard,
    /// A message that is not what was written, or is in the wrong place.
    Inbox,
    /// A journal that is damaged, out of order, has a gap, or cannot be replayed.
    Journal,
    /// A message, taken signal or dedup key without its token, or two messages at one position.
    Token,
    /// Rows of an instance that no longer exists.
    Orphan,
    /// The tag index has an entry too many or too few.
    Tag,
    /// A counter that differs from the number of rows.
    Counter,
    /// A value, stream or answer that is not what was given out.
    Output,
    /// The lifecycle events of an instance have a gap, are out of order, or are incomplete.
    Feed,
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "damaged file",
            Self::Mark => "mark",
            Self::Row => "damaged row",
            Self::Status => "status",
            Self::NoWake => "no wake",
            Self::Owner => "owner",
            Self::Unheard => "unheard message",
            Self::Inbox => "inbox",
            Self::Journal => "journal",
            Self::Token => "token",
            Self::Orphan => "orphan rows",
            Self::Tag => "tag",
            Self::Counter => "counter",
            Self::Feed => "feed",
            Self::Output => "output",
        })
    }
}

/// The check in progress, for progress displays. A long check is reported repeatedly.
///
/// ```
/// # use outlive_sqlite::{Options, SqliteStore, doctor};
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("shop.db");
/// # let _store = SqliteStore::open(&file, Options::default()).unwrap();
/// let mut made = 0;
/// doctor::examine_with(&file, |check: doctor::CheckProgress| made = check.number).unwrap();
/// assert!(made > 10);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CheckProgress {
    /// What the check examines.
    pub name: &'static str,
    /// The number of the check, from 1.
    pub number: usize,
    /// The number of checks.
    pub of: usize,
    /// How many rows the check has read so far, if it reads them one by one.
    pub rows: u64,
}
