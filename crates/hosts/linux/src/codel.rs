//! `CoDel` as `bpf/codel.h` has it, and the life of a queue as bytes, so that it can be held to the policies in Rust.
//!
//! ```text
//!   CodelRfc, CodelTofino ──Config::new──> Config, with a table of spacings ──> bpf/codel.h: marks …
//!            │                                                                        │ must be
//!            └───────────────────────────── marks … ──────────────────────────────────┘  equal
//! ```

use crate::in_kernel::{Aligned, KernelError, refused};
use crate::port::Loaded;
use core::fmt;
use libbpf_rs::{MapCore as _, MapFlags};
use poseidon_policies::mark::{self, CodelRfc, CodelTofino, Departure, Mark as _};
use poseidon_types::{BitRate, Bytes, Nanos, Picos};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Spacings in the table: `CODEL_SPACINGS` of `bpf/codel.h`.
pub const SPACINGS: usize = 4_096;
/// Packets of one batch: `MOST_PACKETS` of `bpf/codel_replay.bpf.c`.
const MOST_PACKETS: usize = 512;

/// Which `CoDel`, with its target and interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codel {
    /// RFC 8289.
    Rfc(CodelRfc),
    /// A Tofino program's, which RPM builds on.
    Tofino(CodelTofino),
}

impl Codel {
    /// The one that RPM builds on.
    pub const fn tofino(target: Nanos, interval: Nanos) -> Self {
        Self::Tofino(CodelTofino { target, interval })
    }

    /// The delay that it leaves alone.
    pub const fn target(&self) -> Nanos {
        match self {
            Self::Rfc(codel) => codel.target,
            Self::Tofino(codel) => codel.target,
        }
    }

    /// How long that may be exceeded.
    pub const fn interval(&self) -> Nanos {
        match self {
            Self::Rfc(codel) => codel.interval,
            Self::Tofino(codel) => codel.interval,
        }
    }
}

impl Default for Codel {
    /// RPM's, with the target and interval of its section V-B.
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

/// `struct codel_config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Config {
    target: u64,
    interval: u64,
    largest: u64,
    variant: u64,
    spacing: [u64; SPACINGS],
}

impl Config {
    /// For a port whose largest packet is `largest`.
    pub fn new(codel: &Codel, largest: Bytes) -> Self {
        let variant = match codel {
            Codel::Rfc(_) => 0,
            Codel::Tofino(_) => 1,
        };
        let (target, interval) = (Picos::from_nanos(codel.target()), Picos::from_nanos(codel.interval()));
        let spacing = core::array::from_fn(|count| {
            // There are fewer than 2^32.
            mark::spacing(interval, u32::try_from(count).unwrap_or(u32::MAX)).get()
        });
        Self { target: target.get(), interval: interval.get(), largest: largest.get(), variant, spacing }
    }

    /// Which it is, if it is one.
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

/// `struct codel_memory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Memory {
    since: u64,
    next: u64,
    count: u32,
    last_count: u32,
    active: u32,
    unused: u32,
}

impl From<&mark::Memory> for Memory {
    fn from(memory: &mark::Memory) -> Self {
        Self {
            since: memory.since.get(),
            next: memory.next.get(),
            count: memory.count,
            last_count: memory.last_count,
            active: memory.active.into(),
            unused: 0,
        }
    }
}

/// `struct codel_packet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Packet {
    /// When it leaves, ps.
    pub now: u64,
    /// How long it waited, ps.
    pub waited: u64,
    /// Bytes in the queue beside it.
    pub behind: u64,
}

impl Packet {
    /// What the policy in Rust makes of it.
    pub fn apply(&self, codel: &Codel, largest: Bytes, memory: &mut mark::Memory) -> Outcome {
        let departure = Departure {
            now: Picos::new(self.now),
            waited: Picos::new(self.waited),
            behind: Bytes::new(self.behind),
            largest,
            // Neither is read.
            rate: BitRate::ZERO,
            dice: 0,
        };
        let marks = match codel {
            Codel::Rfc(codel) => codel.marks(memory, &departure),
            Codel::Tofino(codel) => codel.marks(memory, &departure),
        };
        Outcome { memory: (&*memory).into(), marks: marks.into() }
    }
}

/// `struct codel_start`: what comes before the packets of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Start {
    /// Of the port.
    pub config: Config,
    /// Of the queue.
    pub memory: Memory,
    /// So many packets follow.
    pub packets: u64,
}

/// `struct codel_outcome`: what a packet did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Outcome {
    /// Of the queue, after it.
    pub memory: Memory,
    /// One if it was marked.
    pub marks: u64,
}

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/codel_replay.bpf.o")));

/// The program that replays lives of queues, loaded.
#[derive(Debug)]
pub struct InKernel {
    loaded: Loaded,
}

impl InKernel {
    /// Loads the program; the verifier has then passed it.
    pub fn load() -> Result<Self, KernelError> {
        Ok(Self { loaded: Loaded::load(&OBJECT.0, None)? })
    }

    /// Gives packets to a new queue, in as many batches as it takes.
    pub fn replay(&self, config: Config, packets: &[Packet]) -> Result<Vec<Outcome>, KernelError> {
        let (input, output) = (self.loaded.map("input")?, self.loaded.map("output")?);
        let key = 0_u32.to_ne_bytes();
        let mut start = Start { config, memory: Memory::default(), packets: 0 };
        let mut outcomes = Vec::with_capacity(packets.len());
        for batch in packets.chunks(MOST_PACKETS) {
            start.packets = batch.len() as u64;
            let mut bytes = [start.as_bytes(), batch.as_bytes()].concat();
            bytes.resize(size_of::<Start>() + MOST_PACKETS * size_of::<Packet>(), 0);
            input.update(&key, &bytes, MapFlags::ANY).map_err(refused("writing the packets"))?;
            self.loaded.run("replay", &[], &mut [], 0)?;
            let value = output.lookup(&key, MapFlags::ANY).map_err(refused("reading the outcomes"))?;
            let other = || KernelError::OtherObject { lacks: "an output of the expected size" };
            let value = value.ok_or_else(other)?;
            let (some, _) =
                <[Outcome]>::ref_from_prefix_with_elems(&value, batch.len()).map_err(|_| other())?;
            outcomes.extend_from_slice(some);
            start.memory = some.last().map_or(start.memory, |last| last.memory);
        }
        Ok(outcomes)
    }
}
