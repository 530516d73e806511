//! A Linux router that marks congestion on the ACKs that come back: RPM, `bpf/rpm.bpf.c` at one port.
//!
//! ```text
//!   data ──> [ egress: CoDel hits, a mark waits for the flow ] ──> queue ──> receiver
//!   ACKs <── [ ingress: the next ACK of the flow gets ECE    ] <──────────── receiver
//! ```
//!
//! A port is attached and stays so when this process ends; another process may ask what it counted. Hosts must speak ECN
//! (`net.ipv4.tcp_ecn=1` on both ends) and not `AccECN`, and the ACKs must come back by the same port.
//!
//! ```no_run
//! use poseidon_linux::rpm::{Options, Rpm};
//!
//! Rpm::attach("e0", Options::default())?;
//! let status = Rpm::open("e0")?.status()?;
//! println!("{} of {} marks came back", status.counts.ack_marked, status.counts.decisions());
//! # Ok::<(), poseidon_linux::port::PortError>(())
//! ```

use crate::codel::{self, Codel};
use crate::in_kernel::{Aligned, KernelError};
use crate::maps::Maps;
use crate::metrics::Text;
use crate::port::{Device, Kind, Loaded, PortError, Side, ns_per_mib};
use core::fmt;
use core::hash::BuildHasher as _;
use poseidon_types::{BitRate, Bytes, Nanos};
use std::hash::RandomState;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/rpm.bpf.o")));

const EGRESS: &str = "rpm_egress";
const INGRESS: &str = "rpm_ingress";

const KIND: Kind = Kind {
    name: "rpm",
    priority: 5_053,
    programs: &[(EGRESS, Side::Egress), (INGRESS, Side::Ingress)],
    maps: &Maps::<Config>::NAMES,
};

/// How long a mark waits for an ACK, and how long after an ACK another is expected: as long as in the simulator. Longer than any
/// round trip, so a mark that still waits belongs to a flow that is over, and the next flow with its counter must not have it; and a
/// flow that had no ACK for so long is marked forward.
pub const PATIENCE: Nanos = Nanos::from_millis(1_000);

/// Which way a mark goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Direction {
    /// With the packet, as CE: what RPM is compared with.
    Forward,
    /// With the next ACK of the flow: RPM, algorithm 1. 65,536 counters.
    #[default]
    ReversePerFlow,
    /// With the next ACK of any flow of the port: one counter.
    ReversePerPort,
}

/// What a port is attached with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// At which its queue is sent; nothing: the rate that the queue says.
    pub rate: Option<BitRate>,
    /// When it marks.
    pub codel: Codel,
    /// Which way.
    pub direction: Direction,
}

/// A port that marks.
#[derive(Debug)]
pub struct Rpm {
    device: Device,
    maps: Maps<Config>,
}

/// What a port has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its device.
    pub device: String,
    /// At which its queue is sent, as it was attached or set.
    pub rate: BitRate,
    /// What the queue itself says now, if it does. Another rate than the first: somebody has changed the queue since, and delays are
    /// wrong.
    pub queue_rate: Option<BitRate>,
    /// When it marks.
    pub codel: Codel,
    /// Which way.
    pub direction: Direction,
    /// What became of packets.
    pub counts: Counts,
}

/// Packets by what became of them; `forgotten` counts marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Counts {
    /// Going out: ECN-capable, and not to be marked.
    pub spared: u64,
    /// Going out: marked themselves, as they should be or because no ACK of theirs comes by.
    pub marked_forward: u64,
    /// Going out: to be marked, and a mark was left for an ACK.
    pub mark_waits: u64,
    /// Going out: without ECN, so `CoDel` did not look at them.
    pub not_ecn_capable: u64,
    /// Going out: neither TCP nor UDP, a fragment, or not sound.
    pub other_out: u64,
    /// Going out: to be marked, but the kernel could not make the packet writable.
    pub no_memory_out: u64,
    /// Coming in: an ACK that took a mark along.
    pub ack_marked: u64,
    /// Coming in: an ACK for which no mark waited.
    pub ack_passed: u64,
    /// Coming in: no ACK.
    pub other_in: u64,
    /// Coming in: the same, and its mark is lost.
    pub no_memory_in: u64,
    /// Marks that no ACK fetched within a second.
    pub forgotten: u64,
}

impl Counts {
    /// How often `CoDel` hit.
    pub const fn decisions(&self) -> u64 {
        self.marked_forward + self.mark_waits + self.no_memory_out
    }

