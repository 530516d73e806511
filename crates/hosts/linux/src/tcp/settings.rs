//! What is set when Poseidon is switched on: the law's parameters, as text with units, and those of the host around it.
//!
//! The paper's values are for 200 Gbps. A delay that is right there is a twentieth of one packet at 100 Mbps, so the values
//! here begin from the fastest link ([`Settings::for_rate`]) and everything can be set afterwards.

use crate::flow::{Flow, Unsupported};
use core::fmt;
use poseidon_laws::laws::poseidon::{Poseidon, PoseidonParams, Signal};
use poseidon_laws::params::{ParamError, Params as _};
use poseidon_laws::{Law as _, Path};
use poseidon_types::{BitRate, Bytes, Nanos, Packets};
use std::path::PathBuf;
use zerocopy::{Immutable, IntoBytes};

/// `POSEIDON_REFERENCE_MSS` of `bpf/mss.h`.
pub(crate) const REFERENCE_MSS: u64 = 1_448;

/// The largest delay that the TCP option can echo, which the law must be able to tell from its largest target.
const LARGEST_ECHO: Nanos = Nanos::new(0xfffe << 8);

/// How many of the largest target the guard leaves to telemetry: a path with queues at its target in two hops each way.
const GUARD_TARGETS: u64 = 4;

/// Everything that can be set.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The law's parameters.
    pub law: PoseidonParams,
    /// The round-trip time of the unloaded path; without one, each connection takes the smallest it has seen. A flow that joins a
    /// standing queue never sees the empty path, so where telemetry does not cover all hops this should be set.
    pub base_rtt: Option<Nanos>,
    /// How much queueing of a round trip telemetry may leave unexplained before the RTT is believed instead; without one, four
    /// times the largest target. It bounds what a peer or a switch that reports too little can do.
    pub delay_guard: Option<Nanos>,
    /// Sockets of the cgroup get Poseidon without asking for it.
    pub default: bool,
    /// Receivers acknowledge every packet at once, while fewer than eight come per round trip.
    pub ack_every_packet: bool,
    /// Flows keep their share beside flows that fill the buffer (`poseidon_laws::parts::coexistence`), and a loss without a queue
    /// does not slow them down.
    pub coexistence: bool,
    /// The cgroup whose sockets speak the option; without one, a cgroup `poseidon` of our own.
    pub cgroup: Option<PathBuf>,
}

/// Why a setting is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingsError {
    /// A parameter of the law.
    Law {
        /// As it was written; empty where several do not go together.
        name: String,
        /// Why.
        why: ParamError,
    },
    /// A setting of the host cannot be read.
    Unreadable {
        /// Its name.
        name: &'static str,
        /// What to write.
        write: &'static str,
    },
    /// The largest target is beyond what the TCP option can carry.
    TargetTooLarge(Nanos),
    /// The law in C lacks it.
    NotInC(Unsupported),
}

impl Settings {
    /// Sensible values where the fastest link has this rate.
    ///
    /// | | at 100 Mbps | at 1 Gbps | at 10 Gbps | why |
    /// |---|---|---|---|---|
    /// | `target-floor` | 300 us | 30 us | 25 us | two and a half packets, and no less than the jitter of a host |
    /// | `target-range` | 4 ms | 500 us | 500 us | 33 packets, and no less than 20 smallest floors |
    /// | `min-rate` | 100 kbps | 1 Mbps | 10 Mbps | a thousandth |
    /// | `max-window` | 256 | 863 | 8632 | 10 ms at full rate, and no less than the paper's |
    ///
    /// The signal is `brownfield`, which is right whether or not hops measure; `max-hop-delay` is for who knows that all do.
    pub fn for_rate(max_rate: BitRate) -> Self {
        let rate = max_rate.get().max(1_000);
        // Delays of the 100 Mbps row, which were measured on Linux, by the inverse of the rate.
        let scaled = |at_100_mbps: u64| at_100_mbps.saturating_mul(100_000_000) / rate;
        let target_floor = Nanos::new(scaled(300_000).clamp(25_000, 2_500_000));
        let target_range = Nanos::new(scaled(4_000_000).clamp(500_000, 14_000_000));
        let in_10_ms = rate / 100 / 8 / REFERENCE_MSS;
        let law = PoseidonParams {
            target_range,
            target_floor,
            max_rate,
            min_rate: BitRate::from_bps(rate / 1_000),
            max_window: Packets::whole(in_10_ms.clamp(256, 32_768)),
            // RFC 6928; the paper's 32 are a NIC's.
            initial_window: Packets::whole(10),
            signal: Signal::Brownfield,
            ..PoseidonParams::default()
        };
        Self {
            law,
            base_rtt: None,
            delay_guard: None,
            default: true,
            ack_every_packet: true,
            coexistence: true,
            cgroup: None,
        }
    }

