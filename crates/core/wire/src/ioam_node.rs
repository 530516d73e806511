//! Per-node data in an IOAM trace: the trace-type bits and the fields that they request.
//!
//! ```text
//! bit  bytes  content                            bit  bytes  content
//!  0    4     hop limit:8, node id:24             7    4     checksum complement
//!  1    4     ingress:16, egress:16               8    8     hop limit:8, node id:56
//!  2    4     timestamp, seconds                  9    8     ingress:32, egress:32
//!  3    4     timestamp, fraction                10    8     namespace data
//!  4    4     transit delay, ns                  11    4     buffer occupancy
//!  5    4     namespace data                     12-21 4     undefined: all ones
//!  6    4     queue depth                        22    4 + n opaque snapshot, after the others
//! ```
//!
//! Source: RFC 9197 section 4.4.2. The fields for bits 12 to 21 are set to all ones, which is the first of the two
//! options in section 4.4.1. Bit 23 is reserved and ignored.

use crate::bytes::{join16, join32, load, low32, split16, split32, store};
use crate::quantiser::LinearScale;
use zerocopy::big_endian::{U32, U64};

/// The transit delay scale: nanoseconds in 31 bits. `0x80000000` means "this delay or more".
pub const TRANSIT_DELAY: LinearScale = LinearScale::new(0, 32).with_max_code(0x8000_0000);
/// An opaque snapshot with no data and no schema.
pub(crate) const OPAQUE_ABSENT: u32 = 0x00ff_ffff;

/// A 24-bit bitmap of the fields that each node writes. Bit 0 is the most significant bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TraceType(u32);

impl TraceType {
    /// Creates a trace type from the low 24 bits of `bits`.
    pub const fn new(bits: u32) -> Self {
        Self(bits & 0xff_ffff)
    }

    /// Returns the 24-bit bitmap.
    pub const fn bits(self) -> u32 {
        self.0
    }

    const fn has(self, bit: u32) -> bool {
        self.0 & (0x80_0000 >> bit) != 0
    }

    /// Returns whether an opaque snapshot follows the fixed fields.
    pub const fn has_opaque(self) -> bool {
        self.has(22)
    }

    /// Returns NodeLen, the total size of the fixed fields in words.
    pub const fn words(self) -> usize {
        // Bits 0 to 21 request fixed fields. The fields for bits 8, 9 and 10 are 8 bytes long.
        ((self.0 & 0xff_fffc).count_ones() + (self.0 & 0x00_e000).count_ones()) as usize
    }

    /// Returns the offset of the field for `bit`, or `None` if the bit is not set.
    const fn offset(self, bit: u32) -> Option<usize> {
        if !self.has(bit) {
            return None;
        }
        let before = !(0xff_ffff >> bit) & 0xff_ffff;
        Some(4 * Self(self.0 & before).words())
    }
}

/// One node's fields. A field is `None` if it was not requested or is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Node {
    /// The packet's hop limit at this node, or zero if it was not requested.
    pub hop_limit: u8,
    /// The 24-bit node ID.
    pub node_id: Option<u32>,
    /// The ingress and egress interfaces, 16 bits each.
    pub ports: Option<(u16, u16)>,
    /// The seconds part of the timestamp.
    pub seconds: Option<u32>,
    /// The fractional part of the timestamp. The unit depends on the timestamp format.
    pub fraction: Option<u32>,
    /// The time that the packet spent in the node, encoded with [`TRANSIT_DELAY`].
    pub transit_delay: Option<u32>,
    /// The 32-bit namespace-specific data.
    pub namespace_data: Option<u32>,
    /// The egress queue depth. Linux reports bytes; on other devices, the unit is device-specific.
    pub queue_depth: Option<u32>,
    /// The 56-bit node ID.
    pub node_id_wide: Option<u64>,
    /// The ingress and egress interfaces, 32 bits each.
    pub interfaces: Option<(u32, u32)>,
    /// The 64-bit namespace-specific data.
    pub namespace_data_wide: Option<u64>,
    /// The shared-buffer occupancy, in device-specific units.
    pub buffer_occupancy: Option<u32>,
}

const ID24: u32 = 0x00ff_ffff;
const ID56: u64 = 0x00ff_ffff_ffff_ffff;

impl Node {
    /// Parses a node's fixed fields.
    pub(crate) fn parse(bytes: &[u8], trace_type: TraceType) -> Self {
        let raw = |bit| trace_type.offset(bit).map(|offset| load::<U32>(bytes, offset).get());
        let raw_wide = |bit| trace_type.offset(bit).map(|offset| load::<U64>(bytes, offset).get());
        let word = |bit| raw(bit).filter(|word| *word != u32::MAX);
        let wide = |bit| raw_wide(bit).filter(|wide| *wide != u64::MAX);
        let hop_limit = raw(0)
            .map(|word| word.to_be_bytes()[0])
            .or_else(|| raw_wide(8).map(|wide| wide.to_be_bytes()[0]));
        Self {
            hop_limit: hop_limit.unwrap_or(0),
            node_id: raw(0).map(|word| word & ID24).filter(|id| *id != ID24),
            ports: word(1).map(split16),
            seconds: word(2),
            fraction: word(3),
            transit_delay: word(4),
            namespace_data: word(5),
            queue_depth: word(6),
            node_id_wide: raw_wide(8).map(|wide| wide & ID56).filter(|id| *id != ID56),
            interfaces: wide(9).map(split32),
            namespace_data_wide: wide(10),
            buffer_occupancy: word(11),
        }
    }

