//! Checks that collectives on a star take the time of the closed form. Without contention, the times match to the
//! picosecond.
//!
//! Every host has one link to the switch. A packet takes `k` on each link, and an ACK takes `a`. A link has the delay
//! `d`, and the switch has the pipeline delay `p`. A message of `P` full packets arrives after
//!
//! ```text
//! T(P) = P k + d + p + k + d
//! ```
//!
//! because the first link sends `P` packets back to back, and the second link sends the last packet when it has
//! received this packet. The last packet can be shorter and take `l` < `k`. The second link then sends it when it has
//! sent the last but one packet, so `T(P) = P k + l + 2 d + p` for `P > 1`, and `T(1) = 2 l + 2 d + p`.
//!
//! The window never limits the sender. Hosts send one ACK per message, because ACKs are coalesced. A host that receives
//! a message sends the ACK first and then the message that waited for it, so a chain of `s` dependent messages takes
//!
//! ```text
//! s T(P) + (s - 1) a
//! ```
//!
//! The ACK does not delay data at the switch: it is there `k - a` earlier than the first packet of the next message.

mod common;

use common::{run, us};
use poseidon_plan::patterns::{Algorithm, Collective, Pattern, RepetitionTimes, Traffic, TrafficClass};
use poseidon_plan::traffic::Event;
use poseidon_plan::transport::Acks;
use poseidon_plan::{Plan, Topology};
use poseidon_testkit::plans::{self, LINK};
use poseidon_types::{Bytes, HostId, Nanos, Picos};

const MTU: u64 = 4_096;

fn collective(name: &str, n: u32, size: u64) -> Collective {
    let algorithm = Algorithm::from_name(name).expect("the algorithm exists");
    let ranks = (0..n).map(HostId::new).collect();
    Collective { start: us(3), ..Collective::new(algorithm, ranks, Bytes::new(size)) }
}

fn generate(collective: &Collective) -> Traffic {
    collective.generate(&TrafficClass::new(1, "collective")).expect("the pattern is valid")
}

/// Returns the plan of a star whose hosts run a collective without limits by the law.
fn plan_of(collective: &Collective) -> (Plan, Vec<RepetitionTimes>) {
    run_traffic(collective, generate(collective), false)
}

/// Runs the traffic of a collective. `acks_first` puts ACKs into a queue of their own, which is served first.
fn run_traffic(
    collective: &Collective,
    mut traffic: Traffic,
    acks_first: bool,
) -> (Plan, Vec<RepetitionTimes>) {
    traffic.connections.iter_mut().for_each(|connection| connection.priority = u8::from(acks_first));
    let traffic = traffic.into_plan_order();
    let hosts = u32::try_from(collective.ranks.len()).expect("the number is small");
    let mut plan = plans::plan(Topology::star(hosts, LINK), "fixed", &[]);
    plan.laws[0].set("window", "32768 packets").expect("the value is valid");
    plan.stop = us(1_000_000);
    plan.transport.acks = Acks::Coalesced { packets: u32::MAX, delay: Nanos::from_millis(900) };
    if acks_first {
        plan.switch.priorities = 2;
        plan.transport.ack_priority = Some(0);
    }
    plan.transport.min_rto = Nanos::from_millis(900);
    plan.transport.first_rto = Nanos::from_millis(900);
    (plan.connections, plan.messages) = (traffic.connections, traffic.messages);
    (plan.dependencies, plan.joins) = (traffic.dependencies, traffic.joins);
    let (rows, report) = run(&plan);
    assert_eq!((report.dropped, report.retransmitted), (0, 0));
    let (mut starts, mut arrivals) = (vec![None; plan.messages.len()], vec![None; plan.messages.len()]);
    rows.messages.iter().for_each(|row| starts[row.message.index()] = Some(row.start));
    rows.received.iter().for_each(|row| arrivals[row.message.index()] = Some(row.time));
    let times = traffic.collectives[0].repetition_times(
        &traffic.groups[0],
        |message| starts[message.index()],
        |message| arrivals[message.index()],
    );
    (plan, times)
}

/// Returns the duration of a collective's only repetition.
fn duration(collective: &Collective) -> (Plan, Picos) {
    let (plan, times) = plan_of(collective);
    (plan, times[0].duration().expect("the collective finishes"))
}

/// Returns the time `k` that a full packet takes on a link.
fn packet_time(plan: &Plan) -> Picos {
    LINK.rate.send_time_ceil(plan.data_size())
}

