//! Defects that were put in on purpose, each of which a tool must catch.

use crate::tools::{Lines, Order};

pub(super) fn run(order: &Order) -> Result<Lines, String> {
    let _ = order.amount(0, 0);
    Err("it is not built yet".to_owned())
}