    /// Reads `name=value`, for example `target-range=4 ms`: a setting of the host (`base-rtt`, `delay-guard`, `default`,
    /// `ack-every-packet`, `coexistence`, `cgroup`) or a parameter of the law.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingsError> {
        let time = |name| move |_| SettingsError::Unreadable { name, write: "a time, such as \"100 us\"" };
        let truth = |name| move |_| SettingsError::Unreadable { name, write: "true or false" };
        match name.replace('_', "-").as_str() {
            "base-rtt" => self.base_rtt = Some(value.parse().map_err(time("base-rtt"))?),
            "delay-guard" => self.delay_guard = Some(value.parse().map_err(time("delay-guard"))?),
            "default" => self.default = value.trim().parse().map_err(truth("default"))?,
            "ack-every-packet" => {
                self.ack_every_packet = value.trim().parse().map_err(truth("ack-every-packet"))?;
            }
            "coexistence" => self.coexistence = value.trim().parse().map_err(truth("coexistence"))?,
            "cgroup" => self.cgroup = Some(PathBuf::from(value.trim())),
            _ => {
                self.law.set(name, value).map_err(|why| SettingsError::Law { name: name.to_owned(), why })?
            }
        }
        Ok(())
    }

    /// The guard that holds.
    pub fn delay_guard(&self) -> Nanos {
        let largest_target = self.law.target_floor.get() + self.law.target_range.get();
        self.delay_guard.unwrap_or_else(|| Nanos::new(largest_target * GUARD_TARGETS))
    }

    /// What the programs are loaded with; refuses what does not go together.
    pub(crate) fn in_c(&self) -> Result<InC, SettingsError> {
        self.law.check().map_err(|why| SettingsError::Law { name: String::new(), why })?;
        let largest_target = Nanos::new(self.law.target_floor.get() + self.law.target_range.get());
        if self.law.signal != Signal::Rtt && largest_target >= LARGEST_ECHO {
            return Err(SettingsError::TargetTooLarge(largest_target));
        }
        let path = Path {
            mtu: Bytes::new(REFERENCE_MSS),
            line_rate: self.law.max_rate,
            base_rtt: self.base_rtt.unwrap_or(Nanos::from_micros(100)),
        };
        let law = Poseidon::new(&self.law, &path);
        let flow = Flow::try_from(&law).map_err(SettingsError::NotInC)?;
        let low_32 = |time: u64| u32::try_from(time).unwrap_or(u32::MAX);
        let packet_time = REFERENCE_MSS * 8 * 1_000_000_000 / self.law.max_rate.get().max(1);
        Ok(InC {
            flow,
            delay_guard: self.delay_guard().get(),
            base_rtt: self.base_rtt.map_or(0, |rtt| low_32(rtt.get())),
            packet_time: low_32(packet_time),
            delay_limit: low_32(law.delay_limit().get()),
            is_default: u8::from(self.default),
            ack_every_packet: u8::from(self.ack_every_packet),
            coexistence: u8::from(self.coexistence),
            unused: 0,
        })
    }
}

