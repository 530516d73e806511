//! A scenario's network: topology, switches and hosts.

use super::text::{HostTime, OneOrMore, Rate, Ratio, Scalar, Size, Time, WithUnit};
use core::fmt;
use poseidon_plan::transport::Credits;
use poseidon_types::{Bytes, Nanos, Picos};
use schemars::JsonSchema;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// A full-duplex link with the same rate and delay in both directions.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// The rate in each direction.
    pub rate: Rate,
    /// The one-way propagation delay.
    pub delay: Time,
}

/// Hosts, switches and links. The key `kind` selects the variant.
// The scenario reader maps `kind` to a variant, so serde needs no tag here, but the schema does.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
#[schemars(tag = "kind")]
pub enum TopologySpec {
    /// Poseidon's evaluation network: racks of 24 hosts with 8 uplinks, paths of five switches between racks, and
    /// links of 200 Gbps with 245 ns delay.
    PoseidonClos {
        /// The number of racks.
        racks: u32,
    },
    /// PowerTCP's evaluation network, as in its artifact: 256 servers at 25 Gbps in 8 racks, with 100 Gbps links
    /// above them. The delay is 5 us for links to core switches and 1 us for all others.
    PowertcpFatTree {},
    /// PowerTCP's reconfigurable datacenter: 25 racks of 10 servers at 25 Gbps, and a packet network with 25 Gbps
    /// per rack. A 100 Gbps circuit connects each rack to every other rack in turn, for 225 us each with 20 us gaps.
    PowertcpRotor {
        /// How far in advance hosts are notified of a circuit (reTCP's prebuffering; default: 0).
        #[serde(default)]
        notice: Time,
    },
    /// VAI + SF's evaluation network, which is HPCC's fat tree: 320 hosts at 100 Gbps in 20 racks, with 400 Gbps
    /// links above them and 1 us delay per link.
    VaiSfFatTree {},
    /// All hosts connected to one switch.
    Star {
        /// The number of hosts.
        hosts: u32,
        /// The rate and delay of every link.
        link: LinkSpec,
    },
    /// Two connected switches with hosts on each.
    Dumbbell {
        /// The number of hosts on each switch.
        hosts: u32,
        /// The link from a host to its switch.
        host_link: LinkSpec,
        /// The link between the switches.
        middle_link: LinkSpec,
    },
    /// A row of switches with hosts on each (a parking lot).
    Chain {
        /// The number of switches.
        switches: u32,
        /// The number of hosts on each switch.
        hosts: u32,
        /// The link from a host to its switch.
        host_link: LinkSpec,
        /// The link between adjacent switches.
        middle_link: LinkSpec,
    },
    /// Up to three tiers: a leaf-spine network (one pod), a Clos network or a fat tree.
    Clos {
        /// The number of pods.
        pods: u32,
        /// The number of racks in a pod.
        racks: u32,
        /// The number of hosts in a rack.
        hosts: u32,
        /// The number of aggregation switches in a pod. Each aggregation switch has a link to every rack in the pod.
        aggregation: u32,
        /// The number of core switches above each aggregation switch.
        #[serde(default)]
        cores: u32,
        /// The link from a host to its rack switch.
        host_link: LinkSpec,
        /// The link from a rack switch to an aggregation switch; defaults to `host-link`.
        rack_link: Option<LinkSpec>,
        /// The link from an aggregation switch to a core switch; defaults to `rack-link`.
        core_link: Option<LinkSpec>,
    },
    /// A fat tree of switches with `ports` ports each, which connects `ports³/4` hosts.
    FatTree {
        /// The number of ports per switch; must be even.
        ports: u32,
        /// The rate and delay of every link.
        link: LinkSpec,
    },
    /// Servers with several GPUs and NICs, connected by rails. Hosts are GPUs. Each server has one switch, which stands
    /// for its internal network and its NICs: it has a link to each GPU and one link to each rail. Servers are grouped,
    /// and a group has one leaf switch per rail. A packet to another server takes the rail of the receiver (NCCL's PXN),
    /// and crosses a spine switch if the receiver is in another group.
    Rails {
        /// The number of servers.
        servers: u32,
        /// The number of GPUs per server, which is also the number of rails.
        gpus: u32,
        /// The number of servers in a group. The last group may have fewer.
        servers_per_leaf: u32,
        /// The number of spine switches. Each has a link to every leaf switch. May be 0 if there is one group.
        spines: u32,
        /// The link from a GPU to its server's switch, such as NVLink: `{ rate = "3.6 Tbps", delay = "100 ns" }`.
        local_link: LinkSpec,
        /// The link from a server's switch to a leaf switch, which is the NIC of one rail.
        rail_link: LinkSpec,
        /// The link from a leaf switch to a spine switch; defaults to `rail-link`.
        spine_link: Option<LinkSpec>,
    },
    /// An arbitrary network as a list of links, one per line: `h0 s0 100 Gbps 1 us`.
    Links {
        /// The links.
        links: String,
    },
    /// A network from a file. Hosts have the numbers of the file: `node5` is node 5 of an HPCC topology.
    File {
        /// The file, relative to the folder of the scenario.
        file: String,
        /// The format; by default, `htsim` for `.topo`.
        format: Option<TopologyFormatSpec>,
    },
}

