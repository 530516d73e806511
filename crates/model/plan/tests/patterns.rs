//! Patterns in plans: what they make passes the plan's own check, does not depend on its neighbours, and ends when it should.

use poseidon_laws::AnyParams;
use poseidon_plan::patterns::{
    AllToAll, Carried, Class, ClosedLoop, Destinations, FlowList, Group, Incast, LongFlows, Over, Pattern,
    Permutation, Phases, PoissonFlows, Racks, Requests, RingAllReduce, RotatingIncast, SizeDistribution,
    Stagger, Traffic, TreeAllReduce, UniformRandom,
};
use poseidon_plan::records::ReceivedRow;
use poseidon_plan::switch::{AnyBuffer, AnyMark, Direction, Pause, Stamp, Switch};
use poseidon_plan::topology::{Link, Tiers, Topology};
use poseidon_plan::traffic::{Amount, Event, Message};
use poseidon_plan::transport::{Acks, Echo, Eligibility, Recovery, Spread, Transport};
use poseidon_plan::{Plan, PlanError};
use poseidon_types::{BitRate, Bytes, Fraction, Nanos, Picos, Signals};
use proptest::prelude::*;

const LINK: Link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };

fn us(us: u64) -> Picos {
    Picos::from_nanos(Nanos::from_micros(us))
}

/// Racks under two aggregation switches.
fn leaf_spine(racks: u32, hosts: u32) -> Topology {
    Topology::Tiers(Tiers {
        pods: 1,
        racks,
        hosts,
        aggregation: 2,
        cores: 0,
        host_link: LINK,
        rack_link: LINK,
        core_link: LINK,
    })
}

/// Whether a plan takes this traffic.
fn check(topology: Topology, traffic: Traffic) -> Result<(), PlanError> {
    let plan = Plan {
        seed: 7,
        stop: us(100_000),
        topology,
        switch: Switch {
            pipeline: Picos::new(600_000),
            priorities: 2,
            buffer: AnyBuffer::of("shared").expect("a policy"),
            pause: Pause::Off,
            mark: AnyMark::of("off").expect("a policy"),
            marks_go: Direction::Forward,
            stamp: Stamp::Off,
        },
        silences: Vec::new(),
        transport: Transport {
            mtu: Bytes::new(1_000),
            header: Bytes::ZERO,
            ack: Bytes::new(64),
            eligibility: Eligibility::Floor,
            min_rto: Nanos::from_micros(250),
            first_rto: Nanos::from_millis(1),
            recovery: Recovery::Selective { reordering: 3 },
            acks: Acks::EveryPacket,
            echo: Echo::Exact,
            ack_priority: None,
            spread: Spread::PerFlow,
            plb: None,
            coexistence: false,
        },
        laws: vec![AnyParams::of("fixed").expect("a law")],
        connections: traffic.connections,
        messages: traffic.messages,
        after: traffic.after,
        changes: Vec::new(),
        sample_every: Picos::ZERO,
        watched: Vec::new(),
        watched_connections: Vec::new(),
        log_decisions: false,
    };
    plan.check(Signals::ALL)
}

/// One of each pattern, for racks of `hosts`.
fn one_of_each(topology: &Topology, hosts: u32) -> Vec<(&'static str, Box<dyn Pattern>)> {
    let racks = Racks::of(topology);
    let all: Vec<u32> = (0..racks.all_hosts()).collect();
    let (first, second): (Vec<u32>, Vec<u32>) = (racks.hosts(0).collect(), racks.hosts(1).collect());
    let pairs: Vec<(u32, u32)> = first.iter().copied().zip(second.iter().copied()).collect();
    let (size, start, until) = (Bytes::new(10_007), us(3), us(200));
    let list = "h0 h1 1 MB 5 us\n h1 h0 3 B 2 us 1";
    vec![
        ("long", Box::new(LongFlows { ends: pairs.clone(), start, spread: us(2), stop: until })),
        ("phases", Box::new(Phases::joining_and_leaving(&pairs, 2, start, us(20)))),
        (
            "incast",
            Box::new(Incast {
                senders: second.clone(),
                target: 0,
                amount: Amount::Exactly(size),
                start,
                stagger: Stagger { together: 2, every: us(20) },
            }),
        ),
        (
            "rotating",
            Box::new(RotatingIncast {
                senders: second.clone(),
                targets: first.clone(),
                size,
                period: us(21),
                start,
                until,
            }),
        ),
        (
            "uniform",
            Box::new(UniformRandom {
                from: first,
                to: second,
                size,
                rate: BitRate::from_gbps(4),
                over: Carried::ByPair,
                start,
                until,
            }),
        ),
        (
            "poisson",
            Box::new(PoissonFlows {
                racks: racks.clone(),
                destinations: Destinations::OtherRacks,
                sizes: SizeDistribution::named("alistorage2019").expect("a workload"),
                load: Fraction::ratio(1, 2),
                capacity: LINK.rate,
                start,
                until,
            }),
        ),
        (
            "requests",
            Box::new(Requests { clients: all.clone(), racks, fan: hosts, size, every: us(90), start, until }),
        ),
        ("permutation", Box::new(Permutation { hosts: all.clone(), amount: Amount::ENDLESS, start })),
        ("all-to-all", Box::new(AllToAll { hosts: all.clone(), size, start })),
        ("ring", Box::new(RingAllReduce { hosts: all.clone(), size, start, pause: us(1) })),
        ("tree", Box::new(TreeAllReduce { hosts: all, size, start, pause: us(1) })),
        (
            "loop",
            Box::new(ClosedLoop {
                ends: pairs,
                size,
                count: 5,
                think: us(10),
                over: Over::OneConnection,
                start,
                spread: us(9),
            }),
        ),
        ("list", Box::new(FlowList::parse(list).expect("a list"))),
    ]
}

