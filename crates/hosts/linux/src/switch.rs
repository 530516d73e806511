//! A Linux router as a switch with in-band telemetry: `bpf/switch.bpf.c` at the egress of its ports.
//!
//! ```text
//!  sender ──> router ──> [ queue of port e0: 125 kB at 100 Mbps ] ──> receiver
//!                  ^ max_hop_delay = max(max_hop_delay, 10 ms / 256 ns)
//! ```
//!
//! A port is attached and stays so when this process ends. Another process may ask what it counted, or switch the stamps off
//! and on again in the middle of a run: then the port measures and writes nothing, like a switch that knows no telemetry. It needs
//! root, Linux 6.2 (`bpf_cast_to_kern_ctx`) and iproute2.
//!
//! ```no_run
//! use poseidon_linux::switch::{self, Options, Switch};
//!
//! // The queue of e0 is TBF, which says its rate.
//! Switch::attach("e0", Options::default())?;
//! let status = Switch::open("e0")?.status()?;
//! print!("{}", switch::open_metrics(&[status]));
//! Switch::open("e0")?.detach()?;
//! # Ok::<(), poseidon_linux::port::PortError>(())
//! ```

use crate::in_kernel::{Aligned, KernelError};
use crate::maps::Maps;
use crate::metrics::{Delays, Text};
use crate::port::{Device, Kind, Loaded, PortError, Side, ns_per_mib};
use poseidon_types::{BitRate, Nanos};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/switch.bpf.o")));

const EGRESS: &str = "switch_egress";

/// After RPM, which is at 5053: a mark does not change what is stamped, but who reads the list finds it in this order.
const KIND: Kind = Kind {
    name: "switch",
    priority: 5_054,
    programs: &[(EGRESS, Side::Egress)],
    maps: &Maps::<Config>::NAMES,
};

/// What a port is attached with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// At which its queue is sent; nothing: the rate that the queue says.
    pub rate: Option<BitRate>,
    /// Whether it writes, or only measures.
    pub stamps: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { rate: None, stamps: true }
    }
}

/// A port that stamps.
#[derive(Debug)]
pub struct Switch {
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
    /// Whether it writes, or only measures.
    pub stamps: bool,
    /// What became of packets.
    pub counts: Counts,
    /// How long they will have waited, stamped or not.
    pub delays: Delays,
}

/// Packets by what became of them; each is in one line but `raised`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Counts {
    /// TCP segments with our option.
    pub tcp_stamped: u64,
    /// UDP datagrams with our shim.
    pub udp_stamped: u64,
    /// While the port only measured.
    pub switched_off: u64,
    /// Neither IPv4 nor IPv6.
    pub not_ip: u64,
    /// Shorter than they say, or with a length that cannot be.
    pub malformed: u64,
    /// Fragments but the first.
    pub fragments: u64,
    /// Neither TCP nor UDP, or more IPv6 extension headers than are looked behind.
    pub other_protocol: u64,
    /// TCP without our option.
    pub no_option: u64,
    /// UDP to another port, or of another version.
    pub no_shim: u64,
    /// A shim that asks not to be updated.
    pub frozen: u64,
    /// The kernel could not make the packet writable.
    pub no_memory: u64,
    /// Of those stamped: this hop is the worst so far, so its delay was written.
    pub raised: u64,
}

impl Switch {
    /// Attaches a port. Refused where it is attached, where its queue cannot be read, and where nobody says its rate.
    pub fn attach(device: &str, options: Options) -> Result<Self, PortError> {
        let device = Device::find(device)?;
        let config = Config::new(device.rate(options.rate)?, options.stamps)?;
        let loaded = Loaded::load(&OBJECT.0, None)?;
        let maps = Maps::<Config>::of(&loaded)?;
        maps.write(&config)?;
        KIND.attach(&loaded, &device)?;
        Ok(Self { device, maps })
    }

    /// A port that is attached already.
    pub fn open(device: &str) -> Result<Self, PortError> {
        let device = Device::find(device)?;
        let maps = Maps::pinned(KIND.open(&device)?)?;
        Ok(Self { device, maps })
    }

    /// From the next packet on the port writes, or only measures.
    pub fn set_stamps(&self, stamps: bool) -> Result<(), PortError> {
        let config = Config { stamps: stamps.into(), ..self.maps.config()? };
        Ok(self.maps.write(&config)?)
    }

    /// From the next packet on delays are those at this rate.
    pub fn set_rate(&self, rate: BitRate) -> Result<(), PortError> {
        Ok(self.maps.write(&Config::new(rate, self.maps.config()?.stamps != 0)?)?)
    }

    /// What it has done.
    pub fn status(&self) -> Result<Status, PortError> {
        let config = self.maps.config()?;
        let (counts, delays) = stats(&self.maps)?;
        Ok(Status {
            device: self.device.name.clone(),
            rate: BitRate::from_bps(config.bits_per_second),
            queue_rate: Device::find(&self.device.name)?.shaped,
            stamps: config.stamps != 0,
            counts,
            delays,
        })
    }

