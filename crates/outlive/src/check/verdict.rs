//! What would become of a run under the code at hand.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What would become of a run.
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
    /// It goes on where it is.
    Fine,
    /// It asks for operations that it had not asked for where it stands. They run when it is replayed with this code,
    /// and it goes on.
    NewSteps {
        /// What it asks for.
        asked: Vec<Operation>,
        /// What is recorded behind them: sleeps, or what was [allowed](Allow::NewBeforeRecorded).
        unreached: Vec<Operation>,
    },
    /// What is recorded is not asked for. The run goes on without it, unless its workflow is strict.
    Orphaned {
        /// What is recorded.
        recorded: Vec<Operation>,
    },
    /// It asks for operations that are not recorded before it has asked for all that is. They may be what is recorded
    /// under a new name, key or scope, and would be done again; or they are new, and what is recorded comes later or is
    /// gone. A check cannot tell which.
    NewBeforeRecorded {
        /// What it asks for.
        asked: Vec<Operation>,
        /// What is recorded and not reached.
        unreached: Vec<Operation>,
    },
    /// The workflow uses a value that [`provide_with`](crate::Builder::provide_with) makes, outside a step. A check makes
    /// none, so it cannot replay the run.
    NeedsValue {
        /// The type of the value.
        type_name: String,
    },
    /// What is recorded seems to have another name now, under which it would be done again.
    Renamed {
        /// Each operation with both its names.
        renames: Vec<Rename>,
    },
    /// What is recorded does not read as the type that the code asks for: the run would be stuck.
    TypeChanged {
        /// What does not read: the input, a step or a signal.
        what: String,
        /// The sentence that the run would be stuck with.
        sentence: String,
    },
    /// It was paused, and would fail at once.
    Fails {
        /// What with.
        failure: String,
    },
    /// It would be stuck, or stays so.
    Stuck {
        /// The sentence that it would be stuck with.
        sentence: String,
    },
}

/// A verdict that is no reason not to deploy, for those who know their change: see [`Report::allow`](super::Report::allow).
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

/// An operation by its identity, and where it is called.
///
/// ```
/// let operation = outlive::check::Operation { name: "step:charge".into(), site: "src/shop.rs:12".into() };
/// assert_eq!(operation.to_string(), "step:charge (src/shop.rs:12)");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Operation {
    /// Its identity, as in the journal.
    pub name: String,
    /// The place of the call.
    pub site: String,
}

/// An operation that seems to have another name now.
///
/// ```
/// # use outlive::check::{Operation, Rename};
/// # let at = |name: &str| Operation { name: name.into(), site: "src/shop.rs:12".into() };
/// let rename = Rename { from: at("step:charge"), to: at("step:charge card"), was: Some("charge".into()) };
/// assert!(rename.to_string().contains("add `.was(\"charge\")`"));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rename {
    /// What is recorded.
    pub from: Operation,
    /// What the code asks for.
    pub to: Operation,
    /// What to say with `.was(..)`, where that helps: for a step of which nothing but the name is another.
    pub was: Option<String>,
}

impl Verdict {
    /// A word or two for it.
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
            Self::Fails { .. } => "would fail",
            Self::Stuck { .. } => "would be stuck",
        }
    }

    /// How bad that is: 0 goes on as it should, 1 must be looked at before a deploy, 2 does not go on.
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
            Self::TypeChanged { .. } | Self::Fails { .. } | Self::Stuck { .. } => 2,
        }
    }

    /// What there is to say beside the word.
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
                format!("when it is replayed after the deploy, it asks for {}", join(asked))
            }
            Self::NewSteps { asked, unreached } => {
                let (asked, unreached) = (join(asked), join(unreached));
                format!(
                    "when it is replayed after the deploy, it asks for {asked} before what is recorded: {unreached}"
                )
            }
            Self::Orphaned { recorded } => format!("recorded but not asked for: {}", join(recorded)),
            Self::NewBeforeRecorded { asked, unreached } => format!(
                "asks for {}, not recorded, before it has reached {}, recorded: if that is one of these under a new \
                 name, key or scope, it is done again (keep the old one, or add `.was(..)` with the old name); if it is \
                 new, it is done first, and these come later or are gone (then allow new-before-recorded)",
                join(asked),
                join(unreached)
            ),
            Self::NeedsValue { type_name } => format!(
                "uses {type_name} outside a step, which `provide_with` makes and a check does not; take it with \
                 `ctx.get` inside the step, or use `provide`"
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
            Some(was) => write!(f, "add `.was({was:?})`, or it runs again; if it is another step, keep it as it is"),
            None => {
                write!(f, "key or scope, keep the old one, or it is done again; if it is another, keep it as it is")
            }
        }
    }
}

fn join(items: &[impl fmt::Display]) -> String {
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    texts.join(", ")
}
