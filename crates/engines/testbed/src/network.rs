//! The network of a run: namespaces, links, addresses, shapers, and the programs attached to switch ports.
//!
//! ```text
//!   h0 ─ e0 ────────── p0 ─ s0 ─ p1 ────────── p0 ─ s1 ─ p1 ────────── e0 ─ h1
//!   10.77.0.1             169.254.1.1             169.254.1.2          10.77.0.2
//! ```
//!
//! Each node has one address, and each switch has a route to each host.

use crate::delay_line::{DelayLine, DelayedLink};
use crate::layout::{HOST_DEVICE, Layout, MAX_SHAPED_RATE, MIN_DELAY, Wire, port_name};
use crate::namespace::{netns_error, run_in_node, run_tool};
use crate::{Result, machine_error};
use core::net::Ipv4Addr;
use core::time::Duration;
use poseidon_linux::codel::Codel;
use poseidon_linux::rpm::{self, Rpm};
use poseidon_linux::switch::{self, Switch};
use poseidon_plan::switch::{AnyBufferPolicy, AnyMarkPolicy, MarkDirection, Stamp, TelemetryOff};
use poseidon_plan::topology::Node;
use poseidon_plan::transport::Acks;
use poseidon_plan::{Link, Plan};
use poseidon_types::{BitRate, Bytes, HostId, PortId, SwitchId};
use std::fs;

/// A network of namespaces. Dropping it removes the namespaces.
pub(crate) struct Network<'a> {
    plan: &'a Plan,
    layout: &'a Layout,
    _delay_line: Option<DelayLine>,
}

/// Switch counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SwitchCounters {
    pub(crate) packets: u64,
    pub(crate) dropped: u64,
    pub(crate) marks: u64,
    pub(crate) marks_delivered: u64,
}

impl<'a> Network<'a> {
    pub(crate) fn build(plan: &'a Plan, layout: &'a Layout) -> Result<Self> {
        let hosts = layout.host_ids().map(Node::Host);
        let nodes: Vec<Node> = hosts.chain(layout.switch_ids().map(Node::Switch)).collect();
        let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
        poseidon_netns::create(&names).map_err(netns_error)?;
        let (delayed, plain): (Vec<Wire>, Vec<Wire>) =
            layout.wires().into_iter().partition(|wire| wire.link.delay >= MIN_DELAY);
        let mut commands = String::new();
        for Wire { a, b, .. } in plain {
            commands.push_str(&format!(
                "link add {} netns {} type veth peer name {} netns {}\n",
                a.name, a.node, b.name, b.node
            ));
        }
        run_tool("ip", &["-batch", "-"], &commands)?;
        let delayed: Vec<DelayedLink> = delayed.iter().map(create_taps).collect::<Result<_>>()?;
        let delay_line = if delayed.is_empty() { None } else { Some(DelayLine::start(delayed)?) };
        let network = Self { plan, layout, _delay_line: delay_line };
        nodes.into_iter().try_for_each(|node| run_in_node(node, || network.configure(node))?)?;
        Ok(network)
    }

    /// Configures a node's addresses, routes, settings and queues. The calling thread must be inside the node's
    /// namespace.
    fn configure(&self, node: Node) -> Result<()> {
        let sysctl = |name: &str, value: &str| {
            fs::write(format!("/proc/sys/net/{name}"), value).map_err(|error| machine_error(name, error))
        };
        sysctl("ipv6/conf/all/disable_ipv6", "1")?;
        sysctl("ipv6/conf/default/disable_ipv6", "1")?;
        let mut commands = "link set lo up\n".to_owned();
        let devices = match node {
            Node::Host(host) => {
                self.host_commands(host, &mut commands);
                sysctl("ipv4/tcp_ecn", if self.plan.switch.mark == AnyMarkPolicy::OFF { "0" } else { "1" })?;
                // Connections start without cached metrics and keep their windows while they are idle.
                sysctl("ipv4/tcp_no_metrics_save", "1")?;
                sysctl("ipv4/tcp_slow_start_after_idle", "0")?;
                // Limit the unsent data in a socket so that a flow stops quickly.
                sysctl("ipv4/tcp_notsent_lowat", "16384")?;
                vec![HOST_DEVICE.to_owned()]
            }
            Node::Switch(switch) => {
                self.switch_commands(switch, &mut commands);
                sysctl("ipv4/ip_forward", "1")?;
                self.layout.ports(switch).map(port_name).collect()
            }
        };
        run_tool("ip", &["-batch", "-"], &commands)?;
        for device in &devices {
            // Disable segmentation offload so that each packet has its own stamp, mark and checksum.
            run_tool("ethtool", &["-K", device, "tso", "off", "gso", "off", "gro", "off", "tx", "off"], "")?;
        }
        if let Node::Switch(switch) = node {
            self.layout.ports(switch).try_for_each(|port| self.configure_port(switch, port))?;
        }
        Ok(())
    }

