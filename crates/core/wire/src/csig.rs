//! CSIG: one congestion signal per packet, in a tag between the MAC addresses and the EtherType.
//!
//! ```text
//! compact, draft (4 B) : TPID:16 | T:3 | R:1 | S:5 | LM:7
//! compact, UEC   (4 B) : TPID:16 | T:3 | R:1 | S:5 | LM:6 | D:1
//! expanded, draft (8 B): TPID:16 | LM:16 | T:4 | S:20 | R:8
//! wide, UEC      (8 B) : TPID:16 | LM:15 | D:1 | T:4 | S:20 | R:8
//! T signal type   S quantised signal   LM locator of the hop that set S   D trimmed: do not update   R reserved
//! ```
//!
//! Each hop compares its own value with S and replaces S if the hop is a tighter bottleneck. The operator configures
//! one quantisation table for the whole network. The table is increasing, so codes sort in the same order as values.
//! No EtherType has been assigned yet, so the TPID is a parameter. No Internet checksum covers the tag.
//!
//! Source: draft-ravi-ippm-csig-01 (expired 2024); OCP SAI 1.18 CSIG specification with UEC's tag figure.

use crate::bytes::{Field, load, low8, low16, low32, store};
use crate::error::{Error, Result, check_len};
use crate::quantiser::{DelayQuantiser, HopCount, LinearScale, Scale, TableScale};
use poseidon_types::MaxHopDelay;
use zerocopy::big_endian::{U16, U32, U64};

/// The EtherType that other implementations use in their tests. The IEEE has not assigned an EtherType to CSIG.
pub const DEFAULT_TPID: u16 = 0x9900;
/// The per-hop delay scale for wide tags, from the draft's appendix: 20-bit codes in steps of 128 ns.
pub const WIDE_DELAY: LinearScale = LinearScale::new(7, 20);

/// Returns the compact-tag quantiser for a path with `hops` telemetry-capable hops.
pub const fn compact_quantiser(table: TableScale, hops: u8) -> DelayQuantiser<TableScale> {
    DelayQuantiser { scale: table, hops: HopCount::Assumed(hops) }
}

/// Returns the wide-tag quantiser (20-bit codes) for a path with `hops` telemetry-capable hops.
pub const fn wide_quantiser(scale: LinearScale, hops: u8) -> DelayQuantiser<LinearScale> {
    DelayQuantiser { scale, hops: HopCount::Assumed(hops) }
}

/// The published tag layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// The draft's compact tag.
    CompactDraft,
    /// UEC's compact tag.
    CompactUec,
    /// The draft's expanded tag.
    ExpandedDraft,
    /// UEC's wide tag.
    WideUec,
}

/// A layout's bit fields, as positions in the tag when it is read as one big-endian integer.
struct Fields {
    signal: Field,
    code: Field,
    locator: Field,
    trimmed: Option<Field>,
}

impl Layout {
    /// All layouts.
    pub const ALL: [Self; 4] = [Self::CompactDraft, Self::CompactUec, Self::ExpandedDraft, Self::WideUec];

    /// Returns the tag size in bytes.
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::CompactDraft | Self::CompactUec => 4,
            Self::ExpandedDraft | Self::WideUec => 8,
        }
    }

    /// Returns the largest code that fits in the signal field.
    pub const fn max_code(self) -> u32 {
        low32(self.fields().code.max())
    }

    const fn fields(self) -> Fields {
        match self {
            Self::CompactDraft => Fields {
                signal: Field::new(13, 3),
                code: Field::new(7, 5),
                locator: Field::new(0, 7),
                trimmed: None,
            },
            Self::CompactUec => Fields {
                signal: Field::new(13, 3),
                code: Field::new(7, 5),
                locator: Field::new(1, 6),
                trimmed: Some(Field::new(0, 1)),
            },
            Self::ExpandedDraft => Fields {
                signal: Field::new(28, 4),
                code: Field::new(8, 20),
                locator: Field::new(32, 16),
                trimmed: None,
            },
            Self::WideUec => Fields {
                signal: Field::new(28, 4),
                code: Field::new(8, 20),
                locator: Field::new(33, 15),
                trimmed: Some(Field::new(32, 1)),
            },
        }
    }
}

