//! Reads the files that a scenario names: size distributions, flow lists, topologies and traffic matrices.
//!
//! Paths are relative to the folder of the scenario. The files are untrusted: their size is bounded, and every error
//! names the file, the line and a remedy.

pub use crate::scenario::{FileError, FileErrorKind};
use crate::scenario::{FlowFormatSpec, StartUnitSpec, TopologyFormatSpec};
use core::sync::atomic::{AtomicBool, Ordering};
use poseidon_plan::Topology;
use poseidon_plan::patterns::SizeDistribution;
use poseidon_plan::topology::Edges;
use poseidon_traces::{
    FctRow, FlowFile, HtsimTopology, NodeMap, StartUnit, TraceError, TraceTraffic, find_flow_line,
    parse_hpcc_topology, parse_htsim_topology,
};
use poseidon_types::Bytes;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The largest text file that is read as a whole.
const MAX_TEXT: u64 = 64 << 20;

/// The largest number of ranks in a traffic matrix.
const MAX_MATRIX_RANKS: usize = 4_096;

/// A network that a file describes.
#[derive(Clone, Debug, PartialEq)]
pub struct FileTopology {
    /// The network.
    pub topology: Topology,
    /// The hosts by the numbers that the file uses, if these differ from the host numbers.
    pub nodes: Option<NodeMap>,
}

/// Reads files relative to the folder of a scenario. A flow list is parsed once and shared between runs.
#[derive(Debug, Default)]
pub struct InputFiles {
    folder: PathBuf,
    /// Whether files outside the folder are rejected, because the scenario comes from an untrusted source.
    is_confined: bool,
    /// Whether a file was read.
    is_used: AtomicBool,
    flow_files: Mutex<BTreeMap<FlowFileKey, Arc<FlowFile>>>,
}

type FlowFileKey = (PathBuf, FlowFormatSpec, Option<StartUnitSpec>);

impl InputFiles {
    /// Reads files in the folder of a scenario file.
    pub fn beside(scenario: &str) -> Self {
        let folder = Path::new(scenario).parent().unwrap_or_else(|| Path::new("")).to_owned();
        Self { folder, is_confined: false, ..Self::default() }
    }

