//! Two hosts and a router, each a network namespace, that nobody else sees.
//!
//! ```text
//!   left (10.9.1.2)  a0 ──── ra   router   rb ──── b0  (10.9.2.2) right
//!                                          ^ TBF 100 Mbit/s
//! ```
//!
//! The test starts itself anew in namespaces of its own, for the network and for mounts: there it is the router, and its bpffs and
//! its list of namespaces are mounted where only it can see them. When it ends, whichever way, the kernel takes all of it away. The
//! hosts are the same program once more, with a role.

use core::net::IpAddr;
use core::time::Duration;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs};

use poseidon_wire::shim;

/// Set inside the namespaces.
const INSIDE: &str = "POSEIDON_RIG_INSIDE";
/// What a host is to do.
const ROLE: &str = "POSEIDON_RIG_ROLE";
/// What a host says, among the lines of the test harness.
const SAYS: &str = "> ";
/// Of a datagram: shim, time of sending, and nothing.
pub(crate) const DATAGRAM: usize = 1_200;
const SINK_PORT: u16 = 5_053;

/// Runs the test called `name` in namespaces of its own. True inside of them.
pub(crate) fn enter(name: &str) -> bool {
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    let program = env::current_exe().expect("a test has a file");
    let private =
        "mount -t tmpfs none /run && mkdir /run/netns && mount -t bpf bpf /sys/fs/bpf && exec \"$0\" \"$@\"";
    let status = Command::new("unshare")
        .args(["--mount", "--net", "sh", "-c", private])
        .arg(program)
        .args(["--ignored", "--exact", name, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .status()
        .expect("unshare is in util-linux");
    assert!(status.success(), "{name}: {status}");
    false
}

/// Whether something can be run.
pub(crate) fn has(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}

/// Lays the wires; the router's queue to the right is 100 Mbit/s with `limit` bytes of room.
pub(crate) fn build(limit: &str) {
    // Addresses can be used at once, those of links too: otherwise IPv6 looks for doubles for a second or two.
    let at_once = "echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad";
    sh(&format!("ip link set lo up; {at_once}"));
    for (host, near, far, net) in [("left", "a0", "ra", 1), ("right", "b0", "rb", 2)] {
        sh(&format!("ip netns add {host}"));
        on_host(host, at_once);
        sh(&format!("ip link add {far} type veth peer name {near} netns {host}"));
        sh(&format!(
            "ip addr add 10.9.{net}.1/24 dev {far}; ip -6 addr add fd09:{net}::1/64 dev {far} nodad"
        ));
        sh(&format!("ip link set {far} up"));
        let on = format!("ip -n {host}");
        sh(&format!(
            "{on} addr add 10.9.{net}.2/24 dev {near}; {on} -6 addr add fd09:{net}::2/64 dev {near} nodad"
        ));
        sh(&format!("{on} link set lo up; {on} link set {near} up"));
        sh(&format!("{on} route add default via 10.9.{net}.1; {on} -6 route add default via fd09:{net}::1"));
        // New namespaces take these from the machine; a reno that speaks ECN is the plainest.
        on_host(
            host,
            "echo 1 >/proc/sys/net/ipv4/tcp_ecn; echo reno >/proc/sys/net/ipv4/tcp_congestion_control",
        );
    }
    sh("echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding");
    sh(&format!("tc qdisc replace dev rb root tbf rate 100mbit burst 10000 limit {limit}"));
}

/// One stamp per packet, and checksums finished by the sender, or left to the router's port, or to nobody.
pub(crate) fn offload(sender: bool, router: bool) {
    let word = |on| if on { "on" } else { "off" };
    let common = "tso off gso off gro off";
    on_host("left", &format!("ethtool -K a0 {common} tx {}", word(sender)));
    // ACKs have finished checksums, which the left then verifies.
    on_host("right", &format!("ethtool -K b0 {common} tx off"));
    sh(&format!("ethtool -K ra {common}; ethtool -K rb {common} tx {}", word(router)));
}

pub(crate) fn sh(script: &str) -> String {
    let output = Command::new("sh").args(["-ec", script]).output().expect("there is a shell");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn on_host(host: &str, script: &str) -> String {
    sh(&format!("nsenter --net=/run/netns/{host} sh -ec '{script}'"))
}

/// A number of `/proc/net/snmp`, `netstat` (name under a head) or `snmp6` on a host.
pub(crate) fn counter(host: &str, head: &str, name: &str) -> u64 {
    let text = on_host(host, "cat /proc/net/snmp /proc/net/netstat /proc/net/snmp6");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let below = lines.windows(2).find_map(|pair| {
        let at = pair[0].iter().position(|word| *word == name)?;
        (pair[0][0] == head && pair[1][0] == head).then(|| pair[1][at])
    });
    let beside = lines.iter().find(|line| line[0] == name).and_then(|line| line.last().copied());
    below
        .or(beside)
        .and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("{head} {name} is counted"))
}

/// A host at work. It is ended when this is dropped.
pub(crate) struct Host {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Host {
    /// Starts a role and waits until it is ready.
    pub(crate) fn start(host: &str, role: &str) -> Self {
        let mut child = Command::new("nice")
            // Before whatever else the machine does: a datagram that waits for its reader has not waited in the queue.
            .args(["-n", "-15", "nsenter"])
            .arg(format!("--net=/run/netns/{host}"))
            .arg(env::current_exe().expect("a test has a file"))
            .args(["--ignored", "--exact", "host", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .spawn()
            .expect("nsenter is in util-linux");
        let says = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut host = Self { child, says };
        assert_eq!(host.next().as_deref(), Some("ready"), "{role}");
        host
    }

    /// The next thing that it says; nothing when it has ended.
    pub(crate) fn next(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.says.read_line(&mut line).expect("it writes text") > 0 {
            if let Some(said) = line.strip_prefix(SAYS) {
                return Some(said.trim().to_owned());
            }
            line.clear();
        }
        None
    }

    /// Everything until it ends.
    pub(crate) fn rest(mut self) -> Vec<String> {
        core::iter::from_fn(|| self.next()).collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A datagram that arrived, as its receiver tells it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// From the sender's call to the receiver's.
    pub(crate) took: u64,
    pub(crate) hops: u8,
    /// What the shim says, ns.
    pub(crate) delay: u64,
}

impl Arrival {
    /// What it took beyond what is stamped.
    pub(crate) fn beyond_us(&self) -> i64 {
        (self.took.cast_signed() - self.delay.cast_signed()) / 1_000
    }

    pub(crate) fn parse(text: &str) -> Self {
        let mut numbers = text.split(' ').map(|number| number.parse::<u64>().expect("a number"));
        let mut next = || numbers.next().expect("three numbers");
        Self { took: next(), hops: u8::try_from(next()).expect("small"), delay: next() }
    }
}

/// Does what the role says, if there is one.
pub(crate) fn play() {
    let Ok(role) = env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().expect("a number");
    match words[0] {
        "receive" => receive(words[1].parse().expect("an address")),
        "send" => send(
            words[1].parse().expect("an address"),
            number(2),
            number(3),
            Duration::from_millis(number(4)),
        ),
        "sink" => sink(words[1].parse().expect("an address")),
        "fill" => fill(words[1].parse().expect("an address"), Duration::from_millis(number(2))),
        other => panic!("no role {other}"),
    }
}

/// Tells of each datagram, until none comes for a second.
fn receive(here: IpAddr) {
    let socket = UdpSocket::bind((here, shim::DEFAULT_UDP_PORT)).expect("the port is free");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("not zero");
    say("ready");
    let mut bytes = [0; 2 * DATAGRAM];
    while let Ok(length) = socket.recv(&mut bytes) {
        let now = now();
        socket.set_read_timeout(Some(Duration::from_secs(1))).expect("not zero");
        let repr = shim::Repr::parse(&bytes[..length]).expect("it was sent with a shim");
        let sent = u64::from_be_bytes(bytes[4..12].try_into().expect("eight bytes"));
        let delay = u64::from(repr.max_hop_delay) << 8;
        say(&format!("{} {} {delay}", now.saturating_sub(sent), repr.int_hops));
    }
}

/// Sends `bursts` of `burst` datagrams each.
fn send(to: IpAddr, bursts: u64, burst: u64, pause: Duration) {
    let any: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0)).expect("a port is free");
    socket.connect((to, shim::DEFAULT_UDP_PORT)).expect("there is a route");
    say("ready");
    let mut bytes = [0; DATAGRAM];
    shim::Repr::default().emit(&mut bytes).expect("fits");
    for _ in 0..bursts {
        for _ in 0..burst {
            bytes[4..12].copy_from_slice(&now().to_be_bytes());
            socket.send(&bytes).expect("the route is up");
        }
        wait(pause);
    }
}

/// Takes one connection, and tells how many bytes came.
fn sink(here: IpAddr) {
    let listener = TcpListener::bind((here, SINK_PORT)).expect("the port is free");
    say("ready");
    let (mut connection, _) = listener.accept().expect("somebody connects");
    let (mut bytes, mut room) = (0, vec![0; 1 << 18]);
    while let Ok(read @ 1..) = connection.read(&mut room) {
        bytes += read;
    }
    say(&bytes.to_string());
}

/// Writes as fast as TCP takes it.
fn fill(to: IpAddr, time: Duration) {
    let mut connection = TcpStream::connect((to, SINK_PORT)).expect("the sink listens");
    say("ready");
    let end = now() + u64::try_from(time.as_nanos()).expect("seconds");
    while now() < end {
        connection.write_all(&[0; 1 << 16]).expect("the sink reads");
    }
}

fn say(text: &str) {
    // The harness may have begun a line.
    println!("\n{SAYS}{text}");
}

/// ns; the same clock in all namespaces.
fn now() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the ends of a real network need a clock that they share")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_nanos()).expect("before 2554")
}

pub(crate) fn wait(time: Duration) {
    #[expect(clippy::disallowed_methods, reason = "a real network takes real time")]
    std::thread::sleep(time);
}

/// What is pinned here.
pub(crate) fn pinned() -> Vec<String> {
    let found = fs::read_dir("/sys/fs/bpf/poseidon").into_iter().flatten().flatten();
    let inside = found.flat_map(|kind| fs::read_dir(kind.path()).into_iter().flatten().flatten());
    inside.map(|entry| entry.path().display().to_string()).collect()
}
