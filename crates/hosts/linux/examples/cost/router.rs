//! What a router forwards in a second of CPU, with the program that stamps and without.
//!
//! ```text
//!   bpf/feed.bpf.c ──frames, as if a device had received them──> routing ──> [ switch ] TBF ──> ifb, which drops them
//! ```
//!
//! Nothing sends and nothing receives: all CPU is the router's, so this is the hardest measure of what a program adds.

use crate::place::{cpu_of_this_thread, sh};
use crate::{median, quantile};
use core::error::Error;
use libbpf_rs::{Object, ObjectBuilder, ProgramInput};
use poseidon_linux::switch::{Options, Switch};
use poseidon_types::BitRate;
use poseidon_wire::{shim, tcp_option};
use rustix::net::netdevice::name_to_index;
use std::net::UdpSocket;
use zerocopy::IntoBytes as _;

type Anything<T> = Result<T, Box<dyn Error>>;

/// As in `bpf/feed.bpf.c`.
const FRAME_BYTES: usize = 80;
/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
const LIVE_FRAMES: u32 = 1 << 1;
/// Per turn: some milliseconds, so that both turns of a pair meet the same machine.
const FRAMES: u32 = 8_192;
const TURNS: usize = 200;
const PORTS: [u8; 2] = [0, 1];

const MAC: [u8; 6] = [2, 0, 0, 0, 9, 1];

/// libelf reads structs of eight bytes out of it.
#[repr(C, align(8))]
struct Aligned<Bytes: ?Sized>(Bytes);

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/feed.bpf.o")));

pub(crate) fn measure(json: bool) -> Anything<()> {
    for port in PORTS {
        sh(&format!(
            "ip link add in{port} type veth peer name far{port}; ip link set in{port} address 02:00:00:00:09:01
             ip addr add 10.8.1{port}.1/24 dev in{port}; ip link set far{port} up; ip link set in{port} up
             ip link add out{port} type ifb; ip link set out{port} up; ip route add 10.8.{port}.0/24 dev out{port}
             tc qdisc replace dev out{port} root tbf rate 100gbit burst 1000000 limit 10000000"
        ))?;
    }
    sh("echo 1 >/proc/sys/net/ipv4/ip_forward")?;
    if !json {
        println!(
            "router: packets per second of CPU, {TURNS} turns of {FRAMES} frames of {FRAME_BYTES} bytes on each of two ports"
        );
    }
    compare("TCP with our option", json, false, |port| tcp(port, true))?;
    compare("TCP without it", json, false, |port| tcp(port, false))?;
    compare("UDP with our shim", json, false, |port| udp(port, shim::DEFAULT_UDP_PORT))?;
    compare("UDP without it", json, false, |port| udp(port, 9))?;
    compare("TCP, delay written", json, true, |port| tcp(port, true))?;
    PORTS.iter().try_for_each(|port| sh(&format!("ip link del out{port}; ip link del in{port}")))
}

/// Two ports by turns, one with the program and one without; then the other way round. There is a delay to write where some frames are
/// held back.
fn compare(
    name: &str,
    json: bool,
    is_held_back: bool,
    frame: impl Fn(u8) -> [u8; FRAME_BYTES],
) -> Anything<()> {
    let (mut ratios, mut plain, mut added) = (Vec::new(), Vec::new(), Vec::new());
    let (mut stamped, mut raised, mut packets) = (0, 0, 0);
    for [with, without] in [PORTS, [1, 0]] {
        // HTB does not say its rate.
        let options = Options { rate: Some(BitRate::from_gbps(1)), ..Options::default() };
        let port = Switch::attach(&format!("out{with}"), options)?;
        // Afterwards: where clsact comes or goes, the queue is emptied.
        for port in PORTS.iter().filter(|_| is_held_back) {
            hold_back(*port)?;
        }
        let feeds = [Feed::new(0, &frame(0))?, Feed::new(1, &frame(1))?];
        for _ in 0..TURNS {
            let [with, without] = [feeds[usize::from(with)].run()?, feeds[usize::from(without)].run()?];
            ratios.push(without / with);
            plain.push(without);
            added.push(with - without);
        }
        let counts = port.status()?.counts;
        port.detach()?;
        stamped += counts.tcp_stamped + counts.udp_stamped;
        raised += counts.raised;
        packets += counts.packets();
    }
    let ns = median(plain);
    let share = |of: u64| of as f64 / packets as f64;
    if json {
        println!(
            "{{\"part\":\"router\",\"row\":\"{name}\",\"ratio\":{:.4},\"plain_ns\":{ns:.1},\"added_ns\":{:.1},\"stamped\":{:.4},\"raised\":{:.4}}}",
            median(ratios),
            median(added),
            share(stamped),
            share(raised)
        );
        return Ok(());
    }
    println!(
        "  {name:20} {ns:4.0} ns plain, {:8.0} packets/s; with the program {:.3} of it (quarters {:.3} to {:.3}), {:.0} ns more; \
         {:.2} stamped, {:.2} raised",
        1e9 / ns,
        median(ratios.clone()),
        quantile(&ratios, 0.25),
        quantile(&ratios, 0.75),
        median(added),
        share(stamped),
        share(raised)
    );
    Ok(())
}

