//! Small plans, one per simulator feature. Their results must not depend on the number of threads or ranks.

use super::{LINK, connection_ids, link_change, plan, switch_ports};
use poseidon_laws::AnyParams;
use poseidon_laws::plb::PlbParams;
use poseidon_plan::impairments::{AnyImpairPolicy, Jitter, LinkImpairment, RandomLoss, Reorder};
use poseidon_plan::link_changes::LinkEvent;
use poseidon_plan::patterns::{Algorithm, Collective, Pattern, TrafficClass};
use poseidon_plan::switch::{
    DelayCarrier, MarkDirection, Pause, PerQueue, RecordCarrier, SlowPort, Stamp, Step, SwitchOverride,
    TelemetryOff, Trim,
};
use poseidon_plan::topology::{Chain, Edges, Rails, Rotor};
use poseidon_plan::traffic::{Amount, Connection, Dependency, Event, Message};
use poseidon_plan::transport::{Acks, AnyPathPolicy, Credits, Echo, Recovery, Reps};
use poseidon_plan::{Link, Plan, Topology};
use poseidon_types::{
    BitRate, Bytes, ConnectionId, Fraction, HostId, MessageId, Nanos, Picos, PortId, SwitchId,
};

/// Returns each plan with its name. Each plan runs in a fraction of a second.
pub fn feature_plans() -> Vec<(&'static str, Plan)> {
    let mut plans = vec![
        ("poseidon", poseidon()),
        ("hpcc-records", records("hpcc", RecordCarrier::HpccNs3)),
        ("powertcp-records", records("powertcp", RecordCarrier::Exact)),
        ("dctcp-marks", marks(MarkDirection::Forward)),
        ("reverse-marks", marks(MarkDirection::ReversePerFlow { counters: 64 })),
        ("reverse-marks-per-port", marks(MarkDirection::ReversePerPort)),
        ("notifications", notifications()),
        ("link-fails", link_fails()),
        ("link-flaps", link_flaps()),
        ("impaired-links", impaired_links()),
        ("flow-control", flow_control()),
        ("plb", plb()),
        ("rotor", rotor()),
        ("rails", rails()),
        ("edges", edges()),
        ("own-policies", own_policies()),
        ("coalesced-acks", coalesced_acks()),
        ("priorities", priorities()),
        ("spraying", spraying()),
        ("trimming", trimming()),
        ("credits", credits()),
        ("slow-links", slow_links()),
        ("dependencies", dependencies()),
        ("joins", joins()),
        ("rings", rings()),
        ("go-back-n", go_back_n()),
        ("parking-lot", parking_lot()),
        ("one-rack", one_rack()),
        ("many-hosts", many_hosts()),
    ];
    plans.extend(super::uet::uet_plans());
    plans
}

const fn us(us: u64) -> Picos {
    Picos::new(us * 1_000_000)
}

const TREE: Topology = Topology::fat_tree(4, LINK);

/// Every host sends one message to a host in another pod.
fn permutation(topology: Topology, law: &str, size: u64) -> Plan {
    let hosts = topology.hosts();
    let endpoints: Vec<_> = (0..hosts).map(|from| (from, (from + hosts / 2 + 1) % hosts)).collect();
    with_message_size(plan(topology, law, &endpoints), size)
}

/// All hosts except the first four send to the first host.
fn incast(law: &str, size: u64) -> Plan {
    let endpoints: Vec<_> = (4..16).map(|from| (from, 0)).collect();
    with_message_size(plan(TREE, law, &endpoints), size)
}

fn with_message_size(mut plan: Plan, size: u64) -> Plan {
    plan.stop = us(300);
    for message in &mut plan.messages {
        message.amount = Amount::Exactly(Bytes::new(size));
    }
    plan
}

/// Sets a fixed window that overflows every buffer.
fn with_large_window(mut plan: Plan) -> Plan {
    plan.laws[0].set("window", "100 packets").expect("the value is valid");
    plan
}

