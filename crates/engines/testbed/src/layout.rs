//! Plans the namespaces, devices and routes of a network. This module does not modify the machine.

use poseidon_plan::switch::{AnyBufferPolicy, AnyMarkPolicy, Pause, Stamp};
use poseidon_plan::topology::{Edges, Node};
use poseidon_plan::transport::{AnyPathPolicy, Echo, Recovery};
use poseidon_plan::{Link, Plan, PlanError, SwitchPort};
use poseidon_types::{BitRate, Bytes, HostId, Nanos, Picos, PortId, Signals, SwitchId};

/// The maximum rate of a shaped link. A virtual machine cannot sustain higher rates.
pub const MAX_SHAPED_RATE: BitRate = BitRate::from_mbps(500);

/// The minimum link delay that is emulated. Without emulation, a hop takes about 20 us.
pub const MIN_DELAY: Picos = Picos::from_nanos(Nanos::from_micros(50));

/// The minimum sampling interval.
pub const MIN_SAMPLE_INTERVAL: Picos = Picos::from_nanos(Nanos::from_millis(1));

/// The payload of a full 1500-byte packet that carries timestamps and our option.
pub const MAX_PAYLOAD: Bytes = Bytes::new(1_440);

/// The maximum number of hosts. Addresses use 16 bits for the host.
const MAX_HOSTS: u32 = 1_000;

/// A network that the testbed can build.
#[derive(Clone, Debug)]
pub struct Layout {
    edges: Edges,
    /// The port that leads to each host, indexed by switch and host.
    next_ports: Vec<Vec<PortId>>,
}

/// A device at one end of a wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The node that the device belongs to.
    pub node: Node,
    /// The device's name within the node.
    pub name: String,
}

/// A link and its two devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// The first end.
    pub a: Device,
    /// The second end.
    pub b: Device,
    /// The rate and the delay.
    pub link: Link,
}

/// Returns the signals that Linux hosts supply to a law.
pub fn available_signals(plan: &Plan) -> Signals {
    let telemetry = match plan.switch.stamp {
        Stamp::MaxHopDelay(_) => Signals::MAX_HOP_DELAY | Signals::REVERSE_MAX_HOP_DELAY,
        Stamp::Off | Stamp::HopRecords(_) => Signals::NONE,
    };
    Signals::RTT | Signals::ECN_ECHO | Signals::HOP_COUNT | telemetry
}

impl Layout {
    /// Plans the network, or returns the reason why the testbed does not support it.
    pub fn new(plan: &Plan) -> Result<Self, PlanError> {
        check_support(plan)?;
        let unsupported = PlanError::Unsupported("circuits: choose another topology");
        let edges = plan.topology.to_edges().ok_or(unsupported)?;
        if edges.hosts() > MAX_HOSTS {
            return Err(PlanError::Unsupported("more than 1000 hosts"));
        }
        let switches = || (0..edges.switches()).map(SwitchId::new);
        let distances: Vec<Vec<u32>> = switches().map(|switch| edges.distances(switch)).collect();
        let ports_of = |switch: SwitchId| {
            (0..edges.hosts())
                .map(|host| find_next_port(&edges, &distances, switch, HostId::new(host)))
                .collect::<Result<Vec<_>, _>>()
        };
        let next_ports = switches().map(ports_of).collect::<Result<_, _>>()?;
        Ok(Self { edges, next_ports })
    }

    /// Returns the number of hosts.
    pub fn hosts(&self) -> u32 {
        self.edges.hosts()
    }

    /// Returns the number of switches.
    pub fn switches(&self) -> u32 {
        self.edges.switches()
    }

