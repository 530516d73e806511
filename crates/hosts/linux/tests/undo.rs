//! Tests that the kernel never uses a wrong window when it undoes a window reduction (`undo_cwnd`).
//!
//! Packets are reordered, so TCP assumes losses, detects its error, and undoes the reduction. Meanwhile, the test
//! forges telemetry, and disables and enables Poseidon. A tracepoint outside our programs reads every window, and the
//! test checks the kernel log for warnings. On a kernel that skips our programs (see `poseidon doctor`), wrong windows
//! are unavoidable, and the test prints how many occurred. Needs root; `.ci/linux` runs the short form, and `.ci/long`
//! runs the long form.

mod network;
#[path = "network/port.rs"]
mod port;

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use libbpf_rs::{MapCore as _, MapFlags, Object};
use network::{Node, RECEIVER, TestNetwork};
use poseidon_linux::doctor::{State, run_checks};
use poseidon_linux::object::{AlignedBytes, load_object};
use poseidon_linux::tcp::{self, Settings};
use poseidon_types::BitRate;
use rustix::net::sockopt::{set_socket_linger, set_tcp_congestion};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;
use zerocopy::{FromBytes, Immutable, KnownLayout};

const PORT: u16 = 5_077;
/// The number of connections. Each connection lasts one second, because TCP adapts to reordering.
const CONNECTIONS: usize = 8;
const LIFETIME: Duration = Duration::from_secs(1);

static OBJECT: &AlignedBytes<[u8]> = &AlignedBytes(*include_bytes!(concat!(env!("OUT_DIR"), "/watch.bpf.o")));

#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn undo_short() {
    provoke_undos(10_000, 4);
}

#[test]
#[ignore = "needs root, a kernel with BPF and several minutes: .ci/long"]
fn undo_long() {
    provoke_undos(100_000, 200);
}

/// Provokes at least `undos` undone reductions while disabling and enabling Poseidon at least `cycles` times.
#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn provoke_undos(undos: u64, cycles: u32) {
    reset_warnings();
    let warnings_before = count_warnings();
    let network = TestNetwork::new(1_000, 300_000);
    let monitor = attach_monitor();
    add_detour(&network);
    let (stop, start) = (AtomicBool::new(false), Instant::now());
    let mut cycles_done = 0;
    enable();
    thread::scope(|scope| {
        scope.spawn(|| accept_connections(&network, &stop));
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    network.run_in(Node::Sender, send);
                }
            });
        }
        while count_undos(&network) < undos || cycles_done < cycles {
            thread::sleep(Duration::from_millis(300));
            tcp::disable().unwrap_or_else(|error| panic!("{error}"));
            enable();
            cycles_done += 1;
            assert!(start.elapsed() < Duration::from_secs(1_500), "only {} undos", count_undos(&network));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let (undone, windows) = (count_undos(&network), read_windows(&monitor));
    let always_run =
        run_checks().iter().any(|check| check.name == "programs always run" && check.state == State::Ok);
    tcp::disable().unwrap_or_else(|error| panic!("{error}"));
    drop(network);
    let warned = count_warnings() - warnings_before;
    println!(
        "{{\"test\": \"undo\", \"undos\": {undone}, \"switched\": {cycles_done}, \"windows\": {}, \"outside\": {}, \"largest\": {}, \"warnings\": {warned}}}",
        windows.samples, windows.outside, windows.largest
    );
    assert!(windows.samples > undone, "the tracepoint runs for every packet");
    if always_run {
        assert_eq!((windows.outside, warned), (0, 0), "last window outside: {}", windows.last_outside);
    } else {
        // A value from the stack may become the window until the next ACK.
        println!(
            "this kernel skips programs while process 1 is interrupted: {} wrong windows",
            windows.outside
        );
        assert!(windows.outside < undone / 500, "{} of {undone}", windows.outside);
    }
}

/// Enables Poseidon and joins its cgroup. Disabling it moves the process back.
fn enable() {
    let settings = Settings { default: false, ..Settings::for_rate(BitRate::from_gbps(1)) };
    let cgroup = tcp::enable(&settings).unwrap_or_else(|error| panic!("{error}"));
    fs::write(cgroup.join("cgroup.procs"), "0").expect("root may change cgroups");
}

