//! Readers and writers for the files of other simulators: flow lists, topologies and results.
//!
//! | format | used by | read | write |
//! |---|---|---|---|
//! | flow list, CSV with a header | this project | [`parse_csv`] | [`write_csv`] |
//! | flow file | HPCC's ns-3 and its successors | [`parse_hpcc`] | [`write_hpcc`] |
//! | connection matrix, `.cm` or `.tm` | htsim | [`parse_cm`] | [`write_cm`] |
//! | topology file | HPCC's ns-3 and its successors | [`parse_hpcc_topology`] | - |
//! | topology, `.topo` | htsim | [`parse_htsim_topology`] | - |
//! | flow size distribution, CSV or percentages | this project, HPCC's traffic generator | [`parse_sizes`] | - |
//! | flow completion times, `fct.txt` | HPCC's ns-3 and its successors | [`parse_fct`] | [`write_fct`] |
//!
//! All flow lists become a [`FlowFile`] with the node numbers of the file. [`TraceTraffic`] maps the nodes to hosts and
//! is a traffic pattern for a plan. A [`NodeMap`] gives the hosts: that of [`HpccTopology::node_map`], or the identity
//! for htsim.
//!
//! Files can come from anywhere, so readers do not trust them. A line has at most one megabyte, and the caller limits
//! the number of flows. Memory grows with the items that a file has, not with those that it announces. A refused file
//! gives a [`TraceError`] with its line, the cause and a remedy. Numbers are exact: decimal times are never converted
//! to floats.
//!
//! A writer refuses what its format cannot express. Whatever it writes, the reader reads back as the same value.
//!
//! ```
//! use poseidon_plan::patterns::{Pattern, TrafficClass};
//! use poseidon_traces::{PrioritySource, TraceTraffic, parse_hpcc, parse_hpcc_topology, write_csv};
//!
//! // Node 0 is a switch with two hosts, 1 and 2. Host 2 sends 1 MB to host 1 after two seconds.
//! let network = parse_hpcc_topology("3 1 2\n0\n0 1 100Gbps 0.001ms 0\n0 2 100Gbps 0.001ms 0\n".as_bytes())?;
//! let file = parse_hpcc("1\n2 1 3 100 1000000 2.0\n".as_bytes(), 1_000_000)?;
//!
//! let traffic = TraceTraffic::new(&file, &network.node_map(), PrioritySource::Class)?;
//! let traffic = traffic.generate(&TrafficClass::new(7, "trace"))?.into_plan_order();
//! assert_eq!(traffic.connections[0].from.to_string(), "h1");
//!
//! let mut csv = Vec::new();
//! write_csv(&file, &mut csv)?;
//! assert_eq!(csv, b"from,to,size_bytes,start_ps,priority\n2,1,1000000,2000000000000,3\n");
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod checks;
mod error;
mod fct;
mod flow_lines;
mod flows;
mod flows_csv;
mod hpcc_flows;
mod hpcc_topology;
mod htsim_matrix;
mod htsim_topology;
mod lower;
mod nodes;
mod sizes;
mod text;

pub use error::{
    Feature, NetworkProblem, NumberProblem, TraceError, TraceErrorKind, WriteError, WriteErrorKind,
};
pub use fct::{FctRow, parse_fct, write_fct};
pub use flow_lines::{FlowLayout, find_flow_line};
pub use flows::{FlowFile, FlowStart, LinkFailure, StartUnit, SwitchTier, TraceFlow, Trigger, TriggerKind};
pub use flows_csv::{parse_csv, write_csv};
pub use hpcc_flows::{parse_hpcc, write_hpcc};
pub use hpcc_topology::{HpccTopology, parse_hpcc_topology};
pub use htsim_matrix::{parse_cm, write_cm};
pub use htsim_topology::{HtsimTopology, TierSettings, parse_htsim_topology};
pub use lower::{FlowName, LowerError, PrioritySource, TraceTraffic};
pub use nodes::NodeMap;
pub use sizes::parse_sizes;
