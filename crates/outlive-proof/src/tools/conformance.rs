//! Every store keeps the promises of a store, case by case; two stores that are told the same answer the same.

use crate::tools::{Lines, Order};

pub(super) fn run(order: &Order) -> Result<Lines, String> {
    let _ = order.amount(0, 0);
    Err("it is not built yet".to_owned())
}
