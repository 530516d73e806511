//! The kernel is never given a wrong window. Packets overtake each other, so TCP takes them for lost, finds out that they were not, and
//! undoes what it did: `undo_cwnd`. Meanwhile telemetry lies, and Poseidon is switched on and off. A tracepoint of the kernel, outside our
//! programs, sees every window; the kernel's log is read for warnings. A kernel that skips our programs (`poseidon doctor` says so) gives
//! wrong windows whatever we do; there the test says how many. Needs root; `.ci/linux` runs the short form, `.ci/long` the long one.

#[path = "room/port.rs"]
mod port;
mod room;

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use libbpf_rs::{MapCore as _, MapFlags, Object, ObjectBuilder};
use poseidon_linux::doctor::{State, examine};
use poseidon_linux::tcp::{self, Settings};
use poseidon_types::BitRate;
use room::{Place, RECEIVER, Room};
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
/// Connections at a time; each lives for a second, because TCP learns that its packets come out of order.
const CONNECTIONS: usize = 8;
const ONE_LIFE: Duration = Duration::from_secs(1);

/// libelf reads structs of eight bytes out of it.
#[repr(C, align(8))]
struct Aligned<Bytes: ?Sized>(Bytes);

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/watch.bpf.o")));

#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn undo_short() {
    provoke(10_000, 4);
}

#[test]
#[ignore = "needs root, a kernel with BPF and minutes: .ci/long"]
fn undo_long() {
    provoke(100_000, 200);
}

/// So many undos, and Poseidon switched off and on at least so often meanwhile.
#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn provoke(undos: u64, cycles: u32) {
    warn_again();
    let warnings_before = warnings();
    let room = Room::new(1_000, 300_000);
    let object = watch();
    make_detour(&room);
    let (ends, began) = (AtomicBool::new(false), Instant::now());
    let mut switched = 0;
    on();
    thread::scope(|scope| {
        scope.spawn(|| listen(&room, &ends));
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    room.enter(Place::Sender, send);
                }
            });
        }
        while undone(&room) < undos || switched < cycles {
            thread::sleep(Duration::from_millis(300));
            tcp::disable().unwrap_or_else(|error| panic!("{error}"));
            on();
            switched += 1;
            assert!(began.elapsed() < Duration::from_secs(1_500), "{} undos only", undone(&room));
        }
        ends.store(true, Ordering::Relaxed);
    });
    let (undone, seen) = (undone(&room), read(&object));
    let always =
        examine().iter().any(|check| check.name == "programs always run" && check.state == State::Ok);
    tcp::disable().unwrap_or_else(|error| panic!("{error}"));
    drop(room);
    let warned = warnings() - warnings_before;
    println!(
        "{{\"test\": \"undo\", \"undos\": {undone}, \"switched\": {switched}, \"windows\": {}, \"outside\": {}, \"largest\": {}, \"warnings\": {warned}}}",
        seen.samples, seen.outside, seen.largest
    );
    assert!(seen.samples > undone, "the tracepoint sees every packet");
    if always {
        assert_eq!((seen.outside, warned), (0, 0), "last window outside: {}", seen.last_outside);
    } else {
        // What was on the stack may pass for a window; the next ACK ends it.
        println!("this kernel skips programs where process 1 is interrupted: {} wrong windows", seen.outside);
        assert!(seen.outside < undone / 500, "{} of {undone}", seen.outside);
    }
}

/// On, and this process in its cgroup; when it is off again the process is back where it was.
fn on() {
    let settings = Settings { default: false, ..Settings::for_rate(BitRate::from_gbps(1)) };
    let cgroup = tcp::enable(&settings).unwrap_or_else(|error| panic!("{error}"));
    fs::write(cgroup.join("cgroup.procs"), "0").expect("root may");
}