/// What a group sends, whatever its indices are: ends, path, time and amount of each message, and how many messages it waits for.
fn sent(traffic: &Traffic, group: &Group) -> Vec<(u32, u32, u32, Picos, Amount, usize)> {
    let row = |index: &u32| {
        let Message { connection, at, amount } = traffic.messages[*index as usize];
        let connection = traffic.connections[connection as usize];
        let waits = traffic.after.iter().filter(|after| after.then == *index).count();
        (connection.from, connection.to, connection.entropy, at, amount, waits)
    };
    group.messages.iter().map(row).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_pattern_alone_and_all_together_pass_the_plans_check(
        seed: u64, racks in 2u32..6, hosts in 2u32..9,
    ) {
        let topology = leaf_spine(racks, hosts);
        let mut all = Traffic::default();
        for (name, pattern) in one_of_each(&topology, hosts) {
            let traffic = pattern.traffic(&Class::new(seed, name)).expect("a pattern");
            prop_assert!(!traffic.messages.is_empty(), "{} sends nothing", name);
            all.add(traffic.clone());
            prop_assert_eq!(check(topology.clone(), traffic.finish()), Ok(()), "{}", name);
        }
        let all = all.finish();
        // Every message belongs to one pattern, whose list is sorted.
        prop_assert!(all.groups.iter().all(|group| group.messages.is_sorted()));
        let mut of_groups: Vec<u32> = all.groups.iter().flat_map(|group| group.messages.clone()).collect();
        of_groups.sort_unstable();
        prop_assert!(of_groups.into_iter().eq(0..u32::try_from(all.messages.len()).unwrap()));
        prop_assert_eq!(check(topology, all), Ok(()));
    }

    #[test]
    fn messages_of_a_connection_keep_their_order(seed: u64, racks in 2u32..5, hosts in 2u32..6) {
        let mut traffic = Traffic::default();
        for (name, pattern) in one_of_each(&leaf_spine(racks, hosts), hosts) {
            traffic.add(pattern.traffic(&Class::new(seed, name)).expect("a pattern"));
        }
        let per_connection = |traffic: &Traffic| {
            let mut lists = vec![Vec::new(); traffic.connections.len()];
            traffic.messages.iter().for_each(|m| lists[m.connection as usize].push((m.at, m.amount)));
            lists
        };
        prop_assert_eq!(per_connection(&traffic), per_connection(&traffic.clone().finish()));
    }
}

#[test]
fn a_neighbour_changes_nothing() {
    let topology = leaf_spine(3, 4);
    for (name, pattern) in one_of_each(&topology, 4) {
        let make = || pattern.traffic(&Class::new(7, name)).expect("a pattern");
        let alone = make().finish();
        // All others, some before and some behind.
        let mut together = Traffic::default();
        for (other, pattern) in one_of_each(&topology, 4) {
            if other != name {
                together.add(pattern.traffic(&Class::new(7, other)).expect("a pattern"));
            } else {
                together.add(make());
            }
        }
        let together = together.finish();
        let group = |traffic: &Traffic| sent(traffic, traffic.group(name).expect("its group"));
        assert_eq!(group(&together), group(&alone), "{name}");
    }
}