    /// Marks that a packet or an ACK took along.
    pub const fn taken(&self) -> u64 {
        self.marked_forward + self.ack_marked
    }

    /// Marks that wait for an ACK now.
    pub const fn waiting(&self) -> u64 {
        self.mark_waits.saturating_sub(self.ack_marked + self.no_memory_in + self.forgotten)
    }

    /// Packets by their fate, each with its name.
    pub const fn by_fate(&self) -> [(&'static str, u64); 10] {
        [
            ("spared", self.spared),
            ("marked_forward", self.marked_forward),
            ("mark_waits", self.mark_waits),
            ("not_ecn_capable", self.not_ecn_capable),
            ("other_out", self.other_out),
            ("no_memory_out", self.no_memory_out),
            ("ack_marked", self.ack_marked),
            ("ack_passed", self.ack_passed),
            ("other_in", self.other_in),
            ("no_memory_in", self.no_memory_in),
        ]
    }
}

impl Rpm {
    /// Attaches a port. Refused where it is attached, where its queue cannot be read, and where nobody says its rate.
    pub fn attach(device: &str, options: Options) -> Result<Self, PortError> {
        let device = Device::find(device)?;
        let rate = device.rate(options.rate)?;
        let loaded = Loaded::load(&OBJECT.0, None)?;
        let maps = Maps::<Config>::of(&loaded)?;
        maps.write(&Config {
            bits_per_second: rate.get(),
            ns_per_mib: ns_per_mib(rate)?,
            direction: options.direction.code(),
            // Keyed with the system's randomness.
            seed: RandomState::new().hash_one(device.index),
            patience: PATIENCE.get() >> 20,
            codel: codel::Config::new(&options.codel, device.largest),
        })?;
        KIND.attach(&loaded, &device)?;
        Ok(Self { device, maps })
    }

    /// A port that is attached already.
    pub fn open(device: &str) -> Result<Self, PortError> {
        let device = Device::find(device)?;
        let maps = Maps::pinned(KIND.open(&device)?)?;
        Ok(Self { device, maps })
    }

    /// What it has done.
    pub fn status(&self) -> Result<Status, PortError> {
        let config = self.maps.config()?;
        let other = KernelError::OtherObject { lacks: "settings that this version knows" };
        let (Some(codel), Some(direction)) = (config.codel.codel(), Direction::of(config.direction)) else {
            return Err(other.into());
        };
        Ok(Status {
            device: self.device.name.clone(),
            rate: BitRate::from_bps(config.bits_per_second),
            queue_rate: Device::find(&self.device.name)?.shaped,
            codel,
            direction,
            counts: counts(&self.maps)?,
        })
    }

    /// Takes both programs from the port, and forgets what they counted and which marks waited.
    pub fn detach(self) -> Result<(), PortError> {
        KIND.detach(&self.device)
    }
}

/// Whether the kernel takes the programs, which read a queue; they are unloaded again.
pub(crate) fn try_loading() -> Result<(), KernelError> {
    Loaded::load(&OBJECT.0, None).map(drop)
}

/// The programs without a port: packets are handed to them one by one.
#[derive(Debug)]
pub struct Offline {
    loaded: Loaded,
    maps: Maps<Config>,
    config: Box<Config>,
}

impl Offline {
    /// Loads them. A mark waits for `patience`, in units of 1.05 ms.
    pub fn load(codel: &Codel, direction: Direction, patience: Nanos) -> Result<Self, KernelError> {
        // One MiB waits, so a delay is the factor of the rate.
        let loaded = Loaded::load(&OBJECT.0, Some(1 << 20))?;
        let maps = Maps::<Config>::of(&loaded)?;
        let config = Box::new(Config {
            bits_per_second: 0,
            ns_per_mib: 0,
            direction: direction.code(),
            seed: 1,
            patience: patience.get() >> 20,
            codel: codel::Config::new(codel, Bytes::new(1_514)),
        });
        maps.write(&config)?;
        Ok(Self { loaded, maps, config })
    }

    /// Every packet that goes out from now on will wait this long, ns.
    pub fn set_delay(&mut self, delay: u32) -> Result<(), KernelError> {
        self.config.ns_per_mib = delay;
        self.maps.write(&self.config)
    }

