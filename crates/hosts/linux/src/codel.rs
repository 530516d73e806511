//! The C port of `CoDel` (`bpf/codel.h`), and a byte format for queue traces. Tests use the traces to compare the port
//! with the Rust policies.
//!
//! ```text
//!   CodelRfc, CodelTofino ──Config::new──> Config, with a table of spacings ──> bpf/codel.h: marks …
//!            │                                                                        │ must be
//!            └───────────────────────────── marks … ──────────────────────────────────┘  equal
//! ```

use crate::object::{AlignedBytes, KernelError, refused};
use crate::port::LoadedObject;
use core::fmt;
use libbpf_rs::{MapCore as _, MapFlags};
use poseidon_policies::mark::{self, CodelRfc, CodelTofino, Departure, MarkPolicy as _};
use poseidon_types::{BitRate, Bytes, Nanos, Picos};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The length of the spacing table. Equals `CODEL_SPACINGS` in `bpf/codel.h`.
pub const SPACINGS: usize = 4_096;
/// The number of packets per batch. Equals `MAX_PACKETS` in `bpf/codel_replay.bpf.c`.
const BATCH_PACKETS: usize = 512;

/// A `CoDel` variant, with its target and interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codel {
    /// The algorithm in RFC 8289.
    Rfc(CodelRfc),
    /// The variant from a Tofino program, which RPM builds on.
    Tofino(CodelTofino),
}

impl Codel {
    /// Returns the variant that RPM builds on.
    pub const fn tofino(target: Nanos, interval: Nanos) -> Self {
        Self::Tofino(CodelTofino { target, interval })
    }

    /// Returns the delay below which no packet is marked.
    pub const fn target(&self) -> Nanos {
        match self {
            Self::Rfc(codel) => codel.target,
            Self::Tofino(codel) => codel.target,
        }
    }

    /// Returns how long the delay may exceed the target before packets are marked.
    pub const fn interval(&self) -> Nanos {
        match self {
            Self::Rfc(codel) => codel.interval,
            Self::Tofino(codel) => codel.interval,
        }
    }
}

impl Default for Codel {
    /// Returns RPM's variant, with the target and interval from section V-B of the paper.
    fn default() -> Self {
        Self::Tofino(CodelTofino::default())
    }
}

impl fmt::Display for Codel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Rfc(_) => CodelRfc::NAME,
            Self::Tofino(_) => CodelTofino::NAME,
        };
        write!(f, "{name}, target {}, interval {}", self.target(), self.interval())
    }
}

/// The Rust counterpart of `struct codel_config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Config {
    target: u64,
    interval: u64,
    max_packet: u64,
    variant: u64,
    spacing: [u64; SPACINGS],
}

impl Config {
    /// Returns the configuration for a port whose largest frame is `max_packet`.
    pub fn new(codel: &Codel, max_packet: Bytes) -> Self {
        let variant = match codel {
            Codel::Rfc(_) => 0,
            Codel::Tofino(_) => 1,
        };
        let (target, interval) = (Picos::from_nanos(codel.target()), Picos::from_nanos(codel.interval()));
        let spacing = core::array::from_fn(|count| {
            // The table has fewer than 2^32 entries.
            mark::mark_spacing(interval, u32::try_from(count).unwrap_or(u32::MAX)).get()
        });
        Self {
            target: target.get(),
            interval: interval.get(),
            max_packet: max_packet.get(),
            variant,
            spacing,
        }
    }

    /// Returns the variant, or `None` if its code is unknown.
    pub(crate) fn codel(&self) -> Option<Codel> {
        let (target, interval) = (Picos::new(self.target), Picos::new(self.interval));
        let (target, interval) = (target.to_nanos_floor(), interval.to_nanos_floor());
        match self.variant {
            0 => Some(Codel::Rfc(CodelRfc { target, interval })),
            1 => Some(Codel::Tofino(CodelTofino { target, interval })),
            _ => None,
        }
    }
}

