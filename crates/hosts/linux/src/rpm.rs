//! Reverse path congestion marking (RPM) in a Linux router: `bpf/rpm.bpf.c` marks returning ACKs at a port.
//!
//! ```text
//!   data ──> [ egress: CoDel marks, the mark is stored   ] ──> queue ──> receiver
//!   ACKs <── [ ingress: the next ACK of the flow gets ECE ] <──────────── receiver
//! ```
//!
//! A port stays attached after this process exits, and another process can read its counters. Both hosts must use ECN
//! (`net.ipv4.tcp_ecn=1`), but not `AccECN`. The ACKs must return through the same port.
//!
//! ```no_run
//! use poseidon_linux::rpm::{Options, Rpm};
//!
//! Rpm::attach("e0", Options::default())?;
//! let status = Rpm::open("e0")?.status()?;
//! println!("{} of {} marks were sent on ACKs", status.counts.ack_marked, status.counts.decisions());
//! # Ok::<(), poseidon_linux::port::PortError>(())
//! ```

use crate::codel::{self, Codel};
use crate::kernel_features;
use crate::maps::PortMaps;
use crate::object::{AlignedBytes, KernelError};
use crate::port::{AttachmentKind, Device, Hook, LoadedObject, PortError, StalePin, ns_per_mib};
use core::fmt;
use core::hash::BuildHasher as _;
use poseidon_metrics::{Format, Kind, MetricsText};
use poseidon_types::{BitRate, Bytes, Nanos};
use std::hash::RandomState;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

static OBJECT: &AlignedBytes<[u8]> = &AlignedBytes(*include_bytes!(concat!(env!("OUT_DIR"), "/rpm.bpf.o")));

const EGRESS: &str = "rpm_egress";
const INGRESS: &str = "rpm_ingress";

const KIND: AttachmentKind = AttachmentKind {
    name: "rpm",
    priority: 5_053,
    programs: &[(EGRESS, Hook::Egress), (INGRESS, Hook::Ingress)],
    maps: &PortMaps::<Config>::NAMES,
};

/// How long a mark waits for an ACK. The simulator uses the same value.
///
/// The lifetime exceeds every round-trip time, so an older mark belongs to a flow that has ended. A later flow that
/// shares the counter must not receive the mark. If a flow has had no ACK for this long, its packets are marked
/// forward.
pub const MARK_LIFETIME: Nanos = Nanos::from_millis(1_000);

/// The direction of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Direction {
    /// CE in the packet itself: the baseline for RPM.
    Forward,
    /// ECE in the next ACK of the flow: RPM, algorithm 1, with 65,536 counters.
    #[default]
    ReversePerFlow,
    /// ECE in the next ACK of any flow at the port, with one counter.
    ReversePerPort,
}

/// The port options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// The queue's drain rate. Defaults to the rate that the queue reports.
    pub rate: Option<BitRate>,
    /// The marking policy.
    pub codel: Codel,
    /// The direction of marks.
    pub direction: Direction,
}

/// A port that marks packets or ACKs.
#[derive(Debug)]
pub struct Rpm {
    device: Device,
    maps: PortMaps<Config>,
}

/// A port's settings and counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The device name.
    pub device: String,
    /// The drain rate used to compute delays.
    pub rate: BitRate,
    /// The rate that the queue reports now. If it differs from `rate`, the queue has changed, and the computed delays
    /// are wrong.
    pub queue_rate: Option<BitRate>,
    /// The marking policy.
    pub codel: Codel,
    /// The direction of marks.
    pub direction: Direction,
    /// The number of packets by outcome.
    pub counts: Counts,
}

/// The number of packets by outcome. Only `expired` counts marks instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Counts {
    /// Egress: ECN-capable packets without a mark.
    pub unmarked: u64,
    /// Egress: packets marked with CE, by configuration or because no ACK of the flow is expected.
    pub marked_forward: u64,
    /// Egress: packets whose mark was stored for an ACK.
    pub stored: u64,
    /// Egress: packets without ECN, which `CoDel` ignores.
    pub not_ecn_capable: u64,
    /// Egress: packets that are neither TCP nor UDP, fragments, and malformed packets.
    pub other_out: u64,
    /// Egress: packets to be marked that the kernel could not make writable.
    pub no_memory_out: u64,
    /// Ingress: ACKs that carry a mark.
    pub ack_marked: u64,
    /// Ingress: ACKs without a stored mark.
    pub ack_unmarked: u64,
    /// Ingress: packets that are not ACKs.
    pub other_in: u64,
    /// Ingress: ACKs that the kernel could not make writable; their mark is lost.
    pub no_memory_in: u64,
    /// Marks that expired because no ACK arrived within a second.
    pub expired: u64,
}