    /// Reads only files inside a folder. Absolute paths, `..` and symbolic links to other folders are rejected.
    pub fn confined_to(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), is_confined: true, ..Self::default() }
    }

    /// Reads a size distribution.
    pub fn sizes(&self, name: &str) -> Result<SizeDistribution, FileError> {
        let path = self.path(name)?;
        let text = read_text(&path)?;
        poseidon_traces::parse_sizes(&text).map_err(|error| trace_error(&path, error))
    }

    /// Reads a flow list with at most `max_flows` flows.
    pub fn flows(
        &self,
        name: &str,
        format: Option<FlowFormatSpec>,
        unit: Option<StartUnitSpec>,
        max_flows: usize,
    ) -> Result<Arc<FlowFile>, FileError> {
        let path = self.path(name)?;
        let error = |kind| FileError { path: path.clone(), kind };
        let Some(format) = self.flow_format(name, format) else {
            return Err(error(FileErrorKind::UnknownFormat { formats: "\"csv\", \"hpcc\" or \"htsim\"" }));
        };
        match (format, unit) {
            (FlowFormatSpec::Htsim, None) => return Err(error(FileErrorKind::NoStartUnit)),
            (FlowFormatSpec::Csv | FlowFormatSpec::Hpcc, Some(_)) => {
                return Err(error(FileErrorKind::UnusedStartUnit));
            }
            _ => {}
        }
        let key = (path.clone(), format, unit);
        // A poisoned lock means that another run panicked. The cache holds only complete files.
        if let Some(flows) = self.flow_files.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Arc::clone(flows));
        }
        let mut reader = open(&path)?;
        let flows = parse_flows(&mut reader, format, unit, max_flows);
        let flows = Arc::new(flows.map_err(|error| trace_error(&path, error))?);
        let mut cache = self.flow_files.lock().unwrap_or_else(PoisonError::into_inner);
        cache.insert(key, Arc::clone(&flows));
        Ok(flows)
    }

    /// Converts the flows of a file to traffic. An error names the line of the flow.
    pub fn traffic(
        &self,
        name: &str,
        format: Option<FlowFormatSpec>,
        flows: &FlowFile,
        nodes: &NodeMap,
    ) -> Result<TraceTraffic, FileError> {
        let path = self.path(name)?;
        let format = self.flow_format(name, format).unwrap_or(FlowFormatSpec::Csv);
        TraceTraffic::new(flows, nodes, format.priority_source()).map_err(|error| {
            let find_line = |flow| find_flow_line(open(&path).ok()?, format.layout(), flow).ok().flatten();
            let line = error.flow().and_then(find_line);
            FileError { path: path.clone(), kind: FileErrorKind::Flows { line, error } }
        })
    }

    /// Returns the format of a flow list: the given one, or the one that its name shows.
    pub fn flow_format(&self, name: &str, format: Option<FlowFormatSpec>) -> Option<FlowFormatSpec> {
        format.or_else(|| match Path::new(name).extension()?.to_str()? {
            "cm" | "tm" => Some(FlowFormatSpec::Htsim),
            "csv" => Some(FlowFormatSpec::Csv),
            _ => None,
        })
    }

    /// Reads a topology.
    pub fn topology(
        &self,
        name: &str,
        format: Option<TopologyFormatSpec>,
    ) -> Result<FileTopology, FileError> {
        let path = self.path(name)?;
        let Some(format) = format.or_else(|| topology_format(&path)) else {
            let kind = FileErrorKind::UnknownFormat { formats: "\"links\", \"hpcc\" or \"htsim\"" };
            return Err(FileError { path, kind });
        };
        match format {
            TopologyFormatSpec::Links => {
                let edges = Edges::parse(&read_text(&path)?);
                let edges = edges.map_err(|error| FileError { path, kind: FileErrorKind::Links(error) })?;
                Ok(FileTopology { topology: Topology::Edges(edges), nodes: None })
            }
            TopologyFormatSpec::Hpcc => {
                let network = parse_hpcc_topology(open_text(&path)?);
                let network = network.map_err(|error| trace_error(&path, error))?;
                let nodes = network.node_map();
                Ok(FileTopology { topology: network.topology, nodes: Some(nodes) })
            }
            TopologyFormatSpec::Htsim => {
                Ok(FileTopology { topology: read_htsim_topology(&path)?.topology, nodes: None })
            }
        }
    }

    /// Reads a square matrix of bytes, as nccl-tests reads it: white space between the numbers, one row per line.
    pub fn matrix(&self, name: &str) -> Result<Vec<Vec<Bytes>>, FileError> {
        let path = self.path(name)?;
        let text = read_text(&path)?;
        parse_matrix(&text).map_err(|kind| FileError { path, kind })
    }

    /// Returns whether a file was read. The plans of a scenario without files depend only on its text.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    fn path(&self, name: &str) -> Result<PathBuf, FileError> {
        self.is_used.store(true, Ordering::Relaxed);
        let path = self.folder.join(name);
        if !self.is_confined {
            return Ok(path);
        }
        let outside = || FileError {
            path: PathBuf::from(name),
            kind: FileErrorKind::OutsideFolder { folder: self.folder.clone() },
        };
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if !Path::new(name).components().all(is_plain) {
            return Err(outside());
        }
        // A symbolic link may lead to another folder. A missing file is reported when it is opened.
        let Ok(file) = path.canonicalize() else { return Ok(path) };
        let is_inside = self.folder.canonicalize().is_ok_and(|folder| file.starts_with(folder));
        if is_inside { Ok(path) } else { Err(outside()) }
    }
}

