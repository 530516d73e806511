//! Switching on and off, two hundred times under traffic, leaves nothing in the kernel: no program, map, link or namespace.

mod room;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use libbpf_rs::query::{LinkInfo, LinkInfoIter, LinkTypeInfo, MapInfoIter, ProgInfoIter};
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
/// Programs and maps of `bpf/tcp.bpf.c`.
const TCP: &[&str] = &["poseidon", "telemetry", "totals", "about", ".rodata.settin"];
/// Those of `bpf/switch.bpf.c` and `bpf/rpm.bpf.c`.
const PORTS: &[&str] = &["switch_egress", "rpm_", "config", "stats", "queue", "counters", ".rodata.test"];
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
    let namespaces = namespaces();
    // 1 Gbit/s: enough that connections are never idle, and a queue that can be read.
    let room = Room::new(1_000, 300_000);
    let cgroup = Cgroup::new();

    let (began, mut tcps, mut ports) = (now(), Kernel::default(), Kernel::default());
    // Both at once: neither has to do with the other.
    let connections = under_traffic(&room, &cgroup, || {
        thread::scope(|scope| {
            scope.spawn(|| (0..TIMES).for_each(|_| tcp_on_and_off(&cgroup, &mut tcps)));
            room.enter(Place::Router, || (0..TIMES).for_each(|_| ports_on_and_off(&mut ports)));
        });
    });
    println!("{TIMES} times on and off in {:.1?}, {connections} connections", began.elapsed());
    assert!(connections >= TIMES as u64 / 2, "{connections} connections");
    tcps.assert_gone("tcp", TCP, [10, 5, 3]);
    ports.assert_gone("switch and rpm", PORTS, [3, 6, 0]);

    drop((room, cgroup));
    assert_eq!(self::namespaces(), namespaces);
    assert!(!Path::new("/sys/fs/bpf/poseidon").exists(), "files of ours in /sys/fs/bpf");
}

fn tcp_on_and_off(cgroup: &Cgroup, ours: &mut Kernel) {
    let settings =
        Settings { cgroup: Some(cgroup.path.clone()), ..Settings::for_rate(BitRate::from_gbps(1)) };
    // The name is the machine's: somebody else may have it for a while.
    for _ in 0..120 {
        let before = Kernel::now(TCP);
        match tcp::enable(&settings) {
            Ok(_) => {
                ours.add(before, TCP);
                break;
            }
            Err(TcpError::NameTaken) => wait(Duration::from_millis(500)),
            Err(why) => panic!("{why}"),
        }
    }
    // So that connections begin under it, and end under it and after it.
    wait(Duration::from_millis(10));
    tcp::disable().unwrap_or_else(|error| panic!("{error}"));
}

fn ports_on_and_off(ours: &mut Kernel) {
    let before = Kernel::now(PORTS);
    let stamps = Switch::attach("e1", switch::Options::default()).unwrap_or_else(|error| panic!("{error}"));
    let marks = Rpm::attach("e1", rpm::Options::default()).unwrap_or_else(|error| panic!("{error}"));
    ours.add(before, PORTS);
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

/// What the kernel holds of programs, maps and links, by number. No number is given twice.
#[derive(Debug, Default)]
struct Kernel([BTreeSet<u32>; 3]);

impl Kernel {
    /// With one of these names, or the beginning of it.
    fn now(names: &[&str]) -> Self {
        let is_meant = |name: &str| names.iter().any(|begin| name.starts_with(begin));
        let programs = ProgInfoIter::default().filter(|program| is_meant(&program.name.to_string_lossy()));
        let programs: BTreeSet<u32> = programs.map(|program| program.id).collect();
        let maps = MapInfoIter::default().filter(|map| is_meant(&map.name.to_string_lossy()));
        let is_link = |link: &LinkInfo| {
            programs.contains(&link.prog_id) || matches!(link.info, LinkTypeInfo::StructOps(_))
        };
        let links = LinkInfoIter::default().filter(is_link).map(|link| link.id).collect();
        let maps = maps.map(|map| map.id).collect();
        Self([programs, maps, links])
    }

    /// What of these names has come since `before` is ours: who does the same on this machine in that moment would be taken for us.
    fn add(&mut self, before: Self, names: &[&str]) {
        for ((ours, now), before) in self.0.iter_mut().zip(Self::now(names).0).zip(before.0) {
            ours.extend(now.difference(&before));
        }
    }

    /// The kernel frees after the last connection and a grace period: some time, with a bound. There were at least so many each time,
    /// so that this is not empty for want of looking.
    fn assert_gone(&self, of: &str, names: &[&str], each_time: [usize; 3]) {
        let were = self.0.each_ref().map(BTreeSet::len);
        assert!(were.iter().zip(each_time).all(|(were, each)| *were >= each * TIMES), "{of}: {were:?}");
        let began = now();
        loop {
            let now = Self::now(names);
            let mut stayed = self.0.iter().zip(&now.0).map(|(ours, now)| ours.intersection(now).count());
            let stayed: [usize; 3] = core::array::from_fn(|_| stayed.next().unwrap_or(0));
            if stayed == [0; 3] {
                break;
            }
            let names: Vec<_> = ProgInfoIter::default().map(|program| program.name).collect();
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "{of}: of {were:?} programs, maps and links {stayed:?} stayed, among {names:?}"
            );
            wait(Duration::from_millis(50));
        }
        println!("{of}: of {were:?} programs, maps and links none stayed, after {:.1?}", began.elapsed());
    }
}

/// Those with a name are files here.
fn namespaces() -> BTreeSet<String> {
    let files = fs::read_dir("/run/netns").expect("it was made").flatten();
    files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
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
