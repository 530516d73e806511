//! Who runs which part of the network, and how many they are, changes nothing: for one plan of each kind, in which that kind of
//! thing really happens.

use core::num::NonZeroU32;
use poseidon_plan::records::{DropCause, Kept};
use poseidon_plan::switch::Direction;
use poseidon_plan::traffic::Event;
use poseidon_plan::{Backend, Plan, Report};
use poseidon_sim::Simulator;
use poseidon_testkit::plans::varied;
use poseidon_types::Picos;

fn run(simulator: Simulator, plan: &Plan) -> (Report, Kept) {
    let mut kept = Kept::default();
    let report = simulator.run(plan, &mut kept).expect("runs");
    (report, kept)
}

fn threads(threads: u32) -> Simulator {
    Simulator::with_threads(NonZeroU32::new(threads).expect("some"))
}

#[test]
fn every_kind_of_plan_gives_the_same_on_any_number_of_threads() {
    for (name, plan) in varied() {
        let one = run(threads(1), &plan);
        really_happened(name, &plan, &one.0, &one.1);
        for more in [2, 3, 4, 8] {
            let other = run(threads(more), &plan);
            assert_eq!(other.0, one.0, "{name}: report of {more} threads");
            assert!(other.1 == one.1, "{name}: rows of {more} threads");
        }
        // Headers in bytes travel between shards too.
        let bytes = run(Simulator { through_bytes: true, ..threads(3) }, &plan);
        assert!(bytes == one, "{name}: in bytes");
    }
}

/// A plan in which nothing happens is the same on any number of threads, too.
fn really_happened(name: &str, plan: &Plan, report: &Report, kept: &Kept) {
    let drops = |cause| kept.drops.iter().filter(|row| row.cause == cause).count();
    let sent = |watched: (u32, u32)| {
        kept.queues.iter().filter(|row| (row.switch, row.port) == watched).map(|row| row.sent.get()).max()
    };
    let finished = kept.messages.len();
    let holds = match name {
        "poseidon" => {
            let told = kept.decisions.iter().filter(|row| row.hop_delay.is_some()).count();
            report.decisions_with_telemetry == report.decisions
                && finished == 16
                && !kept.queues.is_empty()
                && !kept.senders.is_empty()
                && !kept.receivers.is_empty()
                && told > 100
        }
        "hpcc-records" | "powertcp-records" => {
            let most = kept.decisions.iter().filter_map(|row| row.hop_queue).max();
            report.decisions_with_telemetry > 500 && most > Some(plan.transport.mtu * 10)
        }
        "dctcp-marks" => report.marks > 50 && report.decisions > 500,
        "reverse-marks" | "reverse-marks-per-port" => {
            let mut forward = plan.clone();
            forward.switch.marks_go = Direction::Forward;
            report.marks > 20 && run(threads(1), &forward).0.result_hash != report.result_hash
        }
        "notifications" => report.replies > report.delivered && report.marks > 50,
        "link-fails" => drops(DropCause::Link) > 10 && report.retransmitted > 10 && report.timeouts > 0,
        "link-flaps" => drops(DropCause::Link) > 10 && report.retransmitted > 10 && finished == 16,
        "flow-control" => report.pauses > 10 && report.dropped == 0,
        "plb" => report.repaths > 0,
        // More than the packet links of five racks carry: circuits have stood.
        "rotor" => report.delivered_bytes.get() > 5 * 25_000_000_000 / 8 / 2_000,
        "edges" => finished == 6 && report.packet_hops > 3 * report.sent,
        "coalesced-acks" => finished == 12 && report.replies * 2 < report.delivered && report.marks > 0,
        "priorities" => {
            let last = |priority| {
                let of = |row: &&poseidon_plan::records::MessageRow| {
                    plan.connections[plan.messages[row.message as usize].connection as usize].priority
                        == priority
                };
                kept.messages.iter().filter(of).map(|row| row.acknowledged).max()
            };
            last(1).is_some() && last(1) < last(2) && last(2) < last(3)
        }
        "spraying" => plan.watched.iter().all(|uplink| sent(*uplink) > Some(100_000)),
        "dependencies" => finished == plan.messages.len() && in_order(plan, kept),
        "go-back-n" => drops(DropCause::Buffer) > 10 && report.retransmitted > report.dropped,
        "parking-lot" => finished == 2 && report.in_flight > 0,
        "one-rack" => drops(DropCause::Buffer) > 0 && finished == 8,
        "many-hosts" => finished == 128 && report.packet_hops > 30_000,
        _ => panic!("{name}: nobody says what should happen in it"),
    };
    assert!(holds, "{name}: {report:?}, {finished} messages finished");
}

/// Nothing begins before what it waits for.
fn in_order(plan: &Plan, kept: &Kept) -> bool {
    let row = |message: u32| kept.messages.iter().find(|row| row.message == message).expect("finished");
    let received = |message: u32| kept.received.iter().find(|row| row.message == message).expect("received");
    plan.after.iter().all(|after| {
        let event: Picos = match after.event {
            Event::Received => received(after.message).at,
            Event::Acknowledged => row(after.message).acknowledged,
        };
        row(after.then).start >= event + plan.messages[after.then as usize].at
    })
}
