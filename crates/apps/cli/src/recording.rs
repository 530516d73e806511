//! Records runs in detail: traces for Perfetto, packets for Wireshark, and qlog.

use crate::backend::simulator;
use crate::backend_kind::BackendKind;
use crate::{Failure, map};
use clap::{Args, ValueEnum};
use poseidon_lab::budget::short_bytes;
use poseidon_lab::judge::cell_name;
use poseidon_lab::recording::pcapng::PcapngSink;
use poseidon_lab::recording::perfetto::PerfettoSink;
use poseidon_lab::recording::qlog::QlogSink;
use poseidon_lab::recording::{
    RecordedWindow, RecordingError, RecordingOptions, Selection, Tee, record, select,
};
use poseidon_lab::resolve::ResolvedRun;
use poseidon_lab::scenario::Cell;
use poseidon_lab::store::Store;
use poseidon_lab::study::Study;
use poseidon_plan::records::Sink;
use poseidon_types::{Bytes, Picos};
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// The size limit of each file. A trace of 200 MB is about the largest that Perfetto's page can open.
const MAX_FILE_BYTES: u64 = 190_000_000;

/// The number of cells that are recorded if the user does not choose a cell.
const MAX_CELLS: usize = 4;

/// The folder of recordings, inside the folder of a study.
const FOLDER: &str = "recordings";

/// Options that record runs in detail.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Recording")]
pub(crate) struct RecordArgs {
    /// Write a trace of the run: queues, windows, messages, pauses, drops and marks. `ui.perfetto.dev` opens it.
    #[arg(long, value_enum, value_name = "FORMAT")]
    trace: Option<TraceFormat>,
    /// Write the packets of these ports for Wireshark, such as `host3:0` or `switch5:2,switch5:3`.
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    pcap: Vec<String>,
    /// Write the window, the RTT and the pacing of flows as qlog, one file per flow.
    #[arg(long)]
    qlog: bool,
    /// Write a page with a map of the network: the load and the queue of every link over time.
    #[arg(long)]
    map: bool,
    /// Record from this time, such as `1ms` [default: the start of the run].
    #[arg(long, value_name = "TIME")]
    from: Option<Picos>,
    /// Record until this time, such as `2ms` [default: the end of the run].
    #[arg(long, value_name = "TIME")]
    to: Option<Picos>,
    /// The time between two samples, such as `10us` [default: that of the scenario, or more in long runs].
    #[arg(long, value_name = "TIME")]
    sample: Option<Picos>,
    /// The numbers of the flows to sample, such as `0,7` [default: 64 flows, from all traffic patterns].
    #[arg(long, value_name = "FLOWS", value_delimiter = ',')]
    flows: Vec<u32>,
    /// The cell to record, as `run` prints it [default: the first four cells].
    #[arg(long)]
    cell: Option<String>,
    /// The seed of the recorded run.
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
}

/// The format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TraceFormat {
    /// Protobuf for `ui.perfetto.dev`.
    Perfetto,
}

impl RecordArgs {
    pub(crate) const fn is_on(&self) -> bool {
        self.has_files() || self.map
    }

    /// Returns whether a recording has files besides the map.
    const fn has_files(&self) -> bool {
        self.trace.is_some() || !self.pcap.is_empty() || self.qlog
    }

    /// Returns an option that has no effect without a recording.
    fn unused_option(&self) -> Option<&'static str> {
        let options = [
            ("--from", self.from.is_some()),
            ("--to", self.to.is_some()),
            ("--sample", self.sample.is_some()),
            ("--flows", !self.flows.is_empty()),
            ("--cell", self.cell.is_some()),
            ("--seed", self.seed.is_some()),
        ];
        options.into_iter().find(|(_, is_set)| *is_set).map(|(name, _)| name)
    }

    fn selection(&self) -> Selection {
        Selection {
            samples: self.trace.is_some() || self.qlog,
            connections: self.flows.clone(),
            sample_every: self.sample,
            captured_ports: self.pcap.clone(),
            from: self.from,
            to: self.to,
        }
    }
}

/// A study whose recording has been checked.
#[derive(Debug)]
pub(crate) struct CheckedRecording {
    study: Study,
    args: RecordArgs,
    /// The indices of the cells to record.
    cells: Vec<usize>,
    seed: u64,
}

