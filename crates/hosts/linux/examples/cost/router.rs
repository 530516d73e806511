//! Measures how many packets a router forwards per second of CPU time, with and without the stamping program.
//!
//! ```text
//!   bpf/feed.bpf.c ──frames, as if received from a device──> routing ──> [ switch ] TBF ──> ifb, which drops them
//! ```
//!
//! There is no sender and no receiver. All CPU time belongs to the router, so this is the strictest measure of the
//! added cost.

use crate::testnet::{cpu_of_this_thread, sh};
use crate::{median, quantile};
use core::error::Error;
use libbpf_rs::{Object, ProgramInput};
use poseidon_linux::object::{AlignedBytes, load_object, set_initial_value};
use poseidon_linux::switch::{Options, Switch};
use poseidon_types::BitRate;
use poseidon_wire::{shim, tcp_option};
use rustix::net::netdevice::name_to_index;
use std::net::UdpSocket;
use zerocopy::IntoBytes as _;

type AnyResult<T> = Result<T, Box<dyn Error>>;

/// The frame size, as in `bpf/feed.bpf.c`.
const FRAME_BYTES: usize = 80;
/// The flag `BPF_F_TEST_XDP_LIVE_FRAMES`.
const LIVE_FRAMES: u32 = 1 << 1;
/// The number of frames per turn. A turn takes a few milliseconds, so both turns of a pair see the same machine state.
const FRAMES: u32 = 8_192;
const TURNS: usize = 200;
const PORTS: [u8; 2] = [0, 1];

const MAC: [u8; 6] = [2, 0, 0, 0, 9, 1];

static OBJECT: &AlignedBytes<[u8]> = &AlignedBytes(*include_bytes!(concat!(env!("OUT_DIR"), "/feed.bpf.o")));

pub(crate) fn measure(json: bool) -> AnyResult<()> {
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

/// Alternates between a port with the program and a port without it, then swaps the ports. If `has_backlog` is set,
/// some frames wait in the queue, so there is a delay to write.
fn compare(
    name: &str,
    json: bool,
    has_backlog: bool,
    frame: impl Fn(u8) -> [u8; FRAME_BYTES],
) -> AnyResult<()> {
    let (mut ratios, mut plain, mut added) = (Vec::new(), Vec::new(), Vec::new());
    let (mut stamped, mut raised, mut packets) = (0, 0, 0);
    for [stamped_port, plain_port] in [PORTS, [1, 0]] {
        // HTB does not report a rate.
        let options = Options { rate: Some(BitRate::from_gbps(1)), ..Options::default() };
        let port = Switch::attach(&format!("out{stamped_port}"), options)?;
        // Do this after attaching, because adding clsact empties the queue.
        for port in PORTS.iter().filter(|_| has_backlog) {
            add_backlog(*port)?;
        }
        let feeds = [Feed::new(0, &frame(0))?, Feed::new(1, &frame(1))?];
        for _ in 0..TURNS {
            let stamped_ns = feeds[usize::from(stamped_port)].run()?;
            let plain_ns = feeds[usize::from(plain_port)].run()?;
            ratios.push(plain_ns / stamped_ns);
            plain.push(plain_ns);
            added.push(stamped_ns - plain_ns);
        }
        let counts = port.status()?.counts;
        port.detach()?;
        stamped += counts.tcp_stamped + counts.udp_stamped;
        raised += counts.raised;
        packets += counts.packets();
    }
    let ns = median(plain);
    let share = |count: u64| count as f64 / packets as f64;
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
        "  {name:20} {ns:4.0} ns plain, {:8.0} packets/s; ratio with the program {:.3} (quartiles {:.3} to {:.3}), {:.0} ns more; \
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

/// The type-of-service value of frames that wait.
const SLOW: u8 = 8;

/// Replaces the queue with a queue in which some frames wait forever, so that there is a delay to write. All other
/// frames leave immediately.
fn add_backlog(port: u8) -> AnyResult<()> {
    sh(&format!(
        "tc qdisc del dev out{port} root; tc qdisc add dev out{port} root handle 1: htb default 1
         tc class add dev out{port} parent 1: classid 1:1 htb rate 100gbit burst 1000000 quantum 60000
         tc class add dev out{port} parent 1: classid 1:2 htb rate 8bit burst 1 quantum 60000
         tc filter add dev out{port} parent 1: protocol ip u32 match ip tos {SLOW} 0xff flowid 1:2"
    ))?;
    let mut slow = tcp(port, true);
    slow[15] = SLOW;
    // Update the header checksum.
    let checksum = u16::from_be_bytes([slow[24], slow[25]]) - u16::from(SLOW);
    slow[24..26].copy_from_slice(&checksum.to_be_bytes());
    Feed::new(port, &slow)?.run()?;
    sh(&format!("tc filter del dev out{port} parent 1:"))
}

/// The program that generates frames, and the device that they appear to come from.
struct Feed {
    object: Object,
    device: u32,
    _xdp: libbpf_rs::Link,
}

impl Feed {
    fn new(port: u8, frame: &[u8; FRAME_BYTES]) -> AnyResult<Self> {
        let object = load_object(&OBJECT.0, |object| set_initial_value(object, "frame", frame))?;
        let device = name_to_index(UdpSocket::bind("0.0.0.0:0")?, &format!("in{port}"))?;
        let program = object.progs_mut().next().ok_or("the object has no program")?;
        // A veth has a queue for XDP frames only while an XDP program is attached.
        let xdp = program.attach_xdp(device.cast_signed())?;
        Ok(Self { object, device, _xdp: xdp })
    }

    /// Returns the CPU time per frame in ns.
    fn run(&self) -> AnyResult<f64> {
        let program = self.object.progs_mut().next().ok_or("the object has no program")?;
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

/// Builds a frame with Ethernet and IPv4 headers.
fn frame(port: u8, protocol: u8, payload: &[u8]) -> [u8; FRAME_BYTES] {
    let mut frame = [0; FRAME_BYTES];
    frame[..6].copy_from_slice(&MAC);
    frame[6..14].copy_from_slice(&[2, 0, 0, 0, 9, 2, 8, 0]);
    let total = u8::try_from(FRAME_BYTES - 14).expect("the frame is small");
    let ip = [0x45, 0, 0, total, 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 8, 10, 2, 10, 8, port, 2];
    frame[14..34].copy_from_slice(&ip);
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !u16::try_from(folded).expect("the folded sum has 16 bits");
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame[34..34 + payload.len()].copy_from_slice(payload);
    frame
}

/// Builds a TCP segment as Linux sends it, with timestamps and optionally our option. Routers do not verify the TCP
/// checksum.
pub(crate) fn tcp(port: u8, has_option: bool) -> [u8; FRAME_BYTES] {
    let mut header = [0; 40];
    header[..20].copy_from_slice(&[4, 0, 5, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0x80, 0x10, 1, 0, 0, 0, 0, 0]);
    header[20..32].copy_from_slice(&[1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8]);
    if has_option {
        header[12] = 0xa0;
        tcp_option::Repr::default().emit(&mut header[32..]).expect("the header fits");
    }
    frame(port, 6, &header)
}

pub(crate) fn udp(port: u8, destination: u16) -> [u8; FRAME_BYTES] {
    let mut header = [0; 12];
    header[..2].copy_from_slice(&1_024_u16.to_be_bytes());
    header[2..4].copy_from_slice(&destination.to_be_bytes());
    header[4..6].copy_from_slice(&46_u16.to_be_bytes());
    shim::Repr::default().emit(&mut header[8..]).expect("the header fits");
    frame(port, 17, &header)
}
