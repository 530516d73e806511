//! Tests of the repetitions of collectives.

use super::Collective;
use crate::patterns::test_hosts::hosts;
use crate::patterns::{Algorithm, Pattern, RankFinish, Traffic, TrafficClass};
use poseidon_types::{Bytes, MessageId, Picos};

/// Returns a chain of three ranks that runs twice. Rank 0 receives nothing.
fn chain() -> Traffic {
    let algorithm = Algorithm::from_name("broadcast-chain").expect("the algorithm exists");
    let chain = Collective { repetitions: 2, ..Collective::new(algorithm, hosts(5..8), Bytes::new(10)) };
    chain.generate(&TrafficClass::new(1, "chain")).expect("the pattern is valid")
}

#[test]
fn repetition_lasts_from_its_first_start_to_its_slowest_rank() {
    let traffic = chain();
    let [runs] = &traffic.collectives[..] else { panic!("expected one collective") };
    // Messages 0 and 1 belong to the first repetition, messages 2 and 3 to the second.
    let start = |message: MessageId| Some(Picos::new([10, 20, 30, 40][message.index()]));
    let arrival = |message: MessageId| [Some(18), Some(35), None, Some(50)][message.index()].map(Picos::new);
    let times = runs.repetition_times(&traffic.groups[0], start, arrival);
    let finish = |time| RankFinish::At(Picos::new(time));
    assert_eq!(times[0].ranks, [RankFinish::ReceivesNothing, finish(18), finish(35)]);
    assert_eq!(times[0].slowest(), Some((2, Picos::new(35))));
    assert_eq!(times[0].duration(), Some(Picos::new(25)));
    assert_eq!(times[1].ranks, [RankFinish::ReceivesNothing, RankFinish::Unfinished, finish(50)]);
    assert_eq!((times[1].start, times[1].duration()), (Some(Picos::new(30)), None));
    let times = runs.repetition_times(&traffic.groups[0], |_| None, |_| None);
    assert_eq!((times[0].start, times[0].slowest()), (None, None));
}

#[test]
fn receivers_stay_correct_when_messages_are_renumbered() {
    let ring = Algorithm::from_name("ring-all-gather").expect("the algorithm exists");
    let collective = Collective {
        repetitions: 3,
        compute_gap: Picos::new(7),
        start: Picos::new(100),
        channels: 2,
        ..Collective::new(ring, hosts(20..25), Bytes::new(1_000))
    };
    // The first repetition of the chain comes before the ring, and its second repetition after it.
    let mut traffic = chain();
    traffic.merge(chain());
    traffic.merge(collective.generate(&TrafficClass::new(1, "ring")).expect("the pattern is valid"));
    let traffic = traffic.into_plan_order();
    assert_eq!(traffic.collectives.iter().map(|runs| runs.group).collect::<Vec<_>>(), [0, 1, 2]);
    for runs in &traffic.collectives {
        let group = &traffic.groups[runs.group];
        assert_eq!(runs.receivers().len(), group.messages.len());
        let mut per_repetition = vec![0; runs.repetitions as usize];
        for (message, (repetition, rank)) in group.messages.iter().zip(runs.receivers()) {
            let connection = traffic.messages[message.index()].connection;
            assert_eq!(traffic.connections[connection.index()].to, runs.ranks[rank as usize]);
            per_repetition[repetition as usize] += 1;
        }
        assert!(per_repetition.iter().all(|count| *count == per_repetition[0]), "{per_repetition:?}");
    }
}
