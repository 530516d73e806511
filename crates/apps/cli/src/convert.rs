//! Imports files of other simulators as scenarios, and exports the flows of scenarios.

use crate::backend::{identity, simulator};
use crate::backend_kind::BackendKind;
use crate::{Failure, catalog, print};
use clap::{Args, ValueEnum};
use poseidon_lab::compare_fct::{FCT_METRICS, compare_with_fct as compare_with_completion_times};
use poseidon_lab::convert::{
    ExportFormat, ImportOptions, ImportedFile, flow_file, import_scenario, recognise_file, write_flow_file,
};
use poseidon_lab::files::read_fct;
use poseidon_lab::judge::cell_name;
use poseidon_lab::resolve::MAX_MESSAGES;
use poseidon_lab::scenario::StartUnitSpec;
use poseidon_lab::store::Store;
use poseidon_lab::study::Study;
use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Component, Path, PathBuf};

/// Options of `import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The files: a topology, flow lists or size distributions, in the formats of this program, HPCC or htsim.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The scenario to write; `-` writes to standard output.
    #[arg(long, short)]
    output: PathBuf,
    /// The unit of start times in htsim files: `ps` for csg-htsim, `us` for uet-htsim.
    #[arg(long, value_enum)]
    start_unit: Option<Unit>,
    /// The law of all flows.
    #[arg(long, default_value = "poseidon")]
    law: String,
}

/// Options of `export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// A file, or the name of a built-in scenario.
    scenario: String,
    /// The format of the flow list.
    #[arg(long, value_enum)]
    format: Format,
    /// The file to write; `-` writes to standard output.
    #[arg(long, short)]
    output: PathBuf,
    /// The cell, as `run` prints it [default: the first cell].
    #[arg(long)]
    cell: Option<String>,
    /// The seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The unit of start times in htsim files.
    #[arg(long, value_enum, default_value = "ps")]
    start_unit: Unit,
}

/// A unit of start times.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Unit {
    Ps,
    Ns,
    Us,
    Ms,
    S,
}

impl Unit {
    const fn spec(self) -> StartUnitSpec {
        match self {
            Self::Ps => StartUnitSpec::Picoseconds,
            Self::Ns => StartUnitSpec::Nanoseconds,
            Self::Us => StartUnitSpec::Microseconds,
            Self::Ms => StartUnitSpec::Milliseconds,
            Self::S => StartUnitSpec::Seconds,
        }
    }
}

/// A format of flow lists.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Columns with a header: `from,to,size_bytes,start_ps`.
    Csv,
    /// The flow files of HPCC's ns-3 simulator.
    Hpcc,
    /// A connection matrix of htsim (`.cm`), with triggers for dependencies.
    Htsim,
}

/// Writes a scenario for files of other simulators.
pub(crate) fn import(args: &ImportArgs) -> Result<(), Failure> {
    catalog::law_defaults(&args.law)?;
    let folder = args.output.parent().unwrap_or_else(|| Path::new(""));
    let mut files = Vec::new();
    for path in &args.files {
        let kind = recognise_file(path)?;
        let reference = relative_path(folder, path).map_err(Failure::file(path))?;
        files.push(ImportedFile { path: path.clone(), reference, kind });
    }
    let options = ImportOptions {
        start_unit: args.start_unit.map(Unit::spec),
        law: args.law.clone(),
        max_flows: MAX_MESSAGES as usize,
    };
    let text = import_scenario(&files, &options)?;
    let name = args.output.to_string_lossy();
    // The scenario must be valid before it replaces another file.
    let study = Study::read(&name, &text, false)?;
    study.check(&simulator())?;
    if name == "-" {
        outln!("{}", text.trim_end());
        return Ok(());
    }
    fs::write(&args.output, &text).map_err(Failure::file(&args.output))?;
    eprintln!("wrote {name}; run it with `poseidon run {name}`");
    Ok(())
}

/// Writes the flows of a scenario in the format of another simulator.
pub(crate) fn export(args: &ExportArgs) -> Result<(), Failure> {
    let study = catalog::find_study(&args.scenario, false)?;
    study.check(&simulator())?;
    let cell = match &args.cell {
        None => &study.cells[0],
        Some(name) => study.cells.iter().find(|cell| cell_name(&cell.labels) == *name).ok_or_else(|| {
            let names: Vec<String> = study.cells.iter().map(|cell| cell_name(&cell.labels)).collect();
            Failure::Usage(format!("there is no cell {name:?}; there are {}", names.join("; ")))
        })?,
    };
    let resolved = study.resolve(cell, args.seed, &simulator())?;
    let format = match args.format {
        Format::Csv => ExportFormat::Csv,
        Format::Hpcc => ExportFormat::Hpcc,
        Format::Htsim => ExportFormat::Htsim(args.start_unit.spec().unit()),
    };
    let flows = flow_file(&resolved)?;
    let mut bytes = Vec::new();
    write_flow_file(&flows, format, &mut bytes)?;
    if args.output == Path::new("-") {
        outln!("{}", String::from_utf8_lossy(&bytes).trim_end());
        return Ok(());
    }
    let error = || Failure::file(&args.output);
    let mut file = BufWriter::new(fs::File::create(&args.output).map_err(error())?);
    file.write_all(&bytes).and_then(|()| file.flush()).map_err(error())?;
    eprintln!("wrote {} flows to {}", flows.flows.len(), args.output.display());
    Ok(())
}

/// Compares a results folder with a file of completion times.
pub(crate) fn compare_with_fct(
    folder: &Path,
    file: &Path,
    metrics: &[String],
    json: bool,
) -> Result<(), Failure> {
    let rows = read_fct(file)?;
    let requested: Vec<&str> = metrics.iter().map(String::as_str).collect();
    let metrics = if requested.is_empty() { FCT_METRICS } else { requested.as_slice() };
    let store = Store::new(folder);
    let rows = compare_with_completion_times(&store, &rows, metrics, &identity(BackendKind::Sim))?;
    if rows.is_empty() {
        let (folder, known) = (folder.display(), FCT_METRICS.join(", "));
        return Err(Failure::Run(format!("{folder} has no messages with one of these metrics: {known}")));
    }
    print::print_comparison(&rows, [folder, file], json)
}

/// Returns a path relative to a folder.
fn relative_path(folder: &Path, path: &Path) -> std::io::Result<String> {
    let current = std::env::current_dir()?;
    let folder = current.join(folder).canonicalize().unwrap_or_else(|_| current.join(folder));
    let path = path.canonicalize()?;
    let shared = folder.components().zip(path.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(shared).map(|_| Component::ParentDir);
    let relative: PathBuf = up.chain(path.components().skip(shared)).collect();
    Ok(relative.to_string_lossy().into_owned())
}