/// Sends some of the receiver's packets over a slow link that leads back to the router. Also forges telemetry.
fn add_detour(network: &TestNetwork) {
    // A frame that returns to the router has the receiver's MAC address.
    const MAC: &str = "02:00:00:00:00:77";
    let run = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let status = Command::new(words[0]).args(&words[1..]).status().expect("iproute2 is installed");
        assert!(status.success(), "{line}");
    };
    let set = |name: &str, value: &str| {
        fs::write(format!("/proc/sys/net/ipv4/{name}"), value).expect("root may change settings")
    };
    network.run_in(Node::Receiver, || run(&format!("ip link set e0 address {MAC}")));
    let index = network.run_in(Node::Router, || {
        run(&format!("ip link add d0 type veth peer name d1 address {MAC}"));
        run("ip link set d0 up");
        run("ip link set d1 up");
        run("tc qdisc add dev d0 root tbf rate 100mbit burst 1600 limit 60000");
        set("conf/all/rp_filter", "0");
        set("conf/d1/rp_filter", "0");
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("the namespace has UDP");
        rustix::net::netdevice::name_to_index(&socket, "d0").expect("the device exists")
    });
    // Use RACK with a fixed reordering window, so that TCP keeps assuming losses.
    network.run_in(Node::Sender, || set("tcp_recovery", "3"));
    port::attach(network, "e1", "detour", [0, index]);
    // Write random telemetry into the ACKs.
    port::attach(network, "e0", "liar", [u32::from(PORT), 0x1_0000]);
}

#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn send() {
    let Ok(mut stream) = TcpStream::connect((RECEIVER, PORT)) else { return };
    // The congestion control is missing while Poseidon is disabled.
    if set_tcp_congestion(&stream, "poseidon").is_err() {
        return thread::sleep(Duration::from_millis(20));
    }
    let deadline = Instant::now() + LIFETIME;
    stream.set_write_timeout(Some(LIFETIME)).expect("the timeout is not zero");
    while Instant::now() < deadline && stream.write_all(&[7; 16 << 10]).is_ok() {}
    let _ = set_socket_linger(&stream, Some(Duration::ZERO));
}

#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn accept_connections(network: &TestNetwork, stop: &AtomicBool) {
    let listener =
        network.run_in(Node::Receiver, || TcpListener::bind((RECEIVER, PORT)).expect("the port is free"));
    listener.set_nonblocking(true).expect("the listener is a socket");
    thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            let Ok((mut stream, _)) = listener.accept() else {
                thread::sleep(Duration::from_millis(1));
                continue;
            };
            scope.spawn(move || {
                let _ = stream.set_nonblocking(false);
                let _ = stream.set_read_timeout(Some(2 * LIFETIME));
                let mut buffer = vec![0; 64 << 10];
                while matches!(stream.read(&mut buffer), Ok(1..)) {}
            });
        }
    });
}

/// Returns how often the sender's TCP stack has undone a reduction.
fn count_undos(network: &TestNetwork) -> u64 {
    let text = network.run_in(Node::Sender, || {
        fs::read_to_string("/proc/thread-self/net/netstat").expect("the file exists in Linux")
    });
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
    let (names, values) =
        (lines.next().expect("one line has the names"), lines.next().expect("the next line has the values"));
    names
        .split(' ')
        .zip(values.split(' '))
        .filter(|(name, _)| name.ends_with("Undo"))
        .map(|(_, value)| value.parse::<u64>().expect("a counter is a number"))
        .sum()
}

/// The Rust counterpart of `struct seen` in `bpf/watch.bpf.c`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct WindowStats {
    samples: u64,
    outside: u64,
    largest: u64,
    last_outside: u64,
}

/// A monitor that reads windows until it is dropped.
struct WindowMonitor {
    object: Object,
    _link: libbpf_rs::Link,
}

fn attach_monitor() -> WindowMonitor {
    let object = load_object(&OBJECT.0, |_| Ok(())).unwrap_or_else(|error| panic!("{error}"));
    let link = object
        .progs_mut()
        .next()
        .expect("the object has a program")
        .attach()
        .expect("the kernel has the tracepoint");
    WindowMonitor { object, _link: link }
}

fn read_windows(monitor: &WindowMonitor) -> WindowStats {
    let map = monitor.object.maps().find(|map| map.name() == "seen").expect("the object has the map");
    let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).expect("the map is readable");
    let value = value.expect("an array has a value for every index");
    WindowStats::read_from_bytes(&value).expect("the Rust and C structs have the same size")
}

/// Makes the kernel print each `WARN_ON_ONCE` again, if that is permitted.
fn reset_warnings() {
    let folder = Path::new("/sys/kernel/debug");
    if !folder.join("clear_warn_once").exists() {
        let _ = Command::new("mount").args(["-t", "debugfs", "none", "/sys/kernel/debug"]).status();
    }
    let is_reset = fs::write(folder.join("clear_warn_once"), "1").is_ok();
    println!("one-time warnings of the kernel {} reset", if is_reset { "are" } else { "could not be" });
}

fn count_warnings() -> usize {
    let output = Command::new("dmesg").output().expect("dmesg is installed (util-linux)");
    assert!(output.status.success(), "the kernel log cannot be read");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| line.contains("WARNING:") || line.contains("BUG:")).count()
}
