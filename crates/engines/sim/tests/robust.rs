//! Any plan is run or refused by name: nothing panics, nothing hangs, no packet appears or vanishes (which the engine itself
//! checks at the end of every run), and the same plan gives the same result.

use core::num::NonZeroU32;
use poseidon_laws::parts::plb::PlbParams;
use poseidon_laws::{AnyParams, LAWS};
use poseidon_plan::changes::{Change, LinkEvent};
use poseidon_plan::records::{DropCause, Kept};
use poseidon_plan::switch::{
    AnyMark, CodelRfc, CodelTofino, DelayCarrier, Direction, Pause, PerQueue, RecordCarrier, Red, Shared,
    Silence, Stamp, Step, Switch,
};
use poseidon_plan::topology::{Chain, Edge, Edges, End, Rotor, Tiers};
use poseidon_plan::traffic::{After, Amount, Connection, Event, Message};
use poseidon_plan::transport::{Acks, Echo, Eligibility, Recovery, Spread, Transport};
use poseidon_plan::{Backend, Link, Plan, Report, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::SplitMix64;
use poseidon_types::{BitRate, Bytes, Fraction, Nanos, Picos};

const PLANS: u64 = 10_000;

/// The engine's first promise: who runs which part of the network, and how many, changes nothing.
#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let (mut compared, mut hops) = (0, 0);
    for seed in 0..300 {
        let mut plan = random_plan(&mut SplitMix64::new(seed));
        // Real wires, so that windows are not of a picosecond, in which threads would do nothing but meet.
        lengthen(&mut plan.topology);
        plan.stop = plan.stop.min(Picos::new(60_000_000));
        let run = |threads| {
            let mut kept = Kept::default();
            let simulator = Simulator::with_threads(NonZeroU32::new(threads).expect("some"));
            simulator.run(&plan, &mut kept).map(|report| (report, kept))
        };
        let Ok(one) = run(1) else { continue };
        for threads in [2, 3, 4, 8] {
            assert_eq!(run(threads).as_ref(), Ok(&one), "seed {seed}, {threads} threads");
        }
        compared += 1;
        hops += one.0.packet_hops;
    }
    println!("{compared} plans, {hops} packet-hops, the same on 1, 2, 3, 4 and 8 threads");
    assert!(compared > 200 && hops > 100_000);
}

/// No wire is shorter than 245 ns.
fn lengthen(topology: &mut Topology) {
    let at_least = |link: &mut Link| link.delay = link.delay.max(Picos::new(245_000));
    match topology {
        Topology::Tiers(t) => {
            [&mut t.host_link, &mut t.rack_link, &mut t.core_link].into_iter().for_each(at_least);
        }
        Topology::Chain(c) => [&mut c.host_link, &mut c.middle_link].into_iter().for_each(at_least),
        Topology::Rotor(r) => {
            [&mut r.host_link, &mut r.packet_link, &mut r.circuit_link].into_iter().for_each(at_least);
        }
        Topology::Edges(e) => {
            let mut edges = e.edges().to_vec();
            edges.iter_mut().map(|edge| &mut edge.link).for_each(at_least);
            *e = Edges::new(edges).expect("as connected as before");
        }
    }
}

#[test]
fn ten_thousand_random_plans_are_run_or_refused() {
    let (mut ran, mut refused, mut finished) = (0, 0, 0);
    let mut all = Report::default();
    for seed in 0..PLANS {
        let plan = random_plan(&mut SplitMix64::new(seed));
        let run = || {
            let mut kept = Kept::default();
            Simulator::with_threads(NonZeroU32::MIN).run(&plan, &mut kept).map(|report| (report, kept))
        };
        match run() {
            Ok((report, kept)) => {
                ran += 1;
                finished += kept.messages.len();
                all.add(&report);
                assert!(report.ended <= plan.stop, "seed {seed}");
                assert!(kept.messages.iter().all(|row| row.acknowledged < plan.stop), "seed {seed}");
                if plan.switch.pause != Pause::Off {
                    let full = kept.drops.iter().find(|row| row.cause == DropCause::Buffer);
                    assert_eq!(full, None, "seed {seed}: flow control dropped");
                }
                if seed.is_multiple_of(10) {
                    assert_eq!(run(), Ok((report, kept)), "seed {seed}: another result the second time");
                }
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty(), "seed {seed}");
            }
        }
    }
    println!("{ran} ran, {refused} were refused; {finished} messages finished; in all {all:?}");
    assert!(ran > PLANS / 2 && refused > PLANS / 20, "the plans are varied");
    let happened = [all.dropped, all.marks, all.pauses, all.repaths, all.timeouts, all.retransmitted];
    assert!(happened.iter().all(|count| *count > 100), "everything happens: {all:?}");
}

