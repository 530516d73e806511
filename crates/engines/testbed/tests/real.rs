//! Checks that plans produce the expected records with real packets, and that a run leaves nothing behind, even if it
//! is killed.

use core::time::Duration;
use poseidon_linux::tcp::ControlName;
use poseidon_plan::records::MemorySink;
use poseidon_plan::stack::{Controller, StackKind, StackLaw};
use poseidon_plan::switch::{
    AnyBufferPolicy, AnyMarkPolicy, CodelRfc, DelayCarrier, PerQueue, Stamp, TelemetryOff,
};
use poseidon_plan::topology::Chain;
use poseidon_plan::traffic::{Amount, Message};
use poseidon_plan::{Backend as _, Link, Plan, Report, SwitchPort, Topology};
use poseidon_stacks::STACKS;
use poseidon_testbed::{Testbed, private_netns};
use poseidon_testkit::plans;
use poseidon_types::{BitRate, Bytes, ConnectionId, Nanos, Picos, PortId, SwitchId};
use std::process::Command;
use std::{env, fs};

fn ms(time: u64) -> Picos {
    Picos::from_nanos(Nanos::from_millis(time))
}

/// Builds a plan with two switches connected by a 100 Mbit/s link. Hosts 0 and 1 send to hosts 2 and 3.
fn plan(law: &str, delay: Picos) -> Plan {
    let host_link = Link { rate: BitRate::from_gbps(1), delay };
    let middle_link = Link { rate: BitRate::from_mbps(100), delay: Picos::ZERO };
    let topology = Topology::Chain(Chain { switches: 2, hosts: 2, host_link, middle_link });
    let mut plan = plans::plan(topology, law, &[(0, 2), (1, 3)]);
    plan.stop = ms(1_500);
    plan.switch.buffer = AnyBufferPolicy::PerQueue(PerQueue { size: Bytes::new(300_000) });
    plan.switch.stamp = Stamp::Off;
    plan.transport.mtu = Bytes::new(1_440);
    plan.transport.min_rto = Nanos::from_millis(200);
    plan.sample_every = ms(10);
    plan.watched_ports = vec![SwitchPort::new(SwitchId::new(0), PortId::new(2))];
    plan.watched_connections = vec![ConnectionId::new(0), ConnectionId::new(1)];
    if law == "poseidon" {
        plan.switch.stamp = Stamp::MaxHopDelay(DelayCarrier::Shim);
        let scaled = [
            ("target-floor", "300 us"),
            ("target-range", "4 ms"),
            ("min-rate", "100 kbps"),
            ("max-rate", "100 Mbps"),
        ];
        let set = |(name, value): (&str, &str)| plan.laws[0].set(name, value);
        scaled.map(set).into_iter().for_each(|result| result.expect("the value is in range"));
    }
    plan
}

fn run(plan: &Plan) -> (MemorySink, Report) {
    let mut sink = MemorySink::default();
    let report =
        Testbed { stacks: Some(&STACKS) }.run(plan, &mut sink).unwrap_or_else(|error| panic!("{error}"));
    (sink, report)
}

/// Returns each connection's rate over the second half of the run, in Mbit/s.
fn rates(sink: &MemorySink, stop: Picos) -> Vec<f64> {
    let received = |connection: u32, time: Picos| {
        let connection = ConnectionId::new(connection);
        let row = sink.receivers.iter().find(|row| row.connection == connection && row.time >= time);
        row.map_or(0, |row| row.received.get())
    };
    let half = Picos::new(stop.get() / 2);
    let seconds = half.get() as f64 / 1e12;
    [0, 1]
        .map(|connection| (received(connection, stop) - received(connection, half)) as f64 * 8e-6 / seconds)
        .to_vec()
}

/// Returns the median queueing delay over the second half of the run, in ms.
fn median_delay(sink: &MemorySink, stop: Picos) -> f64 {
    let half = sink.queues.iter().filter(|row| row.time.get() > stop.get() / 2);
    let mut delays: Vec<u64> = half.map(|row| row.delay.get()).collect();
    delays.sort_unstable();
    delays[delays.len() / 2] as f64 / 1e6
}

