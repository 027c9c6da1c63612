//! Real processes that are killed at random moments, while another one keeps the ledger of what was acknowledged.

use crate::tools::{Lines, Order};

pub(super) fn run(order: &Order) -> Result<Lines, String> {
    let _ = order.amount(0, 0);
    Err("it is not built yet".to_owned())
}
