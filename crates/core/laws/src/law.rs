//! What a control law is: state that events move and that a host asks for a decision.

use crate::event::{Ack, Loss};
use crate::params::Params;
use crate::parts::coexistence::DelaySignal;
use core::fmt::Debug;
use poseidon_types::{BitRate, Bytes, Nanos, Packets, Signals};

/// A congestion-control law for one flow.
///
/// A law has no clock, no generator, no errors and no heap. Time and chance arrive in the events, so the same
/// events give the same decisions, bit for bit, in a simulator, in QUIC and in the kernel. What a law cannot use
/// is refused when it is built; afterwards it saturates.
pub trait Law: Clone + Debug + PartialEq {
    /// Its name in scenario files and on the command line.
    const NAME: &'static str;
    /// Paper, algorithm and equations it implements.
    const SOURCE: &'static str;
    /// Bytes of state per flow that it promises not to exceed.
    const STATE_LIMIT: usize;
    /// Its parameters; `Default` is the paper's values.
    type Params: Params;

    /// The signals it needs when run with `params`.
    fn needs(params: &Self::Params) -> Signals;

    /// The law at the start of a flow. `params` must have passed [`Params::check`] and `path` [`Path::check`].
    fn new(params: &Self::Params, path: &Path) -> Self;

    /// An ACK has arrived.
    fn on_ack(&mut self, ack: &Ack<'_>);

    /// The host has entered fast recovery: called once per recovery, not once per lost packet.
    fn on_loss(&mut self, loss: &Loss);

    /// A retransmission timer has fired.
    fn on_timeout(&mut self, now: Nanos);

    /// Whether the path of this ACK is congested, by the signal that the law itself follows. A host with PLB counts such
    /// ACKs and chooses another path. Called after [`Law::on_ack`] with the same ACK. A law without a signal of
    /// congestion answers `false` and changes its path only after a timeout.
    fn is_congested(&self, ack: &Ack<'_>) -> bool;

    /// The delay that the law holds against its target, for a host that shares queues with other laws. `None` for a law without a
    /// target, and for an ACK that says nothing of it. Called after [`Law::on_ack`] with the same ACK.
    fn delay_signal(&self, _ack: &Ack<'_>) -> Option<DelaySignal> {
        None
    }

    /// What the host may do now. The window is never zero and never above [`Packets::MAX_WINDOW`].
    fn decision(&self) -> Decision;
}

/// The longest round-trip time a law holds, 4.29 s: what 32 bits of nanoseconds hold, and beyond any datacenter's.
/// Longer ones count as this.
pub const LONGEST_RTT: Nanos = Nanos::new(u32::MAX as u64);

/// The slowest line a law runs on: one packet then takes half a second at most.
pub const SLOWEST_LINE: BitRate = BitRate::from_mbps(1);

/// What a law knows of its path when the flow starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Payload of a full packet: the unit of a window in packets.
    pub mtu: Bytes,
    /// The sender's line rate.
    pub line_rate: BitRate,
    /// The round-trip time of the unloaded path, as configured: not the smallest one seen, because a flow that
    /// starts late never sees an empty queue.
    pub base_rtt: Nanos,
}

impl Path {
    /// Refuses paths on which no law can compute.
    pub fn check(&self) -> Result<(), PathError> {
        match self {
            Self { mtu, .. } if !(1..=65_535).contains(&mtu.get()) => Err(PathError::Mtu(*mtu)),
            Self { line_rate, .. } if *line_rate < SLOWEST_LINE => Err(PathError::LineRate(*line_rate)),
            Self { base_rtt, .. } if base_rtt.is_zero() || *base_rtt > LONGEST_RTT => {
                Err(PathError::BaseRtt(*base_rtt))
            }
            _ => Ok(()),
        }
    }
}

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathError {
    /// The packet size is zero or above 65,535 bytes.
    Mtu(Bytes),
    /// The line rate is below [`SLOWEST_LINE`].
    LineRate(BitRate),
    /// The base RTT is zero or above [`LONGEST_RTT`].
    BaseRtt(Nanos),
}

impl core::fmt::Display for PathError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Mtu(mtu) => write!(f, "packet size is {mtu}; set it between 1 B and 65.535 kB"),
            Self::LineRate(rate) => {
                write!(f, "line rate is {rate}; set the sender's link rate, at least {SLOWEST_LINE}")
            }
            Self::BaseRtt(rtt) => {
                write!(f, "base RTT is {rtt}; set the unloaded round-trip time, below 4.29 s")
            }
        }
    }
}

impl core::error::Error for PathError {}

/// What the host may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// How much may be in flight. Below one packet, at most one packet is in flight and `pacing` spaces them.
    pub window: Packets,
    /// How packets are spaced.
    pub pacing: Pacing,
}

/// How a host spaces packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// Not at all: ACKs clock the flow.
    Off,
    /// This long between the starts of two packets, counted from the last send: for windows below one packet, and for laws that
    /// count in packets. A host that is waiting when the law decides anew waits by the new gap, from the same send.
    Gap(Nanos),
    /// At most this rate, always.
    Rate(BitRate),
}
