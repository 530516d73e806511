//! Telemetry that vanishes, and telemetry that lies, on a bottleneck that queues.

mod common;

use common::Log;
use common::relay::{Does, Link, Relay};
use core::net::SocketAddr;
use core::time::Duration;
use poseidon_quic::perf::{ClientArgs, Interval, ServerArgs, Steering, Stop, Summary, run, serve};
use poseidon_quic::{Config, Decided, Mode};
use poseidon_types::{BitRate, Nanos};
use std::sync::Arc;
use tokio::sync::oneshot;

const RATE: u64 = 20_000_000;
/// Ten milliseconds there and back: longer than a busy machine lets a task wait, mostly.
const DELAY: Duration = Duration::from_millis(10);
const LINK: Link = Link { rate: Some(RATE), delay: DELAY, room: Duration::from_millis(400) };

fn config() -> Config {
    let mut config = Config::for_rate(BitRate::from_bps(RATE));
    // A relay in user space wakes up a millisecond or two late.
    config.slack = Nanos::from_millis(4);
    config
}

struct Outcome {
    summary: Summary,
    intervals: Vec<Interval>,
    log: Vec<Decided>,
    relay: Arc<Relay>,
}

impl Outcome {
    /// The longest time in which no byte was acknowledged, between the first ACK and the last.
    fn longest_hole(&self) -> Nanos {
        let acks: Vec<Nanos> =
            self.log.iter().filter(|decided| !decided.acked.is_zero()).map(|decided| decided.at).collect();
        acks.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(Nanos::ZERO)
    }

    fn median_rtt(&self) -> Nanos {
        let mut all: Vec<Nanos> = self.log.iter().map(|decided| decided.rtt).collect();
        all.sort_unstable();
        all[all.len() / 2]
    }

    fn mbps_between(&self, from: f64, to: f64) -> f64 {
        let inside = self.intervals.iter().filter(|at| at.from_s >= from - 0.05 && at.to_s <= to + 0.05);
        let (bytes, time) = inside.fold((0, 0.0), |(bytes, time), at| {
            (bytes + at.flows.iter().map(|flow| flow.bytes).sum::<u64>(), time + at.to_s - at.from_s)
        });
        bytes as f64 * 8.0 / 1e6 / time
    }
}

/// Sends through a relay that does one thing after another, for `phase` each; `watch` is told the mode at the end of each.
async fn through(phases: &[Does], phase: Duration, config: Config) -> Outcome {
    let (tell, told) = oneshot::channel::<SocketAddr>();
    let mut server = ServerArgs::new(Steering::Law(Box::new(config.clone())));
    server.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    server.once = true;
    let serving = tokio::spawn(serve(server, |address| {
        tell.send(address).expect("somebody waits");
    }));
    let relay = Relay::start(told.await.expect("it listens"), LINK, 0).await;
    relay.set(phases[0]);
    let log = Log::default();
    let write = Arc::clone(&log);
    let mut law = config;
    law.observer = Some(poseidon_quic::Observer(Arc::new(move |decided| {
        write.lock().expect("nobody panics").push(*decided)
    })));
    let mut client = ClientArgs::new(relay.address, Steering::Law(Box::new(law)));
    client.duration = phase * u32::try_from(phases.len()).expect("few");
    client.interval = Duration::from_millis(100);
    let switch = Arc::clone(&relay);
    let rest = phases[1..].to_vec();
    tokio::spawn(async move {
        for does in rest {
            tokio::time::sleep(phase).await;
            switch.set(does);
        }
    });
    let mut intervals = Vec::new();
    let summary = run(client, &Stop::default(), |interval| intervals.push(interval.clone()))
        .await
        .expect("it measures");
    serving.await.expect("no panic").expect("it served");
    let log = core::mem::take(&mut *log.lock().expect("nobody panics"));
    Outcome { summary, intervals, log, relay }
}