/// The format of a topology file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyFormatSpec {
    /// A list of links, one per line: `h0 s0 100 Gbps 1 us`.
    Links,
    /// The topology files of HPCC's ns-3 simulator.
    Hpcc,
    /// The topology files of htsim (`.topo`). Set `switch.pipeline` to the switch latency of the file.
    Htsim,
}

/// Switch settings. The defaults match Poseidon's evaluation.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct SwitchSpec {
    /// The latency from a packet's last bit at ingress to its enqueueing at egress (default: 600 ns).
    pub pipeline: Time,
    /// The number of priority queues per port. Queue 0 has the highest priority (default: 1).
    pub priorities: u8,
    /// The buffer policy (default: `{ policy = "shared", size = "64 MB", alpha = 8 }`).
    pub buffer: PolicySpec,
    /// The packet marking policy (default: `{ policy = "off" }`).
    pub mark: PolicySpec,
    /// Whether ports to hosts mark packets (default: true). If not, only ports to other switches do.
    pub mark_host_links: bool,
    /// The direction in which marks travel (default: forward).
    #[serde(rename = "marks-go")]
    pub mark_direction: MarkDirectionSpec,
    /// For `reverse-per-flow`, the number of counters for marks that are waiting for an ACK (default: 4096).
    pub mark_counters: u32,
    /// Packet trimming: `{ size = "64 B" }`; off by default. Ports then have one more queue, for headers, ACKs and NACKs,
    /// and hosts retransmit the packets that NACKs report. Not available with PFC.
    pub trim: Option<TrimSpec>,
    /// Priority flow control (PFC); off by default.
    pub pfc: Option<PfcSpec>,
    /// The telemetry that switches write into packets (default: auto).
    pub stamp: StampSpec,
    /// The switches that write telemetry: `"rack[0-3]"`, `["pod0", "core[0-1]"]`. By default, all switches write
    /// telemetry.
    pub stamping: Option<OneOrMore>,
    /// A period during which some switches write no telemetry: `{ switches = "rack1", from = "10 s", until = "20 s" }`.
    #[serde(rename = "silence")]
    pub telemetry_off: Option<TelemetryOffSpec>,
}

impl Default for SwitchSpec {
    fn default() -> Self {
        Self {
            pipeline: WithUnit(Picos::from_nanos(Nanos::new(600))),
            priorities: 1,
            buffer: PolicySpec::new("shared", &[("size", "64 MB"), ("alpha", "8")]),
            mark: PolicySpec::new("off", &[]),
            mark_host_links: true,
            mark_direction: MarkDirectionSpec::Forward,
            mark_counters: 4_096,
            trim: None,
            pfc: None,
            stamp: StampSpec::Auto,
            stamping: None,
            telemetry_off: None,
        }
    }
}

