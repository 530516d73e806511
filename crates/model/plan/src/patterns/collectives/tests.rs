//! Follows the data of every algorithm, and checks message counts, sizes and errors.

use super::transfers::Transfer;
use super::*;
use crate::patterns::test_hosts::hosts;
use crate::rings::RingTable;
use crate::traffic::Event;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The ranks whose data a byte contains, as a bit mask.
type Contributions = u32;

fn algorithm(name: &str) -> &'static Algorithm {
    Algorithm::from_name(name).unwrap_or_else(|| panic!("{name} does not exist"))
}

fn collective(name: &str, n: u32, size: u64) -> Collective {
    Collective::new(algorithm(name), hosts(0..n), Bytes::new(size))
}

fn generate(collective: &Collective) -> Traffic {
    collective.generate(&TrafficClass::new(1, "collective")).expect("the pattern is valid")
}

/// Returns a matrix in which each rank sends a different number of bytes to each rank, and sometimes none.
fn uneven_matrix(n: u32) -> Vec<Vec<Bytes>> {
    let entry = |from: u32, to: u32| Bytes::new(u64::from((7 * from + 5 * to) % 4) * 31);
    (0..n).map(|from| (0..n).map(|to| entry(from, to)).collect()).collect()
}

/// Returns one collective per algorithm that supports this number of ranks.
fn all_algorithms(n: u32, size: u64) -> Vec<Collective> {
    let with_settings = |algorithm: &'static Algorithm| {
        let mut collective = Collective::new(algorithm, hosts(0..n), Bytes::new(size));
        if algorithm.name == "all-to-allv" {
            collective.matrix = Some(uneven_matrix(n));
        }
        if algorithm.name == "hierarchical-all-reduce" {
            collective.ranks_per_server = (1..=n).rev().find(|local| n.is_multiple_of(*local) && *local < n);
        }
        collective
    };
    let collectives: Vec<_> = ALGORITHMS.iter().map(with_settings).collect();
    let supports_ranks =
        |collective: &Collective| !matches!(collective.check(), Err(PatternError::NotPowerOfTwo { .. }));
    collectives.into_iter().filter(supports_ranks).collect()
}

/// Merges the contributions of two ranks. Each contribution may occur only once.
fn merge(a: Contributions, b: Contributions) -> Contributions {
    assert_eq!(a & b, 0, "a contribution is counted twice");
    a | b
}

/// The expected data of a collective.
struct Expected {
    operation: Operation,
    ranks: usize,
    /// The size of the channel's data.
    size: u64,
}

impl Expected {
    fn all_ranks(&self) -> Contributions {
        (1 << self.ranks) - 1
    }

    /// Returns the rank whose block contains a byte.
    fn owner(&self, byte: u64) -> usize {
        let contains = |rank: &usize| byte < Span::new(self.size).part(self.ranks, *rank).end;
        (0..self.ranks).find(contains).expect("the byte exists")
    }

    /// Returns what a rank holds before the collective.
    fn initial(&self, rank: usize, byte: u64) -> Contributions {
        let holds_data = match self.operation {
            Operation::AllReduce | Operation::ReduceScatter => true,
            Operation::AllGather => self.owner(byte) == rank,
            Operation::Broadcast | Operation::SendRecv => rank == 0,
            Operation::AllToAll | Operation::AllToAllV => unreachable!("exchanges are checked separately"),
        };
        if holds_data { 1 << rank } else { 0 }
    }

    /// Returns what a rank must hold after the collective, or `None` if it does not matter.
    fn final_data(&self, rank: usize, byte: u64) -> Option<Contributions> {
        match self.operation {
            Operation::AllReduce => Some(self.all_ranks()),
            Operation::ReduceScatter => (self.owner(byte) == rank).then(|| self.all_ranks()),
            Operation::AllGather => Some(1 << self.owner(byte)),
            Operation::Broadcast | Operation::SendRecv => Some(1),
            Operation::AllToAll | Operation::AllToAllV => unreachable!("exchanges are checked separately"),
        }
    }
}

