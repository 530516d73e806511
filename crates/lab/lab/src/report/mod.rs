//! Study reports: verdicts, figures, self-contained HTML pages, and a folder for publication.

mod card;
mod error;
mod figures;
mod format;
mod numbers;
mod page;
mod provenance;
mod publish;
mod published;
mod rejudge;
mod results;

pub use crate::number::format_number;
pub use card::{
    CardClaim, CardEntry, CardInput, CardScenario, Grade, RefusedLaw, ReportCard, card_laws, check_law,
};
pub use error::{ReportError, TableError, VerifyError};
pub use figures::Figure;
pub use format::{format_cell, format_measured, format_seeds, outcome_word};
pub use numbers::{
    NumberComparison, NumberDifference, NumberKey, PublishedNumber, compare_numbers, numbers_of,
};
pub use page::{MAX_PAGE_BYTES, Page, Paper, render_card, render_pages, write_page, write_study_page};
pub use provenance::{PlanFingerprint, Provenance, STALE_LABEL, stale_reason};
pub use publish::{PublicationSource, origins, publish, read_numbers, read_published, write_index};
pub use published::{PublishedFolder, PublishedStudy, ScenarioText, VerdictChange, compare_with_published};
pub use rejudge::{JudgeCounts, judge_again};
pub use results::{Results, failed_gates, load_study};

use crate::figure;
use crate::judge::{Verdict, judge};
use crate::store::{FinishedRun, Store, complete_runs, write_file, write_json};
use crate::study::Study;
use poseidon_figures::render_csv;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The verdicts and figures of one study.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StudyReport {
    /// The study name.
    pub name: String,
    /// The title.
    pub title: String,
    /// The paper and figure that the study reproduces.
    pub source: String,
    /// The assumptions about details that the paper does not specify.
    pub about: String,
    /// What a quick run omits.
    #[serde(rename = "cut")]
    pub omissions: Option<String>,
    /// The number of runs.
    pub runs: usize,
    /// The number of interrupted runs, which are neither judged nor drawn.
    pub interrupted: usize,
    /// The smallest and largest number of seeds per cell.
    pub seeds: (usize, usize),
    /// The total duration of all runs in seconds.
    pub wall_s: f64,
    /// The verdicts on the claims.
    pub verdicts: Vec<Verdict>,
    /// The figures.
    #[serde(skip)]
    pub figures: Vec<Figure>,
    /// The figures as SVG.
    #[serde(skip)]
    pub svg_figures: Vec<String>,
    /// The figure files.
    pub figure_files: Vec<String>,
    /// A description of the program, for studies published before results had hashes.
    #[serde(rename = "from", default, skip_serializing_if = "String::is_empty")]
    pub origin: String,
    /// The provenance of a published study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// The published study that stores this study's numbers, if both studies have the same runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers_in: Option<String>,
    /// The reason why a published study is stale; `None` if it is current.
    #[serde(skip)]
    pub stale_reason: Option<String>,
    /// The scenario text, which pages embed; `None` if it is unknown.
    #[serde(skip)]
    pub scenario_text: Option<String>,
}

impl StudyReport {
    /// Judges a study's claims and draws its figures.
    pub fn new(study: &Study, finished: &[&FinishedRun]) -> Result<Self, ReportError> {
        let scenario = study.scenario();
        // An interrupted run has valid rows but no valid metrics.
        let runs = complete_runs(finished.iter().copied())?;
        let verdicts = scenario.claim.iter().map(|claim| judge(claim, &runs)).collect::<Result<_, _>>()?;
        let mut figures = Vec::new();
        for spec in &scenario.figure {
            figures.push(Figure { title: spec.title.clone(), charts: figure::charts(spec, &runs)? });
        }
        let mut seeds: BTreeMap<_, usize> = BTreeMap::new();
        runs.iter().for_each(|run| *seeds.entry(&run.labels).or_default() += 1);
        Ok(Self {
            name: study.name.clone(),
            title: scenario.title.clone(),
            source: scenario.source.clone(),
            about: scenario.about.clone(),
            omissions: if study.is_quick { study.quick_omissions() } else { None },
            runs: finished.len(),
            interrupted: finished.iter().filter(|run| run.manifest.interrupted).count(),
            seeds: (seeds.values().copied().min().unwrap_or(0), seeds.values().copied().max().unwrap_or(0)),
            wall_s: finished.iter().map(|run| run.manifest.wall_s).sum(),
            verdicts,
            svg_figures: figures.iter().map(Figure::to_svg).collect(),
            figures,
            figure_files: Vec::new(),
            origin: String::new(),
            provenance: None,
            numbers_in: None,
            stale_reason: None,
            scenario_text: Some(study.text.clone()),
        })
    }

    /// Returns the name of the study's folder, which identifies the paper.
    pub fn paper(&self) -> &str {
        self.name.rsplit_once('/').map_or("others", |(paper, _)| paper)
    }

    /// Writes verdicts, figures and their data into the study's folder.
    pub fn write(&mut self, store: &Store) -> Result<(), ReportError> {
        let folder = store.study_folder(&self.name);
        for (number, (figure, svg)) in (1..).zip(self.figures.iter().zip(&self.svg_figures)) {
            let name = format!("figure-{number}");
            write_file(&folder, &format!("{name}.svg"), svg.as_bytes())?;
            write_file(&folder, &format!("{name}.csv"), render_csv(&figure.charts).as_bytes())?;
            self.figure_files.push(folder.join(format!("{name}.svg")).to_string_lossy().into_owned());
        }
        Ok(write_json(&folder, publish::VERDICTS_FILE, self)?)
    }
}