/// Checks the recording of a study before its runs start. Returns `None` if nothing is recorded.
pub(crate) fn check(
    study: &Study,
    args: &RecordArgs,
    backend: BackendKind,
) -> Result<Option<CheckedRecording>, Failure> {
    if !args.is_on() {
        return match args.unused_option() {
            Some(option) => Err(Failure::Usage(format!("{option} needs --trace, --pcap, --qlog or --map"))),
            None => Ok(None),
        };
    }
    if backend == BackendKind::Linux {
        return Err(Failure::Usage(
            "--trace, --pcap, --qlog and --map record simulated runs; leave out --on linux".to_owned(),
        ));
    }
    let is_simulated = |cell: &Cell| cell.scenario.analytic.is_none() && cell.scenario.withdrawn.is_none();
    let simulated = (0..study.cells.len()).filter(|cell| is_simulated(&study.cells[*cell]));
    let mut cells: Vec<usize> = simulated.collect();
    if cells.is_empty() || study.skip_reason().is_some() {
        return Err(Failure::Usage(format!("{} has no simulated runs to record", study.name)));
    }
    if let Some(name) = &args.cell {
        let names: Vec<String> = cells.iter().map(|cell| cell_name(&study.cells[*cell].labels)).collect();
        cells.retain(|cell| cell_name(&study.cells[*cell].labels) == *name);
        if cells.is_empty() {
            let known = match names.as_slice() {
                [only] if only.is_empty() => "there is only one, without a name".to_owned(),
                names => format!("there are {}", names.join("; ")),
            };
            return Err(Failure::Usage(format!("there is no cell {name:?}; {known}")));
        }
    }
    cells.truncate(MAX_CELLS);
    let recording =
        CheckedRecording { study: study.clone(), args: args.clone(), cells, seed: args.seed.unwrap_or(1) };
    for cell in &recording.cells {
        let resolved = recording.resolve(*cell)?;
        select(&resolved, &args.selection(), &simulator())?;
    }
    Ok(Some(recording))
}

impl CheckedRecording {
    fn resolve(&self, cell: usize) -> Result<ResolvedRun, Failure> {
        Ok(self.study.resolve(&self.study.cells[cell], self.seed, &simulator())?)
    }

    /// Runs the chosen cells again and writes their recordings. Returns a line per file.
    pub(crate) fn write(&self, store: &Store) -> Result<Vec<String>, Failure> {
        let folder = store.study_folder(&self.study.name).join(FOLDER);
        let mut lines = Vec::new();
        for cell in &self.cells {
            if self.args.has_files() {
                fs::create_dir_all(&folder).map_err(Failure::file(&folder))?;
                lines.extend(self.write_cell(*cell, &folder.join(self.file_name(*cell)))?);
            }
            if self.args.map {
                let resolved = self.resolve(*cell)?;
                let cell = &self.study.cells[*cell];
                let window = RecordedWindow::new(&resolved, self.args.from, self.args.to)?;
                let window = window.from..window.to;
                lines.push(map::write(&self.study, cell, &resolved, self.seed, window, store)?);
            }
        }
        let simulated = self.study.cells.len();
        if self.args.cell.is_none() && self.cells.len() < simulated {
            let cells = self.cells.len();
            eprintln!("recorded the first {cells} of {simulated} cells; --cell chooses another one");
        }
        Ok(lines)
    }

    /// Records one cell. Returns a line per file.
    fn write_cell(&self, cell: usize, base: &Path) -> Result<Vec<String>, Failure> {
        let resolved = self.resolve(cell)?;
        let (options, window) = select(&resolved, &self.args.selection(), &simulator())?;
        let create = |path: &Path| File::create(path).map(BufWriter::new).map_err(Failure::file(path));
        let paths = [".pftrace", ".pcapng", ".qlog"].map(|extension| with_extension(base, extension));
        let [trace_path, pcap_path, qlog_path] = &paths;
        let mut trace = match self.args.trace {
            Some(TraceFormat::Perfetto) => {
                let interval = options.sample_every;
                let file = create(trace_path)?;
                Some(PerfettoSink::new(file, &resolved, window, interval, MAX_FILE_BYTES))
            }
            None => None,
        };
        let ports = &options.recording.captured_ports;
        let mut pcap = if ports.is_empty() {
            None
        } else {
            let sink = PcapngSink::new(create(pcap_path)?, &resolved, ports, MAX_FILE_BYTES);
            Some(sink.map_err(Failure::file(pcap_path))?)
        };
        let mut qlog = if self.args.qlog {
            fs::create_dir_all(qlog_path).map_err(Failure::file(qlog_path))?;
            Some(QlogSink::new(qlog_path, &resolved, MAX_FILE_BYTES))
        } else {
            None
        };
        let mut sinks: Vec<&mut dyn Sink> = Vec::new();
        sinks.extend(trace.iter_mut().map(|sink| sink as &mut dyn Sink));
        sinks.extend(pcap.iter_mut().map(|sink| sink as &mut dyn Sink));
        sinks.extend(qlog.iter_mut().map(|sink| sink as &mut dyn Sink));
        let report =
            record(&resolved, &options, &simulator(), &mut Tee(sinks)).map_err(RecordingError::Plan)?;
        let mut lines = Vec::new();
        if let Some(sink) = trace {
            let summary = sink.finish(report.ended).map_err(Failure::file(trace_path))?;
            let text = describe_samples(&options, &resolved, &window);
            let omitted = describe_omitted(summary.omitted, "rows");
            lines.push(line("trace", trace_path, summary.bytes, &format!("{text}{omitted}")));
        }
        if let Some(sink) = pcap {
            let summary = sink.finish().map_err(Failure::file(pcap_path))?;
            let names: Vec<String> = ports.iter().map(ToString::to_string).collect();
            let text = format!("{} packets of {}, {}", summary.packets, names.join(", "), times(&window));
            let omitted = describe_omitted(summary.omitted, "packets");
            lines.push(line("packets", pcap_path, summary.bytes, &format!("{text}{omitted}")));
        }
        if let Some(sink) = qlog {
            let summary = sink.finish()?;
            let text = format!("{} flows, {} events", summary.files, summary.events);
            let omitted = describe_omitted(summary.omitted, "events");
            lines.push(line("qlog", qlog_path, summary.bytes, &format!("{text}{omitted}")));
        }
        Ok(lines)
    }