/// Shortens the timeouts so that they occur within these short runs.
const fn set_short_rto(plan: &mut Plan) {
    plan.transport.min_rto = Nanos::from_micros(50);
    plan.transport.first_rto = Nanos::from_micros(50);
}

fn poseidon() -> Plan {
    let mut plan = permutation(TREE, "poseidon", 1_000_000);
    plan.switch.stamp = Stamp::MaxHopDelay(DelayCarrier::Shim);
    plan.sample_every = us(10);
    plan.watched_ports = switch_ports(&[(0, 2), (8, 0), (16, 1)]);
    plan.watched_connections = connection_ids([0, 7, 15]);
    plan.log_decisions = true;
    plan
}

fn records(law: &str, carrier: RecordCarrier) -> Plan {
    let mut plan = incast(law, 300_000);
    plan.switch.stamp = Stamp::HopRecords(carrier);
    // One switch writes no telemetry.
    plan.telemetry_off = vec![TelemetryOff::always(SwitchId::new(16))];
    plan.sample_every = us(10);
    plan.watched_ports = switch_ports(&[(0, 0)]);
    plan.watched_connections = connection_ids([0, 5]);
    plan.log_decisions = true;
    plan
}

fn marks(direction: MarkDirection) -> Plan {
    let mut plan = incast("dctcp", 300_000);
    plan.switch.stamp = Stamp::Off;
    plan.switch.mark = Step { threshold: Bytes::new(50_000) }.into();
    plan.switch.mark_direction = direction;
    plan
}

fn notifications() -> Plan {
    let mut plan = marks(MarkDirection::Forward);
    plan.laws = permutation(TREE, "dcqcn", 1).laws;
    plan.transport.echo = Echo::Notification { gap: Nanos::from_micros(4) };
    plan
}

/// Rack 0 loses its two uplinks one after the other, and a core switch loses one downlink.
fn link_fails() -> Plan {
    let mut plan = with_large_window(permutation(TREE, "fixed", 1_000_000));
    set_short_rto(&mut plan);
    let change = |time, switch, port, event| link_change(us(time), switch, port, event);
    plan.link_changes = vec![
        change(20, 0, 2, LinkEvent::Down),
        change(25, 16, 1, LinkEvent::Down),
        change(30, 0, 3, LinkEvent::Down),
        change(60, 0, 2, LinkEvent::Up),
    ];
    plan
}

/// Links lose, delay and reorder packets, and the delay of one link changes twice.
fn impaired_links() -> Plan {
    let mut plan = permutation(TREE, "swift", 1_000_000);
    set_short_rto(&mut plan);
    let impair = |switch: u32, port: u32, policy: AnyImpairPolicy| LinkImpairment {
        switch: SwitchId::new(switch),
        port: PortId::new(port),
        policy,
    };
    let jitter = |keep_order| Jitter { max: Nanos::from_micros(3), keep_order };
    plan.link_impairments = vec![
        impair(0, 2, RandomLoss { probability: Fraction::ratio(1, 20) }.into()),
        impair(0, 3, jitter(true).into()),
        impair(1, 2, jitter(false).into()),
        impair(1, 3, Reorder { probability: Fraction::ratio(1, 4), delay: Nanos::from_micros(5) }.into()),
    ];
    plan.link_changes = vec![
        link_change(us(20), 2, 2, LinkEvent::Delay(us(5))),
        link_change(us(40), 2, 2, LinkEvent::Delay(us(1))),
    ];
    plan
}

/// An uplink fails and recovers every five microseconds. After each recovery it runs at a lower rate.
fn link_flaps() -> Plan {
    let mut plan = with_large_window(permutation(TREE, "fixed", 1_000_000));
    set_short_rto(&mut plan);
    for cycle in 0..10 {
        let change = |time, event| link_change(us(time), 2, 2, event);
        plan.link_changes.push(change(10 + 10 * cycle, LinkEvent::Down));
        plan.link_changes.push(change(15 + 10 * cycle, LinkEvent::Up));
        plan.link_changes.push(change(15 + 10 * cycle, LinkEvent::Rate(BitRate::from_gbps(100))));
    }
    plan
}