/// For each message, the messages that it waits for and that its sender must have received.
fn received_prerequisites(traffic: &Traffic) -> Vec<Vec<usize>> {
    let mut prerequisites = vec![Vec::new(); traffic.messages.len()];
    for dependency in &traffic.dependencies {
        let (prerequisite, dependent) = (dependency.prerequisite.index(), dependency.dependent.index());
        match dependency.event {
            Event::Received => prerequisites[dependent].push(prerequisite),
            Event::Acknowledged => {
                let connection = |message: usize| traffic.messages[message].connection;
                assert_eq!(connection(prerequisite), connection(dependent), "flow control of a connection");
            }
        }
    }
    let mut joined = vec![Vec::new(); traffic.joins.len()];
    for event in traffic.joins.prerequisites.iter().filter(|event| event.event == Event::Received) {
        joined[event.join.index()].push(event.message.index());
    }
    for dependent in &traffic.joins.dependents {
        prerequisites[dependent.message.index()].extend(&joined[dependent.join.index()]);
    }
    for (message, prerequisites) in prerequisites.iter().enumerate() {
        let connection = |message: usize| traffic.connections[traffic.messages[message].connection.index()];
        for prerequisite in prerequisites {
            assert!(*prerequisite < message, "a message waits for a later message");
            assert_eq!(connection(*prerequisite).to, connection(message).from);
        }
    }
    prerequisites
}

/// Follows every byte of a collective through its messages.
///
/// A message carries the sender's own data and the data of the messages that it waits for, and nothing else: other
/// messages may or may not have arrived. A message that replaces a byte must contain everything that the receiver has
/// already added up, so it cannot arrive before the messages that add to this byte.
fn follow_data(collective: &Collective) {
    follow_data_of(collective, &generate(collective));
}

fn follow_data_of(collective: &Collective, traffic: &Traffic) {
    let transfers = collective.transfers();
    let per_repetition = transfers.messages.len();
    assert_eq!(traffic.messages.len(), per_repetition * collective.repetitions as usize);
    let prerequisites = received_prerequisites(traffic);
    let transfer = |message: usize| transfers.messages[message % per_repetition];
    let channel = |message: usize| transfers.connections[transfer(message).connection as usize].channel;
    for repetition in 0..collective.repetitions as usize {
        let messages = repetition * per_repetition..(repetition + 1) * per_repetition;
        for part in collective.split_channels() {
            let expected = Expected {
                operation: collective.algorithm.operation,
                ranks: collective.ranks.len(),
                size: part.data.len(),
            };
            let is_exchange = matches!(expected.operation, Operation::AllToAll | Operation::AllToAllV);
            if is_exchange {
                continue;
            }
            // The data that each message carries, one entry per byte.
            let mut carried: BTreeMap<usize, Vec<Contributions>> = BTreeMap::new();
            let data_at = |carried: &BTreeMap<usize, Vec<Contributions>>, received: &[usize], rank, byte| {
                let mut data = expected.initial(rank, byte);
                let mut is_final = false;
                for message in received {
                    let Transfer { span, kind, .. } = transfer(*message);
                    if byte < span.start || byte >= span.end {
                        continue;
                    }
                    let index = usize::try_from(byte - span.start).expect("the data is small");
                    let value = carried[message][index];
                    match kind {
                        TransferKind::Copy => {
                            assert_eq!(data & value, data, "a copy loses data");
                            (data, is_final) = (value, true);
                        }
                        TransferKind::Reduce => {
                            assert!(!is_final, "a message adds to a final result");
                            data = merge(data, value);
                        }
                        TransferKind::Exchange => panic!("only all-to-all exchanges data"),
                    }
                }
                data
            };
            let mut received = vec![Vec::new(); expected.ranks];
            for message in messages.clone().filter(|message| channel(*message) == part.index) {
                let Transfer { from, to, span, .. } = transfer(message);
                let mut waits_for: Vec<usize> =
                    prerequisites[message].iter().copied().filter(|other| messages.contains(other)).collect();
                waits_for.sort_unstable();
                let carry = |byte| {
                    let data = data_at(&carried, &waits_for, from as usize, byte);
                    assert_ne!(data, 0, "rank {from} sends data that it does not have");
                    data
                };
                let data = (span.start..span.end).map(carry).collect();
                carried.insert(message, data);
                received[to as usize].push(message);
            }
            for (rank, received) in received.iter().enumerate() {
                for byte in 0..expected.size {
                    let data = data_at(&carried, received, rank, byte);
                    if let Some(expected) = expected.final_data(rank, byte) {
                        assert_eq!(data, expected, "rank {rank}, byte {byte}");
                    }
                }
            }
        }
    }
    check_repetitions(collective, &transfers, traffic);
}

