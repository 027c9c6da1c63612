//! Verdicts: what would happen to a run with the current code.

use std::fmt;

use outlive_core::workflow::{OpKind, ParsedIdentity};
use serde::{Deserialize, Serialize};

/// What would happen to a run.
///
/// ```
/// use outlive::check::Verdict;
/// fn may_deploy(verdict: &Verdict) -> bool {
///     match verdict {
///         Verdict::Fine | Verdict::NewSteps { .. } => true,
///         other => other.severity() < 2,
///     }
/// }
/// assert!(may_deploy(&Verdict::Fine));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// The run resumes where it is.
    Fine,
    /// The run asks for operations that it had not asked for at this point. They run when it is replayed with this
    /// code, and it continues.
    NewSteps {
        /// What the run asks for.
        asked: Vec<Operation>,
        /// What is recorded after them: sleeps, or what was [allowed](Allow::NewBeforeRecorded).
        unreached: Vec<Operation>,
    },
    /// What is recorded is not asked for. The run continues without it, unless its workflow is strict.
    Orphaned {
        /// What is recorded.
        recorded: Vec<Operation>,
    },
    /// The run asks for operations that are not recorded before it has asked for all that are. They may be recorded
    /// ones under a new name, key or scope, and would be repeated; or they are new, and the recorded ones come later or
    /// are gone. A check cannot tell which.
    NewBeforeRecorded {
        /// What the run asks for.
        asked: Vec<Operation>,
        /// What is recorded and not reached.
        unreached: Vec<Operation>,
    },
    /// The workflow uses a value that [`provide_with`](crate::Builder::provide_with) creates, outside a step. A check
    /// creates none, so it cannot replay the run.
    NeedsValue {
        /// The type of the value.
        type_name: String,
    },
    /// What is recorded seems to have another name now, under which it would be repeated.
    Renamed {
        /// Each operation with both its names.
        renames: Vec<Rename>,
    },
    /// What is recorded does not deserialize as the type that the code asks for: the run would be stuck.
    TypeChanged {
        /// What does not deserialize: the input, a step, a signal or the result of a child.
        what: String,
        /// The reason that the stuck run would give.
        sentence: String,
    },
    /// Undos are recorded that the code no longer has, for operations that have succeeded: the run would be stuck when it
    /// has to undo what it has done.
    LostUndos {
        /// The undos, each with the place where its operation was called.
        undos: Vec<Operation>,
    },
    /// The run was paused, and would fail at once.
    Fails {
        /// What the run would fail with.
        failure: String,
    },
    /// The run would be stuck, or stays stuck.
    Stuck {
        /// The reason that the stuck run would give.
        sentence: String,
    },
}

/// A verdict to accept, for those who know their change. See [`Report::allow`](super::Report::allow).
///
/// ```
/// use outlive::check::{Allow, Report};
/// fn may_deploy(report: Report) -> bool {
///     report.allow(Allow::NewBeforeRecorded).is_fine()
/// }
/// assert!(may_deploy(Report::default()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Allow {
    /// [`Verdict::NewBeforeRecorded`]: the operations are new, and none is a recorded one under a new name.
    NewBeforeRecorded,
    /// [`Verdict::Renamed`]: what looks like a recorded operation is another one.
    Renamed,
}

/// An operation: its identity, and where it is called.
///
/// ```
/// let operation = outlive::check::Operation { name: "step:charge".into(), site: "src/shop.rs:12".into() };
/// assert_eq!(operation.to_string(), "step:charge (src/shop.rs:12)");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Operation {
    /// The identity, as in the journal.
    pub name: String,
    /// Where it is called.
    pub site: String,
}

/// An operation that seems to have been renamed.
///
/// ```
/// # use outlive::check::{Operation, Rename};
/// # let at = |name: &str| Operation { name: name.into(), site: "src/shop.rs:12".into() };
/// let rename = Rename { from: at("step:charge"), to: at("step:charge card"), was: Some("charge".into()) };
/// assert!(rename.to_string().contains("add `.was(\"charge\")`"));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rename {
    /// The recorded operation.
    pub from: Operation,
    /// The operation that the code asks for.
    pub to: Operation,
    /// What to pass to `.was(..)`, where that helps: for a step of which only the name has changed.
    pub was: Option<String>,
}