fn flow_control() -> Plan {
    let mut plan = with_large_window(incast("fixed", 300_000));
    plan.switch.pause =
        Pause::Pfc { memory: Bytes::new(600_000), alpha: Fraction::ratio(1, 8), resume: Bytes::new(3_000) };
    plan.sample_every = us(10);
    plan.watched_ports = switch_ports(&[(0, 0), (2, 2), (16, 0)]);
    plan
}

fn plb() -> Plan {
    let mut plan = marks(MarkDirection::Forward);
    // One congested round is enough, because these flows are short.
    plan.transport.plb = Some(PlbParams { busy_rounds: 1, idle_rounds: 1, ..PlbParams::FALCON });
    plan
}

fn rotor() -> Plan {
    let link = |gbps, delay| Link { rate: BitRate::from_gbps(gbps), delay };
    let topology = Topology::Rotor(Rotor {
        racks: 5,
        hosts: 2,
        host_link: link(25, us(1)),
        packet_link: link(25, us(2)),
        circuit_link: link(100, us(2)),
        day: us(45),
        night: us(5),
        notice: us(20),
    });
    let mut plan = permutation(topology, "retcp", 1_000_000);
    plan.switch.stamp = Stamp::Off;
    plan.stop = us(500);
    plan.sample_every = us(50);
    // The packet link and the circuit link of each rack.
    plan.watched_ports = (0..5).flat_map(|rack| switch_ports(&[(rack, 2), (rack, 3)])).collect();
    plan
}

/// Six servers of four GPUs in three groups. One leaf switch loses its links to the spine for a while.
fn rails() -> Plan {
    let topology = Topology::Rails(Rails {
        servers: 6,
        gpus: 4,
        servers_per_leaf: 2,
        spines: 2,
        local_link: Link { rate: BitRate::from_gbps(3_600), ..LINK },
        rail_link: LINK,
        spine_link: LINK,
    });
    let mut plan = with_large_window(permutation(topology, "fixed", 1_000_000));
    set_short_rto(&mut plan);
    // Ports 2 and 3 of the first leaf lead to the spine.
    plan.link_changes = [(20, LinkEvent::Down), (60, LinkEvent::Up)]
        .into_iter()
        .flat_map(|(time, event)| [2, 3].map(|port| link_change(us(time), 6, port, event)))
        .collect();
    // The NIC of the first rail of every server.
    plan.watched_ports = (0..6).flat_map(|server| switch_ports(&[(server, 4)])).collect();
    plan.sample_every = us(50);
    plan
}

/// Only the receiver's rack switch marks, and it has a small buffer.
fn own_policies() -> Plan {
    let mut plan = incast("dctcp", 300_000);
    plan.switch.stamp = Stamp::Off;
    set_short_rto(&mut plan);
    plan.switch_overrides = vec![SwitchOverride {
        switch: SwitchId::new(0),
        buffer: Some(PerQueue { size: Bytes::new(100_000) }.into()),
        mark: Some(Step { threshold: Bytes::new(50_000) }.into()),
    }];
    plan
}

/// A ring of five switches with a chord that has a different rate and delay.
fn edges() -> Plan {
    let text = "h0 s0 100 Gbps 500 ns
                h1 s0 100 Gbps 1 us
                h2 s1 25 Gbps 500 ns
                h3 s2 100 Gbps 500 ns
                h4 s3 100 Gbps 700 ns
                h5 s4 40 Gbps 500 ns
                s0 s1 100 Gbps 500 ns
                s1 s2 100 Gbps 500 ns
                s2 s3 40 Gbps 3 us
                s3 s4 100 Gbps 500 ns
                s4 s0 100 Gbps 500 ns
                s1 s3 50 Gbps 1 us";
    permutation(Topology::Edges(Edges::parse(text).expect("the edge list is valid")), "swift", 300_000)
}