/// Returns the time `a` that an ACK takes on a link.
fn ack_time(plan: &Plan) -> Picos {
    LINK.rate.send_time_ceil(plan.ack_size())
}

/// Returns the time `T` until a message arrives.
fn transfer_time(plan: &Plan, size: u64) -> Picos {
    let packets = size.div_ceil(MTU);
    let last_size = Bytes::new(size - (packets - 1) * MTU) + plan.data_overhead();
    let last = LINK.rate.send_time_ceil(last_size);
    let links = if packets == 1 { last * 2 } else { packet_time(plan) * packets + last };
    links + LINK.delay * 2 + plan.switch.pipeline
}

/// Returns the time of a chain of dependent messages with these sizes.
fn chain_time(plan: &Plan, sizes: impl IntoIterator<Item = u64>) -> Picos {
    let times: Vec<Picos> = sizes.into_iter().map(|size| transfer_time(plan, size)).collect();
    let acks = ack_time(plan) * (times.len() as u64 - 1);
    times.into_iter().sum::<Picos>() + acks
}

/// Block sizes: one short packet, one full packet, several full packets, and several packets with a short one.
const BLOCKS: [u64; 4] = [100, MTU, 10 * MTU, 10 * MTU + 1_000];

fn repeat(size: u64, count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |_| size)
}

#[test]
fn rings_match_the_closed_form() {
    for n in [2, 3, 5, 8] {
        for block in BLOCKS {
            let hops = u64::from(n) - 1;
            let size = block * u64::from(n);
            for (name, steps) in
                [("ring-all-reduce", 2 * hops), ("ring-all-gather", hops), ("ring-reduce-scatter", hops)]
            {
                let (plan, duration) = duration(&collective(name, n, size));
                assert_eq!(
                    duration,
                    chain_time(&plan, repeat(block, steps)),
                    "{name}: {n} blocks of {block} B"
                );
            }
        }
    }
}

#[test]
fn recursive_doubling_and_halving_match_the_closed_form() {
    for n in [2u32, 4, 8, 16] {
        for block in BLOCKS {
            let steps = u64::from(n.ilog2());
            let (plan, time) = duration(&collective("recursive-doubling-all-reduce", n, block));
            assert_eq!(time, chain_time(&plan, repeat(block, steps)), "{n} ranks, {block} B");
            // The steps exchange 1/2, 1/4, ... of the data, and then the same sizes in the reverse order.
            let size = block * u64::from(n);
            let (plan, time) = duration(&collective("halving-doubling-all-reduce", n, size));
            let halves = (1..=steps).map(|step| size >> step);
            let expected = chain_time(&plan, halves.clone().chain(halves));
            assert_eq!(time, expected, "{n} blocks of {block} B");
        }
    }
}

#[test]
fn hierarchical_all_reduce_matches_the_closed_form() {
    for (servers, local) in [(2, 2), (4, 2), (3, 4), (1, 4), (4, 1)] {
        for block in BLOCKS {
            let ranks = servers * local;
            let hierarchical = Collective {
                ranks_per_server: Some(local),
                ..collective("hierarchical-all-reduce", ranks, block * u64::from(ranks))
            };
            let (plan, time) = duration(&hierarchical);
            let (in_server, in_rail) = (u64::from(local) - 1, 2 * (u64::from(servers) - 1));
            let server_block = block * u64::from(servers);
            let steps = repeat(server_block, in_server)
                .chain(repeat(block, in_rail))
                .chain(repeat(server_block, in_server));
            assert_eq!(time, chain_time(&plan, steps), "{servers} servers of {local} ranks, {block} B");
        }
    }
}

#[test]
fn pipeline_with_a_backward_pass_matches_the_closed_form() {
    for n in [2, 3, 6] {
        for size in BLOCKS {
            let (plan, duration) = duration(&collective("pipeline-forward-backward", n, size));
            let expected = chain_time(&plan, repeat(size, 2 * (u64::from(n) - 1)));
            assert_eq!(duration, expected, "{n} stages, {size} B");
        }
    }
}

#[test]
fn chain_without_chunks_matches_the_closed_form() {
    for n in [2, 3, 6] {
        for size in BLOCKS {
            for name in ["broadcast-chain", "pipeline-forward"] {
                let (plan, duration) = duration(&collective(name, n, size));
                assert_eq!(
                    duration,
                    chain_time(&plan, repeat(size, u64::from(n) - 1)),
                    "{name}: {n}, {size} B"
                );
            }
        }
    }
}