/// A period during which some switches write no telemetry.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SilenceSpec")]
pub struct TelemetryOffSpec {
    /// The switches that write no telemetry: `"rack1"`, `"agg[0-3]"`.
    pub switches: OneOrMore,
    /// The start of the period.
    pub from: Time,
    /// The end of the period; defaults to the end of the run.
    pub until: Option<Time>,
}

/// A generation of switches, which differs from the other switches of the network.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct GenerationSpec {
    /// The switches of the generation: `"agg[0-7]"`, `"pod[0-1]"`, `["pod0.rack[0-3]", "core0"]`. A switch belongs to
    /// at most one generation.
    pub switches: OneOrMore,
    /// Whether these switches write telemetry.
    #[serde(default = "default_true")]
    pub stamp: bool,
    /// The buffer policy of these switches; defaults to `switch.buffer`. Not available with PFC.
    pub buffer: Option<PolicySpec>,
    /// The packet marking policy of these switches; defaults to `switch.mark`.
    pub mark: Option<PolicySpec>,
    /// The rate of the ports to other switches; defaults to the rates of the topology. The slower end of a link limits
    /// it. Links to hosts keep their rate. Not available in rotor and rail networks.
    pub rate: Option<Rate>,
}

fn default_true() -> bool {
    true
}

/// A change to one link during the run, in both directions. Set one of `event`, `rate` and `delay`, and one of `to`,
/// `port` and `all`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LinkChangeSpec {
    /// The time of the change.
    pub at: Time,
    /// The switch at one end of the link: `"agg0"`.
    pub switch: String,
    /// The switch or host at the other end: `"core1"`, `"rack0.host3"`.
    pub to: Option<String>,
    /// The port of the link on `switch`. Ports to hosts come first, then ports to lower and to higher tiers.
    pub port: Option<u32>,
    /// Whether all links of `switch` change, as when the switch fails (default: false).
    #[serde(default)]
    pub all: bool,
    /// Whether the link fails or recovers.
    pub event: Option<LinkEventSpec>,
    /// The new rate of the link.
    pub rate: Option<Rate>,
    /// The new delay of the link, which must connect two switches. After a decrease, packets can overtake earlier ones.
    pub delay: Option<Time>,
}

/// An impairment of one direction of a link. Set either `to` or `port`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LinkImpairmentSpec {
    /// The switch that sends on the link: `"agg0"`.
    pub switch: String,
    /// The switch or host that receives: `"core1"`, `"rack0.host3"`.
    pub to: Option<String>,
    /// The port of the link on `switch`. Ports to hosts come first, then ports to lower and to higher tiers.
    pub port: Option<u32>,
    /// What the link does to packets: `{ policy = "random-loss", probability = 0.01 }`. Not available with PFC.
    pub impair: PolicySpec,
}

/// A link that is slower than the topology states, with smaller buffers and marking thresholds. Set one of `to`, `port`
/// and `all`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SlowLinkSpec {
    /// The switch at one end of the link: `"core0"`.
    pub switch: String,
    /// The switch or host at the other end: `"agg1"`, `"rack0.host3"`.
    pub to: Option<String>,
    /// The port of the link on `switch`. Ports to hosts come first, then ports to lower and to higher tiers.
    pub port: Option<u32>,
    /// Whether all links of `switch` are slow (default: false).
    #[serde(default)]
    pub all: bool,
    /// The factor by which the rate, the buffer and the marking thresholds of the ports are smaller (default: 4).
    #[serde(default = "default_divisor")]
    pub divisor: u8,
    /// Whether only the direction that leaves `switch` is slow (default: false). A link to a host is always slow in only
    /// this direction.
    #[serde(default)]
    pub one_way: bool,
}

fn default_divisor() -> u8 {
    4
}

/// A link failure or recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LinkEventSpec {
    /// The link fails. A switch drops the packets queued for the link. Both ends use another equal-cost link, if there
    /// is one; other nodes do not learn about the failure.
    Down,
    /// The link recovers.
    Up,
}

/// A policy of a switch or a link, and its parameters.
#[derive(Clone, Debug, JsonSchema)]
pub struct PolicySpec {
    /// The policy name.
    pub policy: String,
    /// The policy parameters.
    #[schemars(flatten)]
    pub parameters: BTreeMap<String, Scalar>,
}

