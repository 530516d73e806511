//! The report as JUnit XML, which Jenkins, GitLab, Azure, Buildkite and others read.
//!
//! A scenario is a test suite, and a comparison is a test case. An inconclusive comparison is skipped, with a message.
//! Elements and attributes are those of the schema of Jenkins (junit-10.xsd of its xUnit plugin).

use crate::decision::Verdict;
use crate::report::{ComparisonReport, GateReport};
use core::fmt::Write as _;

/// Renders a report.
pub fn render_junit(report: &GateReport) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let mut line = |text: core::fmt::Arguments<'_>| {
        xml.write_fmt(text).expect("writing to a string cannot fail");
        xml.push('\n');
    };
    let (tests, failures) = (report.comparisons.len(), report.count(Verdict::Fail));
    line(format_args!(
        "<testsuites name=\"poseidon gate\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\">"
    ));
    for (scenario, comparisons) in report.scenarios() {
        let count = |verdict| comparisons.iter().filter(|comparison| comparison.verdict == verdict).count();
        line(format_args!(
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\">",
            escape(scenario),
            comparisons.len(),
            count(Verdict::Fail),
            count(Verdict::Inconclusive)
        ));
        let seeds = comparisons.iter().map(|comparison| comparison.seeds).max().unwrap_or(0);
        line(format_args!("    <properties>"));
        for (name, value) in
            [("base", report.base.clone()), ("head", report.head.clone()), ("seeds", seeds.to_string())]
        {
            line(format_args!("      <property name=\"{name}\" value=\"{}\"/>", escape(&value)));
        }
        line(format_args!("    </properties>"));
        comparisons.iter().for_each(|comparison| line(format_args!("{}", test_case(comparison))));
        line(format_args!("  </testsuite>"));
    }
    line(format_args!("</testsuites>"));
    xml
}

fn test_case(comparison: &ComparisonReport) -> String {
    let [base, head] = [comparison.base, comparison.head].map(ComparisonReport::format_value);
    let explanation = escape(&comparison.explain());
    let open = format!(
        "    <testcase name=\"{}\" classname=\"gate.{}\">",
        escape(&comparison.title()),
        escape(&comparison.scenario)
    );
    let result = match comparison.verdict {
        Verdict::Pass => String::new(),
        Verdict::Inconclusive => format!("\n      <skipped message=\"inconclusive: {explanation}\"/>"),
        Verdict::Fail => format!(
            "\n      <failure type=\"regression\" message=\"{explanation}\">{}\nbase {base}\nhead {head}</failure>",
            escape(&comparison.title())
        ),
    };
    let output = format!("\n      <system-out>base {base}, head {head}: {explanation}</system-out>\n    ");
    format!("{open}{result}{output}</testcase>")
}

/// Escapes a text for an attribute or an element. Characters that XML 1.0 forbids become U+FFFD.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            // Without a reference, a parser replaces these by spaces in attributes.
            '\n' => escaped.push_str("&#10;"),
            '\r' => escaped.push_str("&#13;"),
            '\t' => escaped.push_str("&#9;"),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push(char::REPLACEMENT_CHARACTER),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::test_report::{HOSTILE, report};
    use super::*;

    #[test]
    fn counts_and_elements_match_the_verdicts() {
        let xml = render_junit(&report());
        assert!(
            xml.contains("<testsuites name=\"poseidon gate\" tests=\"4\" failures=\"1\" errors=\"0\">"),
            "{xml}"
        );
        assert!(
            xml.contains("<testsuite name=\"tiny\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"0\">"),
            "{xml}"
        );
        assert_eq!(xml.matches("<failure ").count(), 1);
        assert_eq!(xml.matches("<skipped ").count(), 1);
        assert_eq!(xml.matches("</testcase>").count(), 4);
    }

    #[test]
    fn hostile_names_are_escaped() {
        let xml = render_junit(&report());
        assert!(!xml.contains(HOSTILE) && !xml.contains("]]>"), "{xml}");
        let is_allowed = |c: char| !(c.is_control() && c != '\n') && c != '\u{ffff}';
        assert!(xml.chars().all(is_allowed), "{xml:?}");
        assert_eq!(escape("a<b>&\"'\n\u{0}"), "a&lt;b&gt;&amp;&quot;&apos;&#10;\u{fffd}");
    }
}
