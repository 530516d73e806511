//! What is set when Poseidon is put into a program.

use crate::prefix::{PREFIX, Tag};
use crate::signal::{Bounds, Mode};
use core::fmt;
use poseidon_laws::laws::poseidon::PoseidonParams;
use poseidon_laws::{AnyParams, BuildError, Path};
use poseidon_types::{BitRate, Bytes, Nanos, Packets, Signals};
use std::sync::Arc;

/// What this host supplies to a law.
///
/// The round trip is from quinn's call for sending to its call for the ACK, so the scheduling of both hosts is in it: there are no
/// timestamps of a NIC. Marks are not supplied, because quinn tells that there were some and not how many bytes; per-hop
/// records and the state of a circuit have no place in the shim.
pub const SUPPLIED: Signals =
    Signals::RTT.union(Signals::MAX_HOP_DELAY).union(Signals::REVERSE_MAX_HOP_DELAY);

/// A UDP header behind the larger of the two IP headers.
pub(crate) const IPV6_AND_UDP_BYTES: u16 = 48;
/// The smallest packet that QUIC may assume (RFC 9000, section 14).
const SMALLEST_PACKET: u16 = 1_200;
/// How many of the largest target the guard leaves to telemetry: a path with queues at its target in two hops each way.
const GUARD_TARGETS: u64 = 4;
/// Scheduling of two user-space stacks on hosts that are not overloaded: 100 to 500 us on a loopback.
const HOST_SLACK: Nanos = Nanos::from_micros(500);
/// Where none is given, laws that compute with a base RTT of their own start from this.
const USUAL_BASE_RTT: Nanos = Nanos::from_micros(100);

/// Everything that can be set. [`Config::for_rate`] gives sensible values.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The law and its parameters.
    pub law: AnyParams,
    /// Of this host's link.
    pub line_rate: BitRate,
    /// Bytes of a full QUIC packet, without the prefix: the law's packet, the end of the search for the MTU, and what
    /// [`Config::packet_within`] gives.
    pub packet: u16,
    /// The round-trip time of the unloaded path; without one, each path takes the smallest it has seen. A flow that joins a standing
    /// queue never sees the empty path.
    pub base_rtt: Option<Nanos>,
    /// How much longer a round trip may be before the rest counts as a queue: the scheduling of two hosts.
    pub slack: Nanos,
    /// How much queueing beyond the slack telemetry may leave unexplained before the round trip is believed instead. It bounds what a
    /// peer or a switch that reports too little can do.
    pub guard: Nanos,
    /// Flows whose law holds a target delay keep their share beside flows that fill the buffer
    /// ([`poseidon_laws::parts::coexistence`]), and a loss without a queue does not slow them down.
    pub coexistence: bool,
    /// What becomes of peers that speak plain QUIC.
    pub plain_peers: PlainPeers,
    /// Told of every decision of every law.
    pub observer: Option<Observer>,
}

/// What becomes of peers that do not speak the shim. One byte tells them apart ([`crate::prefix`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PlainPeers {
    /// They get plain QUIC on the same socket, and their connections steer by the round trip. A server answers in the form in which it was
    /// asked; a client asks with the shim, and without it when the third datagram stays unanswered.
    #[default]
    Serve,
    /// Their datagrams are dropped and counted, and [`crate::Poseidon::connect`] says why there is no connection.
    Refuse,
}

/// Told of decisions, in the task of the connection: it must not block.
#[derive(Clone)]
pub struct Observer(pub Arc<dyn Fn(&Decided) + Send + Sync>);

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// One decision, with all that the law was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decided {
    /// The flow, as in [`crate::FlowMetrics::number`].
    pub flow: u64,
    /// Under which its datagrams go.
    pub tag: Tag,
    /// Since the path began.
    pub at: Nanos,
    /// Why.
    pub cause: Cause,
    /// What it steers by.
    pub mode: Mode,
    /// The round trip that the law was given; with a loss, the smallest.
    pub rtt: Nanos,
    /// What was reflected, as it came.
    pub told: Option<Nanos>,
    /// The delay that it was given: what was told, or what the round trip proves or allows.
    pub max_hop_delay: Option<Nanos>,
    /// Bytes newly acknowledged.
    pub acked: Bytes,
    /// Bytes still in flight, where quinn says it: with ACKs.
    pub in_flight: Option<Bytes>,
    /// What it decided.
    pub law_window: Packets,
    /// What quinn was given.
    pub window: Bytes,
}

/// What a law decided upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// An ACK frame.
    Ack,
    /// A loss, once per recovery.
    Loss,
    /// Persistent congestion.
    Timeout,
}