/// A chain whose chunks are single packets.
///
/// The first rank sends a packet every `k`. Each rank in the middle sends an ACK and a packet every `k + a`, and it
/// always has the next packet when the previous one has left. The last of `c` packets therefore leaves the second rank
/// `(c - 1) (k + a)` after the first packet, and this delay does not grow along the chain. The first packet takes
/// `T(1)` per link, and `a` per rank in the middle.
///
/// Two conditions are necessary:
///
/// - A packet at the second rank waits less than `k`, so its ACK does not overtake the previous packet: `c a < k`.
/// - At the switch, an ACK arrives while it sends a data packet, and it is sent in the gap `a` after this packet. The
///   ACK arrives `k + 4 d + 2 p` (modulo the period) after the switch begins to send a packet.
#[test]
fn pipelined_chain_matches_the_closed_form() {
    for (n, chunks) in [(2u32, 30), (3, 1), (3, 30), (4, 2), (6, 30), (8, 17)] {
        let chain =
            Collective { chunk: Some(Bytes::new(MTU)), ..collective("broadcast-chain", n, chunks * MTU) };
        let (plan, duration) = duration(&chain);
        let (k, a) = (packet_time(&plan), ack_time(&plan));
        let phase = (k + LINK.delay * 4 + plan.switch.pipeline * 2).get() % (k + a).get();
        assert!(a * chunks < k && phase > 0 && phase <= k.get(), "the conditions hold");
        let period = if n == 2 { k } else { k + a };
        let first = chain_time(&plan, repeat(MTU, u64::from(n) - 1));
        assert_eq!(duration, first + period * (chunks - 1), "{n} ranks, {chunks} chunks");
    }
}

#[test]
fn repetitions_are_separated_by_the_compute_gap() {
    // The gap is longer than an ACK, so that all repetitions take the same time.
    let (repetitions, compute_gap) = (4, us(5));
    for name in ["ring-all-reduce", "recursive-doubling-all-reduce", "halving-doubling-all-reduce"] {
        let once = collective(name, 8, 8 * 10_000);
        let (_, time) = duration(&once);
        let (_, times) = plan_of(&Collective { repetitions, compute_gap, ..once });
        let mut start = us(3);
        for repetition in &times {
            assert_eq!((repetition.start, repetition.duration()), (Some(start), Some(time)), "{name}");
            start = start + time + compute_gap;
        }
        assert_eq!(times.len(), 4);
    }
}

/// A direct all-reduce whose messages are single packets, which take `l`.
///
/// In each half, every host sends `n - 1` packets to different hosts. Packets that the hosts send at the same time have
/// different receivers, so they never meet. The last packet arrives after `T(1) + (n - 2) l`. All packets have left
/// before the first one arrives, so ACKs delay no data, except the last ACK of the first half.
#[test]
fn direct_all_reduce_of_single_packets_matches_the_closed_form() {
    let size = 100;
    // With more than nine ranks, the messages of the second half wait for a join.
    for (n, repetitions) in [(2, 2), (4, 1), (12, 1), (12, 3), (32, 2)] {
        let direct = Collective {
            repetitions,
            compute_gap: us(2),
            ..collective("direct-all-reduce", n, u64::from(n) * size)
        };
        let (plan, times) = plan_of(&direct);
        assert_eq!(plan.joins.delays.iter().any(|delay| delay.is_zero()), n > 9);
        let packet = LINK.rate.send_time_ceil(Bytes::new(size) + plan.data_overhead());
        assert!(packet * (u64::from(n) - 1) < transfer_time(&plan, size), "the condition holds");
        let half = transfer_time(&plan, size) + packet * (u64::from(n) - 2);
        let expected = half * 2 + ack_time(&plan);
        let mut start = us(3);
        for repetition in &times {
            assert_eq!((repetition.start, repetition.duration()), (Some(start), Some(expected)), "{n} ranks");
            start = start + expected + us(2);
        }
    }
}

/// Returns an all-to-allv with these numbers of full packets.
fn all_to_allv(packets: &[&[u64]]) -> Collective {
    let n = u32::try_from(packets.len()).expect("the matrix is small");
    let row = |row: &&[u64]| row.iter().map(|packets| Bytes::new(packets * MTU)).collect();
    Collective { matrix: Some(packets.iter().map(row).collect()), ..collective("all-to-allv", n, 0) }
}

