//! Two hosts and a router, each in a network namespace that only the test sees.
//!
//! ```text
//!   left (10.9.1.2)  a0 ──── ra   router   rb ──── b0  (10.9.2.2) right
//!                                          ^ TBF 100 Mbit/s
//! ```
//!
//! The test restarts itself in private network and mount namespaces, and acts as the router there. The hosts run the
//! same program with a role. When the test ends, the kernel removes the namespaces and everything in them.

use core::net::IpAddr;
use core::time::Duration;
use poseidon_netns::role::{READY, RoleStarter, send_message};
use poseidon_netns::{Interface, PrivateNetns, RoleProcess, configure, create, link, sh_in};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs};

use poseidon_wire::shim;

pub(crate) use poseidon_netns::command::is_installed;

/// The environment variable that contains a host's role.
const ROLE: &str = "POSEIDON_RIG_ROLE";
/// Hosts have a high priority, so that a datagram does not wait for its reader.
const HOSTS: RoleStarter<'_> = RoleStarter { variable: ROLE, test: "host", wrapper: &["nice", "-n", "-15"] };
/// The size of a datagram, which contains the shim, the send time, and zeros.
pub(crate) const DATAGRAM: usize = 1_200;
const SINK_PORT: u16 = 5_053;

/// Runs the test called `name` in private namespaces. Returns true inside them.
pub(crate) fn run_inside(name: &str) -> bool {
    PrivateNetns::new("POSEIDON_RIG_INSIDE").run_test(name)
}

/// Creates the hosts and the links. The queue towards the right host drains at 100 Mbit/s and holds `limit` bytes.
pub(crate) fn build(limit: &str) {
    // Disable duplicate address detection, which delays link-local addresses by a second or two.
    let no_dad = "echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad";
    sh(&format!("ip link set lo up; {no_dad}"));
    for (host, near, far, net) in [("left", "a0", "ra", 1), ("right", "b0", "rb", 2)] {
        build_host(host, near, far, net, no_dad).unwrap_or_else(|error| panic!("{error}"));
        // New namespaces inherit these settings from the machine. Reno with ECN is the simplest congestion control.
        sh_on(
            host,
            "echo 1 >/proc/sys/net/ipv4/tcp_ecn; echo reno >/proc/sys/net/ipv4/tcp_congestion_control",
        );
    }
    sh("echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding");
    sh(&format!("tc qdisc replace dev rb root tbf rate 100mbit burst 10000 limit {limit}"));
}

fn build_host(host: &str, near: &str, far: &str, net: u8, no_dad: &str) -> poseidon_netns::Result<()> {
    create(&[host])?;
    sh_in(host, no_dad)?;
    link((None, far), (Some(host), near))?;
    let address = |end: u8| [format!("10.9.{net}.{end}/24"), format!("fd09:{net}::{end}/64")];
    let [router_ipv4, router_ipv6] = address(1);
    let [host_ipv4, host_ipv6] = address(2);
    configure(None, &[Interface { device: far, addresses: &[&router_ipv4, &router_ipv6] }], &[])?;
    let gateways = [format!("10.9.{net}.1"), format!("fd09:{net}::1")];
    let interface = Interface { device: near, addresses: &[&host_ipv4, &host_ipv6] };
    configure(Some(host), &[interface], &[&gateways[0], &gateways[1]])
}

/// Turns off segmentation offload, and sets whether the sender and the router port leave checksums to the NIC.
pub(crate) fn set_offload(sender: bool, router: bool) {
    let word = |on| if on { "on" } else { "off" };
    let common = "tso off gso off gro off";
    sh_on("left", &format!("ethtool -K a0 {common} tx {}", word(sender)));
    // The left host verifies the checksums of ACKs.
    sh_on("right", &format!("ethtool -K b0 {common} tx off"));
    sh(&format!("ethtool -K ra {common}; ethtool -K rb {common} tx {}", word(router)));
}

pub(crate) fn sh(script: &str) -> String {
    poseidon_netns::sh(script).unwrap_or_else(|error| panic!("{error}"))
}

fn sh_on(host: &str, script: &str) -> String {
    sh_in(host, script).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns a host's counter: `name` in the table `table` of `/proc/net/snmp` or `netstat`, or in `snmp6`.
pub(crate) fn counter(host: &str, table: &str, name: &str) -> u64 {
    let text = sh_on(host, "cat /proc/net/snmp /proc/net/netstat /proc/net/snmp6");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let in_table = lines.windows(2).find_map(|pair| {
        let column = pair[0].iter().position(|word| *word == name)?;
        (pair[0][0] == table && pair[1][0] == table).then(|| pair[1][column])
    });
    let in_list = lines.iter().find(|line| line[0] == name).and_then(|line| line.last().copied());
    in_table
        .or(in_list)
        .and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("the kernel does not count {table} {name}"))
}

