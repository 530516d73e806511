//! The answer of a study in one sentence.

use super::html::plural;
use super::outcome::{OutcomeCounts, severity};
use crate::judge::{Outcome, Verdict};
use crate::report::StudyReport;
use crate::report::format::format_measured;

/// Returns the answer of a study in one sentence. The sentence names the gravest failure.
pub(super) fn answer(report: &StudyReport) -> String {
    let counts = OutcomeCounts::new(core::iter::once(report));
    match (counts.claims(), counts.of(Outcome::Holds)) {
        (0, _) => "The study has no claims; its figures compare the configurations.".to_owned(),
        (1, 1) => format!("The claim holds: {}.", list(&report.verdicts)),
        (2, 2) => format!("Both claims hold: {}.", list(&report.verdicts)),
        (all, holds) if all == holds => {
            format!("All {all} claims hold, for example {}.", list(&report.verdicts[..1]))
        }
        (all, _) => {
            let gravest = report.verdicts.iter().min_by_key(|verdict| severity(verdict));
            let words = counts.in_words_with(|outcome| {
                let verdict = gravest.filter(|verdict| verdict.outcome == outcome)?;
                Some(example(verdict, counts.of(outcome) > 1))
            });
            format!("Of {}, {words}.", plural(all, "claim"))
        }
    }
}

/// Lists claims with their measured values.
fn list(verdicts: &[Verdict]) -> String {
    let describe = |verdict: &Verdict| {
        let measured = format_measured(verdict);
        let measured = if measured.is_empty() { measured } else { format!(" (measured {measured})") };
        format!("“{}”{measured}", verdict.claim.trim().trim_end_matches('.'))
    };
    verdicts.iter().map(describe).collect::<Vec<_>>().join(" and ")
}

/// Describes the gravest verdict, which may be one of many with this outcome.
fn example(verdict: &Verdict, is_one_of_many: bool) -> String {
    let claim = verdict.claim.trim().trim_end_matches('.');
    let measured = format_measured(verdict);
    let details = match (verdict.outcome, measured.is_empty()) {
        (Outcome::Fails, false) => format!(": measured {measured}, required {}", verdict.condition),
        (Outcome::NotComparable, _) if !verdict.note.trim().is_empty() => {
            format!(": {}", verdict.note.trim().trim_end_matches('.'))
        }
        _ => String::new(),
    };
    format!(" ({}“{claim}”{details})", if is_one_of_many { "for example " } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::page::tests::{report, verdict};

    #[test]
    fn the_answer_names_the_gravest_failure() {
        let answer_of = |outcomes: &[(Outcome, bool)]| {
            let mut report = report("a", "t");
            report.verdicts = outcomes
                .iter()
                .enumerate()
                .map(|(index, (outcome, gating))| verdict(&format!("claim {index}"), *outcome, *gating))
                .collect();
            answer(&report)
        };
        use Outcome::{Fails, Holds, NotComparable};
        assert_eq!(answer_of(&[(Holds, true)]), "The claim holds: “claim 0” (measured 1.50).");
        assert_eq!(
            answer_of(&[(Holds, true); 2]),
            "Both claims hold: “claim 0” (measured 1.50) and “claim 1” (measured 1.50)."
        );
        assert_eq!(
            answer_of(&[(Holds, true); 3]),
            "All 3 claims hold, for example “claim 0” (measured 1.50)."
        );
        assert_eq!(
            answer_of(&[(Holds, true), (Fails, false), (Fails, true)]),
            "Of 3 claims, 1 holds, 2 fail (for example “claim 2”: measured 1.50, required below 1)."
        );
        assert_eq!(answer_of(&[(NotComparable, false)]), "Of 1 claim, 1 is not comparable (“claim 0”: why).");
        assert!(answer_of(&[]).starts_with("The study has no claims"));
    }
}
