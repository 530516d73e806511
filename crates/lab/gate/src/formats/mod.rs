//! The formats of a report: one file per format.
//!
//! Names come from scenario files and can contain anything. Every format escapes them.

mod bencher;
mod benchmark_action;
mod github;
mod json;
mod junit;
mod ktap;
#[cfg(test)]
mod reader_tests;
#[cfg(test)]
mod test_report;
mod text;

pub use bencher::render_bencher;
pub use benchmark_action::{BenchmarkDirection, render_benchmark};
pub use github::{render_annotations, render_markdown};
pub use json::render_json;
pub use junit::render_junit;
pub use ktap::render_ktap;
pub use text::render_text;

use crate::stats::median;

/// Returns a text on one line: control characters become visible escapes.
fn single_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

/// Returns the unit of a metric, which is the end of its name.
fn unit_of(metric: &str) -> &'static str {
    const UNITS: [(&str, &str); 6] = [
        ("_us", "us"),
        ("_ms", "ms"),
        ("_gbps", "Gbps"),
        ("_bytes", "bytes"),
        ("_packets", "packets"),
        ("_gb_per_s", "GB/s"),
    ];
    UNITS.iter().find(|(end, _)| metric.ends_with(end)).map_or("", |(_, unit)| unit)
}

/// Returns the median, the smallest and the largest value.
fn spread(values: &[f64]) -> Option<[f64; 3]> {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some([median(values)?, low, high])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(
            single_line("a\nb\t\u{7}\u{1b}[31m\u{2028}\u{b5}"),
            "a\\nb\\t\\u{7}\\u{1b}[31m\\u{2028}\u{b5}"
        );
    }

    #[test]
    fn the_unit_is_the_end_of_the_name() {
        assert_eq!(unit_of("a.latency_p99_us"), "us");
        assert_eq!(unit_of("a.algbw_gb_per_s"), "GB/s");
        assert_eq!(unit_of("a.jain"), "");
    }
}