    fn host_commands(&self, host: HostId, commands: &mut String) {
        let transport = &self.plan.transport;
        // The advertised MSS includes the payload, timestamps and our option.
        let mut metrics = format!("advmss {}", transport.mtu.get() + 20);
        if transport.acks == Acks::EveryPacket {
            metrics.push_str(" quickack 1");
        }
        let min_rto = transport.min_rto.get().div_ceil(1_000_000).max(1);
        commands.push_str(&format!(
            "addr add {}/32 dev {HOST_DEVICE}\nlink set {HOST_DEVICE} up\n\
             route add default via {} dev {HOST_DEVICE} onlink rto_min {min_rto}ms {metrics}\n",
            address(host),
            gateway(self.layout.switch_of(host)),
        ));
    }

    fn switch_commands(&self, switch: SwitchId, commands: &mut String) {
        commands.push_str(&format!("addr add {}/32 dev lo\n", gateway(switch)));
        for port in self.layout.ports(switch) {
            commands.push_str(&format!("link set {} up\n", port_name(port)));
        }
        for host in self.layout.host_ids() {
            let port = self.layout.next_port(switch, host);
            let device = port_name(port);
            let next_hop = match self.layout.peer_of(switch, port).0 {
                Node::Host(_) => format!("dev {device}"),
                Node::Switch(next) => format!("via {} dev {device} onlink", gateway(next)),
            };
            commands.push_str(&format!("route add {}/32 {next_hop}\n", address(host)));
        }
    }

    /// Shapes a port and attaches the marking and stamping programs.
    fn configure_port(&self, switch: SwitchId, port: PortId) -> Result<()> {
        let device = port_name(port);
        let (_, link) = self.layout.peer_of(switch, port);
        if !is_shaped(link) {
            return Ok(());
        }
        let [rate, burst, limit] = [
            link.rate.get().to_string() + "bit",
            burst(link.rate).to_string(),
            queue_limit(&self.plan.switch.buffer).get().to_string(),
        ];
        let shaper = ["rate", &rate, "burst", &burst, "limit", &limit];
        run_tool("tc", &[&["qdisc", "replace", "dev", &device, "root", "tbf"][..], &shaper].concat(), "")?;
        if let Some(codel) = codel(&self.plan.switch.mark) {
            let direction = match self.plan.switch.mark_direction {
                MarkDirection::Forward => rpm::Direction::Forward,
                MarkDirection::ReversePerFlow { .. } => rpm::Direction::ReversePerFlow,
                MarkDirection::ReversePerPort => rpm::Direction::ReversePerPort,
            };
            let options = rpm::Options { codel, direction, ..rpm::Options::default() };
            Rpm::attach(&device, options).map_err(|error| machine_error("marking", error))?;
        }
        if self.plan.switch.stamp != Stamp::Off {
            let stamps = !self.plan.telemetry_off.contains(&TelemetryOff::always(switch));
            let options = switch::Options { stamps, ..switch::Options::default() };
            Switch::attach(&device, options).map_err(|error| machine_error("stamping", error))?;
        }
        Ok(())
    }

    /// Turns stamping on or off at a switch.
    pub(crate) fn set_stamps(&self, switch: SwitchId, stamps: bool) -> Result<()> {
        let set = || {
            self.shaped_ports(switch).try_for_each(|port| {
                let port =
                    Switch::open(&port_name(port)).map_err(|error| machine_error("stamping", error))?;
                port.set_stamps(stamps).map_err(|error| machine_error("stamping", error))
            })
        };
        run_in_node(Node::Switch(switch), set)?
    }

    fn shaped_ports(&self, switch: SwitchId) -> impl Iterator<Item = PortId> + '_ {
        self.layout.ports(switch).filter(move |port| is_shaped(self.layout.peer_of(switch, *port).1))
    }

    /// Returns the counters summed over all switches.
    pub(crate) fn switch_counters(&self) -> Result<SwitchCounters> {
        let mut total = SwitchCounters::default();
        for switch in self.layout.switch_ids() {
            let counters = run_in_node(Node::Switch(switch), || {
                self.shaped_ports(switch)
                    .map(|port| self.port_counters(&port_name(port)))
                    .collect::<Result<Vec<_>>>()
            })??;
            for port in counters {
                total.packets += port.packets;
                total.dropped += port.dropped;
                total.marks += port.marks;
                total.marks_delivered += port.marks_delivered;
            }
        }
        Ok(total)
    }

    fn port_counters(&self, device: &str) -> Result<SwitchCounters> {
        let text = run_tool("tc", &["-s", "-j", "qdisc", "show", "dev", device], "")?;
        let queues: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| machine_error("the output of tc", error))?;
        let root = queues.as_array().into_iter().flatten().find(|queue| queue["root"] == true);
        let number = |name: &str| root.and_then(|queue| queue[name].as_u64()).unwrap_or(0);
        let (marks, marks_delivered) = match self.plan.switch.mark {
            AnyMarkPolicy::Off(_) => (0, 0),
            _ => {
                let port = Rpm::open(device).map_err(|error| machine_error("marking", error))?;
                let counts = port.status().map_err(|error| machine_error("marking", error))?.counts;
                (counts.decisions(), counts.delivered())
            }
        };
        Ok(SwitchCounters { packets: number("packets"), dropped: number("drops"), marks, marks_delivered })
    }

    /// Sums a TCP counter over all hosts. The counter is `name` in table `table` of `/proc/net/snmp` or `netstat`.
    pub(crate) fn host_counter(&self, table: &str, name: &str) -> Result<u64> {
        let mut sum = 0;
        for host in self.layout.host_ids() {
            sum += run_in_node(Node::Host(host), || {
                let read = |file: &str| fs::read_to_string(format!("/proc/thread-self/net/{file}"));
                let text = [read("snmp"), read("netstat")].into_iter().flatten().collect::<String>();
                table_value(&text, table, name)
            })?;
        }
        Ok(sum)
    }
}

