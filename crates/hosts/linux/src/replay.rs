//! Flow events as bytes, so that Rust, C and the kernel can run the same trace. `bpf/replay.h` has the same structs.
//!
//! ```text
//! in    Start | Step, Step, …
//! out   Outcome, one per step
//! ```

use crate::flow::{Flow, UnsupportedLaw};
use poseidon_laws::laws::poseidon::Poseidon;
use poseidon_laws::{Ack, Law, Loss, Pacing, Timeout};
use poseidon_types::{Bytes, Nanos};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The value of an unmeasured delay.
pub const UNKNOWN: u64 = u64::MAX;

/// The header of a trace: the initial flow and the number of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Start {
    /// The flow before its first step.
    pub flow: Flow,
    /// The number of [`Step`]s that follow.
    pub steps: u64,
}

/// A flow event: the Rust counterpart of `struct replay_step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Step {
    now: u64,
    rtt: u64,
    max_hop_delay: u64,
    reverse_max_hop_delay: u64,
    packets: u32,
    random: u32,
    app_limited: u8,
    unused: [u8; 7],
    event: u64,
}

const ACK: u64 = 0;
const LOSS: u64 = 1;
const TIMEOUT: u64 = 2;

impl Step {
    /// Returns the step for an ACK. A delay of [`UNKNOWN`] counts as unmeasured.
    pub fn ack(ack: &Ack<'_>) -> Self {
        Self {
            now: ack.now.get(),
            rtt: ack.rtt.get(),
            max_hop_delay: ack.max_hop_delay.map_or(UNKNOWN, Nanos::get),
            reverse_max_hop_delay: ack.reverse_max_hop_delay.map_or(UNKNOWN, Nanos::get),
            packets: ack.packets,
            random: ack.random,
            app_limited: u8::from(ack.app_limited),
            unused: [0; 7],
            event: ACK,
        }
    }

    /// Returns the step for the start of fast recovery.
    pub fn loss(now: Nanos) -> Self {
        Self { event: LOSS, ..Self::ack(&Ack { now, ..Ack::EMPTY }) }
    }

    /// Returns the step for a retransmission timeout.
    pub fn timeout(now: Nanos) -> Self {
        Self { event: TIMEOUT, ..Self::loss(now) }
    }

    /// Applies the event to the Rust law.
    pub fn apply(&self, law: &mut Poseidon) {
        let now = Nanos::new(self.now);
        let known = |delay| (delay != UNKNOWN).then(|| Nanos::new(delay));
        match self.event {
            ACK => law.on_ack(&Ack {
                now,
                rtt: Nanos::new(self.rtt),
                max_hop_delay: known(self.max_hop_delay),
                reverse_max_hop_delay: known(self.reverse_max_hop_delay),
                packets: self.packets,
                random: self.random,
                app_limited: self.app_limited != 0,
                ..Ack::EMPTY
            }),
            LOSS => law.on_loss(&Loss { now }),
            _ => law.on_timeout(&Timeout { now, bytes: Bytes::ZERO }),
        }
    }
}

/// The flow after a step, and its pacing gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Outcome {
    /// The complete flow state.
    pub flow: Flow,
    /// The time between the starts of two packets, in ns. Zero if the flow is not paced.
    pub gap: u64,
}

impl TryFrom<&Poseidon> for Outcome {
    type Error = UnsupportedLaw;

    /// Reads the Rust law's state.
    fn try_from(law: &Poseidon) -> Result<Self, UnsupportedLaw> {
        let gap = match law.decision().pacing {
            Pacing::Gap(gap) => gap.get(),
            Pacing::Off | Pacing::Rate(_) => 0,
        };
        Ok(Self { flow: law.try_into()?, gap })
    }
}
