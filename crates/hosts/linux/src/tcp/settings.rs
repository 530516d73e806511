//! The settings for Poseidon in TCP: law parameters and host settings, as text with units.
//!
//! The paper's values are for 200 Gbps. At 100 Mbps, its delays are a twentieth of the time to send one packet. The
//! defaults here therefore depend on the rate of the fastest link ([`Settings::for_rate`]).

use crate::flow::{Flow, UnsupportedLaw};
use core::fmt;
use core::str::FromStr;
use poseidon_laws::laws::poseidon::{Poseidon, PoseidonParams, Signal};
use poseidon_laws::params::{ParamError, Params as _};
use poseidon_laws::{LawDefinition, Path};
use poseidon_types::{BitRate, Bytes, Nanos, Packets};
use std::path::PathBuf;
use zerocopy::{Immutable, IntoBytes};

/// The value of `POSEIDON_REFERENCE_MSS` in `bpf/mss.h`.
pub(crate) const REFERENCE_MSS: u64 = 1_448;

/// The largest delay that the TCP option can echo. It must exceed the law's largest target.
const MAX_ECHO: Nanos = Nanos::new(0xfffe << 8);

/// The default delay guard, as a multiple of the largest target: two hops per direction with queues at the target.
const GUARD_TARGETS: u64 = 4;

/// The settings for Poseidon in TCP.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The law parameters.
    pub law: PoseidonParams,
    /// The round-trip time of the unloaded path. By default, each connection uses its smallest measured RTT.
    ///
    /// A flow that joins a standing queue never measures the empty path, so set this if telemetry does not cover all
    /// hops.
    pub base_rtt: Option<Nanos>,
    /// The part of a round trip's queueing delay that telemetry may leave unexplained. Beyond this bound, the RTT
    /// determines the delay.
    ///
    /// Defaults to four times the largest target. The guard limits the effect of a peer or switch that underreports
    /// delays.
    pub delay_guard: Option<Nanos>,
    /// Whether sockets in the cgroup use Poseidon by default.
    pub default: bool,
    /// Whether receivers acknowledge every packet immediately while fewer than eight packets arrive per round trip.
    pub ack_every_packet: bool,
    /// Whether flows keep their share when they compete with flows that fill the buffer (`poseidon_laws::coexistence`).
    /// If set, flows also ignore losses that occur without a queue.
    pub coexistence: bool,
    /// The cgroup whose sockets use the option. Defaults to a cgroup named `poseidon`.
    pub cgroup: Option<PathBuf>,
    /// The name under which the congestion control is registered. The whole machine can see this name.
    pub control_name: ControlName,
}

/// The name of a congestion control: 1 to 15 letters, digits and underscores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlName(String);

impl ControlName {
    /// The value of `TCP_CA_NAME_MAX` in the kernel, which includes the terminating zero.
    const BYTES: usize = 16;

    /// Returns the name for the process `id`: `poseidon_` followed by the id in hexadecimal.
    ///
    /// The largest Linux process id is 2^22, which has six hexadecimal digits.
    pub fn for_process(id: u32) -> Self {
        Self(format!("poseidon_{:x}", id & 0xff_ffff))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name in the kernel's format, padded with zeros.
    pub(crate) fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..self.0.len()].copy_from_slice(self.0.as_bytes());
        bytes
    }
}

impl Default for ControlName {
    fn default() -> Self {
        Self("poseidon".to_owned())
    }
}

impl FromStr for ControlName {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        if text.is_empty() || text.len() >= Self::BYTES || !text.chars().all(is_allowed) {
            let expected = "1 to 15 letters, digits and underscores";
            return Err(SettingsError::InvalidValue { name: "control-name", expected });
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ControlName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a setting is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingsError {
    /// A law parameter is invalid.
    Law {
        /// The parameter name as given. Empty if several parameters contradict each other.
        name: String,
        /// The parameter error.
        error: ParamError,
    },
    /// A host setting has an invalid value.
    InvalidValue {
        /// The setting name.
        name: &'static str,
        /// The expected form of the value.
        expected: &'static str,
    },
    /// The largest target exceeds the range of the TCP option.
    TargetTooLarge(Nanos),
    /// Only a congestion control named `poseidon` can be the default for sockets.
    NameWithDefault(ControlName),
    /// The C port does not support this variant of the law.
    NotInC(UnsupportedLaw),
}

impl Settings {
    /// Returns sensible defaults for a network whose fastest link has this rate.
    ///
    /// | | at 100 Mbps | at 1 Gbps | at 10 Gbps | why |
    /// |---|---|---|---|---|
    /// | `target-floor` | 300 us | 30 us | 25 us | 2.5 packets, but at least the host jitter |
    /// | `target-range` | 4 ms | 500 us | 500 us | 33 packets, but at least 20 times the smallest floor |
    /// | `min-rate` | 100 kbps | 1 Mbps | 10 Mbps | a thousandth of the rate |
    /// | `max-window` | 256 | 863 | 8632 | 10 ms at full rate, but at least the paper's value |
    ///
    /// The signal is `brownfield`, which works whether or not hops report delays. Use `max-hop-delay` only if all hops
    /// report delays.
    pub fn for_rate(max_rate: BitRate) -> Self {
        let rate = max_rate.get().max(1_000);
        // The delays at 100 Mbps were measured on Linux. Other delays scale with the inverse of the rate.
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
            // RFC 6928 specifies ten. The paper uses 32, for a NIC.
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
            control_name: ControlName::default(),
        }
    }

