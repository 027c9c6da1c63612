//! Makes what attempts append durable through the committer, in the order in which they append it.

use std::sync::Arc;

use outlive_core::id::Epoch;
use outlive_core::output::OutputWrite;
use outlive_core::store::commit::Write;

use crate::instance::outlet::{Giving, Outlet};
use crate::instance::random::RandomSource;
use crate::runtime::committer::Committer;

/// The outlet of an engine.
pub(crate) struct CommitterOutlet {
    pub(crate) committer: Arc<Committer>,
    pub(crate) random: Arc<RandomSource>,
    pub(crate) epoch: Epoch,
}

impl Outlet for CommitterOutlet {
    fn give(&self, mut output: OutputWrite) -> Giving {
        (output.epoch, output.token) = (self.epoch, self.random.token());
        let committer = self.committer.clone();
        Box::pin(async move { committer.write(Write::Output(output.into())).await })
    }
}
