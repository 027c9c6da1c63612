//! Draws a plot as an SVG image: one line with points, readable on light and dark backgrounds.

use std::fmt::Write as _;

/// A plot. The x axis is logarithmic and may begin at 0; the y axis is linear from 0.
pub(crate) struct Plot {
    pub(crate) title: &'static str,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 930.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 340.0;
/// Limit on horizontal grid lines.
const LINES: f64 = 6.0;

const STYLE: &str = "text { font: 13px sans-serif; fill: #333 } .title { font-size: 16px } \
.grid { stroke: #ccc } .axis { stroke: #333 } .line { fill: none; stroke: #0969da; stroke-width: 2 } \
.point { fill: #0969da } .value { font-size: 11px } \
@media (prefers-color-scheme: dark) { text { fill: #ddd } .grid { stroke: #444 } .axis { stroke: #ddd } \
.line { stroke: #58a6ff } .point { fill: #58a6ff } }";

impl Plot {
    /// Renders the image.
    pub(crate) fn svg(&self) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n",
            title = self.title
        );
        let middle = f64::midpoint(LEFT, RIGHT);
        text(&mut svg, (middle, 25.0), "middle", "title", self.title);
        text(&mut svg, (middle, HEIGHT - 15.0), "middle", "label", self.x);
        text(&mut svg, (LEFT, TOP - 10.0), "middle", "label", self.y);
        self.draw_lines_across(&mut svg);
        let places: Vec<(f64, f64)> = self.points.iter().map(|point| self.place(*point)).collect();
        let line: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(svg, "<polyline class=\"line\" points=\"{}\"/>", line.join(" "));
        for ((x, y), (place_x, place_y)) in self.points.iter().zip(&places) {
            let _ = writeln!(svg, "<circle class=\"point\" cx=\"{place_x:.1}\" cy=\"{place_y:.1}\" r=\"4\"/>");
            text(&mut svg, (*place_x, BOTTOM + 20.0), "middle", "tick", &number(*x));
            text(&mut svg, (*place_x, place_y - 10.0), "middle", "value", &number(*y));
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn draw_lines_across(&self, svg: &mut String) {
        let (step, top) = self.ticks();
        let mut value = 0.0;
        while value <= top {
            let y = BOTTOM - value / top * (BOTTOM - TOP);
            let class = if value == 0.0 { "axis" } else { "grid" };
            let _ = writeln!(svg, "<line class=\"{class}\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
            text(svg, (LEFT - 8.0, y + 4.0), "end", "tick", &number(value));
            value += step;
        }
        let _ = writeln!(svg, "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{LEFT}\" y1=\"{TOP}\" y2=\"{BOTTOM}\"/>");
    }

    /// Returns the distance between grid lines, a round number, and the highest of them.
    fn ticks(&self) -> (f64, f64) {
        let most = self.points.iter().map(|(_, y)| *y).fold(f64::MIN_POSITIVE, f64::max);
        let power = 10_f64.powf((most / LINES).log10().floor());
        let fits = |factor: &f64| factor * power * LINES >= most;
        let step = [1.0, 2.0, 5.0].into_iter().find(fits).unwrap_or(10.0) * power;
        (step, (most / step).ceil() * step)
    }

    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let positive = || self.points.iter().map(|(x, _)| *x).filter(|x| *x > 0.0);
        let least = positive().fold(f64::MAX, f64::min);
        let most = positive().fold(f64::MIN_POSITIVE, f64::max);
        // Zero has no logarithm: it is shown a decade before the rest.
        let has_zero = self.points.iter().any(|(x, _)| *x <= 0.0);
        let first = if has_zero { least / 10.0 } else { least };
        let span = (most / first).log10();
        let along = if span > 0.0 { (x.max(first) / first).log10() / span } else { 0.5 };
        let (_, top) = self.ticks();
        let margin = 30.0;
        (LEFT + margin + along * (RIGHT - LEFT - 2.0 * margin), BOTTOM - y / top * (BOTTOM - TOP))
    }
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, class: &str, text: &str) {
    let _ = writeln!(svg, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

/// Formats a number for people: `1,500`, `7.25`.
pub(crate) fn number(value: f64) -> String {
    if value.abs() < 100.0 {
        let text = format!("{value:.2}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = if value < 0.0 { "-".to_owned() } else { String::new() };
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_for_people() {
        let texts = [0.0, 7.25, 99.999, 100.4, 1_500.0, 1_234_567.0, -20_000.0].map(number);
        assert_eq!(texts, ["0", "7.25", "100", "100", "1,500", "1,234,567", "-20,000"]);
    }

    #[test]
    fn points_are_within_the_axes_and_larger_values_are_higher() {
        let points = vec![(0.0, 5.0), (10.0, 7.0), (1_000_000.0, 0.0)];
        let plot = Plot { title: "t", x: "x", y: "y", points: points.clone() };
        let places: Vec<(f64, f64)> = points.iter().map(|point| plot.place(*point)).collect();
        assert!(places.iter().all(|(x, y)| (LEFT..=RIGHT).contains(x) && (TOP..=BOTTOM).contains(y)), "{places:?}");
        assert!(places[0].0 < places[1].0 && places[1].0 < places[2].0, "{places:?}");
        assert!(places[1].1 < places[0].1 && places[0].1 < places[2].1, "{places:?}");
        let svg = plot.svg();
        assert_eq!((svg.matches("<circle").count(), svg.matches("1,000,000").count()), (3, 1), "{svg}");
    }
}
