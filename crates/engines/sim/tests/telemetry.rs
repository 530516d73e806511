//! Checks that telemetry matches the computed queue state, and that decoded values match the wire format.

use poseidon_plan::records::MemorySink;
use poseidon_plan::switch::{DelayCarrier, PerQueue, RecordCarrier, Stamp, Step};
use poseidon_plan::traffic::{Amount, Message};
use poseidon_plan::{Backend, Link, Plan, Report, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::{SplitMix64, plans};
use poseidon_types::{BitRate, Bytes, ConnectionId, Nanos, Picos};

const SENDERS: u32 = 64;
const PACKETS: u32 = 20_000;

fn run(plan: &Plan) -> (MemorySink, Report) {
    run_with(&Simulator::default(), plan)
}

fn run_with(simulator: &Simulator, plan: &Plan) -> (MemorySink, Report) {
    let mut rows = MemorySink::default();
    let report = simulator.run(plan, &mut rows).expect("the plan runs");
    (rows, report)
}

/// Builds a plan in which many fast hosts send packets at random times over one slow link, so there is only
/// one queue.
fn one_queue_plan(stamp: Stamp) -> Plan {
    let fast = Link { rate: BitRate::from_gbps(200), delay: Picos::new(1_000_000) };
    let slow = Link { rate: BitRate::from_gbps(25), delay: Picos::new(1_000_000) };
    let ends: Vec<_> = (0..SENDERS).map(|from| (from, SENDERS)).collect();
    let mut plan = plans::plan(Topology::dumbbell(SENDERS, fast, slow), "fixed", &ends);
    plan.laws[0].set("window", "32768 packets").expect("the value is valid");
    plan.stop = Picos::MAX;
    plan.switch.stamp = stamp;
    plan.switch.buffer = PerQueue { size: Bytes::new(1 << 30) }.into();
    plan.transport.mtu = Bytes::new(1_000) - plan.data_overhead();
    plan.transport.min_rto = Nanos::from_millis(1_000_000);
    plan.transport.first_rto = Nanos::from_millis(1_000_000);
    let mut rng = SplitMix64::new(5);
    // A packet takes 320 ns on the slow link, and one packet arrives every 356 ns on average, so the load is
    // 0.9.
    let mut start_ps = 0;
    plan.messages = (0..PACKETS)
        .map(|_| {
            start_ps += rng.below(712_000);
            let connection = u32::try_from(rng.below(u64::from(SENDERS))).expect("the number is small");
            let connection = ConnectionId::new(connection);
            Message { connection, start: Picos::new(start_ps), amount: Amount::Exactly(plan.transport.mtu) }
        })
        .collect();
    plan.watched_connections = plans::connection_ids(0..SENDERS);
    plan.log_decisions = true;
    plan
}

/// Computes the waiting time of each packet at the slow link in ps, and the number of packets behind it when
/// it departs. A packet is identified by its connection and sequence number.
fn expected_queueing(plan: &Plan) -> Vec<((ConnectionId, u32), u64, u64)> {
    let (sender_time, shared_time) = (40_000, 320_000);
    let mut free = vec![0; SENDERS as usize];
    let mut sent = vec![0; SENDERS as usize];
    let mut arrivals: Vec<(u64, ConnectionId, u32)> = (plan.messages.iter())
        .map(|message| {
            let connection = message.connection.index();
            free[connection] = message.start.get().max(free[connection]) + sender_time;
            sent[connection] += 1;
            (free[connection], message.connection, sent[connection] - 1)
        })
        .collect();
    arrivals.sort_unstable();
    let mut free = 0;
    let mut departures = Vec::new();
    for (arrival, ..) in &arrivals {
        departures.push(free.max(*arrival));
        free = departures[departures.len() - 1] + shared_time;
    }
    (arrivals.iter().zip(&departures).enumerate())
        .map(|(index, ((arrival, connection, seq), departure))| {
            // Departures are processed before arrivals that occur at the same time.
            let arrived = arrivals.partition_point(|(other, ..)| other < departure).max(index + 1);
            ((*connection, *seq), departure - arrival, (arrived - index - 1) as u64)
        })
        .collect()
}

#[test]
fn hop_delay_equals_the_waiting_time_of_the_packet() {
    for (carrier, resolution) in [(DelayCarrier::Exact, 1), (DelayCarrier::Shim, 256)] {
        let plan = one_queue_plan(Stamp::MaxHopDelay(carrier));
        let (rows, _) = run(&plan);
        let mut seen: Vec<_> = (rows.decisions.iter())
            .map(|row| {
                ((row.connection, row.packet), row.hop_delay.expect("every hop writes telemetry").get())
            })
            .collect();
        let mut expected: Vec<_> = expected_queueing(&plan)
            .into_iter()
            .map(|(packet, waited, _)| (packet, waited / 1_000 / resolution * resolution))
            .collect();
        seen.sort_unstable();
        expected.sort_unstable();
        assert_eq!(seen.len(), PACKETS as usize);
        assert!(seen == expected, "{carrier:?}");
        assert!(expected.iter().filter(|(_, waited)| *waited > 1_000).count() > 1_000, "packets must queue");
    }
}

#[test]
fn hop_record_contains_the_queue_length_at_departure() {
    for (carrier, resolution) in [(RecordCarrier::Exact, 1), (RecordCarrier::HpccNs3, 80)] {
        let plan = one_queue_plan(Stamp::HopRecords(carrier));
        let (rows, _) = run(&plan);
        let mut seen: Vec<_> = (rows.decisions.iter())
            .map(|row| {
                ((row.connection, row.packet), row.hop_queue.expect("every hop writes telemetry").get())
            })
            .collect();
        let mut expected: Vec<_> = expected_queueing(&plan)
            .into_iter()
            .map(|(packet, _, queue_len)| (packet, queue_len * 1_000 / resolution * resolution))
            .collect();
        seen.sort_unstable();
        expected.sort_unstable();
        assert!(seen == expected, "{carrier:?}");
    }
}

/// Checks that wire-format telemetry leads to the same packets and decisions as decoded values.
#[test]
fn wire_format_does_not_change_the_result() {
    let table = [
        ("poseidon", Stamp::MaxHopDelay(DelayCarrier::Shim)),
        ("hpcc", Stamp::HopRecords(RecordCarrier::HpccNs3)),
        ("powertcp", Stamp::HopRecords(RecordCarrier::HpccNs3)),
    ];
    for (law, stamp) in table {
        let ends: Vec<_> = (0..16).map(|from| (from, (from * 7 + 5) % 16)).filter(|(a, b)| a != b).collect();
        let mut plan = plans::plan(Topology::fat_tree(4, plans::LINK), law, &ends);
        plan.stop = Picos::from_nanos(Nanos::from_millis(2));
        plan.switch.stamp = stamp;
        plan.switch.mark = Step { threshold: Bytes::new(50_000) }.into();
        plan.watched_connections =
            plans::connection_ids(0..u32::try_from(ends.len()).expect("the number is small"));
        plan.log_decisions = true;
        let decoded = run(&plan);
        let wire_format = run_with(&Simulator { wire_format_telemetry: true, ..Simulator::default() }, &plan);
        assert!(decoded.1.packet_hops > 100_000 && decoded.1.decisions_with_telemetry > 10_000, "{law}");
        assert!(decoded.0 == wire_format.0, "{law}: the rows differ");
        assert_eq!(decoded.1, wire_format.1, "{law}");
    }
}