    /// Changes a setting. For example, sets `target-range` to `4 ms`.
    ///
    /// The name is a host setting (`base-rtt`, `delay-guard`, `default`, `ack-every-packet`, `coexistence`, `cgroup`,
    /// `control-name`) or a law parameter.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingsError> {
        let time_error =
            |name| move |_| SettingsError::InvalidValue { name, expected: "a time, such as \"100 us\"" };
        let boolean_error = |name| move |_| SettingsError::InvalidValue { name, expected: "true or false" };
        match name.replace('_', "-").as_str() {
            "base-rtt" => self.base_rtt = Some(value.parse().map_err(time_error("base-rtt"))?),
            "delay-guard" => self.delay_guard = Some(value.parse().map_err(time_error("delay-guard"))?),
            "default" => self.default = value.trim().parse().map_err(boolean_error("default"))?,
            "ack-every-packet" => {
                self.ack_every_packet = value.trim().parse().map_err(boolean_error("ack-every-packet"))?;
            }
            "coexistence" => self.coexistence = value.trim().parse().map_err(boolean_error("coexistence"))?,
            "cgroup" => self.cgroup = Some(PathBuf::from(value.trim())),
            "control-name" => self.control_name = value.trim().parse()?,
            _ => self
                .law
                .set(name, value)
                .map_err(|error| SettingsError::Law { name: name.to_owned(), error })?,
        }
        Ok(())
    }

    /// Returns the effective delay guard.
    pub fn delay_guard(&self) -> Nanos {
        let largest_target = self.law.target_floor.get() + self.law.target_range.get();
        self.delay_guard.unwrap_or_else(|| Nanos::new(largest_target * GUARD_TARGETS))
    }

    /// Converts the settings to the BPF programs' format. Fails if settings contradict each other.
    pub(crate) fn to_raw(&self) -> Result<RawSettings, SettingsError> {
        if self.default && self.control_name != ControlName::default() {
            return Err(SettingsError::NameWithDefault(self.control_name.clone()));
        }
        self.law.check().map_err(|error| SettingsError::Law { name: String::new(), error })?;
        let largest_target = Nanos::new(self.law.target_floor.get() + self.law.target_range.get());
        if self.law.signal != Signal::Rtt && largest_target >= MAX_ECHO {
            return Err(SettingsError::TargetTooLarge(largest_target));
        }
        let path = Path {
            mtu: Bytes::new(REFERENCE_MSS),
            line_rate: self.law.max_rate,
            base_rtt: self.base_rtt.unwrap_or(Nanos::from_micros(100)),
        };
        let law = Poseidon::new(&self.law, &path);
        let flow = Flow::try_from(&law).map_err(SettingsError::NotInC)?;
        let saturate_to_u32 = |time: u64| u32::try_from(time).unwrap_or(u32::MAX);
        let packet_time = REFERENCE_MSS * 8 * 1_000_000_000 / self.law.max_rate.get().max(1);
        Ok(RawSettings {
            flow,
            delay_guard: self.delay_guard().get(),
            base_rtt: self.base_rtt.map_or(0, |rtt| saturate_to_u32(rtt.get())),
            packet_time: saturate_to_u32(packet_time),
            delay_limit: saturate_to_u32(law.delay_limit().get()),
            is_default: u8::from(self.default),
            ack_every_packet: u8::from(self.ack_every_packet),
            coexistence: u8::from(self.coexistence),
            unused: 0,
        })
    }
}

/// Formats one `name=value` per line. [`Settings::set`] accepts each name and value.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut result = Ok(());
        self.law.for_each(&mut |info, value| {
            result = result.and_then(|()| writeln!(f, "{}={value}", info.name.replace('_', "-")));
        });
        result?;
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
        if self.control_name != ControlName::default() {
            writeln!(f, "control-name={}", self.control_name)?;
        }
        Ok(())
    }
}