/// A transfer while a switch stops to stamp and begins again: it goes on, and says at each moment what it steers by.
async fn vanishing(phase: Duration) {
    let outcome = through(&[Does::Stamp, Does::Nothing, Does::Stamp], phase, config()).await;
    let mut modes: Vec<Mode> = outcome.log.iter().map(|decided| decided.mode).collect();
    modes.dedup();
    let (hole, rtt) = (outcome.longest_hole(), outcome.median_rtt());
    let phase = phase.as_secs_f64();
    let rates: Vec<f64> =
        (0..3).map(|at| outcome.mbps_between(phase * f64::from(at), phase * f64::from(at + 1))).collect();
    println!(
        "modes {modes:?}; longest hole {hole}, median RTT {rtt}; {rates:.1?} Mbit/s; {}",
        outcome.summary
    );
    println!(
        "\n{{\"test\":\"vanishing\",\"longest_hole_ns\":{},\"median_rtt_ns\":{},\"mbps\":[{:.3},{:.3},{:.3}]}}",
        hole.get(),
        rtt.get(),
        rates[0],
        rates[1],
        rates[2]
    );
    assert_eq!(modes, [Mode::Delay, Mode::Telemetry, Mode::Lost, Mode::Telemetry]);
    assert!(hole < rtt * 10, "{hole} without an ACK, RTT {rtt}");
    // What each interval's metrics say, in the middle of each phase.
    for (at, mode) in [(0.5, "telemetry"), (1.5, "lost"), (2.5, "telemetry")] {
        let interval =
            outcome.intervals.iter().find(|interval| interval.to_s >= at * phase).expect("so long");
        assert_eq!(interval.flows[0].mode, mode, "at {at} phases");
    }
    // How much of the link is used depends on how late the relay wakes up; that it is the same in all phases does not.
    assert!(rates[1] > 0.5 * rates[0] && rates[2] > 0.5 * rates[0], "{rates:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn telemetry_may_vanish_and_come_back() {
    vanishing(Duration::from_secs(2)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a minute: .ci/long"]
async fn vanishing_long() {
    vanishing(Duration::from_secs(20)).await;
}

/// A switch that hides its queue: the round trip gives it away beyond the guard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hidden_queue_is_bounded() {
    let mut config = config();
    config.guard = Nanos::from_millis(20);
    let outcome = through(&[Does::Hide], Duration::from_secs(4), config.clone()).await;
    let wait = Nanos::new(outcome.relay.longest_wait.load(core::sync::atomic::Ordering::Relaxed));
    let guarded = outcome.log.iter().filter(|decided| decided.told != decided.max_hop_delay).count();
    println!("{}; longest wait {wait}, {guarded} ACK frames guarded", outcome.summary);
    assert!(guarded > 0);
    // Guard, slack and the largest target, and what a window sends before the first sign comes back.
    assert!(wait < Nanos::from_millis(150), "{wait}");
    assert!(outcome.summary.goodput_mbps > 0.5 * RATE as f64 / 1e6, "{}", outcome.summary);
}

/// A switch that inflates slows its flow down to the smallest window, and no further; when it stops, the flow recovers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_inflates_slows_and_does_not_stop() {
    let phases = [Does::Stamp, Does::Inflate, Does::Stamp];
    // What the bounds alone do: on a path this long a flow that is told of long queues for 32 round trips competes.
    let mut alone = config();
    alone.coexistence = false;
    let outcome = through(&phases, Duration::from_secs(2), alone).await;
    let (hole, rtt) = (outcome.longest_hole(), outcome.median_rtt());
    let [before, lied, after] =
        [(0.5, 2.0), (2.5, 4.0), (4.5, 6.0)].map(|(from, to)| outcome.mbps_between(from, to));
    println!(
        "{before:.2}, under the lie {lied:.2}, then {after:.2} Mbit/s; longest hole {hole}, median RTT {rtt}"
    );
    // Two packets per round trip are the least: 1.1 Mbit/s without a queue.
    assert!(lied > 0.3 && lied < 0.5 * before, "{lied}");
    assert!(after > 0.5 * before, "{before} and {after}");
    assert!(hole < rtt * 10, "{hole}, RTT {rtt}");
}

/// A switch that writes noise for a second costs stamps and no packets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_costs_stamps_and_no_packets() {
    let outcome = through(&[Does::Stamp, Does::Garble, Does::Stamp], Duration::from_secs(1), config()).await;
    let (hole, rtt) = (outcome.longest_hole(), outcome.median_rtt());
    println!("{}; longest hole {hole}, median RTT {rtt}", outcome.summary);
    assert!(hole < rtt * 10, "{hole}, RTT {rtt}");
    assert_eq!(outcome.summary.lost_packets, 0);
}
