//! Per-hop metadata in P4-INT: the instruction bits, the fields that they request, and the field units.
//!
//! ```text
//! bit  mask  bytes  content                        bit  mask  bytes  content
//!  0   8000   4     node id                         6   0200   8     L2 ingress:32, egress:32
//!  1   4000   4     L1 ingress:16, egress:16        7   0100   4     egress transmit utilisation
//!  2   2000   4     hop latency                     8   0080   4     buffer id:8, occupancy:24
//!  3   1000   4     queue id:8, occupancy:24        9-14       4     reserved: all ones
//!  4   0800   8     ingress timestamp              15   0001   4     checksum complement, last of the hop
//!  5   0400   8     egress timestamp                    domain-specific words: before the complement
//! ```
//!
//! Source: P4.org INT dataplane specification v2.1, "INT-MD metadata header format".

use crate::bytes::{Field, join16, join32, load, low8, low32, split16, split32, store};
use crate::quantiser::{HopCode, HopScale, TickScale, TimeUnit};
use poseidon_types::{BitRate, HopRecord, Nanos};
use zerocopy::big_endian::{U32, U64};

/// The instruction bitmap. Bit 0 is the most significant bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Instructions(pub u16);

impl Instructions {
    /// The HPCC++ instructions: node ID, ports, queue occupancy, egress timestamp and transmit utilisation.
    pub const HPCC: Self = Self(0xd500);
    /// The instructions for measuring the maximum hop delay: node ID and hop latency.
    pub const LATENCY: Self = Self(0xa000);

    /// Returns whether instruction `bit` is set.
    const fn has(self, bit: u16) -> bool {
        self.0 & (0x8000 >> bit) != 0
    }

    /// Returns the number of words requested by the instructions.
    pub const fn words(self) -> usize {
        // Three of the instructions request 8 bytes each.
        (self.0.count_ones() + (self.0 & 0x0e00).count_ones()) as usize
    }

    /// Returns the offset of the metadata for instruction `bit`, or `None` if the bit is not set.
    const fn offset(self, bit: u16) -> Option<usize> {
        if !self.has(bit) {
            return None;
        }
        let before = match 0xffff_u16.checked_shr(bit as u32) {
            Some(mask) => !mask,
            None => 0xffff,
        };
        Some(4 * Self(self.0 & before).words())
    }
}

/// The measurement units of a device. Headers do not carry these units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// The tick duration of the hop latency field.
    pub latency: TimeUnit,
    /// The tick duration of the timestamps.
    pub timestamp: TimeUnit,
    /// The queue occupancy unit in bytes: either 1 or the device's cell size.
    pub queue_bytes: u32,
    /// The unit of the transmit field in bytes, for devices that report a byte counter in this field.
    pub transmitted_bytes: u32,
}

impl Units {
    /// Times in nanoseconds and sizes in bytes.
    pub const NANOS_AND_BYTES: Self =
        Self { latency: TimeUnit::NANO, timestamp: TimeUnit::NANO, queue_bytes: 1, transmitted_bytes: 1 };

    /// Returns the scale of the hop latency field.
    pub const fn latency_scale(&self) -> TickScale {
        TickScale { unit: self.latency, max_code: u32::MAX - 1 }
    }

    /// Returns the scale of the hop record fields.
    pub const fn hop_scale(&self) -> HopScale {
        HopScale {
            timestamp_unit: self.timestamp,
            timestamp_bits: 64,
            sent_unit: self.transmitted_bytes,
            sent_bits: 32,
            queue_unit: self.queue_bytes,
            queue_bits: 24,
            all_ones_is_absent: true,
        }
    }
}

/// The occupancy of a queue or buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Occupancy {
    /// The queue or buffer ID.
    pub id: u8,
    /// The 24-bit occupancy, in device units.
    pub occupancy: u32,
}

const OCCUPANCY: Field = Field::new(0, 24);
const ID: Field = Field::new(24, 8);

/// One hop's metadata. A field is `None` if it was not requested or is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Hop {
    /// The node ID.
    pub node_id: Option<u32>,
    /// The ingress and egress ports.
    pub ports: Option<(u16, u16)>,
    /// The time that the packet spent in the node, in ticks.
    pub latency: Option<u32>,
    /// The egress queue occupancy.
    pub queue: Option<Occupancy>,
    /// The ingress timestamp in ticks.
    pub ingress_timestamp: Option<u64>,
    /// The egress timestamp in ticks.
    pub egress_timestamp: Option<u64>,
    /// The logical ingress and egress interfaces.
    pub interfaces: Option<(u32, u32)>,
    /// The transmit utilisation or byte counter.
    pub transmitted: Option<u32>,
    /// The buffer occupancy.
    pub buffer: Option<Occupancy>,
}

impl Hop {
    /// Creates the metadata for a hop that measured `delay` and `record`.
    pub fn from_measurement(node_id: u32, delay: Nanos, record: &HopRecord, units: &Units) -> Self {
        use crate::quantiser::Scale;
        let code = units.hop_scale().encode(record);
        Self {
            node_id: Some(node_id),
            latency: Some(units.latency_scale().encode_delay(delay)),
            queue: Some(Occupancy { id: 0, occupancy: low32(code.queue) }),
            egress_timestamp: Some(code.timestamp),
            transmitted: Some(low32(code.sent)),
            ..Self::default()
        }
    }

