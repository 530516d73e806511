//! Outcomes in pages: their order, colour and symbol, and how often they occur.

use super::html::push;
use crate::judge::{Outcome, Verdict};
use crate::report::StudyReport;
use crate::report::format::outcome_word;

/// All outcomes, in the order of the matrix.
pub(super) const OUTCOMES: [Outcome; 4] =
    [Outcome::Holds, Outcome::Fails, Outcome::NotComparable, Outcome::NotRun];

/// Returns the class of an outcome in the style sheet and in filters.
pub(super) const fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Holds => "holds",
        Outcome::Fails => "fails",
        Outcome::NotComparable => "not-comparable",
        Outcome::NotRun => "not-run",
    }
}

/// Returns the symbol of an outcome. Colour is not the only sign of an outcome.
const fn symbol(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Holds => "✓",
        Outcome::Fails => "✗",
        Outcome::NotComparable => "≈",
        Outcome::NotRun => "–",
    }
}

/// Writes an outcome as a symbol and a word.
pub(super) fn push_badge(html: &mut String, outcome: Outcome) {
    push(
        html,
        format_args!(
            "<span class=\"badge {}\"><span aria-hidden=\"true\">{}</span> {}</span>",
            class(outcome),
            symbol(outcome),
            outcome_word(outcome)
        ),
    );
}

/// Returns a sort key that puts failed gates first, then other failures, and claims that hold last.
pub(super) const fn severity(verdict: &Verdict) -> u8 {
    match (verdict.outcome, verdict.gating) {
        (Outcome::Fails, true) => 0,
        (Outcome::Fails, false) => 1,
        (Outcome::NotComparable, _) => 2,
        (Outcome::NotRun, _) => 3,
        (Outcome::Holds, _) => 4,
    }
}

/// The number of claims by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OutcomeCounts {
    pub(super) studies: usize,
    by_outcome: [usize; OUTCOMES.len()],
    pub(super) gates: usize,
    pub(super) gates_held: usize,
}

impl OutcomeCounts {
    pub(super) fn new<'a>(reports: impl Iterator<Item = &'a StudyReport>) -> Self {
        let mut counts = Self::default();
        for report in reports {
            counts.studies += 1;
            for verdict in &report.verdicts {
                for (count, outcome) in counts.by_outcome.iter_mut().zip(OUTCOMES) {
                    *count += usize::from(verdict.outcome == outcome);
                }
                counts.gates += usize::from(verdict.gating);
                counts.gates_held += usize::from(verdict.gating && verdict.outcome == Outcome::Holds);
            }
        }
        counts
    }

    /// Returns the number of claims with this outcome.
    pub(super) fn of(&self, outcome: Outcome) -> usize {
        OUTCOMES.iter().position(|other| *other == outcome).map_or(0, |index| self.by_outcome[index])
    }

    /// Returns the number of claims.
    pub(super) fn claims(&self) -> usize {
        self.by_outcome.iter().sum()
    }

    /// Returns the numbers of claims in words: `5 hold, 2 fail, 1 is not comparable`.
    pub(super) fn in_words(&self) -> String {
        self.in_words_with(|_| None)
    }

    /// Returns the numbers of claims in words, with a remark after an outcome.
    pub(super) fn in_words_with(&self, remark: impl Fn(Outcome) -> Option<String>) -> String {
        let words = |outcome: Outcome| {
            let count = self.of(outcome);
            let verb = match (outcome, count) {
                (_, 0) => return None,
                (Outcome::Holds, 1) => "holds",
                (Outcome::Holds, _) => "hold",
                (Outcome::Fails, 1) => "fails",
                (Outcome::Fails, _) => "fail",
                (Outcome::NotComparable, 1) => "is not comparable",
                (Outcome::NotComparable, _) => "are not comparable",
                (Outcome::NotRun, 1) => "was not run",
                (Outcome::NotRun, _) => "were not run",
            };
            Some(format!("{count} {verb}{}", remark(outcome).unwrap_or_default()))
        };
        OUTCOMES.into_iter().filter_map(words).collect::<Vec<_>>().join(", ")
    }
}
