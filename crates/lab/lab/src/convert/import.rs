//! Writes a scenario for the files of another simulator. The scenario states every setting and refers to the files.

use crate::files::{FileError, FileTopology, InputFiles, read_htsim_topology};
use crate::scenario::{FlowFormatSpec, StartUnitSpec, TopologyFormatSpec};
use core::fmt::{self, Write as _};
use poseidon_traces::FlowStart;
use poseidon_types::{Bytes, Picos};
use std::path::{Path, PathBuf};

/// What a file describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A size distribution.
    Sizes,
    /// A list of flows.
    Flows(FlowFormatSpec),
    /// A network.
    Topology(TopologyFormatSpec),
}

/// A file to import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The path that the scenario contains, relative to the folder of the scenario.
    pub reference: String,
    /// What the file describes.
    pub kind: FileKind,
}

/// Options of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// The unit of start times in htsim files.
    pub start_unit: Option<StartUnitSpec>,
    /// The law of all flows.
    pub law: String,
    /// The maximum number of flows in a file.
    pub max_flows: usize,
}

/// The reason that files cannot be imported.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the error message documents each variant and its fields")]
pub enum ImportError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(
        "{}: the content is no known format; known are size distributions, flow lists and topologies of this program, \
         HPCC and htsim",
        .path.display()
    )]
    UnknownContent { path: PathBuf },
    #[error("two of the files are topologies; import one topology")]
    TwoTopologies,
    #[error("{}: a flow uses node {node}, but the topology has {hosts} hosts", .path.display())]
    UnknownNode { path: PathBuf, node: u32, hosts: u32 },
}

/// Recognises a file by the end of its name and by its first lines.
pub fn recognise_file(path: &Path) -> Result<FileKind, ImportError> {
    let by_name = match path.extension().and_then(|extension| extension.to_str()) {
        Some("cm" | "tm") => Some(FileKind::Flows(FlowFormatSpec::Htsim)),
        Some("topo") => Some(FileKind::Topology(TopologyFormatSpec::Htsim)),
        _ => None,
    };
    if let Some(kind) = by_name {
        return Ok(kind);
    }
    let head = crate::files::read_head(path)?;
    recognise_content(&head).ok_or_else(|| ImportError::UnknownContent { path: path.to_owned() })
}

/// Recognises a format by the first lines of a file.
fn recognise_content(head: &str) -> Option<FileKind> {
    let lines = head.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).take(200).collect();
    let first = *lines.first()?;
    if first == "size_bytes,cdf" {
        return Some(FileKind::Sizes);
    }
    if first.split(',').any(|column| column == "from") && first.contains("size_bytes") {
        return Some(FileKind::Flows(FlowFormatSpec::Csv));
    }
    if first.contains("->") || first.starts_with("Nodes ") || first.starts_with("Connections ") {
        return Some(FileKind::Flows(FlowFormatSpec::Htsim));
    }
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let is_number = |word: &String| word.parse::<f64>().is_ok();
    let first_words = words(first);
    let second_words = lines.get(1).map(|line| words(line)).unwrap_or_default();
    if first_words.len() == 6 && first_words[3].ends_with("bps") {
        return Some(FileKind::Topology(TopologyFormatSpec::Links));
    }
    if !first_words.iter().all(is_number) {
        return None;
    }
    match first_words.len() {
        1 if second_words.len() == 6 => Some(FileKind::Flows(FlowFormatSpec::Hpcc)),
        2 if second_words.len() == 2 => Some(FileKind::Sizes),
        3 if lines.iter().any(|line| words(line).get(2).is_some_and(|word| word.ends_with("bps"))) => {
            Some(FileKind::Topology(TopologyFormatSpec::Hpcc))
        }
        _ => None,
    }
}

