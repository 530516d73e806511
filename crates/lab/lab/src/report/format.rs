//! Formats values and verdicts for readers.

use super::StudyReport;
use crate::judge::{CellVerdict, Outcome, Verdict};
use crate::number::format_number;
use crate::reduce::format_percent;

/// Formats a cell's measured value with its confidence interval, spread over seeds and share of unfinished messages.
pub fn format_cell(cell: &CellVerdict) -> String {
    let Some(measured) = &cell.measured else { return cell.reason.clone().unwrap_or_default() };
    let number = format_number;
    let mut text = number(measured.mean);
    match (measured.interval, measured.half.filter(|half| *half > 0.0)) {
        (Some([low, high]), Some(_)) => text.push_str(&format!(" ({} to {})", number(low), number(high))),
        (None, Some(half)) => text.push_str(&format!(" ± {}", number(half))),
        (_, None) => {}
    }
    if let Some([low, high]) = measured.spread.filter(|[low, high]| low < high) {
        text.push_str(&format!(", seeds {} to {}", number(low), number(high)));
    }
    if let Some(share) = cell.unfinished_share.filter(|share| *share > 0.0) {
        text.push_str(&format!(", {} unfinished", format_percent(share)));
    }
    text
}

/// Formats a claim's measured values on one line, as a single value or as a range over cells.
pub fn format_measured(verdict: &Verdict) -> String {
    match verdict.cells.as_slice() {
        [] => String::new(),
        [cell] => format_cell(cell),
        cells => format_range(cells),
    }
}

/// Formats the range of values over several cells, followed by the first reason for a missing value.
fn format_range(cells: &[CellVerdict]) -> String {
    let means: Vec<f64> = cells.iter().filter_map(|cell| Some(cell.measured.as_ref()?.mean)).collect();
    let (low, high) = (
        means.iter().copied().fold(f64::INFINITY, f64::min),
        means.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    );
    let range = match means.len() {
        0 => None,
        1 => Some(format_number(low)),
        _ => Some(format!("{} to {}", format_number(low), format_number(high))),
    };
    let missing = cells.len() - means.len();
    let more = if missing > 1 { format!(" and {} more", missing - 1) } else { String::new() };
    let reason = cells.iter().find_map(|cell| cell.reason.as_ref()).map(|reason| format!("{reason}{more}"));
    let mut text = range.into_iter().chain(reason).collect::<Vec<_>>().join("; ");
    let unfinished = cells.iter().filter_map(|cell| cell.unfinished_share).fold(0.0, f64::max);
    if unfinished > 0.0 && missing == 0 {
        text.push_str(&format!(", up to {} unfinished", format_percent(unfinished)));
    }
    text
}

/// Returns the word for an outcome.
pub const fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Holds => "holds",
        Outcome::Fails => "fails",
        Outcome::NotComparable => "not comparable",
        Outcome::NotRun => "not run",
    }
}

/// Formats the number of seeds in a study.
pub fn format_seeds(report: &StudyReport) -> String {
    match report.seeds {
        (0, 0) => "no runs".into(),
        (1, 1) => "one seed".into(),
        (fewest, most) if fewest == most => format!("{most} seeds"),
        (fewest, most) => format!("{fewest} to {most} seeds"),
    }
}