#[test]
fn the_same_seed_gives_the_same_and_another_seed_another() {
    let topology = leaf_spine(3, 4);
    let make = |seed| {
        let mut traffic = Traffic::default();
        for (name, pattern) in one_of_each(&topology, 4) {
            traffic.add(pattern.traffic(&Class::new(seed, name)).expect("a pattern"));
        }
        traffic.finish()
    };
    assert_eq!(make(7), make(7));
    let (one, other) = (make(7), make(8));
    for name in ["long", "uniform", "poisson", "requests", "permutation", "loop"] {
        let group = |traffic: &Traffic| sent(traffic, traffic.group(name).expect("its group"));
        assert_ne!(group(&one), group(&other), "{name}");
    }
}

/// Rows of a network in which every message takes this long and nothing waits in a queue. Goes through the messages in the plan's
/// order, so it also needs that order to be right.
fn received(traffic: &Traffic, takes: Picos) -> Vec<ReceivedRow> {
    let mut start = Vec::<Picos>::new();
    for (index, message) in (0..).zip(&traffic.messages) {
        let event = |event| match event {
            Event::Received => takes,
            Event::Acknowledged => takes * 2,
        };
        let after = traffic.after.iter().filter(|after| after.then == index);
        let last = after.map(|after| start[after.message as usize] + event(after.event)).max();
        start.push(last.unwrap_or_default() + message.at);
    }
    (0..).zip(start).map(|(message, start)| ReceivedRow { message, at: start + takes }).collect()
}

#[test]
fn collectives_end_after_as_many_steps_as_they_have() {
    let (start, pause, size) = (us(3), us(1), Bytes::new(1_000_000));
    for n in 2..40u32 {
        let hosts: Vec<u32> = (0..n).collect();
        let completion = |pattern: &dyn Pattern| {
            let mut traffic = pattern.traffic(&Class::new(7, "collective")).expect("a pattern");
            // Something else, which goes on for longer.
            let other = AllToAll { hosts: vec![0, 1], size, start: us(10_000) };
            traffic.add(other.traffic(&Class::new(7, "other")).expect("a pattern"));
            let traffic = traffic.finish();
            let rows = received(&traffic, us(10));
            traffic.group("collective").expect("its group").completion_time(&rows)
        };
        let steps = |steps: u32, pauses: u32| Some(us(10) * u64::from(steps) + pause * u64::from(pauses));

        let ring = RingAllReduce { hosts: hosts.clone(), size, start, pause };
        assert_eq!(completion(&ring), steps(2 * (n - 1), 2 * (n - 1) - 1), "ring of {n}");
        // Up, adding up at each host above a leaf, and down again.
        let tree = TreeAllReduce { hosts: hosts.clone(), size, start, pause };
        assert_eq!(completion(&tree), steps(2 * n.ilog2(), n.ilog2()), "tree of {n}");
        let all = AllToAll { hosts, size, start };
        assert_eq!(completion(&all), steps(1, 0), "all-to-all of {n}");
    }
}

#[test]
fn a_closed_loop_takes_turns() {
    let pattern = ClosedLoop {
        ends: vec![(0, 1)],
        size: Bytes::new(1_000),
        count: 4,
        think: us(1_000),
        over: Over::NewConnections,
        start: Picos::ZERO,
        spread: Picos::ZERO,
    };
    let traffic = pattern.traffic(&Class::new(7, "loop")).expect("a pattern").finish();
    // There and back 20 us, and a millisecond to think.
    let at: Vec<Picos> = received(&traffic, us(10)).iter().map(|row| row.at).collect();
    assert_eq!(at, [us(10), us(1_030), us(2_050), us(3_070)]);
}

#[test]
fn vai_sf_has_as_many_flows_as_its_load_says() {
    // VAI + SF section VI-A: Hadoop at 50 % of 320 hosts with 100 Gbps for 50 ms: 8.3 x 10^5 flows.
    let topology = Topology::vai_sf_fat_tree();
    let sizes = SizeDistribution::named("fb-hadoop-hpcc").expect("a workload");
    let expected = 0.5 * 320.0 * 100e9 * 0.05 / 8.0 / sizes.mean();
    let flows = PoissonFlows {
        racks: Racks::of(&topology),
        destinations: Destinations::OtherHosts,
        sizes,
        load: Fraction::ratio(1, 2),
        capacity: BitRate::from_gbps(100),
        start: Picos::ZERO,
        until: us(50_000),
    };
    let traffic = flows.traffic(&Class::new(7, "hadoop")).expect("a pattern").finish();
    let count = traffic.messages.len() as f64;
    assert!((count - expected).abs() < 5.0 * expected.sqrt(), "{count} of {expected}");
    assert_eq!(check(topology, traffic), Ok(()));
}