    /// Takes the program from the port, and forgets what it counted.
    pub fn detach(self) -> Result<(), PortError> {
        KIND.detach(&self.device)
    }
}

/// Whether the kernel takes the program, which reads a queue; it is unloaded again.
pub(crate) fn try_loading() -> Result<(), KernelError> {
    Loaded::load(&OBJECT.0, None).map(drop)
}

/// The program without a port: packets are handed to it one by one.
#[derive(Debug)]
pub struct Offline {
    loaded: Loaded,
    maps: Maps<Config>,
}

impl Offline {
    /// Loads it.
    pub fn load() -> Result<Self, KernelError> {
        // One MiB waits, so a delay is the factor of the rate.
        let loaded = Loaded::load(&OBJECT.0, Some(1 << 20))?;
        let maps = Maps::<Config>::of(&loaded)?;
        Ok(Self { loaded, maps })
    }

    /// Every packet from now on will wait this long, ns.
    pub fn set_delay(&self, delay: u32, stamps: bool) -> Result<(), KernelError> {
        self.maps.write(&Config { bits_per_second: 0, ns_per_mib: delay, stamps: stamps.into() })
    }

    /// Writes what becomes of a packet, which is at least 14 bytes long, into `into`. Gives how long it is then and the time that
    /// one of `repeat` times took.
    pub fn run(&self, packet: &[u8], into: &mut [u8], repeat: u32) -> Result<(usize, Nanos), KernelError> {
        self.loaded.run(EGRESS, packet, into, repeat)
    }

    /// What it has counted.
    pub fn stats(&self) -> Result<(Counts, Delays), KernelError> {
        stats(&self.maps)
    }

    /// How many instructions the verifier has walked through to pass the program; it gives up at a million.
    pub fn verified_instructions(&self) -> Result<u32, KernelError> {
        self.loaded.verified_instructions(EGRESS)
    }
}

/// `struct config`.
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

/// `struct stats`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Stats {
    counts: Counts,
    delay_sum: u64,
    buckets: [u64; Delays::BUCKETS],
}

fn stats(maps: &Maps<Config>) -> Result<(Counts, Delays), KernelError> {
    let sum = maps.counters::<{ size_of::<Stats>() / 8 }>()?;
    let Stats { counts, delay_sum, buckets } = zerocopy::transmute!(sum);
    Ok((counts, Delays { buckets, sum: Nanos::new(delay_sum) }))
}

impl Counts {
    /// Each with its name, but for `raised`.
    pub const fn by_fate(&self) -> [(&'static str, u64); 11] {
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

    /// All packets.
    pub fn packets(&self) -> u64 {
        self.by_fate().iter().map(|(_, packets)| packets).sum()
    }
}

/// The state of ports as `OpenMetrics` text.
pub fn open_metrics(ports: &[Status]) -> String {
    let mut text = Text::default();
    let name = "poseidon_switch_packets";
    text.family(name, "counter", None, "Packets by what became of them.");
    for port in ports {
        for (fate, packets) in port.counts.by_fate() {
            text.sample(&format!("{name}_total"), &[("device", &port.device), ("fate", fate)], packets);
        }
    }
    let name = "poseidon_switch_raised";
    text.family(name, "counter", None, "Packets that had met no longer delay before.");
    for port in ports {
        text.sample(&format!("{name}_total"), &[("device", &port.device)], port.counts.raised);
    }
    let name = "poseidon_switch_delay_seconds";
    text.family(name, "histogram", Some("seconds"), "How long packets wait in the port's queue.");
    for port in ports {
        text.delays(name, &port.device, &port.delays);
    }
    let name = "poseidon_switch_rate_bits_per_second";
    text.family(name, "gauge", Some("bits_per_second"), "Rate at which the queue is sent.");
    for port in ports {
        text.sample(name, &[("device", &port.device)], port.rate.get());
    }
    let name = "poseidon_switch_stamps";
    text.family(name, "gauge", None, "1 where the port writes, 0 where it only measures.");
    for port in ports {
        text.sample(name, &[("device", &port.device)], u8::from(port.stamps));
    }
    text.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_every_number_once_and_an_end() {
        let counts = Counts { tcp_stamped: 7, raised: 3, no_memory: 1, ..Counts::default() };
        let mut delays = Delays::default();
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
            "poseidon_switch_delay_seconds_bucket{device=\"e0\",le=\"0.000131071\"} 8",
            "poseidon_switch_delay_seconds_bucket{device=\"e0\",le=\"0.000065535\"} 0",
            "poseidon_switch_delay_seconds_bucket{device=\"e1\",le=\"+Inf\"} 8",
            "poseidon_switch_delay_seconds_sum{device=\"e0\"} 0.000800000",
            "poseidon_switch_rate_bits_per_second{device=\"e0\"} 100000000",
        ] {
            assert_eq!(text.lines().filter(|have| *have == line).count(), 1, "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        let families = text.lines().filter(|line| line.starts_with("# TYPE")).count();
        assert_eq!(families, 5);
    }
}
