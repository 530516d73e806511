//! What is built for a plan: namespaces, devices, ways. Nothing here touches the machine.

use poseidon_plan::switch::{AnyBuffer, AnyMark, Pause, Stamp};
use poseidon_plan::topology::{Edges, End};
use poseidon_plan::transport::{Echo, Recovery, Spread};
use poseidon_plan::{Link, Plan, PlanError};
use poseidon_types::{BitRate, Bytes, Nanos, Picos, Signals};

/// The fastest link that is shaped. Beyond, a virtual machine cannot hold a rate, and a link is as fast as the machine.
pub const FASTEST_SHAPED: BitRate = BitRate::from_mbps(500);

/// The shortest delay that is made; packets take some 20 us for a hop anyway.
pub const SHORTEST_DELAY: Picos = Picos::from_nanos(Nanos::from_micros(50));

/// How often queues may be written down.
pub const SHORTEST_SAMPLE: Picos = Picos::from_nanos(Nanos::from_millis(1));

/// Payload of a full packet at Ethernet's 1500 bytes, with timestamps and our option.
pub const LARGEST_MTU: Bytes = Bytes::new(1_440);

/// Namespaces are processes' homes and cost little, but an address has 16 bits for them here.
const MOST_HOSTS: u32 = 1_000;

/// A network that can be built.
#[derive(Clone, Debug)]
pub struct Layout {
    edges: Edges,
    /// By switch, and then by host: the port that leads there.
    towards: Vec<Vec<u32>>,
}

/// A device at one end of a wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Whose.
    pub end: End,
    /// Its name there.
    pub name: String,
}

/// Two devices and the link between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// One end.
    pub a: Device,
    /// The other.
    pub b: Device,
    /// What is between them.
    pub link: Link,
}

/// What hosts in Linux can tell a law.
pub fn supplies(plan: &Plan) -> Signals {
    let telemetry = match plan.switch.stamp {
        Stamp::MaxHopDelay(_) => Signals::MAX_HOP_DELAY | Signals::REVERSE_MAX_HOP_DELAY,
        Stamp::Off | Stamp::HopRecords(_) => Signals::NONE,
    };
    Signals::RTT | Signals::ECN_ECHO | Signals::HOP_COUNT | telemetry
}

impl Layout {
    /// What is built for a plan, or why it cannot be.
    pub fn of(plan: &Plan) -> Result<Self, PlanError> {
        refuse(plan)?;
        let unsupported = PlanError::Unsupported("circuits: choose another topology");
        let edges = plan.topology.to_edges().ok_or(unsupported)?;
        if edges.hosts() > MOST_HOSTS {
            return Err(PlanError::Unsupported("more than 1000 hosts"));
        }
        let distances: Vec<Vec<u32>> = (0..edges.switches()).map(|switch| edges.distances(switch)).collect();
        let towards = |at: u32| {
            (0..edges.hosts())
                .map(|host| towards(&edges, &distances, at, host))
                .collect::<Result<Vec<_>, _>>()
        };
        let towards = (0..edges.switches()).map(towards).collect::<Result<_, _>>()?;
        Ok(Self { edges, towards })
    }

    /// Hosts.
    pub fn hosts(&self) -> u32 {
        self.edges.hosts()
    }

    /// Switches.
    pub fn switches(&self) -> u32 {
        self.edges.switches()
    }

    /// Ports of a switch.
    pub fn ports(&self, switch: u32) -> u32 {
        count(self.edges.ports(switch).len())
    }

    /// What is behind a port, and the link there.
    pub fn behind(&self, switch: u32, port: u32) -> (End, Link) {
        self.edges.ports(switch)[port as usize]
    }

    /// The switch of a host.
    pub fn switch_of(&self, host: u32) -> u32 {
        self.edges.switch_of(host)
    }

    /// The port by which a switch reaches a host.
    pub fn towards(&self, switch: u32, host: u32) -> u32 {
        self.towards[switch as usize][host as usize]
    }

    /// Switches and the ports by which packets leave them.
    pub fn route(&self, from: u32, to: u32) -> Vec<(u32, u32)> {
        let mut route = Vec::new();
        let mut at = self.edges.switch_of(from);
        loop {
            let port = self.towards(at, to);
            route.push((at, port));
            match self.behind(at, port).0 {
                End::Host(_) => return route,
                End::Switch(next) => at = next,
            }
        }
    }

    /// Every wire once.
    pub fn wires(&self) -> Vec<Wire> {
        let mut wires = Vec::new();
        for switch in 0..self.switches() {
            for port in 0..self.ports(switch) {
                let here = Device { end: End::Switch(switch), name: port_name(port) };
                let (end, link) = self.behind(switch, port);
                match end {
                    End::Host(_) => {
                        let b = Device { end, name: HOST_DEVICE.to_owned() };
                        wires.push(Wire { a: here, b, link });
                    }
                    // Seen from the other end as well.
                    End::Switch(other) if other > switch => {
                        let back = self.port_back(switch, port, other);
                        wires.push(Wire { a: here, b: Device { end, name: port_name(back) }, link });
                    }
                    End::Switch(_) => {}
                }
            }
        }
        wires
    }

    /// The port at the other end of a link between switches: the n-th link between the two is the n-th on both sides.
    fn port_back(&self, switch: u32, port: u32, other: u32) -> u32 {
        let to = |at: u32, goal: u32| {
            (0..self.ports(at)).filter(move |port| self.behind(at, *port).0 == End::Switch(goal))
        };
        let nth = to(switch, other).take_while(|before| *before != port).count();
        to(other, switch).nth(nth).expect("a link has two ends")
    }
}

/// The device of a host.
pub const HOST_DEVICE: &str = "e0";

/// The device of a switch's port.
pub fn port_name(port: u32) -> String {
    format!("p{port}")
}