fn number(rng: &mut SplitMix64, below: u64) -> u32 {
    u32::try_from(rng.below(below)).expect("small")
}

fn random_plan(rng: &mut SplitMix64) -> Plan {
    let topology = random_topology(rng);
    // Every tenth plan or so has something wrong with it.
    let wrong = rng.below(10) == 0;
    let priorities = if rng.below(3) == 0 { 1 + number(rng, 3 + u64::from(wrong) * 8) } else { 1 };
    let priorities = u8::try_from(priorities).expect("small");
    let (connections, messages, after) = random_traffic(rng, &topology, priorities, wrong);
    let stamp = *rng.pick(&[
        Stamp::Off,
        Stamp::MaxHopDelay(DelayCarrier::Exact),
        Stamp::MaxHopDelay(DelayCarrier::Shim),
        Stamp::HopRecords(RecordCarrier::Exact),
        Stamp::HopRecords(RecordCarrier::HpccNs3),
    ]);
    // HPCC's header knows these rates only.
    let has_code = |link: &Link| [25, 100, 200, 400].map(BitRate::from_gbps).contains(&link.rate);
    let stamp = if topology.links().iter().all(has_code) || wrong {
        stamp
    } else {
        *rng.pick(&[
            Stamp::Off,
            Stamp::MaxHopDelay(DelayCarrier::Shim),
            Stamp::HopRecords(RecordCarrier::Exact),
        ])
    };
    let is_rotor = matches!(topology, Topology::Rotor(_));
    let law = |rng: &mut SplitMix64| {
        let any = rng.pick(LAWS).name;
        let fitting = match stamp {
            Stamp::Off if is_rotor => "retcp",
            Stamp::Off => {
                *rng.pick(&["swift", "theta-powertcp", "timely", "dcqcn", "dctcp", "cubic", "bbr", "fixed"])
            }
            Stamp::MaxHopDelay(_) => *rng.pick(&["poseidon", "swift"]),
            Stamp::HopRecords(_) => *rng.pick(&["hpcc", "powertcp"]),
        };
        AnyParams::of(if wrong { any } else { fitting }).expect("in the table")
    };
    let switches = u64::from(topology.switches().max(1));
    let mut changes: Vec<Change> = (0..if rng.below(3) == 0 { rng.below(6) } else { 0 })
        .map(|_| Change {
            at: Picos::new(rng.below(60_000_000)),
            switch: number(rng, switches),
            port: number(rng, 1 + 2 * u64::from(wrong)),
            what: *rng.pick(&[
                LinkEvent::Down,
                LinkEvent::Up,
                LinkEvent::Up,
                LinkEvent::Rate(BitRate::from_gbps(50)),
                LinkEvent::Rate(BitRate::from_gbps(200)),
            ]),
        })
        .collect();
    changes.sort_by_key(|change| change.at);
    if is_rotor && !wrong {
        changes.clear();
    }
    Plan {
        seed: rng.next_u64(),
        stop: Picos::new(rng.below(300_000_000)),
        topology,
        switch: random_switch(rng, priorities, stamp, is_rotor && !wrong),
        silences: match rng.below(8) {
            0 => vec![Silence::always(0)],
            1 => vec![Silence {
                switch: 0,
                from: Picos::new(rng.below(100_000_000)),
                until: Picos::new(100_000_000),
            }],
            _ => Vec::new(),
        },
        transport: random_transport(rng, priorities, wrong),
        laws: vec![law(rng), law(rng)],
        watched_connections: (0..number(rng, 3)).filter(|c| (*c as usize) < connections.len()).collect(),
        connections,
        messages,
        after,
        changes,
        sample_every: Picos::new(*rng.pick(&[0, 1_000_000])),
        log_decisions: rng.below(4) == 0,
        watched: if rng.below(4) == 0 { vec![(0, 0), (0, 9_999)] } else { Vec::new() },
    }
}