/// Checks that each message waits for the end of its sender's previous repetition and for the compute gap.
fn check_repetitions(collective: &Collective, transfers: &Transfers, traffic: &Traffic) {
    let per_repetition = transfers.messages.len();
    let ranks = RankMessages::of_all_ranks(collective.ranks.len(), transfers);
    // For each join, its events.
    let mut events: Vec<Vec<(usize, Event)>> = vec![Vec::new(); traffic.joins.len()];
    for event in &traffic.joins.prerequisites {
        events[event.join.index()].push((event.message.index(), event.event));
    }
    let mut gaps = vec![0; traffic.messages.len()];
    for dependent in &traffic.joins.dependents {
        let message = dependent.message.index();
        let repetition = message / per_repetition;
        let events = &events[dependent.join.index()];
        if events.iter().all(|(event, _)| event / per_repetition == repetition) {
            continue;
        }
        gaps[message] += 1;
        assert_eq!(traffic.joins.delays[dependent.join.index()], collective.compute_gap);
        let rank = &ranks[transfers.messages[message % per_repetition].from as usize];
        let (event, list) = match rank.received.as_slice() {
            [] => (Event::Acknowledged, &rank.sent),
            _ => (Event::Received, &rank.received),
        };
        let id = |message: &u32| (repetition - 1) * per_repetition + *message as usize;
        let expected: Vec<_> = list.iter().map(|message| (id(message), event)).collect();
        assert_eq!(events, &expected);
    }
    let expected: Vec<i32> = (0..gaps.len()).map(|message| i32::from(message >= per_repetition)).collect();
    assert_eq!(gaps, expected, "every message of a later repetition waits for one gap");
}

/// Checks that each rank sends each byte of its all-to-all data once, to the right rank.
fn check_exchange(collective: &Collective) {
    let transfers = collective.transfers();
    let n = collective.ranks.len();
    let mut sent: BTreeMap<(u32, u32, u32), u64> = BTreeMap::new();
    for transfer in &transfers.messages {
        let channel = transfers.connections[transfer.connection as usize].channel;
        // The bytes of a pair are sent in order and without gaps.
        let next = sent.entry((transfer.from, transfer.to, channel)).or_insert(transfer.span.start);
        assert_eq!(*next, transfer.span.start);
        *next = transfer.span.end;
    }
    for part in collective.split_channels() {
        for (from, to) in (0..n).flat_map(|from| (0..n).map(move |to| (from, to))) {
            let block = match &collective.matrix {
                None => part.data.part(n, to),
                Some(matrix) => {
                    let channels = collective.channels as usize;
                    Span::new(matrix[from][to].get()).part(channels, part.index as usize)
                }
            };
            let sent = sent.get(&(count_u32(from), count_u32(to), part.index));
            let expected = (from != to && block.len() > 0).then_some(&block.end);
            assert_eq!(sent, expected, "{from} to {to}");
        }
    }
}

#[test]
fn every_rank_ends_with_the_data_that_its_operation_defines() {
    for n in 2..=17 {
        for collective in all_algorithms(n, 211) {
            follow_data(&collective);
        }
    }
}

#[test]
#[should_panic(expected = "sends data that it does not have")]
fn missing_dependency_of_a_gather_is_found() {
    let ring = collective("ring-all-gather", 4, 100);
    let mut traffic = generate(&ring);
    traffic.dependencies.pop();
    follow_data_of(&ring, &traffic);
}