impl Counts {
    /// Returns how often `CoDel` decided to mark.
    pub const fn decisions(&self) -> u64 {
        self.marked_forward + self.stored + self.no_memory_out
    }

    /// Returns the number of marks that were sent in a packet or an ACK.
    pub const fn delivered(&self) -> u64 {
        self.marked_forward + self.ack_marked
    }

    /// Returns the number of stored marks that are still waiting for an ACK.
    pub const fn pending(&self) -> u64 {
        self.stored.saturating_sub(self.ack_marked + self.no_memory_in + self.expired)
    }

    /// Returns the packet counters with their names.
    pub const fn by_outcome(&self) -> [(&'static str, u64); 10] {
        [
            ("spared", self.unmarked),
            ("marked_forward", self.marked_forward),
            ("mark_waits", self.stored),
            ("not_ecn_capable", self.not_ecn_capable),
            ("other_out", self.other_out),
            ("no_memory_out", self.no_memory_out),
            ("ack_marked", self.ack_marked),
            ("ack_passed", self.ack_unmarked),
            ("other_in", self.other_in),
            ("no_memory_in", self.no_memory_in),
        ]
    }
}

impl Rpm {
    /// Attaches a port. Fails if the port is already attached, or if its queue or rate cannot be read.
    pub fn attach(device: &str, options: Options) -> Result<Self, PortError> {
        let device = Device::find(device)?;
        let rate = device.rate(options.rate)?;
        let object = LoadedObject::load(&OBJECT.0, kernel_features::PORT, None)?;
        let maps = PortMaps::<Config>::from_object(&object)?;
        maps.write_config(&Config {
            bits_per_second: rate.get(),
            ns_per_mib: ns_per_mib(rate)?,
            direction: options.direction.code(),
            // `RandomState` uses random keys from the operating system.
            seed: RandomState::new().hash_one(device.index),
            mark_lifetime: MARK_LIFETIME.get() >> 20,
            codel: codel::Config::new(&options.codel, device.max_frame),
        })?;
        KIND.attach(&object, &device)?;
        Ok(Self { device, maps })
    }

    /// Opens an attached port.
    pub fn open(device: &str) -> Result<Self, PortError> {
        let device = Device::find(device)?;
        let maps = PortMaps::from_pins(KIND.open(&device)?)?;
        Ok(Self { device, maps })
    }

    /// Returns the settings and counters.
    pub fn status(&self) -> Result<Status, PortError> {
        let config = self.maps.read_config()?;
        let mismatch = KernelError::ObjectMismatch { missing: "settings of this version" };
        let (Some(codel), Some(direction)) = (config.codel.codel(), Direction::from_code(config.direction))
        else {
            return Err(mismatch.into());
        };
        Ok(Status {
            device: self.device.name.clone(),
            rate: BitRate::from_bps(config.bits_per_second),
            queue_rate: Device::find(&self.device.name)?.queue_rate,
            codel,
            direction,
            counts: read_counts(&self.maps)?,
        })
    }

    /// Detaches both programs, and discards their counters and stored marks.
    pub fn detach(self) -> Result<(), PortError> {
        KIND.detach(&self.device)
    }
}

/// Lists the pins of ports whose device no longer exists.
pub fn stale_pins() -> Result<Vec<StalePin>, PortError> {
    KIND.stale_pins()
}

/// Removes the pins of ports whose device no longer exists. Returns the removed pins.
pub fn remove_stale_pins() -> Result<Vec<StalePin>, PortError> {
    KIND.remove_stale_pins()
}

/// Checks that the kernel accepts the programs, then unloads them.
pub(crate) fn try_loading() -> Result<(), KernelError> {
    LoadedObject::load(&OBJECT.0, kernel_features::PORT, None).map(drop)
}

/// The programs, loaded without a port. Tests and benchmarks pass packets to them one by one.
#[derive(Debug)]
pub struct Offline {
    object: LoadedObject,
    maps: PortMaps<Config>,
    config: Box<Config>,
}

impl Offline {
    /// Loads the programs. Marks expire after `mark_lifetime`, which is rounded down to units of 1.05 ms.
    pub fn load(codel: &Codel, direction: Direction, mark_lifetime: Nanos) -> Result<Self, KernelError> {
        // With a backlog of 2^20 bytes, the delay equals `ns_per_mib`.
        let object = LoadedObject::load(&OBJECT.0, kernel_features::PORT, Some(1 << 20))?;
        let maps = PortMaps::<Config>::from_object(&object)?;
        let config = Box::new(Config {
            bits_per_second: 0,
            ns_per_mib: 0,
            direction: direction.code(),
            seed: 1,
            mark_lifetime: mark_lifetime.get() >> 20,
            codel: codel::Config::new(codel, Bytes::new(1_514)),
        });
        maps.write_config(&config)?;
        Ok(Self { object, maps, config })
    }

