//! The network of a run: namespaces, wires, addresses, shapers, and what switches do to packets.
//!
//! ```text
//!   h0 ─ e0 ────────── p0 ─ s0 ─ p1 ────────── p0 ─ s1 ─ p1 ────────── e0 ─ h1
//!   10.77.0.1             169.254.1.1             169.254.1.2          10.77.0.2
//! ```
//!
//! Each node has one address, and each switch a route to each host.

use crate::delay::{Delayed, Line};
use crate::layout::{FASTEST_SHAPED, HOST_DEVICE, Layout, SHORTEST_DELAY, Wire, port_name};
use crate::{Result, failed};
use core::fmt::Write as _;
use core::net::Ipv4Addr;
use core::time::Duration;
use poseidon_linux::codel::Codel;
use poseidon_linux::rpm::{self, Rpm};
use poseidon_linux::switch::{self, Switch};
use poseidon_plan::switch::{AnyBuffer, AnyMark, Direction, Silence, Stamp};
use poseidon_plan::topology::End;
use poseidon_plan::transport::Acks;
use poseidon_plan::{Link, Plan};
use poseidon_types::{BitRate, Bytes};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::thread;
use tun_rs::{DeviceBuilder, Layer};

/// A network that stands until this is dropped.
pub(crate) struct Network<'a> {
    plan: &'a Plan,
    layout: &'a Layout,
    _line: Option<Line>,
}

/// What switches did, from their own counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) packets: u64,
    pub(crate) dropped: u64,
    pub(crate) marks: u64,
    pub(crate) marks_taken: u64,
}

impl<'a> Network<'a> {
    pub(crate) fn build(plan: &'a Plan, layout: &'a Layout) -> Result<Self> {
        let hosts = (0..layout.hosts()).map(End::Host);
        let nodes: Vec<End> = hosts.chain((0..layout.switches()).map(End::Switch)).collect();
        let mut lines: String = nodes.iter().fold(String::new(), |mut text, node| {
            writeln!(text, "netns add {node}").expect("a text takes everything");
            text
        });
        let (delayed, plain): (Vec<Wire>, Vec<Wire>) =
            layout.wires().into_iter().partition(|wire| wire.link.delay >= SHORTEST_DELAY);
        for Wire { a, b, .. } in plain {
            writeln!(
                lines,
                "link add {} netns {} type veth peer name {} netns {}",
                a.name, a.end, b.name, b.end
            )
            .expect("a text takes everything");
        }
        run("ip", &["-batch", "-"], &lines)?;
        let delayed: Vec<Delayed> = delayed.iter().map(tap).collect::<Result<_>>()?;
        let line = if delayed.is_empty() { None } else { Some(Line::start(delayed)?) };
        let network = Self { plan, layout, _line: line };
        nodes.into_iter().try_for_each(|node| enter(node, || network.furnish(node))?)?;
        Ok(network)
    }

    /// Addresses, ways, settings and queues of one node, from inside of it.
    fn furnish(&self, node: End) -> Result<()> {
        let sysctl = |name: &str, value: &str| {
            fs::write(format!("/proc/sys/net/{name}"), value).map_err(|why| failed(name, why))
        };
        sysctl("ipv6/conf/all/disable_ipv6", "1")?;
        sysctl("ipv6/conf/default/disable_ipv6", "1")?;
        let mut lines = "link set lo up\n".to_owned();
        let devices = match node {
            End::Host(host) => {
                self.host_lines(host, &mut lines);
                sysctl("ipv4/tcp_ecn", if self.plan.switch.mark == AnyMark::OFF { "0" } else { "1" })?;
                // What one connection learned is not told to the next, and one that pauses keeps its window.
                sysctl("ipv4/tcp_no_metrics_save", "1")?;
                sysctl("ipv4/tcp_slow_start_after_idle", "0")?;
                // A program that stops sending has little left in the socket.
                sysctl("ipv4/tcp_notsent_lowat", "16384")?;
                vec![HOST_DEVICE.to_owned()]
            }
            End::Switch(switch) => {
                self.switch_lines(switch, &mut lines);
                sysctl("ipv4/ip_forward", "1")?;
                (0..self.layout.ports(switch)).map(port_name).collect()
            }
        };
        run("ip", &["-batch", "-"], &lines)?;
        for device in &devices {
            // Packets as they are on a wire: one stamp, one mark and one checksum each.
            run("ethtool", &["-K", device, "tso", "off", "gso", "off", "gro", "off", "tx", "off"], "")?;
        }
        if let End::Switch(switch) = node {
            (0..self.layout.ports(switch)).try_for_each(|port| self.equip(switch, port))?;
        }
        Ok(())
    }

    fn host_lines(&self, host: u32, lines: &mut String) {
        let transport = &self.plan.transport;
        // What a receiver tells its peer to send at most: payload, timestamps and our option.
        let mut ways = format!("advmss {}", transport.mtu.get() + 20);
        if transport.acks == Acks::EveryPacket {
            ways.push_str(" quickack 1");
        }
        let min_rto = transport.min_rto.get().div_ceil(1_000_000).max(1);
        writeln!(
            lines,
            "addr add {}/32 dev {HOST_DEVICE}\nlink set {HOST_DEVICE} up\n\
             route add default via {} dev {HOST_DEVICE} onlink rto_min {min_rto}ms {ways}",
            address(host),
            gateway(self.layout.switch_of(host)),
        )
        .expect("a text takes everything");
    }