fn coalesced_acks() -> Plan {
    let mut plan = marks(MarkDirection::Forward);
    plan.transport.acks = Acks::Coalesced { packets: 8, delay: Nanos::from_micros(5) };
    plan
}

/// Connections with four priorities share one receiver. ACKs have the highest priority.
fn priorities() -> Plan {
    let mut plan = incast("swift", 300_000);
    plan.switch.priorities = 4;
    plan.transport.ack_priority = Some(0);
    for (connection, priority) in plan.connections.iter_mut().zip([3, 2, 1].into_iter().cycle()) {
        connection.priority = priority;
    }
    for message in &mut plan.messages {
        message.start = Picos::ZERO;
    }
    plan
}

fn spraying() -> Plan {
    let mut plan = permutation(TREE, "poseidon", 1_000_000);
    plan.transport.load_balancing = AnyPathPolicy::SPRAY;
    plan.transport.recovery = Recovery::Selective { reordering: 50 };
    plan.sample_every = us(50);
    // Both uplinks of every rack.
    plan.watched_ports = (0..8).flat_map(|rack| switch_ports(&[(rack, 2), (rack, 3)])).collect();
    plan
}

/// Packets take the paths that REPS chooses, and an incast overflows small queues, which trim.
fn trimming() -> Plan {
    let mut plan = incast("swift", 400_000);
    plan.switch.priorities = 2;
    plan.switch.trim = Some(Trim { size: Bytes::new(64) });
    plan.switch.buffer = PerQueue { size: Bytes::new(50_000) }.into();
    plan.transport.load_balancing = Reps { paths: 16, ..Reps::default() }.into();
    plan.transport.recovery = Recovery::TrimNacks;
    plan.transport.acks = Acks::CoalescedBytes { bytes: Bytes::new(16_384) };
    plan.transport.ack_priority = Some(0);
    plan.connections.iter_mut().for_each(|connection| connection.priority = 1);
    plan
}

/// An incast whose senders wait for credits of their receiver as well as for their windows.
fn credits() -> Plan {
    let mut plan = trimming();
    plan.laws = vec![AnyParams::for_law("nscc").expect("the law exists")];
    plan.transport.credits = Some(Credits::uet(Nanos::from_micros(10), true));
    plan
}

/// Some links have a quarter of their rate in one direction.
fn slow_links() -> Plan {
    let mut plan = permutation(TREE, "poseidon", 300_000);
    let slow =
        |(switch, port)| SlowPort { switch: SwitchId::new(switch), port: PortId::new(port), divisor: 4 };
    plan.slow_ports = [(0, 2), (8, 0), (16, 1)].map(slow).to_vec();
    plan
}

/// A ring all-reduce of eight hosts, one per rack. Each step waits for data from the previous neighbour.
fn dependencies() -> Plan {
    const HOSTS: u32 = 8;
    let endpoints: Vec<_> = (0..HOSTS).map(|i| (2 * i, 2 * ((i + 1) % HOSTS))).collect();
    let mut plan = plan(TREE, "poseidon", &endpoints);
    plan.stop = us(300);
    let steps = 2 * (HOSTS - 1);
    plan.messages = (0..steps * HOSTS)
        .map(|index| Message {
            connection: ConnectionId::new(index % HOSTS),
            // The first messages start at once. The others start after a short compute time.
            start: if index < HOSTS { Picos::ZERO } else { Picos::new(700_001) },
            amount: Amount::Exactly(Bytes::new(50_000)),
        })
        .collect();
    // A host's message waits for the message it received in the previous step and for the message it sent in the
    // previous step.
    for index in 0..(steps - 1) * HOSTS {
        let (step, host) = (index / HOSTS, index % HOSTS);
        let next = (step + 1) * HOSTS;
        let dependency = |event, dependent| Dependency {
            prerequisite: MessageId::new(index),
            event,
            dependent: MessageId::new(dependent),
        };
        plan.dependencies.push(dependency(Event::Received, next + (host + 1) % HOSTS));
        plan.dependencies.push(dependency(Event::Acknowledged, next + host));
    }
    plan.dependencies.sort_unstable();
    plan
}

