//! Summary statistics: percentiles, rounded for a reader.

use std::time::Duration;

use serde_json::{Value, json};

/// Returns the value that this percentage of sorted values does not exceed.
pub(crate) fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    sorted.get(sorted.len().checked_sub(1)? * percent / 100).copied()
}

/// Returns a percentile of sorted times, in microseconds.
pub(crate) fn micros(sorted: &[Duration], percent: usize) -> Option<f64> {
    percentile(sorted, percent).map(|time| time.as_nanos() as f64 / 1e3)
}

/// Rounds a number to this many decimals; null if there is none.
pub(crate) fn rounded(value: Option<f64>, digits: i32) -> Value {
    let scale = 10_f64.powi(digits);
    match value.filter(|value| value.is_finite()) {
        Some(value) if digits == 0 => json!(value.round() as i64),
        Some(value) => json!((value * scale).round() / scale),
        None => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_one_of_the_values() {
        let values: Vec<u32> = (1..=100).collect();
        let at = |percent| percentile(&values, percent);
        assert_eq!([at(0), at(50), at(99), at(100)], [Some(1), Some(50), Some(99), Some(100)]);
        assert_eq!(percentile::<u32>(&[], 50), None);
        assert_eq!(percentile(&[7], 99), Some(7));
    }

    #[test]
    fn non_finite_number_is_null() {
        assert_eq!(rounded(Some(1.0 / 0.0), 2), Value::Null);
        assert_eq!(rounded(Some(1.236), 2), json!(1.24));
        assert_eq!(rounded(Some(2.6), 0), json!(3));
    }
}
