//! The report card of congestion control: the grade of each law in each scenario of a suite.
//!
//! The claims of a scenario are its thresholds, and its first claim is its question. A law is *good* if all claims
//! hold, *partial* if the first claim holds and another one fails, and *poor* if the first claim does not hold. A law
//! that the network or the backend cannot run has no grade, but a reason.

use super::ReportError;
use crate::judge::{CellVerdict, Outcome, Verdict, judge};
use crate::number::format_number;
use crate::scenario::{Label, SpecErrorKind};
use crate::store::{FinishedRun, complete_runs};
use crate::study::{LawsError, Study};
use core::fmt::Write as _;
use core::ops::ControlFlow;
use poseidon_laws::LAWS;
use poseidon_plan::Backend;
use poseidon_plan::records::{Progress, Sink};
use poseidon_plan::stack::Controller;
use serde::Serialize;

/// The name of the sweep whose values are the laws of a card.
const LAW_SWEEP: &str = "law";

/// The grade of a law in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// All claims hold.
    Good,
    /// The first claim holds, and another one does not.
    Partial,
    /// The first claim does not hold.
    Poor,
    /// The law has no runs in this scenario.
    None,
}

impl Grade {
    /// All grades, best first.
    pub const ALL: [Self; 4] = [Self::Good, Self::Partial, Self::Poor, Self::None];

    /// Returns the grade for the verdicts on a scenario's claims. A claim that cannot be judged does not hold.
    pub fn of(verdicts: &[Verdict]) -> Self {
        let holds = |verdict: &Verdict| verdict.outcome == Outcome::Holds;
        match verdicts {
            [] => Self::None,
            verdicts if verdicts.iter().all(holds) => Self::Good,
            [first, ..] if holds(first) => Self::Partial,
            _ => Self::Poor,
        }
    }

    /// Returns the grade in one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Partial => "partial",
            Self::Poor => "poor",
            Self::None => "no grade",
        }
    }

    /// Returns the symbol of the grade. The colour is not the only sign of a grade.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Good => "✓",
            Self::Partial => "◐",
            Self::Poor => "✗",
            Self::None => "–",
        }
    }

    /// Returns what the grade means.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Good => "all claims of the scenario hold",
            Self::Partial => "the first claim holds, another one fails",
            Self::Poor => "the first claim fails",
            Self::None => "the law cannot run in this scenario",
        }
    }
}

/// A scenario, its runs, and the laws that cannot run in it.
#[derive(Debug)]
pub struct CardInput<'a> {
    /// The study. The values of its sweep `law` are the laws that run.
    pub study: &'a Study,
    /// The runs of the study.
    pub runs: Vec<&'a FinishedRun>,
    /// The laws that cannot run, and why.
    pub refused: Vec<RefusedLaw>,
}

/// A law that cannot run in a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedLaw {
    /// The law.
    pub law: String,
    /// The reason.
    pub reason: String,
}

/// The report card of several laws.
#[derive(Clone, Debug, Serialize)]
pub struct ReportCard {
    /// The laws, in the order of the columns.
    pub laws: Vec<String>,
    /// The scenarios, in the order of the rows.
    pub scenarios: Vec<CardScenario>,
    /// The program that executed the runs.
    pub program: String,
}

/// A scenario of a report card.
#[derive(Clone, Debug, Serialize)]
pub struct CardScenario {
    /// The study name.
    pub name: String,
    /// The title.
    pub title: String,
    /// What the scenario asks and what its numbers mean.
    pub about: String,
    /// What a quick run omits.
    pub omissions: Option<String>,
    /// The number of runs.
    pub runs: usize,
    /// The total duration of all runs in seconds.
    pub wall_s: f64,
    /// The claims.
    pub claims: Vec<CardClaim>,
    /// The results of the laws, in the order of [`ReportCard::laws`].
    pub entries: Vec<CardEntry>,
}

impl CardScenario {
    /// Returns the name without the folder of the suite.
    pub fn short_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }

    /// Returns the reasons why laws cannot run here, each with its laws.
    pub fn reasons(&self) -> Vec<(&str, Vec<&str>)> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for entry in &self.entries {
            let Some(reason) = &entry.refused else { continue };
            match reasons.iter_mut().find(|(known, _)| known == reason) {
                Some((_, laws)) => laws.push(&entry.law),
                None => reasons.push((reason, vec![&entry.law])),
            }
        }
        reasons
    }
}

/// A claim of a scenario.
#[derive(Clone, Debug, Serialize)]
pub struct CardClaim {
    /// The claim in one sentence.
    pub claim: String,
    /// The measured value, as an expression.
    pub metric: String,
}

/// The result of a law in a scenario.
#[derive(Clone, Debug, Serialize)]
pub struct CardEntry {
    /// The law.
    pub law: String,
    /// The grade.
    pub grade: Grade,
    /// The measured value of the first claim.
    pub number: String,
    /// The verdicts on the claims, for this law alone.
    pub verdicts: Vec<Verdict>,
    /// Why the law cannot run here, if it cannot.
    pub refused: Option<String>,
}

