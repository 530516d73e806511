//! The part of a scenario that says where packets go: topology, switches, hosts.

use super::text::{HostTime, OneOrMore, Part, Rate, Scalar, Size, Text, Time};
use poseidon_types::{Bytes, Nanos, Picos};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A link: both directions.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Bits per second, each way.
    pub rate: Rate,
    /// Propagation.
    pub delay: Time,
}

/// Hosts, switches and links.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum TopologySpec {
    /// Poseidon's evaluation: racks of 24 hosts with 8 uplinks, 200 Gbps and 245 ns everywhere, five switches between racks.
    PoseidonClos {
        /// Racks.
        racks: u32,
    },
    /// PowerTCP's evaluation, in the shape of its artifact: 256 servers at 25 Gbps in 8 racks, 100 Gbps above them; 1 us per link, 5 us
    /// to the cores.
    PowertcpFatTree {},
    /// PowerTCP's reconfigurable datacenter: 25 racks of 10 servers at 25 Gbps, a packet network of 25 Gbps per rack, and a circuit of
    /// 100 Gbps that leads to each other rack in turn for 225 us, with 20 us between.
    PowertcpRotor {
        /// Hosts are told of a circuit so long before it stands (reTCP's prebuffering); 0.
        #[serde(default)]
        notice: Time,
    },
    /// VAI + SF's evaluation, HPCC's fat tree: 320 hosts at 100 Gbps in 20 racks, 400 Gbps above them, 1 us per link.
    VaiSfFatTree {},
    /// All hosts on one switch.
    Star {
        /// Hosts.
        hosts: u32,
        /// Every link.
        link: LinkSpec,
    },
    /// Two switches with hosts at each.
    Dumbbell {
        /// Hosts at each switch.
        hosts: u32,
        /// Host to switch.
        host_link: LinkSpec,
        /// Switch to switch.
        middle_link: LinkSpec,
    },
    /// Switches in a row, each with hosts of its own: a parking lot.
    Chain {
        /// Switches.
        switches: u32,
        /// Hosts at each switch.
        hosts: u32,
        /// Host to switch.
        host_link: LinkSpec,
        /// Switch to switch.
        middle_link: LinkSpec,
    },
    /// Up to three tiers: a leaf-spine with one pod, a Clos, a fat tree.
    Clos {
        /// Pods.
        pods: u32,
        /// Racks in a pod.
        racks: u32,
        /// Hosts in a rack.
        hosts: u32,
        /// Aggregation switches in a pod, each with a link to each of its racks.
        aggregation: u32,
        /// Core switches behind each aggregation switch.
        #[serde(default)]
        cores: u32,
        /// Host to rack.
        host_link: LinkSpec,
        /// Rack to aggregation; as `host-link` where it is not given.
        rack_link: Option<LinkSpec>,
        /// Aggregation to core; as `rack-link` where it is not given.
        core_link: Option<LinkSpec>,
    },
    /// The fat tree of switches with `ports` ports: `ports³/4` hosts.
    FatTree {
        /// Ports of a switch: an even number.
        ports: u32,
        /// Every link.
        link: LinkSpec,
    },
    /// Any network, link by link: `h0 s0 100 Gbps 1 us`, one per line.
    Links {
        /// The links.
        links: String,
    },
}

/// What switches do. Defaults: Poseidon's evaluation.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct SwitchSpec {
    /// From the last bit of a packet in to its place in an egress queue; 600 ns.
    pub pipeline: Time,
    /// Queues per port; a lower number goes first; 1.
    pub priorities: u8,
    /// How much may wait; `{ policy = "shared", size = "64 MB", alpha = 8 }`.
    pub buffer: PolicySpec,
    /// Which packets get a congestion mark; `{ policy = "off" }`.
    pub mark: PolicySpec,
    /// Which way marks go; forward.
    pub marks_go: MarksGo,
    /// Counters of marks that wait for an ACK, for `reverse-per-flow`; 4096.
    pub mark_counters: u32,
    /// Flow control, where there is any.
    pub pfc: Option<PfcSpec>,
    /// What switches write into packets; auto.
    pub stamp: StampSpec,
    /// The switches that do, where not all: `"rack[0-3]"` for those of racks.
    pub stamping: Option<OneOrMore>,
    /// Some stop for a while: `{ switches = "rack1", from = "10 s", until = "20 s" }`.
    pub silence: Option<SilenceSpec>,
}