    /// Writes what becomes of a packet that goes out, which is longer than its Ethernet header, into `into`. Gives how long it is then
    /// and the time that one of `repeat` times took.
    pub fn egress(&self, packet: &[u8], into: &mut [u8], repeat: u32) -> Result<(usize, Nanos), KernelError> {
        self.loaded.run(EGRESS, packet, into, repeat)
    }

    /// The same for one that comes in.
    pub fn ingress(
        &self,
        packet: &[u8],
        into: &mut [u8],
        repeat: u32,
    ) -> Result<(usize, Nanos), KernelError> {
        self.loaded.run(INGRESS, packet, into, repeat)
    }

    /// What they have counted.
    pub fn counts(&self) -> Result<Counts, KernelError> {
        counts(&self.maps)
    }

    /// How many instructions the verifier has walked through to pass the programs, out and in; it gives up at a million.
    pub fn verified_instructions(&self) -> Result<[u32; 2], KernelError> {
        Ok([self.loaded.verified_instructions(EGRESS)?, self.loaded.verified_instructions(INGRESS)?])
    }
}

/// `struct config`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Config {
    bits_per_second: u64,
    ns_per_mib: u32,
    direction: u32,
    seed: u64,
    patience: u64,
    codel: codel::Config,
}

fn counts(maps: &Maps<Config>) -> Result<Counts, KernelError> {
    Ok(zerocopy::transmute!(maps.counters::<{ size_of::<Counts>() / 8 }>()?))
}

const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::ReversePerFlow, Direction::ReversePerPort];

impl Direction {
    /// `enum direction`.
    const fn code(self) -> u32 {
        self as u32
    }

    fn of(code: u32) -> Option<Self> {
        DIRECTIONS.into_iter().find(|direction| direction.code() == code)
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forward => "forward",
            Self::ReversePerFlow => "reverse-per-flow",
            Self::ReversePerPort => "reverse-per-port",
        })
    }
}

/// The state of ports as `OpenMetrics` text.
pub fn open_metrics(ports: &[Status]) -> String {
    let mut text = Text::default();
    let name = "poseidon_rpm_packets";
    text.family(name, "counter", None, "Packets by what became of them.");
    for port in ports {
        for (fate, packets) in port.counts.by_fate() {
            text.sample(&format!("{name}_total"), &[("device", &port.device), ("fate", fate)], packets);
        }
    }
    let name = "poseidon_rpm_marks_forgotten";
    text.family(name, "counter", None, "Marks that no ACK fetched within a second.");
    for port in ports {
        text.sample(&format!("{name}_total"), &[("device", &port.device)], port.counts.forgotten);
    }
    let name = "poseidon_rpm_marks_waiting";
    text.family(name, "gauge", None, "Marks that wait for an ACK.");
    for port in ports {
        text.sample(name, &[("device", &port.device)], port.counts.waiting());
    }
    let name = "poseidon_rpm_port";
    text.family(name, "info", None, "How the port marks.");
    for port in ports {
        let (direction, codel) = (port.direction.to_string(), port.codel.to_string());
        let labels = [("device", port.device.as_str()), ("direction", &direction), ("codel", &codel)];
        text.sample(&format!("{name}_info"), &labels, 1);
    }
    text.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_add_up_and_are_told() {
        let counts =
            Counts { mark_waits: 9, ack_marked: 5, forgotten: 2, marked_forward: 1, ..Counts::default() };
        assert_eq!((counts.decisions(), counts.waiting()), (10, 2));
        let status = Status {
            device: "e0".to_owned(),
            rate: BitRate::from_mbps(100),
            queue_rate: None,
            codel: Codel::default(),
            direction: Direction::default(),
            counts,
        };
        let text = open_metrics(&[status]);
        for line in [
            "poseidon_rpm_packets_total{device=\"e0\",fate=\"ack_marked\"} 5",
            "poseidon_rpm_marks_waiting{device=\"e0\"} 2",
            "poseidon_rpm_port_info{device=\"e0\",direction=\"reverse-per-flow\",\
             codel=\"codel-tofino, target 1 ms, interval 20 ms\"} 1",
        ] {
            assert_eq!(text.lines().filter(|have| *have == line).count(), 1, "{line}\n{text}");
        }
    }

    #[test]
    fn directions_have_their_codes() {
        assert!(DIRECTIONS.iter().all(|direction| Direction::of(direction.code()) == Some(*direction)));
        assert_eq!(Direction::of(3), None);
    }
}