    /// Sets the queueing delay of all subsequent outgoing packets, in ns.
    pub fn set_delay(&mut self, delay: u32) -> Result<(), KernelError> {
        self.config.ns_per_mib = delay;
        self.maps.write_config(&self.config)
    }

    /// Runs the egress program `repeat` times on a packet, and writes the result into `output`.
    ///
    /// The packet must be longer than its Ethernet header. Returns the result's length and the mean time per run.
    pub fn egress(
        &self,
        packet: &[u8],
        output: &mut [u8],
        repeat: u32,
    ) -> Result<(usize, Nanos), KernelError> {
        self.object.run(EGRESS, packet, output, repeat)
    }

    /// Runs the ingress program in the same way as [`Self::egress`].
    pub fn ingress(
        &self,
        packet: &[u8],
        output: &mut [u8],
        repeat: u32,
    ) -> Result<(usize, Nanos), KernelError> {
        self.object.run(INGRESS, packet, output, repeat)
    }

    /// Returns the counters.
    pub fn counts(&self) -> Result<Counts, KernelError> {
        read_counts(&self.maps)
    }

    /// Returns how many instructions the verifier processed for the egress and ingress programs. The verifier's limit
    /// is one million.
    pub fn verified_instructions(&self) -> Result<[u32; 2], KernelError> {
        Ok([self.object.verified_instructions(EGRESS)?, self.object.verified_instructions(INGRESS)?])
    }
}

/// The Rust counterpart of `struct config` in `bpf/rpm.bpf.c`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Config {
    bits_per_second: u64,
    ns_per_mib: u32,
    direction: u32,
    seed: u64,
    mark_lifetime: u64,
    codel: codel::Config,
}

fn read_counts(maps: &PortMaps<Config>) -> Result<Counts, KernelError> {
    Ok(zerocopy::transmute!(maps.read_counters::<{ size_of::<Counts>() / 8 }>()?))
}

const DIRECTIONS: [Direction; 3] = [Direction::Forward, Direction::ReversePerFlow, Direction::ReversePerPort];

impl Direction {
    /// Returns the value of `enum direction` in `bpf/rpm.bpf.c`.
    const fn code(self) -> u32 {
        self as u32
    }

    fn from_code(code: u32) -> Option<Self> {
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

/// Formats port states as `OpenMetrics` text.
pub fn open_metrics(ports: &[Status]) -> String {
    let mut text = MetricsText::new(Format::OpenMetrics);
    write_metrics(ports, &mut text);
    text.finish()
}

/// Adds the metric families of port states to a text.
pub fn write_metrics(ports: &[Status], text: &mut MetricsText) {
    text.family("poseidon_rpm_packets", Kind::Counter, "Packets by outcome.");
    for port in ports {
        for (outcome, packets) in port.counts.by_outcome() {
            text.sample(&[("device", &port.device), ("fate", outcome)], packets);
        }
    }
    let help = "Marks that expired, because no ACK came within a second.";
    text.family("poseidon_rpm_marks_forgotten", Kind::Counter, help);
    for port in ports {
        text.sample(&[("device", &port.device)], port.counts.expired);
    }
    text.family("poseidon_rpm_marks_waiting", Kind::Gauge, "Stored marks that wait for an ACK.");
    for port in ports {
        text.sample(&[("device", &port.device)], port.counts.pending());
    }
    text.family("poseidon_rpm_port", Kind::Info, "Direction and marking policy of the port.");
    for port in ports {
        let (direction, codel) = (port.direction.to_string(), port.codel.to_string());
        text.sample(&[("device", port.device.as_str()), ("direction", &direction), ("codel", &codel)], 1);
    }
}

/// Returns the names of the attached ports of this network namespace.
pub fn attached_devices() -> Result<Vec<String>, PortError> {
    KIND.attached_devices()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_contain_the_mark_counters() {
        let counts = Counts { stored: 9, ack_marked: 5, expired: 2, marked_forward: 1, ..Counts::default() };
        assert_eq!((counts.decisions(), counts.pending()), (10, 2));
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
            assert_eq!(text.lines().filter(|found| *found == line).count(), 1, "{line}\n{text}");
        }
    }

    #[test]
    fn every_direction_converts_to_a_code_and_back() {
        assert!(
            DIRECTIONS.iter().all(|direction| Direction::from_code(direction.code()) == Some(*direction))
        );
        assert_eq!(Direction::from_code(3), None);
    }
}
