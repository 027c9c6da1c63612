//! What a power cut may leave of the file, under the real SQLite store; and every I/O that can fail.

use crate::tools::{Lines, Order};

pub(super) fn run(order: &Order) -> Result<Lines, String> {
    let _ = order.amount(0, 0);
    Err("it is not built yet".to_owned())
}
