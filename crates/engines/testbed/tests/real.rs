//! Plans on real packets: they give the records that they should, and nothing stays behind, however they end.

use core::time::Duration;
use poseidon_plan::records::Kept;
use poseidon_plan::switch::{AnyBuffer, DelayCarrier, PerQueue, Silence, Stamp};
use poseidon_plan::topology::Chain;
use poseidon_plan::traffic::{Amount, Message};
use poseidon_plan::{Backend as _, Link, Plan, Report, Topology};
use poseidon_testbed::{Testbed, room};
use poseidon_testkit::plans;
use poseidon_types::{BitRate, Bytes, Nanos, Picos};
use std::process::Command;
use std::{env, fs};

fn ms(time: u64) -> Picos {
    Picos::from_nanos(Nanos::from_millis(time))
}

/// Two switches and a link of 100 Mbit/s between them; hosts 0 and 1 send to hosts 2 and 3.
fn plan(law: &str, delay: Picos) -> Plan {
    let host_link = Link { rate: BitRate::from_gbps(1), delay };
    let middle_link = Link { rate: BitRate::from_mbps(100), delay: Picos::ZERO };
    let topology = Topology::Chain(Chain { switches: 2, hosts: 2, host_link, middle_link });
    let mut plan = plans::plan(topology, law, &[(0, 2), (1, 3)]);
    plan.stop = ms(1_500);
    plan.switch.buffer = AnyBuffer::PerQueue(PerQueue { size: Bytes::new(300_000) });
    plan.switch.stamp = Stamp::Off;
    plan.transport.mtu = Bytes::new(1_440);
    plan.transport.min_rto = Nanos::from_millis(200);
    plan.sample_every = ms(10);
    plan.watched = vec![(0, 2)];
    plan.watched_connections = vec![0, 1];
    if law == "poseidon" {
        plan.switch.stamp = Stamp::MaxHopDelay(DelayCarrier::Shim);
        let scaled = [
            ("target-floor", "300 us"),
            ("target-range", "4 ms"),
            ("min-rate", "100 kbps"),
            ("max-rate", "100 Mbps"),
        ];
        let set = |(name, value): (&str, &str)| plan.laws[0].set(name, value);
        scaled.map(set).into_iter().for_each(|set| set.expect("within the domain"));
    }
    plan
}

fn run(plan: &Plan) -> (Kept, Report) {
    let mut kept = Kept::default();
    let report = Testbed.run(plan, &mut kept).unwrap_or_else(|error| panic!("{error}"));
    (kept, report)
}

/// Mbit/s of each connection in the second half.
fn rates(kept: &Kept, stop: Picos) -> Vec<f64> {
    let at = |connection: u32, at: Picos| {
        let row = kept.receivers.iter().find(|row| row.connection == connection && row.at >= at);
        row.map_or(0, |row| row.received.get())
    };
    let half = Picos::new(stop.get() / 2);
    let seconds = half.get() as f64 / 1e12;
    [0, 1].map(|connection| (at(connection, stop) - at(connection, half)) as f64 * 8e-6 / seconds).to_vec()
}

/// What packets waited, in the middle of the second half's samples, ms.
fn median_delay(kept: &Kept, stop: Picos) -> f64 {
    let half = kept.queues.iter().filter(|row| row.at.get() > stop.get() / 2);
    let mut delays: Vec<u64> = half.map(|row| row.delay.get()).collect();
    delays.sort_unstable();
    delays[delays.len() / 2] as f64 / 1e6
}

/// The test itself, in a room. Outside of one it becomes the same test inside.
fn inside(work: impl FnOnce()) {
    if room::is_inside() {
        return work();
    }
    panic!("no room: {}", room::enter());
}

