//! Walks through a tree of runs, depth first. Only the path to the current run is in memory, with a page of children per
//! level.

use std::collections::VecDeque;

use outlive::{Client, Counts, PageMark, RunInfo};

use crate::error::CliError;
use crate::open::AnyRun;

/// One step of a walk.
pub(crate) enum TreeStep {
    /// A run. Its children follow, and then its end.
    Run {
        info: Box<RunInfo>,
        /// The lines that lead to it: empty, or such as `│   ├── `.
        branch: String,
    },
    /// The end of a run's children.
    End {
        /// The lines that lead to one more child.
        branch: String,
        left_out: Option<LeftOutChildren>,
    },
}

/// The children of a run beyond the limit.
#[derive(Clone)]
pub(crate) struct LeftOutChildren {
    /// Their number.
    pub(crate) children: u64,
    /// The number of all children by status.
    pub(crate) counts: Counts,
}

/// A walk through a run, its children, their children and so on.
pub(crate) struct TreeWalk {
    client: Client,
    /// The maximum number of children to show of each run.
    limit: usize,
    /// The run to begin with, until it is visited.
    first: Option<AnyRun>,
    /// The runs whose children are being visited, from the top.
    levels: Vec<TreeLevel>,
    has_left_out: bool,
}

/// A run whose children are being visited.
struct TreeLevel {
    run: AnyRun,
    /// The lines in front of its children.
    lines: String,
    page: VecDeque<RunInfo>,
    next: Option<PageMark>,
    is_last_page: bool,
    /// How many children have been shown.
    shown: usize,
    left_out: Option<LeftOutChildren>,
}

impl TreeWalk {
    pub(crate) fn new(client: Client, run: AnyRun, limit: usize) -> Self {
        Self { client, limit, first: Some(run), levels: Vec::new(), has_left_out: false }
    }

    /// Returns `true` if children were left out so far.
    pub(crate) fn has_left_out(&self) -> bool {
        self.has_left_out
    }

    /// Returns the next step, or `None` after the end of the first run.
    pub(crate) async fn next(&mut self) -> Result<Option<TreeStep>, CliError> {
        if let Some(run) = self.first.take() {
            let info = Box::new(run.info().await?);
            self.levels.push(TreeLevel::new(run, String::new()));
            return Ok(Some(TreeStep::Run { info, branch: String::new() }));
        }
        let Some(level) = self.levels.last_mut() else { return Ok(None) };
        let info = level.next(self.limit).await?;
        self.has_left_out |= level.left_out.is_some();
        let Some(info) = info else {
            let end = TreeStep::End { branch: format!("{}└── ", level.lines), left_out: level.left_out.take() };
            self.levels.pop();
            return Ok(Some(end));
        };
        let is_last = level.page.is_empty() && level.left_out.is_none();
        let (arm, line) = if is_last { ("└── ", "    ") } else { ("├── ", "│   ") };
        let (branch, lines) = (format!("{}{arm}", level.lines), format!("{}{line}", level.lines));
        let below = match self.client.get_run(&info.id).await {
            Ok(run) => TreeLevel::new(run, lines),
            // It was purged meanwhile.
            Err(error) if error.is_not_found() => TreeLevel::ended(level.run.clone(), lines),
            Err(error) => return Err(error.into()),
        };
        self.levels.push(below);
        Ok(Some(TreeStep::Run { info: Box::new(info), branch }))
    }
}

impl TreeLevel {
    fn new(run: AnyRun, lines: String) -> Self {
        let page = VecDeque::new();
        Self { run, lines, page, next: None, is_last_page: false, shown: 0, left_out: None }
    }

    /// Returns a level without children.
    fn ended(run: AnyRun, lines: String) -> Self {
        Self { is_last_page: true, ..Self::new(run, lines) }
    }

    /// Returns the next child. Afterwards, the page has the one that follows, if there is one to show.
    async fn next(&mut self, limit: usize) -> Result<Option<RunInfo>, CliError> {
        self.fill().await?;
        if self.shown >= limit {
            self.leave_out_rest().await?;
            return Ok(None);
        }
        let Some(child) = self.page.pop_front() else { return Ok(None) };
        self.shown += 1;
        self.fill().await?;
        if self.shown >= limit {
            self.leave_out_rest().await?;
        }
        Ok(Some(child))
    }

    /// Reads until the page has a child, if there is one.
    async fn fill(&mut self) -> Result<(), CliError> {
        while self.page.is_empty() && !self.is_last_page {
            match self.run.children().after(self.next).await {
                Ok(page) => {
                    self.next = page.next;
                    self.is_last_page = page.next.is_none();
                    self.page.extend(page.runs);
                }
                // It was purged meanwhile.
                Err(error) if error.is_not_found() => self.is_last_page = true,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Leaves out the children that have not been shown, if there are any.
    async fn leave_out_rest(&mut self) -> Result<(), CliError> {
        if self.page.is_empty() {
            return Ok(());
        }
        let counts = self.run.children().count().await?;
        let children = counts.total().saturating_sub(self.shown as u64).max(1);
        self.left_out = Some(LeftOutChildren { children, counts });
        self.page.clear();
        self.is_last_page = true;
        Ok(())
    }
}
