//! Studies on a cluster: `poseidon emit`, `poseidon status` and `poseidon merge`.

mod emit;

use crate::location::{self, Location};
use crate::{Failure, cloud};
use clap::Args;
use core::time::Duration;
pub(crate) use emit::{EmitArgs, emit};
use poseidon_lab::budget::ShortDuration;
use poseidon_lab::merge::{MergeReport, merge};
use poseidon_lab::status::{StudyStatus, read_remote_status, read_status};
use poseidon_lab::store::Store;
use std::path::PathBuf;

/// Arguments of `poseidon status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The results folder of `run` or `repro`, or s3://BUCKET/PREFIX.
    #[arg(default_value = "results")]
    folder: PathBuf,
    /// The number of seeds per cell of the runs, if it is not that of the scenario.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    seeds: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Prints what is done, running, failed and left.
pub(crate) fn status(args: &StatusArgs) -> Result<(), Failure> {
    let studies = match Location::new(&args.folder) {
        Location::Folder(folder) => read_status(&Store::new(folder), args.seeds)?,
        Location::ObjectStore(url) => read_remote_status(&cloud::open_existing(url)?, args.seeds)?,
    };
    if studies.is_empty() {
        let logs = args.folder.join(emit::LOGS);
        let remedy = if logs.is_dir() {
            format!("no task has started a run yet; {} has what the tasks say", logs.display())
        } else {
            "name the folder that `poseidon run -o` writes".to_owned()
        };
        return Err(Failure::Run(format!("{} has no results; {remedy}", args.folder.display())));
    }
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&studies)?);
        return Ok(());
    }
    studies.iter().for_each(print_status);
    Ok(())
}

fn print_status(study: &StudyStatus) {
    let StudyStatus { study: name, runs, done, running, abandoned, failed, left, .. } = study;
    let form = if study.quick { " (quick form)" } else { "" };
    outln!("{name}{form}: {done} of {runs} runs done, {running} running, {failed} failed, {left} left");
    if *abandoned > 0 {
        outln!("  {abandoned} abandoned: their process has ended; the next task repeats them");
    }
    if let Some(eta) = study.eta_s {
        outln!("  about {} left", ShortDuration(Duration::from_secs_f64(eta)));
    }
    for run in &study.running_runs {
        outln!("  running on {} (process {}): {}", run.host, run.pid, run.run);
    }
    for run in &study.failed_runs {
        outln!("  failed: {} seed {}: {}", poseidon_lab::judge::cell_name(&run.cell), run.seed, run.error);
    }
}

/// Arguments of `poseidon merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The results folder that gets the runs of the others. It need not exist.
    target: PathBuf,
    /// The results folders to copy from, or s3://BUCKET/PREFIX. They stay as they are.
    #[arg(required = true)]
    sources: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Copies runs into a results folder.
pub(crate) fn merge_folders(args: &MergeArgs) -> Result<(), Failure> {
    location::require_folder(&args.target)?;
    let target = Store::new(&args.target);
    let mut report = MergeReport::default();
    for source in &args.sources {
        let merged = match Location::new(source) {
            Location::Folder(folder) => merge(&target, &Store::new(folder), &mut report),
            Location::ObjectStore(url) => {
                let warn = |text: &str| eprintln!("poseidon: {text}");
                cloud::open_existing(url)?.merge_into(&target, &mut report, &warn)
            }
        };
        merged.map_err(|error| Failure::Run(error.to_string()))?;
    }
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    let MergeReport { studies, copied, present, incomplete, other_scenarios } = &report;
    outln!(
        "copied {copied} runs of {} studies into {}; {present} were there, {incomplete} were incomplete",
        studies.len(),
        args.target.display()
    );
    for study in other_scenarios {
        outln!("  {study} has different scenarios; the one in {} stays", args.target.display());
    }
    Ok(())
}