/// Returns a scenario that uses the files, and states every setting that they leave open.
pub fn import_scenario(files: &[ImportedFile], options: &ImportOptions) -> Result<String, ImportError> {
    let names: Vec<String> = files
        .iter()
        .map(|file| file.path.file_name().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    let mut text = String::new();
    let mut line = |content: fmt::Arguments<'_>| {
        text.write_fmt(content)
            .and_then(|()| text.write_char('\n'))
            .expect("writing to a string cannot fail");
    };
    let network = Network::read(files)?;
    let flows = read_flows(files, options, network.as_ref())?;
    line(format_args!("title  = {}", quoted(&format!("Imported from {}", names.join(", ")))));
    line(format_args!("source = {}", quoted(&names.join(", "))));
    line(format_args!("law    = {}", quoted(&options.law)));
    line(format_args!("# The run ends when all flows have finished, at this time at the latest."));
    line(format_args!("stop   = \"{}\"", flows.last_start + TIME_TO_FINISH));
    line(format_args!("seeds  = 1\n"));
    match &network {
        Some(network) => network.write(&mut line),
        None => {
            line(format_args!("# No file describes the network. Change this to your network."));
            line(format_args!("[topology]\nkind  = \"star\"\nhosts = {}", flows.nodes.max(2)));
            line(format_args!("link  = {{ rate = \"100 Gbps\", delay = \"1 us\" }}\n"));
        }
    }
    let pipeline = network.as_ref().and_then(|network| network.pipeline);
    let queue = network.as_ref().and_then(|network| network.queue);
    line(format_args!("{}", settings(pipeline, queue)));
    for (index, file) in files.iter().enumerate() {
        match file.kind {
            FileKind::Topology(_) => {}
            FileKind::Flows(format) => {
                line(format_args!(
                    "[[traffic]]\nname   = \"flows{}\"\nkind   = \"flow-list\"",
                    suffix(files, index)
                ));
                line(format_args!("file   = {}", quoted(&file.reference)));
                line(format_args!("format = \"{}\"", flow_format_name(format)));
                if let (FlowFormatSpec::Htsim, Some(unit)) = (format, options.start_unit) {
                    line(format_args!("start-unit = \"{}\"", unit.unit().symbol()));
                }
                line(format_args!(""));
            }
            FileKind::Sizes => {
                line(format_args!(
                    "# The file gives only sizes. Choose the load and the end of the traffic."
                ));
                line(format_args!(
                    "[[traffic]]\nname  = \"flows{}\"\nkind  = \"poisson-flows\"",
                    suffix(files, index)
                ));
                line(format_args!("sizes = {}", quoted(&file.reference)));
                line(format_args!("load  = 0.5\nuntil = \"2 ms\"\ndestinations = \"other-hosts\"\n"));
            }
        }
    }
    Ok(text)
}

/// How long flows may take after the last start.
const TIME_TO_FINISH: Picos = Picos::new(1_000_000_000_000);

/// A network file and what the scenario says about it.
struct Network {
    reference: String,
    format: TopologyFormatSpec,
    topology: FileTopology,
    /// The switch latency, if the file states it.
    pipeline: Option<Picos>,
    /// The size of all queues, if the file states it.
    queue: Option<Bytes>,
}

impl Network {
    fn read(files: &[ImportedFile]) -> Result<Option<Self>, ImportError> {
        let mut found = None;
        for file in files {
            let FileKind::Topology(format) = file.kind else { continue };
            if found.is_some() {
                return Err(ImportError::TwoTopologies);
            }
            let topology = reader_of(file).topology(&file_name(file), Some(format))?;
            let (mut pipeline, mut queue) = (None, None);
            if format == TopologyFormatSpec::Htsim {
                let htsim = read_htsim_topology(&file.path)?;
                (pipeline, queue) = (htsim.switch_latency(), htsim.queue_size());
            }
            found = Some(Self { reference: file.reference.clone(), format, topology, pipeline, queue });
        }
        Ok(found)
    }

    fn hosts(&self) -> u32 {
        self.topology.topology.hosts()
    }