    /// Writes a node's fixed fields. Unavailable fields are set to all ones. No checksum covers the option.
    pub(crate) fn emit(&self, bytes: &mut [u8], trace_type: TraceType) {
        bytes.fill(0xff);
        let hop_limit = u64::from(self.hop_limit);
        let id = low32(hop_limit << 24) | self.node_id.map_or(ID24, |id| id & ID24);
        let ports = self.ports.map(join16);
        let words = [
            (0, Some(id)),
            (1, ports),
            (2, self.seconds),
            (3, self.fraction),
            (4, self.transit_delay),
            (5, self.namespace_data),
            (6, self.queue_depth),
            (11, self.buffer_occupancy),
        ];
        for (bit, word) in words {
            if let (Some(offset), Some(word)) = (trace_type.offset(bit), word) {
                let _ = store(bytes, offset, &U32::new(word));
            }
        }
        let id = (hop_limit << 56) | self.node_id_wide.map_or(ID56, |id| id & ID56);
        let interfaces = self.interfaces.map(join32);
        let wides = [(8, Some(id)), (9, interfaces), (10, self.namespace_data_wide)];
        for (bit, wide) in wides {
            if let (Some(offset), Some(wide)) = (trace_type.offset(bit), wide) {
                let _ = store(bytes, offset, &U64::new(wide));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantiser::Scale;
    use crate::testing::hex;
    use proptest::prelude::*;

    #[test]
    fn trace_type_determines_the_number_of_words() {
        assert_eq!(TraceType::new(0xca_1000).words(), 5);
        assert_eq!(TraceType::new(0xff_ffff).words(), 25);
        assert_eq!(TraceType::new(0x00_0003).words(), 0);
        assert_eq!(TraceType::new(0xca_1000).offset(11), Some(16));
        assert_eq!(TraceType::new(0xff_ffff).offset(11), Some(4 * 14));
    }

    #[test]
    fn transit_delay_saturates_at_its_top_bit() {
        assert_eq!(TRANSIT_DELAY.encode(700), 700);
        assert_eq!(TRANSIT_DELAY.encode((1 << 31) - 1), 0x7fff_ffff);
        assert_eq!(TRANSIT_DELAY.encode(1 << 40), 0x8000_0000);
    }

    proptest! {
        #[test]
        fn any_trace_type_parses_to_the_emitted_fields(bits in 0_u32..1 << 24, a: u32, b: u64, c: u16, hop_limit: u8) {
            let node = Node {
                hop_limit,
                node_id: Some(a & ID24),
                ports: Some((c, !c)),
                seconds: Some(a),
                fraction: Some(!a),
                transit_delay: Some(a >> 1),
                namespace_data: None,
                queue_depth: Some(a >> 3),
                node_id_wide: Some(b & ID56),
                interfaces: Some((a, !a)),
                namespace_data_wide: Some(b),
                buffer_occupancy: None,
            };
            let trace_type = TraceType::new(bits);
            let mut bytes = [0; 25 * 4];
            let bytes = &mut bytes[..4 * trace_type.words()];
            node.emit(bytes, trace_type);
            let read = Node::parse(bytes, trace_type);
            let mut emitted = [0; 25 * 4];
            let emitted = &mut emitted[..4 * trace_type.words()];
            read.emit(emitted, trace_type);
            prop_assert_eq!(bytes, emitted);
            prop_assert_eq!(read.queue_depth, node.queue_depth.filter(|_| trace_type.has(6)));
        }
    }

    /// Gives every field a distinct value and checks that its position matches its trace-type bit.
    #[test]
    fn every_field_has_the_position_of_its_bit() {
        let node = Node {
            hop_limit: 0x11,
            node_id: Some(0x12_1314),
            ports: Some((0x2122, 0x2324)),
            seconds: Some(0x3132_3334),
            fraction: Some(0x4142_4344),
            transit_delay: Some(0x5152_5354),
            namespace_data: Some(0x6162_6364),
            queue_depth: Some(0x7172_7374),
            node_id_wide: Some(0x92_9394_9596_9798),
            interfaces: Some((0xa1a2_a3a4, 0xa5a6_a7a8)),
            namespace_data_wide: Some(0xb1b2_b3b4_b5b6_b7b8),
            buffer_occupancy: Some(0xc1c2_c3c4),
        };
        let golden = hex("11121314 21222324 31323334 41424344 51525354 61626364 71727374 ffffffff
             1192939495969798 a1a2a3a4a5a6a7a8 b1b2b3b4b5b6b7b8 c1c2c3c4");
        let all = TraceType::new(0xff_f000);
        assert_eq!((4 * all.words(), golden.len()), (60, 60));
        let mut bytes = [0; 60];
        node.emit(&mut bytes, all);
        assert_eq!(bytes[..], golden[..]);
        assert_eq!(Node::parse(&golden, all), node);
    }
}
