//! Queueing theory: random arrivals at one port, held against Lindley's recursion packet by packet and against the
//! Pollaczek-Khinchine mean of M/D/1.

use core::num::NonZeroU32;
use poseidon_plan::records::{
    DecisionRow, DropRow, MessageRow, QueueRow, ReceivedRow, ReceiverRow, SenderRow, Sink,
};
use poseidon_plan::switch::PerQueue;
use poseidon_plan::traffic::{Amount, Message};
use poseidon_plan::{Backend, Link, Plan, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::{SplitMix64, plans};
use poseidon_types::{BitRate, Bytes, Nanos, Picos};

/// Senders; so many that two packets rarely meet at a sender's own wire.
const SENDERS: u32 = 256;
/// One packet: 1500 B at 10 Gbps.
const SERVICE_PS: f64 = 1_200_000.0;

/// Waits of single-packet messages: what they took beyond an empty path.
struct Waits<'a> {
    plan: &'a Plan,
    base: u64,
    waits: Vec<u64>,
}

impl Sink for Waits<'_> {
    fn message(&mut self, row: MessageRow) {
        let took = (row.acknowledged - row.start).get();
        assert_eq!(row.start, self.plan.messages[row.message as usize].at);
        self.waits[row.message as usize] = took - self.base;
    }
    fn drop(&mut self, row: DropRow) {
        panic!("a packet was dropped: {row:?}");
    }
    fn received(&mut self, _: ReceivedRow) {}
    fn queue(&mut self, _: QueueRow) {}
    fn sender(&mut self, _: SenderRow) {}
    fn receiver(&mut self, _: ReceiverRow) {}
    fn decision(&mut self, _: DecisionRow) {}
}

/// Packets that arrive at random, at a share of `load` of the receiver's link.
fn plan(load: f64, packets: u32) -> Plan {
    // Senders' own wires are ten times as fast, so that they do not smooth what they send.
    let fast = Link { rate: BitRate::from_gbps(100), delay: Picos::new(1_000_000) };
    let slow = Link { rate: BitRate::from_gbps(10), delay: Picos::new(1_000_000) };
    let mut rng = SplitMix64::new(42);
    let mut now = 0.0;
    let messages = (0..packets)
        .map(|_| {
            // One minus it is never zero.
            now -= (1.0 - rng.unit()).ln() * SERVICE_PS / load;
            let connection = u32::try_from(rng.below(u64::from(SENDERS))).expect("few");
            Message { connection, at: Picos::new(whole(now)), amount: Amount::Exactly(Bytes::new(1_500)) }
        })
        .collect();
    // Senders on the left, the receiver behind the slow link on the right.
    let ends: Vec<_> = (0..SENDERS).map(|from| (from, SENDERS)).collect();
    let mut plan = plans::plan(Topology::dumbbell(SENDERS, fast, slow), "fixed", &ends);
    plan.laws[0].set("window", "32768 packets").expect("reads");
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

fn waits(plan: &Plan) -> Vec<u64> {
    let base = plan.base_rtt(0, SENDERS).get();
    let mut sink = Waits { plan, base, waits: vec![u64::MAX; plan.messages.len()] };
    // One port has nothing for a second thread.
    let report = Simulator::with_threads(NonZeroU32::MIN).run(plan, &mut sink).expect("runs");
    assert_eq!((report.dropped, report.in_flight), (0, 0));
    sink.waits
}

/// Each packet waits until the one before it has been sent: first at its sender's own wire, then at the slow one.
fn lindley(plan: &Plan) -> Vec<u64> {
    let (own, shared) = (120_000, 1_200_000);
    let mut free = vec![0; SENDERS as usize];
    let mut arrivals: Vec<(u64, u32, usize)> = (plan.messages.iter().enumerate())
        .map(|(index, message)| {
            let wire = &mut free[message.connection as usize];
            *wire = message.at.get().max(*wire) + own;
            (*wire, message.connection, index)
        })
        .collect();
    // Of two that arrive at the same instant, the one at the lower port goes first.
    arrivals.sort_unstable();
    let mut waits = vec![0; arrivals.len()];
    let mut free = 0;
    for (at, _, index) in arrivals {
        let starts = at.max(free);
        free = starts + shared;
        waits[index] = starts - plan.messages[index].at.get() - own;
    }
    waits
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time in a test, rounded down")]
fn whole(x: f64) -> u64 {
    x as u64
}

#[test]
fn every_packet_waits_as_long_as_lindley_says() {
    for load in [0.3, 0.6, 0.9, 0.99] {
        let plan = plan(load, 20_000);
        assert!(waits(&plan) == lindley(&plan), "load {load}");
    }
}

#[test]
fn the_mean_wait_is_that_of_m_d_1() {
    for (load, packets) in [(0.3, 400_000), (0.6, 800_000), (0.9, 4_000_000)] {
        let waits = waits(&plan(load, packets));
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