    /// Returns the name of a cell's files, without an extension. It contains the cell's number if another cell has the
    /// same name.
    fn file_name(&self, cell: usize) -> String {
        let name = |cell: usize| slug(&cell_name(&self.study.cells[cell].labels));
        let is_unique = self.cells.iter().filter(|other| name(**other) == name(cell)).count() == 1;
        let number = if is_unique { String::new() } else { format!("cell{}-", cell + 1) };
        format!("{number}{}seed{}", name(cell), self.seed)
    }
}

/// Turns a cell's name into a part of a file name that ends with a hyphen, or into nothing.
fn slug(name: &str) -> String {
    let mut slug = String::new();
    for character in name.chars().take(80) {
        if character.is_alphanumeric() || character == '.' {
            slug.push(character);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    if !slug.is_empty() && !slug.ends_with('-') {
        slug.push('-');
    }
    slug
}

/// Appends an extension to a file name that may contain dots.
fn with_extension(base: &Path, extension: &str) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(extension);
    PathBuf::from(name)
}

fn line(kind: &str, path: &Path, bytes: u64, text: &str) -> String {
    format!("{kind} {} ({}): {text}", path.display(), short_bytes(Bytes::new(bytes)))
}

fn times(window: &RecordedWindow) -> String {
    format!("from {} to {}", window.from, window.to)
}

/// Describes what a trace samples.
fn describe_samples(options: &RecordingOptions, resolved: &ResolvedRun, window: &RecordedWindow) -> String {
    let (flows, all_flows) = (options.connections.len(), resolved.plan.connections.len());
    let flows =
        if flows == all_flows { format!("{flows} flows") } else { format!("{flows} of {all_flows} flows") };
    let (queues, interval) = (options.ports.len(), options.sample_every);
    format!("{queues} queues and {flows} every {interval}, {}", times(window))
}

/// Describes the rows that a size limit excludes.
fn describe_omitted(omitted: u64, kind: &str) -> String {
    match omitted {
        0 => String::new(),
        omitted => format!(
            "; {omitted} {kind} are above the size limit and not in the file (shorten it with --from and --to)"
        ),
    }
}

impl From<RecordingError> for Failure {
    fn from(error: RecordingError) -> Self {
        match error {
            RecordingError::NotAPort { .. }
            | RecordingError::NoSuchNode { .. }
            | RecordingError::NoSuchPort { .. }
            | RecordingError::NoSuchConnection { .. }
            | RecordingError::EmptyWindow { .. }
            | RecordingError::WindowOutsideRun { .. }
            | RecordingError::TooManySamples { .. } => Self::Usage(error.to_string()),
            RecordingError::Plan(_) | RecordingError::File { .. } => Self::Run(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_file_names() {
        assert_eq!(slug("law poseidon, load 0.5"), "law-poseidon-load-0.5-");
        assert_eq!(slug(""), "");
        assert_eq!(slug("a/../b"), "a-..-b-");
        assert_eq!(
            with_extension(Path::new("load-0.5-seed1"), ".pcapng"),
            Path::new("load-0.5-seed1.pcapng")
        );
    }
}