/// The Rust counterpart of `struct codel_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct QueueState {
    first_above: u64,
    next_mark: u64,
    count: u32,
    last_count: u32,
    marking: u32,
    unused: u32,
}

impl From<&mark::MarkState> for QueueState {
    fn from(state: &mark::MarkState) -> Self {
        Self {
            first_above: state.first_above.get(),
            next_mark: state.next_mark.get(),
            count: state.count,
            last_count: state.last_count,
            marking: state.marking.into(),
            unused: 0,
        }
    }
}

/// The Rust counterpart of `struct codel_packet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Packet {
    /// The departure time in ps.
    pub now: u64,
    /// The queueing delay in ps.
    pub sojourn_time: u64,
    /// The number of bytes in the queue, excluding this packet.
    pub queue_len: u64,
}

impl Packet {
    /// Applies the Rust policy to the packet.
    pub fn apply(&self, codel: &Codel, max_packet: Bytes, state: &mut mark::MarkState) -> Outcome {
        let departure = Departure {
            now: Picos::new(self.now),
            sojourn_time: Picos::new(self.sojourn_time),
            queue_len: Bytes::new(self.queue_len),
            max_packet,
            // CoDel does not read these two fields.
            link_rate: BitRate::ZERO,
            random_seed: 0,
        };
        let is_marked = match codel {
            Codel::Rfc(codel) => codel.should_mark(state, &departure),
            Codel::Tofino(codel) => codel.should_mark(state, &departure),
        };
        Outcome { state: (&*state).into(), marks: is_marked.into() }
    }
}

/// The header of a trace: the Rust counterpart of `struct codel_start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Start {
    /// The port configuration.
    pub config: Config,
    /// The initial queue state.
    pub state: QueueState,
    /// The number of packets that follow.
    pub packets: u64,
}

/// The result for one packet: the Rust counterpart of `struct codel_outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Outcome {
    /// The queue state after the packet.
    pub state: QueueState,
    /// 1 if the packet was marked, else 0.
    pub marks: u64,
}

static OBJECT: &AlignedBytes<[u8]> =
    &AlignedBytes(*include_bytes!(concat!(env!("OUT_DIR"), "/codel_replay.bpf.o")));

/// The loaded program that replays queue traces.
#[derive(Debug)]
pub struct KernelReplay {
    object: LoadedObject,
}

impl KernelReplay {
    /// Loads the program. A loaded program has passed the verifier.
    pub fn load() -> Result<Self, KernelError> {
        Ok(Self { object: LoadedObject::load(&OBJECT.0, &[], None)? })
    }

    /// Replays packets through an empty queue, in as many batches as necessary.
    pub fn replay(&self, config: Config, packets: &[Packet]) -> Result<Vec<Outcome>, KernelError> {
        let (input, output) = (self.object.map("input")?, self.object.map("output")?);
        let key = 0_u32.to_ne_bytes();
        let mut start = Start { config, state: QueueState::default(), packets: 0 };
        let mut outcomes = Vec::with_capacity(packets.len());
        for batch in packets.chunks(BATCH_PACKETS) {
            start.packets = batch.len() as u64;
            let mut bytes = [start.as_bytes(), batch.as_bytes()].concat();
            bytes.resize(size_of::<Start>() + BATCH_PACKETS * size_of::<Packet>(), 0);
            input.update(&key, &bytes, MapFlags::ANY).map_err(refused("writing the packets"))?;
            self.object.run("replay", &[], &mut [], 0)?;
            let value = output.lookup(&key, MapFlags::ANY).map_err(refused("reading the outcomes"))?;
            let mismatch = || KernelError::ObjectMismatch { missing: "an output of the expected size" };
            let value = value.ok_or_else(mismatch)?;
            let (batch_outcomes, _) =
                <[Outcome]>::ref_from_prefix_with_elems(&value, batch.len()).map_err(|_| mismatch())?;
            outcomes.extend_from_slice(batch_outcomes);
            start.state = batch_outcomes.last().map_or(start.state, |last| last.state);
        }
        Ok(outcomes)
    }
}
