//! What one hop pushes in P4-INT: the instruction bits, the metadata they ask for, and the units behind them.
//!
//! ```text
//! bit  mask  bytes  content                        bit  mask  bytes  content
//!  0   8000   4     node id                         6   0200   8     L2 ingress:32, egress:32
//!  1   4000   4     L1 ingress:16, egress:16        7   0100   4     egress transmit utilisation
//!  2   2000   4     hop latency                     8   0080   4     buffer id:8, occupancy:24
//!  3   1000   4     queue id:8, occupancy:24        9-14       4     reserved: all ones
//!  4   0800   8     ingress timestamp              15   0001   4     checksum complement, last of the hop
//!  5   0400   8     egress timestamp                    words the domain asks for: before the complement
//! ```
//!
//! Source: P4.org INT dataplane specification v2.1, "INT-MD metadata header format".

use crate::bytes::{Field, join16, join32, load, low8, low32, split16, split32, store};
use crate::quantiser::{HopCode, HopScale, Ticks, TimeUnit};
use poseidon_types::{BitRate, HopRecord, Nanos};
use zerocopy::big_endian::{U32, U64};

/// The instruction bitmap; bit 0 is the most significant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Instructions(pub u16);

impl Instructions {
    /// Node id, ports, queue, egress time and transmit field: what HPCC++ asks for.
    pub const HPCC: Self = Self(0xd500);
    /// Node id and hop latency: what a largest hop delay needs.
    pub const LATENCY: Self = Self(0xa000);

    /// Whether instruction `bit` is set.
    const fn has(self, bit: u16) -> bool {
        self.0 & (0x8000 >> bit) != 0
    }

    /// Words that the set bits ask for.
    pub const fn words(self) -> usize {
        // The three 8-byte instructions count twice.
        (self.0.count_ones() + (self.0 & 0x0e00).count_ones()) as usize
    }

    /// Where the metadata of `bit` begins in the hop's bytes.
    const fn offset(self, bit: u16) -> Option<usize> {
        if !self.has(bit) {
            return None;
        }
        let before = match 0xffff_u16.checked_shr(bit as u32) {
            Some(rest) => !rest,
            None => 0xffff,
        };
        Some(4 * Self(self.0 & before).words())
    }
}

/// What the numbers of a device mean; no header says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// One tick of the hop latency.
    pub latency: TimeUnit,
    /// One tick of the timestamps.
    pub timestamp: TimeUnit,
    /// Bytes per unit of queue occupancy (1, or the device's cell).
    pub queue_bytes: u32,
    /// Bytes per unit of the transmit field, where the device puts a counter of bytes there.
    pub transmitted_bytes: u32,
}

impl Units {
    /// Nanoseconds and bytes.
    pub const NANOS_AND_BYTES: Self =
        Self { latency: TimeUnit::NANO, timestamp: TimeUnit::NANO, queue_bytes: 1, transmitted_bytes: 1 };

    /// What the hop latency field does to a delay.
    pub const fn latency_scale(&self) -> Ticks {
        Ticks { unit: self.latency, max_code: u32::MAX - 1 }
    }

    /// What the fields do to a hop record.
    pub const fn hop_scale(&self) -> HopScale {
        HopScale {
            at_unit: self.timestamp,
            at_bits: 64,
            sent_unit: self.transmitted_bytes,
            sent_bits: 32,
            queue_unit: self.queue_bytes,
            queue_bits: 24,
            all_ones_is_absent: true,
        }
    }
}

/// A queue or buffer and how much is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Occupancy {
    /// Which one.
    pub id: u8,
    /// Units in it, 24 bits.
    pub occupancy: u32,
}

const OCCUPANCY: Field = Field::new(0, 24);
const ID: Field = Field::new(24, 8);

/// The metadata of one hop; `None` where it was not asked for or not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Hop {
    /// The node.
    pub node_id: Option<u32>,
    /// Physical ports, ingress and egress.
    pub ports: Option<(u16, u16)>,
    /// Time in the node, in ticks.
    pub latency: Option<u32>,
    /// The egress queue.
    pub queue: Option<Occupancy>,
    /// When the packet came in, in ticks.
    pub ingress_at: Option<u64>,
    /// When the packet went out, in ticks.
    pub egress_at: Option<u64>,
    /// Logical interfaces, ingress and egress.
    pub interfaces: Option<(u32, u32)>,
    /// The transmit field.
    pub transmitted: Option<u32>,
    /// The buffer.
    pub buffer: Option<Occupancy>,
}

impl Hop {
    /// What a hop says that measured `delay` and `record`.
    pub fn measured(node_id: u32, delay: Nanos, record: &HopRecord, units: &Units) -> Self {
        use crate::quantiser::Scale;
        let code = units.hop_scale().encode(record);
        Self {
            node_id: Some(node_id),
            latency: Some(units.latency_scale().delay_code(delay)),
            queue: Some(Occupancy { id: 0, occupancy: low32(code.queue) }),
            egress_at: Some(code.at),
            transmitted: Some(low32(code.sent)),
            ..Self::default()
        }
    }

