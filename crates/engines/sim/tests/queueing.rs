//! Checks the simulator against queueing theory. Random arrivals at one port are compared with Lindley's
//! recursion for each packet and with the Pollaczek-Khinchine mean for M/D/1.

use core::num::NonZeroU32;
use poseidon_plan::records::{DropRow, MessageRow, Sink};
use poseidon_plan::switch::PerQueue;
use poseidon_plan::traffic::{Amount, Message};
use poseidon_plan::{Backend, Link, Plan, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::{SplitMix64, plans};
use poseidon_types::{BitRate, Bytes, ConnectionId, HostId, Nanos, Picos};

/// The number of senders, which is large enough that two packets rarely queue at the same sender.
const SENDERS: u32 = 256;
/// The service time of one packet: 1500 B at 10 Gbps.
const SERVICE_PS: f64 = 1_200_000.0;

/// Records the waiting times of single-packet messages: their completion times minus the base RTT.
struct WaitingTimes<'a> {
    plan: &'a Plan,
    base_rtt: u64,
    waits: Vec<u64>,
}

impl Sink for WaitingTimes<'_> {
    fn record_message(&mut self, row: MessageRow) {
        let duration = (row.acknowledged - row.start).get();
        assert_eq!(row.start, self.plan.messages[row.message.index()].start);
        self.waits[row.message.index()] = duration - self.base_rtt;
    }
    fn record_drop(&mut self, row: DropRow) {
        panic!("a packet was dropped: {row:?}");
    }
}

/// Builds a plan with Poisson arrivals whose offered load is `load` times the shared link's capacity.
fn plan(load: f64, packets: u32) -> Plan {
    // The senders' links are ten times faster, so they do not smooth the arrivals.
    let fast = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };
    let slow = Link { rate: BitRate::from_gbps(10), delay: Picos::new(1_000_000) };
    let mut rng = SplitMix64::new(42);
    let mut now = 0.0;
    let messages = (0..packets)
        .map(|_| {
            // `1 - unit()` is never zero.
            now -= (1.0 - rng.unit()).ln() * SERVICE_PS / load;
            let connection = u32::try_from(rng.below(u64::from(SENDERS))).expect("the number is small");
            let connection = ConnectionId::new(connection);
            Message {
                connection,
                start: Picos::new(floor_to_u64(now)),
                amount: Amount::Exactly(Bytes::new(1_500)),
            }
        })
        .collect();
    // The senders are to the left of the slow link, and the receiver is to its right.
    let ends: Vec<_> = (0..SENDERS).map(|from| (from, SENDERS)).collect();
    let mut plan = plans::plan(Topology::dumbbell(SENDERS, fast, slow), "fixed", &ends);
    plan.laws[0].set("window", "32768 packets").expect("the value is valid");
    plan.stop = Picos::MAX;
    plan.switch.pipeline = Picos::ZERO;
    plan.switch.buffer = PerQueue { size: Bytes::new(1 << 30) }.into();
    plan.transport.mtu = Bytes::new(1_500);
    plan.transport.ack = Bytes::new(1);
    plan.transport.min_rto = Nanos::from_millis(1_000_000);
    plan.transport.first_rto = Nanos::from_millis(1_000_000);
    plan.messages = messages;
    plan
}

fn simulated_waits(plan: &Plan) -> Vec<u64> {
    let base_rtt = plan.base_rtt(HostId::new(0), HostId::new(SENDERS)).get();
    let mut sink = WaitingTimes { plan, base_rtt, waits: vec![u64::MAX; plan.messages.len()] };
    // A single busy port cannot benefit from a second thread.
    let report = Simulator::with_threads(NonZeroU32::MIN).run(plan, &mut sink).expect("the plan runs");
    assert_eq!((report.dropped, report.in_flight), (0, 0));
    sink.waits
}

/// Computes the waiting times with Lindley's recursion: first at the sender's link, then at the shared link.
fn lindley_waits(plan: &Plan) -> Vec<u64> {
    let (sender_time, shared_time) = (120_000, 1_200_000);
    let mut free = vec![0; SENDERS as usize];
    let mut arrivals: Vec<(u64, ConnectionId, usize)> = (plan.messages.iter().enumerate())
        .map(|(index, message)| {
            let wire = &mut free[message.connection.index()];
            *wire = message.start.get().max(*wire) + sender_time;
            (*wire, message.connection, index)
        })
        .collect();
    // If two packets arrive at the same time, the packet at the lower-numbered port goes first.
    arrivals.sort_unstable();
    let mut waits = vec![0; arrivals.len()];
    let mut free = 0;
    for (arrival, _, index) in arrivals {
        let departure = arrival.max(free);
        free = departure + shared_time;
        waits[index] = departure - plan.messages[index].start.get() - sender_time;
    }
    waits
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the test rounds times down")]
fn floor_to_u64(x: f64) -> u64 {
    x as u64
}

#[test]
fn every_waiting_time_follows_lindleys_recursion() {
    for load in [0.3, 0.6, 0.9, 0.99] {
        let plan = plan(load, 20_000);
        assert!(simulated_waits(&plan) == lindley_waits(&plan), "load {load}");
    }
}

#[test]
fn mean_waiting_time_matches_m_d_1() {
    for (load, packets) in [(0.3, 400_000), (0.6, 800_000), (0.9, 4_000_000)] {
        let waits = simulated_waits(&plan(load, packets));
        let mean = waits.iter().map(|wait| *wait as f64).sum::<f64>() / f64::from(packets);
        let theory = SERVICE_PS * load / (2.0 * (1.0 - load));
        println!(
            "load {load}: {:.1} ns, theory {:.1} ns, {:+.2} %",
            mean / 1e3,
            theory / 1e3,
            (mean / theory - 1.0) * 100.0
        );
        assert!((mean / theory - 1.0).abs() < 0.01, "load {load}: {mean} {theory}");
    }
}
