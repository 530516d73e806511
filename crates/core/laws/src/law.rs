//! The interface between a host and a law: the traits, the path and the decision.

use crate::event::{Ack, Loss, Timeout, Trim};
use crate::params::Params;
use core::fmt::Debug;
use poseidon_types::{BitRate, Bytes, Nanos, Packets, Signals};

/// A congestion-control law for one flow, driven by a host.
///
/// The host reports events and asks for a [`Decision`]. A law has no clock, no random number generator and no heap, and
/// it never returns an error. Time and random numbers arrive in the events. The same events therefore produce the same
/// decisions, bit for bit, in the simulator, in QUIC and in the kernel. Construction
/// ([`build`](crate::registry::build)) rejects unsupported inputs. Afterwards, a law's arithmetic saturates.
pub trait Law: Debug {
    /// Processes an ACK.
    fn on_ack(&mut self, ack: &Ack<'_>);

    /// Reacts to packet loss. The host calls this once when it enters fast recovery, not once per lost packet.
    fn on_loss(&mut self, loss: &Loss);

    /// Reacts to a retransmission timeout.
    fn on_timeout(&mut self, timeout: &Timeout);

    /// Reacts to a trimmed packet. The host calls this once per trimmed packet.
    ///
    /// By default, a law ignores this event, because a trimmed packet is also a loss: the host calls [`Law::on_loss`]
    /// for it as for any lost packet, once when it enters fast recovery. A law that implements this method must not
    /// react to the same packet twice.
    fn on_trim(&mut self, _trim: &Trim) {}

    /// Returns whether this ACK indicates congestion, according to the law's signal.
    ///
    /// A host that runs PLB counts such ACKs to decide when to change the path. The host calls this method after
    /// [`Law::on_ack`] with the same ACK. A law without a congestion signal returns `false`, so its flow changes path
    /// only after a timeout.
    fn is_congested(&self, ack: &Ack<'_>) -> bool;

    /// Returns the delay that the law compares with its target, for hosts whose flows share queues with other laws.
    ///
    /// Returns `None` if the law has no target delay or the ACK carries no delay. The host calls this method after
    /// [`Law::on_ack`] with the same ACK.
    fn delay_signal(&self, _ack: &Ack<'_>) -> Option<DelaySignal> {
        None
    }

    /// Returns the target delay at the current window, or `None` if the law has no target delay. `hop_count` is the
    /// number of switches on the path. Hosts use this only to show the target.
    fn target(&self, _hop_count: u8) -> Option<Nanos> {
        None
    }

    /// Returns how much the host may send now, and how fast. The window is never zero and never exceeds
    /// [`Packets::MAX_WINDOW`].
    fn decision(&self) -> Decision;
}

/// A law's name, parameters and constructor, which a registry needs in addition to [`Law`].
pub trait LawDefinition: Law + Clone + PartialEq {
    /// The law's name in scenario files and on the command line.
    const NAME: &'static str;
    /// The paper, algorithm and equations that the law implements.
    const SOURCE: &'static str;
    /// The largest allowed size of one flow's state, in bytes. A conformance test enforces this limit.
    const STATE_LIMIT: usize;
    /// The law's parameters. `Default` returns the paper's values.
    type Params: Params;

    /// Returns the signals that the law needs with these parameters.
    fn needs(params: &Self::Params) -> Signals;

    /// Creates the law at the start of a flow.
    ///
    /// The caller has checked `params` with [`Params::check`] and `path` with [`Path::check`].
    fn new(params: &Self::Params, path: &Path) -> Self;
}

/// The largest round-trip time that a law represents: 4.29 s, the range of 32 bits of nanoseconds.
///
/// Larger values saturate.
pub const MAX_RTT: Nanos = Nanos::new(u32::MAX as u64);

/// The smallest supported line rate. At this rate, the largest packet takes about half a second to send.
pub const MIN_LINE_RATE: BitRate = BitRate::from_mbps(1);

/// The properties of a path that are known when the flow starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The payload size of a full packet. Windows are counted in packets of this size.
    pub mtu: Bytes,
    /// The sender's line rate.
    pub line_rate: BitRate,
    /// The configured round-trip time of the unloaded path. This value is not measured, because a flow that starts late
    /// may never see an empty queue.
    pub base_rtt: Nanos,
}

impl Path {
    /// Creates a path. [`Path::check`] validates it.
    pub const fn new(mtu: Bytes, line_rate: BitRate, base_rtt: Nanos) -> Self {
        Self { mtu, line_rate, base_rtt }
    }

    /// Returns an error if a value is outside the range that laws support.
    pub fn check(&self) -> Result<(), PathError> {
        match self {
            Self { mtu, .. } if !(1..=65_535).contains(&mtu.get()) => Err(PathError::Mtu(*mtu)),
            Self { line_rate, .. } if *line_rate < MIN_LINE_RATE => Err(PathError::LineRate(*line_rate)),
            Self { base_rtt, .. } if base_rtt.is_zero() || *base_rtt > MAX_RTT => {
                Err(PathError::BaseRtt(*base_rtt))
            }
            _ => Ok(()),
        }
    }
}

/// The reason a path is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathError {
    /// The packet size is zero or above 65,535 bytes.
    Mtu(Bytes),
    /// The line rate is below [`MIN_LINE_RATE`].
    LineRate(BitRate),
    /// The base RTT is zero or above [`MAX_RTT`].
    BaseRtt(Nanos),
}

impl core::fmt::Display for PathError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Mtu(mtu) => write!(f, "packet size is {mtu}; set it between 1 B and 65.535 kB"),
            Self::LineRate(rate) => {
                write!(f, "line rate is {rate}; set the sender's link rate, at least {MIN_LINE_RATE}")
            }
            Self::BaseRtt(rtt) => {
                write!(f, "base RTT is {rtt}; set the unloaded round-trip time, below 4.29 s")
            }
        }
    }
}

impl core::error::Error for PathError {}

/// An ACK's delay as interpreted by the law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelaySignal {
    /// The delay that the law compares with its target.
    pub delay: Nanos,
    /// Whether the delay is at or below the target.
    pub within_target: bool,
    /// The delay above which other traffic must be filling the queue
    /// ([`queue_limit`](crate::coexistence::queue_limit)).
    pub limit: Nanos,
}

/// A law's decision: how much the host may send, and how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The window: the amount of data that may be in flight. Below one packet, at most one packet is in flight and
    /// `pacing` sets the spacing.
    pub window: Packets,
    /// The packet spacing.
    pub pacing: Pacing,
}

/// The packet spacing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// No pacing: ACKs clock the flow.
    Off,
    /// The time between the starts of two consecutive packets. Used for windows below one packet and by laws that count
    /// in packets.
    ///
    /// If the decision changes while the host is waiting, the new gap applies, measured from the last send.
    Gap(Nanos),
    /// The maximum sending rate.
    Rate(BitRate),
}