    fn switch_lines(&self, switch: u32, lines: &mut String) {
        writeln!(lines, "addr add {}/32 dev lo", gateway(switch)).expect("a text takes everything");
        for port in 0..self.layout.ports(switch) {
            writeln!(lines, "link set {} up", port_name(port)).expect("a text takes everything");
        }
        for host in 0..self.layout.hosts() {
            let port = self.layout.towards(switch, host);
            let device = port_name(port);
            let way = match self.layout.behind(switch, port).0 {
                End::Host(_) => format!("dev {device}"),
                End::Switch(next) => format!("via {} dev {device} onlink", gateway(next)),
            };
            writeln!(lines, "route add {}/32 {way}", address(host)).expect("a text takes everything");
        }
    }

    /// The queue of a port, and what is done there.
    fn equip(&self, switch: u32, port: u32) -> Result<()> {
        let device = port_name(port);
        let (_, link) = self.layout.behind(switch, port);
        if !is_shaped(link) {
            return Ok(());
        }
        let [rate, burst, limit] = [
            link.rate.get().to_string() + "bit",
            burst(link.rate).to_string(),
            room(&self.plan.switch.buffer).get().to_string(),
        ];
        let shaper = ["rate", &rate, "burst", &burst, "limit", &limit];
        run("tc", &[&["qdisc", "replace", "dev", &device, "root", "tbf"][..], &shaper].concat(), "")?;
        if let Some(codel) = codel(&self.plan.switch.mark) {
            let direction = match self.plan.switch.marks_go {
                Direction::Forward => rpm::Direction::Forward,
                Direction::ReversePerFlow { .. } => rpm::Direction::ReversePerFlow,
                Direction::ReversePerPort => rpm::Direction::ReversePerPort,
            };
            let options = rpm::Options { codel, direction, ..rpm::Options::default() };
            Rpm::attach(&device, options).map_err(|why| failed("marking", why))?;
        }
        if self.plan.switch.stamp != Stamp::Off {
            let stamps = !self.plan.silences.contains(&Silence::always(switch));
            let options = switch::Options { stamps, ..switch::Options::default() };
            Switch::attach(&device, options).map_err(|why| failed("stamping", why))?;
        }
        Ok(())
    }

    /// Lets a switch stamp, or only measure, from now on.
    pub(crate) fn set_stamps(&self, switch: u32, stamps: bool) -> Result<()> {
        let set = || {
            self.shaped_ports(switch).try_for_each(|port| {
                let port = Switch::open(&port_name(port)).map_err(|why| failed("stamping", why))?;
                port.set_stamps(stamps).map_err(|why| failed("stamping", why))
            })
        };
        enter(End::Switch(switch), set)?
    }

    fn shaped_ports(&self, switch: u32) -> impl Iterator<Item = u32> + '_ {
        (0..self.layout.ports(switch)).filter(move |port| is_shaped(self.layout.behind(switch, *port).1))
    }

    /// What all switches have counted.
    pub(crate) fn counted(&self) -> Result<Counted> {
        let mut all = Counted::default();
        for switch in 0..self.layout.switches() {
            let counted = enter(End::Switch(switch), || {
                self.shaped_ports(switch).map(|port| self.count(&port_name(port))).collect::<Result<Vec<_>>>()
            })??;
            for port in counted {
                all.packets += port.packets;
                all.dropped += port.dropped;
                all.marks += port.marks;
                all.marks_taken += port.marks_taken;
            }
        }
        Ok(all)
    }

    fn count(&self, device: &str) -> Result<Counted> {
        let text = run("tc", &["-s", "-j", "qdisc", "show", "dev", device], "")?;
        let queues: serde_json::Value =
            serde_json::from_str(&text).map_err(|why| failed("what tc says", why))?;
        let all = queues.as_array().into_iter().flatten();
        let root = all.clone().find(|queue| queue["root"] == true);
        let number = |name: &str| root.and_then(|queue| queue[name].as_u64()).unwrap_or(0);
        let (marks, marks_taken) = match self.plan.switch.mark {
            AnyMark::Off(_) => (0, 0),
            _ => {
                let port = Rpm::open(device).map_err(|why| failed("marking", why))?;
                let counts = port.status().map_err(|why| failed("marking", why))?.counts;
                (counts.decisions(), counts.taken())
            }
        };
        Ok(Counted { packets: number("packets"), dropped: number("drops"), marks, marks_taken })
    }

    /// A number of the hosts' TCP, over all of them: the name in a line of `/proc/net/snmp` or `netstat` that begins with `head`.
    pub(crate) fn of_hosts(&self, head: &str, name: &str) -> Result<u64> {
        let mut sum = 0;
        for host in 0..self.layout.hosts() {
            sum += enter(End::Host(host), || {
                let read = |file: &str| fs::read_to_string(format!("/proc/thread-self/net/{file}"));
                let text = [read("snmp"), read("netstat")].into_iter().flatten().collect::<String>();
                of_table(&text, head, name)
            })?;
        }
        Ok(sum)
    }
}

