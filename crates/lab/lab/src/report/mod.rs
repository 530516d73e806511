//! What studies showed: verdicts, figures, one page about them that needs no network, and a folder that can be published.

mod figures;
mod numbers;
mod page;
mod provenance;
mod publish;
mod rejudge;

pub use figures::Figure;
pub use numbers::{Comparison, Difference, Key, Number, compare_numbers, numbers_of};
pub use page::{Paper, page};
pub use provenance::{OLDER, Plans, Provenance, plans_of, plans_of_runs, why_stale};
pub use publish::{Source, index, origins, publish, published, published_numbers};
pub use rejudge::{Rejudged, judge_again};

use crate::draw;
use crate::figure;
use crate::judge::{Measured, Outcome, Ran, Verdict, judge};
use crate::reduce::percent;
use crate::store::{Store, write};
use crate::study::{Finished, Study};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one study showed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shown {
    /// Its name.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Where it comes from.
    pub source: String,
    /// What was left open and chosen.
    pub about: String,
    /// What a quick run left out.
    pub cut: Option<String>,
    /// How many runs there are, and how many of them were broken off: those are neither judged nor drawn.
    pub runs: usize,
    /// See `runs`.
    pub interrupted: usize,
    /// With how many seeds cells were run: fewest and most.
    pub seeds: (usize, usize),
    /// Seconds of all runs together.
    pub wall_s: f64,
    /// Its claims.
    pub verdicts: Vec<Verdict>,
    /// Its figures: title and charts.
    #[serde(skip)]
    pub figures: Vec<Figure>,
    /// The same as they are drawn.
    #[serde(skip)]
    pub drawn: Vec<String>,
    /// Where its figures were written, beside their data.
    pub figure_files: Vec<String>,
    /// Which state of the program it comes from, in words, where it was published before results had hashes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// What it comes from, where it was published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// The published study whose table of numbers is that of this one, where they share their runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers_in: Option<String>,
    /// Why a published study is older than its scenario; `None` where it is not.
    #[serde(skip)]
    pub stale: Option<String>,
}

impl Shown {
    /// The paper that it belongs to: its folder.
    pub fn paper(&self) -> &str {
        self.name.rsplit_once('/').map_or("others", |(paper, _)| paper)
    }
}

/// Judges and draws a study.
pub fn show(study: &Study, finished: &[&Finished]) -> Result<Shown, String> {
    let scenario = study.scenario();
    // A run that was broken off has rows up to there, but no numbers: what it did not get to do would count as nothing.
    let whole = finished.iter().filter(|run| !run.manifest.interrupted);
    let runs = whole.map(|run| run.with_messages()).collect::<Result<Vec<Ran>, _>>();
    let runs = runs.map_err(|error| error.to_string())?;
    let verdicts = scenario.claim.iter().map(|claim| judge(claim, &runs)).collect::<Result<_, _>>()?;
    let mut figures = Vec::new();
    for spec in &scenario.figure {
        figures.push((spec.title.clone(), figure::charts(spec, &runs)?));
    }
    let mut seeds: BTreeMap<_, usize> = BTreeMap::new();
    runs.iter().for_each(|run| *seeds.entry(&run.labels).or_default() += 1);
    let drawn = figures.iter().map(|(_, charts)| draw::svg(charts)).collect();
    Ok(Shown {
        seeds: (seeds.values().copied().min().unwrap_or(0), seeds.values().copied().max().unwrap_or(0)),
        drawn,
        name: study.name.clone(),
        title: scenario.title.clone(),
        source: scenario.source.clone(),
        about: scenario.about.clone(),
        cut: if study.is_quick { study.cut() } else { None },
        runs: finished.len(),
        interrupted: finished.iter().filter(|run| run.manifest.interrupted).count(),
        wall_s: finished.iter().map(|run| run.manifest.wall_s).sum(),
        verdicts,
        figures,
        figure_files: Vec::new(),
        from: String::new(),
        provenance: None,
        numbers_in: None,
        stale: None,
    })
}

