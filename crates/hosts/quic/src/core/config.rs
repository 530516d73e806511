//! The configuration of a [`crate::Poseidon`].

use super::mode::Bounds;
use super::observer::Observer;
use super::prefix::PREFIX_BYTES_U16;
use core::fmt;
use poseidon_laws::laws::poseidon::PoseidonParams;
use poseidon_laws::{AnyParams, BuildError, Path};
use poseidon_types::{BitRate, Bytes, Nanos, Packets, Signals};

/// The signals that this host supplies to a law.
///
/// The round-trip time is measured from the stack's send call to its ACK call. It includes the scheduling delay
/// of both hosts, because there are no NIC timestamps. ECN is not supplied: the stacks report that packets were
/// marked, but not how many bytes. The prefix has no room for per-hop records or circuit state.
pub const SUPPLIED_SIGNALS: Signals =
    Signals::RTT.union(Signals::MAX_HOP_DELAY).union(Signals::REVERSE_MAX_HOP_DELAY);

/// The combined size of the IPv6 and UDP headers.
pub(crate) const IPV6_AND_UDP_BYTES: u16 = 48;
/// The smallest maximum datagram size that QUIC permits (RFC 9000, section 14).
const MIN_PACKET_SIZE: u16 = 1_200;
/// The delay guard, as a multiple of the largest target delay. It allows for two hops in each direction with
/// queues at the target.
const GUARD_MULTIPLE: u64 = 4;
/// The scheduling delay of two user-space stacks on idle hosts: 100 to 500 us on a loopback interface.
const HOST_SLACK: Nanos = Nanos::from_micros(500);
/// The initial base RTT of a law if the configuration does not set one.
const DEFAULT_BASE_RTT: Nanos = Nanos::from_micros(100);

/// The settings of a [`crate::Poseidon`]. [`Config::for_rate`] returns sensible defaults.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The law and its parameters.
    pub law: AnyParams,
    /// The rate of this host's link.
    pub line_rate: BitRate,
    /// The size of a full QUIC packet in bytes, without the prefix. The law uses it as its packet size, and MTU
    /// discovery uses it as an upper bound. [`Config::packet_size_for_mtu`] computes the value.
    pub packet_size: u16,
    /// The round-trip time of the unloaded path. If unset, each path uses the smallest round-trip time that it
    /// has measured. A flow that joins a standing queue never measures the unloaded path.
    pub base_rtt: Option<Nanos>,
    /// The part of the RTT above the base RTT that does not count as queueing delay. It allows for the
    /// scheduling delay of both hosts.
    pub slack: Nanos,
    /// How much queueing delay beyond the slack the telemetry may leave unexplained. If more is unexplained,
    /// the law receives the delay that the round-trip time proves. The guard limits the effect of a peer or a
    /// switch that underreports delay.
    pub guard: Nanos,
    /// Whether flows whose law has a target delay defend their share against flows that fill the buffer
    /// ([`poseidon_laws::coexistence`]). If true, losses that occur without a queue do not slow these flows
    /// down.
    pub coexistence: bool,
    /// How the host treats peers that use plain QUIC.
    pub plain_peers: PlainPeers,
    /// The callback that receives every decision of every law.
    pub observer: Option<Observer>,
    /// The seed of the random numbers that laws receive. Flows of one [`crate::Poseidon`] receive different numbers
    /// even with the same seed.
    pub random_seed: u64,
}

/// How the host treats peers without the prefix. The host recognises them by the first byte of their datagrams
/// ([`crate::prefix`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PlainPeers {
    /// Plain peers use the same socket, and the round-trip time controls their connections. A server replies
    /// with the encapsulation that the client used. A client starts with the prefix and switches to plain QUIC
    /// if three datagrams remain unanswered.
    #[default]
    Serve,
    /// The host drops and counts datagrams without a prefix. With quinn, `Poseidon::connect` returns the
    /// reason.
    Refuse,
}