fn random_traffic(
    rng: &mut SplitMix64,
    topology: &Topology,
    priorities: u8,
    wrong: bool,
) -> (Vec<Connection>, Vec<Message>, Vec<After>) {
    let hosts = u64::from(topology.hosts().max(1));
    let connections: Vec<_> = (0..rng.below(12))
        .map(|_| {
            let from = number(rng, hosts + u64::from(wrong));
            let other = number(rng, hosts.max(2) - 1);
            let to = if wrong { other } else { (from + 1 + other) % topology.hosts().max(1) };
            Connection {
                from,
                to,
                law: number(rng, 2 + u64::from(wrong)),
                entropy: number(rng, 1_000),
                priority: u8::try_from(rng.below(u64::from(priorities))).expect("small"),
            }
        })
        .filter(|connection| wrong || connection.from != connection.to)
        .collect();
    let mut messages: Vec<_> = (0..rng.below(20))
        .map(|_| Message {
            connection: number(rng, connections.len() as u64 + 1).min(11),
            at: Picos::new(rng.below(50_000_000)),
            amount: match rng.below(8) {
                0 => Amount::ENDLESS,
                1 => Amount::Until(Picos::new(rng.below(100_000_000))),
                _ => Amount::Exactly(Bytes::new(rng.below(100_000))),
            },
        })
        .collect();
    let mut after = Vec::new();
    if !wrong {
        messages.sort_by_key(|message| message.at);
        messages.retain(|message| (message.connection as usize) < connections.len());
        // A message without a size is alone on its connection.
        let mut taken: Vec<u32> = Vec::new();
        messages.retain(|message| match message.amount {
            Amount::Exactly(size) if size.is_zero() => false,
            Amount::Until(until) if until <= message.at => false,
            _ => {
                taken.push(message.connection);
                true
            }
        });
        let times = |connection: u32| taken.iter().filter(|other| **other == connection).count();
        messages.retain(|message| message.amount.bytes().is_some() || times(message.connection) == 1);
        for then in 1..messages.len() {
            let first = rng.index(then);
            let ends = |index: usize| connections[messages[index].connection as usize];
            let event = if ends(first).to == ends(then).from {
                Event::Received
            } else if ends(first).from == ends(then).from {
                Event::Acknowledged
            } else {
                continue;
            };
            if messages[first].amount.bytes().is_some() && rng.below(3) == 0 {
                let number = |index| u32::try_from(index).expect("few");
                after.push(After { message: number(first), event, then: number(then) });
            }
        }
        after.sort_unstable();
    }
    (connections, messages, after)
}

fn random_switch(rng: &mut SplitMix64, priorities: u8, stamp: Stamp, in_rotor: bool) -> Switch {
    let pfc = Pause::Pfc {
        memory: Bytes::new(*rng.pick(&[1_000_000, 30_000_000, 300_000_000])),
        alpha: Fraction::ratio(*rng.pick(&[1, 1, 8]), *rng.pick(&[1, 8])),
        resume: Bytes::new(*rng.pick(&[0, 3_000])),
    };
    let codel = [
        (Nanos::ZERO, Nanos::MAX),
        (Nanos::from_micros(1), Nanos::from_micros(20)),
        (Nanos::from_micros(1), Nanos::ZERO),
    ];
    let (target, interval) = *rng.pick(&codel);
    Switch {
        pipeline: Picos::new(*rng.pick(&[0, 1, 600_000, 5_000_000])),
        priorities: if in_rotor { 1 } else { priorities },
        buffer: if rng.below(2) == 0 {
            PerQueue { size: Bytes::new(*rng.pick(&[9_000, 20_000, 1_000_000])) }.into()
        } else {
            let size = Bytes::new(*rng.pick(&[40_000, 100_000, 64_000_000]));
            Shared { size, alpha: Fraction::ratio(*rng.pick(&[1, 1, 8]), *rng.pick(&[1, 8])) }.into()
        },
        pause: if rng.below(3) == 0 && !in_rotor { pfc } else { Pause::Off },
        mark: rng
            .pick(&[
                AnyMark::OFF,
                Step { threshold: Bytes::new(10_000) }.into(),
                Red {
                    min: Bytes::new(5_000),
                    max: Bytes::new(1),
                    probability: Fraction::ratio(1, 5),
                    ..Red::default()
                }
                .into(),
                CodelRfc { target, interval }.into(),
                CodelTofino { target, interval }.into(),
            ])
            .clone(),
        marks_go: *rng.pick(&[
            Direction::Forward,
            Direction::Forward,
            Direction::ReversePerFlow { counters: 3 },
            Direction::ReversePerPort,
        ]),
        stamp,
    }
}

