//! Maintains a folder of published results: marks stale studies, judges changed claims, and verifies numbers.

use super::numbers::{NumberComparison, compare_numbers, numbers_of};
use super::page::{Paper, write_page};
use super::provenance::{PlanFingerprint, Provenance, stale_reason};
use super::publish::{VERDICTS_FILE, origins, read_numbers, read_published, write_index};
use super::rejudge::{JudgeCounts, judge_again};
use super::{ReportError, StudyReport, VerifyError};
use crate::judge::Outcome;
use crate::store::{FinishedRun, Store};
use crate::study::{Study, natural_order};
use poseidon_plan::Backend;
use std::path::Path;

/// A function that takes a study name and returns the current scenario text.
pub type ScenarioText<'a> = &'a (dyn Fn(&str) -> Option<String> + Sync);

/// A folder of published results, with the current scenarios.
#[derive(Clone, Copy)]
pub struct PublishedFolder<'a> {
    /// The folder.
    pub folder: &'a Path,
    /// The current scenarios.
    pub scenarios: ScenarioText<'a>,
    /// The backend that resolves plans.
    pub backend: &'a (dyn Backend + Sync),
    /// The number of threads that resolve plans.
    pub jobs: usize,
}

/// A published study that can be verified.
#[derive(Clone, Debug)]
pub struct PublishedStudy {
    /// The published report.
    pub report: StudyReport,
    /// The current scenario.
    pub study: Study,
    /// The provenance of the report.
    pub provenance: Provenance,
}

/// A verdict that changed when its claim was rejudged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictChange {
    /// The study name.
    pub study: String,
    /// The claim text.
    pub claim: String,
    /// The earlier outcome; `None` for a new claim.
    pub before: Option<Outcome>,
    /// The new outcome.
    pub after: Outcome,
}

impl PublishedFolder<'_> {
    /// Returns whether the folder contains published studies.
    pub fn has_studies(&self) -> Result<bool, ReportError> {
        Ok(!Store::new(self.folder).studies_with(VERDICTS_FILE)?.is_empty())
    }

    /// Reads all reports, sorted by name in natural order.
    pub fn read(&self) -> Result<Vec<StudyReport>, ReportError> {
        let mut names = Store::new(self.folder).studies_with(VERDICTS_FILE)?;
        names.sort_by_key(|name| natural_order(name));
        read_published(self.folder, &names)
    }

    /// Rewrites the folder's table and HTML pages, and marks stale studies.
    pub fn refresh_index(&self, papers: &[Paper<'_>]) -> Result<Vec<StudyReport>, ReportError> {
        let mut reports = self.read()?;
        self.mark_stale(&mut reports);
        for report in &mut reports {
            // The current text of a stale study is not the text that was run.
            report.scenario_text = (self.scenarios)(&report.name).filter(|_| report.stale_reason.is_none());
        }
        write_index(&mut reports, self.folder)?;
        write_page(&reports, self.folder, papers, &origins(&reports).join(" "))?;
        Ok(reports)
    }

    /// Judges every study against its scenario's current claims and writes the verdicts. `commit` is the commit that
    /// contains the scenarios.
    pub fn judge_again(&self, commit: &str) -> Result<(Vec<VerdictChange>, JudgeCounts), ReportError> {
        let mut changes = Vec::new();
        let mut total = JudgeCounts::default();
        for mut report in self.read()? {
            let Some(study) = self.current_study(&report) else { continue };
            let before = report.verdicts.clone();
            let plans = self.current_plans(&report, Some(&study));
            let counts = judge_again(self.folder, &mut report, &study, plans.as_ref(), commit);
            total.add(counts.map_err(|error| ReportError::Study {
                study: report.name.clone(),
                source: Box::new(error),
            })?);
            for verdict in &report.verdicts {
                let previous = before.iter().find(|before| before.claim == verdict.claim);
                let before = previous.map(|previous| previous.outcome);
                if before != Some(verdict.outcome) {
                    let (study, claim) = (report.name.clone(), verdict.claim.clone());
                    changes.push(VerdictChange { study, claim, before, after: verdict.outcome });
                }
            }
        }
        Ok((changes, total))
    }

    /// Loads a study for verification. Rejects studies that are stale or ran on real packets.
    pub fn load_study(&self, name: &str) -> Result<PublishedStudy, VerifyError> {
        if !self.folder.join(name).join(VERDICTS_FILE).is_file() {
            let (study, folder) = (name.to_owned(), self.folder.to_owned());
            return Err(VerifyError::NotPublished { study, folder });
        }
        let report = read_published(self.folder, &[name.to_owned()])?.remove(0);
        let study = self.current_study(&report);
        if let Some(reason) = self.stale_reason(&report, study.as_ref()) {
            return Err(VerifyError::Stale { study: name.to_owned(), reason });
        }
        let (Some(study), Some(provenance)) = (study, report.provenance.clone()) else {
            return Err(VerifyError::NoProvenance(name.to_owned()));
        };
        if provenance.on_linux {
            return Err(VerifyError::RealPackets(name.to_owned()));
        }
        Ok(PublishedStudy { report, study, provenance })
    }

    /// Returns the current scenario of a published study.
    fn current_study(&self, report: &StudyReport) -> Option<Study> {
        let text = (self.scenarios)(&report.name)?;
        let is_quick = report.provenance.as_ref().is_some_and(|provenance| provenance.quick);
        Study::read(&format!("scenarios/{}.toml", report.name), &text, is_quick).ok()
    }

    /// Returns the current plans of a published study. Plans of studies that ran on real packets are not compared,
    /// because another backend resolves them.
    fn current_plans(&self, report: &StudyReport, study: Option<&Study>) -> Option<PlanFingerprint> {
        let provenance = report.provenance.as_ref().filter(|provenance| !provenance.on_linux)?;
        let study = study?;
        // A scenario that can no longer be resolved has no plans, so its fingerprint differs.
        let resolve = || PlanFingerprint::of_study(study, self.backend).unwrap_or_default();
        (provenance.plans.count > 0).then(resolve)
    }

    /// Marks stale studies. Resolving large plans takes seconds, so several threads share the work.
    fn mark_stale(&self, reports: &mut [StudyReport]) {
        let mut shares: Vec<Vec<&mut StudyReport>> = (0..self.jobs).map(|_| Vec::new()).collect();
        // Distribute the studies round-robin, because the large studies of a paper are adjacent.
        for (index, report) in reports.iter_mut().enumerate() {
            shares[index % self.jobs].push(report);
        }
        std::thread::scope(|scope| {
            for share in shares {
                scope.spawn(move || {
                    for report in share {
                        let study = self.current_study(report);
                        report.stale_reason = self.stale_reason(report, study.as_ref());
                    }
                });
            }
        });
    }

    /// Returns the reason why a study is stale; `None` if it is current.
    fn stale_reason(&self, report: &StudyReport, study: Option<&Study>) -> Option<String> {
        let provenance = report.provenance.as_ref();
        // Comparing the text is cheap. If the text has changed, plans need not be resolved.
        stale_reason(provenance, study, None).or_else(|| {
            let plans = self.current_plans(report, study);
            stale_reason(provenance, study, plans.as_ref())
        })
    }
}

/// Compares numbers from new runs with a study's published numbers.
pub fn compare_with_published(
    folder: &Path,
    report: &StudyReport,
    runs: &[FinishedRun],
) -> Result<NumberComparison, ReportError> {
    let runs = runs.iter().map(FinishedRun::with_messages).collect::<Result<Vec<_>, _>>()?;
    Ok(compare_numbers(&read_numbers(folder, report)?, &numbers_of(&runs)))
}
