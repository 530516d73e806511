//! Tests that enabling and disabling two hundred times under traffic leaks no program, map, link or namespace in the
//! kernel.

mod network;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use libbpf_rs::query::{LinkInfo, LinkInfoIter, LinkTypeInfo, MapInfoIter, ProgInfoIter};
use network::{Node, RECEIVER, TestNetwork};
use poseidon_linux::rpm::{self, Rpm};
use poseidon_linux::switch::{self, Switch};
use poseidon_linux::tcp::{self, Settings, TcpError};
use poseidon_netns::PrivateNetns;
use poseidon_types::BitRate;
use rustix::net::sockopt::set_socket_linger;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, thread};

const CYCLES: usize = 200;
/// The names of the programs and maps in `bpf/tcp.bpf.c`.
const TCP_NAMES: &[&str] = &["poseidon", "telemetry", "totals", "about", ".rodata.settin"];
/// The names of the programs and maps in `bpf/switch.bpf.c` and `bpf/rpm.bpf.c`.
const PORT_NAMES: &[&str] =
    &["switch_egress", "rpm_", "config", "stats", "queue", "counters", ".rodata.test"];
const PORT: u16 = 5_055;

/// The test runs in private network and mount namespaces. Only the congestion control's name is visible to the rest of
/// the machine.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn two_hundred_cycles_leak_no_kernel_objects() {
    if !PrivateNetns::new("POSEIDON_LEAKS_INSIDE").run_test("two_hundred_cycles_leak_no_kernel_objects") {
        return;
    }
    let namespaces = named_namespaces();
    // At 1 Gbit/s, connections are never idle, and the queue has a readable backlog.
    let network = TestNetwork::new(1_000, 300_000);
    let cgroup = Cgroup::new();

    let (start, mut tcp_objects, mut port_objects) =
        (now(), KernelObjects::default(), KernelObjects::default());
    // The two loops are independent, so they run in parallel.
    let connections = run_under_traffic(&network, &cgroup, || {
        thread::scope(|scope| {
            scope.spawn(|| (0..CYCLES).for_each(|_| cycle_tcp(&cgroup, &mut tcp_objects)));
            network.run_in(Node::Router, || (0..CYCLES).for_each(|_| cycle_ports(&mut port_objects)));
        });
    });
    println!("{CYCLES} cycles in {:.1?}, {connections} connections", start.elapsed());
    assert!(connections >= CYCLES as u64 / 2, "{connections} connections");
    tcp_objects.assert_freed("tcp", TCP_NAMES, [10, 5, 3]);
    port_objects.assert_freed("switch and rpm", PORT_NAMES, [3, 6, 0]);

    drop((network, cgroup));
    assert_eq!(named_namespaces(), namespaces);
    assert!(!Path::new("/sys/fs/bpf/poseidon").exists(), "pins remain in /sys/fs/bpf");
}

fn cycle_tcp(cgroup: &Cgroup, objects: &mut KernelObjects) {
    let settings =
        Settings { cgroup: Some(cgroup.path.clone()), ..Settings::for_rate(BitRate::from_gbps(1)) };
    // Congestion control names are unique on the machine, so another test may still be using this name.
    for _ in 0..120 {
        let before = KernelObjects::current(TCP_NAMES);
        match tcp::enable(&settings) {
            Ok(_) => {
                objects.add_new(before, TCP_NAMES);
                break;
            }
            Err(TcpError::NameTaken { .. }) => wait(Duration::from_millis(500)),
            Err(error) => panic!("{error}"),
        }
    }
    // Some connections open in the meantime, and some of them outlive this cycle.
    wait(Duration::from_millis(10));
    tcp::disable().unwrap_or_else(|error| panic!("{error}"));
}

fn cycle_ports(objects: &mut KernelObjects) {
    let before = KernelObjects::current(PORT_NAMES);
    let stamps = Switch::attach("e1", switch::Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let marks = Rpm::attach("e1", rpm::Options::default()).unwrap_or_else(|error| panic!("{error}"));
    objects.add_new(before, PORT_NAMES);
    stamps.detach().unwrap_or_else(|error| panic!("{error}"));
    marks.detach().unwrap_or_else(|error| panic!("{error}"));
}

/// Runs `work` while connections in the cgroup open and close. Returns the number of connections.
fn run_under_traffic(network: &TestNetwork, cgroup: &Cgroup, work: impl FnOnce()) -> u64 {
    let (stop, connections) = (AtomicBool::new(false), AtomicU64::new(0));
    cgroup.join();
    let listener =
        network.run_in(Node::Receiver, || TcpListener::bind((RECEIVER, PORT)).expect("the port is free"));
    listener.set_nonblocking(true).expect("the listener is a socket");
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => drop(scope.spawn(|| drain(stream))),
                    Err(_) => wait(Duration::from_millis(1)),
                }
            }
        });
        scope.spawn(|| {
            network.run_in(Node::Sender, || {
                while !stop.load(Ordering::Relaxed) {
                    send();
                    connections.fetch_add(1, Ordering::Relaxed);
                    // Leave CPU time for the other threads.
                    wait(Duration::from_millis(5));
                }
            });
        });
        work();
        stop.store(true, Ordering::Relaxed);
    });
    cgroup.leave();
    connections.into_inner()
}