impl Config {
    /// Returns a Poseidon configuration for a network whose fastest link has this rate.
    ///
    /// | | at 100 Mbps | at 1 Gbps | at 10 Gbps | reason |
    /// |---|---|---|---|---|
    /// | `target-floor` | 300 us | 30 us | 25 us | 2.5 packets, at least the jitter of a host |
    /// | `target-range` | 4 ms | 500 us | 500 us | 33 packets, at least 20 times the smallest floor |
    /// | `min-rate` | 100 kbps | 1 Mbps | 10 Mbps | a thousandth of the rate |
    /// | `max-window` | 256 | 868 | 8680 | 10 ms at full rate, at least the paper's value |
    ///
    /// The Linux TCP host uses the same values. The law's signal is `max-hop-delay`. If no hop reports a delay,
    /// the host passes the round trip's queueing delay to the law instead.
    pub fn for_rate(line_rate: BitRate) -> Self {
        let rate = line_rate.get().max(1_000);
        let scaled = |value_at_100_mbps: u64| value_at_100_mbps.saturating_mul(100_000_000) / rate;
        let packet_size = Self::packet_size_for_mtu(1_500);
        let packets_in_10_ms = rate / 100 / 8 / u64::from(packet_size);
        let law = PoseidonParams {
            target_floor: Nanos::new(scaled(300_000).clamp(25_000, 2_500_000)),
            target_range: Nanos::new(scaled(4_000_000).clamp(500_000, 14_000_000)),
            max_rate: line_rate,
            min_rate: BitRate::from_bps(rate / 1_000),
            max_window: Packets::whole(packets_in_10_ms.clamp(256, 32_768)),
            // The initial window of RFC 6928. The paper's 32 packets are meant for a NIC.
            initial_window: Packets::whole(10),
            ..PoseidonParams::default()
        };
        let largest_target = law.target_floor.get() + law.target_range.get();
        Self {
            law: AnyParams::Poseidon(law),
            line_rate,
            packet_size,
            base_rtt: None,
            slack: HOST_SLACK,
            guard: Nanos::new(largest_target * GUARD_MULTIPLE),
            coexistence: true,
            plain_peers: PlainPeers::Serve,
            observer: None,
            random_seed: 0,
        }
    }

    /// Returns the size of the largest QUIC packet that fits, together with the prefix, into an IP packet of
    /// this size: 1436 bytes for an MTU of 1500, 8936 bytes for 9000. The result leaves room for an IPv6
    /// header, which is larger than an IPv4 header.
    pub const fn packet_size_for_mtu(ip_mtu: u16) -> u16 {
        let available = ip_mtu.saturating_sub(IPV6_AND_UDP_BYTES + PREFIX_BYTES_U16);
        if available < MIN_PACKET_SIZE { MIN_PACKET_SIZE } else { available }
    }

    /// Returns the initial path properties for the law.
    pub(crate) fn path(&self) -> Path {
        Path {
            mtu: Bytes::new(u64::from(self.packet_size)),
            line_rate: self.line_rate,
            base_rtt: self.base_rtt.unwrap_or(DEFAULT_BASE_RTT),
        }
    }

    pub(crate) fn bounds(&self) -> Bounds {
        Bounds { base_rtt: self.base_rtt, slack: self.slack, guard: self.guard }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let max = u16::MAX - IPV6_AND_UDP_BYTES - PREFIX_BYTES_U16;
        if !(MIN_PACKET_SIZE..=max).contains(&self.packet_size) {
            return Err(ConfigError::PacketSize { packet_size: self.packet_size, max });
        }
        Ok(())
    }
}

/// The reason a configuration is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The law cannot run on this host.
    Law(BuildError),
    /// The packet size is outside the range that QUIC permits.
    PacketSize {
        /// The configured size in bytes.
        packet_size: u16,
        /// The largest valid size in bytes.
        max: u16,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Law(error @ BuildError::MissingSignals { .. }) => {
                write!(f, "{error}; choose a law that needs only these signals, or another host")
            }
            Self::Law(error) => error.fmt(f),
            Self::PacketSize { packet_size, max } => {
                write!(
                    f,
                    "packet_size is {packet_size} B; set it between {MIN_PACKET_SIZE} and {max}, \
                     for example with packet_size_for_mtu"
                )
            }
        }
    }
}

impl core::error::Error for ConfigError {}

impl From<BuildError> for ConfigError {
    fn from(error: BuildError) -> Self {
        Self::Law(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_and_prefix_fit_into_the_mtu() {
        assert_eq!(Config::packet_size_for_mtu(1_500), 1_436);
        assert_eq!(Config::packet_size_for_mtu(9_000), 8_936);
        assert_eq!(Config::packet_size_for_mtu(576), 1_200);
    }

    #[test]
    fn default_parameters_are_valid_at_every_rate() {
        for mbps in [1, 100, 1_000, 10_000, 200_000] {
            let config = Config::for_rate(BitRate::from_mbps(mbps));
            assert_eq!(config.check(), Ok(()));
            assert!(config.law.build(&config.path(), SUPPLIED_SIGNALS).is_ok(), "{mbps} Mbps");
        }
    }
}