/// What cannot be done here, each with what to do instead.
fn refuse(plan: &Plan) -> Result<(), PlanError> {
    let no = |what| Err(PlanError::Unsupported(what));
    if !matches!(plan.switch.buffer, AnyBuffer::PerQueue(_)) {
        return no("shared buffers; set switch.buffer to { policy = \"per-queue\", size = \"300 kB\" }");
    }
    if plan.switch.pause != Pause::Off {
        return no("flow control; leave out switch.pfc");
    }
    if plan.switch.priorities != 1 {
        return no("several queues per port; set switch.priorities to 1");
    }
    if !matches!(plan.switch.mark, AnyMark::Off(_) | AnyMark::CodelRfc(_) | AnyMark::CodelTofino(_)) {
        return no("this marking; set switch.mark to \"codel-rfc\" or \"codel-tofino\"");
    }
    if matches!(plan.switch.stamp, Stamp::HopRecords(_)) {
        return no(
            "records of hops, which no Linux host reads; choose a law that needs the largest hop delay",
        );
    }
    if plan.transport.mtu > LARGEST_MTU {
        return no("packets with more than 1440 bytes of payload; set transport.mtu to \"1440 B\" or less");
    }
    if plan.transport.recovery == Recovery::GoBackN {
        return no("go-back-n; Linux has selective acknowledgements");
    }
    if matches!(plan.transport.echo, Echo::Notification { .. }) {
        return no("notifications of congestion; set transport.echo to \"until-reduced\"");
    }
    if plan.transport.spread != Spread::PerFlow || plan.transport.plb.is_some() {
        return no("packets that leave their path; leave out transport.spray and transport.plb");
    }
    if !plan.after.is_empty() {
        return no("messages that wait for others");
    }
    if !plan.changes.is_empty() {
        return no("links that change");
    }
    if plan.log_decisions {
        return no("the decisions of each ACK; leave out observe.decisions");
    }
    if plan.sample_every < SHORTEST_SAMPLE {
        return no("samples more often than every millisecond; set observe.sample to \"1 ms\" or more");
    }
    Ok(())
}

/// The port of `at` that leads nearer to a host. Linux would spread flows over equal ways by its own hash.
fn towards(edges: &Edges, distances: &[Vec<u32>], at: u32, host: u32) -> Result<u32, PlanError> {
    let goal = edges.switch_of(host) as usize;
    let left = distances[goal][at as usize];
    let leads = |(_, (end, _)): &(usize, &(End, Link))| match *end {
        End::Host(other) => left == 0 && other == host,
        End::Switch(other) => left > 0 && distances[goal][other as usize] < left,
    };
    let mut ways = edges.ports(at).iter().enumerate().filter(leads);
    match (ways.next(), ways.next()) {
        (Some((port, _)), None) => Ok(count(port)),
        _ => Err(PlanError::Unsupported("several equally short ways between hosts; give it one")),
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).expect("a plan numbers fewer than 2^32 of anything")
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_plan::Topology;
    use poseidon_plan::switch::PerQueue;
    use poseidon_testkit::plans;

    const SLOW: Link = Link { rate: BitRate::from_mbps(100), delay: Picos::ZERO };

    /// What the testbed takes, on this topology.
    fn plan(topology: Topology) -> Plan {
        let mut plan = plans::plan(topology, "cubic", &[]);
        plan.switch.buffer = AnyBuffer::PerQueue(PerQueue { size: Bytes::new(300_000) });
        plan.switch.stamp = Stamp::Off;
        plan.transport.mtu = LARGEST_MTU;
        plan.sample_every = SHORTEST_SAMPLE;
        plan
    }

    #[test]
    fn every_link_is_one_wire_and_ways_lead_over_them() {
        let layout = Layout::of(&plan(Topology::dumbbell(2, SLOW, SLOW))).expect("a plain network");
        let ends: Vec<String> = layout
            .wires()
            .iter()
            .map(|wire| format!("{}:{}-{}:{}", wire.a.end, wire.a.name, wire.b.end, wire.b.name))
            .collect();
        assert_eq!(ends, ["s0:p0-h0:e0", "s0:p1-h1:e0", "s0:p2-s1:p2", "s1:p0-h2:e0", "s1:p1-h3:e0"]);
        assert_eq!(layout.route(0, 1), [(0, 1)]);
        assert_eq!(layout.route(0, 3), [(0, 2), (1, 1)]);
        assert_eq!(layout.route(3, 0), [(1, 2), (0, 0)]);
    }

    #[test]
    fn two_links_between_two_switches_are_two_ways() {
        let links = "h0 s0 1 Gbps 1 us\nh1 s1 1 Gbps 1 us\ns0 s1 1 Gbps 1 us\ns0 s1 1 Gbps 1 us";
        let edges = Edges::parse(links).expect("reads");
        let refusal = Layout::of(&plan(Topology::Edges(edges))).expect_err("which?").to_string();
        assert!(refusal.contains("several equally short ways"), "{refusal}");
    }

    #[test]
    fn what_linux_cannot_do_is_refused_with_what_to_do_instead() {
        let refused = |change: fn(&mut Plan)| {
            let mut plan = plan(Topology::star(2, SLOW));
            change(&mut plan);
            Layout::of(&plan).expect_err("refused").to_string()
        };
        assert!(refused(|plan| plan.switch.priorities = 2).ends_with("set switch.priorities to 1"));
        assert!(refused(|plan| plan.transport.mtu = Bytes::new(4_096)).contains("\"1440 B\""));
        assert!(refused(|plan| plan.sample_every = Picos::new(1_000_000)).contains("\"1 ms\""));
        assert!(refused(|plan| plan.transport.recovery = Recovery::GoBackN).contains("go-back-n"));
    }
}
