//! HPCC's 64-bit hop record, in the paper's layout and in the artifact's.
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
//! Differences of the counters are modular ([`Codec::wrap`]); samples older than half the smaller wrap are
//! ambiguous, and it is the caller who knows their age.
//!
//! Source: HPCC (SIGCOMM'19) figure 7; `int-header.h` of the public ns-3 artifact.
//! Differs: the queue saturates where the artifact truncates it.

use crate::bytes::{Field, low8};
use crate::error::{Error, Result};
use crate::quantiser::{HopCode, HopScale, TimeUnit};
use poseidon_types::{BitRate, HopRecord, Wrap};
use zerocopy::big_endian::U64;

/// Bytes of one hop.
pub const HOP_BYTES: usize = 8;

/// Line rates by code. A rate that is not here cannot be carried: [`Error::UnknownRate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateTable([BitRate; 16]);

impl RateTable {
    /// The ns-3 artifact's codes 0 to 4, and code 7 (40 Gbps) of PowerTCP's fork of it.
    pub const PUBLISHED: Self = Self::from_gbps([25, 50, 100, 200, 400, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0, 0]);

    /// A table in Gbps; zero marks an unused code.
    pub const fn from_gbps(gbps: [u16; 16]) -> Self {
        let mut rates = [BitRate::ZERO; 16];
        let mut code = 0;
        while code < 16 {
            // A widening cast in a const fn, where `From` is not available.
            rates[code] = BitRate::from_gbps(gbps[code] as u64);
            code += 1;
        }
        Self(rates)
    }

    /// A table of any rates; zero marks an unused code.
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

/// Which of the two published layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Figure 7 of the paper.
    Paper,
    /// The ns-3 artifact.
    Ns3,
}

struct Fields {
    rate: Field,
    at: Field,
    sent: Field,
    queue: Field,
}

impl Layout {
    const fn fields(self) -> Fields {
        match self {
            Self::Paper => Fields {
                rate: Field::new(60, 4),
                at: Field::new(36, 24),
                sent: Field::new(16, 20),
                queue: Field::new(0, 16),
            },
            Self::Ns3 => Fields {
                rate: Field::new(0, 3),
                at: Field::new(3, 24),
                sent: Field::new(27, 20),
                queue: Field::new(47, 17),
            },
        }
    }
}

/// Hop records to words and back: the quantiser of every format made of these words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codec {
    /// The layout of a word.
    pub layout: Layout,
    /// The line rates.
    pub rates: RateTable,
    /// The artifact's `multi`: both byte units are multiplied by it. Zero counts as one.
    pub multi: u16,
}

impl Codec {
    /// A layout with the published rates and units.
    pub const fn new(layout: Layout) -> Self {
        Self { layout, rates: RateTable::PUBLISHED, multi: 1 }
    }

    /// The widths and units of the counters.
    pub fn scale(&self) -> HopScale {
        let multi = u32::from(self.multi.max(1));
        HopScale {
            at_unit: TimeUnit::NANO,
            at_bits: 24,
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

    /// The word of a record.
    pub fn encode(&self, record: &HopRecord) -> Result<u64> {
        let fields = self.layout.fields();
        let code = self.scale().encode(record);
        let rate = self.rates.code(record.rate, fields.rate.max())?;
        let word = fields.rate.set(0, rate);
        let word = fields.at.set(word, code.at);
        let word = fields.sent.set(word, code.sent);
        Ok(fields.queue.set(word, code.queue))
    }

    /// The record of a word.
    pub fn decode(&self, word: u64) -> Result<HopRecord> {
        let fields = self.layout.fields();
        let code =
            HopCode { at: fields.at.get(word), sent: fields.sent.get(word), queue: fields.queue.get(word) };
        Ok(HopRecord { rate: self.rates.rate(low8(fields.rate.get(word)))?, ..self.scale().decode(code) })
    }

    /// What a receiver reads where the hop measured `exact`.
    pub fn carry(&self, exact: &HopRecord) -> Result<HopRecord> {
        self.rates.code(exact.rate, self.layout.fields().rate.max())?;
        Ok(self.scale().carry(exact))
    }

    /// Where the counters wrap.
    pub fn wrap(&self) -> Wrap {
        self.scale().wrap()
    }
}

/// `nHop:4 | pathID:12`, which stands before the words in HPCC and PowerTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) hops: u8,
    pub(crate) path_id: u16,
}

impl Base {
    pub(crate) const BYTES: usize = 2;

