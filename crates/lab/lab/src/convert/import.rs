//! Writes a scenario for the files of another simulator. The scenario states every setting and refers to the files.

use super::recognise::FileKind;
use crate::files::{FileError, FileTopology, InputFiles, read_htsim_topology};
use crate::scenario::{FlowFormatSpec, StartUnitSpec, TopologyFormatSpec};
use core::fmt::{self, Write as _};
use poseidon_laws::laws::poseidon::PoseidonParams;
use poseidon_traces::{FlowStart, NodeMap, PrioritySource, TraceFlow};
use poseidon_types::{BitRate, Bytes, Picos};
use std::path::PathBuf;

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
    #[error("two of the files are topologies; import one topology")]
    TwoTopologies,
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
    let rate = network.as_ref().map_or(DEFAULT_RATE, Network::fastest_host_link);
    line(format_args!("{}", law_parameters(rate)));
    match &network {
        Some(network) => network.write(&mut line),
        None => {
            line(format_args!("# No file describes the network. Change this to your network."));
            line(format_args!("[topology]\nkind  = \"star\"\nhosts = {}", flows.nodes.max(2)));
            line(format_args!("link  = {{ rate = \"{DEFAULT_RATE}\", delay = \"1 us\" }}\n"));
        }
    }
    let settings = Settings {
        pipeline: network.as_ref().and_then(|network| network.pipeline),
        queue: network.as_ref().and_then(|network| network.queue),
        priorities: flows.priorities,
    };
    line(format_args!("{settings}"));
    for (index, file) in files.iter().enumerate() {
        write_traffic(file, &suffix(files, index), &flows, options, &mut line);
    }
    Ok(text)
}

