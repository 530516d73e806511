//! Checks that patterns generate valid plans, do not depend on other patterns, and finish at the expected time.

use poseidon_laws::AnyParams;
use poseidon_plan::patterns::{
    ALGORITHMS, Algorithm, ClosedLoop, Collective, ConnectionReuse, Destinations, FlowList, Group, Incast,
    LongFlows, PairConnections, Pattern, Permutation, Phases, PoissonFlows, Racks, Requests, RotatingIncast,
    SizeDistribution, Stagger, Traffic, TrafficClass, UniformRandom,
};
use poseidon_plan::records::ReceivedRow;
use poseidon_plan::switch::{AnyBufferPolicy, AnyMarkPolicy, MarkDirection, Pause, Stamp, Switch};
use poseidon_plan::topology::{Link, Tiers, Topology};
use poseidon_plan::traffic::{Amount, Event, Message};
use poseidon_plan::transport::{Acks, AnyPathPolicy, Echo, Eligibility, PathFilter, Recovery, Transport};
use poseidon_plan::{Plan, PlanError};
use poseidon_types::{BitRate, Bytes, Fraction, HostId, JoinId, MessageId, Nanos, Picos, Signals};
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
            trim: None,
            pause: Pause::Off,
            mark: AnyMarkPolicy::from_name("off").expect("the policy exists"),
            mark_host_links: true,
            mark_direction: MarkDirection::Forward,
            stamp: Stamp::Off,
        },
        telemetry_off: Vec::new(),
        switch_overrides: Vec::new(),
        slow_ports: Vec::new(),
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
            load_balancing: AnyPathPolicy::ECMP,
            plb: None,
            coexistence: false,
            credits: None,
            path_filter: PathFilter::Each,
        },
        laws: vec![AnyParams::for_law("fixed").expect("the law exists")],
        stacks: Vec::new(),
        connections: traffic.connections,
        messages: traffic.messages,
        dependencies: traffic.dependencies,
        joins: traffic.joins,
        rings: traffic.rings,
        link_changes: Vec::new(),
        link_impairments: Vec::new(),
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
    let mut patterns: Vec<(&'static str, Box<dyn Pattern>)> = vec![
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
                last_size: None,
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
                senders: None,
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
            Box::new(Requests {
                clients: all.clone(),
                racks,
                servers: None,
                fan: hosts,
                size,
                every: us(90),
                start,
                until,
            }),
        ),
        (
            "permutation",
            Box::new(Permutation { hosts: all.clone(), receivers: None, amount: Amount::ENDLESS, start }),
        ),
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
    ];
    for algorithm in ALGORITHMS.iter().filter(|algorithm| supports(algorithm, all.len())) {
        let collective = Collective {
            channels: 2,
            chunk: Some(Bytes::new(2_000)),
            repetitions: 2,
            compute_gap: us(7),
            start,
            ranks_per_server: (algorithm.name == "hierarchical-all-reduce").then_some(hosts),
            matrix: (algorithm.name == "all-to-allv").then(|| vec![vec![size; all.len()]; all.len()]),
            ..Collective::new(algorithm, all.clone(), size)
        };
        patterns.push((algorithm.name, Box::new(collective)));
    }
    patterns
}

/// Returns whether an algorithm supports this number of ranks.
fn supports(algorithm: &Algorithm, ranks: usize) -> bool {
    !algorithm.name.contains("doubling") || ranks.is_power_of_two()
}

/// A message without its IDs: sender, receiver, entropy, start time, amount and number of dependencies and joins.
type MessageContent = (HostId, HostId, u32, Picos, Amount, usize);

