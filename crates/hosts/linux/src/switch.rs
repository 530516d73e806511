//! Turns a Linux router into a switch with in-band telemetry. `bpf/switch.bpf.c` runs at the egress of its ports.
//!
//! ```text
//!  sender ──> router ──> [ queue of port e0: 125 kB at 100 Mbps ] ──> receiver
//!                  ^ max_hop_delay = max(max_hop_delay, 10 ms / 256 ns)
//! ```
//!
//! A port stays attached after this process exits. Another process can read its counters, or turn the stamps off and on
//! during a run. With stamps off, the port still measures delays but does not write them, like a switch without
//! telemetry. Attaching a port requires root, Linux 6.2 (`bpf_cast_to_kern_ctx`) and iproute2.
//!
//! ```no_run
//! use poseidon_linux::switch::{self, Options, Switch};
//!
//! // The device e0 has a TBF queue, which reports its rate.
//! Switch::attach("e0", Options::default())?;
//! let status = Switch::open("e0")?.status()?;
//! print!("{}", switch::open_metrics(&[status]));
//! Switch::open("e0")?.detach()?;
//! # Ok::<(), poseidon_linux::port::PortError>(())
//! ```

use crate::kernel_features;
use crate::maps::PortMaps;
use crate::metrics::{DelayHistogram, write_delays};
use crate::object::{AlignedBytes, KernelError};
use crate::port::{AttachmentKind, Device, Hook, LoadedObject, PortError, StalePin, ns_per_mib};
use poseidon_metrics::{Format, Kind, MetricsText};
use poseidon_types::{BitRate, Nanos};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

static OBJECT: &AlignedBytes<[u8]> =
    &AlignedBytes(*include_bytes!(concat!(env!("OUT_DIR"), "/switch.bpf.o")));

const EGRESS: &str = "switch_egress";

/// The filter runs after RPM's filters, which have priority 5053. The order does not matter, because a mark does not
/// change the stamp.
const KIND: AttachmentKind = AttachmentKind {
    name: "switch",
    priority: 5_054,
    programs: &[(EGRESS, Hook::Egress)],
    maps: &PortMaps::<Config>::NAMES,
};

/// The port options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The queue's drain rate. Defaults to the rate that the queue reports.
    pub rate: Option<BitRate>,
    /// Whether the port writes stamps. Otherwise, it only measures delays.
    pub stamps: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { rate: None, stamps: true }
    }
}

/// A port that stamps packets.
#[derive(Debug)]
pub struct Switch {
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
    /// Whether the port writes stamps. Otherwise, it only measures delays.
    pub stamps: bool,
    /// The number of packets by outcome.
    pub counts: Counts,
    /// The delays of all packets, stamped or not.
    pub delays: DelayHistogram,
}

/// The number of packets by outcome. Each packet is counted once, apart from `raised`, which counts a subset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Counts {
    /// TCP segments with our option.
    pub tcp_stamped: u64,
    /// UDP datagrams with our shim.
    pub udp_stamped: u64,
    /// Packets that passed while stamps were off.
    pub switched_off: u64,
    /// Packets that are neither IPv4 nor IPv6.
    pub not_ip: u64,
    /// Packets that are truncated or have an impossible length.
    pub malformed: u64,
    /// Fragments other than the first.
    pub fragments: u64,
    /// Packets that are neither TCP nor UDP, or have too many IPv6 extension headers.
    pub other_protocol: u64,
    /// TCP segments without our option.
    pub no_option: u64,
    /// UDP datagrams to another port, or with another version.
    pub no_shim: u64,
    /// Datagrams whose shim must not be updated.
    pub frozen: u64,
    /// Packets that the kernel could not make writable.
    pub no_memory: u64,
    /// Stamped packets whose largest delay so far occurred at this hop.
    pub raised: u64,
}