/// Writes the traffic of a file. `suffix` distinguishes the traffic of several files.
fn write_traffic(
    file: &ImportedFile,
    suffix: &str,
    flows: &FlowFacts,
    options: &ImportOptions,
    line: &mut impl FnMut(fmt::Arguments<'_>),
) {
    match file.kind {
        FileKind::Topology(_) => {}
        FileKind::Flows(format) => {
            let ignores_priorities = format.priority_source() == PrioritySource::Class;
            if ignores_priorities && flows.has_foreign_priorities {
                line(format_args!(
                    "# The priorities of the file have another meaning and are ignored. Set `priority` for all its flows."
                ));
            }
            line(format_args!("[[traffic]]\nname   = \"flows{suffix}\"\nkind   = \"flow-list\""));
            line(format_args!("file   = {}", quoted(&file.reference)));
            line(format_args!("format = \"{}\"", flow_format_name(format)));
            if let (FlowFormatSpec::Htsim, Some(unit)) = (format, options.start_unit) {
                line(format_args!("start-unit = \"{}\"", unit.unit().symbol()));
            }
            line(format_args!(""));
        }
        FileKind::Sizes => {
            line(format_args!("# The file gives only sizes. Choose the load and the end of the traffic."));
            line(format_args!("[[traffic]]\nname  = \"flows{suffix}\"\nkind  = \"poisson-flows\""));
            line(format_args!("sizes = {}", quoted(&file.reference)));
            line(format_args!("load  = 0.5\nuntil = \"2 ms\"\ndestinations = \"other-hosts\"\n"));
        }
    }
}

/// The rate of all links if no file describes the network.
const DEFAULT_RATE: BitRate = BitRate::from_gbps(100);

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

    /// Returns the rate of the fastest link of a host.
    fn fastest_host_link(&self) -> BitRate {
        let topology = &self.topology.topology;
        topology.host_ids().map(|host| topology.host_link(host).rate).max().unwrap_or(DEFAULT_RATE)
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
struct FlowFacts {
    last_start: Picos,
    /// The largest node number plus one.
    nodes: u32,
    /// The number of queues per port that the priorities need.
    priorities: u32,
    /// Whether a flow has a priority that the scenario ignores.
    has_foreign_priorities: bool,
}

impl FlowFacts {
    fn add(&mut self, flow: &TraceFlow, source: PrioritySource) {
        if let FlowStart::At(start) = flow.start {
            self.last_start = self.last_start.max(start);
        }
        self.nodes = self.nodes.max(flow.from.max(flow.to).saturating_add(1));
        match (flow.priority, source) {
            (None, _) => {}
            (Some(priority), PrioritySource::File) => {
                self.priorities = self.priorities.max(priority.saturating_add(1));
            }
            (Some(_), PrioritySource::Class) => self.has_foreign_priorities = true,
        }
    }
}

fn read_flows(
    files: &[ImportedFile],
    options: &ImportOptions,
    network: Option<&Network>,
) -> Result<FlowFacts, ImportError> {
    let mut facts =
        FlowFacts { last_start: Picos::ZERO, nodes: 0, priorities: 1, has_foreign_priorities: false };
    for file in files {
        match file.kind {
            FileKind::Topology(_) => {}
            FileKind::Sizes => {
                reader_of(file).sizes(&file_name(file))?;
                facts.nodes = facts.nodes.max(16);
            }
            FileKind::Flows(format) => {
                let unit = options.start_unit.filter(|_| format == FlowFormatSpec::Htsim);
                let (reader, name) = (reader_of(file), file_name(file));
                let flows = reader.flows(&name, Some(format), unit, options.max_flows)?;
                facts.nodes = facts.nodes.max(flows.nodes.unwrap_or(0));
                flows.flows.iter().for_each(|flow| facts.add(flow, format.priority_source()));
                // The scenario would be refused too, but with a line that is not written yet.
                reader.traffic(&name, Some(format), &flows, &node_map(network, facts.nodes))?;
            }
        }
    }
    Ok(facts)
}

/// Returns the hosts by the numbers of flow lists. Without a network file, all nodes of the flow lists are hosts.
fn node_map(network: Option<&Network>, nodes: u32) -> NodeMap {
    match network {
        Some(Network { topology: FileTopology { nodes: Some(nodes), .. }, .. }) => nodes.clone(),
        Some(network) => NodeMap::Identity(network.hosts()),
        None => NodeMap::Identity(nodes),
    }
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

/// Returns the parameters of laws that depend on the network, for its fastest host link.
fn law_parameters(rate: BitRate) -> String {
    // Poseidon requires at least four times its smallest rate.
    if rate.get() / 4 < PoseidonParams::default().min_rate.get() {
        return String::new();
    }
    format!(
        "# The rate at which Poseidon's target delay is smallest: that of the fastest host link, for all flows.
[laws.poseidon]
base     = \"poseidon\"
max-rate = \"{rate}\"
"
    )
}

/// The settings of switches that the files determine. All other settings have their defaults.
struct Settings {
    pipeline: Option<Picos>,
    queue: Option<Bytes>,
    priorities: u32,
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pipeline, queue, priorities } = self;
        let pipeline = pipeline.map_or_else(|| "600 ns".to_owned(), |pipeline| pipeline.to_string());
        let buffer = match queue {
            Some(size) => format!("{{ policy = \"per-queue\", size = \"{size}\" }}"),
            None => "{ policy = \"shared\", size = \"64 MB\", alpha = 8 }".to_owned(),
        };
        write!(
            f,
            "[switch]
pipeline   = \"{pipeline}\"
priorities = {priorities}
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{SwitchSpec, TransportSpec};

    #[test]
    fn stated_settings_are_the_defaults() {
        let settings = Settings { pipeline: None, queue: None, priorities: 1 };
        let text = format!("title = \"a\"\nsource = \"b\"\nstop = \"1 ms\"\n{settings}");
        let cells = crate::scenario::read_cells("test.toml", &text, false).expect("the settings are valid");
        let scenario = &cells[0].scenario;
        assert_eq!(format!("{:?}", scenario.switch), format!("{:?}", SwitchSpec::default()));
        assert_eq!(format!("{:?}", scenario.transport), format!("{:?}", TransportSpec::default()));
    }
}