/// Returns the contents of a group's messages, without their IDs.
fn group_contents(traffic: &Traffic, group: &Group) -> Vec<MessageContent> {
    let mut dependencies = vec![0; traffic.messages.len()];
    traffic.dependencies.iter().for_each(|dependency| dependencies[dependency.dependent.index()] += 1);
    traffic.joins.dependents.iter().for_each(|dependent| dependencies[dependent.message.index()] += 1);
    let content = |id: &MessageId| {
        let Message { connection, start, amount } = traffic.messages[id.index()];
        let connection = traffic.connections[connection.index()];
        let dependencies = dependencies[id.index()];
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
    let delay = |event| match event {
        Event::Received => duration,
        Event::Acknowledged => duration * 2,
    };
    // The time at which each message and each join is ready, given the messages so far.
    let mut ready = vec![Picos::ZERO; traffic.messages.len()];
    let mut joined = traffic.joins.delays.clone();
    let mut rows = Vec::new();
    for (index, message) in traffic.messages.iter().enumerate() {
        let id = MessageId::from_index(index);
        let joins = traffic.joins.dependents.iter().filter(|dependent| dependent.message == id);
        let start = joins.map(|dependent| joined[dependent.join.index()]).fold(ready[index], Picos::max)
            + message.start;
        for dependency in traffic.dependencies.iter().filter(|d| d.prerequisite == id) {
            let ready = &mut ready[dependency.dependent.index()];
            *ready = (start + delay(dependency.event)).max(*ready);
        }
        for event in [Event::Received, Event::Acknowledged] {
            for join in traffic.joins.waiting_for(id, event) {
                let complete = start + delay(event) + traffic.joins.delays[join.index()];
                joined[join.index()] = complete.max(joined[join.index()]);
            }
        }
        rows.push(ReceivedRow { message: id, time: start + duration });
    }
    rows
}

#[test]
fn collectives_take_the_expected_number_of_steps() {
    let (start, size) = (us(3), Bytes::new(1_000_000));
    for n in [2, 3, 4, 7, 8, 16, 20] {
        let hosts: Vec<HostId> = (0..n).map(HostId::new).collect();
        let pattern = |name: &str| {
            let algorithm = Algorithm::from_name(name).expect("the algorithm exists");
            Collective { start, ..Collective::new(algorithm, hosts.clone(), size) }
        };
        let completion = |collective: &Collective| {
            let mut traffic =
                collective.generate(&TrafficClass::new(7, "collective")).expect("the pattern is valid");
            // Add unrelated traffic that ends later.
            let other = Collective { start: us(10_000), ..pattern("all-to-all") };
            traffic.merge(other.generate(&TrafficClass::new(7, "other")).expect("the pattern is valid"));
            let traffic = traffic.into_plan_order();
            let rows = received_rows(&traffic, us(10));
            traffic.group("collective").expect("the group exists").completion_time(&rows)
        };
        let steps = |steps: u32| Some(us(10) * u64::from(steps));
        assert_eq!(completion(&pattern("ring-all-reduce")), steps(2 * (n - 1)), "ring of {n}");
        assert_eq!(completion(&pattern("broadcast-tree")), steps(n.ilog2()), "tree of {n}");
        assert_eq!(completion(&pattern("all-to-all")), steps(1), "all-to-all of {n}");
        assert_eq!(completion(&pattern("direct-all-reduce")), steps(2), "direct all-reduce of {n}");
        // Each repetition takes as long as the first. A computation precedes all repetitions except the first.
        let repeated = Collective { repetitions: 4, compute_gap: us(7), ..pattern("direct-all-reduce") };
        assert_eq!(completion(&repeated), Some(us(4 * 20 + 3 * 7)), "repeated all-reduce of {n}");
    }
}

#[test]
fn rank_starts_its_next_repetition_after_its_own_compute_gap() {
    // Each message takes 10 us. Rank 0 of the chain receives nothing, so it waits 20 us for its acknowledgment and
    // computes for 5 us. Rank 1 receives the first repetition at 10 us, computes until 15 us and receives the second
    // repetition at 35 us. Rank 2 receives the repetitions at 20 us and 45 us.
    let chain = Algorithm::from_name("broadcast-chain").expect("the algorithm exists");
    let ranks = (0..3).map(HostId::new).collect();
    let chain =
        Collective { repetitions: 2, compute_gap: us(5), ..Collective::new(chain, ranks, Bytes::new(1)) };
    let arrivals = |collective: &Collective| {
        let traffic = collective.generate(&TrafficClass::new(7, "chain")).expect("the pattern is valid");
        let rows = received_rows(&traffic.into_plan_order(), us(10));
        rows.iter().map(|row| row.time).collect::<Vec<_>>()
    };
    assert_eq!(arrivals(&chain), [us(10), us(20), us(35), us(45)]);
    // A computation of 100 us begins at rank 1 at 10 us and ends at 110 us, before data arrives at 130 us.
    let slow = Collective { compute_gap: us(100), ..chain };
    assert_eq!(arrivals(&slow), [us(10), us(20), us(130), us(140)]);
}

#[test]
fn invalid_joins_are_rejected() {
    let ring = Algorithm::from_name("ring-all-gather").expect("the algorithm exists");
    let ranks = (0..3).map(HostId::new).collect();
    let ring = Collective { repetitions: 2, ..Collective::new(ring, ranks, Bytes::new(300)) };
    let valid = ring.generate(&TrafficClass::new(7, "ring")).expect("the pattern is valid").into_plan_order();
    let check_changed = |change: &dyn Fn(&mut Traffic)| {
        let mut traffic = valid.clone();
        change(&mut traffic);
        check(leaf_spine(2, 2), traffic)
    };
    assert_eq!(check_changed(&|_| {}), Ok(()));
    // Rank 0 receives messages 2 and 5 of the first repetition and sends messages 6 and 9 of the second.
    let events = valid.joins.prerequisites.iter().filter(|event| event.join == JoinId::new(0));
    assert_eq!(events.map(|event| event.message.get()).collect::<Vec<_>>(), [2, 5]);
    assert_eq!(valid.joins.dependents_of(JoinId::new(0)).map(MessageId::get).collect::<Vec<_>>(), [6, 9]);
    let error =
        |change: &dyn Fn(&mut Traffic)| check_changed(change).expect_err("the joins are invalid").to_string();
    assert_eq!(
        error(&|t| t.joins.prerequisites[0].join = JoinId::new(3)),
        "join 3: the join or a message that it waits for does not exist"
    );
    assert_eq!(
        error(&|t| t.joins.prerequisites[5].message = MessageId::new(12)),
        "join 0: the join or a message that it waits for does not exist"
    );
    assert_eq!(
        error(&|t| t.joins.dependents[5].message = MessageId::new(12)),
        "join 2: the join or a message that waits for it does not exist, or the join has no events"
    );
    assert_eq!(
        error(&|t| t.joins.prerequisites.clear()),
        "join 0: the join or a message that waits for it does not exist, or the join has no events"
    );
    let elsewhere = |t: &mut Traffic| {
        t.joins.prerequisites.iter_mut().find(|event| event.message.get() == 2).expect("it exists").message =
            MessageId::new(1);
    };
    assert_eq!(error(&elsewhere), "join 0: it waits for events at different hosts");
    assert_eq!(
        error(&|t| t.joins.dependents[0].message = MessageId::new(3)),
        "join 0: a message can only wait for messages that come earlier in the plan"
    );
    assert_eq!(
        error(&|t| t.joins.dependents[1].message = MessageId::new(7)),
        "join 0: its events do not happen at the sender of the waiting message"
    );
    assert_eq!(
        error(&|t| t.joins.dependents.swap(0, 1)),
        "the prerequisites and dependents of joins must be sorted"
    );
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
        senders: None,
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
