//! Switching on and off, two hundred times under traffic, leaves nothing in the kernel: no program, map, link or namespace.

mod room;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, MapInfoIter, ProgInfoIter};
use poseidon_linux::rpm::{self, Rpm};
use poseidon_linux::switch::{self, Switch};
use poseidon_linux::tcp::{self, Settings, TcpError};
use poseidon_types::BitRate;
use room::{Place, RECEIVER, Room};
use rustix::net::sockopt::set_socket_linger;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use std::{env, fs, thread};

const TIMES: usize = 200;
const PORT: u16 = 5_055;

/// Set inside the namespaces.
const INSIDE: &str = "POSEIDON_LEAKS_INSIDE";

/// The test starts itself anew with a network, files for BPF and a list of namespaces of its own; only the name of the congestion
/// control is the machine's.
#[test]
#[ignore = "needs root and a kernel with BPF: .ci/linux"]
fn on_and_off_two_hundred_times_leaves_nothing() {
    if env::var_os(INSIDE).is_some() {
        inside();
        return;
    }
    let private =
        "mount -t tmpfs none /run && mkdir /run/netns && mount -t bpf bpf /sys/fs/bpf && exec \"$0\" \"$@\"";
    let status = Command::new("unshare")
        .args(["--mount", "--net", "sh", "-c", private])
        .arg(env::current_exe().expect("a test has a file"))
        .args(["--ignored", "--exact", "on_and_off_two_hundred_times_leaves_nothing", "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .expect("unshare is in util-linux");
    assert!(status.success(), "{status}");
}

fn inside() {
    let before = Kernel::now();
    // 1 Gbit/s: enough that connections are never idle, and a queue that can be read.
    let room = Room::new(1_000, 300_000);
    let cgroup = Cgroup::new();
    let with_room = Kernel::now();

    let began = now();
    let connections = under_traffic(&room, &cgroup, || (0..TIMES).for_each(|_| tcp_on_and_off(&cgroup)));
    println!("tcp: {TIMES} times on and off in {:.1?}, {connections} connections", began.elapsed());
    assert!(connections >= TIMES as u64 / 2, "{connections} connections");
    with_room.assert_no_more("tcp");

    let began = now();
    let connections = under_traffic(&room, &cgroup, || {
        room.enter(Place::Router, || (0..TIMES).for_each(|_| ports_on_and_off()));
    });
    println!("switch and rpm: {TIMES} times each in {:.1?}, {connections} connections", began.elapsed());
    with_room.assert_no_more("switch and rpm");

    drop((room, cgroup));
    before.assert_no_more("the room");
    assert!(!Path::new("/sys/fs/bpf/poseidon").exists(), "files of ours in /sys/fs/bpf");
}

fn tcp_on_and_off(cgroup: &Cgroup) {
    let settings =
        Settings { cgroup: Some(cgroup.path.clone()), ..Settings::for_rate(BitRate::from_gbps(1)) };
    // The name is the machine's: somebody else may have it for a while.
    for _ in 0..120 {
        match tcp::enable(&settings) {
            Ok(_) => break,
            Err(TcpError::Kernel(_)) => wait(Duration::from_millis(500)),
            Err(why) => panic!("{why}"),
        }
    }
    // So that connections begin under it, and end under it and after it.
    wait(Duration::from_millis(10));
    tcp::disable().unwrap_or_else(|error| panic!("{error}"));
}

fn ports_on_and_off() {
    let stamps = Switch::attach("e1", switch::Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let marks = Rpm::attach("e1", rpm::Options::default()).unwrap_or_else(|error| panic!("{error}"));
    stamps.detach().unwrap_or_else(|error| panic!("{error}"));
    marks.detach().unwrap_or_else(|error| panic!("{error}"));
}

/// Does `work` while connections of the cgroup come and go through the room. Gives how many there were.
fn under_traffic(room: &Room, cgroup: &Cgroup, work: impl FnOnce()) -> u64 {
    let (ends, connections) = (AtomicBool::new(false), AtomicU64::new(0));
    cgroup.join();
    let listener = room.enter(Place::Receiver, || TcpListener::bind((RECEIVER, PORT)).expect("it is free"));
    listener.set_nonblocking(true).expect("it is a socket");
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => drop(scope.spawn(|| drain(stream))),
                    Err(_) => wait(Duration::from_millis(1)),
                }
            }
        });
        scope.spawn(|| {
            room.enter(Place::Sender, || {
                while !ends.load(Ordering::Relaxed) {
                    send();
                    connections.fetch_add(1, Ordering::Relaxed);
                    // What is switched needs the processor too.
                    wait(Duration::from_millis(5));
                }
            });
        });
        work();
        ends.store(true, Ordering::Relaxed);
    });
    cgroup.leave();
    connections.into_inner()
}