impl Drop for Network<'_> {
    fn drop(&mut self) {
        let hosts = self.layout.host_ids().map(Node::Host);
        let nodes = hosts.chain(self.layout.switch_ids().map(Node::Switch));
        let names: Vec<String> = nodes.map(|node| node.to_string()).collect();
        poseidon_netns::delete(&names);
    }
}

/// Returns a value from a table in `/proc/net/snmp`: one line lists the names, and the next line lists the values.
fn table_value(text: &str, table: &str, name: &str) -> u64 {
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let value = lines.windows(2).find_map(|pair| {
        let is_table = pair.iter().all(|line| line.first() == Some(&table));
        let column = pair[0].iter().position(|word| *word == name).filter(|_| is_table)?;
        pair[1].get(column)?.parse().ok()
    });
    value.unwrap_or(0)
}

/// Returns whether a link is shaped.
pub(crate) fn is_shaped(link: Link) -> bool {
    link.rate <= MAX_SHAPED_RATE
}

/// Returns a shaper's bucket size in bytes, which is 0.8 ms at the shaper's rate. With a smaller bucket, throughput
/// drops when the shaper runs late.
fn burst(rate: BitRate) -> u64 {
    (rate.get() / 8 * 8 / 10_000).max(5_000)
}

/// Returns the queue size limit.
fn queue_limit(buffer: &AnyBufferPolicy) -> Bytes {
    buffer.free_space(Bytes::ZERO, Bytes::ZERO)
}

fn codel(mark: &AnyMarkPolicy) -> Option<Codel> {
    match mark {
        AnyMarkPolicy::CodelRfc(codel) => Some(Codel::Rfc(*codel)),
        AnyMarkPolicy::CodelTofino(codel) => Some(Codel::Tofino(*codel)),
        _ => None,
    }
}

/// Creates the two TAP devices for a link with a delay.
fn create_taps(wire: &Wire) -> Result<DelayedLink> {
    let delay = Duration::from_nanos(wire.link.delay.get() / 1_000);
    let [a, b] = [&wire.a, &wire.b].map(|device| (device.node.to_string(), &device.name));
    DelayedLink::create((&a.0, a.1), (&b.0, b.1), delay)
}

/// Returns a host's address.
pub(crate) fn address(host: HostId) -> Ipv4Addr {
    let [_, _, high, low] = (host.get() + 1).to_be_bytes();
    Ipv4Addr::new(10, 77, high, low)
}

/// Returns a switch's address.
fn gateway(switch: SwitchId) -> Ipv4Addr {
    let [_, _, high, low] = (switch.get() + 257).to_be_bytes();
    Ipv4Addr::new(169, 254, high, low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_values_are_found_by_name() {
        let text =
            "Tcp: OutSegs RetransSegs\nTcp: 17 4\nUdp: OutSegs\nUdp: 5\nTcpExt: TCPTimeouts\nTcpExt: 2\n";
        assert_eq!(table_value(text, "Tcp:", "RetransSegs"), 4);
        assert_eq!(table_value(text, "Udp:", "OutSegs"), 5);
        assert_eq!(table_value(text, "TcpExt:", "TCPTimeouts"), 2);
        assert_eq!(table_value(text, "Tcp:", "None"), 0);
    }

    #[test]
    fn addresses_follow_the_node_numbers() {
        assert_eq!(address(HostId::new(0)).to_string(), "10.77.0.1");
        assert_eq!(address(HostId::new(999)).to_string(), "10.77.3.232");
        assert_eq!(gateway(SwitchId::new(0)).to_string(), "169.254.1.1");
        assert_eq!(gateway(SwitchId::new(300)).to_string(), "169.254.2.45");
    }

    #[test]
    fn the_bucket_holds_eight_tenths_of_a_millisecond() {
        assert_eq!(burst(BitRate::from_mbps(100)), 10_000);
        assert_eq!(burst(BitRate::from_mbps(10)), 5_000);
    }
}