impl Cause {
    /// In logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Loss => "loss",
            Self::Timeout => "timeout",
        }
    }
}

impl Config {
    /// Poseidon where the fastest link has this rate.
    ///
    /// | | at 100 Mbps | at 1 Gbps | at 10 Gbps | why |
    /// |---|---|---|---|---|
    /// | `target-floor` | 300 us | 30 us | 25 us | two and a half packets, and no less than the jitter of a host |
    /// | `target-range` | 4 ms | 500 us | 500 us | 33 packets, and no less than 20 smallest floors |
    /// | `min-rate` | 100 kbps | 1 Mbps | 10 Mbps | a thousandth |
    /// | `max-window` | 256 | 868 | 8680 | 10 ms at full rate, and no less than the paper's |
    ///
    /// These are the values of the host for Linux TCP. The signal is `max-hop-delay`: where no hop measures, the host gives
    /// the law the round trip's queueing instead.
    pub fn for_rate(line_rate: BitRate) -> Self {
        let rate = line_rate.get().max(1_000);
        let scaled = |at_100_mbps: u64| at_100_mbps.saturating_mul(100_000_000) / rate;
        let packet = Self::packet_within(1_500);
        let in_10_ms = rate / 100 / 8 / u64::from(packet);
        let law = PoseidonParams {
            target_floor: Nanos::new(scaled(300_000).clamp(25_000, 2_500_000)),
            target_range: Nanos::new(scaled(4_000_000).clamp(500_000, 14_000_000)),
            max_rate: line_rate,
            min_rate: BitRate::from_bps(rate / 1_000),
            max_window: Packets::whole(in_10_ms.clamp(256, 32_768)),
            // RFC 6928; the paper's 32 are a NIC's.
            initial_window: Packets::whole(10),
            ..PoseidonParams::default()
        };
        let largest_target = law.target_floor.get() + law.target_range.get();
        Self {
            law: AnyParams::Poseidon(law),
            line_rate,
            packet,
            base_rtt: None,
            slack: HOST_SLACK,
            guard: Nanos::new(largest_target * GUARD_TARGETS),
            coexistence: true,
            plain_peers: PlainPeers::Serve,
            observer: None,
        }
    }

    /// The largest QUIC packet that fits, behind our prefix, into IP packets of this size, IPv6 or IPv4: 1436 of 1500, 8936 of
    /// 9000.
    pub const fn packet_within(ip_mtu: u16) -> u16 {
        let left = ip_mtu.saturating_sub(IPV6_AND_UDP_BYTES + PREFIX);
        if left < SMALLEST_PACKET { SMALLEST_PACKET } else { left }
    }

    /// What a law starts from.
    pub(crate) fn path(&self) -> Path {
        Path {
            mtu: Bytes::new(u64::from(self.packet)),
            line_rate: self.line_rate,
            base_rtt: self.base_rtt.unwrap_or(USUAL_BASE_RTT),
        }
    }

    pub(crate) fn bounds(&self) -> Bounds {
        Bounds { base_rtt: self.base_rtt, slack: self.slack, guard: self.guard }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let most = u16::MAX - IPV6_AND_UDP_BYTES - PREFIX;
        if !(SMALLEST_PACKET..=most).contains(&self.packet) {
            return Err(ConfigError::Packet { packet: self.packet, most });
        }
        Ok(())
    }
}

/// Why a configuration is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The law cannot run here.
    Law(BuildError),
    /// No QUIC packet is of this size.
    Packet {
        /// What was given.
        packet: u16,
        /// The largest.
        most: u16,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Law(error @ BuildError::MissingSignals { .. }) => {
                write!(f, "{error}; choose a law that needs no more, or another host")
            }
            Self::Law(error) => error.fmt(f),
            Self::Packet { packet, most } => {
                write!(
                    f,
                    "packet is {packet} B; set it between {SMALLEST_PACKET} and {most}, for example with packet_within"
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
    fn a_packet_fits_with_its_prefix() {
        assert_eq!(Config::packet_within(1_500), 1_436);
        assert_eq!(Config::packet_within(9_000), 8_936);
        assert_eq!(Config::packet_within(576), 1_200);
    }

    #[test]
    fn the_defaults_are_in_the_domain_of_the_law_at_every_rate() {
        for mbps in [1, 100, 1_000, 10_000, 200_000] {
            let config = Config::for_rate(BitRate::from_mbps(mbps));
            assert_eq!(config.check(), Ok(()));
            assert!(config.law.build(&config.path(), SUPPLIED).is_ok(), "{mbps} Mbps");
        }
    }
}