    fn write(&self, line: &mut impl FnMut(fmt::Arguments<'_>)) {
        line(format_args!("# {} hosts, {} switches.", self.hosts(), self.topology.topology.switches()));
        let format = match self.format {
            TopologyFormatSpec::Links => "links",
            TopologyFormatSpec::Hpcc => "hpcc",
            TopologyFormatSpec::Htsim => "htsim",
        };
        line(format_args!("[topology]\nkind   = \"file\"\nfile   = {}", quoted(&self.reference)));
        line(format_args!("format = \"{format}\"\n"));
    }
}

/// The facts about flow lists that the scenario needs.
#[derive(Default)]
struct FlowFacts {
    last_start: Picos,
    /// The largest node number plus one.
    nodes: u32,
}

fn read_flows(
    files: &[ImportedFile],
    options: &ImportOptions,
    network: Option<&Network>,
) -> Result<FlowFacts, ImportError> {
    let mut facts = FlowFacts::default();
    for file in files {
        match file.kind {
            FileKind::Topology(_) => {}
            FileKind::Sizes => {
                reader_of(file).sizes(&file_name(file))?;
                facts.nodes = facts.nodes.max(16);
            }
            FileKind::Flows(format) => {
                let unit = options.start_unit.filter(|_| format == FlowFormatSpec::Htsim);
                let flows = reader_of(file).flows(&file_name(file), Some(format), unit, options.max_flows)?;
                facts.nodes = facts.nodes.max(flows.nodes.unwrap_or(0));
                for flow in &flows.flows {
                    if let FlowStart::At(start) = flow.start {
                        facts.last_start = facts.last_start.max(start);
                    }
                    facts.nodes = facts.nodes.max(flow.from.max(flow.to).saturating_add(1));
                    for node in [flow.from, flow.to] {
                        check_node(file, node, network)?;
                    }
                }
            }
        }
    }
    Ok(facts)
}

fn check_node(file: &ImportedFile, node: u32, network: Option<&Network>) -> Result<(), ImportError> {
    let Some(network) = network else { return Ok(()) };
    let is_host = match &network.topology.nodes {
        Some(nodes) => nodes.host(node).is_some(),
        None => node < network.hosts(),
    };
    let unknown = || ImportError::UnknownNode { path: file.path.clone(), node, hosts: network.hosts() };
    is_host.then_some(()).ok_or_else(unknown)
}

/// Returns a reader for the folder of a file.
fn reader_of(file: &ImportedFile) -> InputFiles {
    InputFiles::beside(&file.path.to_string_lossy())
}

fn file_name(file: &ImportedFile) -> String {
    file.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the number that distinguishes the traffic of several files.
fn suffix(files: &[ImportedFile], index: usize) -> String {
    let has_traffic = |file: &&ImportedFile| !matches!(file.kind, FileKind::Topology(_));
    if files.iter().filter(has_traffic).count() < 2 {
        return String::new();
    }
    format!("-{}", files[..index].iter().filter(has_traffic).count() + 1)
}

const fn flow_format_name(format: FlowFormatSpec) -> &'static str {
    match format {
        FlowFormatSpec::Csv => "csv",
        FlowFormatSpec::Hpcc => "hpcc",
        FlowFormatSpec::Htsim => "htsim",
    }
}

/// Quotes a TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Returns the settings that the files leave open, with their defaults.
fn settings(pipeline: Option<Picos>, queue: Option<Bytes>) -> String {
    let pipeline = pipeline.map_or_else(|| "600 ns".to_owned(), |pipeline| pipeline.to_string());
    let buffer = match queue {
        Some(size) => format!("{{ policy = \"per-queue\", size = \"{size}\" }}"),
        None => "{ policy = \"shared\", size = \"64 MB\", alpha = 8 }".to_owned(),
    };
    format!(
        "[switch]
pipeline   = \"{pipeline}\"
priorities = 1
buffer     = {buffer}
mark       = {{ policy = \"off\" }}
stamp      = \"auto\"

[transport]
mtu       = \"4096 B\"
header    = \"0 B\"
ack       = \"64 B\"
min-rto   = \"250 us\"
first-rto = \"1 ms\"
go-back-n = false
ack-every = 1
spray     = false
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{SwitchSpec, TransportSpec};

    #[test]
    fn stated_settings_are_the_defaults() {
        let text = format!("title = \"a\"\nsource = \"b\"\nstop = \"1 ms\"\n{}", settings(None, None));
        let cells = crate::scenario::read_cells("test.toml", &text, false).expect("the settings are valid");
        let scenario = &cells[0].scenario;
        assert_eq!(format!("{:?}", scenario.switch), format!("{:?}", SwitchSpec::default()));
        assert_eq!(format!("{:?}", scenario.transport), format!("{:?}", TransportSpec::default()));
    }

    #[test]
    fn formats_are_recognised_by_their_first_lines() {
        let recognise = |text: &str| recognise_content(text);
        assert_eq!(recognise("size_bytes,cdf\n0,0\n"), Some(FileKind::Sizes));
        assert_eq!(recognise("0 0\n100 50\n300 100\n"), Some(FileKind::Sizes));
        assert_eq!(
            recognise("from,to,size_bytes,start_us\nh0,h1,5,1"),
            Some(FileKind::Flows(FlowFormatSpec::Csv))
        );
        assert_eq!(recognise("2\n0 1 3 100 5 2.0\n"), Some(FileKind::Flows(FlowFormatSpec::Hpcc)));
        let hpcc = "3 1 2\n2\n0 2 100Gbps 0.001ms 0\n1 2 100Gbps 0.001ms 0\n";
        assert_eq!(recognise(hpcc), Some(FileKind::Topology(TopologyFormatSpec::Hpcc)));
        let links = "# mine\nh0 s0 100 Gbps 1 us\n";
        assert_eq!(recognise(links), Some(FileKind::Topology(TopologyFormatSpec::Links)));
        assert_eq!(
            recognise("Nodes 4\nConnections 1\n0->1 start 0 size 5"),
            Some(FileKind::Flows(FlowFormatSpec::Htsim))
        );
        assert_eq!(recognise("hello\n"), None);
        assert_eq!(recognise(""), None);
    }
}