#[test]
#[should_panic(expected = "byte")]
fn missing_dependency_of_a_reduction_is_found() {
    // The last message waits for three messages, and one of them is missing.
    let doubling = collective("recursive-doubling-all-reduce", 16, 100);
    let mut traffic = generate(&doubling);
    traffic.dependencies.remove(traffic.dependencies.len() - 3);
    follow_data_of(&doubling, &traffic);
}

#[test]
#[should_panic(expected = "a contribution is counted twice")]
fn additional_dependency_of_a_reduction_is_found() {
    // In the second step, rank 0 adds what it sends to rank 2 to what it receives from rank 2.
    let doubling = collective("recursive-doubling-all-reduce", 4, 100);
    let mut traffic = generate(&doubling);
    traffic.add_dependency(MessageId::new(6), Event::Received, MessageId::new(4));
    follow_data_of(&doubling, &traffic);
}

#[test]
fn data_is_correct_with_channels_chunks_and_repetitions() {
    for n in [2, 3, 4, 5, 8, 9, 12, 16] {
        for collective in all_algorithms(n, 397) {
            let (channels, chunk, compute_gap) = (3, Some(Bytes::new(7)), Picos::new(5));
            follow_data(&Collective { channels, chunk, repetitions: 3, compute_gap, ..collective });
        }
    }
}

#[test]
fn data_is_correct_for_all_server_sizes() {
    for (n, local) in (2..=16u32).flat_map(|n| (1..=n).map(move |local| (n, local))) {
        if n.is_multiple_of(local) {
            let ranks_per_server = Some(local);
            let hierarchical = collective("hierarchical-all-reduce", n, 301);
            follow_data(&Collective { ranks_per_server, ..hierarchical });
            let ring = collective("ring-all-reduce", n, 301);
            follow_data(&Collective { ranks_per_server, channels: local, ..ring });
        }
    }
}

#[test]
fn groups_are_separate_collectives_that_start_together() {
    let chunk = Some(Bytes::new(7));
    for first in all_algorithms(4, 397) {
        let first = Collective { channels: 2, chunk, ..first };
        let second = Collective { ranks: hosts(4..8), ..first.clone() };
        let mut expected = generate(&first);
        expected.merge(generate(&second));
        let (groups, expected) = (
            generate(&Collective { ranks: hosts(0..8), groups: 2, ..first.clone() }).into_plan_order(),
            expected.into_plan_order(),
        );
        let name = first.algorithm.name;
        assert_eq!(groups.connections, expected.connections, "{name}");
        assert_eq!(groups.messages, expected.messages, "{name}");
        assert_eq!(groups.dependencies, expected.dependencies, "{name}");
        assert_eq!(groups.joins, expected.joins, "{name}");
        // One operation of all ranks, with the bandwidth of a group.
        let [runs] = &groups.collectives[..] else { panic!("{name} has one collective") };
        assert_eq!((runs.info.ranks, runs.ranks.len()), (4, 8), "{name}");
        let last = runs.receivers().map(|(_, rank)| rank).max();
        assert_eq!(last, Some(7), "{name}");
    }
}

