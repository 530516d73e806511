//! HPCC's 64-bit hop record, in both the paper's layout and the ns-3 artifact's layout.
//!
//! ```text
//! paper, big-endian       : B:4 | TS:24 | txBytes:20 | qLen:16       from the most significant bit
//! ns-3, little-endian     : lineRate:3 | time:24 | bytes:20 | qlen:17 from the least significant bit
//!
//! TS       1 ns            wraps after 16.777 ms
//! txBytes  128 B x multi   wraps after 134.2 MB: 10.7 ms at 100 Gbps, 2.68 ms at 400 Gbps
//! qLen     80 B x multi    one memory cell; 5.24 MB in 16 bits, 10.49 MB in 17
//! ```
//!
//! The timestamp and the byte counter wrap, so compute differences modulo [`Codec::wrap`]. The caller must discard
//! samples older than half the smaller modulus, because their differences are ambiguous.
//!
//! Source: HPCC (SIGCOMM'19) figure 7; `int-header.h` of the public ns-3 artifact.
//! Difference: the queue length saturates here, whereas the artifact truncates it.

use crate::bytes::{Field, low8};
use crate::error::{Error, Result};
use crate::quantiser::{HopCode, HopScale, TimeUnit};
use poseidon_types::{BitRate, CounterWrap, HopRecord};
use zerocopy::big_endian::U64;

/// The size of one hop record, in bytes.
pub const HOP_BYTES: usize = 8;

/// Maps rate codes to line rates. Encoding a rate that is not in the table returns [`Error::UnknownRate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateTable([BitRate; 16]);

impl RateTable {
    /// Codes 0 to 4 from the ns-3 artifact, and code 7 (40 Gbps) from PowerTCP's fork.
    pub const PUBLISHED: Self = Self::from_gbps([25, 50, 100, 200, 400, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0, 0]);

    /// Creates a table from rates in Gbps. Zero marks an unused code.
    pub const fn from_gbps(gbps: [u16; 16]) -> Self {
        let mut rates = [BitRate::ZERO; 16];
        let mut code = 0;
        while code < 16 {
            // `From` cannot be called in a const fn.
            rates[code] = BitRate::from_gbps(gbps[code] as u64);
            code += 1;
        }
        Self(rates)
    }

    /// Creates a table from arbitrary rates. Zero marks an unused code.
    pub const fn new(rates: [BitRate; 16]) -> Self {
        Self(rates)
    }

    fn code(&self, rate: BitRate, max: u64) -> Result<u64> {
        (0..=max)
            .zip(self.0)
            .find(|(_, entry)| *entry == rate && !rate.is_zero())
            .map(|(code, _)| code)
            .ok_or_else(|| Error::UnknownRate { bps: rate.get() })
    }

    fn rate(&self, code: u8) -> Result<BitRate> {
        self.0
            .get(usize::from(code))
            .copied()
            .filter(|rate| !rate.is_zero())
            .ok_or(Error::UnknownRateCode { code })
    }
}

/// The published hop-record layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The layout in figure 7 of the paper.
    Paper,
    /// The ns-3 artifact's layout.
    Ns3,
}

struct Fields {
    rate: Field,
    timestamp: Field,
    sent: Field,
    queue: Field,
}

impl Layout {
    const fn fields(self) -> Fields {
        match self {
            Self::Paper => Fields {
                rate: Field::new(60, 4),
                timestamp: Field::new(36, 24),
                sent: Field::new(16, 20),
                queue: Field::new(0, 16),
            },
            Self::Ns3 => Fields {
                rate: Field::new(0, 3),
                timestamp: Field::new(3, 24),
                sent: Field::new(27, 20),
                queue: Field::new(47, 17),
            },
        }
    }
}

/// Converts between hop records and 64-bit words. Also serves as the quantiser for all formats that use these words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codec {
    /// The word layout.
    pub layout: Layout,
    /// The table that maps rate codes to line rates.
    pub rates: RateTable,
    /// The artifact's `multi` factor, which scales both byte units. Zero is treated as one.
    pub multi: u16,
}

impl Codec {
    /// Creates a codec that uses the published rates and units.
    pub const fn new(layout: Layout) -> Self {
        Self { layout, rates: RateTable::PUBLISHED, multi: 1 }
    }

    /// Returns the field widths and units.
    pub fn scale(&self) -> HopScale {
        let multi = u32::from(self.multi.max(1));
        HopScale {
            timestamp_unit: TimeUnit::NANO,
            timestamp_bits: 24,
            sent_unit: 128 * multi,
            sent_bits: 20,
            queue_unit: 80 * multi,
            queue_bits: match self.layout {
                Layout::Paper => 16,
                Layout::Ns3 => 17,
            },
            all_ones_is_absent: false,
        }
    }

    /// Encodes a record.
    pub fn encode(&self, record: &HopRecord) -> Result<u64> {
        let fields = self.layout.fields();
        let code = self.scale().encode(record);
        let rate = self.rates.code(record.rate, fields.rate.max())?;
        let word = fields.rate.set(0, rate);
        let word = fields.timestamp.set(word, code.timestamp);
        let word = fields.sent.set(word, code.sent);
        Ok(fields.queue.set(word, code.queue))
    }