/// All-to-allv whose largest row or column determines the time.
///
/// - A rank that sends `N` packets alone sends them back to back. The last one arrives after `T(N)`.
/// - Several ranks send `N` packets to one rank. Its link is busy from the arrival of the first packet until the last
///   packet has left, so the last packet also arrives after `T(N)`.
///
/// The diagonal stays at its rank and takes no time. No rank both sends and receives, so ACKs delay no data.
#[test]
fn all_to_allv_matches_the_closed_form() {
    let cases: [(&[&[u64]], u64); 4] = [
        (&[&[9, 5, 11, 300], &[0, 0, 0, 0], &[0, 0, 8, 0], &[0, 0, 0, 0]], 316),
        (&[&[0, 0, 0, 40], &[0, 0, 0, 7], &[0, 0, 0, 100], &[0, 0, 0, 55]], 147),
        (&[&[0, 0, 0, 60], &[0, 0, 0, 60], &[0, 0, 0, 60], &[0, 0, 0, 0]], 180),
        (&[&[0, 1], &[0, 0]], 1),
    ];
    for (matrix, packets) in cases {
        let (plan, time) = duration(&all_to_allv(matrix));
        assert_eq!(time, transfer_time(&plan, packets * MTU), "{matrix:?}");
    }
}

/// All-to-allv in which rank `i` sends the same bytes to rank `i + j` as rank 0 sends to rank `j`, as in nccl-tests.
///
/// All rows and columns have the same sum. Ranks with the same distance send to different ranks, so every link is busy
/// until the end. Every message adds an ACK to the link of its receiver.
#[test]
fn balanced_all_to_allv_takes_the_time_of_its_bytes() {
    for n in [4u64, 8] {
        let distance = |from: u64, to: u64| (to + n - from) % n;
        let matrix: Vec<Vec<u64>> =
            (0..n).map(|from| (0..n).map(|to| 400 * distance(from, to)).collect()).collect();
        let rows: Vec<&[u64]> = matrix.iter().map(Vec::as_slice).collect();
        let sent = matrix[0].iter().sum::<u64>() * MTU;
        let ideal = |plan: &Plan| transfer_time(plan, sent) + ack_time(plan) * (n - 1);
        let ratio = slowdown(&all_to_allv(&rows), ideal);
        assert!((0.999..1.01).contains(&ratio), "{n} ranks: {ratio}");
    }
}

/// A pipeline of many micro-batches in both directions.
///
/// Each stage in the middle sends every micro-batch forward and backward, and an ACK for each of them. Its link is busy
/// from the arrival of the first micro-batch until it has sent the gradients of the last one. For the last stage in the
/// middle, this takes `n - 2` hops before and `n - 2` hops after this time. With two stages, each stage sends every
/// micro-batch once.
#[test]
fn pipeline_of_micro_batches_takes_the_time_of_its_bytes() {
    for (n, batches) in [(2u32, 300), (3, 300), (4, 300), (6, 600)] {
        let batch = 8 * MTU;
        let pipeline = Collective {
            chunk: Some(Bytes::new(batch)),
            ..collective("pipeline-forward-backward", n, batches * batch)
        };
        let ratio = slowdown(&pipeline, |plan| {
            let (directions, hops) = if n == 2 { (1, 2) } else { (2, 2 * u64::from(n - 2)) };
            let period = (packet_time(plan) * 8 + ack_time(plan)) * directions;
            transfer_time(plan, batch) * hops + period * (batches - 1)
        });
        assert!((1.0..1.01).contains(&ratio), "{n} stages: {ratio}");
    }
}

/// Returns the ratio between the duration of a collective and its ideal duration.
fn slowdown(collective: &Collective, ideal: impl Fn(&Plan) -> Picos) -> f64 {
    let (plan, time) = duration(collective);
    let ratio = time.get() as f64 / ideal(&plan).get() as f64;
    println!("{:?} of {}: {time}, {ratio:.4}", collective.algorithm, collective.size);
    ratio
}

