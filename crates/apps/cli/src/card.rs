//! Grades laws in the scenarios of a suite: `poseidon card`.

use crate::backend::simulator;
use crate::backend_kind::BackendKind;
use crate::catalog::{self, PAPERS};
use crate::studies::Suite;
use crate::study_args::StudyArgs;
use crate::{Failure, backend, print};
use clap::Args;
use poseidon_lab::report::{
    self, CardInput, Grade, RefusedLaw, ReportCard, card_laws, check_law, render_card,
};
use poseidon_lab::runner::Shard;
use poseidon_lab::study::{LawsError, Study};
use poseidon_plan::Backend;
use std::fs;
use std::path::{Path, PathBuf};

/// Arguments of `poseidon card`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CardArgs {
    /// Files, names of built-in scenarios, or of their folders.
    #[arg(value_name = "SCENARIO", default_value = "suite")]
    scenarios: Vec<String>,
    #[command(flatten)]
    pub(crate) study: StudyArgs,
}

const EXAMPLES: &str = "\
Examples:
  poseidon card                               grade all laws in the scenario suite
  poseidon card --law swift --law hpcc        grade two laws
  poseidon card suite/baseline my.toml        grade all laws in two scenarios";

/// The name of the page, and of the tables in Markdown.
const FILES: [&str; 2] = ["card.html", "card.md"];

/// A scenario with the laws that can run in it.
struct Candidate {
    /// The study with these laws, or the study as it was if no law can run.
    study: Study,
    can_run: bool,
    refused: Vec<RefusedLaw>,
}

impl Candidate {
    /// Checks which laws can run in a scenario.
    fn new(study: Study, laws: &[String], backend: &dyn Backend) -> Result<Self, Failure> {
        let (mut accepted, mut refused) = (Vec::new(), Vec::new());
        for law in laws {
            match check_law(&study, law, backend) {
                Ok(()) => accepted.push(law.as_str()),
                Err(LawsError::Scenario(error)) => {
                    refused.push(RefusedLaw { law: law.clone(), reason: error.error.kind.to_string() });
                }
                Err(error) => return Err(error.into()),
            }
        }
        if accepted.is_empty() {
            return Ok(Self { study, can_run: false, refused });
        }
        Ok(Self { study: study.with_laws(&accepted)?, can_run: true, refused })
    }
}

/// Runs the scenarios with all laws, and writes the report card.
pub(crate) fn run(args: &CardArgs) -> Result<(), Failure> {
    let originals = catalog::find_studies(&args.scenarios, args.study.quick)?;
    let laws = if args.study.law.is_empty() { card_laws(&originals) } else { args.study.law.clone() };
    let backend = simulator();
    let candidates = originals.into_iter().map(|study| Candidate::new(study, &laws, &backend));
    let candidates: Vec<Candidate> = candidates.collect::<Result<_, _>>()?;
    let studies: Vec<Study> = candidates
        .iter()
        .filter(|candidate| candidate.can_run)
        .map(|candidate| candidate.study.clone())
        .collect();
    let suite = Suite::run(studies, &args.study, None, Shard::WHOLE, BackendKind::Sim)?;
    let mut run_index = 0;
    let mut inputs = Vec::new();
    for Candidate { study, can_run, refused } in &candidates {
        let runs = if *can_run { suite.results.runs_of(run_index).collect() } else { Vec::new() };
        run_index += usize::from(*can_run);
        inputs.push(CardInput { study, runs, refused: refused.clone() });
    }
    let card = ReportCard::new(&laws, &inputs)?;
    let identity = backend::identity(BackendKind::Sim);
    report::write_page(&suite.reports, suite.store.root(), PAPERS, &identity)?;
    let [page, _] = write_files(&card, suite.store.root())?;
    if args.study.json {
        outln!("{}", serde_json::to_string_pretty(&card)?);
    } else {
        print::print_card(&card);
        let without = card.count(None, Grade::None);
        if without > 0 {
            outln!("\nresults without a grade: {without}; the page states why");
        }
        outln!("\nresult {}; report card: {}", suite.result_hash, page.display());
    }
    suite.stop.map_or(Ok(()), Err)
}

/// Writes the page and the tables, and returns their paths.
fn write_files(card: &ReportCard, folder: &Path) -> Result<[PathBuf; 2], Failure> {
    let [page, tables] = FILES.map(|name| folder.join(name));
    fs::create_dir_all(folder).map_err(Failure::file(folder))?;
    fs::write(&page, render_card(card)).map_err(Failure::file(&page))?;
    fs::write(&tables, card.to_markdown("report-card.html")).map_err(Failure::file(&tables))?;
    Ok([page, tables])
}