impl PolicySpec {
    fn new(policy: &str, parameters: &[(&str, &str)]) -> Self {
        let entry = |(name, value): &(&str, &str)| ((*name).to_owned(), Scalar((*value).to_owned()));
        Self { policy: policy.to_owned(), parameters: parameters.iter().map(entry).collect() }
    }
}

// Implemented by hand because errors lose their key under `serde(flatten)`.
impl<'de> Deserialize<'de> for PolicySpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PolicySpecVisitor;
        impl<'de> Visitor<'de> for PolicySpecVisitor {
            type Value = PolicySpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table with a policy and its parameters")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<PolicySpec, A::Error> {
                let (mut policy, mut parameters) = (None, BTreeMap::new());
                while let Some(key) = table.next_key::<String>()? {
                    match key.as_str() {
                        "policy" => policy = Some(table.next_value()?),
                        _ => drop(parameters.insert(key, table.next_value()?)),
                    }
                }
                let policy = policy.ok_or_else(|| A::Error::missing_field("policy"))?;
                Ok(PolicySpec { policy, parameters })
            }
        }
        deserializer.deserialize_map(PolicySpecVisitor)
    }
}

/// The direction in which congestion marks travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "MarksGo")]
pub enum MarkDirectionSpec {
    /// The marked packet carries the mark to the receiver.
    Forward,
    /// The next ACK of the flow carries the mark to the sender.
    ReversePerFlow,
    /// The next ACK through the port carries the mark, even if it belongs to another flow.
    ReversePerPort,
}

/// Packet trimming.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TrimSpec {
    /// The size of a trimmed packet (default: 64 B).
    pub size: Size,
}

impl Default for TrimSpec {
    fn default() -> Self {
        Self { size: WithUnit(Bytes::new(64)) }
    }
}

/// Priority flow control.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PfcSpec {
    /// The packet memory of a switch, including headroom.
    pub memory: Size,
    /// The maximum memory per port, as a multiple of the free memory.
    pub alpha: Ratio,
    /// The hysteresis: a paused peer resumes when the port is this far below its maximum.
    pub resume: Size,
}

/// The telemetry that switches write into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StampSpec {
    /// The telemetry that the cell's laws need, with exact values and no bytes on the wire, as in the papers'
    /// simulations.
    Auto,
    /// The same telemetry in its wire format, with the size and resolution of that format.
    Wire,
    /// No telemetry.
    Off,
}

/// Host transport settings. The defaults match Poseidon's evaluation.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct TransportSpec {
    /// The payload of a full-sized packet (default: 4096 B).
    pub mtu: Size,
    /// The total size of a packet's headers (default: 0 B).
    pub header: Size,
    /// The size of an ACK on the wire (default: 64 B).
    pub ack: Size,
    /// Whether a host may send a packet that only partly fits into the window (default: false).
    pub round_up: bool,
    /// The minimum retransmission timeout (default: 250 us).
    pub min_rto: HostTime,
    /// The retransmission timeout before the first RTT sample (default: 1 ms).
    pub first_rto: HostTime,
    /// Whether loss recovery uses go-back-N instead of selective retransmission (default: false).
    pub go_back_n: bool,
    /// The number of packets per ACK (default: 1).
    pub ack_every: u32,
    /// The maximum time that a receiver delays an ACK to cover several packets (default: 8 us).
    pub ack_delay: HostTime,
    /// The number of bytes per ACK, including headers, with `switch.trim` (default: 16 KiB). Replaces `ack-every`. A
    /// marked packet and a packet that requests an ACK trigger an immediate ACK.
    pub ack_bytes: Size,
    /// Whether ACKs use the queue with the highest priority (default: false).
    pub acks_first: bool,
    /// How receivers echo marks (default: exact).
    pub echo: EchoSpec,
    /// The minimum time between two notifications, for `echo = "notification"` (default: 50 us).
    pub notification_gap: HostTime,
    /// Whether each packet takes a random path (default: false). The same as `paths = { policy = "spray" }`.
    pub spray: bool,
    /// How senders choose paths: `{ policy = "reps", paths = 128 }` (default: `{ policy = "ecmp" }`).
    pub paths: Option<PolicySpec>,
    /// Whether connections move away from congested paths (PLB; default: off).
    pub plb: PlbSpec,
    /// The hop delay above which PLB considers an ACK's path congested. By default, the law decides by its own signal:
    /// for Poseidon, whether the hop delay is above the target at the flow's rate.
    pub plb_hop_delay: Option<HostTime>,
    /// Whether Poseidon flows keep their share when they compete with buffer-filling flows (default: false).
    pub coexistence: bool,
    /// Credits of receivers (RCCC of Ultra Ethernet); off by default. A sender then needs credit as well as space in its
    /// window. For NSCC with credits, also set its parameter `credits`; for credits alone, use the law `fixed` with its
    /// largest window.
    pub credits: Option<CreditsSpec>,
    /// What laws make of the delays of packets that took different paths (default: each).
    pub path_filter: PathFilterSpec,
}