/// Runs `work` in private namespaces. If the process is outside the namespaces, it restarts the same test inside
/// them.
fn run_inside(work: impl FnOnce()) {
    if private_netns::is_inside() {
        return work();
    }
    panic!("cannot create private namespaces: {}", private_netns::exec_inside());
}

/// Two flows of each law share the link. Poseidon keeps the queue at T(1/2) = 0.7 ms, and CUBIC fills the 24 ms
/// buffer.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn laws_control_the_queue_on_real_packets() {
    run_inside(|| {
        for (law, queue) in [("poseidon", 0.4..1.2), ("cubic", 5.0..25.0)] {
            let plan = plan(law, Picos::ZERO);
            let (sink, report) = run(&plan);
            let (rates, delay) = (rates(&sink, plan.stop), median_delay(&sink, plan.stop));
            println!("{law}: {rates:.1?} Mbit/s, {delay:.2} ms, {report:?}");
            assert!(rates.iter().sum::<f64>() > 70.0, "{law}: {rates:?}");
            assert!(queue.contains(&delay), "{law}: {delay} ms");
            assert_eq!(report.decisions_with_telemetry > 0, law == "poseidon");
            assert!(report.delivered_bytes.get() > 8_000_000, "{law}");
        }
    });
}

/// The round-trip time is 20 ms, so a one-packet message takes 20 ms. A switch stops stamping during the run.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn link_delays_are_exact() {
    run_inside(|| {
        let mut plan = plan("poseidon", ms(5));
        let message = |start: u64| Message {
            connection: ConnectionId::new(0),
            start: ms(start),
            amount: Amount::Exactly(Bytes::new(100)),
        };
        plan.messages = (0..10).map(|index| message(100 * index)).collect();
        plan.telemetry_off =
            vec![TelemetryOff { switch: SwitchId::new(0), from: ms(500), until: Picos::MAX }];
        let (sink, report) = run(&plan);
        assert_eq!((sink.messages.len(), sink.received.len()), (10, 10), "{report:?}");
        let mut latencies: Vec<f64> =
            sink.messages.iter().map(|row| (row.acknowledged.get() - row.start.get()) as f64 / 1e9).collect();
        latencies.sort_unstable_by(f64::total_cmp);
        println!("{latencies:.2?} ms");
        // Timers, threads and the delay line may be late, but never early.
        assert!((20.0..22.0).contains(&latencies[5]), "{latencies:?}");
        assert!(latencies[0] >= 20.0, "{latencies:?}");
    });
}

/// Makes the connections of the only law run in quinn.
fn in_quinn(mut plan: Plan, controller: Option<Controller>) -> Plan {
    plan.stacks = vec![StackLaw { law: 0, stack: StackKind::Quinn, controller }];
    plan.transport.header = Bytes::new(70);
    plan
}

/// Two flows of each controller share the link over UDP. CUBIC fills the 24 ms buffer. Poseidon reads the telemetry that
/// the switch writes into the datagrams, and keeps the queue below 2 ms. With marks, NewReno's queue stays near the
/// target of CoDel.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn quinn_controls_the_queue_on_real_packets() {
    run_inside(|| {
        let mut marked = in_quinn(plan("cubic", Picos::ZERO), Some(Controller::NewReno));
        marked.switch.mark = AnyMarkPolicy::CodelRfc(CodelRfc::default());
        let cases = [
            ("poseidon", in_quinn(plan("poseidon", Picos::ZERO), None), 0.1..2.0),
            ("cubic", in_quinn(plan("cubic", Picos::ZERO), Some(Controller::Cubic)), 5.0..25.0),
            ("newreno with marks", marked, 0.0..12.0),
        ];
        for (name, plan, queue) in cases {
            let (sink, report) = run(&plan);
            let (rates, delay) = (rates(&sink, plan.stop), median_delay(&sink, plan.stop));
            println!("{name}: {rates:.1?} Mbit/s, {delay:.2} ms, {report:?}");
            assert!(rates.iter().sum::<f64>() > 60.0, "{name}: {rates:?}");
            assert!(queue.contains(&delay), "{name}: {delay} ms");
            assert!(report.delivered_bytes.get() > 8_000_000, "{name}");
            assert!(report.sent >= report.delivered && report.delivered > 8_000, "{name}: {report:?}");
            assert!(sink.senders.iter().any(|row| row.srtt.get() > 0 && row.in_flight > 0), "{name}");
            assert_eq!(report.marks > 0, plan.switch.mark != AnyMarkPolicy::OFF, "{name}: {report:?}");
        }
    });
}

