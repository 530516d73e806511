//! Any plan is run or refused by name: nothing panics, nothing hangs, no packet appears or vanishes (which the engine itself
//! checks at the end of every run), and the same plan gives the same result.

use core::num::NonZeroU32;
use poseidon_laws::{AnyParams, LAWS};
use poseidon_plan::records::Kept;
use poseidon_plan::switch::{Buffer, Carrier, Codel, Mark, Stamp, Switch};
use poseidon_plan::topology::{Chain, Tiers};
use poseidon_plan::traffic::{Connection, Message};
use poseidon_plan::transport::{Eligibility, Transport};
use poseidon_plan::{Backend, Link, Plan, Topology};
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
            let simulator = Simulator { threads: NonZeroU32::new(threads).expect("some") };
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
    let links = match topology {
        Topology::Tiers(t) => vec![&mut t.host_link, &mut t.rack_link, &mut t.core_link],
        Topology::Chain(c) => vec![&mut c.host_link, &mut c.middle_link],
    };
    for link in links {
        link.delay = link.delay.max(Picos::new(245_000));
    }
}

#[test]
fn ten_thousand_random_plans_are_run_or_refused() {
    let (mut ran, mut refused, mut finished, mut dropped) = (0, 0, 0, 0);
    for seed in 0..PLANS {
        let plan = random_plan(&mut SplitMix64::new(seed));
        let run = || {
            let mut kept = Kept::default();
            Simulator::default().run(&plan, &mut kept).map(|report| (report, kept))
        };
        match run() {
            Ok((report, kept)) => {
                ran += 1;
                finished += kept.messages.len();
                dropped += report.dropped;
                assert!(report.ended <= plan.stop, "seed {seed}");
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
    println!("{ran} ran, {refused} were refused; {finished} messages finished, {dropped} packets dropped");
    assert!(ran > PLANS / 3 && refused > PLANS / 20 && dropped > 0, "the plans are varied");
}

fn random_plan(rng: &mut SplitMix64) -> Plan {
    let topology = random_topology(rng);
    let hosts = u64::from(topology.hosts().max(1));
    let number = |rng: &mut SplitMix64, below: u64| u32::try_from(rng.below(below)).expect("small");
    // Every tenth plan or so has something wrong with it.
    let wrong = rng.below(10) == 0;
    let connections: Vec<_> = (0..rng.below(12))
        .map(|_| {
            let from = number(rng, hosts + u64::from(wrong));
            let other = number(rng, hosts.max(2) - 1);
            let to = if wrong { other } else { (from + 1 + other) % topology.hosts().max(1) };
            Connection { from, to, law: number(rng, 2 + u64::from(wrong)), entropy: number(rng, 1_000) }
        })
        .filter(|connection| wrong || connection.from != connection.to)
        .collect();
    let mut messages: Vec<_> = (0..rng.below(20))
        .map(|_| Message {
            connection: number(rng, connections.len() as u64 + 1).min(11),
            at: Picos::new(rng.below(50_000_000)),
            size: (rng.below(6) != 0).then(|| Bytes::new(rng.below(100_000))),
        })
        .collect();
    if !wrong {
        messages.sort_by_key(|message| message.at);
        messages.retain(|message| (message.connection as usize) < connections.len());
        for message in &mut messages {
            message.size = message.size.map(|size| size.max(Bytes::new(1)));
        }
    }
    let stamp = *rng.pick(&[Stamp::Off, Stamp::MaxHopDelay(Carrier::Exact), Stamp::HopRecords]);
    let law = |rng: &mut SplitMix64| {
        let any = rng.pick(LAWS).name;
        let fitting = match stamp {
            Stamp::Off => {
                *rng.pick(&["swift", "theta-powertcp", "timely", "dcqcn", "dctcp", "cubic", "fixed"])
            }
            Stamp::MaxHopDelay(_) => *rng.pick(&["poseidon", "swift"]),
            Stamp::HopRecords => *rng.pick(&["hpcc", "powertcp"]),
        };
        AnyParams::of(if wrong { any } else { fitting }).expect("in the table")
    };
    Plan {
        seed: rng.next_u64(),
        stop: Picos::new(rng.below(300_000_000)),
        topology,
        switch: Switch {
            pipeline: Picos::new(*rng.pick(&[0, 1, 600_000, 5_000_000])),
            buffer: if rng.below(2) == 0 {
                Buffer::Static { per_queue: Bytes::new(*rng.pick(&[5_000, 20_000, 1_000_000])) }
            } else {
                Buffer::Shared {
                    total: Bytes::new(*rng.pick(&[10_000, 100_000, 64_000_000])),
                    alpha: Fraction::ratio(*rng.pick(&[0, 1, 8]), *rng.pick(&[1, 8])),
                }
            },
            mark: *rng.pick(&[
                Mark::Off,
                Mark::Step { threshold: Bytes::new(10_000) },
                Mark::Red { min: Bytes::new(5_000), max: Bytes::new(1), probability: Fraction::ratio(1, 5) },
                Mark::CodelRfc(Codel { target: Picos::ZERO, interval: Picos::MAX }),
                Mark::CodelRfc(Codel { target: Picos::new(1_000_000), interval: Picos::new(20_000_000) }),
                Mark::CodelTofino(Codel { target: Picos::new(1_000_000), interval: Picos::ZERO }),
            ]),
            stamp,
        },
        silent_switches: if rng.below(4) == 0 { vec![0] } else { Vec::new() },
        transport: Transport {
            mtu: Bytes::new(*rng.pick(if wrong { &[0, 65_000] } else { &[64, 1_000, 4_096] })),
            header: Bytes::new(*rng.pick(&[0, 64, 600])),
            ack: Bytes::new(*rng.pick(&[1, 64, 64, 64])),
            eligibility: *rng.pick(&[Eligibility::Floor, Eligibility::Ceil]),
            min_rto: Nanos::new(*rng.pick(&[1, 1_000, 250_000, 1_000_000])),
        },
        laws: vec![law(rng), law(rng)],
        connections,
        messages,
        sample_every: Picos::new(*rng.pick(&[0, 1_000_000])),
        watched: if rng.below(4) == 0 { vec![(0, 0), (0, 9_999)] } else { Vec::new() },
    }
}

fn random_topology(rng: &mut SplitMix64) -> Topology {
    let link = |rng: &mut SplitMix64| Link {
        rate: BitRate::from_mbps(*rng.pick(&[100, 3_333, 10_000, 100_000, 200_000, 400_000])),
        delay: Picos::new(*rng.pick(&[0, 1, 245_000, 1_000_000, 40_000_000])),
    };
    let few = |rng: &mut SplitMix64| u32::try_from(rng.below(4)).expect("small");
    if rng.below(3) == 0 {
        let (host_link, middle_link) = (link(rng), link(rng));
        return Topology::Chain(Chain {
            switches: few(rng) + 1,
            hosts: few(rng) + 1,
            host_link,
            middle_link,
        });
    }
    Topology::Tiers(Tiers {
        pods: few(rng) + 1,
        racks: few(rng) + 1,
        hosts: few(rng) + 1,
        aggregation: few(rng) + u32::from(rng.below(8) != 0),
        cores: few(rng) + u32::from(rng.below(8) != 0),
        host_link: link(rng),
        rack_link: link(rng),
        core_link: link(rng),
    })
}