    pub(crate) const fn parse(word: u16) -> Self {
        Self { hops: (word >> 12) as u8, path_id: word & 0x0fff }
    }

    pub(crate) fn word(self) -> u16 {
        (u16::from(self.hops & 0x0f) << 12) | (self.path_id & 0x0fff)
    }

    /// After one more switch: the path id is the exclusive or of the switches' ids.
    pub(crate) const fn after(self, switch_id: u16) -> Self {
        Self { hops: self.hops.saturating_add(1), path_id: (self.path_id ^ switch_id) & 0x0fff }
    }
}

/// The big-endian word at hop `index` of a stack that begins at byte `at`.
pub(crate) fn word_at(bytes: &[u8], at: usize, index: usize) -> u64 {
    crate::bytes::load::<U64>(bytes, at + index * HOP_BYTES).get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::{Bytes, Nanos};

    /// Code 2, 0x123456 ns, 0xabcde units sent, and a queue of its own for each width; bytes as gcc made them.
    fn record(queue_units: u64) -> HopRecord {
        HopRecord {
            at: Nanos::new(0x12_3456),
            sent: Bytes::new(0xa_bcde * 128),
            queue: Bytes::new(queue_units * 80),
            rate: BitRate::from_gbps(100),
        }
    }

    #[test]
    fn golden_words() {
        let paper = Codec::new(Layout::Paper);
        let word = paper.encode(&record(0xf0f0)).expect("known rate");
        assert_eq!(word.to_be_bytes(), [0x21, 0x23, 0x45, 0x6a, 0xbc, 0xde, 0xf0, 0xf0]);
        assert_eq!(paper.decode(word), Ok(record(0xf0f0)));
        let ns3 = Codec::new(Layout::Ns3);
        let word = ns3.encode(&record(0x1_f0f0)).expect("known rate");
        assert_eq!(word.to_le_bytes(), [0xb2, 0xa2, 0x91, 0xf0, 0xe6, 0x55, 0x78, 0xf8]);
        assert_eq!(ns3.decode(word), Ok(record(0x1_f0f0)));
    }

    #[test]
    fn unknown_rates_are_not_guessed() {
        let codec = Codec::new(Layout::Paper);
        let slow = HopRecord { rate: BitRate::from_gbps(10), ..record(0) };
        let unknown = Err(Error::UnknownRate { bps: 10_000_000_000 });
        assert_eq!(codec.encode(&slow), unknown);
        assert!(codec.carry(&slow).is_err() && codec.carry(&HopRecord::default()).is_err());
        assert_eq!(codec.decode(5 << 60), Err(Error::UnknownRateCode { code: 5 }));
        // A code of four bits does not fit the artifact's three.
        let mut gbps = [0; 16];
        gbps[9] = 800;
        let rates = RateTable::from_gbps(gbps);
        let fast = HopRecord { rate: BitRate::from_gbps(800), ..record(0) };
        let with = |layout| Codec { rates, ..Codec::new(layout) };
        assert!(with(Layout::Paper).encode(&fast).is_ok());
        assert!(with(Layout::Ns3).encode(&fast).is_err());
        assert!(with(Layout::Ns3).carry(&fast).is_err());
    }

    #[test]
    fn multi_widens_both_units() {
        let codec = Codec { multi: 4, ..Codec::new(Layout::Paper) };
        assert_eq!(codec.wrap().sent, Bytes::new(4 << 27));
        let read = codec.carry(&record(1_000)).expect("known rate");
        assert_eq!(read.queue, Bytes::new(80_000));
        assert_eq!(read.sent.get() % 512, 0);
    }
}