/// Returns the laws that can have a grade: the built-in laws, and the laws that the scenarios define under other names. A
/// controller of a program's own is not listed, because only that program has it.
pub fn card_laws<'a>(studies: impl IntoIterator<Item = &'a Study>) -> Vec<String> {
    let mut laws: Vec<String> = LAWS.iter().map(|law| law.name.to_owned()).collect();
    for (name, spec) in studies.into_iter().flat_map(|study| &study.scenario().laws) {
        let is_custom = spec.controller.as_deref() == Some(Controller::Custom.name());
        if !is_custom && !laws.contains(name) {
            laws.push(name.clone());
        }
    }
    laws
}

/// Checks whether a law can run in all cells of a study. A backend rejects some plans with real transport stacks only
/// when they start, so a run of each of them starts and stops.
pub fn check_law(study: &Study, law: &str, backend: &dyn Backend) -> Result<(), LawsError> {
    let study = study.with_laws(&[law])?;
    study.check(backend)?;
    for cell in &study.cells {
        let plan = study.resolve(cell, 1, backend)?.plan;
        if !plan.stacks.is_empty() {
            let started = backend.run(&plan, &mut StopAtOnce);
            started.map_err(|error| study.error_in_cell(cell, SpecErrorKind::Plan(error).at_root()))?;
        }
    }
    Ok(())
}

/// A sink that stops its run at the first progress report.
struct StopAtOnce;

