//! Small plans, one for each thing that a backend can do: what must give the same on any number of threads and ranks.

use super::{LINK, plan};
use poseidon_laws::parts::plb::PlbParams;
use poseidon_plan::changes::{Change, LinkEvent};
use poseidon_plan::switch::{DelayCarrier, Direction, Pause, PerQueue, RecordCarrier, Silence, Stamp, Step};
use poseidon_plan::topology::{Chain, Edges, Rotor};
use poseidon_plan::traffic::{After, Amount, Connection, Event, Message};
use poseidon_plan::transport::{Acks, Echo, Recovery, Spread};
use poseidon_plan::{Link, Plan, Topology};
use poseidon_types::{BitRate, Bytes, Fraction, Nanos, Picos};

/// Each named after what happens in it, and done in a fraction of a second.
pub fn varied() -> Vec<(&'static str, Plan)> {
    vec![
        ("poseidon", poseidon()),
        ("hpcc-records", records("hpcc", RecordCarrier::HpccNs3)),
        ("powertcp-records", records("powertcp", RecordCarrier::Exact)),
        ("dctcp-marks", marks(Direction::Forward)),
        ("reverse-marks", marks(Direction::ReversePerFlow { counters: 64 })),
        ("reverse-marks-per-port", marks(Direction::ReversePerPort)),
        ("notifications", notifications()),
        ("link-fails", link_fails()),
        ("link-flaps", link_flaps()),
        ("flow-control", flow_control()),
        ("plb", plb()),
        ("rotor", rotor()),
        ("edges", edges()),
        ("coalesced-acks", coalesced_acks()),
        ("priorities", priorities()),
        ("spraying", spraying()),
        ("dependencies", dependencies()),
        ("go-back-n", go_back_n()),
        ("parking-lot", parking_lot()),
        ("one-rack", one_rack()),
        ("many-hosts", many_hosts()),
    ]
}

const fn us(us: u64) -> Picos {
    Picos::new(us * 1_000_000)
}

const TREE: Topology = Topology::fat_tree(4, LINK);

/// Every host sends one message to a host of another pod.
fn permutation(topology: Topology, law: &str, size: u64) -> Plan {
    let hosts = topology.hosts();
    let ends: Vec<_> = (0..hosts).map(|from| (from, (from + hosts / 2 + 1) % hosts)).collect();
    sized(plan(topology, law, &ends), size)
}

/// All but the first four hosts send to the first.
fn incast(law: &str, size: u64) -> Plan {
    let ends: Vec<_> = (4..16).map(|from| (from, 0)).collect();
    sized(plan(TREE, law, &ends), size)
}

fn sized(mut plan: Plan, size: u64) -> Plan {
    plan.stop = us(300);
    for message in &mut plan.messages {
        message.amount = Amount::Exactly(Bytes::new(size));
    }
    plan
}

/// Windows that no buffer holds.
fn blind(mut plan: Plan) -> Plan {
    plan.laws[0].set("window", "100 packets").expect("reads");
    plan
}

/// Timeouts come within these short runs.
const fn impatient(plan: &mut Plan) {
    plan.transport.min_rto = Nanos::from_micros(50);
    plan.transport.first_rto = Nanos::from_micros(50);
}

fn poseidon() -> Plan {
    let mut plan = permutation(TREE, "poseidon", 1_000_000);
    plan.switch.stamp = Stamp::MaxHopDelay(DelayCarrier::Shim);
    plan.sample_every = us(10);
    plan.watched = vec![(0, 2), (8, 0), (16, 1)];
    plan.watched_connections = vec![0, 7, 15];
    plan.log_decisions = true;
    plan
}

fn records(law: &str, carrier: RecordCarrier) -> Plan {
    let mut plan = incast(law, 300_000);
    plan.switch.stamp = Stamp::HopRecords(carrier);
    // Not every switch speaks.
    plan.silences = vec![Silence::always(16)];
    plan.sample_every = us(10);
    plan.watched = vec![(0, 0)];
    plan.watched_connections = vec![0, 5];
    plan.log_decisions = true;
    plan
}

fn marks(direction: Direction) -> Plan {
    let mut plan = incast("dctcp", 300_000);
    plan.switch.stamp = Stamp::Off;
    plan.switch.mark = Step { threshold: Bytes::new(50_000) }.into();
    plan.switch.marks_go = direction;
    plan
}

fn notifications() -> Plan {
    let mut plan = marks(Direction::Forward);
    plan.laws = permutation(TREE, "dcqcn", 1).laws;
    plan.transport.echo = Echo::Notification { gap: Nanos::from_micros(4) };
    plan
}

/// Rack 0 loses both of its ways up for a while, one after the other, and a core one way down.
fn link_fails() -> Plan {
    let mut plan = blind(permutation(TREE, "fixed", 1_000_000));
    impatient(&mut plan);
    let change = |at, switch, port, what| Change { at: us(at), switch, port, what };
    plan.changes = vec![
        change(20, 0, 2, LinkEvent::Down),
        change(25, 16, 1, LinkEvent::Down),
        change(30, 0, 3, LinkEvent::Down),
        change(60, 0, 2, LinkEvent::Up),
    ];
    plan
}