/// Reads the completion times of HPCC's ns-3 simulator (`fct.txt`).
pub fn read_fct(path: &Path) -> Result<Vec<FctRow>, FileError> {
    let mut reader = open(path)?;
    poseidon_traces::parse_fct(&mut reader, MAX_FCT_ROWS).map_err(|error| trace_error(path, error))
}

/// The largest number of completion times in a file.
const MAX_FCT_ROWS: usize = 50_000_000;

/// Returns whether the name of a size distribution is a file name.
pub fn is_file_name(name: &str) -> bool {
    name.contains(['.', '/', '\\'])
}

fn trace_error(path: &Path, error: TraceError) -> FileError {
    FileError { path: path.to_owned(), kind: FileErrorKind::Trace(error) }
}

fn topology_format(path: &Path) -> Option<TopologyFormatSpec> {
    (path.extension()? == "topo").then_some(TopologyFormatSpec::Htsim)
}

fn open(path: &Path) -> Result<BufReader<File>, FileError> {
    let error = |kind| FileError { path: path.to_owned(), kind };
    let unreadable = |io: std::io::Error| error(FileErrorKind::Unreadable { message: io.to_string() });
    // Opening a named pipe would block.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(error(FileErrorKind::NotAFile));
    }
    let file = File::open(path).map_err(unreadable)?;
    Ok(BufReader::with_capacity(1 << 20, file))
}

/// Opens a file and reads at most [`MAX_TEXT`] bytes of it.
fn open_text(path: &Path) -> Result<impl BufRead, FileError> {
    Ok(open(path)?.take(MAX_TEXT))
}

/// Reads a topology of htsim.
pub(crate) fn read_htsim_topology(path: &Path) -> Result<HtsimTopology, FileError> {
    parse_htsim_topology(open_text(path)?).map_err(|error| trace_error(path, error))
}

/// Reads a text file of at most [`MAX_TEXT`] bytes.
pub(crate) fn read_text(path: &Path) -> Result<String, FileError> {
    let error = |kind| FileError { path: path.to_owned(), kind };
    let mut bytes = Vec::new();
    let read = open(path)?.take(MAX_TEXT + 1).read_to_end(&mut bytes);
    read.map_err(|io| error(FileErrorKind::Unreadable { message: io.to_string() }))?;
    if bytes.len() as u64 > MAX_TEXT {
        return Err(error(FileErrorKind::TooLarge { limit: Bytes::new(MAX_TEXT) }));
    }
    String::from_utf8(bytes)
        .map_err(|utf8| error(FileErrorKind::NotText { byte: utf8.utf8_error().valid_up_to() }))
}

