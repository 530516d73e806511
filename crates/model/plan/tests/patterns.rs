//! Checks that patterns generate valid plans, do not depend on other patterns, and finish at the expected time.

use poseidon_laws::AnyParams;
use poseidon_plan::patterns::{
    AllToAll, ClosedLoop, ConnectionReuse, Destinations, FlowList, Group, Incast, LongFlows, PairConnections,
    Pattern, Permutation, Phases, PoissonFlows, Racks, Requests, RingAllReduce, RotatingIncast,
    SizeDistribution, Stagger, Traffic, TrafficClass, TreeAllReduce, UniformRandom,
};
use poseidon_plan::records::ReceivedRow;
use poseidon_plan::switch::{AnyBufferPolicy, AnyMarkPolicy, MarkDirection, Pause, Stamp, Switch};
use poseidon_plan::topology::{Link, Tiers, Topology};
use poseidon_plan::traffic::{Amount, Event, Message};
use poseidon_plan::transport::{Acks, Echo, Eligibility, LoadBalancing, Recovery, Transport};
use poseidon_plan::{Plan, PlanError};
use poseidon_types::{BitRate, Bytes, Fraction, HostId, MessageId, Nanos, Picos, Signals};
use proptest::prelude::*;

const LINK: Link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };

fn us(us: u64) -> Picos {
    Picos::from_nanos(Nanos::from_micros(us))
}

/// Returns a leaf-spine network with two aggregation switches.
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

/// Builds a plan with this traffic and checks it.
fn check(topology: Topology, traffic: Traffic) -> Result<(), PlanError> {
    let plan = Plan {
        seed: 7,
        stop: us(100_000),
        topology,
        switch: Switch {
            pipeline: Picos::new(600_000),
            priorities: 2,
            buffer: AnyBufferPolicy::from_name("shared").expect("the policy exists"),
            pause: Pause::Off,
            mark: AnyMarkPolicy::from_name("off").expect("the policy exists"),
            mark_direction: MarkDirection::Forward,
            stamp: Stamp::Off,
        },
        telemetry_off: Vec::new(),
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
            load_balancing: LoadBalancing::PerFlow,
            plb: None,
            coexistence: false,
        },
        laws: vec![AnyParams::for_law("fixed").expect("the law exists")],
        connections: traffic.connections,
        messages: traffic.messages,
        dependencies: traffic.dependencies,
        link_changes: Vec::new(),
        sample_every: Picos::ZERO,
        watched_ports: Vec::new(),
        watched_connections: Vec::new(),
        log_decisions: false,
    };
    plan.check(Signals::ALL)
}

/// Returns one pattern of each type, for racks with this many hosts.
fn all_patterns(topology: &Topology, hosts: u32) -> Vec<(&'static str, Box<dyn Pattern>)> {
    let racks = Racks::new(topology);
    let all: Vec<HostId> = topology.host_ids().collect();
    let (first, second): (Vec<HostId>, Vec<HostId>) = (racks.hosts(0).collect(), racks.hosts(1).collect());
    let pairs: Vec<(HostId, HostId)> = first.iter().copied().zip(second.iter().copied()).collect();
    let (size, start, until) = (Bytes::new(10_007), us(3), us(200));
    let list = "h0 h1 1 MB 5 us\n h1 h0 3 B 2 us 1";
    vec![
        ("long", Box::new(LongFlows { ends: pairs.clone(), start, spread: us(2), stop: until })),
        ("phases", Box::new(Phases::joining_and_leaving(&pairs, 2, start, us(20)))),
        (
            "incast",
            Box::new(Incast {
                senders: second.clone(),
                target: HostId::new(0),
                amount: Amount::Exactly(size),
                start,
                stagger: Stagger { group_size: 2, interval: us(20) },
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
                connections: PairConnections::PerPair,
                start,
                until,
            }),
        ),
        (
            "poisson",
            Box::new(PoissonFlows {
                racks: racks.clone(),
                destinations: Destinations::OtherRacks,
                sizes: SizeDistribution::named("alistorage2019").expect("the workload exists"),
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
                connections: ConnectionReuse::OneConnection,
                start,
                spread: us(9),
            }),
        ),
        ("list", Box::new(FlowList::parse(list).expect("the list is valid"))),
    ]
}