/// One `name=value` per line, as [`Settings::set`] reads them.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut done = Ok(());
        self.law.each(&mut |info, value| {
            done = done.and_then(|()| writeln!(f, "{}={value}", info.name.replace('_', "-")));
        });
        done?;
        if let Some(base_rtt) = self.base_rtt {
            writeln!(f, "base-rtt={base_rtt}")?;
        }
        writeln!(f, "delay-guard={}", self.delay_guard())?;
        writeln!(f, "default={}", self.default)?;
        writeln!(f, "ack-every-packet={}", self.ack_every_packet)?;
        writeln!(f, "coexistence={}", self.coexistence)?;
        if let Some(cgroup) = &self.cgroup {
            writeln!(f, "cgroup={}", cgroup.display())?;
        }
        Ok(())
    }
}

/// `struct poseidon_settings`.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct InC {
    flow: Flow,
    delay_guard: u64,
    base_rtt: u32,
    packet_time: u32,
    delay_limit: u32,
    is_default: u8,
    ack_every_packet: u8,
    coexistence: u8,
    unused: u8,
}

// As bpf/tcp.h asserts it.
const _: () = assert!(size_of::<InC>() == 88);

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // These name the parameter themselves.
            Self::Law {
                why: why @ (ParamError::OutOfDomain { .. } | ParamError::Unreadable { .. }), ..
            } => why.fmt(f),
            Self::Law { name, why } => write!(f, "{name}: {why}"),
            Self::Unreadable { name, write } => write!(f, "{name}: write {write}"),
            Self::TargetTooLarge(target) => write!(
                f,
                "target-floor and target-range give {target}, but the TCP option carries delays below {LARGEST_ECHO}; \
                 make target-range smaller, or set signal to rtt"
            ),
            Self::NotInC(why) => why.fmt(f),
        }
    }
}

impl core::error::Error for SettingsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_for_every_rate_can_be_used() {
        for rate in [1_u64, 10, 25, 100, 1_000, 10_000, 100_000, 400_000] {
            let settings = Settings::for_rate(BitRate::from_mbps(rate));
            settings.in_c().unwrap_or_else(|error| panic!("{rate} Mbps: {error}"));
            assert!(settings.delay_guard() > settings.law.target_range, "{rate} Mbps");
        }
        let slow = Settings::for_rate(BitRate::from_mbps(100));
        assert_eq!(slow.law.target_floor, Nanos::from_micros(300));
        assert_eq!(slow.law.target_range, Nanos::from_millis(4));
        let fast = Settings::for_rate(BitRate::from_gbps(10));
        assert_eq!(fast.law.max_window, Packets::whole(8_632));
    }

    #[test]
    fn settings_are_read_from_text_and_written_as_they_are_read() {
        let mut settings = Settings::for_rate(BitRate::from_mbps(100));
        for (name, value) in [
            ("target_range", "3 ms"),
            ("base-rtt", "150 us"),
            ("delay-guard", "9 ms"),
            ("default", "false"),
            ("ack-every-packet", "false"),
            ("coexistence", "false"),
            ("cgroup", "/sys/fs/cgroup/web"),
            ("signal", "max-hop-delay"),
        ] {
            settings.set(name, value).unwrap_or_else(|error| panic!("{error}"));
        }
        let mut again = Settings::for_rate(BitRate::from_gbps(10));
        for line in settings.to_string().lines() {
            let (name, value) = line.split_once('=').expect("a name and a value");
            again.set(name, value).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        assert_eq!(again, settings);
    }

    #[test]
    fn what_is_refused_says_what_to_write() {
        let mut settings = Settings::for_rate(BitRate::from_mbps(100));
        let mut said = |name: &str, value: &str| settings.set(name, value).expect_err("refused").to_string();
        assert_eq!(said("base-rtt", "5"), "base-rtt: write a time, such as \"100 us\"");
        assert_eq!(said("default", "yes"), "default: write true or false");
        assert_eq!(said("target-rang", "4 ms"), "target-rang: there is no such parameter");
        settings.law.target_range = Nanos::from_millis(40);
        let refusal = settings.in_c().expect_err("beyond the option").to_string();
        assert!(refusal.starts_with("target-floor and target-range give 40.3 ms, but"), "{refusal}");
        settings.law.signal = Signal::Rtt;
        assert!(settings.in_c().is_ok());
    }
}