/// A way up goes and comes every five microseconds, and comes back slower.
fn link_flaps() -> Plan {
    let mut plan = blind(permutation(TREE, "fixed", 1_000_000));
    impatient(&mut plan);
    for turn in 0..10 {
        let change = |at, what| Change { at: us(at), switch: 2, port: 2, what };
        plan.changes.push(change(10 + 10 * turn, LinkEvent::Down));
        plan.changes.push(change(15 + 10 * turn, LinkEvent::Up));
        plan.changes.push(change(15 + 10 * turn, LinkEvent::Rate(BitRate::from_gbps(100))));
    }
    plan
}

fn flow_control() -> Plan {
    let mut plan = blind(incast("fixed", 300_000));
    plan.switch.pause =
        Pause::Pfc { memory: Bytes::new(600_000), alpha: Fraction::ratio(1, 8), resume: Bytes::new(3_000) };
    plan.sample_every = us(10);
    plan.watched = vec![(0, 0), (2, 2), (16, 0)];
    plan
}

fn plb() -> Plan {
    let mut plan = marks(Direction::Forward);
    // Impatient: these flows are short.
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
    // The packet link and the circuit of each rack.
    plan.watched = (0..5).flat_map(|rack| [(rack, 2), (rack, 3)]).collect();
    plan
}

/// A ring of five switches with a chord of other rate and length.
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
    permutation(Topology::Edges(Edges::parse(text).expect("reads")), "swift", 300_000)
}

fn coalesced_acks() -> Plan {
    let mut plan = marks(Direction::Forward);
    plan.transport.acks = Acks::Coalesced { packets: 8, delay: Nanos::from_micros(5) };
    plan
}

/// Connections of four classes from every host to one; ACKs go first.
fn priorities() -> Plan {
    let mut plan = incast("swift", 300_000);
    plan.switch.priorities = 4;
    plan.transport.ack_priority = Some(0);
    for (connection, priority) in plan.connections.iter_mut().zip([3, 2, 1].into_iter().cycle()) {
        connection.priority = priority;
    }
    for message in &mut plan.messages {
        message.at = Picos::ZERO;
    }
    plan
}

fn spraying() -> Plan {
    let mut plan = permutation(TREE, "poseidon", 1_000_000);
    plan.transport.spread = Spread::PerPacket;
    plan.transport.recovery = Recovery::Selective { reordering: 50 };
    plan.sample_every = us(50);
    // Both ways up of every rack.
    plan.watched = (0..8).flat_map(|rack| [(rack, 2), (rack, 3)]).collect();
    plan
}

/// A ring all-reduce of eight hosts, one per rack: each step waits for what its neighbour has sent.
fn dependencies() -> Plan {
    const HOSTS: u32 = 8;
    let ends: Vec<_> = (0..HOSTS).map(|i| (2 * i, 2 * ((i + 1) % HOSTS))).collect();
    let mut plan = plan(TREE, "poseidon", &ends);
    plan.stop = us(300);
    let steps = 2 * (HOSTS - 1);
    plan.messages = (0..steps * HOSTS)
        .map(|index| Message {
            connection: index % HOSTS,
            // The first wait for nothing; the others think for a while.
            at: if index < HOSTS { Picos::ZERO } else { Picos::new(700_001) },
            amount: Amount::Exactly(Bytes::new(50_000)),
        })
        .collect();
    // What host `i` sends in a step waits for what it received in the one before, and for its own last to be gone.
    for index in 0..(steps - 1) * HOSTS {
        let (step, host) = (index / HOSTS, index % HOSTS);
        let next = (step + 1) * HOSTS;
        plan.after.push(After { message: index, event: Event::Received, then: next + (host + 1) % HOSTS });
        plan.after.push(After { message: index, event: Event::Acknowledged, then: next + host });
    }
    plan.after.sort_unstable();
    plan
}

fn go_back_n() -> Plan {
    let mut plan = blind(incast("fixed", 200_000));
    plan.switch.buffer = PerQueue { size: Bytes::new(200_000) }.into();
    plan.transport.recovery = Recovery::GoBackN;
    impatient(&mut plan);
    plan
}

/// A long flow across six switches, and one across each link; they stop before the run ends.
fn parking_lot() -> Plan {
    let topology = Topology::Chain(Chain { switches: 6, hosts: 2, host_link: LINK, middle_link: LINK });
    let ends: Vec<_> =
        core::iter::once((0, 11)).chain((0..5).map(|switch| (2 * switch + 1, 2 * switch + 2))).collect();
    let mut plan = plan(topology, "poseidon", &ends);
    plan.stop = us(300);
    plan.messages[3].amount = Amount::Until(us(200));
    plan.connections.push(Connection { from: 10, to: 1, law: 0, entropy: 9, priority: 0 });
    plan.messages.push(Message { connection: 6, at: us(20), amount: Amount::Exactly(Bytes::new(123_457)) });
    plan
}

/// One switch, which cannot be shared: all but one thread or rank have nothing to do.
fn one_rack() -> Plan {
    let ends: Vec<_> = (1..9).map(|from| (from, 0)).collect();
    let mut plan = sized(plan(Topology::star(9, LINK), "poseidon", &ends), 200_000);
    plan.switch.buffer = PerQueue { size: Bytes::new(30_000) }.into();
    impatient(&mut plan);
    plan
}

/// Much mail between the parts of the network in every window.
fn many_hosts() -> Plan {
    let mut plan = permutation(Topology::fat_tree(8, LINK), "hpcc", 100_000);
    plan.switch.stamp = Stamp::HopRecords(RecordCarrier::HpccNs3);
    for message in &mut plan.messages {
        message.at = Picos::ZERO;
    }
    plan
}
