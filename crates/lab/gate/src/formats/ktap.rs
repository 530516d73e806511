//! The report as KTAP version 1, which kselftest and the CI of netdev read.

use super::single_line;
use crate::decision::Verdict;
use crate::report::GateReport;
use core::fmt::Write as _;

/// Renders a report. An inconclusive comparison is skipped. Explanations are diagnostic lines before the result.
pub fn render_ktap(report: &GateReport) -> String {
    let mut text = format!("KTAP version 1\n1..{}\n", report.comparisons.len());
    for (number, comparison) in (1..).zip(&report.comparisons) {
        let name = format!("{} {}", comparison.scenario, comparison.title());
        // A number sign would begin a directive.
        let name = single_line(&name).replace('#', "_");
        let explanation = single_line(&comparison.explain());
        let result = match comparison.verdict {
            Verdict::Pass => format!("ok {number} {name}"),
            Verdict::Fail => format!("not ok {number} {name}"),
            Verdict::Inconclusive => format!("ok {number} {name} # SKIP inconclusive"),
        };
        writeln!(text, "# {explanation}\n{result}").expect("writing to a string cannot fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::test_report::report;
    use super::*;

    #[test]
    fn every_comparison_has_one_result_line() {
        let text = render_ktap(&report());
        let mut lines = text.lines();
        assert_eq!((lines.next(), lines.next()), (Some("KTAP version 1"), Some("1..4")));
        let results: Vec<&str> = lines.filter(|line| !line.starts_with("# ")).collect();
        assert_eq!(results.len(), 4, "{text}");
        assert_eq!(results[0], "ok 1 tiny rpc.latency_p99_us [law swift]");
        assert_eq!(results[1], "not ok 2 tiny flows.total_gbps [law swift]");
        assert!(results[3].starts_with("ok 4 ") && results[3].ends_with(" # SKIP inconclusive"), "{text}");
        assert_eq!(results[3].matches('#').count(), 1, "a name has no directive: {text}");
    }
}
