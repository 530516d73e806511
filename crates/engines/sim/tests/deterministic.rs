//! Checks that the number of threads does not change the result. Each feature has a plan, and the test checks
//! that the run exercises the feature.

use core::num::NonZeroU32;
use poseidon_plan::records::{DropCause, MemorySink};
use poseidon_plan::switch::MarkDirection;
use poseidon_plan::traffic::Event;
use poseidon_plan::{Backend, Plan, Report, SwitchPort};
use poseidon_sim::Simulator;
use poseidon_testkit::plans::feature_plans;
use poseidon_types::{Bytes, MessageId, Picos};

fn run(simulator: Simulator, plan: &Plan) -> (Report, MemorySink) {
    let mut rows = MemorySink::default();
    let report = simulator.run(plan, &mut rows).expect("the plan runs");
    (report, rows)
}

fn threads(threads: u32) -> Simulator {
    Simulator::with_threads(NonZeroU32::new(threads).expect("the number is not zero"))
}

#[test]
fn results_of_all_features_do_not_depend_on_the_number_of_threads() {
    for (name, plan) in feature_plans() {
        let single = run(threads(1), &plan);
        assert_feature_exercised(name, &plan, &single.0, &single.1);
        for thread_count in [2, 3, 4, 8] {
            let other = run(threads(thread_count), &plan);
            assert_eq!(other.0, single.0, "{name}: report with {thread_count} threads");
            assert!(other.1 == single.1, "{name}: rows with {thread_count} threads");
        }
        // Wire-format telemetry also crosses shards.
        let wire_format = run(Simulator { wire_format_telemetry: true, ..threads(3) }, &plan);
        assert!(wire_format == single, "{name}: wire-format telemetry");
    }
}

/// Checks that the run exercised the feature under test. An empty run would be identical on any number of
/// threads.
fn assert_feature_exercised(name: &str, plan: &Plan, report: &Report, rows: &MemorySink) {
    let drops = |cause| rows.drops.iter().filter(|row| row.cause == cause).count();
    let sent = |watched: SwitchPort| {
        rows.queues
            .iter()
            .filter(|row| SwitchPort::new(row.switch, row.port) == watched)
            .map(|row| row.sent.get())
            .max()
    };
    let finished = rows.messages.len();
    let exercised = match name {
        "poseidon" => {
            let with_delay = rows.decisions.iter().filter(|row| row.hop_delay.is_some()).count();
            report.decisions_with_telemetry == report.decisions
                && finished == 16
                && !rows.queues.is_empty()
                && !rows.senders.is_empty()
                && !rows.receivers.is_empty()
                && with_delay > 100
        }
        "hpcc-records" | "powertcp-records" => {
            let largest_queue = rows.decisions.iter().filter_map(|row| row.hop_queue).max();
            report.decisions_with_telemetry > 500 && largest_queue > Some(plan.transport.mtu * 10)
        }
        "dctcp-marks" => report.marks > 50 && report.decisions > 500,
        "reverse-marks" | "reverse-marks-per-port" => {
            let mut forward = plan.clone();
            forward.switch.mark_direction = MarkDirection::Forward;
            report.marks > 20 && run(threads(1), &forward).0.result_hash != report.result_hash
        }
        "notifications" => report.replies > report.delivered && report.marks > 50,
        "link-fails" => drops(DropCause::Link) > 10 && report.retransmitted > 10 && report.timeouts > 0,
        "impaired-links" => drops(DropCause::Loss) > 10 && report.retransmitted > 10 && finished > 8,
        "link-flaps" => drops(DropCause::Link) > 10 && report.retransmitted > 10 && finished == 16,
        "flow-control" => report.pauses > 10 && report.dropped == 0,
        "plb" => report.repaths > 0,
        // The packet links of five racks cannot carry this much traffic, so circuits must have carried some
        // of it.
        "rotor" => report.delivered_bytes.get() > 5 * 25_000_000_000 / 8 / 2_000,
        "rails" => {
            drops(DropCause::Link) > 0 && plan.watched_ports.iter().all(|nic| sent(*nic) > Some(500_000))
        }
        "own-policies" => {
            let mut shared = plan.clone();
            shared.switch_overrides.clear();
            let (shared, _) = run(threads(1), &shared);
            report.marks > 20 && drops(DropCause::Buffer) > 0 && (shared.marks, shared.dropped) == (0, 0)
        }
        "edges" => finished == 6 && report.packet_hops > 3 * report.sent,
        "coalesced-acks" => finished == 12 && report.replies * 2 < report.delivered && report.marks > 0,
        "priorities" => {
            let last_finish = |priority| {
                let has_priority = |row: &&poseidon_plan::records::MessageRow| {
                    plan.connections[plan.messages[row.message.index()].connection.index()].priority
                        == priority
                };
                rows.messages.iter().filter(has_priority).map(|row| row.acknowledged).max()
            };
            last_finish(1).is_some() && last_finish(1) < last_finish(2) && last_finish(2) < last_finish(3)
        }
        "spraying" => plan.watched_ports.iter().all(|uplink| sent(*uplink) > Some(100_000)),
        "trimming" => report.trimmed > 50 && report.nacks > 50 && report.retransmitted > 50 && finished == 12,
        "credits" => {
            let mut without = plan.clone();
            without.transport.credits = None;
            let differs = run(threads(1), &without).0.result_hash != report.result_hash;
            finished == 12 && report.replies > report.nacks && differs
        }
        "slow-links" => {
            let mut equal = plan.clone();
            equal.slow_ports.clear();
            finished == 16 && run(threads(1), &equal).0.result_hash != report.result_hash
        }
        "dependencies" => finished == plan.messages.len() && dependencies_hold(plan, rows),
        "joins" => finished == plan.messages.len() && joins_hold(plan, rows),
        "rings" => {
            // Blocks of 10 kB are two messages.
            finished == 3 * 2 * 12 * 22 * 2 && rows.received.len() == finished
        }
        "go-back-n" => drops(DropCause::Buffer) > 10 && report.retransmitted > report.dropped,
        "parking-lot" => finished == 2 && report.in_flight > 0,
        "one-rack" => drops(DropCause::Buffer) > 0 && finished == 8,
        // Nothing is lost: every byte is delivered, and every trimmed packet is reported and sent again.
        _ if name.starts_with("uet-") => {
            let trimmed = rows.trims.iter().map(|row| row.trimmed).sum::<u64>();
            finished == plan.messages.len()
                && report.trimmed > 0
                && report.trimmed == trimmed
                && report.delivered_bytes == payload_of(plan)
        }
        "many-hosts" => finished == 128 && report.packet_hops > 30_000,
        _ => panic!("{name}: no check for this plan"),
    };
    assert!(exercised, "{name}: {report:?}, {finished} messages finished");
}

