//! What laws are told is what happened: telemetry against the ground truth of the queue, and decoded values against real bytes.

use poseidon_plan::records::Kept;
use poseidon_plan::switch::{DelayCarrier, PerQueue, RecordCarrier, Stamp, Step};
use poseidon_plan::traffic::{Amount, Message};
use poseidon_plan::{Backend, Link, Plan, Report, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::{SplitMix64, plans};
use poseidon_types::{BitRate, Bytes, Nanos, Picos};

const SENDERS: u32 = 64;
const PACKETS: u32 = 20_000;

fn run(plan: &Plan) -> (Kept, Report) {
    run_with(&Simulator::default(), plan)
}

fn run_with(simulator: &Simulator, plan: &Plan) -> (Kept, Report) {
    let mut kept = Kept::default();
    let report = simulator.run(plan, &mut kept).expect("runs");
    (kept, report)
}

/// Packets at random times from many fast hosts over one slow link: one queue, which is the only one on the way.
fn one_queue(stamp: Stamp) -> Plan {
    let fast = Link { rate: BitRate::from_gbps(200), delay: Picos::new(1_000_000) };
    let slow = Link { rate: BitRate::from_gbps(25), delay: Picos::new(1_000_000) };
    let ends: Vec<_> = (0..SENDERS).map(|from| (from, SENDERS)).collect();
    let mut plan = plans::plan(Topology::dumbbell(SENDERS, fast, slow), "fixed", &ends);
    plan.laws[0].set("window", "32768 packets").expect("reads");
    plan.stop = Picos::MAX;
    plan.switch.stamp = stamp;
    plan.switch.buffer = PerQueue { size: Bytes::new(1 << 30) }.into();
    plan.transport.mtu = Bytes::new(1_000) - plan.data_overhead();
    plan.transport.min_rto = Nanos::from_millis(1_000_000);
    plan.transport.first_rto = Nanos::from_millis(1_000_000);
    let mut rng = SplitMix64::new(5);
    // 320 ns per packet at the slow link; one every 356 ns on average: a load of 0.9.
    let mut at = 0;
    plan.messages = (0..PACKETS)
        .map(|_| {
            at += rng.below(712_000);
            let connection = u32::try_from(rng.below(u64::from(SENDERS))).expect("few");
            Message { connection, at: Picos::new(at), amount: Amount::Exactly(plan.transport.mtu) }
        })
        .collect();
    plan.watched_connections = (0..SENDERS).collect();
    plan.log_decisions = true;
    plan
}

/// How long each packet waits at the slow link, ps, and how many wait behind it when it leaves; by connection and number.
fn truth(plan: &Plan) -> Vec<((u32, u32), u64, u64)> {
    let (own, shared) = (40_000, 320_000);
    let mut free = vec![0; SENDERS as usize];
    let mut sent = vec![0; SENDERS as usize];
    let mut arrivals: Vec<(u64, u32, u32)> = (plan.messages.iter())
        .map(|message| {
            let connection = message.connection as usize;
            free[connection] = message.at.get().max(free[connection]) + own;
            sent[connection] += 1;
            (free[connection], message.connection, sent[connection] - 1)
        })
        .collect();
    arrivals.sort_unstable();
    let mut last = 0;
    let mut starts = Vec::new();
    for (at, ..) in &arrivals {
        starts.push(last.max(*at));
        last = starts[starts.len() - 1] + shared;
    }
    (arrivals.iter().zip(&starts).enumerate())
        .map(|(index, ((at, connection, number), start))| {
            // What leaves goes before what arrives at the same instant.
            let come = arrivals.partition_point(|(other, ..)| other < start).max(index + 1);
            ((*connection, *number), start - at, (come - index - 1) as u64)
        })
        .collect()
}

#[test]
fn every_hop_delay_is_how_long_the_packet_waited() {
    for (carrier, grain) in [(DelayCarrier::Exact, 1), (DelayCarrier::Shim, 256)] {
        let plan = one_queue(Stamp::MaxHopDelay(carrier));
        let (kept, _) = run(&plan);
        let mut seen: Vec<_> = (kept.decisions.iter())
            .map(|row| ((row.connection, row.packet), row.hop_delay.expect("every hop measures").get()))
            .collect();
        let mut expected: Vec<_> = truth(&plan)
            .into_iter()
            .map(|(which, waited, _)| (which, waited / 1_000 / grain * grain))
            .collect();
        seen.sort_unstable();
        expected.sort_unstable();
        assert_eq!(seen.len(), PACKETS as usize);
        assert!(seen == expected, "{carrier:?}");
        assert!(expected.iter().filter(|(_, waited)| *waited > 1_000).count() > 1_000, "there was a queue");
    }
}

#[test]
fn every_hop_record_has_the_queue_that_the_packet_left_behind() {
    for (carrier, grain) in [(RecordCarrier::Exact, 1), (RecordCarrier::HpccNs3, 80)] {
        let plan = one_queue(Stamp::HopRecords(carrier));
        let (kept, _) = run(&plan);
        let mut seen: Vec<_> = (kept.decisions.iter())
            .map(|row| ((row.connection, row.packet), row.hop_queue.expect("every hop measures").get()))
            .collect();
        let mut expected: Vec<_> = truth(&plan)
            .into_iter()
            .map(|(which, _, behind)| (which, behind * 1_000 / grain * grain))
            .collect();
        seen.sort_unstable();
        expected.sort_unstable();
        assert!(seen == expected, "{carrier:?}");
    }
}

/// Telemetry that lives in the bytes of its format gives the same run as decoded values, packet by packet and decision by
/// decision.
#[test]
fn real_bytes_give_the_same_run() {
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
        plan.watched_connections = (0..u32::try_from(ends.len()).expect("few")).collect();
        plan.log_decisions = true;
        let decoded = run(&plan);
        let bytes = run_with(&Simulator { through_bytes: true, ..Simulator::default() }, &plan);
        assert!(decoded.1.packet_hops > 100_000 && decoded.1.decisions_with_telemetry > 10_000, "{law}");
        assert!(decoded.0 == bytes.0, "{law}: other rows");
        assert_eq!(decoded.1, bytes.1, "{law}");
    }
}
