//! Links that lose, delay or reorder packets, and links whose delay changes.

mod common;

use common::{run, us};
use poseidon_plan::impairments::{AnyImpairPolicy, Jitter, LinkImpairment, RandomLoss, Reorder};
use poseidon_plan::link_changes::LinkEvent;
use poseidon_plan::records::DropCause;
use poseidon_plan::switch::Pause;
use poseidon_plan::topology::Chain;
use poseidon_plan::traffic::{Amount, Message};
use poseidon_plan::{Backend, Plan, PlanError, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans::{self, LINK};
use poseidon_types::{Bytes, ConnectionId, Fraction, Nanos, Picos, PortId, SwitchId};

/// Two switches with one host each. Port 1 of each switch leads to the other switch.
const TWO_SWITCHES: Topology =
    Topology::Chain(Chain { switches: 2, hosts: 1, host_link: LINK, middle_link: LINK });

/// Host 0 sends one packet every 10 us to host 1.
fn packets(count: u64) -> Plan {
    let mut plan = plans::plan(TWO_SWITCHES, "fixed", &[(0, 1)]);
    plan.laws[0].set("window", "100 packets").expect("the value is valid");
    plan.stop = us(10 * count + 1_000);
    plan.messages = (0..count)
        .map(|index| Message {
            connection: ConnectionId::new(0),
            start: us(10 * index),
            amount: Amount::Exactly(Bytes::new(4_096)),
        })
        .collect();
    plan
}

/// Impairs the link from switch 0 to switch 1.
fn impair(plan: &mut Plan, policy: impl Into<AnyImpairPolicy>) {
    let (switch, port) = (SwitchId::new(0), PortId::new(1));
    plan.link_impairments = vec![LinkImpairment { switch, port, policy: policy.into() }];
}

/// Returns how long each packet takes to arrive.
fn latencies(plan: &Plan) -> Vec<Picos> {
    let (rows, _) = run(plan);
    rows.received.iter().map(|row| row.time - plan.messages[row.message.index()].start).collect()
}

#[test]
fn reordered_packets_are_late_by_exactly_the_delay() {
    let mut plan = packets(100);
    let regular = latencies(&plan);
    impair(&mut plan, Reorder { probability: Fraction::ONE, delay: Nanos::new(1_234) });
    let late: Vec<Picos> = regular.iter().map(|latency| *latency + Picos::new(1_234_000)).collect();
    assert_eq!(latencies(&plan), late);
}

#[test]
fn jitter_is_bounded_and_the_opposite_direction_is_not_impaired() {
    let mut plan = packets(1_000);
    let regular = latencies(&plan)[0];
    impair(&mut plan, Jitter { max: Nanos::from_micros(4), keep_order: true });
    let impaired = latencies(&plan);
    assert!(impaired.iter().all(|latency| (regular..=regular + us(4)).contains(latency)), "{impaired:?}");
    let sum: u64 = impaired.iter().map(|latency| (*latency - regular).get()).sum();
    assert!((1_900_000..2_100_000).contains(&(sum / 1_000)), "the mean is 2 us: {sum}");
    // ACKs cross the other direction, so the round trip is late only by the jitter of the data.
    let (rows, report) = run(&plan);
    for (message, received) in rows.messages.iter().zip(&rows.received) {
        let back = message.acknowledged - received.time;
        assert!(back < regular, "the ACK takes {back}");
    }
    assert_eq!((report.dropped, report.retransmitted), (0, 0));
}

#[test]
fn random_loss_has_its_probability_and_every_message_arrives() {
    let mut plan = packets(20_000);
    impair(&mut plan, RandomLoss { probability: Fraction::ratio(1, 50) });
    let (rows, report) = run(&plan);
    assert_eq!(rows.messages.len(), 20_000);
    assert!(rows.drops.iter().all(|row| row.cause == DropCause::Loss && row.switch == SwitchId::new(0)));
    // 2 % of 20,408 packets, with a standard deviation of 20.
    assert!((330..490).contains(&report.dropped), "{report:?}");
    assert_eq!(report.dropped, report.retransmitted, "each loss is repaired once");
}

#[test]
fn lost_packets_depend_only_on_the_seed() {
    let mut plan = packets(1_000);
    impair(&mut plan, RandomLoss { probability: Fraction::ratio(1, 10) });
    let lost = |plan: &Plan| run(plan).0.drops.iter().map(|row| row.packet).collect::<Vec<_>>();
    let first = lost(&plan);
    assert_eq!(first, lost(&plan));
    plan.seed += 1;
    assert_ne!(first, lost(&plan), "another seed loses other packets");
}

#[test]
fn changed_delay_applies_to_later_packets_in_both_directions() {
    let mut plan = packets(100);
    let regular = latencies(&plan);
    plan.link_changes = vec![plans::link_change(us(501), 0, 1, LinkEvent::Delay(LINK.delay + us(3)))];
    let changed = latencies(&plan);
    // Packet 50 leaves its host at 500 us and the switch after the change.
    assert_eq!(changed[..50], regular[..50]);
    assert!(changed[51..].iter().zip(&regular[51..]).all(|(late, latency)| *late == *latency + us(3)));
    let (rows, _) = run(&plan);
    let last = rows.messages.last().expect("all messages finish");
    assert_eq!(
        last.acknowledged - last.start,
        run(&packets(100)).0.messages[99].acknowledged - us(990) + us(6)
    );
}

#[test]
fn packets_overtake_others_after_the_delay_decreases() {
    let mut plan = plans::plan(TWO_SWITCHES, "fixed", &[(0, 1)]);
    plan.laws[0].set("window", "1000 packets").expect("the value is valid");
    plan.messages[0].amount = Amount::Exactly(Bytes::new(4_096_000));
    plan.link_changes = vec![
        plans::link_change(us(10), 0, 1, LinkEvent::Delay(us(20))),
        plans::link_change(us(60), 0, 1, LinkEvent::Delay(us(1))),
    ];
    let (rows, report) = run(&plan);
    assert_eq!(rows.messages.len(), 1);
    assert!(report.retransmitted > 10 && report.dropped == 0, "overtaken packets look lost: {report:?}");
}

#[test]
fn unsupported_impairments_are_rejected() {
    let reject =
        |plan: &Plan| Simulator::default().run(plan, &mut poseidon_plan::records::MemorySink::default());
    let mut plan = packets(1);
    impair(&mut plan, RandomLoss { probability: Fraction::ratio(1, 50) });
    plan.switch.pause =
        Pause::Pfc { memory: Bytes::new(9_000_000), alpha: Fraction::ONE, resume: Bytes::new(10_000) };
    assert!(matches!(reject(&plan), Err(PlanError::Unsupported(reason)) if reason.contains("PFC")));
    let mut plan = packets(1);
    plan.link_changes = vec![plans::link_change(us(1), 0, 0, LinkEvent::Delay(us(1)))];
    assert!(matches!(reject(&plan), Err(PlanError::LinkChange { reason, .. }) if reason.contains("host")));
    let mut plan = packets(1);
    impair(&mut plan, RandomLoss { probability: Fraction::ratio(3, 2) });
    assert!(matches!(reject(&plan), Err(PlanError::Policy { policy: "random-loss", .. })));
    impair(&mut plan, RandomLoss { probability: Fraction::ZERO });
    plan.link_impairments[0].port = PortId::new(2);
    assert!(matches!(reject(&plan), Err(PlanError::LinkImpairment { index: 0, .. })));
}