    /// Returns the ids of all hosts.
    pub fn host_ids(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.hosts()).map(HostId::new)
    }

    /// Returns the ids of all switches.
    pub fn switch_ids(&self) -> impl Iterator<Item = SwitchId> + use<> {
        (0..self.switches()).map(SwitchId::new)
    }

    /// Returns the ports of a switch.
    pub fn ports(&self, switch: SwitchId) -> impl Iterator<Item = PortId> + use<> {
        (0..self.edges.ports(switch).len()).map(PortId::from_index)
    }

    /// Returns the number of ports on a switch.
    pub fn port_count(&self, switch: SwitchId) -> u32 {
        u32::try_from(self.edges.ports(switch).len()).expect("a switch has fewer than 2^32 ports")
    }

    /// Returns the node at the other end of a port, and the link to it.
    pub fn peer_of(&self, switch: SwitchId, port: PortId) -> (Node, Link) {
        self.edges.ports(switch)[port.index()]
    }

    /// Returns the switch that a host is connected to.
    pub fn switch_of(&self, host: HostId) -> SwitchId {
        self.edges.switch_of(host)
    }

    /// Returns the port through which a switch reaches a host.
    pub fn next_port(&self, switch: SwitchId, host: HostId) -> PortId {
        self.next_ports[switch.index()][host.index()]
    }

    /// Returns the switches along a path, with their egress ports.
    pub fn route(&self, from: HostId, to: HostId) -> Vec<SwitchPort> {
        let mut route = Vec::new();
        let mut switch = self.edges.switch_of(from);
        loop {
            let port = self.next_port(switch, to);
            route.push(SwitchPort::new(switch, port));
            match self.peer_of(switch, port).0 {
                Node::Host(_) => return route,
                Node::Switch(next) => switch = next,
            }
        }
    }

    /// Returns every link exactly once.
    pub fn wires(&self) -> Vec<Wire> {
        let mut wires = Vec::new();
        for switch in self.switch_ids() {
            for port in self.ports(switch) {
                let device = Device { node: Node::Switch(switch), name: port_name(port) };
                let (node, link) = self.peer_of(switch, port);
                match node {
                    Node::Host(_) => {
                        let b = Device { node, name: HOST_DEVICE.to_owned() };
                        wires.push(Wire { a: device, b, link });
                    }
                    // A link between switches appears at both switches.
                    Node::Switch(other) if other > switch => {
                        let peer_port = self.peer_port(switch, port, other);
                        wires.push(Wire { a: device, b: Device { node, name: port_name(peer_port) }, link });
                    }
                    Node::Switch(_) => {}
                }
            }
        }
        wires
    }

    /// Returns the port at the other end of a link between switches. Parallel links appear in the same order at both
    /// ends.
    fn peer_port(&self, switch: SwitchId, port: PortId, other: SwitchId) -> PortId {
        let ports_to = |from: SwitchId, to: SwitchId| {
            self.ports(from).filter(move |port| self.peer_of(from, *port).0 == Node::Switch(to))
        };
        let index = ports_to(switch, other).take_while(|earlier| *earlier != port).count();
        ports_to(other, switch).nth(index).expect("a link has two ends")
    }
}

/// The name of a host's device.
pub const HOST_DEVICE: &str = "e0";

/// Returns the device name of a switch port.
pub fn port_name(port: PortId) -> String {
    format!("p{}", port.get())
}

/// Rejects plans that the testbed does not support. Each error suggests a remedy.
fn check_support(plan: &Plan) -> Result<(), PlanError> {
    let unsupported = |what| Err(PlanError::Unsupported(what));
    if !matches!(plan.switch.buffer, AnyBufferPolicy::PerQueue(_)) {
        return unsupported(
            "shared buffers; set switch.buffer to { policy = \"per-queue\", size = \"300 kB\" }",
        );
    }
    if plan.switch.pause != Pause::Off {
        return unsupported("flow control; leave out switch.pfc");
    }
    if plan.switch.priorities != 1 {
        return unsupported("several queues per port; set switch.priorities to 1");
    }
    if !matches!(
        plan.switch.mark,
        AnyMarkPolicy::Off(_) | AnyMarkPolicy::CodelRfc(_) | AnyMarkPolicy::CodelTofino(_)
    ) {
        return unsupported("this marking; set switch.mark to \"codel-rfc\" or \"codel-tofino\"");
    }
    if matches!(plan.switch.stamp, Stamp::HopRecords(_)) {
        return unsupported(
            "hop records, which Linux hosts do not read; choose a law that needs only the largest hop delay",
        );
    }
    if !plan.switch_overrides.is_empty() {
        return unsupported("switches with their own policies; leave out buffer and mark in [generation]");
    }
    if !plan.switch.mark_host_links {
        return unsupported("ports to hosts that do not mark; leave out switch.mark-host-links");
    }
    if plan.transport.mtu > MAX_PAYLOAD {
        return unsupported(
            "packets with more than 1440 bytes of payload; set transport.mtu to \"1440 B\" or less",
        );
    }
    if plan.transport.recovery == Recovery::TrimNacks {
        return unsupported("packet trimming; leave out switch.trim");
    }
    if !plan.slow_ports.is_empty() {
        return unsupported("slow links; leave out slow-link");
    }
    if plan.transport.recovery == Recovery::GoBackN {
        return unsupported("go-back-n; Linux uses selective acknowledgements");
    }
    if matches!(plan.transport.echo, Echo::Notification { .. }) {
        return unsupported("congestion notification packets; set transport.echo to \"until-reduced\"");
    }
    if plan.transport.load_balancing != AnyPathPolicy::ECMP || plan.transport.plb.is_some() {
        return unsupported(
            "packet spraying and path changes; leave out transport.spray, transport.paths and transport.plb",
        );
    }
    if !plan.dependencies.is_empty() || !plan.joins.is_empty() || !plan.rings.is_empty() {
        return unsupported("messages that wait for others");
    }
    if !plan.link_changes.is_empty() {
        return unsupported("links that change");
    }
    if !plan.link_impairments.is_empty() {
        return unsupported("link impairments");
    }
    if plan.log_decisions {
        return unsupported("a record of each decision; leave out observe.decisions");
    }
    if plan.sample_every < MIN_SAMPLE_INTERVAL {
        return unsupported("samples more than once per millisecond; set observe.sample to \"1 ms\" or more");
    }
    Ok(())
}