impl Switch {
    /// Attaches a port. Fails if the port is already attached, or if its queue or rate cannot be read.
    pub fn attach(device: &str, options: Options) -> Result<Self, PortError> {
        let device = Device::find(device)?;
        let config = Config::new(device.rate(options.rate)?, options.stamps)?;
        let object = LoadedObject::load(&OBJECT.0, kernel_features::PORT, None)?;
        let maps = PortMaps::<Config>::from_object(&object)?;
        maps.write_config(&config)?;
        KIND.attach(&object, &device)?;
        Ok(Self { device, maps })
    }

    /// Opens an attached port.
    pub fn open(device: &str) -> Result<Self, PortError> {
        let device = Device::find(device)?;
        let maps = PortMaps::from_pins(KIND.open(&device)?)?;
        Ok(Self { device, maps })
    }

    /// Turns stamps on or off, starting with the next packet.
    pub fn set_stamps(&self, stamps: bool) -> Result<(), PortError> {
        let config = Config { stamps: stamps.into(), ..self.maps.read_config()? };
        Ok(self.maps.write_config(&config)?)
    }

    /// Changes the drain rate, starting with the next packet.
    pub fn set_rate(&self, rate: BitRate) -> Result<(), PortError> {
        Ok(self.maps.write_config(&Config::new(rate, self.maps.read_config()?.stamps != 0)?)?)
    }

    /// Returns the settings and counters.
    pub fn status(&self) -> Result<Status, PortError> {
        let config = self.maps.read_config()?;
        let (counts, delays) = read_stats(&self.maps)?;
        Ok(Status {
            device: self.device.name.clone(),
            rate: BitRate::from_bps(config.bits_per_second),
            queue_rate: Device::find(&self.device.name)?.queue_rate,
            stamps: config.stamps != 0,
            counts,
            delays,
        })
    }

    /// Detaches the program, and discards its counters.
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

/// Checks that the kernel accepts the program, then unloads it.
pub(crate) fn try_loading() -> Result<(), KernelError> {
    LoadedObject::load(&OBJECT.0, kernel_features::PORT, None).map(drop)
}

/// The program, loaded without a port. Tests and benchmarks pass packets to it one by one.
#[derive(Debug)]
pub struct Offline {
    object: LoadedObject,
    maps: PortMaps<Config>,
}

impl Offline {
    /// Loads the program.
    pub fn load() -> Result<Self, KernelError> {
        // With a backlog of 2^20 bytes, the delay equals `ns_per_mib`.
        let object = LoadedObject::load(&OBJECT.0, kernel_features::PORT, Some(1 << 20))?;
        let maps = PortMaps::<Config>::from_object(&object)?;
        Ok(Self { object, maps })
    }

    /// Sets the queueing delay of all subsequent packets, in ns.
    pub fn set_delay(&self, delay: u32, stamps: bool) -> Result<(), KernelError> {
        self.maps.write_config(&Config { bits_per_second: 0, ns_per_mib: delay, stamps: stamps.into() })
    }

    /// Runs the program `repeat` times on a packet of at least 14 bytes, and writes the result into `output`.
    ///
    /// Returns the result's length and the mean time per run.
    pub fn run(&self, packet: &[u8], output: &mut [u8], repeat: u32) -> Result<(usize, Nanos), KernelError> {
        self.object.run(EGRESS, packet, output, repeat)
    }

    /// Returns the counters and the delay histogram.
    pub fn stats(&self) -> Result<(Counts, DelayHistogram), KernelError> {
        read_stats(&self.maps)
    }

    /// Returns how many instructions the verifier processed. The verifier's limit is one million.
    pub fn verified_instructions(&self) -> Result<u32, KernelError> {
        self.object.verified_instructions(EGRESS)
    }
}

/// The Rust counterpart of `struct config` in `bpf/switch.bpf.c`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Config {
    bits_per_second: u64,
    ns_per_mib: u32,
    stamps: u32,
}

impl Config {
    fn new(rate: BitRate, stamps: bool) -> Result<Self, PortError> {
        Ok(Self { bits_per_second: rate.get(), ns_per_mib: ns_per_mib(rate)?, stamps: stamps.into() })
    }
}

/// The Rust counterpart of `struct stats` in `bpf/switch.bpf.c`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Stats {
    counts: Counts,
    delay_sum: u64,
    buckets: [u64; DelayHistogram::BUCKETS],
}

