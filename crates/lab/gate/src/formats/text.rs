//! The report as text for a terminal, at most 80 columns wide where words allow it.

use super::single_line;
use crate::decision::{Method, Verdict};
use crate::report::{ComparisonReport, GateReport};
use core::fmt::Write as _;

/// The width of a line.
const WIDTH: usize = 80;

/// The width of the verdict column.
const INDENT: usize = 14;

/// Renders a report: all failures and warnings, then what passes. Comparisons with identical results are counted.
pub fn render_text(report: &GateReport) -> String {
    let mut text = String::new();
    push(&mut text, 6, "base", &single_line(&report.base));
    push(&mut text, 6, "head", &single_line(&report.head));
    for (scenario, comparisons) in report.scenarios() {
        writeln!(text, "\n{}", single_line(scenario)).expect("writing to a string cannot fail");
        let mut sorted: Vec<&ComparisonReport> = comparisons.iter().collect();
        sorted.sort_by_key(|comparison| core::cmp::Reverse(comparison.verdict));
        for comparison in sorted.iter().filter(|comparison| comparison.method != Method::Identical) {
            push(&mut text, INDENT, verdict_word(comparison.verdict), &single_line(&comparison.title()));
            push(&mut text, INDENT, "", &single_line(&values_sentence(comparison)));
        }
        let identical = sorted.iter().filter(|comparison| comparison.method == Method::Identical).count();
        if identical > 0 {
            let metrics = if identical == 1 { "metric" } else { "metrics" };
            push(
                &mut text,
                INDENT,
                verdict_word(Verdict::Pass),
                &format!("{identical} {metrics} with identical results"),
            );
        }
    }
    if !report.notes.is_empty() {
        text.push('\n');
        report.notes.iter().for_each(|note| push(&mut text, 6, "note", &single_line(note)));
    }
    writeln!(text, "\ngate: {} ({})", report.verdict.word(), report.summarise())
        .expect("writing to a string cannot fail");
    text
}

fn values_sentence(comparison: &ComparisonReport) -> String {
    let [base, head] = [comparison.base, comparison.head].map(ComparisonReport::format_value);
    format!("{base} -> {head}: {}", comparison.explain())
}

const fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fail => "FAIL",
        Verdict::Inconclusive => "inconclusive",
        Verdict::Pass => "pass",
    }
}

/// Appends a label and a text, which wraps between words.
fn push(text: &mut String, indent: usize, label: &str, content: &str) {
    let mut line = format!("{label:<indent$}");
    let mut length = indent;
    for (number, word) in content.split_whitespace().enumerate() {
        let needed = word.chars().count() + usize::from(number > 0);
        if number > 0 && length + needed > WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(indent);
            length = indent;
        } else if number > 0 {
            line.push(' ');
            length += 1;
        }
        line.push_str(word);
        length += word.chars().count();
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::test_report::report;
    use super::*;

    #[test]
    fn failures_come_first_and_identical_results_are_counted() {
        let text = render_text(&report());
        let fail = text.find("FAIL          flows.total_gbps [law swift]").expect("the failure is shown");
        let pass = text.find("pass          rpc.latency_p99_us [law swift]").expect("the pass is shown");
        assert!(fail < pass, "{text}");
        assert!(text.contains("changed by -5.00 % (-6.00 to -4.00 %), beyond"), "{text}");
        assert!(text.contains("1 metric with identical results"), "{text}");
        assert!(text.ends_with("gate: fail (4 comparisons: 1 fail, 1 inconclusive, 2 pass)\n"), "{text}");
    }

    #[test]
    fn lines_are_short_and_have_no_control_characters() {
        let text = render_text(&report());
        for line in text.lines() {
            assert!(!line.contains(char::is_control), "{line:?}");
            let longest_word = line.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0);
            assert!(line.chars().count() <= WIDTH.max(INDENT + longest_word), "{line}");
        }
    }
}