/// Sends 256 kB. Discards unsent data, which would keep the connection, and thus the programs, alive.
fn send() {
    let Ok(mut stream) = TcpStream::connect((RECEIVER, PORT)) else { return };
    let _ = stream.set_write_timeout(Some(Duration::from_millis(200)));
    let _ = stream.write_all(&vec![7; 256 << 10]);
    let _ = set_socket_linger(&stream, Some(Duration::ZERO));
}

fn drain(mut stream: TcpStream) {
    let mut buffer = vec![0; 64 << 10];
    let _ = (stream.set_nonblocking(false), stream.set_read_timeout(Some(Duration::from_millis(500))));
    while let Ok(1..) = stream.read(&mut buffer) {}
}

/// The ids of programs, maps and links in the kernel. The kernel does not reuse ids.
#[derive(Debug, Default)]
struct KernelObjects([BTreeSet<u32>; 3]);

impl KernelObjects {
    /// Returns the current objects whose names start with one of `names`.
    fn current(names: &[&str]) -> Self {
        let matches_name = |name: &str| names.iter().any(|prefix| name.starts_with(prefix));
        let programs =
            ProgInfoIter::default().filter(|program| matches_name(&program.name.to_string_lossy()));
        let programs: BTreeSet<u32> = programs.map(|program| program.id).collect();
        let maps = MapInfoIter::default().filter(|map| matches_name(&map.name.to_string_lossy()));
        let is_link = |link: &LinkInfo| {
            programs.contains(&link.prog_id) || matches!(link.info, LinkTypeInfo::StructOps(_))
        };
        let links = LinkInfoIter::default().filter(is_link).map(|link| link.id).collect();
        let maps = maps.map(|map| map.id).collect();
        Self([programs, maps, links])
    }

    /// Adds the objects that were created since `before`. Another process that uses the same names would interfere.
    fn add_new(&mut self, before: Self, names: &[&str]) {
        for ((known, current), before) in self.0.iter_mut().zip(Self::current(names).0).zip(before.0) {
            known.extend(current.difference(&before));
        }
    }

    /// Waits until the kernel has freed all objects, which takes a grace period after the last connection.
    ///
    /// `per_cycle` is the minimum number of programs, maps and links per cycle. The minimum ensures that the test can
    /// find the objects.
    fn assert_freed(&self, kind: &str, names: &[&str], per_cycle: [usize; 3]) {
        let created = self.0.each_ref().map(BTreeSet::len);
        assert!(
            created.iter().zip(per_cycle).all(|(created, least)| *created >= least * CYCLES),
            "{kind}: {created:?}"
        );
        let start = now();
        loop {
            let current = Self::current(names);
            let mut remaining =
                self.0.iter().zip(&current.0).map(|(known, current)| known.intersection(current).count());
            let remaining: [usize; 3] = core::array::from_fn(|_| remaining.next().unwrap_or(0));
            if remaining == [0; 3] {
                break;
            }
            let names: Vec<_> = ProgInfoIter::default().map(|program| program.name).collect();
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{kind}: of {created:?} programs, maps and links {remaining:?} remain, among {names:?}"
            );
            wait(Duration::from_millis(50));
        }
        println!("{kind}: of {created:?} programs, maps and links none remain after {:.1?}", start.elapsed());
    }
}

/// Returns the named network namespaces.
fn named_namespaces() -> BTreeSet<String> {
    let files = fs::read_dir("/run/netns").expect("the private namespaces have this folder").flatten();
    files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// A cgroup for this test.
struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    fn new() -> Self {
        let default = tcp::default_cgroup().unwrap_or_else(|error| panic!("{error}"));
        let path = default.with_file_name(format!("poseidon-leaks-{}", std::process::id()));
        fs::create_dir(&path).expect("root may change cgroups");
        Self { path }
    }

    fn join(&self) {
        join_cgroup(&self.path);
    }

    fn leave(&self) {
        join_cgroup(self.path.parent().expect("the cgroup has a parent"));
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.leave();
        fs::remove_dir(&self.path).expect("the cgroup is empty");
    }
}

fn join_cgroup(folder: &Path) {
    fs::write(folder.join("cgroup.procs"), "0").expect("root may change cgroups");
}

#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn wait(time: Duration) {
    thread::sleep(time);
}