/// A message without its IDs: sender, receiver, entropy, start time, amount and number of dependencies.
type MessageContent = (HostId, HostId, u32, Picos, Amount, usize);

/// Returns the contents of a group's messages, without their IDs.
fn group_contents(traffic: &Traffic, group: &Group) -> Vec<MessageContent> {
    let content = |id: &MessageId| {
        let Message { connection, start, amount } = traffic.messages[id.index()];
        let connection = traffic.connections[connection.index()];
        let dependencies = traffic.dependencies.iter().filter(|d| d.dependent == *id).count();
        (connection.from, connection.to, connection.entropy, start, amount, dependencies)
    };
    group.messages.iter().map(content).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn single_and_merged_patterns_pass_the_plan_check(
        seed: u64, racks in 2u32..6, hosts in 2u32..9,
    ) {
        let topology = leaf_spine(racks, hosts);
        let mut all = Traffic::default();
        for (name, pattern) in all_patterns(&topology, hosts) {
            let traffic = pattern.generate(&TrafficClass::new(seed, name)).expect("the pattern is valid");
            prop_assert!(!traffic.messages.is_empty(), "{} sends no messages", name);
            all.merge(traffic.clone());
            prop_assert_eq!(check(topology.clone(), traffic.into_plan_order()), Ok(()), "{}", name);
        }
        let all = all.into_plan_order();
        // Every message belongs to exactly one group, and groups are sorted.
        prop_assert!(all.groups.iter().all(|group| group.messages.is_sorted()));
        let mut grouped: Vec<MessageId> =
            all.groups.iter().flat_map(|group| group.messages.clone()).collect();
        grouped.sort_unstable();
        prop_assert!(grouped.into_iter().eq((0..all.messages.len()).map(MessageId::from_index)));
        prop_assert_eq!(check(topology, all), Ok(()));
    }

    #[test]
    fn messages_of_a_connection_keep_their_order(seed: u64, racks in 2u32..5, hosts in 2u32..6) {
        let mut traffic = Traffic::default();
        for (name, pattern) in all_patterns(&leaf_spine(racks, hosts), hosts) {
            traffic.merge(pattern.generate(&TrafficClass::new(seed, name)).expect("the pattern is valid"));
        }
        let per_connection = |traffic: &Traffic| {
            let mut lists = vec![Vec::new(); traffic.connections.len()];
            traffic.messages.iter().for_each(|m| lists[m.connection.index()].push((m.start, m.amount)));
            lists
        };
        prop_assert_eq!(per_connection(&traffic), per_connection(&traffic.clone().into_plan_order()));
    }
}

#[test]
fn patterns_do_not_affect_each_other() {
    let topology = leaf_spine(3, 4);
    for (name, pattern) in all_patterns(&topology, 4) {
        let generate = || pattern.generate(&TrafficClass::new(7, name)).expect("the pattern is valid");
        let alone = generate().into_plan_order();
        // Merge all patterns, some before this pattern and some after it.
        let mut merged = Traffic::default();
        for (other, pattern) in all_patterns(&topology, 4) {
            if other != name {
                merged.merge(pattern.generate(&TrafficClass::new(7, other)).expect("the pattern is valid"));
            } else {
                merged.merge(generate());
            }
        }
        let merged = merged.into_plan_order();
        let group =
            |traffic: &Traffic| group_contents(traffic, traffic.group(name).expect("the group exists"));
        assert_eq!(group(&merged), group(&alone), "{name}");
    }
}

#[test]
fn random_patterns_depend_on_the_seed() {
    let topology = leaf_spine(3, 4);
    let generate = |seed| {
        let mut traffic = Traffic::default();
        for (name, pattern) in all_patterns(&topology, 4) {
            traffic.merge(pattern.generate(&TrafficClass::new(seed, name)).expect("the pattern is valid"));
        }
        traffic.into_plan_order()
    };
    assert_eq!(generate(7), generate(7));
    let (seed_7, seed_8) = (generate(7), generate(8));
    for name in ["long", "uniform", "poisson", "requests", "permutation", "loop"] {
        let group =
            |traffic: &Traffic| group_contents(traffic, traffic.group(name).expect("the group exists"));
        assert_ne!(group(&seed_7), group(&seed_8), "{name}");
    }
}