/// Starts a role on a host and waits until it is ready.
pub(crate) fn start(host: &str, role: &str) -> RoleProcess {
    HOSTS.start(host, role)
}

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The time from the send call to the receive call, in ns.
    pub(crate) latency: u64,
    pub(crate) hops: u8,
    /// The delay in the shim, in ns.
    pub(crate) delay: u64,
}

impl Arrival {
    /// Returns the latency that the stamp does not include, in us.
    pub(crate) fn unstamped_us(&self) -> i64 {
        (self.latency.cast_signed() - self.delay.cast_signed()) / 1_000
    }

    pub(crate) fn parse(text: &str) -> Self {
        let mut numbers = text.split(' ').map(|number| number.parse::<u64>().expect("the word is a number"));
        let mut next = || numbers.next().expect("the line has three numbers");
        Self {
            latency: next(),
            hops: u8::try_from(next()).expect("the hop count fits in a byte"),
            delay: next(),
        }
    }
}

/// Plays this process's role, if it has a role.
pub(crate) fn play_role() {
    let Ok(role) = env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let number = |index: usize| words[index].parse::<u64>().expect("the word is a number");
    let address = || words[1].parse().expect("the word is an address");
    match words[0] {
        "receive" => receive(address()),
        "send" => send(address(), number(2), number(3), Duration::from_millis(number(4))),
        "sink" => sink(address()),
        "fill" => fill(address(), Duration::from_millis(number(2))),
        other => panic!("unknown role {other}"),
    }
}

/// Reports each datagram, until none arrives for a second.
fn receive(address: IpAddr) {
    let socket = UdpSocket::bind((address, shim::DEFAULT_UDP_PORT)).expect("the port is free");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("the timeout is not zero");
    send_message(READY);
    let mut bytes = [0; 2 * DATAGRAM];
    while let Ok(length) = socket.recv(&mut bytes) {
        let now = now();
        socket.set_read_timeout(Some(Duration::from_secs(1))).expect("the timeout is not zero");
        let repr = shim::Repr::parse(&bytes[..length]).expect("the sender adds a shim");
        let sent = u64::from_be_bytes(bytes[4..12].try_into().expect("the slice has eight bytes"));
        let delay = u64::from(repr.max_hop_delay) << 8;
        send_message(&format!("{} {} {delay}", now.saturating_sub(sent), repr.int_hops));
    }
}

/// Sends `bursts` of `burst` datagrams each.
fn send(to: IpAddr, bursts: u64, burst: u64, pause: Duration) {
    let unspecified: IpAddr = if to.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((unspecified, 0)).expect("a port is free");
    socket.connect((to, shim::DEFAULT_UDP_PORT)).expect("there is a route");
    send_message(READY);
    let mut bytes = [0; DATAGRAM];
    shim::Repr::default().emit(&mut bytes).expect("the shim fits");
    for _ in 0..bursts {
        for _ in 0..burst {
            bytes[4..12].copy_from_slice(&now().to_be_bytes());
            socket.send(&bytes).expect("the route is up");
        }
        wait(pause);
    }
}

/// Accepts one connection, and reports the number of received bytes.
fn sink(address: IpAddr) {
    let listener = TcpListener::bind((address, SINK_PORT)).expect("the port is free");
    send_message(READY);
    let (mut connection, _) = listener.accept().expect("the sender connects");
    let (mut bytes, mut buffer) = (0, vec![0; 1 << 18]);
    while let Ok(count @ 1..) = connection.read(&mut buffer) {
        bytes += count;
    }
    send_message(&bytes.to_string());
}

/// Writes as fast as TCP accepts data.
fn fill(to: IpAddr, time: Duration) {
    let mut connection = TcpStream::connect((to, SINK_PORT)).expect("the sink listens");
    send_message(READY);
    let end = now() + u64::try_from(time.as_nanos()).expect("the time is short");
    while now() < end {
        connection.write_all(&[0; 1 << 16]).expect("the sink reads");
    }
}

/// Returns the current time, in ns. All namespaces share this clock.
fn now() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the ends of a real network need a shared clock")]
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is after 1970");
    u64::try_from(since.as_nanos()).expect("the clock is before 2554")
}

pub(crate) fn wait(time: Duration) {
    #[expect(clippy::disallowed_methods, reason = "a real network takes real time")]
    std::thread::sleep(time);
}

/// Returns the pins in this mount namespace.
pub(crate) fn pins() -> Vec<String> {
    let kinds = fs::read_dir("/sys/fs/bpf/poseidon").into_iter().flatten().flatten();
    let ports = kinds.flat_map(|kind| fs::read_dir(kind.path()).into_iter().flatten().flatten());
    ports.map(|entry| entry.path().display().to_string()).collect()
}
