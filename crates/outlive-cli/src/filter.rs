//! The arguments that select runs.

use outlive::{Filter, StatusKind};

use crate::typed;

#[derive(clap::Args)]
pub(crate) struct FilterArgs {
    /// Only runs of this workflow
    #[arg(long)]
    workflow: Option<String>,
    /// Only runs in this status; can be repeated
    #[arg(long, value_parser = typed::status)]
    status: Vec<StatusKind>,
    /// Only runs whose id starts with this
    #[arg(long)]
    prefix: Option<String>,
    /// Only runs that this version of the code started
    #[arg(long)]
    version: Option<String>,
    /// Only runs with this tag; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = typed::pair)]
    tag: Vec<(String, String)>,
}

impl FilterArgs {
    pub(crate) fn filter(&self) -> Filter {
        let mut filter = Filter::runs();
        filter.workflow = self.workflow.clone();
        filter.id_prefix = self.prefix.clone();
        filter.version = self.version.clone();
        filter.statuses = self.status.clone();
        filter.tags = self.tag.iter().cloned().collect();
        filter
    }
}