fn read_stats(maps: &PortMaps<Config>) -> Result<(Counts, DelayHistogram), KernelError> {
    let sum = maps.read_counters::<{ size_of::<Stats>() / 8 }>()?;
    let Stats { counts, delay_sum, buckets } = zerocopy::transmute!(sum);
    Ok((counts, DelayHistogram { buckets, sum: Nanos::new(delay_sum) }))
}

impl Counts {
    /// Returns all counters except `raised`, with their names.
    pub const fn by_outcome(&self) -> [(&'static str, u64); 11] {
        [
            ("tcp_stamped", self.tcp_stamped),
            ("udp_stamped", self.udp_stamped),
            ("switched_off", self.switched_off),
            ("not_ip", self.not_ip),
            ("malformed", self.malformed),
            ("fragment", self.fragments),
            ("other_protocol", self.other_protocol),
            ("no_option", self.no_option),
            ("no_shim", self.no_shim),
            ("frozen", self.frozen),
            ("no_memory", self.no_memory),
        ]
    }

    /// Returns the total number of packets.
    pub fn packets(&self) -> u64 {
        self.by_outcome().iter().map(|(_, packets)| packets).sum()
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
    text.family("poseidon_switch_packets", Kind::Counter, "Packets by outcome.");
    for port in ports {
        for (outcome, packets) in port.counts.by_outcome() {
            text.sample(&[("device", &port.device), ("fate", outcome)], packets);
        }
    }
    let help = "Packets whose largest delay so far is at this port.";
    text.family("poseidon_switch_raised", Kind::Counter, help);
    for port in ports {
        text.sample(&[("device", &port.device)], port.counts.raised);
    }
    let help = "Queueing delay of packets at this port.";
    text.family("poseidon_switch_delay_seconds", Kind::Histogram, help);
    for port in ports {
        write_delays(text, &port.device, &port.delays);
    }
    text.family("poseidon_switch_rate_bytes_per_second", Kind::Gauge, "Drain rate of the queue.");
    for port in ports {
        text.sample(&[("device", &port.device)], port.rate.get() / 8);
    }
    let help = "1 if the port writes stamps, 0 if it only measures.";
    text.family("poseidon_switch_stamps", Kind::Gauge, help);
    for port in ports {
        text.sample(&[("device", &port.device)], u8::from(port.stamps));
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
    fn metrics_list_every_value_once_and_end_with_eof() {
        let counts = Counts { tcp_stamped: 7, raised: 3, no_memory: 1, ..Counts::default() };
        let mut delays = DelayHistogram::default();
        delays.buckets[60] = 8;
        delays.sum = Nanos::new(800_000);
        let rate = BitRate::from_mbps(100);
        let status = Status { device: "e0".to_owned(), rate, queue_rate: None, stamps: true, counts, delays };
        assert_eq!(status.counts.packets(), 8);
        let text = open_metrics(&[status.clone(), Status { device: "e1".to_owned(), ..status }]);
        for line in [
            "# TYPE poseidon_switch_packets counter",
            "poseidon_switch_packets_total{device=\"e0\",fate=\"tcp_stamped\"} 7",
            "poseidon_switch_packets_total{device=\"e1\",fate=\"no_memory\"} 1",
            "# UNIT poseidon_switch_delay_seconds seconds",
            "poseidon_switch_delay_seconds_bucket{device=\"e0\",le=\"0.000081919\"} 8",
            "poseidon_switch_delay_seconds_bucket{device=\"e0\",le=\"0.000065535\"} 0",
            "poseidon_switch_delay_seconds_bucket{device=\"e1\",le=\"+Inf\"} 8",
            "poseidon_switch_delay_seconds_sum{device=\"e0\"} 0.000800000",
            "poseidon_switch_rate_bytes_per_second{device=\"e0\"} 12500000",
        ] {
            assert_eq!(text.lines().filter(|found| *found == line).count(), 1, "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        let families = text.lines().filter(|line| line.starts_with("# TYPE")).count();
        assert_eq!(families, 5);
    }
}