/// Returns the payload of all messages.
fn payload_of(plan: &Plan) -> Bytes {
    Bytes::new(plan.messages.iter().filter_map(|message| message.amount.bytes()).map(Bytes::get).sum())
}

/// Returns whether every message started only after its dependencies were met.
fn dependencies_hold(plan: &Plan, rows: &MemorySink) -> bool {
    let row = |message: MessageId| {
        rows.messages.iter().find(|row| row.message == message).expect("the message has finished")
    };
    let received = |message: MessageId| {
        rows.received.iter().find(|row| row.message == message).expect("the message was received")
    };
    plan.dependencies.iter().all(|dependency| {
        let event: Picos = match dependency.event {
            Event::Received => received(dependency.prerequisite).time,
            Event::Acknowledged => row(dependency.prerequisite).acknowledged,
        };
        row(dependency.dependent).start >= event + plan.messages[dependency.dependent.index()].start
    })
}

/// Returns whether every message started when the last of its joins was complete. Each join must have a message that
/// waits for it.
fn joins_hold(plan: &Plan, rows: &MemorySink) -> bool {
    let row = |message: MessageId| {
        rows.messages.iter().find(|row| row.message == message).expect("the message has finished")
    };
    let received = |message: MessageId| {
        rows.received.iter().find(|row| row.message == message).expect("the message was received")
    };
    let mut complete = vec![Picos::ZERO; plan.joins.len()];
    for event in &plan.joins.prerequisites {
        assert_eq!(event.event, Event::Received, "a direct all-reduce only waits for data");
        let time = received(event.message).time + plan.joins.delays[event.join.index()];
        complete[event.join.index()] = complete[event.join.index()].max(time);
    }
    let mut last_join = vec![Picos::ZERO; plan.messages.len()];
    for dependent in &plan.joins.dependents {
        let last = &mut last_join[dependent.message.index()];
        *last = complete[dependent.join.index()].max(*last);
    }
    let messages = (0..).map(MessageId::new).zip(last_join);
    let waited: Vec<_> = messages.filter(|(_, last_join)| !last_join.is_zero()).collect();
    plan.joins.len() > 30 && waited.into_iter().all(|(message, last_join)| row(message).start == last_join)
}