    /// The record of a port of `rate`, if the hop gave queue, egress time and counter.
    pub fn record(&self, units: &Units, rate: BitRate) -> Option<HopRecord> {
        let code = HopCode {
            at: self.egress_at?,
            sent: u64::from(self.transmitted?),
            queue: u64::from(self.queue?.occupancy),
        };
        Some(HopRecord { rate, ..units.hop_scale().decode(code) })
    }

    /// Reads a hop's bytes.
    pub(crate) fn parse(bytes: &[u8], asked: Instructions) -> Self {
        let word = |bit| {
            let at = asked.offset(bit)?;
            Some(load::<U32>(bytes, at).get()).filter(|word| *word != u32::MAX)
        };
        let long = |bit| {
            let at = asked.offset(bit)?;
            Some(load::<U64>(bytes, at).get()).filter(|long| *long != u64::MAX)
        };
        let occupancy = |bit| {
            let word = u64::from(word(bit)?);
            let found = Occupancy { id: low8(ID.get(word)), occupancy: low32(OCCUPANCY.get(word)) };
            Some(found).filter(|found| u64::from(found.occupancy) != OCCUPANCY.max())
        };
        Self {
            node_id: word(0),
            ports: word(1).map(split16),
            latency: word(2),
            queue: occupancy(3),
            ingress_at: long(4),
            egress_at: long(5),
            interfaces: long(6).map(split32),
            transmitted: word(7),
            buffer: occupancy(8),
        }
    }

    /// Writes a hop's bytes: what was asked for, and all ones wherever there is nothing to say. The caller counts
    /// the bytes into its checksum.
    pub(crate) fn emit(&self, bytes: &mut [u8], asked: Instructions) {
        bytes.fill(0xff);
        let occupancy = |found: Occupancy| {
            // All ones would mean "not available".
            let units = u64::from(found.occupancy).min(OCCUPANCY.max() - 1);
            U32::new(low32(ID.set(units, u64::from(found.id))))
        };
        let words = [
            (0, self.node_id.map(U32::new)),
            (1, self.ports.map(|ports| U32::new(join16(ports)))),
            (2, self.latency.map(U32::new)),
            (3, self.queue.map(occupancy)),
            (7, self.transmitted.map(U32::new)),
            (8, self.buffer.map(occupancy)),
        ];
        for (bit, word) in words {
            if let (Some(at), Some(word)) = (asked.offset(bit), word) {
                let _ = store(bytes, at, &word);
            }
        }
        let longs = [(4, self.ingress_at), (5, self.egress_at), (6, self.interfaces.map(join32))];
        for (bit, long) in longs {
            if let (Some(at), Some(long)) = (asked.offset(bit), long) {
                let _ = store(bytes, at, &U64::new(long));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_by_instruction() {
        assert_eq!(Instructions(0xff80).words(), 12);
        assert_eq!(Instructions::HPCC.words(), 6);
        assert_eq!(Instructions(0x0001).words(), 1);
        assert_eq!(Instructions(0xffff).words(), 19);
        assert_eq!(Instructions(0xffff).offset(15), Some(18 * 4));
        assert_eq!(Instructions(0x9000).offset(3), Some(4));
        assert_eq!(Instructions(0x9000).offset(2), None);
    }

    #[test]
    fn what_is_not_available_is_all_ones() {
        let mut bytes = [0; 24];
        Hop::default().emit(&mut bytes, Instructions::HPCC);
        assert_eq!(bytes, [0xff; 24]);
        assert_eq!(Hop::parse(&bytes, Instructions::HPCC), Hop::default());
        // An occupancy of all ones is unknown whatever the queue.
        let bytes = [3, 0xff, 0xff, 0xff];
        assert_eq!(Hop::parse(&bytes, Instructions(0x1000)).queue, None);
    }

    proptest! {
        #[test]
        fn any_bitmap_reads_back(asked: u16, node: u32, ports: (u16, u16), latency: u32, at: u64, tx: u32) {
            let hop = Hop {
                node_id: Some(node),
                ports: Some(ports),
                latency: Some(latency),
                queue: Some(Occupancy { id: 7, occupancy: tx >> 9 }),
                ingress_at: Some(at),
                egress_at: Some(!at),
                interfaces: Some((tx, node)),
                transmitted: Some(tx),
                buffer: Some(Occupancy { id: 8, occupancy: node >> 9 }),
            };
            let asked = Instructions(asked);
            let mut bytes = [0; 19 * 4];
            let bytes = &mut bytes[..4 * asked.words()];
            hop.emit(bytes, asked);
            let read = Hop::parse(bytes, asked);
            let mut again = [0; 19 * 4];
            let again = &mut again[..4 * asked.words()];
            read.emit(again, asked);
            prop_assert_eq!(bytes, again);
            prop_assert_eq!(read.node_id, hop.node_id.filter(|id| asked.has(0) && *id != u32::MAX));
            prop_assert_eq!(read.egress_at, hop.egress_at.filter(|at| asked.has(5) && *at != u64::MAX));
        }
    }
}