/// Two direct all-reduces of twelve hosts. A host sends the sum when it has received the data of all other hosts.
fn joins() -> Plan {
    let algorithm = Algorithm::from_name("direct-all-reduce").expect("the algorithm exists");
    let ranks = (0..12).map(HostId::new).collect();
    let collective = Collective {
        repetitions: 2,
        compute_gap: Picos::new(3_000_001),
        ..Collective::new(algorithm, ranks, Bytes::new(240_000))
    };
    let traffic = collective.generate(&TrafficClass::new(7, "joins")).expect("the pattern is valid");
    let traffic = traffic.into_plan_order();
    let mut plan = plan(TREE, "poseidon", &[]);
    plan.stop = us(1_000);
    (plan.connections, plan.messages) = (traffic.connections, traffic.messages);
    (plan.dependencies, plan.joins) = (traffic.dependencies, traffic.joins);
    plan
}

/// Three ring all-reduces of twelve hosts, whose messages are computed when they are due.
fn rings() -> Plan {
    let algorithm = Algorithm::from_name("ring-all-reduce").expect("the algorithm exists");
    let collective = Collective {
        channels: 2,
        chunk: Some(Bytes::new(6_000)),
        repetitions: 3,
        compute_gap: Picos::new(3_000_001),
        ..Collective::new(algorithm, (2..14).map(HostId::new).collect(), Bytes::new(240_007))
    };
    let traffic = collective.generate_compact(&TrafficClass::new(7, "rings")).expect("the pattern is valid");
    let traffic = traffic.into_plan_order();
    let mut plan = plan(TREE, "poseidon", &[]);
    plan.stop = us(2_000);
    (plan.connections, plan.rings) = (traffic.connections, traffic.rings);
    plan
}

fn go_back_n() -> Plan {
    let mut plan = with_large_window(incast("fixed", 200_000));
    plan.switch.buffer = PerQueue { size: Bytes::new(200_000) }.into();
    plan.transport.recovery = Recovery::GoBackN;
    set_short_rto(&mut plan);
    plan
}

/// A long flow crosses six switches, and one short flow crosses each link.
fn parking_lot() -> Plan {
    let topology = Topology::Chain(Chain { switches: 6, hosts: 2, host_link: LINK, middle_link: LINK });
    let endpoints: Vec<_> =
        core::iter::once((0, 11)).chain((0..5).map(|switch| (2 * switch + 1, 2 * switch + 2))).collect();
    let mut plan = plan(topology, "poseidon", &endpoints);
    plan.stop = us(300);
    plan.messages[3].amount = Amount::Until(us(200));
    plan.connections.push(Connection {
        from: HostId::new(10),
        to: HostId::new(1),
        law: 0,
        entropy: 9,
        priority: 0,
    });
    plan.messages.push(Message {
        connection: ConnectionId::new(6),
        start: us(20),
        amount: Amount::Exactly(Bytes::new(123_457)),
    });
    plan
}

/// One switch cannot be divided, so all threads or ranks except one are idle.
fn one_rack() -> Plan {
    let endpoints: Vec<_> = (1..9).map(|from| (from, 0)).collect();
    let mut plan = with_message_size(plan(Topology::star(9, LINK), "poseidon", &endpoints), 200_000);
    plan.switch.buffer = PerQueue { size: Bytes::new(30_000) }.into();
    set_short_rto(&mut plan);
    plan
}

/// Many messages cross between shards in every window.
fn many_hosts() -> Plan {
    let mut plan = permutation(Topology::fat_tree(8, LINK), "hpcc", 100_000);
    plan.switch.stamp = Stamp::HopRecords(RecordCarrier::HpccNs3);
    for message in &mut plan.messages {
        message.start = Picos::ZERO;
    }
    plan
}