impl Verdict {
    /// Returns a word or two for the verdict.
    ///
    /// ```
    /// assert_eq!(outlive::check::Verdict::Fine.word(), "fine");
    /// ```
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::NewSteps { .. } => "new steps",
            Self::Orphaned { .. } => "orphaned",
            Self::NewBeforeRecorded { .. } => "cannot tell",
            Self::NeedsValue { .. } => "needs a value",
            Self::Renamed { .. } => "looks renamed",
            Self::TypeChanged { .. } => "type changed",
            Self::LostUndos { .. } => "lost undos",
            Self::Fails { .. } => "would fail",
            Self::Stuck { .. } => "would be stuck",
        }
    }

    /// Returns how bad it is: 0 resumes as it should, 1 must be looked at before a deploy, 2 does not resume.
    ///
    /// ```
    /// # use outlive::check::Verdict;
    /// assert_eq!(Verdict::Fine.severity(), 0);
    /// assert_eq!(Verdict::Stuck { sentence: "no such workflow".into() }.severity(), 2);
    /// ```
    #[must_use]
    pub fn severity(&self) -> u8 {
        match self {
            Self::Fine | Self::NewSteps { .. } => 0,
            Self::Orphaned { .. } | Self::NewBeforeRecorded { .. } | Self::NeedsValue { .. } | Self::Renamed { .. } => {
                1
            }
            Self::TypeChanged { .. } | Self::LostUndos { .. } | Self::Fails { .. } | Self::Stuck { .. } => 2,
        }
    }

    /// Returns what there is to say besides the word.
    ///
    /// ```
    /// # use outlive::check::Verdict;
    /// assert_eq!(Verdict::Fails { failure: "no card".into() }.details(), "it would fail at once: no card");
    /// ```
    #[must_use]
    pub fn details(&self) -> String {
        match self {
            Self::Fine => String::new(),
            Self::NewSteps { asked, unreached } if unreached.is_empty() => {
                format!("when replayed after the deploy, it asks for {}", join(asked))
            }
            Self::NewSteps { asked, unreached } => {
                let (asked, unreached) = (join(asked), join(unreached));
                format!("when replayed after the deploy, it asks for {asked} before what is recorded: {unreached}")
            }
            Self::Orphaned { recorded } => format!("recorded but not asked for: {}", join(recorded)),
            Self::NewBeforeRecorded { asked, unreached } => {
                // Only a step can have an old name.
                let is_step = |operation: &Operation| ParsedIdentity::of(&operation.name).kind == OpKind::Step.prefix();
                let was = if asked.iter().any(is_step) { ", or add `.was(..)` with the old name" } else { "" };
                format!(
                    "asks for {}, which is not recorded, before it has reached {}, which is: if it is one of those \
                     under a new name, key or scope, it is repeated (keep the old one{was}); if it is new, it comes \
                     first, and those come later or are gone (then allow new-before-recorded)",
                    join(asked),
                    join(unreached)
                )
            }
            Self::NeedsValue { type_name } => format!(
                "uses {type_name} outside a step, which `provide_with` creates and a check does not; get it with \
                 `ctx.get` inside the step, or use `provide`"
            ),
            Self::LostUndos { undos } => format!(
                "recorded undos are not in this version of the code: {}; restore them under these names, or the run is stuck \
                 if it fails or is cancelled",
                join(undos)
            ),
            Self::Renamed { renames } => join(renames),
            Self::TypeChanged { sentence, .. } | Self::Stuck { sentence } => sentence.clone(),
            Self::Fails { failure } => format!("it would fail at once: {failure}"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fine => f.write_str(self.word()),
            other => write!(f, "{}: {}", other.word(), other.details()),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.site)
    }
}

impl fmt::Display for Rename {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not recorded and looks like {}: if it is the same under a new name, ", self.to, self.from)?;
        match &self.was {
            Some(was) => write!(f, "add `.was({was:?})`, or it runs again; if it is another step, leave it as it is"),
            None => {
                write!(f, "key or scope, keep the old one, or it is repeated; if it is another, leave it as it is")
            }
        }
    }
}

fn join(items: &[impl fmt::Display]) -> String {
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    texts.join(", ")
}