fn random_transport(rng: &mut SplitMix64, priorities: u8, wrong: bool) -> Transport {
    let recovery = *rng.pick(&[
        Recovery::Selective { reordering: 3 },
        Recovery::Selective { reordering: 0 },
        Recovery::Selective { reordering: 1_000 },
        Recovery::GoBackN,
    ]);
    let coalesced = Acks::Coalesced { packets: 4, delay: Nanos::from_micros(5) };
    Transport {
        mtu: Bytes::new(*rng.pick(if wrong { &[0, 65_000] } else { &[64, 1_000, 4_096] })),
        header: Bytes::new(*rng.pick(&[0, 64, 600])),
        ack: Bytes::new(*rng.pick(&[1, 64, 64, 64])),
        eligibility: *rng.pick(&[Eligibility::Floor, Eligibility::Ceil]),
        min_rto: Nanos::new(*rng.pick(&[1, 1_000, 250_000, 1_000_000])),
        first_rto: Nanos::new(*rng.pick(&[1, 100_000, 1_000_000])),
        acks: if recovery == Recovery::GoBackN && !wrong {
            Acks::EveryPacket
        } else {
            *rng.pick(&[Acks::EveryPacket, coalesced])
        },
        recovery,
        echo: *rng.pick(&[
            Echo::Exact,
            Echo::UntilReduced,
            Echo::Notification { gap: Nanos::from_micros(4) },
        ]),
        ack_priority: (rng.below(3) == 0).then_some(priorities - 1),
        spread: *rng.pick(&[Spread::PerFlow, Spread::PerPacket]),
        plb: *rng.pick(&[None, Some(PlbParams::LINUX), Some(PlbParams::FALCON)]),
        coexistence: rng.below(4) == 0,
    }
}

fn random_topology(rng: &mut SplitMix64) -> Topology {
    let link = |rng: &mut SplitMix64| Link {
        rate: BitRate::from_mbps(*rng.pick(&[100, 3_333, 25_000, 100_000, 200_000, 400_000])),
        delay: Picos::new(*rng.pick(&[0, 1, 245_000, 1_000_000, 40_000_000])),
    };
    let few = |rng: &mut SplitMix64| number(rng, 4);
    match rng.below(8) {
        0 | 1 => {
            let (host_link, middle_link) = (link(rng), link(rng));
            Topology::Chain(Chain { switches: few(rng) + 1, hosts: few(rng) + 1, host_link, middle_link })
        }
        2 => Topology::Rotor(Rotor {
            racks: few(rng) + 2,
            hosts: few(rng) + 1,
            host_link: link(rng),
            packet_link: link(rng),
            circuit_link: link(rng),
            day: Picos::new(*rng.pick(&[1_000_000, 20_000_000])),
            night: Picos::new(*rng.pick(&[0, 1_000_000])),
            notice: Picos::new(*rng.pick(&[0, 30_000_000])),
        }),
        3 => random_edges(rng, &link),
        _ => Topology::Tiers(Tiers {
            pods: few(rng) + 1,
            racks: few(rng) + 1,
            hosts: few(rng) + 1,
            aggregation: few(rng) + u32::from(rng.below(8) != 0),
            cores: few(rng) + u32::from(rng.below(8) != 0),
            host_link: link(rng),
            rack_link: link(rng),
            core_link: link(rng),
        }),
    }
}

/// A tree of switches with some more links between them, and hosts at some.
fn random_edges(rng: &mut SplitMix64, link: &impl Fn(&mut SplitMix64) -> Link) -> Topology {
    let switches = number(rng, 6) + 1;
    let mut edges = Vec::new();
    // Mostly fast ones, so that something happens.
    let link = |rng: &mut SplitMix64| {
        let link = link(rng);
        Link { rate: link.rate.max(BitRate::from_gbps(25)), ..link }
    };
    for switch in 1..switches {
        let other = number(rng, u64::from(switch));
        edges.push(Edge { a: End::Switch(switch), b: End::Switch(other), link: link(rng) });
    }
    for _ in 0..number(rng, 6) {
        let (a, b) = (number(rng, u64::from(switches)), number(rng, u64::from(switches)));
        if a != b {
            edges.push(Edge { a: End::Switch(a), b: End::Switch(b), link: link(rng) });
        }
    }
    let mut host = 0;
    for switch in 0..switches {
        for _ in 0..number(rng, 3) + u32::from(switch == 0) {
            edges.push(Edge { a: End::Host(host), b: End::Switch(switch), link: link(rng) });
            host += 1;
        }
    }
    Topology::Edges(Edges::new(edges).expect("a network"))
}