    /// Decodes a word.
    pub fn decode(&self, word: u64) -> Result<HopRecord> {
        let fields = self.layout.fields();
        let code = HopCode {
            timestamp: fields.timestamp.get(word),
            sent: fields.sent.get(word),
            queue: fields.queue.get(word),
        };
        Ok(HopRecord { rate: self.rates.rate(low8(fields.rate.get(word)))?, ..self.scale().decode(code) })
    }

    /// Returns the record that the receiver decodes if the hop measured `exact`.
    pub fn quantise(&self, exact: &HopRecord) -> Result<HopRecord> {
        self.rates.code(exact.rate, self.layout.fields().rate.max())?;
        Ok(self.scale().quantise(exact))
    }

    /// Returns the values at which the counters wrap.
    pub fn wrap(&self) -> CounterWrap {
        self.scale().wrap()
    }
}

/// The `nHop:4 | pathID:12` header that precedes the words in HPCC and PowerTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StackHeader {
    pub(crate) hops: u8,
    pub(crate) path_id: u16,
}

impl StackHeader {
    pub(crate) const BYTES: usize = 2;

    pub(crate) const fn parse(word: u16) -> Self {
        Self { hops: (word >> 12) as u8, path_id: word & 0x0fff }
    }

    pub(crate) fn word(self) -> u16 {
        (u16::from(self.hops & 0x0f) << 12) | (self.path_id & 0x0fff)
    }

    /// Returns the header after the packet passes one more switch. The path ID is the XOR of all switch IDs.
    pub(crate) const fn after_switch(self, switch_id: u16) -> Self {
        Self { hops: self.hops.saturating_add(1), path_id: (self.path_id ^ switch_id) & 0x0fff }
    }
}

/// Reads hop `index`'s big-endian word from a stack that starts at byte `offset`.
pub(crate) fn load_word(bytes: &[u8], offset: usize, index: usize) -> u64 {
    crate::bytes::load::<U64>(bytes, offset + index * HOP_BYTES).get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::{Bytes, Nanos};

    /// The record behind the golden words: rate code 2, 0x123456 ns, 0xabcde units sent. A C program generated the
    /// words.
    fn record(queue_units: u64) -> HopRecord {
        HopRecord {
            timestamp: Nanos::new(0x12_3456),
            sent: Bytes::new(0xa_bcde * 128),
            queue: Bytes::new(queue_units * 80),
            rate: BitRate::from_gbps(100),
        }
    }

    #[test]
    fn words_match_the_golden_vectors() {
        let paper = Codec::new(Layout::Paper);
        let word = paper.encode(&record(0xf0f0)).expect("the rate is in the table");
        assert_eq!(word.to_be_bytes(), [0x21, 0x23, 0x45, 0x6a, 0xbc, 0xde, 0xf0, 0xf0]);
        assert_eq!(paper.decode(word), Ok(record(0xf0f0)));
        let ns3 = Codec::new(Layout::Ns3);
        let word = ns3.encode(&record(0x1_f0f0)).expect("the rate is in the table");
        assert_eq!(word.to_le_bytes(), [0xb2, 0xa2, 0x91, 0xf0, 0xe6, 0x55, 0x78, 0xf8]);
        assert_eq!(ns3.decode(word), Ok(record(0x1_f0f0)));
    }

    #[test]
    fn unknown_rates_are_errors() {
        let codec = Codec::new(Layout::Paper);
        let slow = HopRecord { rate: BitRate::from_gbps(10), ..record(0) };
        let unknown = Err(Error::UnknownRate { bps: 10_000_000_000 });
        assert_eq!(codec.encode(&slow), unknown);
        assert!(codec.quantise(&slow).is_err() && codec.quantise(&HopRecord::default()).is_err());
        assert_eq!(codec.decode(5 << 60), Err(Error::UnknownRateCode { code: 5 }));
        // A four-bit code does not fit in the artifact's three-bit field.
        let mut gbps = [0; 16];
        gbps[9] = 800;
        let rates = RateTable::from_gbps(gbps);
        let fast = HopRecord { rate: BitRate::from_gbps(800), ..record(0) };
        let codec_for = |layout| Codec { rates, ..Codec::new(layout) };
        assert!(codec_for(Layout::Paper).encode(&fast).is_ok());
        assert!(codec_for(Layout::Ns3).encode(&fast).is_err());
        assert!(codec_for(Layout::Ns3).quantise(&fast).is_err());
    }

    #[test]
    fn multi_scales_both_byte_units() {
        let codec = Codec { multi: 4, ..Codec::new(Layout::Paper) };
        assert_eq!(codec.wrap().sent, Bytes::new(4 << 27));
        let read = codec.quantise(&record(1_000)).expect("the rate is in the table");
        assert_eq!(read.queue, Bytes::new(80_000));
        assert_eq!(read.sent.get() % 512, 0);
    }
}
