//! The report for GitHub Actions: a Markdown summary, and annotations as workflow commands.

use super::single_line;
use crate::decision::Verdict;
use crate::report::{ComparisonReport, GateReport};
use core::fmt::Write as _;

/// GitHub shows this many annotations of each kind per step.
const MAX_ANNOTATIONS: usize = 10;

/// The most rows of the table. A summary may have 1 MiB, and a row has at most a few hundred bytes.
const MAX_ROWS: usize = 1_000;

/// The longest name in the table and in annotations. Names come from files.
const MAX_NAME: usize = 200;

/// The longest note in the summary.
const MAX_NOTE: usize = 2_000;

/// Renders the summary of a report as Markdown, worst comparisons first.
pub fn render_markdown(report: &GateReport) -> String {
    let mut text = format!("## poseidon gate: {}\n\n", report.verdict.word());
    let mut line = |part: core::fmt::Arguments<'_>| {
        text.write_fmt(part).expect("writing to a string cannot fail");
        text.push('\n');
    };
    line(format_args!("{}.\n", report.summarise()));
    line(format_args!("| | scenario | metric | base | head | change | margin | adjusted p | verdict |"));
    line(format_args!("|---|---|---|---:|---:|---:|---:|---:|---|"));
    let sorted = report.worst_first();
    for comparison in sorted.iter().take(MAX_ROWS) {
        let [base, head] = [comparison.base, comparison.head].map(ComparisonReport::format_value);
        let [scenario, title] =
            [&comparison.scenario, &comparison.title()].map(|name| escape(&shorten(name)));
        line(format_args!(
            "| {} | {scenario} | {title} | {base} | {head} | {} | {} | {} | {} |",
            symbol(comparison.verdict),
            comparison.format_change(),
            comparison.format_margin(),
            ComparisonReport::format_p(comparison.adjusted_p),
            comparison.verdict.word()
        ));
    }
    if sorted.len() > MAX_ROWS {
        line(format_args!("\n{} more comparisons are not shown.", sorted.len() - MAX_ROWS));
    }
    line(format_args!(
        "\nBase: {}. Head: {}.",
        escape(&shorten(&report.base)),
        escape(&shorten(&report.head))
    ));
    for note in &report.notes {
        line(format_args!("\n- {}", escape(&shorten_to(note, MAX_NOTE))));
    }
    text
}

/// Renders the failures as errors and the inconclusive comparisons as warnings.
pub fn render_annotations(report: &GateReport) -> String {
    let mut text = String::new();
    for (verdict, command) in [(Verdict::Fail, "error"), (Verdict::Inconclusive, "warning")] {
        let all: Vec<&ComparisonReport> =
            report.comparisons.iter().filter(|comparison| comparison.verdict == verdict).collect();
        // The last annotation counts those that GitHub would not show.
        let shown = if all.len() > MAX_ANNOTATIONS { MAX_ANNOTATIONS - 1 } else { all.len() };
        for comparison in &all[..shown] {
            let file = report.files.get(&comparison.scenario);
            let file = file.map(|file| format!("file={},", escape_property(file))).unwrap_or_default();
            let title = format!("gate: {} in {}", comparison.title(), comparison.scenario);
            let title = escape_property(&shorten(&title));
            let message = escape_data(&comparison.explain());
            writeln!(text, "::{command} {file}title={title}::{message}")
                .expect("writing to a string cannot fail");
        }
        if shown < all.len() {
            let rest = all.len() - shown;
            writeln!(text, "::{command} title=gate::{rest} more comparisons: {}", verdict.word())
                .expect("writing to a string cannot fail");
        }
    }
    text
}

const fn symbol(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => ":white_check_mark:",
        Verdict::Inconclusive => ":warning:",
        Verdict::Fail => ":x:",
    }
}

fn shorten(name: &str) -> String {
    shorten_to(name, MAX_NAME)
}

fn shorten_to(text: &str, limit: usize) -> String {
    let text = single_line(text);
    if text.chars().count() <= limit {
        return text;
    }
    text.chars().take(limit - 1).chain(['\u{2026}']).collect()
}

/// Escapes a text for a cell of a Markdown table. Any punctuation may follow a backslash.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if "\\`*_{}[]()<>#|~&!".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// Escapes the message of a workflow command.
fn escape_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a workflow command.
fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::super::test_report::{comparison, report};
    use super::*;

    #[test]
    fn a_summary_has_one_row_per_comparison_and_the_worst_first() {
        let text = render_markdown(&report());
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| :")).collect();
        assert_eq!(rows.len(), 4, "{text}");
        assert!(rows[0].starts_with("| :x: | tiny | flows.total\\_gbps \\[law swift\\] |"), "{text}");
        assert!(rows[1].starts_with("| :warning: |"), "{text}");
        let unescaped = |row: &str| row.replace("\\|", "").matches('|').count();
        assert!(rows.iter().all(|row| unescaped(row) == 10), "{text}");
    }

    #[test]
    fn annotations_are_one_line_each_and_escaped() {
        let text = render_annotations(&report());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        let expected =
            "::error file=ci/tiny%2C1%3A2.toml,title=gate%3A flows.total_gbps [law swift] in tiny::";
        assert!(lines[0].starts_with(expected), "{text}");
        assert!(lines[1].starts_with("::warning title=gate%3A queue.delay_p99_us"), "{text}");
        assert!(lines[1].contains("%250A%3A%3Aerror%3A%3A"), "a name cannot end the command: {text}");
    }

    #[test]
    fn annotations_and_rows_are_bounded() {
        let mut report = report();
        report.comparisons = (0..1_200)
            .map(|i| ComparisonReport {
                verdict: Verdict::Fail,
                ..comparison("s", &format!("n {i}"), &"m".repeat(500))
            })
            .collect();
        let text = render_annotations(&report);
        assert_eq!(text.lines().count(), MAX_ANNOTATIONS);
        assert!(text.ends_with("::error title=gate::1191 more comparisons: fail\n"), "{text}");
        let text = render_markdown(&report);
        assert!(
            text.len() < 1 << 20 && text.contains("200 more comparisons are not shown"),
            "{}",
            text.len()
        );
    }
}
