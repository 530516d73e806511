//! Checks that a recording does not change a run, that its rows do not depend on the number of threads, and that they
//! agree with the rows of the plain run.

use core::num::NonZeroU32;
use poseidon_plan::recording::{NodePort, Recording};
use poseidon_plan::records::{
    CapturedKind, CapturedTelemetry, DropCause, MemorySink, PacketEvent, PacketRow, RecordedRows,
};
use poseidon_plan::switch::Stamp;
use poseidon_plan::topology::Node;
use poseidon_plan::{Backend, Plan, PlanError, Report, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans::{connection_ids, feature_plans};
use poseidon_types::{HostId, Picos, PortId, SwitchId};
use std::collections::BTreeMap;

fn threads(threads: u32) -> Simulator {
    Simulator::with_threads(NonZeroU32::new(threads).expect("the number is not zero"))
}

fn record(simulator: Simulator, plan: &Plan, recording: &Recording) -> (Report, MemorySink) {
    let mut rows = MemorySink::default();
    let report = simulator.record(plan, recording, &mut rows).expect("the plan runs");
    (report, rows)
}

/// Records everything, at every port. A rotor supports no captures.
fn everything(plan: &Plan) -> Recording {
    let hosts = plan.topology.host_ids().map(|host| NodePort::new(Node::Host(host), PortId::new(0)));
    let ports_of = |switch| {
        let count = threads(1).port_count(plan, switch);
        (0..count).map(move |port| NodePort::new(Node::Switch(switch), PortId::new(port)))
    };
    let switches = plan.topology.switch_ids().flat_map(ports_of);
    let captured_ports = match plan.topology {
        Topology::Rotor(_) => Vec::new(),
        _ => hosts.chain(switches).collect(),
    };
    Recording {
        marks: true,
        pauses: true,
        law_states_every: Picos::new(1_000_000),
        captured_ports,
        ..Recording::NOTHING
    }
}

fn plan(name: &str) -> Plan {
    feature_plans().into_iter().find(|(found, _)| *found == name).expect("the plan exists").1
}

#[test]
fn a_recording_does_not_change_the_run_and_does_not_depend_on_the_number_of_threads() {
    for (name, mut plan) in feature_plans() {
        if plan.watched_connections.is_empty() {
            plan.watched_connections = connection_ids([0]);
            plan.sample_every = Picos::new(10_000_000);
        }
        let recording = everything(&plan);
        let plain = record(threads(1), &plan, &Recording::NOTHING);
        let single = record(threads(1), &plan, &recording);
        assert_eq!(single.0, plain.0, "{name}: report");
        let without_recorded = MemorySink { recorded: RecordedRows::default(), ..single.1.clone() };
        assert!(without_recorded == plain.1, "{name}: rows of the plan");
        assert_eq!(plain.1.recorded, RecordedRows::default(), "{name}: a plain run records nothing");
        for thread_count in [2, 4] {
            let other = record(threads(thread_count), &plan, &recording);
            assert!(other == single, "{name}: {thread_count} threads");
        }
        check_rows(name, &plan, &single.0, &single.1);
    }
}

/// Checks the recorded rows against the report and the rows of the plan.
fn check_rows(name: &str, plan: &Plan, report: &Report, rows: &MemorySink) {
    let RecordedRows { marks, pauses, law_states, packets } = &rows.recorded;
    assert_eq!(marks.len() as u64, report.marks, "{name}");
    assert_eq!(pauses.is_empty(), report.pauses == 0, "{name}");
    assert!(!law_states.is_empty(), "{name}");
    assert!(packets.is_sorted_by_key(|row| row.time), "{name}: captured packets are in order of time");
    if matches!(plan.topology, Topology::Rotor(_)) {
        return;
    }
    let count = |accept: &dyn Fn(&&PacketRow) -> bool| packets.iter().filter(accept).count() as u64;
    let is_host = |row: &&PacketRow| matches!(row.port.node, Node::Host(_));
    let is_data = |row: &&PacketRow| row.packet.kind == CapturedKind::Data;
    let sent_data = count(&|row| row.event == PacketEvent::Sent && is_host(row) && is_data(row));
    assert_eq!(sent_data, report.sent, "{name}: every data packet leaves its host once");
    let received_data = count(&|row| row.event == PacketEvent::Received && is_host(row) && is_data(row));
    assert_eq!(received_data, report.delivered, "{name}: every delivered packet arrives once");
    // A packet that a link loses was sent too.
    let lost = PacketEvent::Dropped(DropCause::Loss);
    let sent = count(&|row| row.event == PacketEvent::Sent || row.event == lost);
    assert_eq!(sent, report.packet_hops, "{name}");
    // Packets that find no route have no egress port.
    let drops = count(&|row| matches!(row.event, PacketEvent::Dropped(_)));
    let with_port = rows.drops.iter().filter(|drop| {
        packets.iter().any(|row| {
            (row.time, row.packet.connection, row.packet.number) == (drop.time, drop.connection, drop.packet)
                && row.event == PacketEvent::Dropped(drop.cause)
        })
    });
    assert_eq!(drops, with_port.count() as u64, "{name}: every captured drop is a drop");
    if report.dropped > 0 && !["link-fails", "link-flaps", "rails"].contains(&name) {
        assert_eq!(drops, report.dropped, "{name}: full buffers drop at a port");
    }
}

#[test]
fn law_states_equal_the_logged_decisions_and_keep_their_distance() {
    for name in ["poseidon", "hpcc-records"] {
        let plan = plan(name);
        let every = Picos::new(5_000_000);
        let recording = Recording { law_states_every: every, ..Recording::NOTHING };
        let (_, rows) = record(threads(1), &plan, &recording);
        let states = &rows.recorded.law_states;
        assert!(states.len() > 30 && states.len() < rows.decisions.len(), "{name}: {}", states.len());
        let mut last = BTreeMap::new();
        for state in states {
            let decision = rows.decisions.iter().find(|decision| {
                (decision.time, decision.connection, decision.packet)
                    == (state.time, state.connection, state.packet)
            });
            let decision = decision.expect("every law state belongs to an ACK");
            assert_eq!((decision.window, decision.hop_delay), (state.window, state.hop_delay));
            assert_eq!(decision.rtt, state.rtt);
            assert_eq!(state.target.is_some(), name == "poseidon", "{name}");
            let interval = state.time.get() / every.get();
            assert_ne!(last.insert(state.connection, interval), Some(interval), "one state per interval");
        }
    }
}

#[test]
fn captured_telemetry_is_what_the_law_reads() {
    for name in ["poseidon", "hpcc-records", "powertcp-records"] {
        let plan = plan(name);
        let (_, rows) = record(threads(1), &plan, &everything(&plan));
        let mut compared = 0;
        for decision in &rows.decisions {
            let sender = plan.connections[decision.connection.index()].from;
            let port = NodePort::new(Node::Host(sender), PortId::new(0));
            let is_ack = |row: &&PacketRow| {
                row.port == port
                    && row.time == decision.time
                    && row.event == PacketEvent::Received
                    && row.packet.connection == decision.connection
                    && row.packet.number == decision.packet
            };
            let ack = rows.recorded.packets.iter().find(is_ack).expect("the ACK was captured");
            match ack.packet.telemetry {
                CapturedTelemetry::MaxHopDelay { reflected, .. } => {
                    // The law reads the delay in steps of 256 ns.
                    let delay = reflected.delay().map(|delay| delay.get() / 256 * 256);
                    assert_eq!(delay, decision.hop_delay.map(|delay| delay.get()), "{name}");
                }
                CapturedTelemetry::HopRecords(records) => {
                    let queue = records.as_slice().iter().map(|record| record.queue).max();
                    assert_eq!(queue, decision.hop_queue, "{name}");
                }
                CapturedTelemetry::None => assert_eq!(plan.switch.stamp, Stamp::Off, "{name}"),
            }
            compared += 1;
        }
        assert!(compared > 100, "{name}: {compared} ACKs");
    }
}

#[test]
fn pauses_begin_and_end_in_turn() {
    let plan = plan("flow-control");
    let (report, rows) = record(threads(1), &plan, &everything(&plan));
    let mut paused = BTreeMap::new();
    for row in &rows.recorded.pauses {
        let was_paused = paused.insert((row.port, row.priority), row.paused).unwrap_or(false);
        assert_ne!(was_paused, row.paused, "a pause begins and ends in turn");
    }
    let begins = rows.recorded.pauses.iter().filter(|row| row.paused).count() as u64;
    assert!(begins > 0 && begins <= report.pauses);
    let frames = |kind| {
        let is_sent = |row: &&PacketRow| row.event == PacketEvent::Sent && row.packet.kind == kind;
        rows.recorded.packets.iter().filter(is_sent).count() as u64
    };
    assert_eq!(frames(CapturedKind::Pause), report.pauses, "every pause is a frame on a wire");
    assert!(frames(CapturedKind::Resume) > 0);
}

#[test]
fn only_the_window_is_recorded() {
    let plan = plan("dctcp-marks");
    let window = Picos::new(50_000_000)..Picos::new(100_000_000);
    let recording = Recording { window: window.clone(), ..everything(&plan) };
    let (_, rows) = record(threads(1), &plan, &recording);
    let (_, all) = record(threads(1), &plan, &everything(&plan));
    let inside: Vec<PacketRow> =
        all.recorded.packets.iter().filter(|row| window.contains(&row.time)).copied().collect();
    assert!(!inside.is_empty() && inside.len() < all.recorded.packets.len());
    assert!(rows.recorded.packets == inside);
    assert!(!rows.recorded.marks.is_empty());
    assert!(rows.recorded.marks.iter().all(|row| window.contains(&row.time)));
}

#[test]
fn unsupported_captures_are_rejected() {
    let rejects = |name: &str, node: Node, port: u32| {
        let captured_ports = vec![NodePort::new(node, PortId::new(port))];
        let recording = Recording { captured_ports, ..Recording::NOTHING };
        threads(1).record(&plan(name), &recording, &mut MemorySink::default()).err()
    };
    let host = |number| Node::Host(HostId::new(number));
    let switch = |number| Node::Switch(SwitchId::new(number));
    let missing = Some(PlanError::Setting("a captured port does not exist"));
    assert_eq!(rejects("poseidon", host(15), 0), None);
    assert_eq!(rejects("poseidon", host(16), 0), missing);
    assert_eq!(rejects("poseidon", host(0), 1), missing);
    assert_eq!(rejects("poseidon", switch(19), 3), None);
    assert_eq!(rejects("poseidon", switch(19), 4), missing);
    assert_eq!(rejects("poseidon", switch(20), 0), missing);
    assert!(matches!(rejects("rotor", host(0), 0), Some(PlanError::Unsupported(_))));
}