/// The round-trip time is 20 ms. The first message includes the handshake, so it arrives after 30 ms, and the others after
/// 10 ms.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn messages_in_quinn_arrive_after_the_link_delay() {
    run_inside(|| {
        let mut plan = in_quinn(plan("cubic", ms(5)), Some(Controller::Cubic));
        let message = |start: u64| Message {
            connection: ConnectionId::new(0),
            start: ms(start),
            amount: Amount::Exactly(Bytes::new(100)),
        };
        plan.messages = (0..10).map(|index| message(100 * index)).collect();
        let (sink, report) = run(&plan);
        assert_eq!((sink.messages.len(), sink.received.len()), (10, 10), "{report:?}");
        let starts = sink.received.iter().map(|row| plan.messages[row.message.index()].start);
        let latencies: Vec<f64> = starts
            .zip(&sink.received)
            .map(|(start, row)| (row.time.get() - start.get()) as f64 / 1e9)
            .collect();
        println!("{latencies:.2?} ms");
        let mut later = latencies[1..].to_vec();
        later.sort_unstable_by(f64::total_cmp);
        // Timers, threads and the delay line may be late, but never early.
        assert!(latencies[0] >= 30.0 && later[0] >= 10.0, "{latencies:?}");
        assert!((10.0..12.0).contains(&later[4]), "{latencies:?}");
    });
}

/// Returns whether a process's congestion control is registered.
fn is_registered(process: u32) -> bool {
    let control = ControlName::for_process(process);
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    fs::read_to_string(path)
        .expect("the kernel has TCP")
        .split_whitespace()
        .any(|name| name == control.as_str())
}

fn count_namespaces() -> usize {
    let listed = Command::new("lsns").args(["--type", "net", "--noheadings", "--output", "NS"]).output();
    String::from_utf8_lossy(&listed.expect("lsns is installed (util-linux)").stdout).lines().count()
}

/// This is not a test by itself. The next test starts it in another process.
#[test]
#[ignore = "not a test: killed_runs_leave_nothing_behind starts it"]
fn long_run() {
    if env::var_os("POSEIDON_LONG").is_some() {
        run_inside(|| {
            let mut plan = plan("poseidon", ms(1));
            plan.stop = ms(60_000);
            run(&plan);
        });
    }
}

#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
#[expect(clippy::disallowed_methods, reason = "the kernel needs time to remove namespaces")]
fn killed_runs_leave_nothing_behind() {
    let wait = |what: &str, until: &dyn Fn() -> bool| {
        for _ in 0..200 {
            if until() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{what}: timed out after ten seconds");
    };
    private_netns::remove_stale_cgroups().expect("root may remove cgroups");
    let before = count_namespaces();
    let mut child = Command::new(env::current_exe().expect("a test program has a path"))
        .args(["--ignored", "--exact", "long_run"])
        .env("POSEIDON_LONG", "1")
        // The other process creates its own private namespaces.
        .env_remove(private_netns::INSIDE)
        .spawn()
        .expect("the test program can be started");
    wait("the congestion control is registered", &|| is_registered(child.id()));
    // Kill the process while it is sending.
    std::thread::sleep(Duration::from_millis(700));
    child.kill().expect("the process is running");
    child.wait().expect("the process is a child");
    wait("the congestion control is gone", &|| !is_registered(child.id()));
    wait("the namespaces are gone", &|| count_namespaces() <= before);
    let removed = private_netns::remove_stale_cgroups().expect("root may remove cgroups");
    let cgroup = format!("poseidon-testbed-{}", child.id());
    assert!(removed.iter().any(|path| path.ends_with(&cgroup)), "{cgroup}: {removed:?}");
    assert!(
        !private_netns::remove_stale_cgroups()
            .expect("root may remove cgroups")
            .iter()
            .any(|path| path.ends_with(&cgroup)),
        "{cgroup}"
    );
}