    /// Returns the hop record for a port with this rate. Returns `None` unless the hop reported the queue occupancy,
    /// the egress timestamp and the byte counter.
    pub fn record(&self, units: &Units, rate: BitRate) -> Option<HopRecord> {
        let code = HopCode {
            timestamp: self.egress_timestamp?,
            sent: u64::from(self.transmitted?),
            queue: u64::from(self.queue?.occupancy),
        };
        Some(HopRecord { rate, ..units.hop_scale().decode(code) })
    }

    /// Parses one hop's metadata.
    pub(crate) fn parse(bytes: &[u8], instructions: Instructions) -> Self {
        let word = |bit| {
            let offset = instructions.offset(bit)?;
            Some(load::<U32>(bytes, offset).get()).filter(|word| *word != u32::MAX)
        };
        let wide = |bit| {
            let offset = instructions.offset(bit)?;
            Some(load::<U64>(bytes, offset).get()).filter(|wide| *wide != u64::MAX)
        };
        let occupancy = |bit| {
            let word = u64::from(word(bit)?);
            let occupancy = Occupancy { id: low8(ID.get(word)), occupancy: low32(OCCUPANCY.get(word)) };
            Some(occupancy).filter(|found| u64::from(found.occupancy) != OCCUPANCY.max())
        };
        Self {
            node_id: word(0),
            ports: word(1).map(split16),
            latency: word(2),
            queue: occupancy(3),
            ingress_timestamp: wide(4),
            egress_timestamp: wide(5),
            interfaces: wide(6).map(split32),
            transmitted: word(7),
            buffer: occupancy(8),
        }
    }

    /// Writes the requested metadata. Unavailable fields are set to all ones. The caller must update the checksum.
    pub(crate) fn emit(&self, bytes: &mut [u8], instructions: Instructions) {
        bytes.fill(0xff);
        let occupancy = |found: Occupancy| {
            // All ones means "not available", so the largest valid occupancy is one less.
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
            if let (Some(offset), Some(word)) = (instructions.offset(bit), word) {
                let _ = store(bytes, offset, &word);
            }
        }
        let wides =
            [(4, self.ingress_timestamp), (5, self.egress_timestamp), (6, self.interfaces.map(join32))];
        for (bit, wide) in wides {
            if let (Some(offset), Some(wide)) = (instructions.offset(bit), wide) {
                let _ = store(bytes, offset, &U64::new(wide));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bitmap_determines_the_number_of_words() {
        assert_eq!(Instructions(0xff80).words(), 12);
        assert_eq!(Instructions::HPCC.words(), 6);
        assert_eq!(Instructions(0x0001).words(), 1);
        assert_eq!(Instructions(0xffff).words(), 19);
        assert_eq!(Instructions(0xffff).offset(15), Some(18 * 4));
        assert_eq!(Instructions(0x9000).offset(3), Some(4));
        assert_eq!(Instructions(0x9000).offset(2), None);
    }

    #[test]
    fn unavailable_fields_are_all_ones() {
        let mut bytes = [0; 24];
        Hop::default().emit(&mut bytes, Instructions::HPCC);
        assert_eq!(bytes, [0xff; 24]);
        assert_eq!(Hop::parse(&bytes, Instructions::HPCC), Hop::default());
        // An occupancy of all ones means "unknown", whatever the queue ID is.
        let bytes = [3, 0xff, 0xff, 0xff];
        assert_eq!(Hop::parse(&bytes, Instructions(0x1000)).queue, None);
    }

    proptest! {
        #[test]
        fn any_bitmap_parses_to_the_emitted_metadata(
            bitmap: u16, node: u32, ports: (u16, u16), latency: u32, timestamp: u64, tx: u32,
        ) {
            let hop = Hop {
                node_id: Some(node),
                ports: Some(ports),
                latency: Some(latency),
                queue: Some(Occupancy { id: 7, occupancy: tx >> 9 }),
                ingress_timestamp: Some(timestamp),
                egress_timestamp: Some(!timestamp),
                interfaces: Some((tx, node)),
                transmitted: Some(tx),
                buffer: Some(Occupancy { id: 8, occupancy: node >> 9 }),
            };
            let instructions = Instructions(bitmap);
            let mut bytes = [0; 19 * 4];
            let bytes = &mut bytes[..4 * instructions.words()];
            hop.emit(bytes, instructions);
            let read = Hop::parse(bytes, instructions);
            let mut emitted = [0; 19 * 4];
            let emitted = &mut emitted[..4 * instructions.words()];
            read.emit(emitted, instructions);
            prop_assert_eq!(bytes, emitted);
            prop_assert_eq!(read.node_id, hop.node_id.filter(|id| instructions.has(0) && *id != u32::MAX));
            let is_emitted = |time: &u64| instructions.has(5) && *time != u64::MAX;
            prop_assert_eq!(read.egress_timestamp, hop.egress_timestamp.filter(is_emitted));
        }
    }
}