/// Two flows of each law share the link; Poseidon's queue is at T(1/2) = 0.7 ms, where CUBIC fills the 24 ms.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn laws_do_on_real_packets_what_they_do() {
    inside(|| {
        for (law, queue) in [("poseidon", 0.4..1.2), ("cubic", 5.0..25.0)] {
            let plan = plan(law, Picos::ZERO);
            let (kept, report) = run(&plan);
            let (rates, delay) = (rates(&kept, plan.stop), median_delay(&kept, plan.stop));
            println!("{law}: {rates:.1?} Mbit/s, {delay:.2} ms, {report:?}");
            assert!(rates.iter().sum::<f64>() > 70.0, "{law}: {rates:?}");
            assert!(queue.contains(&delay), "{law}: {delay} ms");
            assert_eq!(report.decisions_with_telemetry > 0, law == "poseidon");
            assert!(report.delivered_bytes.get() > 8_000_000, "{law}");
        }
    });
}

/// 20 ms from end to end and back: a message of one packet takes that, and a switch that falls silent is heard of.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn delays_are_as_long_as_they_should_be() {
    inside(|| {
        let mut plan = plan("poseidon", ms(5));
        let message =
            |at: u64| Message { connection: 0, at: ms(at), amount: Amount::Exactly(Bytes::new(100)) };
        plan.messages = (0..10).map(|nth| message(100 * nth)).collect();
        plan.silences = vec![Silence { switch: 0, from: ms(500), until: Picos::MAX }];
        let (kept, report) = run(&plan);
        assert_eq!((kept.messages.len(), kept.received.len()), (10, 10), "{report:?}");
        let mut took: Vec<f64> =
            kept.messages.iter().map(|row| (row.acknowledged.get() - row.start.get()) as f64 / 1e9).collect();
        took.sort_unstable_by(f64::total_cmp);
        println!("{took:.2?} ms");
        // Sleeping, threads and the delay line are late, never early.
        assert!((20.0..22.0).contains(&took[5]), "{took:?}");
        assert!(took[0] >= 20.0, "{took:?}");
    });
}

/// What a law in BPF leaves in the kernel while it runs.
fn is_registered() -> bool {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    fs::read_to_string(path).expect("there is TCP").split_whitespace().any(|name| name == "poseidon")
}

fn namespaces() -> usize {
    let listed = Command::new("lsns").args(["--type", "net", "--noheadings", "--output", "NS"]).output();
    String::from_utf8_lossy(&listed.expect("util-linux").stdout).lines().count()
}

/// Runs only for the next one.
#[test]
#[ignore = "not a test: killed_runs_leave_nothing starts it"]
fn a_run_that_would_take_long() {
    if env::var_os("POSEIDON_LONG").is_some() {
        inside(|| {
            let mut plan = plan("poseidon", ms(1));
            plan.stop = ms(60_000);
            run(&plan);
        });
    }
}

#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
#[expect(clippy::disallowed_methods, reason = "a kernel clears up in its own time")]
fn killed_runs_leave_nothing() {
    let wait = |what: &str, until: &dyn Fn() -> bool| {
        for _ in 0..200 {
            if until() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{what}: not within ten seconds");
    };
    room::clean().expect("root may");
    let before = namespaces();
    let mut long = Command::new(env::current_exe().expect("a test has a file"))
        .args(["--ignored", "--exact", "a_run_that_would_take_long"])
        .env("POSEIDON_LONG", "1")
        // In a room of its own, wherever this one stands.
        .env_remove(room::INSIDE)
        .spawn()
        .expect("this test runs");
    wait("it has begun", &is_registered);
    // In the middle of traffic.
    std::thread::sleep(Duration::from_millis(700));
    long.kill().expect("it runs");
    long.wait().expect("it is ours");
    wait("the congestion control is gone", &|| !is_registered());
    wait("the namespaces are gone", &|| namespaces() <= before);
    let left = room::clean().expect("root may");
    let own = format!("poseidon-testbed-{}", long.id());
    assert!(left.iter().any(|path| path.ends_with(&own)), "{own}: {left:?}");
    assert!(!room::clean().expect("root may").iter().any(|path| path.ends_with(&own)), "{own}");
}