/// Writes verdicts, figures and their data into the study's folder.
pub fn keep(shown: &mut Shown, store: &Store) -> Result<(), String> {
    let folder = store.study(&shown.name);
    for (number, ((_, charts), drawn)) in (1..).zip(shown.figures.iter().zip(&shown.drawn)) {
        let name = format!("figure-{number}");
        write(&folder, &format!("{name}.svg"), drawn.as_bytes())?;
        write(&folder, &format!("{name}.csv"), draw::data(charts).as_bytes())?;
        shown.figure_files.push(folder.join(format!("{name}.svg")).to_string_lossy().into_owned());
    }
    let json = serde_json::to_vec_pretty(&shown).map_err(|error| error.to_string())?;
    write(&folder, "verdicts.json", &json)
}

/// A number as people read it: three digits that count.
pub fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size == 0.0 || !value.is_finite() => format!("{value}"),
        _ if size >= 1e6 => format!("{value:.3e}"),
        _ if size >= 100.0 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ if size >= 1.0 => format!("{value:.2}"),
        _ if size >= 0.1 => format!("{value:.3}"),
        _ if size >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// A value with its interval, the spread between seeds where it is of all their messages, and the share of messages that did not finish.
pub fn estimate(measured: &Measured) -> String {
    let Some(ours) = &measured.ours else { return measured.reason.clone().unwrap_or_default() };
    let mut text = number(ours.mean);
    match (ours.interval, ours.half.filter(|half| *half > 0.0)) {
        (Some([low, high]), Some(_)) => text.push_str(&format!(" ({} to {})", number(low), number(high))),
        (None, Some(half)) => text.push_str(&format!(" ± {}", number(half))),
        (_, None) => {}
    }
    if let Some([low, high]) = ours.spread.filter(|[low, high]| low < high) {
        text.push_str(&format!(", seeds {} to {}", number(low), number(high)));
    }
    if let Some(share) = measured.unfinished.filter(|share| *share > 0.0) {
        text.push_str(&format!(", {} unfinished", percent(share)));
    }
    text
}

/// What was measured, in a line: one value, or the range over cells.
pub fn ours(verdict: &Verdict) -> String {
    match verdict.cells.as_slice() {
        [] => String::new(),
        [one] => estimate(one),
        many => {
            let means: Vec<f64> = many.iter().filter_map(|cell| Some(cell.ours.as_ref()?.mean)).collect();
            let (low, high) = (
                means.iter().copied().fold(f64::INFINITY, f64::min),
                means.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            );
            let range = match means.len() {
                0 => None,
                1 => Some(number(low)),
                _ => Some(format!("{} to {}", number(low), number(high))),
            };
            let without = many.len() - means.len();
            let more = if without > 1 { format!(" and {} more", without - 1) } else { String::new() };
            let reason = many.iter().find_map(|cell| cell.reason.as_ref()).map(|why| format!("{why}{more}"));
            let mut text = range.into_iter().chain(reason).collect::<Vec<_>>().join("; ");
            let unfinished = many.iter().filter_map(|cell| cell.unfinished).fold(0.0, f64::max);
            if unfinished > 0.0 && without == 0 {
                text.push_str(&format!(", up to {} unfinished", percent(unfinished)));
            }
            text
        }
    }
}

/// A verdict in a word.
pub const fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Holds => "holds",
        Outcome::Fails => "fails",
        Outcome::NotComparable => "not comparable",
        Outcome::NotRun => "not run",
    }
}

/// With how many seeds, in words.
pub fn seeds(shown: &Shown) -> String {
    match shown.seeds {
        (0, 0) => "no runs".into(),
        (1, 1) => "one seed".into(),
        (fewest, most) if fewest == most => format!("{most} seeds"),
        (fewest, most) => format!("{fewest} to {most} seeds"),
    }
}