/// The signal type T, which determines the meaning of S and whether larger or smaller values are worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signal {
    /// Available bandwidth. The tag keeps the minimum.
    AvailableBandwidth,
    /// Available bandwidth divided by capacity. The tag keeps the minimum.
    AvailableFraction,
    /// Per-hop delay, which is Poseidon's signal. The tag keeps the maximum.
    HopDelay,
    /// Queue depth divided by port speed, i.e. the queue's drain time (UEC). The tag keeps the maximum.
    QueueDrainTime,
    /// An unknown signal type. Hops leave the tag unchanged.
    Other(u8),
}

impl Signal {
    /// Returns the signal type with this number.
    pub const fn from_number(number: u8) -> Self {
        match number {
            0 => Self::AvailableBandwidth,
            1 => Self::AvailableFraction,
            2 => Self::HopDelay,
            3 => Self::QueueDrainTime,
            other => Self::Other(other),
        }
    }

    /// Returns the signal type's number.
    pub const fn number(self) -> u8 {
        match self {
            Self::AvailableBandwidth => 0,
            Self::AvailableFraction => 1,
            Self::HopDelay => 2,
            Self::QueueDrainTime => 3,
            Self::Other(number) => number,
        }
    }

    /// Returns whether `new` indicates a tighter bottleneck than `old`.
    pub const fn replaces(self, new: u32, old: u32) -> bool {
        match self {
            Self::AvailableBandwidth | Self::AvailableFraction => new < old,
            Self::HopDelay | Self::QueueDrainTime => new > old,
            Self::Other(_) => false,
        }
    }

    /// Returns the sender's initial code, which is the signal's best value.
    pub const fn initial_code(self, layout: Layout) -> u32 {
        match self {
            Self::AvailableBandwidth | Self::AvailableFraction => layout.max_code(),
            Self::HopDelay | Self::QueueDrainTime | Self::Other(_) => 0,
        }
    }
}

/// A view of a buffer that starts with a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
    layout: Layout,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Creates a view. Fails unless the buffer starts with a complete tag whose identifier is `tpid`.
    pub fn new_checked(buffer: T, layout: Layout, tpid: u16) -> Result<Self> {
        check_len(buffer.as_ref(), layout.header_bytes())?;
        let found = load::<U16>(buffer.as_ref(), 0).get();
        if found != tpid {
            return Err(Error::BadIdentifier { expected: tpid, found });
        }
        Ok(Self { buffer, layout })
    }

    fn word(&self) -> u64 {
        let bytes = self.buffer.as_ref();
        match self.layout.header_bytes() {
            4 => u64::from(load::<U32>(bytes, 0).get()),
            _ => load::<U64>(bytes, 0).get(),
        }
    }

    /// Returns the tag protocol identifier.
    pub fn tpid(&self) -> u16 {
        load::<U16>(self.buffer.as_ref(), 0).get()
    }

    /// Returns T, the signal type.
    pub fn signal(&self) -> Signal {
        Signal::from_number(low8(self.layout.fields().signal.get(self.word())))
    }

    /// Returns S, the quantised signal.
    pub fn code(&self) -> u32 {
        low32(self.layout.fields().code.get(self.word()))
    }

    /// Returns LM, the locator of the hop that set S.
    pub fn locator(&self) -> u16 {
        low16(self.layout.fields().locator.get(self.word()))
    }

    /// Returns the D bit, which is set if the packet was trimmed. The draft's layouts have no D bit.
    pub fn is_trimmed(&self) -> bool {
        let word = self.word();
        self.layout.fields().trimmed.is_some_and(|field| field.get(word) == 1)
    }

    /// Returns the underlying buffer.
    pub fn into_inner(self) -> T {
        self.buffer
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Updates the tag at a switch whose signal value is `code`. Returns whether the switch replaced S.
    ///
    /// The tag stays unchanged if the packet was trimmed, if the signal type is unknown, or if the values are equal.
    pub fn update(&mut self, code: u32, locator: u16) -> bool {
        let code = code.min(self.layout.max_code());
        if self.is_trimmed() || !self.signal().replaces(code, self.code()) {
            return false;
        }
        let fields = self.layout.fields();
        let word = fields.code.set(self.word(), u64::from(code));
        self.set_word(fields.locator.set(word, u64::from(locator)));
        true
    }

    /// Sets the D bit at a switch that trims the packet. Does nothing for the draft's layouts, which have no D bit.
    pub fn mark_trimmed(&mut self) {
        if let Some(field) = self.layout.fields().trimmed {
            self.set_word(field.set(self.word(), 1));
        }
    }

    fn set_word(&mut self, word: u64) {
        write_tag(self.buffer.as_mut(), self.layout, word);
    }
}