/// Reads the first lines of a file, to recognise its format. Bytes that are not UTF-8 are replaced.
pub(crate) fn read_head(path: &Path) -> Result<String, FileError> {
    let mut bytes = Vec::new();
    let read = open(path)?.take(64 << 10).read_to_end(&mut bytes);
    let unreadable = |io: std::io::Error| FileErrorKind::Unreadable { message: io.to_string() };
    read.map_err(|io| FileError { path: path.to_owned(), kind: unreadable(io) })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn parse_flows(
    reader: &mut impl BufRead,
    format: FlowFormatSpec,
    unit: Option<StartUnitSpec>,
    max_flows: usize,
) -> Result<FlowFile, TraceError> {
    match format {
        FlowFormatSpec::Csv => poseidon_traces::parse_csv(reader, max_flows),
        FlowFormatSpec::Hpcc => poseidon_traces::parse_hpcc(reader, max_flows),
        FlowFormatSpec::Htsim => {
            let unit = unit.map_or(StartUnit::Picoseconds, StartUnitSpec::unit);
            poseidon_traces::parse_cm(reader, unit, max_flows)
        }
    }
}

fn parse_matrix(text: &str) -> Result<Vec<Vec<Bytes>>, FileErrorKind> {
    let mut rows: Vec<Vec<Bytes>> = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let row: Vec<Bytes> = text
            .split_whitespace()
            .map(|word| {
                let bytes = word.parse().map(Bytes::new);
                bytes.map_err(|_| FileErrorKind::NotBytes { line, text: word.to_owned() })
            })
            .collect::<Result<_, _>>()?;
        if row.is_empty() {
            continue;
        }
        let (columns, expected) = (row.len(), rows.first().map_or(row.len(), Vec::len));
        if columns != expected {
            return Err(FileErrorKind::UnevenMatrix { line, columns, expected });
        }
        if columns > MAX_MATRIX_RANKS || rows.len() == MAX_MATRIX_RANKS {
            return Err(FileErrorKind::TooManyRanks { limit: MAX_MATRIX_RANKS });
        }
        rows.push(row);
    }
    let columns = rows.first().map_or(0, Vec::len);
    if rows.len() == columns && columns > 0 {
        Ok(rows)
    } else {
        Err(FileErrorKind::NotSquare { rows: rows.len(), columns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn square_matrix_is_read() {
        let bytes = |row: [u64; 2]| row.map(Bytes::new).to_vec();
        assert_eq!(parse_matrix("0 16\n\n 32\t0 \n"), Ok(vec![bytes([0, 16]), bytes([32, 0])]));
    }

    #[test]
    fn invalid_matrix_is_rejected_with_its_line() {
        let error = |text: &str| parse_matrix(text).expect_err("the matrix is invalid").to_string();
        assert_eq!(error("0 1\n2"), "line 2 has 1 numbers, but line 1 has 2; write a square matrix");
        assert_eq!(error("0 1\n2 x"), "line 2: \"x\" is not a number of bytes; write a whole number");
        assert!(error("0 1").starts_with("the matrix has 1 rows and 2 columns"));
        assert!(error("").starts_with("the matrix has 0 rows"));
    }

    #[test]
    fn a_confined_scenario_reads_no_file_outside_its_folder() {
        let folder = std::env::temp_dir().join(format!("poseidon-confined-{}", std::process::id()));
        let inner = folder.join("inner");
        std::fs::create_dir_all(&inner).expect("the folder is writable");
        std::fs::write(folder.join("sizes.csv"), "1000,1\n").expect("the folder is writable");
        std::fs::write(inner.join("sizes.csv"), "1000,1\n").expect("the folder is writable");
        #[cfg(unix)]
        std::os::unix::fs::symlink(folder.join("sizes.csv"), inner.join("link.csv"))
            .expect("links work here");
        let files = InputFiles::confined_to(&inner);
        let kind = |name: &str| files.sizes(name).map(drop).map_err(|error| error.kind);
        let is_outside = |name: &str| matches!(kind(name), Err(FileErrorKind::OutsideFolder { .. }));
        let is_inside = |name: &str| !is_outside(name);
        assert!(is_inside("sizes.csv") && is_inside("./sizes.csv") && is_inside("missing.csv"));
        let absolute = folder.join("sizes.csv");
        for name in ["../sizes.csv", "x/../../sizes.csv", "/etc/passwd", &absolute.to_string_lossy()] {
            assert!(is_outside(name), "{name}");
        }
        #[cfg(unix)]
        assert!(is_outside("link.csv"));
        std::fs::remove_dir_all(&folder).expect("the folder is ours");
    }

    #[test]
    fn missing_file_and_folder_are_rejected() {
        let files = InputFiles::beside("scenarios/a.toml");
        let error = files.sizes("no/such.csv").expect_err("the file does not exist");
        assert_eq!(error.path, Path::new("scenarios/no/such.csv"));
        assert!(error.to_string().contains("relative to the folder of the scenario"), "{error}");
        let error = InputFiles::beside("a.toml").sizes(".").expect_err("a folder is not a file");
        assert!(matches!(error.kind, FileErrorKind::NotAFile | FileErrorKind::Unreadable { .. }));
    }
}