#[test]
fn collectives_with_contention_take_about_the_time_of_their_bytes() {
    let (n, block) = (8u32, 1_000 * MTU);
    let size = block * u64::from(n);
    // Every host sends and receives 7 blocks at once.
    for (name, phases) in
        [("all-to-all", 1), ("direct-all-gather", 1), ("direct-reduce-scatter", 1), ("direct-all-reduce", 2)]
    {
        let ideal = |plan: &Plan| transfer_time(plan, 7 * block) * phases;
        let ratio = slowdown(&collective(name, n, size), ideal);
        assert!((1.0..1.01).contains(&ratio), "{name}: {ratio}");
    }
    // Each of the three levels of the tree sends the data to two children.
    let tree = collective("broadcast-tree", 15, block);
    let ratio = slowdown(&tree, |plan| transfer_time(plan, 2 * block) * 3);
    assert!((1.0..1.01).contains(&ratio), "broadcast tree: {ratio}");
    // Channels and chunks do not change the bytes of a ring. They overlap the steps.
    let chunk = Some(Bytes::new(100 * MTU));
    let ring = Collective { channels: 4, chunk, ..collective("ring-all-reduce", n, size) };
    let ratio = slowdown(&ring, |plan| transfer_time(plan, 14 * block));
    assert!((1.0..1.01).contains(&ratio), "ring with channels: {ratio}");
}

/// Returns the number of hops from the deepest leaf of a double binary tree to its root.
fn tree_depth(collective: &Collective) -> u64 {
    // Without chunks, the messages of a path up the tree and down again wait for each other.
    let traffic = generate(&Collective { chunk: None, ..collective.clone() }).into_plan_order();
    let mut hops = vec![1; traffic.messages.len()];
    for dependency in &traffic.dependencies {
        let after = hops[dependency.prerequisite.index()] + 1;
        let hops: &mut u64 = &mut hops[dependency.dependent.index()];
        *hops = after.max(*hops);
    }
    hops.into_iter().max().expect("there are messages") / 2
}

/// Returns the largest number of bytes that a rank sends or receives.
fn largest_transfer(plan: &Plan) -> u64 {
    let mut sent = vec![0; plan.topology.hosts() as usize];
    let mut received = sent.clone();
    for message in &plan.messages {
        let (connection, size) = (plan.connections[message.connection.index()], message.amount.bytes());
        sent[connection.from.index()] += size.map_or(0, Bytes::get);
        received[connection.to.index()] += size.map_or(0, Bytes::get);
    }
    sent.into_iter().chain(received).max().expect("there are hosts")
}

/// Returns the ratio between the duration of a double binary tree and its model. `keep` selects the dependencies.
///
/// A rank that is an inner node of one tree and a leaf of the other sends up to twice the data: half of the data to its
/// parent and to each of its children, and half of the data up the other tree. Its link is busy while the pipeline is
/// full. Before and after, a chunk goes up a tree to its root and down again. One of these `2 depth` hops is part of the
/// busy time.
///
/// ```text
/// T(bytes of the busiest link) + (2 depth - 1) T(chunk)
/// ```
///
/// ACKs are served first. In the queue of the data, they would wait behind it, and so would the chunks that wait for
/// them. This costs up to 11 % (four ranks).
fn tree_slowdown(n: u32, chunks: u64, packets: u64, keep: impl Fn(Event) -> bool) -> f64 {
    let chunk = packets * MTU;
    let tree = Collective {
        chunk: Some(Bytes::new(chunk)),
        start: Picos::ZERO,
        ..collective("double-binary-tree-all-reduce", n, 2 * chunks * chunk)
    };
    let mut traffic = generate(&tree);
    traffic.dependencies.retain(|dependency| keep(dependency.event));
    let (plan, times) = run_traffic(&tree, traffic, true);
    let time = times[0].duration().expect("the collective finishes");
    let fill = transfer_time(&plan, chunk) * (2 * tree_depth(&tree) - 1);
    let ratio = time.get() as f64 / (transfer_time(&plan, largest_transfer(&plan)) + fill).get() as f64;
    println!("double binary tree of {n} ranks, {chunks} chunks of {packets} packets: {time}, {ratio:.4}");
    ratio
}

#[test]
fn double_binary_tree_takes_the_time_of_its_bytes_and_of_its_depth() {
    for n in [2, 3, 4, 5, 7, 8, 12, 13, 16, 17, 33] {
        for (chunks, packets) in [(250, 16), (500, 4), (120, 32)] {
            let ratio = tree_slowdown(n, chunks, packets, |_| true);
            assert!((0.99..1.01).contains(&ratio), "{n} ranks, {chunks} chunks: {ratio}");
        }
    }
}

/// Without the limit of NCCL's buffers, the leaves send all their data at once. The data that comes down the trees waits
/// behind it in the queues of the switch.
#[test]
fn unlimited_leaves_delay_a_double_binary_tree() {
    for n in [8, 12, 16] {
        let ratio = tree_slowdown(n, 250, 16, |event| event == Event::Received);
        assert!((1.03..1.06).contains(&ratio), "{n} ranks: {ratio}");
    }
}
