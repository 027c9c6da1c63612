//! Which runs a command is about.

use outlive::{Filter, StatusKind};

use crate::typed;

#[derive(clap::Args)]
pub(crate) struct FilterArgs {
    /// Of this workflow
    #[arg(long)]
    workflow: Option<String>,
    /// In this status; can be given again for another one
    #[arg(long, value_parser = typed::status)]
    status: Vec<StatusKind>,
    /// Whose id begins with this
    #[arg(long)]
    prefix: Option<String>,
    /// With this tag; can be given again for another one
    #[arg(long, value_name = "KEY=VALUE", value_parser = typed::pair)]
    tag: Vec<(String, String)>,
}

impl FilterArgs {
    pub(crate) fn filter(&self) -> Filter {
        let mut filter = Filter::new();
        filter.workflow = self.workflow.clone();
        filter.id_prefix = self.prefix.clone();
        filter.statuses = self.status.clone();
        filter.tags = self.tag.iter().cloned().collect();
        filter
    }
}
