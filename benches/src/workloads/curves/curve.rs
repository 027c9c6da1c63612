//! Collects the points of a curve.

use serde_json::{Value, json};

use crate::harness::figures::Measured;
use crate::harness::numbers::rounded;

/// The points of a curve, and the measurement of the last one.
#[derive(Default)]
pub(crate) struct Curve {
    points: Vec<Value>,
    last: Measured,
}

impl Curve {
    /// Adds a point.
    pub(crate) fn add(&mut self, x: u64, measured: Measured) {
        let steps = measured.steps as f64;
        self.points.push(json!({
            "x": x,
            "steps_per_sec": rounded(Some(steps / measured.spent.elapsed.as_secs_f64()), 0),
            "cpu_us_per_step": rounded(Some(measured.spent.cpu.as_secs_f64() * 1e6 / steps), 2),
        }));
        self.last = measured;
    }

    /// Returns the figures of the last point, with all points. Its file may hold other runs too.
    pub(crate) fn measured(self) -> Measured {
        Measured { runs: 0, own: vec![("points", json!(self.points))], ..self.last }
    }
}