/// What leaves the router for the receiver may take a way of 100 Mbit/s that leads back into the router; lies come on top.
fn make_detour(room: &Room) {
    // A frame that comes back has the receiver's address.
    const MAC: &str = "02:00:00:00:00:77";
    let run = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let status = Command::new(words[0]).args(&words[1..]).status().expect("iproute2 is there");
        assert!(status.success(), "{line}");
    };
    let set =
        |name: &str, value: &str| fs::write(format!("/proc/sys/net/ipv4/{name}"), value).expect("root may");
    room.enter(Place::Receiver, || run(&format!("ip link set e0 address {MAC}")));
    let index = room.enter(Place::Router, || {
        run(&format!("ip link add d0 type veth peer name d1 address {MAC}"));
        run("ip link set d0 up");
        run("ip link set d1 up");
        run("tc qdisc add dev d0 root tbf rate 100mbit burst 1600 limit 60000");
        set("conf/all/rp_filter", "0");
        set("conf/d1/rp_filter", "0");
        let any = std::net::UdpSocket::bind("0.0.0.0:0").expect("a socket of this namespace");
        rustix::net::netdevice::name_to_index(&any, "d0").expect("just made")
    });
    // RACK with a window for reordering that does not grow, so that it goes on to be wrong.
    room.enter(Place::Sender, || set("tcp_recovery", "3"));
    port::put(room, "e1", "detour", [0, index]);
    // Telemetry of the ACKs is anything, by chance.
    port::put(room, "e0", "liar", [u32::from(PORT), 0x1_0000]);
}

#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn send() {
    let Ok(mut stream) = TcpStream::connect((RECEIVER, PORT)) else { return };
    // While it is off there is no such law.
    if set_tcp_congestion(&stream, "poseidon").is_err() {
        return thread::sleep(Duration::from_millis(20));
    }
    let until = Instant::now() + ONE_LIFE;
    stream.set_write_timeout(Some(ONE_LIFE)).expect("not zero");
    while Instant::now() < until && stream.write_all(&[7; 16 << 10]).is_ok() {}
    let _ = set_socket_linger(&stream, Some(Duration::ZERO));
}

#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn listen(room: &Room, ends: &AtomicBool) {
    let listener = room.enter(Place::Receiver, || TcpListener::bind((RECEIVER, PORT)).expect("it is free"));
    listener.set_nonblocking(true).expect("it is a socket");
    thread::scope(|scope| {
        while !ends.load(Ordering::Relaxed) {
            let Ok((mut stream, _)) = listener.accept() else {
                thread::sleep(Duration::from_millis(1));
                continue;
            };
            scope.spawn(move || {
                let _ = stream.set_nonblocking(false);
                let _ = stream.set_read_timeout(Some(2 * ONE_LIFE));
                let mut buffer = vec![0; 64 << 10];
                while matches!(stream.read(&mut buffer), Ok(1..)) {}
            });
        }
    });
}

/// How often TCP of the sender has undone a cut.
fn undone(room: &Room) -> u64 {
    let text = room
        .enter(Place::Sender, || fs::read_to_string("/proc/thread-self/net/netstat").expect("Linux has it"));
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    names
        .split(' ')
        .zip(values.split(' '))
        .filter(|(name, _)| name.ends_with("Undo"))
        .map(|(_, value)| value.parse::<u64>().expect("a number"))
        .sum()
}

/// `struct seen` of `bpf/watch.bpf.c`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Seen {
    samples: u64,
    outside: u64,
    largest: u64,
    last_outside: u64,
}

/// Watches until it is dropped.
struct Watch {
    object: Object,
    _link: libbpf_rs::Link,
}

fn watch() -> Watch {
    let open = ObjectBuilder::default().open_memory(&OBJECT.0).expect("it was compiled");
    let object = open.load().expect("it passes");
    let link =
        object.progs_mut().next().expect("it has one").attach().expect("the kernel has the tracepoint");
    Watch { object, _link: link }
}

fn read(watch: &Watch) -> Seen {
    let map = watch.object.maps().find(|map| map.name() == "seen").expect("it has one");
    let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).expect("an array").expect("has its value");
    Seen::read_from_bytes(&value).expect("as in C")
}

/// `WARN_ON_ONCE` is silent the second time, unless the kernel is told to forget the first. Where that is not allowed it prints once.
fn warn_again() {
    let folder = Path::new("/sys/kernel/debug");
    if !folder.join("clear_warn_once").exists() {
        let _ = Command::new("mount").args(["-t", "debugfs", "none", "/sys/kernel/debug"]).status();
    }
    let forgets = fs::write(folder.join("clear_warn_once"), "1").is_ok();
    println!(
        "warnings that were printed before {}",
        if forgets { "are printed again" } else { "stay silent" }
    );
}

fn warnings() -> usize {
    let output = Command::new("dmesg").output().expect("dmesg is in util-linux");
    assert!(output.status.success(), "the kernel's log cannot be read");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| line.contains("WARNING:") || line.contains("BUG:")).count()
}