impl Default for SwitchSpec {
    fn default() -> Self {
        Self {
            pipeline: Text(Picos::from_nanos(Nanos::new(600))),
            priorities: 1,
            buffer: PolicySpec::new("shared", &[("size", "64 MB"), ("alpha", "8")]),
            mark: PolicySpec::new("off", &[]),
            marks_go: MarksGo::Forward,
            mark_counters: 4_096,
            pfc: None,
            stamp: StampSpec::Auto,
            stamping: None,
            silence: None,
        }
    }
}

/// Switches that do not stamp for a while.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SilenceSpec {
    /// Which: `"rack1"`.
    pub switches: OneOrMore,
    /// From when on.
    pub from: Time,
    /// Until when; the end of the run where it is not given.
    pub until: Option<Time>,
}

/// A policy of a switch and its parameters.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct PolicySpec {
    /// Its name.
    pub policy: String,
    /// Its parameters.
    #[serde(flatten)]
    pub parameters: BTreeMap<String, Scalar>,
}

impl PolicySpec {
    fn new(policy: &str, parameters: &[(&str, &str)]) -> Self {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), Scalar((*value).to_owned()));
        Self { policy: policy.to_owned(), parameters: parameters.iter().map(pair).collect() }
    }
}

/// Which way marks go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MarksGo {
    /// On with the packet.
    Forward,
    /// Onto the next ACK of the flow.
    ReversePerFlow,
    /// Onto the next ACK at the port.
    ReversePerPort,
}

/// Priority flow control.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PfcSpec {
    /// Memory of a switch, headroom included.
    pub memory: Size,
    /// How much of what is free a port may hold, times this.
    pub alpha: Part,
    /// A peer may go on once so much less is held.
    pub resume: Size,
}

/// What switches write into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StampSpec {
    /// What the laws of the cell need, exactly as measured and without bytes on the wire: what the papers' simulations do.
    Auto,
    /// The same through the formats of real packets, with their bytes and their grain.
    Wire,
    /// Nothing.
    Off,
}

/// What hosts do around a law. Defaults: Poseidon's evaluation.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct TransportSpec {
    /// Payload of a full packet; 4096 B.
    pub mtu: Size,
    /// Headers in front of it; 0 B.
    pub header: Size,
    /// An ACK on the wire; 64 B.
    pub ack: Size,
    /// Whether a packet fits a window that holds only a part of it; false.
    pub round_up: bool,
    /// The shortest retransmission timeout; 250 us.
    pub min_rto: HostTime,
    /// The timeout before the first round trip; 1 ms.
    pub first_rto: HostTime,
    /// Everything from the first packet missing is sent again; false: what is missing.
    pub go_back_n: bool,
    /// Packets per ACK; 1.
    pub ack_every: u32,
    /// The longest wait for an ACK of several packets; 8 us.
    pub ack_delay: HostTime,
    /// ACKs go in the first queue, whatever their data; false.
    pub acks_first: bool,
    /// How receivers tell of marks; exact.
    pub echo: EchoSpec,
    /// Between two notifications, for `echo = "notification"`; 50 us.
    pub notification_gap: HostTime,
    /// Each packet takes a path of its own; false.
    pub spray: bool,
    /// Connections change a congested path (PLB); off.
    pub plb: PlbSpec,
    /// Flows under Poseidon keep their share beside flows that fill the buffer; off.
    pub coexistence: bool,
}

/// Whether connections change a congested path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlbSpec {
    /// Never.
    Off,
    /// With the values of Google's public Falcon simulator.
    Falcon,
    /// With Linux's values.
    Linux,
}

/// How receivers tell of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EchoSpec {
    /// Each ACK says whether what it acknowledges was marked (DCTCP).
    Exact,
    /// Every ACK after a mark, until the sender has reacted (RFC 3168).
    UntilReduced,
    /// By a packet of its own (DCQCN).
    Notification,
}

impl Default for TransportSpec {
    fn default() -> Self {
        Self {
            mtu: Text(Bytes::new(4_096)),
            header: Text(Bytes::ZERO),
            ack: Text(Bytes::new(64)),
            round_up: false,
            min_rto: Text(Nanos::from_micros(250)),
            first_rto: Text(Nanos::from_millis(1)),
            go_back_n: false,
            ack_every: 1,
            ack_delay: Text(Nanos::from_micros(8)),
            acks_first: false,
            echo: EchoSpec::Exact,
            notification_gap: Text(Nanos::from_micros(50)),
            spray: false,
            plb: PlbSpec::Off,
            coexistence: false,
        }
    }
}