/// Type of service of what is held back.
const SLOW: u8 = 8;

/// Another queue: some frames wait in it for as long as this lasts, so that there is a delay to write, and all others go at once.
fn hold_back(port: u8) -> Anything<()> {
    sh(&format!(
        "tc qdisc del dev out{port} root; tc qdisc add dev out{port} root handle 1: htb default 1
         tc class add dev out{port} parent 1: classid 1:1 htb rate 100gbit burst 1000000 quantum 60000
         tc class add dev out{port} parent 1: classid 1:2 htb rate 8bit burst 1 quantum 60000
         tc filter add dev out{port} parent 1: protocol ip u32 match ip tos {SLOW} 0xff flowid 1:2"
    ))?;
    let mut slow = tcp(port, true);
    slow[15] = SLOW;
    // The checksum of the header covers it.
    let checksum = u16::from_be_bytes([slow[24], slow[25]]) - u16::from(SLOW);
    slow[24..26].copy_from_slice(&checksum.to_be_bytes());
    Feed::new(port, &slow)?.run()?;
    sh(&format!("tc filter del dev out{port} parent 1:"))
}

/// The program that feeds, at the device that it pretends to be.
struct Feed {
    object: Object,
    device: u32,
    _ready: libbpf_rs::Link,
}

impl Feed {
    fn new(port: u8, frame: &[u8; FRAME_BYTES]) -> Anything<Self> {
        let mut open = ObjectBuilder::default().open_memory(&OBJECT.0)?;
        let mut map = open.maps_mut().find(|map| map.name().to_string_lossy().ends_with("frame"));
        map.as_mut()
            .and_then(|map| map.initial_value_mut())
            .ok_or("a place for the frame")?
            .copy_from_slice(frame);
        let object = open.load()?;
        let device = name_to_index(UdpSocket::bind("0.0.0.0:0")?, &format!("in{port}"))?;
        let program = object.progs_mut().next().ok_or("its program")?;
        // A veth has a queue for frames only while a program of this kind is there; nothing comes this way.
        let ready = program.attach_xdp(device.cast_signed())?;
        Ok(Self { object, device, _ready: ready })
    }

    /// ns of CPU per frame.
    fn run(&self) -> Anything<f64> {
        let program = self.object.progs_mut().next().ok_or("its program")?;
        // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
        let mut context = [0, u32::try_from(FRAME_BYTES)?, 0, self.device, 0, 0];
        let before = cpu_of_this_thread();
        program.test_run(ProgramInput {
            context_in: Some(context.as_mut_bytes()),
            data_in: Some(&[0; FRAME_BYTES]),
            flags: LIVE_FRAMES,
            repeat: FRAMES,
            ..ProgramInput::default()
        })?;
        Ok((cpu_of_this_thread() - before) as f64 / f64::from(FRAMES))
    }
}

/// Ethernet and IPv4, with what follows.
fn frame(port: u8, protocol: u8, above: &[u8]) -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    frame[..6].copy_from_slice(&MAC);
    frame[6..14].copy_from_slice(&[2, 0, 0, 0, 9, 2, 8, 0]);
    let total = u8::try_from(FRAME_BYTES - 14).expect("a small frame");
    let ip = [0x45, 0, 0, total, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 8, 10, 2, 10, 8, port, 2];
    frame[14..34].copy_from_slice(&ip);
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !u16::try_from(folded).expect("fewer than eight words carry");
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame[34..34 + above.len()].copy_from_slice(above);
    frame
}

/// A segment as Linux sends them: with a timestamp, and ours behind it. Nobody checks its checksum, which a router does not.
pub(crate) fn tcp(port: u8, is_ours: bool) -> [u8; FRAME_BYTES] {
    let mut header = [0; 40];
    header[..20].copy_from_slice(&[4, 0, 5, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0x80, 0x10, 1, 0, 0, 0, 0, 0]);
    header[20..32].copy_from_slice(&[1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8]);
    if is_ours {
        header[12] = 0xa0;
        tcp_option::Repr::default().emit(&mut header[32..]).expect("it fits");
    }
    frame(port, 6, &header)
}

pub(crate) fn udp(port: u8, destination: u16) -> [u8; FRAME_BYTES] {
    let mut header = [0; 12];
    header[..2].copy_from_slice(&1_024_u16.to_be_bytes());
    header[2..4].copy_from_slice(&destination.to_be_bytes());
    header[4..6].copy_from_slice(&46_u16.to_be_bytes());
    shim::Repr::default().emit(&mut header[8..]).expect("it fits");
    frame(port, 17, &header)
}