impl Sink for StopAtOnce {
    fn on_progress(&mut self, _: Progress) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

impl ReportCard {
    /// Judges the claims of each scenario for each law.
    pub fn new(laws: &[String], inputs: &[CardInput<'_>]) -> Result<Self, ReportError> {
        let scenarios: Result<Vec<_>, _> = inputs.iter().map(|input| card_scenario(laws, input)).collect();
        let first_run = inputs.iter().find_map(|input| input.runs.first());
        let program = first_run.map_or_else(String::new, |run| run.manifest.program.clone());
        Ok(Self { laws: laws.to_vec(), scenarios: scenarios?, program })
    }

    /// Returns the number of results with a grade, for one law or for all.
    pub fn count(&self, law: Option<&str>, grade: Grade) -> usize {
        let entries = self.scenarios.iter().flat_map(|scenario| &scenario.entries);
        entries.filter(|entry| entry.grade == grade && law.is_none_or(|law| entry.law == law)).count()
    }

    /// Returns the total duration of all runs in seconds.
    pub fn wall_s(&self) -> f64 {
        self.scenarios.iter().map(|scenario| scenario.wall_s).sum()
    }

    /// Renders the card as Markdown tables: the grades, the claims, and the reasons for missing grades. `page` is the
    /// HTML page to link to.
    pub fn to_markdown(&self, page: &str) -> String {
        let mut text = String::from("| scenario |");
        let line = |text: &mut String, line: core::fmt::Arguments<'_>| {
            text.write_fmt(line).expect("writing to a string cannot fail");
        };
        self.laws.iter().for_each(|law| line(&mut text, format_args!(" {} |", escape_cell(law))));
        line(&mut text, format_args!("\n|---|{}\n", "---|".repeat(self.laws.len())));
        for scenario in &self.scenarios {
            let name = escape_cell(scenario.short_name());
            line(&mut text, format_args!("| [{name}]({page}#{name}) |"));
            for entry in &scenario.entries {
                let separator = if entry.number.is_empty() { "" } else { " " };
                let number = escape_cell(&entry.number);
                line(&mut text, format_args!(" {}{separator}{number} |", entry.grade.symbol()));
            }
            text.push('\n');
        }
        for grade in [Grade::Good, Grade::Partial, Grade::Poor] {
            line(&mut text, format_args!("| **{} {}** |", grade.symbol(), grade.word()));
            for law in &self.laws {
                line(&mut text, format_args!(" {} |", self.count(Some(law), grade)));
            }
            text.push('\n');
        }
        text.push_str("\n| scenario | number in the table | further claims |\n|---|---|---|\n");
        for scenario in &self.scenarios {
            let mut claims = scenario.claims.iter().map(|claim| escape_cell(&claim.claim));
            let first = claims.next().unwrap_or_default();
            let rest = claims.collect::<Vec<_>>().join("; ");
            line(&mut text, format_args!("| {} | {first} | {rest} |\n", escape_cell(scenario.short_name())));
        }
        text
    }
}

fn card_scenario(laws: &[String], input: &CardInput<'_>) -> Result<CardScenario, ReportError> {
    let scenario = input.study.scenario();
    let runs = complete_runs(input.runs.iter().copied())?;
    let entry = |law: &String| -> Result<CardEntry, ReportError> {
        let refused = input.refused.iter().find(|refused| refused.law == *law);
        let is_of_law = |label: &Label| label.sweep == LAW_SWEEP && label.value == *law;
        let of_law: Vec<_> = runs.iter().filter(|run| run.labels.iter().any(is_of_law)).cloned().collect();
        let mut verdicts: Vec<Verdict> = if of_law.is_empty() {
            Vec::new()
        } else {
            scenario.claim.iter().map(|claim| judge(claim, &of_law)).collect::<Result<_, _>>()?
        };
        let cells = verdicts.iter_mut().flat_map(|verdict| &mut verdict.cells);
        cells.for_each(|cell| cell.cell = without_law(&cell.cell, law));
        let reason = if of_law.is_empty() { "no run of this law is complete" } else { "" };
        let reason = refused.map_or(reason, |refused| refused.reason.as_str());
        Ok(CardEntry {
            law: law.clone(),
            grade: Grade::of(&verdicts),
            number: verdicts.first().map(|verdict| format_short(&verdict.cells)).unwrap_or_default(),
            verdicts,
            refused: (!reason.is_empty()).then(|| reason.to_owned()),
        })
    };
    let claims = scenario.claim.iter();
    Ok(CardScenario {
        name: input.study.name.clone(),
        title: scenario.title.clone(),
        about: scenario.about.clone(),
        omissions: if input.study.is_quick { input.study.quick_omissions() } else { None },
        runs: input.runs.len(),
        wall_s: input.runs.iter().map(|run| run.manifest.wall_s).sum(),
        claims: claims
            .map(|claim| CardClaim { claim: claim.says.clone(), metric: claim.metric.clone() })
            .collect(),
        entries: laws.iter().map(entry).collect::<Result<_, _>>()?,
    })
}

/// Removes the law from the name of a cell.
fn without_law(cell: &str, law: &str) -> String {
    let of_law = format!("{LAW_SWEEP} {law}");
    cell.split(", ").filter(|part| *part != of_law).collect::<Vec<_>>().join(", ")
}

/// Formats the measured values of a claim in few characters: a value, or the smallest and the largest value over cells.
fn format_short(cells: &[CellVerdict]) -> String {
    let means: Vec<f64> = cells.iter().filter_map(|cell| Some(cell.measured.as_ref()?.mean)).collect();
    let low = means.iter().copied().fold(f64::INFINITY, f64::min);
    let high = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = (format_brief(low), format_brief(high));
    match (means.len(), cells.len()) {
        (0, _) => "unknown".to_owned(),
        (known, all) if known < all => format!("{low} and unknown"),
        _ if low == high => low,
        _ => format!("{low} to {high}"),
    }
}

/// Formats a number with at most two decimal places.
fn format_brief(value: f64) -> String {
    if value.abs() < 1.0 { format!("{value:.2}") } else { format_number(value) }
}

/// Escapes a text for a cell of a Markdown table.
fn escape_cell(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '\n' | '\r' => escaped.push(' '),
            '|' | '\\' | '`' | '*' | '_' | '<' | '>' | '[' | ']' => escaped.extend(['\\', character]),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Estimate;

    fn verdict(outcome: Outcome, values: &[f64]) -> Verdict {
        let cell = |value: &f64| CellVerdict {
            cell: "law swift, loss 0.01".to_owned(),
            measured: Estimate::from_values(&[*value]),
            reason: None,
            unfinished_share: None,
            passed: 1,
            judged: 1,
            outcome,
        };
        Verdict {
            claim: "c".to_owned(),
            paper: String::new(),
            metric: String::new(),
            condition: String::new(),
            paper_value: None,
            gating: false,
            outcome,
            note: String::new(),
            cells: values.iter().map(cell).collect(),
        }
    }

    #[test]
    fn the_first_claim_decides_between_partial_and_poor() {
        use Outcome::{Fails, Holds, NotComparable};
        for (outcomes, grade) in [
            ([Holds, Holds], Grade::Good),
            ([Holds, Fails], Grade::Partial),
            ([Holds, NotComparable], Grade::Partial),
            ([Fails, Holds], Grade::Poor),
            ([NotComparable, Holds], Grade::Poor),
        ] {
            let verdicts = outcomes.map(|outcome| verdict(outcome, &[1.0]));
            assert_eq!(Grade::of(&verdicts), grade, "{outcomes:?}");
        }
        assert_eq!(Grade::of(&[]), Grade::None);
    }

    #[test]
    fn numbers_are_short() {
        let short = |values: &[f64]| format_short(&verdict(Outcome::Holds, values).cells);
        assert_eq!(short(&[0.9634]), "0.96");
        assert_eq!(short(&[0.003, 12.34]), "0.00 to 12.3");
        assert_eq!(short(&[0.961, 0.963]), "0.96");
        assert_eq!(short(&[]), "unknown");
        let mut cells = verdict(Outcome::Holds, &[0.5, 0.7]).cells;
        cells[1].measured = None;
        assert_eq!(format_short(&cells), "0.50 and unknown");
    }

    #[test]
    fn cells_are_named_without_their_law() {
        assert_eq!(without_law("law swift, loss 0.01", "swift"), "loss 0.01");
        assert_eq!(without_law("law swift", "swift"), "");
        assert_eq!(without_law("law swift, phase b", "swif"), "law swift, phase b");
    }

    #[test]
    fn names_cannot_break_a_table() {
        assert_eq!(escape_cell("a|b\n`c`<d>"), "a\\|b \\`c\\`\\<d\\>");
    }
}