/// The Rust counterpart of `struct poseidon_settings`.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct RawSettings {
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

// bpf/tcp.h asserts the same size.
const _: () = assert!(size_of::<RawSettings>() == 88);

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // These errors contain the parameter name.
            Self::Law {
                error: error @ (ParamError::OutOfRange { .. } | ParamError::InvalidValue { .. }),
                ..
            } => error.fmt(f),
            Self::Law { name, error } => write!(f, "{name}: {error}"),
            Self::InvalidValue { name, expected } => write!(f, "{name}: write {expected}"),
            Self::NameWithDefault(name) => write!(
                f,
                "only a congestion control named `poseidon` can be the default for sockets; set default to false, or omit \
                 control-name={name}"
            ),
            Self::TargetTooLarge(target) => write!(
                f,
                "target-floor and target-range add up to {target}, but the TCP option carries delays below {MAX_ECHO}; \
                 reduce target-range, or set signal to rtt"
            ),
            Self::NotInC(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SettingsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_for_every_rate_are_valid() {
        for rate in [1_u64, 10, 25, 100, 1_000, 10_000, 100_000, 400_000] {
            let settings = Settings::for_rate(BitRate::from_mbps(rate));
            settings.to_raw().unwrap_or_else(|error| panic!("{rate} Mbps: {error}"));
            assert!(settings.delay_guard() > settings.law.target_range, "{rate} Mbps");
        }
        let slow = Settings::for_rate(BitRate::from_mbps(100));
        assert_eq!(slow.law.target_floor, Nanos::from_micros(300));
        assert_eq!(slow.law.target_range, Nanos::from_millis(4));
        let fast = Settings::for_rate(BitRate::from_gbps(10));
        assert_eq!(fast.law.max_window, Packets::whole(8_632));
    }

    #[test]
    fn settings_survive_a_round_trip_through_text() {
        let mut settings = Settings::for_rate(BitRate::from_mbps(100));
        for (name, value) in [
            ("target_range", "3 ms"),
            ("base-rtt", "150 us"),
            ("delay-guard", "9 ms"),
            ("default", "false"),
            ("ack-every-packet", "false"),
            ("coexistence", "false"),
            ("cgroup", "/sys/fs/cgroup/web"),
            ("control-name", "poseidon_1f"),
            ("signal", "max-hop-delay"),
        ] {
            settings.set(name, value).unwrap_or_else(|error| panic!("{error}"));
        }
        let mut parsed = Settings::for_rate(BitRate::from_gbps(10));
        for line in settings.to_string().lines() {
            let (name, value) = line.split_once('=').expect("a line has a name and a value");
            parsed.set(name, value).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        assert_eq!(parsed, settings);
    }

    #[test]
    fn errors_name_the_expected_value() {
        let mut settings = Settings::for_rate(BitRate::from_mbps(100));
        let mut error = |name: &str, value: &str| {
            settings.set(name, value).expect_err("the value is invalid").to_string()
        };
        assert_eq!(error("base-rtt", "5"), "base-rtt: write a time, such as \"100 us\"");
        assert_eq!(error("default", "yes"), "default: write true or false");
        assert_eq!(error("target-rang", "4 ms"), "target-rang: there is no such parameter");
        settings.law.target_range = Nanos::from_millis(40);
        let refusal = settings.to_raw().expect_err("the target exceeds the range of the option").to_string();
        assert!(refusal.starts_with("target-floor and target-range add up to 40.3 ms, but"), "{refusal}");
        settings.law.signal = Signal::Rtt;
        assert!(settings.to_raw().is_ok());
    }

    #[test]
    fn control_names_are_short_and_contain_the_process_id() {
        assert_eq!(ControlName::for_process(1 << 22).as_str(), "poseidon_400000");
        assert_eq!(ControlName::for_process(0x1f).to_bytes(), *b"poseidon_1f\0\0\0\0\0");
        for text in ["", "a name", "sixteen_letters_"] {
            assert!(text.parse::<ControlName>().is_err(), "{text}");
        }
        let control_name = ControlName::for_process(7);
        let mut settings = Settings { control_name, ..Settings::for_rate(BitRate::from_gbps(1)) };
        let error = settings.to_raw().expect_err("sockets would use this name by default").to_string();
        assert!(error.contains("set default to false"), "{error}");
        settings.default = false;
        assert!(settings.to_raw().is_ok());
    }
}