/// Returns the rows for a network without queueing, in which every message takes `duration` to arrive.
///
/// This function processes messages in plan order, so the order must be correct.
fn received_rows(traffic: &Traffic, duration: Picos) -> Vec<ReceivedRow> {
    let mut starts = Vec::<Picos>::new();
    for (index, message) in traffic.messages.iter().enumerate() {
        let delay = |event| match event {
            Event::Received => duration,
            Event::Acknowledged => duration * 2,
        };
        let dependencies = traffic.dependencies.iter().filter(|d| d.dependent.index() == index);
        let ready = dependencies.map(|d| starts[d.prerequisite.index()] + delay(d.event)).max();
        starts.push(ready.unwrap_or_default() + message.start);
    }
    let row = |(index, start)| ReceivedRow { message: MessageId::from_index(index), time: start + duration };
    starts.into_iter().enumerate().map(row).collect()
}

#[test]
fn collectives_take_the_expected_number_of_steps() {
    let (start, pause, size) = (us(3), us(1), Bytes::new(1_000_000));
    for n in 2..40u32 {
        let hosts: Vec<HostId> = (0..n).map(HostId::new).collect();
        let completion = |pattern: &dyn Pattern| {
            let mut traffic =
                pattern.generate(&TrafficClass::new(7, "collective")).expect("the pattern is valid");
            // Add unrelated traffic that ends later.
            let other = AllToAll { hosts: hosts[..2].to_vec(), size, start: us(10_000) };
            traffic.merge(other.generate(&TrafficClass::new(7, "other")).expect("the pattern is valid"));
            let traffic = traffic.into_plan_order();
            let rows = received_rows(&traffic, us(10));
            traffic.group("collective").expect("the group exists").completion_time(&rows)
        };
        let steps = |steps: u32, pauses: u32| Some(us(10) * u64::from(steps) + pause * u64::from(pauses));

        let ring = RingAllReduce { hosts: hosts.clone(), size, start, pause };
        assert_eq!(completion(&ring), steps(2 * (n - 1), 2 * (n - 1) - 1), "ring of {n}");
        // The data travels up the tree with a reduction at each inner host, and the result travels back down.
        let tree = TreeAllReduce { hosts: hosts.clone(), size, start, pause };
        assert_eq!(completion(&tree), steps(2 * n.ilog2(), n.ilog2()), "tree of {n}");
        let all = AllToAll { hosts: hosts.clone(), size, start };
        assert_eq!(completion(&all), steps(1, 0), "all-to-all of {n}");
    }
}

#[test]
fn closed_loop_message_starts_after_the_previous_ack_and_the_think_time() {
    let pattern = ClosedLoop {
        ends: vec![(HostId::new(0), HostId::new(1))],
        size: Bytes::new(1_000),
        count: 4,
        think: us(1_000),
        connections: ConnectionReuse::NewConnections,
        start: Picos::ZERO,
        spread: Picos::ZERO,
    };
    let traffic =
        pattern.generate(&TrafficClass::new(7, "loop")).expect("the pattern is valid").into_plan_order();
    // The round trip takes 20 us and the think time is 1 ms.
    let times: Vec<Picos> = received_rows(&traffic, us(10)).iter().map(|row| row.time).collect();
    assert_eq!(times, [us(10), us(1_030), us(2_050), us(3_070)]);
}

#[test]
fn vai_sf_hadoop_has_the_expected_number_of_flows() {
    // VAI + SF section VI-A: 320 hosts with 100 Gbps links at 50 % load send 8.3 x 10^5 flows in 50 ms.
    let topology = Topology::vai_sf_fat_tree();
    let sizes = SizeDistribution::named("fb-hadoop-hpcc").expect("the workload exists");
    let expected = 0.5 * 320.0 * 100e9 * 0.05 / 8.0 / sizes.mean();
    let flows = PoissonFlows {
        racks: Racks::new(&topology),
        destinations: Destinations::OtherHosts,
        sizes,
        load: Fraction::ratio(1, 2),
        capacity: BitRate::from_gbps(100),
        start: Picos::ZERO,
        until: us(50_000),
    };
    let traffic =
        flows.generate(&TrafficClass::new(7, "hadoop")).expect("the pattern is valid").into_plan_order();
    let count = traffic.messages.len() as f64;
    assert!((count - expected).abs() < 5.0 * expected.sqrt(), "{count} instead of {expected}");
    assert_eq!(check(topology, traffic), Ok(()));
}