/// Writes the tag. No Internet checksum covers it.
fn write_tag(buffer: &mut [u8], layout: Layout, word: u64) {
    let _ = match layout.header_bytes() {
        4 => store(buffer, 0, &U32::new(low32(word))),
        _ => store(buffer, 0, &U64::new(word)),
    };
}

/// The parsed tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The tag layout.
    pub layout: Layout,
    /// The tag protocol identifier.
    pub tpid: u16,
    /// T, the signal type.
    pub signal: Signal,
    /// S, the quantised signal.
    pub code: u32,
    /// LM, the locator of the hop that set S.
    pub locator: u16,
    /// The D bit, which is set if the packet was trimmed. The draft's layouts have no D bit.
    pub trimmed: bool,
}

impl Repr {
    /// Creates the tag that a sender writes for `signal`.
    pub const fn new(layout: Layout, tpid: u16, signal: Signal) -> Self {
        Self { layout, tpid, signal, code: signal.initial_code(layout), locator: 0, trimmed: false }
    }

    /// Parses a tag.
    pub fn parse(bytes: &[u8], layout: Layout, tpid: u16) -> Result<Self> {
        let packet = Packet::new_checked(bytes, layout, tpid)?;
        Ok(Self {
            layout,
            tpid,
            signal: packet.signal(),
            code: packet.code(),
            locator: packet.locator(),
            trimmed: packet.is_trimmed(),
        })
    }

    /// Returns the number of bytes written by [`Self::emit`].
    pub const fn buffer_len(&self) -> usize {
        self.layout.header_bytes()
    }