/// A quarter of a megabyte. What is not sent by then is thrown away: it would keep the connection, and the programs with it.
fn send() {
    let Ok(mut stream) = TcpStream::connect((RECEIVER, PORT)) else { return };
    let _ = stream.set_write_timeout(Some(Duration::from_millis(200)));
    let _ = stream.write_all(&vec![7; 256 << 10]);
    let _ = set_socket_linger(&stream, Some(Duration::ZERO));
}

fn drain(mut stream: TcpStream) {
    let mut room = vec![0; 64 << 10];
    let _ = (stream.set_nonblocking(false), stream.set_read_timeout(Some(Duration::from_millis(500))));
    while let Ok(1..) = stream.read(&mut room) {}
}

/// What the kernel holds that could be ours, by number.
#[derive(Debug, PartialEq, Eq)]
struct Kernel {
    programs: BTreeSet<u32>,
    maps: BTreeSet<u32>,
    links: BTreeSet<u32>,
    namespaces: BTreeSet<String>,
}

impl Kernel {
    fn now() -> Self {
        let program_names = ["poseidon_", "switch_egress", "rpm_"];
        // Of bpf/tcp.bpf.c, switch.bpf.c and rpm.bpf.c, and what asks whether loading is allowed.
        let map_names = [
            "poseidon",
            "telemetry",
            "totals",
            "about",
            ".rodata",
            "config",
            "stats",
            "queue",
            "counters",
            "may_load",
        ];
        let begins = |name: &str, with: &[&str]| with.iter().any(|begin| name.starts_with(begin));
        let is_ours = |link: &LinkTypeInfo| {
            matches!(link, LinkTypeInfo::StructOps(_) | LinkTypeInfo::Cgroup(_) | LinkTypeInfo::Iter(_))
        };
        Self {
            programs: ProgInfoIter::default()
                .filter(|program| begins(&program.name.to_string_lossy(), &program_names))
                .map(|program| program.id)
                .collect(),
            maps: MapInfoIter::default()
                .filter(|map| begins(&map.name.to_string_lossy(), &map_names))
                .map(|map| map.id)
                .collect(),
            links: LinkInfoIter::default().filter(|link| is_ours(&link.info)).map(|link| link.id).collect(),
            // Those with a name are files here.
            namespaces: fs::read_dir("/run/netns")
                .expect("it was made")
                .flatten()
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect(),
        }
    }

    /// What is there and was not.
    fn more(&self) -> [usize; 4] {
        let now = Self::now();
        [
            now.programs.difference(&self.programs).count(),
            now.maps.difference(&self.maps).count(),
            now.links.difference(&self.links).count(),
            now.namespaces.difference(&self.namespaces).count(),
        ]
    }

    /// The kernel frees after the last connection and a grace period: some time, with a bound.
    fn assert_no_more(&self, of: &str) {
        let began = now();
        while self.more() != [0; 4] {
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "{of}: programs, maps, links and namespaces that stayed: {:?}; is anybody else at it? {:?}",
                self.more(),
                ProgInfoIter::default().map(|program| program.name).collect::<Vec<_>>()
            );
            wait(Duration::from_millis(50));
        }
        println!("{of}: nothing stayed, after {:.1?}", began.elapsed());
    }
}

/// A cgroup of the test's own.
struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    fn new() -> Self {
        let own = tcp::own_cgroup().unwrap_or_else(|error| panic!("{error}"));
        let path = own.with_file_name(format!("poseidon-leaks-{}", std::process::id()));
        fs::create_dir(&path).expect("root may");
        Self { path }
    }

    fn join(&self) {
        write_to(&self.path);
    }

    fn leave(&self) {
        write_to(self.path.parent().expect("it has one"));
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.leave();
        fs::remove_dir(&self.path).expect("it is empty");
    }
}

fn write_to(folder: &Path) {
    fs::write(folder.join("cgroup.procs"), "0").expect("root may");
}

#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "real packets take real time")]
fn wait(time: Duration) {
    thread::sleep(time);
}
