//! The life of a flow as bytes, so that one list of events can be given to the law wherever it runs: `bpf/replay.h`.
//!
//! ```text
//! in    Start | Step, Step, …
//! out   Outcome, one per step
//! ```

use crate::flow::{Flow, Unsupported};
use poseidon_laws::laws::poseidon::Poseidon;
use poseidon_laws::{Ack, Law, Loss, Pacing};
use poseidon_types::Nanos;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A delay that nobody measured; as a time it is 584 years.
pub const UNKNOWN: u64 = u64::MAX;

/// The flow before its first step, and how many steps follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Start {
    /// As Rust made it.
    pub flow: Flow,
    /// So many [`Step`]s follow.
    pub steps: u64,
}

/// One event; `struct replay_step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Step {
    now: u64,
    rtt: u64,
    max_hop_delay: u64,
    reverse_max_hop_delay: u64,
    packets: u32,
    chance: u32,
    app_limited: u8,
    unused: [u8; 7],
    event: u64,
}

const ACK: u64 = 0;
const LOSS: u64 = 1;
const TIMEOUT: u64 = 2;

impl Step {
    /// An ACK. A delay of [`UNKNOWN`] nanoseconds counts as not measured.
    pub fn ack(ack: &Ack<'_>) -> Self {
        Self {
            now: ack.now.get(),
            rtt: ack.rtt.get(),
            max_hop_delay: ack.max_hop_delay.map_or(UNKNOWN, Nanos::get),
            reverse_max_hop_delay: ack.reverse_max_hop_delay.map_or(UNKNOWN, Nanos::get),
            packets: ack.packets,
            chance: ack.chance,
            app_limited: u8::from(ack.app_limited),
            unused: [0; 7],
            event: ACK,
        }
    }

    /// Fast recovery.
    pub fn loss(now: Nanos) -> Self {
        Self { event: LOSS, ..Self::ack(&Ack { now, ..Ack::EMPTY }) }
    }

    /// A retransmission timeout.
    pub fn timeout(now: Nanos) -> Self {
        Self { event: TIMEOUT, ..Self::loss(now) }
    }

    /// Does the event to the law in Rust.
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
                chance: self.chance,
                app_limited: self.app_limited != 0,
                ..Ack::EMPTY
            }),
            LOSS => law.on_loss(&Loss { now }),
            _ => law.on_timeout(now),
        }
    }
}

/// The flow after a step and the decision that follows from it; its window is the flow's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Outcome {
    /// Every number of it.
    pub flow: Flow,
    /// Nanoseconds between the starts of two packets; zero where nothing is paced.
    pub gap: u64,
}

impl TryFrom<&Poseidon> for Outcome {
    type Error = Unsupported;

    /// What the law in Rust has come to.
    fn try_from(law: &Poseidon) -> Result<Self, Unsupported> {
        let gap = match law.decision().pacing {
            Pacing::Gap(gap) => gap.get(),
            Pacing::Off | Pacing::Rate(_) => 0,
        };
        Ok(Self { flow: law.try_into()?, gap })
    }
}