/// Returns a switch's port on the shortest path to a host. Networks with several shortest paths are rejected because
/// Linux would choose a path with its own hash.
fn find_next_port(
    edges: &Edges,
    distances: &[Vec<u32>],
    switch: SwitchId,
    host: HostId,
) -> Result<PortId, PlanError> {
    let destination = edges.switch_of(host).index();
    let distance = distances[destination][switch.index()];
    let is_closer = |(_, (node, _)): &(usize, &(Node, Link))| match *node {
        Node::Host(other) => distance == 0 && other == host,
        Node::Switch(other) => distance > 0 && distances[destination][other.index()] < distance,
    };
    let mut ports = edges.ports(switch).iter().enumerate().filter(is_closer);
    match (ports.next(), ports.next()) {
        (Some((port, _)), None) => Ok(PortId::from_index(port)),
        _ => Err(PlanError::Unsupported("several shortest paths between hosts; leave only one")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_plan::Topology;
    use poseidon_plan::switch::{PerQueue, SwitchOverride};
    use poseidon_testkit::plans;

    const SLOW: Link = Link { rate: BitRate::from_mbps(100), delay: Picos::ZERO };

    /// Returns a plan that the testbed supports.
    fn plan(topology: Topology) -> Plan {
        let mut plan = plans::plan(topology, "cubic", &[]);
        plan.switch.buffer = AnyBufferPolicy::PerQueue(PerQueue { size: Bytes::new(300_000) });
        plan.switch.stamp = Stamp::Off;
        plan.transport.mtu = MAX_PAYLOAD;
        plan.sample_every = MIN_SAMPLE_INTERVAL;
        plan
    }

    #[test]
    fn every_link_is_one_wire_and_routes_use_them() {
        let layout = Layout::new(&plan(Topology::dumbbell(2, SLOW, SLOW))).expect("the network is supported");
        let ends: Vec<String> = layout
            .wires()
            .iter()
            .map(|wire| format!("{}:{}-{}:{}", wire.a.node, wire.a.name, wire.b.node, wire.b.name))
            .collect();
        assert_eq!(ends, ["s0:p0-h0:e0", "s0:p1-h1:e0", "s0:p2-s1:p2", "s1:p0-h2:e0", "s1:p1-h3:e0"]);
        let route = |from, to| -> Vec<(u32, u32)> {
            let route = layout.route(HostId::new(from), HostId::new(to));
            route.iter().map(|hop| (hop.switch.get(), hop.port.get())).collect()
        };
        assert_eq!(route(0, 1), [(0, 1)]);
        assert_eq!(route(0, 3), [(0, 2), (1, 1)]);
        assert_eq!(route(3, 0), [(1, 2), (0, 0)]);
    }

    #[test]
    fn parallel_links_are_refused() {
        let links = "h0 s0 1 Gbps 1 us\nh1 s1 1 Gbps 1 us\ns0 s1 1 Gbps 1 us\ns0 s1 1 Gbps 1 us";
        let edges = Edges::parse(links).expect("the edges are valid");
        let refusal =
            Layout::new(&plan(Topology::Edges(edges))).expect_err("there are two paths").to_string();
        assert!(refusal.contains("several shortest paths"), "{refusal}");
    }

    #[test]
    fn unsupported_plans_are_refused_with_a_remedy() {
        let refusal_of = |change: fn(&mut Plan)| {
            let mut plan = plan(Topology::star(2, SLOW));
            change(&mut plan);
            Layout::new(&plan).expect_err("the plan is not supported").to_string()
        };
        assert!(refusal_of(|plan| plan.switch.priorities = 2).ends_with("set switch.priorities to 1"));
        assert!(refusal_of(|plan| plan.transport.mtu = Bytes::new(4_096)).contains("\"1440 B\""));
        let own_mark = |plan: &mut Plan| {
            let mark = Some(AnyMarkPolicy::OFF);
            plan.switch_overrides = vec![SwitchOverride { switch: SwitchId::new(0), buffer: None, mark }];
        };
        assert!(refusal_of(own_mark).contains("own policies"));
        assert!(refusal_of(|plan| plan.switch.mark_host_links = false).contains("mark-host-links"));
        assert!(refusal_of(|plan| plan.sample_every = Picos::new(1_000_000)).contains("\"1 ms\""));
        assert!(refusal_of(|plan| plan.transport.recovery = Recovery::GoBackN).contains("go-back-n"));
    }
}