/// Whether connections move away from congested paths (PLB).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlbSpec {
    /// Connections never change their path.
    Off,
    /// PLB with the parameters of Google's public Falcon simulator.
    Falcon,
    /// PLB with the Linux parameters.
    Linux,
}

/// How receivers echo marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EchoSpec {
    /// Each ACK echoes the marks of the packets that it acknowledges (DCTCP).
    Exact,
    /// After a mark, every ACK echoes the mark until the sender reduces its window (RFC 3168).
    UntilReduced,
    /// Receivers echo marks in separate notification packets (CNPs, as in DCQCN).
    Notification,
}

impl Default for TransportSpec {
    fn default() -> Self {
        Self {
            mtu: WithUnit(Bytes::new(4_096)),
            header: WithUnit(Bytes::ZERO),
            ack: WithUnit(Bytes::new(64)),
            round_up: false,
            min_rto: WithUnit(Nanos::from_micros(250)),
            first_rto: WithUnit(Nanos::from_millis(1)),
            go_back_n: false,
            ack_every: 1,
            ack_delay: WithUnit(Nanos::from_micros(8)),
            ack_bytes: WithUnit(Bytes::new(16_384)),
            acks_first: false,
            echo: EchoSpec::Exact,
            notification_gap: WithUnit(Nanos::from_micros(50)),
            spray: false,
            paths: None,
            plb: PlbSpec::Off,
            plb_hop_delay: None,
            coexistence: false,
            credits: None,
            path_filter: PathFilterSpec::Each,
        }
    }
}

/// Credits of receivers.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct CreditsSpec {
    /// The credit of one pull packet (default: 16 KiB).
    pub pull: Size,
    /// The share of its link rate that a receiver asks for (default: 0.99).
    pub rate: Ratio,
    /// The largest credit of a connection, in bandwidth-delay products (default: 1.5).
    pub window: Ratio,
    /// Whether receivers ask for less while marks or trims show that the network is oversubscribed (default: false).
    pub oversubscription: bool,
    /// The smallest rate of oversubscription control: 0.9 divided by the network's oversubscription (default: 0.9).
    pub min_rate: Ratio,
    /// The network's RTT (default: the base RTT between the first and the last host).
    pub network_rtt: Option<HostTime>,
}

impl Default for CreditsSpec {
    fn default() -> Self {
        let Credits { pull, rate, window, oversubscription, min_rate, network_rtt: _ } =
            Credits::uet(Nanos::ZERO, false);
        Self {
            pull: WithUnit(pull),
            rate: WithUnit(rate),
            window: WithUnit(window),
            oversubscription,
            min_rate: WithUnit(min_rate),
            network_rtt: None,
        }
    }
}

/// What laws make of the delays of packets that took different paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PathFilterSpec {
    /// Each ACK reports the delays of its packet.
    Each,
    /// Each ACK reports the median of the latest eight packets.
    Median,
    /// Each ACK reports the largest of the latest eight packets.
    Max,
}