impl Drop for Network<'_> {
    fn drop(&mut self) {
        let hosts = (0..self.layout.hosts()).map(End::Host);
        let nodes = hosts.chain((0..self.layout.switches()).map(End::Switch));
        let lines: String = nodes.map(|node| format!("netns del {node}\n")).collect();
        // Those that were never made are no loss; the room takes what is left.
        let _ = run("ip", &["-force", "-batch", "-"], &lines);
    }
}

/// A value under its name in the tables of `/proc/net`.
fn of_table(text: &str, head: &str, name: &str) -> u64 {
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let found = lines.windows(2).find_map(|pair| {
        let is_head = pair.iter().all(|line| line.first() == Some(&head));
        let at = pair[0].iter().position(|word| *word == name).filter(|_| is_head)?;
        pair[1].get(at)?.parse().ok()
    });
    found.unwrap_or(0)
}

/// Whether a link has a rate of its own here.
pub(crate) fn is_shaped(link: Link) -> bool {
    link.rate <= FASTEST_SHAPED
}

/// The bucket of a shaper, bytes: 0.8 ms, because one that is served late loses what its bucket does not hold.
fn burst(rate: BitRate) -> u64 {
    (rate.get() / 8 * 8 / 10_000).max(5_000)
}

/// What a queue holds.
fn room(buffer: &AnyBuffer) -> Bytes {
    Bytes::new(buffer.room(0, 0))
}

fn codel(mark: &AnyMark) -> Option<Codel> {
    match mark {
        AnyMark::CodelRfc(codel) => Some(Codel::Rfc(*codel)),
        AnyMark::CodelTofino(codel) => Some(Codel::Tofino(*codel)),
        _ => None,
    }
}

/// Two devices whose packets the delay line carries.
fn tap(wire: &Wire) -> Result<Delayed> {
    let device = |end: End, name: &str| {
        let builder = DeviceBuilder::new().name(name).layer(Layer::L2);
        enter(end, || builder.build_sync())?.map_err(|why| failed("making a TAP device (/dev/net/tun)", why))
    };
    let delay = Duration::from_nanos(wire.link.delay.get() / 1_000);
    Ok(Delayed { a: device(wire.a.end, &wire.a.name)?, b: device(wire.b.end, &wire.b.name)?, delay })
}

/// The address of a host.
pub(crate) fn address(host: u32) -> Ipv4Addr {
    let [_, _, high, low] = (host + 1).to_be_bytes();
    Ipv4Addr::new(10, 77, high, low)
}

/// The address of a switch.
fn gateway(switch: u32) -> Ipv4Addr {
    let [_, _, high, low] = (switch + 257).to_be_bytes();
    Ipv4Addr::new(169, 254, high, low)
}

/// Runs `work` in a thread that stands in a node; sockets that it makes belong there for ever.
pub(crate) fn enter<T: Send>(node: End, work: impl FnOnce() -> T + Send) -> Result<T> {
    let path = format!("/run/netns/{node}");
    thread::scope(|scope| {
        let inside = scope.spawn(move || {
            let namespace = File::open(&path).map_err(|why| failed(&path, why))?;
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|why| failed(format!("entering {path}"), why))?;
            Ok(work())
        });
        inside.join().map_err(|_| failed("the work inside a node", "it panicked"))?
    })
}

/// Runs a tool with a text to read, and gives what it says.
pub(crate) fn run(tool: &str, arguments: &[&str], input: &str) -> Result<String> {
    let command = || format!("{tool} {}", arguments.join(" "));
    let failed = |why: String| failed(command(), why);
    let child = Command::new(tool)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|why| failed(format!("{why}; `poseidon doctor` says what to install")))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A tool that does not read says why it failed in its own words.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|why| failed(why.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_under_their_names() {
        let text =
            "Tcp: OutSegs RetransSegs\nTcp: 17 4\nUdp: OutSegs\nUdp: 5\nTcpExt: TCPTimeouts\nTcpExt: 2\n";
        assert_eq!(of_table(text, "Tcp:", "RetransSegs"), 4);
        assert_eq!(of_table(text, "Udp:", "OutSegs"), 5);
        assert_eq!(of_table(text, "TcpExt:", "TCPTimeouts"), 2);
        assert_eq!(of_table(text, "Tcp:", "None"), 0);
    }

    #[test]
    fn no_two_nodes_share_an_address() {
        assert_eq!(address(0).to_string(), "10.77.0.1");
        assert_eq!(address(999).to_string(), "10.77.3.232");
        assert_eq!(gateway(0).to_string(), "169.254.1.1");
        assert_eq!(gateway(300).to_string(), "169.254.2.45");
    }

    #[test]
    fn a_bucket_is_eight_tenths_of_a_millisecond() {
        assert_eq!(burst(BitRate::from_mbps(100)), 10_000);
        assert_eq!(burst(BitRate::from_mbps(10)), 5_000);
    }
}