#[test]
fn exchanged_data_is_complete() {
    for (n, channels, chunk) in [(2, 1, None), (5, 3, None), (9, 1, Some(10)), (16, 4, Some(3))] {
        let chunk = chunk.map(Bytes::new);
        check_exchange(&Collective { channels, chunk, ..collective("all-to-all", n, 607) });
        let matrix = Some(uneven_matrix(n));
        check_exchange(&Collective { channels, chunk, matrix, ..collective("all-to-allv", n, 1) });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn data_is_correct_for_random_settings(
        index in 0..ALGORITHMS.len(), n in 2u32..18, size in 40u64..400, channels in 1u32..4,
        chunk in prop::option::of(1u64..300), repetitions in 1u32..4,
    ) {
        let all = all_algorithms(n, size.max(u64::from(n * channels)));
        let collective = all.into_iter().find(|collective| *collective.algorithm == ALGORITHMS[index]);
        if let Some(collective) = collective {
            let chunk = chunk.map(Bytes::new);
            let collective = Collective { channels, chunk, repetitions, ..collective };
            follow_data(&collective);
            let count = generate(&collective).messages.len() as f64;
            prop_assert!((collective.expected_messages() - count).abs() < 0.5);
        }
    }
}

#[test]
fn expected_messages_are_exact() {
    for n in 2..=17 {
        for (channels, chunk, repetitions) in [(1, None, 1), (3, None, 2), (2, Some(10), 1), (5, Some(1), 2)]
        {
            for collective in all_algorithms(n, 503) {
                let chunk = chunk.map(Bytes::new);
                let collective = Collective { channels, chunk, repetitions, ..collective };
                let count = generate(&collective).messages.len() as f64;
                let expected = collective.expected_messages();
                assert!((expected - count).abs() < 0.5, "{collective:?}: {expected} instead of {count}");
            }
        }
    }
}

/// Returns the bytes that each rank sends and receives.
fn bytes_per_rank(collective: &Collective) -> (Vec<u64>, Vec<u64>) {
    let n = collective.ranks.len();
    let (mut sent, mut received) = (vec![0; n], vec![0; n]);
    for transfer in collective.transfers().messages {
        sent[transfer.from as usize] += transfer.span.len();
        received[transfer.to as usize] += transfer.span.len();
    }
    (sent, received)
}

#[test]
fn each_rank_sends_and_receives_the_bytes_of_the_closed_form() {
    for n in [2u64, 4, 8, 16] {
        let ranks = u32::try_from(n).expect("the number is small");
        let size = 1_600;
        let optimal = size * (n - 1) / n;
        let expected = [
            ("ring-all-reduce", 2 * optimal),
            ("ring-all-gather", optimal),
            ("ring-reduce-scatter", optimal),
            ("halving-doubling-all-reduce", 2 * optimal),
            ("recursive-doubling-all-reduce", size * u64::from(n.ilog2())),
            ("direct-all-reduce", 2 * optimal),
            ("direct-all-gather", optimal),
            ("direct-reduce-scatter", optimal),
            ("all-to-all", optimal),
        ];
        for (name, bytes) in expected {
            let all = vec![bytes; ranks as usize];
            let (sent, received) = bytes_per_rank(&collective(name, ranks, size));
            assert_eq!((&sent, &received), (&all, &all), "{name} of {n}");
            let chunk = Some(Bytes::new(33));
            let split = Collective { channels: 2, chunk, ..collective(name, ranks, size) };
            assert_eq!(bytes_per_rank(&split).0, all, "{name} of {n} with channels and chunks");
        }
    }
}

#[test]
fn hierarchical_all_reduce_sends_few_bytes_between_servers() {
    // Four servers with eight ranks each.
    let (servers, local, size) = (4, 8, 3_200);
    let ranks_per_server = Some(8);
    let collective = Collective { ranks_per_server, ..collective("hierarchical-all-reduce", 32, size) };
    let (mut inside, mut between) = (vec![0; 32], vec![0; 32]);
    for transfer in collective.transfers().messages {
        let is_inside = transfer.from / 8 == transfer.to / 8;
        let bytes = if is_inside { &mut inside } else { &mut between };
        bytes[transfer.from as usize] += transfer.span.len();
        assert!(is_inside || transfer.from % 8 == transfer.to % 8, "ranks of different rails exchange data");
    }
    assert_eq!(inside, vec![2 * size * (local - 1) / local; 32]);
    assert_eq!(between, vec![2 * size * (servers - 1) / (servers * local); 32]);
}

#[test]
fn trees_and_chains_send_each_byte_once_per_edge() {
    for n in 2..40u64 {
        let ranks = u32::try_from(n).expect("the number is small");
        let sum = |name| bytes_per_rank(&collective(name, ranks, 1_000)).0.iter().sum::<u64>();
        assert_eq!(sum("broadcast-chain"), 1_000 * (n - 1));
        assert_eq!(sum("broadcast-tree"), 1_000 * (n - 1));
        assert_eq!(sum("pipeline-forward"), 1_000 * (n - 1));
        assert_eq!(sum("pipeline-forward-backward"), 2_000 * (n - 1));
        assert_eq!(sum("double-binary-tree-all-reduce"), 2_000 * (n - 1));
        let (sent, received) = bytes_per_rank(&collective("double-binary-tree-all-reduce", ranks, 1_000));
        assert!(sent.iter().chain(&received).all(|bytes| *bytes <= 2_000), "{n}: {sent:?}, {received:?}");
    }
}

/// Returns the number of messages in the longest chain of dependencies.
fn longest_chain(collective: &Collective) -> usize {
    let traffic = generate(collective);
    let mut lengths: Vec<usize> = Vec::new();
    for prerequisites in received_prerequisites(&traffic) {
        let longest = prerequisites.iter().map(|message| lengths[*message]).max();
        lengths.push(1 + longest.unwrap_or(0));
    }
    lengths.into_iter().max().expect("there are messages")
}

#[test]
fn longest_chain_of_messages_matches_the_number_of_steps() {
    for n in [2u32, 4, 8, 16, 32] {
        let chain = |name| longest_chain(&collective(name, n, 1_000));
        let (n, log) = (n as usize, n.ilog2() as usize);
        assert_eq!(chain("ring-all-reduce"), 2 * (n - 1));
        assert_eq!(chain("ring-all-gather"), n - 1);
        assert_eq!(chain("ring-reduce-scatter"), n - 1);
        assert_eq!(chain("halving-doubling-all-reduce"), 2 * log);
        assert_eq!(chain("recursive-doubling-all-reduce"), log);
        assert_eq!((chain("direct-all-reduce"), chain("direct-all-gather"), chain("all-to-all")), (2, 1, 1));
        assert_eq!((chain("broadcast-chain"), chain("broadcast-tree")), (n - 1, log));
        assert_eq!(chain("pipeline-forward-backward"), 2 * (n - 1));
        // The root of the first tree has one child, whose subtree has log2 n levels.
        assert_eq!(chain("double-binary-tree-all-reduce"), 2 * log);
    }
    let ranks_per_server = Some(4);
    let hierarchical = Collective { ranks_per_server, ..collective("hierarchical-all-reduce", 12, 1_000) };
    assert_eq!(longest_chain(&hierarchical), 2 * 3 + 2 * 2);
}

#[test]
fn ring_of_four_ranks_has_the_expected_messages() {
    let traffic = generate(&collective("ring-all-reduce", 4, 13));
    let ends: Vec<_> = traffic.connections.iter().map(|c| (c.from.get(), c.to.get())).collect();
    assert_eq!(ends, [(0, 1), (1, 2), (2, 3), (3, 0)]);
    // Blocks 0, 1, 2 and 3 have 4, 3, 3 and 3 bytes. The sum of block 0 is complete at rank 0 after step 2.
    let sizes: Vec<u64> = traffic.messages.iter().map(|m| m.amount.bytes().unwrap().get()).collect();
    #[rustfmt::skip]
    assert_eq!(sizes, [
        3, 4, 3, 3, // step 0: rank i sends block i - 1
        3, 3, 4, 3,
        3, 3, 3, 4, // step 2: rank 3 sends block 0 to rank 0
        4, 3, 3, 3, // step 3: rank i sends block i
        3, 4, 3, 3,
        3, 3, 4, 3,
    ]);
    // In step s, rank i sends message 4 s + i. This message waits for the message from rank i - 1 in step s - 1.
    let dependencies: Vec<_> =
        traffic.dependencies.iter().map(|d| (d.prerequisite.get(), d.dependent.get())).collect();
    #[rustfmt::skip]
    assert_eq!(dependencies, [
        (3, 4), (0, 5), (1, 6), (2, 7),
        (7, 8), (4, 9), (5, 10), (6, 11),
        (11, 12), (8, 13), (9, 14), (10, 15),
        (15, 16), (12, 17), (13, 18), (14, 19),
        (19, 20), (16, 21), (17, 22), (18, 23),
    ]);
}

#[test]
fn trees_have_separate_connections_and_channels_too() {
    // With two ranks, both trees consist of the same edge.
    let tree = Collective { channels: 3, ..collective("double-binary-tree-all-reduce", 2, 100) };
    let traffic = generate(&tree);
    assert_eq!((traffic.connections.len(), traffic.messages.len()), (2 * 2 * 3, 2 * 2 * 3));
    let mut entropies: Vec<u32> = traffic.connections.iter().map(|connection| connection.entropy).collect();
    entropies.sort_unstable();
    entropies.dedup();
    assert_eq!(entropies.len(), 12, "the connections take independent paths");
}

#[test]
fn repetitions_reuse_connections_and_start_after_the_compute_gap() {
    let (start, compute_gap) = (Picos::new(100), Picos::new(7));
    let ring = Collective { repetitions: 5, start, compute_gap, ..collective("ring-all-gather", 3, 30) };
    let traffic = generate(&ring).into_plan_order();
    assert_eq!((traffic.connections.len(), traffic.messages.len()), (3, 5 * 6));
    // Only the first step of the first repetition starts at a fixed time.
    let starts: Vec<u64> = traffic.messages.iter().map(|message| message.start.get()).collect();
    assert_eq!(starts[..4], [100, 100, 100, 0]);
    assert!(starts[4..].iter().all(|start| *start == 0));
    assert_eq!((traffic.joins.len(), traffic.groups[0].start), (4 * 3, start));
    assert!(traffic.joins.delays.iter().all(|delay| *delay == compute_gap));
}

#[test]
fn dependencies_grow_linearly_with_the_messages() {
    for n in [16u32, 64, 128] {
        for name in ["direct-all-reduce", "all-to-all"] {
            let traffic = generate(&Collective { repetitions: 3, ..collective(name, n, 10_000) });
            let entries = traffic.dependencies.len()
                + traffic.joins.prerequisites.len()
                + traffic.joins.dependents.len();
            // Each message is at most a prerequisite and a dependent of one join per repetition and of one join
            // between repetitions.
            assert!(entries <= 4 * traffic.messages.len(), "{name} of {n}: {entries}");
        }
    }
}

#[test]
fn large_collectives_can_be_generated() {
    let ring = collective("ring-all-reduce", 512, 1 << 30);
    let expanded = ring.generate_expanded(&TrafficClass::new(1, "ring")).expect("the pattern is valid");
    let expanded = expanded.into_plan_order();
    assert_eq!((expanded.messages.len(), expanded.dependencies.len()), (523_264, 512 * 1_021));
    let ring = generate(&collective("ring-all-reduce", 4_096, 1 << 30)).into_plan_order();
    assert_eq!((ring.connections.len(), ring.messages.len(), ring.rings.len()), (4_096, 0, 1));
    let layouts = RingTable::new(&ring.rings, Bytes::new(4_096));
    assert_eq!(layouts.layouts()[0].message_count(), 33_546_240);
    let all = generate(&collective("all-to-all", 1_024, 1 << 30)).into_plan_order();
    assert_eq!((all.messages.len(), all.dependencies.len()), (1_024 * 1_023, 0));
    let direct = generate(&collective("direct-all-reduce", 512, 1 << 30)).into_plan_order();
    assert_eq!((direct.messages.len(), direct.joins.len()), (2 * 512 * 511, 512));
}

#[test]
fn sizes_for_the_bandwidth_match_nccl_tests() {
    let info = collective("ring-all-gather", 8, 800).info();
    assert_eq!((info.ranks, info.size), (8, Bytes::new(800)));
    assert!((info.bus_factor() - 0.875).abs() < 1e-12);
    // Rank 1 sends 90 bytes, and rank 0 receives 100 bytes.
    let matrix = [[10, 5, 5], [90, 0, 0], [0, 20, 30]].map(|row| row.map(Bytes::new).to_vec()).to_vec();
    let info = Collective { matrix: Some(matrix), ..collective("all-to-allv", 3, 1) }.info();
    assert_eq!(info.size, Bytes::new(100));
    assert!((info.bus_factor() - 2.0 / 3.0).abs() < 1e-12);
    assert!((collective("ring-all-reduce", 4, 1).info().bus_factor() - 1.5).abs() < 1e-12);
    assert!((collective("broadcast-tree", 4, 1).info().bus_factor() - 1.0).abs() < 1e-12);
}

#[test]
fn invalid_settings_are_rejected_with_a_remedy() {
    let error = |collective: Collective| {
        assert_eq!(collective.expected_messages(), 0.0);
        collective.generate(&TrafficClass::new(1, "invalid")).expect_err("the pattern is invalid")
    };
    let ring = |n, size| collective("ring-all-reduce", n, size);
    let text = |collective: Collective| error(collective).to_string();
    assert_eq!(error(ring(1, 100)), PatternError::TooFewHosts { needed: 2, actual: 1 });
    let duplicate = Collective { ranks: hosts([1, 2, 1]), ..ring(3, 100) };
    assert_eq!(error(duplicate), PatternError::DuplicateHost(HostId::new(1)));
    assert_eq!(error(ring(8, 7)), PatternError::TooSmall { size: Bytes::new(7), parts: 8 });
    for (groups, message) in [
        (3, "8 ranks do not form 3 groups of at least two ranks: choose a divisor of 8"),
        (8, "8 ranks do not form 8 groups of at least two ranks: choose a divisor of 8"),
        (0, "the number of groups must be above zero"),
    ] {
        assert_eq!(text(Collective { groups, ..ring(8, 100) }), message);
    }
    let channels = Collective { channels: 4, ..ring(8, 31) };
    assert_eq!(error(channels), PatternError::TooSmall { size: Bytes::new(31), parts: 32 });
    assert_eq!(text(Collective { channels: 0, ..ring(8, 100) }), "the number of channels must be above zero");
    assert_eq!(
        text(Collective { channels: 5_000, ..ring(8, 100_000) }),
        "5000 channels are too many: use at most 1024"
    );
    assert_eq!(
        text(Collective { repetitions: 0, ..ring(8, 100) }),
        "the number of repetitions must be above zero"
    );
    let no_chunk = Collective { chunk: Some(Bytes::ZERO), ..ring(8, 100) };
    assert_eq!(text(no_chunk), "the chunk size must be above zero");
    for name in ["halving-doubling-all-reduce", "recursive-doubling-all-reduce"] {
        assert_eq!(
            text(collective(name, 6, 100)),
            "the algorithm needs 2, 4, 8, ... ranks but has 6: choose a ring or a tree"
        );
    }
    let hierarchical =
        |ranks_per_server| Collective { ranks_per_server, ..collective("hierarchical-all-reduce", 12, 100) };
    assert_eq!(error(hierarchical(None)), PatternError::MissingServerSize);
    assert_eq!(
        text(hierarchical(Some(5))),
        "12 ranks do not fill servers of 5 ranks: choose a divisor of 12"
    );
    assert!(matches!(error(hierarchical(Some(0))), PatternError::IncompleteServer { .. }));
    assert_eq!(
        text(Collective { ranks_per_server: Some(4), ..collective("all-to-all", 8, 100) }),
        "all-to-all does not use ranks-per-server: remove it"
    );
    let v = |matrix| Collective { matrix, ..collective("all-to-allv", 2, 1) };
    let rows = |rows: &[&[u64]]| {
        Some(rows.iter().map(|row| row.iter().copied().map(Bytes::new).collect()).collect())
    };
    assert_eq!(error(v(None)), PatternError::MissingMatrix);
    assert_eq!(
        text(v(rows(&[&[0, 1]]))),
        "the matrix has 1 rows, but there are 2 ranks: write one row per rank"
    );
    assert_eq!(
        text(v(rows(&[&[0, 1], &[0]]))),
        "the matrix row of rank 1 has 1 entries, but there are 2 ranks: write one entry per rank"
    );
    assert_eq!(error(v(rows(&[&[7, 0], &[0, 7]]))), PatternError::EmptyMatrix);
    let unused = Collective { matrix: Some(uneven_matrix(8)), ..ring(8, 100) };
    assert!(matches!(error(unused), PatternError::UnusedSetting { setting: "matrix", .. }));
    let chunks = Collective { chunk: Some(Bytes::new(1)), ..ring(8, u64::MAX) };
    assert_eq!(error(chunks), PatternError::TooManyMessages);
    assert_eq!(error(Collective { repetitions: u32::MAX, ..ring(8, 100) }), PatternError::TooManyMessages);
}
