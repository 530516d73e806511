//! A ring whose messages are computed when they are due runs exactly like the same ring with a list of messages.

mod common;

use common::{run, us};
use core::num::NonZeroU32;
use poseidon_plan::patterns::{Algorithm, Collective, Pattern, Traffic, TrafficClass, UniformRandom};
use poseidon_plan::patterns::{PairConnections, RankFinish};
use poseidon_plan::records::MemorySink;
use poseidon_plan::rings::{RingProgress, RingTable};
use poseidon_plan::switch::Shared;
use poseidon_plan::topology::{Rails, Tiers};
use poseidon_plan::transport::Acks;
use poseidon_plan::{Backend, Link, Plan, PlanError, Report, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::SplitMix64;
use poseidon_testkit::plans::{self, LINK};
use poseidon_types::{BitRate, Bytes, ConnectionId, Fraction, HostId, MessageId, Nanos, Picos};

/// A row: its times, its connection and the position of its message on this connection.
type PlacedRow = (Picos, Picos, ConnectionId, u32, u64, u32);

/// Returns the connection of each listed message, and its position on this connection.
fn positions(plan: &Plan) -> Vec<(ConnectionId, u32)> {
    let mut next = vec![0; plan.connections.len()];
    let place = |message: &poseidon_plan::traffic::Message| {
        let position = &mut next[message.connection.index()];
        *position += 1;
        (message.connection, *position - 1)
    };
    plan.messages.iter().map(place).collect()
}

/// Returns the rows with connections and positions instead of message numbers, sorted.
fn placed_rows(plan: &Plan, rows: &MemorySink) -> (Vec<PlacedRow>, Vec<PlacedRow>) {
    let listed = positions(plan);
    let rings = RingTable::new(&plan.rings, plan.transport.mtu);
    let place = |message: MessageId| {
        listed.get(message.index()).copied().unwrap_or_else(|| {
            let (ring, place, index) = rings.find_message(message).expect("the message exists");
            (rings.layouts()[ring].ring.connection(place), index)
        })
    };
    let mut messages: Vec<PlacedRow> = (rows.messages.iter())
        .map(|row| {
            let (connection, position) = place(row.message);
            (row.acknowledged, row.start, connection, position, row.size.get(), row.retransmitted)
        })
        .collect();
    let mut received: Vec<PlacedRow> = (rows.received.iter())
        .map(|row| {
            let (connection, position) = place(row.message);
            (row.time, Picos::ZERO, connection, position, 0, 0)
        })
        .collect();
    messages.sort_unstable();
    received.sort_unstable();
    (messages, received)
}

fn leaf_spine(racks: u32, hosts: u32, spines: u32) -> Topology {
    Topology::Tiers(Tiers {
        pods: 1,
        racks,
        hosts,
        aggregation: spines,
        cores: 0,
        host_link: LINK,
        rack_link: LINK,
        core_link: LINK,
    })
}

fn with_traffic(plan: &Plan, traffic: Traffic) -> Plan {
    let traffic = traffic.into_plan_order();
    Plan {
        connections: traffic.connections,
        messages: traffic.messages,
        dependencies: traffic.dependencies,
        joins: traffic.joins,
        rings: traffic.rings,
        ..plan.clone()
    }
}

fn run_on_threads(plan: &Plan, threads: u32) -> (MemorySink, Report) {
    let mut rows = MemorySink::default();
    let threads = NonZeroU32::new(threads).expect("the number is above zero");
    let report = Simulator::with_threads(threads).run(plan, &mut rows).expect("the plan runs");
    (rows, report)
}

fn random_u32(rng: &mut SplitMix64, below: u32) -> u32 {
    u32::try_from(rng.below(below.into())).expect("the number is small")
}

/// Returns a random ring for at most 24 hosts.
fn random_ring(rng: &mut SplitMix64) -> Collective {
    let name = *rng.pick(&["ring-all-reduce", "ring-all-gather", "ring-reduce-scatter"]);
    let ranks_per_server = 1 + random_u32(rng, 4);
    let ranks = ((1 + random_u32(rng, 6)) * ranks_per_server).max(2);
    let uses_servers =
        name == "ring-all-reduce" && ranks.is_multiple_of(ranks_per_server) && rng.below(2) == 0;
    let channels = 1 + random_u32(rng, 3);
    let size = u64::from(ranks * channels) + rng.below(400_000);
    let chunk = (rng.below(2) == 0).then(|| {
        // With chunks of exactly the size of the smaller blocks, the larger blocks need one more message.
        let block = size / u64::from(ranks * channels);
        if rng.below(3) == 0 { block } else { 500 + rng.below(10_000) }
    });
    let algorithm = Algorithm::from_name(name).expect("the algorithm exists");
    Collective {
        channels,
        chunk: chunk.map(Bytes::new),
        repetitions: 1 + random_u32(rng, 3),
        compute_gap: Picos::new(*rng.pick(&[0, 1_000, 3_000_000])),
        ranks_per_server: uses_servers.then_some(ranks_per_server),
        start: us(2),
        ..Collective::new(algorithm, (0..ranks).map(HostId::new).collect(), Bytes::new(size))
    }
}

/// Returns a network of 24 hosts with random settings, so that some runs lose or delay packets.
fn random_network(rng: &mut SplitMix64) -> Plan {
    let rails = Rails {
        servers: 6,
        gpus: 4,
        servers_per_leaf: 2,
        spines: 2,
        local_link: Link { rate: BitRate::from_gbps(3_600), ..LINK },
        rail_link: LINK,
        spine_link: LINK,
    };
    let topology = if rng.below(2) == 0 { Topology::Rails(rails) } else { leaf_spine(6, 4, 2) };
    let law: &&str = rng.pick(&["poseidon", "swift", "fixed"]);
    let mut plan = plans::plan(topology, law, &[]);
    plan.transport.acks = match rng.below(2) {
        0 => Acks::EveryPacket,
        _ => Acks::Coalesced { packets: 4, delay: Nanos::from_micros(2) },
    };
    if rng.below(3) == 0 {
        // A switch with this buffer drops packets.
        plan.switch.buffer = Shared { size: Bytes::new(12_000), alpha: Fraction::ratio(8, 1) }.into();
    }
    plan
}

#[test]
fn compact_ring_runs_like_its_list_of_messages() {
    let (mut lossy, mut repeated, mut uneven) = (0, 0, 0);
    for seed in 0..200 {
        let mut rng = SplitMix64::new(seed);
        let (network, ring) = (random_network(&mut rng), random_ring(&mut rng));
        let class = TrafficClass::new(seed, "ring");
        let expanded = with_traffic(&network, ring.generate_expanded(&class).expect("the pattern is valid"));
        let compact = with_traffic(&network, ring.generate_compact(&class).expect("the pattern is valid"));
        assert!(compact.messages.is_empty() && compact.rings.len() == 1 && expanded.rings.is_empty());
        let (rows, report) = run(&expanded);
        assert_eq!(rows.messages.len(), expanded.messages.len(), "seed {seed}: {report:?}");
        let expected = placed_rows(&expanded, &rows);
        let (compact_rows, compact_report) = run(&compact);
        assert_eq!(compact_report, report, "seed {seed}: {ring:?}");
        assert!(placed_rows(&compact, &compact_rows) == expected, "seed {seed}: the rows differ");
        for threads in [2, 4] {
            let (rows, report) = run_on_threads(&compact, threads);
            assert_eq!(report, compact_report, "seed {seed}, {threads} threads");
            assert!(rows == compact_rows, "seed {seed}, {threads} threads: the rows differ");
        }
        lossy += u32::from(report.dropped > 0);
        repeated += u32::from(ring.repetitions > 1);
        let layouts = RingTable::new(&compact.rings, compact.transport.mtu);
        uneven += u32::from(layouts.layouts()[0].number_count() > layouts.layouts()[0].message_count());
    }
    println!(
        "{lossy} runs drop packets, {repeated} have repetitions, {uneven} have blocks with more messages"
    );
    assert!(
        lossy >= 20 && repeated >= 80 && uneven >= 10,
        "the cases cover losses, repetitions and uneven blocks"
    );
}

#[test]
fn two_rings_and_other_traffic_share_a_plan() {
    let ring = |hosts: core::ops::Range<u32>| {
        let algorithm = Algorithm::from_name("ring-all-reduce").expect("the algorithm exists");
        let ranks = hosts.map(HostId::new).collect();
        Collective { repetitions: 2, start: us(1), ..Collective::new(algorithm, ranks, Bytes::new(60_000)) }
    };
    let other = UniformRandom {
        from: (12..18).map(HostId::new).collect(),
        to: (18..24).map(HostId::new).collect(),
        size: Bytes::new(9_000),
        rate: BitRate::from_gbps(20),
        connections: PairConnections::PerPair,
        start: Picos::ZERO,
        until: us(50),
    };
    let network = plans::plan(leaf_spine(6, 4, 2), "poseidon", &[]);
    let generate = |generate: &dyn Fn(&Collective, &TrafficClass) -> Traffic| {
        let mut traffic = generate(&ring(0..5), &TrafficClass::new(1, "first"));
        traffic.merge(other.generate(&TrafficClass::new(1, "other")).expect("the pattern is valid"));
        traffic.merge(generate(&ring(5..12), &TrafficClass::new(1, "second")));
        with_traffic(&network, traffic)
    };
    let expanded = generate(&|ring, class| ring.generate_expanded(class).expect("the pattern is valid"));
    let compact = generate(&|ring, class| ring.generate_compact(class).expect("the pattern is valid"));
    assert_eq!(compact.rings.len(), 2);
    let ((rows, report), (compact_rows, compact_report)) = (run(&expanded), run(&compact));
    assert_eq!(rows.messages.len(), expanded.messages.len(), "{report:?}");
    assert_eq!(compact_report, report);
    assert!(placed_rows(&compact, &compact_rows) == placed_rows(&expanded, &rows), "the rows differ");
}

#[test]
fn rows_of_a_compact_ring_give_the_finish_of_each_rank() {
    let algorithm = Algorithm::from_name("ring-all-gather").expect("the algorithm exists");
    let ranks = (0..8).map(HostId::new).collect();
    let ring = Collective {
        repetitions: 3,
        compute_gap: us(4),
        channels: 2,
        ..Collective::new(algorithm, ranks, Bytes::new(100_000))
    };
    let class = TrafficClass::new(1, "ring");
    let network = plans::plan(leaf_spine(2, 4, 1), "poseidon", &[]);
    let traffic = ring.generate_expanded(&class).expect("the pattern is valid").into_plan_order();
    let expanded = with_traffic(&network, traffic.clone());
    let (rows, _) = run(&expanded);
    let arrival = |message| rows.received.iter().find(|row| row.message == message).map(|row| row.time);
    let expected = traffic.collectives[0].repetition_times(&traffic.groups[0], |_| None, arrival);
    let compact = with_traffic(&network, ring.generate_compact(&class).expect("the pattern is valid"));
    let (rows, _) = run(&compact);
    let table = RingTable::new(&compact.rings, compact.transport.mtu);
    let layout = &table.layouts()[0];
    let mut progress = RingProgress::new(layout);
    let mut finishes = 0;
    for row in &rows.received {
        let (place, _) = layout.find_message(row.message).expect("the message exists");
        let event = progress.on_received(layout, place);
        if event.finishes_repetition {
            let times = &expected[event.repetition as usize];
            assert_eq!(times.ranks[event.rank as usize], RankFinish::At(row.time));
            progress.start_repetition(layout, event.rank);
            finishes += 1;
        }
    }
    assert_eq!(finishes, 3 * 8);
}

#[test]
fn invalid_rings_are_rejected() {
    let algorithm = Algorithm::from_name("ring-all-reduce").expect("the algorithm exists");
    let ring = Collective::new(algorithm, (0..4).map(HostId::new).collect(), Bytes::new(4_000));
    let ring = Collective { channels: 2, ranks_per_server: Some(2), ..ring };
    let network = plans::plan(Topology::star(5, LINK), "poseidon", &[]);
    let traffic = ring.generate_compact(&TrafficClass::new(1, "ring")).expect("the pattern is valid");
    let valid = with_traffic(&network, traffic);
    let error = |change: &dyn Fn(&mut Plan)| {
        let mut plan = valid.clone();
        change(&mut plan);
        match Simulator::default().run(&plan, &mut MemorySink::default()) {
            Err(PlanError::Ring { index: 0, reason }) => reason,
            other => panic!("expected an error: {other:?}"),
        }
    };
    let reasons = [
        error(&|plan| plan.rings[0].ranks = 1),
        error(&|plan| plan.rings[0].channels = 0),
        error(&|plan| plan.rings[0].channels = 3),
        error(&|plan| plan.rings[0].ranks_per_server = 3),
        error(&|plan| plan.rings[0].ranks_per_server = 1),
        error(&|plan| plan.rings[0].steps = 0),
        error(&|plan| plan.rings[0].repetitions = u32::MAX),
        error(&|plan| plan.rings[0].lag = 2),
        error(&|plan| plan.rings[0].chunk = Some(Bytes::ZERO)),
        error(&|plan| plan.rings[0].size = Bytes::new(7)),
        error(&|plan| plan.rings[0].size = Bytes::MAX),
        error(&|plan| plan.rings[0].first_message = MessageId::new(1)),
        error(&|plan| plan.connections[1].to = HostId::new(4)),
        error(&|plan| {
            plan.messages.push(poseidon_plan::traffic::Message {
                connection: ConnectionId::new(3),
                start: Picos::ZERO,
                amount: poseidon_plan::traffic::Amount::Exactly(Bytes::new(1)),
            });
            plan.rings[0].first_message = MessageId::new(1);
        }),
    ];
    println!("{reasons:#?}");
    let mut distinct = reasons.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(distinct.len() >= 11, "the reasons differ: {distinct:?}");
}