    /// Writes the tag to the start of `buffer`. The code saturates, the signal type and the locator are truncated, and
    /// the reserved bits are set to zero.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        check_len(buffer, self.buffer_len())?;
        let fields = self.layout.fields();
        let tpid = Field::new(if self.buffer_len() == 4 { 16 } else { 48 }, 16);
        let mut word = tpid.set(0, u64::from(self.tpid));
        word = fields.signal.set(word, u64::from(self.signal.number()));
        word = fields.code.set(word, u64::from(self.code.min(self.layout.max_code())));
        word = fields.locator.set(word, u64::from(self.locator));
        if let Some(field) = fields.trimmed {
            word = field.set(word, u64::from(self.trimmed));
        }
        write_tag(buffer, self.layout, word);
        Ok(())
    }

    /// Returns the telemetry for a path with `assumed_hops` telemetry-capable hops, or `None` if the signal is not a
    /// delay. A trimmed packet's telemetry is marked incomplete.
    pub fn telemetry(&self, scale: &impl Scale, assumed_hops: u8) -> Option<MaxHopDelay> {
        // Hops downstream of the trimming switch do not update the tag.
        let decode =
            |code| MaxHopDelay { incomplete: self.trimmed, ..scale.decode_uncounted(code, assumed_hops) };
        matches!(self.signal, Signal::HopDelay | Signal::QueueDrainTime).then(|| decode(self.code))
    }

    /// Creates the tag for `signal`. The tag does not store the hop count.
    pub fn from_telemetry(signal: MaxHopDelay, layout: Layout, tpid: u16, scale: &impl Scale) -> Self {
        let code = signal.delay().map_or(0, |delay| scale.encode_delay(delay));
        Self { code: code.min(layout.max_code()), ..Self::new(layout, tpid, Signal::HopDelay) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row lists the tag, signal type, code and locator. The first two rows come from other implementations'
    /// tests.
    const COMPACT: [([u8; 4], u8, u32, u16); 3] = [
        ([0x99, 0x00, 0x2b, 0x85], 1, 0x17, 5),
        ([0x99, 0x00, 0x28, 0x42], 1, 0x10, 0x42),
        ([0x99, 0x00, 0x44, 0x83], 2, 9, 3),
    ];

    #[test]
    fn compact_draft_tag_matches_the_golden_vectors() {
        for (bytes, number, code, locator) in COMPACT {
            let repr = Repr::parse(&bytes, Layout::CompactDraft, 0x9900).expect("the header is valid");
            assert_eq!((repr.signal.number(), repr.code, repr.locator), (number, code, locator));
            let mut out = [0xff; 4];
            repr.emit(&mut out).expect("the buffer is large enough");
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn wide_tags_have_the_published_layout() {
        let repr = Repr {
            code: 0xabcde,
            locator: 0x1234,
            trimmed: true,
            ..Repr::new(Layout::WideUec, 0x9900, Signal::HopDelay)
        };
        let mut out = [0; 8];
        repr.emit(&mut out).expect("the buffer is large enough");
        assert_eq!(out, [0x99, 0x00, 0x24, 0x69, 0x2a, 0xbc, 0xde, 0x00]);
        assert_eq!(Repr::parse(&out, Layout::WideUec, 0x9900), Ok(repr));
        let draft = Repr { layout: Layout::ExpandedDraft, trimmed: false, ..repr };
        draft.emit(&mut out).expect("the buffer is large enough");
        assert_eq!(out, [0x99, 0x00, 0x12, 0x34, 0x2a, 0xbc, 0xde, 0x00]);
        let mut compact = [0; 4];
        let uec = Repr { layout: Layout::CompactUec, code: 9, locator: 3, ..repr };
        uec.emit(&mut compact).expect("the buffer is large enough");
        assert_eq!(compact, [0x99, 0x00, 0x44, 0x87]);
    }

    #[test]
    fn worse_bottleneck_replaces_the_signal() {
        for layout in Layout::ALL {
            for number in 0..4 {
                let signal = Signal::from_number(number);
                let initial = Repr::new(layout, 0x9900, signal);
                let mut bytes = [0; 8];
                initial.emit(&mut bytes).expect("the buffer is large enough");
                let mut packet =
                    Packet::new_checked(&mut bytes, layout, 0x9900).expect("the header is valid");
                // The best possible value never replaces S.
                assert!(!packet.update(initial.code, 9));
                assert!(packet.update(10, 1));
                let worse = if number < 2 { 9 } else { 11 };
                assert!(packet.update(worse, 2));
                assert!(!packet.update(10, 3));
                assert!(!packet.update(worse, 4));
                assert_eq!((packet.code(), packet.locator()), (worse, 2));
                assert_eq!((packet.signal(), packet.tpid()), (signal, 0x9900));
            }
        }
    }

    #[test]
    fn update_ignores_trimmed_packets_and_unknown_signals() {
        let mut packet = Packet::new_checked([0x99, 0x00, 0x44, 0x82], Layout::CompactUec, 0x9900)
            .expect("the header is valid");
        packet.mark_trimmed();
        assert!(!packet.update(31, 1));
        assert_eq!(packet.into_inner(), [0x99, 0x00, 0x44, 0x83]);
        let unknown = [0x99, 0x00, 0xe4, 0x83];
        let mut packet =
            Packet::new_checked(unknown, Layout::CompactDraft, 0x9900).expect("the header is valid");
        assert!(!packet.update(31, 1) && !packet.update(0, 1));
        packet.mark_trimmed();
        assert_eq!(packet.into_inner(), unknown);
    }

    #[test]
    fn update_keeps_reserved_bits() {
        let mut packet = Packet::new_checked([0x99, 0x00, 0x50, 0x00], Layout::CompactDraft, 0x9900)
            .expect("the header is valid");
        assert!(packet.update(u32::MAX, 1));
        assert_eq!(packet.into_inner(), [0x99, 0x00, 0x5f, 0x81]);
    }

    #[test]
    fn telemetry_exists_only_for_delay_signals() {
        let delay = Repr { code: 9, ..Repr::new(Layout::WideUec, 0x9900, Signal::HopDelay) };
        let signal = delay.telemetry(&WIDE_DELAY, 4).expect("the signal is a delay");
        assert_eq!((signal.worst.get(), signal.hops), (9 * 128, 4));
        assert_eq!(Repr::from_telemetry(signal, Layout::WideUec, 0x9900, &WIDE_DELAY), delay);
        let bandwidth = Repr::new(Layout::WideUec, 0x9900, Signal::AvailableBandwidth);
        assert_eq!(bandwidth.telemetry(&WIDE_DELAY, 4), None);
    }

    #[test]
    fn other_tags_and_short_buffers_are_rejected() {
        for layout in Layout::ALL {
            let need = layout.header_bytes();
            for have in 0..need {
                let short = Error::Truncated { need, have };
                assert_eq!(Repr::parse(&[0x99; 8][..have], layout, 0x9999), Err(short));
                let initial = Repr::new(layout, 0x9900, Signal::HopDelay);
                assert_eq!(initial.emit(&mut [0; 8][..have]), Err(short));
            }
            let other = Error::BadIdentifier { expected: 0x9900, found: 0x8100 };
            let vlan = [0x81, 0, 0, 0, 0, 0, 0, 0];
            assert_eq!(Repr::parse(&vlan, layout, 0x9900), Err(other));
        }
    }
}
