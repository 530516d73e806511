//! CSIG: one signal per packet in a tag between the MAC addresses and the EtherType.
//!
//! ```text
//! compact, draft (4 B) : TPID:16 | T:3 | R:1 | S:5 | LM:7
//! compact, UEC   (4 B) : TPID:16 | T:3 | R:1 | S:5 | LM:6 | D:1
//! expanded, draft (8 B): TPID:16 | LM:16 | T:4 | S:20 | R:8
//! wide, UEC      (8 B) : TPID:16 | LM:15 | D:1 | T:4 | S:20 | R:8
//! T signal type   S quantised signal   LM locator of the hop that set S   D trimmed: do not update   R reserved
//! ```
//!
//! Every hop compares its own value with S and replaces it if the hop is the worse bottleneck. The table of
//! quantisation is the operator's and must be the same everywhere; it rises, so codes compare like values.
//! EtherTypes are not assigned yet: the TPID is a parameter. The tag lies outside every Internet checksum.
//!
//! Source: draft-ravi-ippm-csig-01 (expired 2024); OCP SAI 1.18 CSIG specification with UEC's tag figure.

use crate::bytes::{Field, load, low8, low16, low32, store};
use crate::error::{Error, Result, demand};
use crate::quantiser::{DelayQuantiser, HopCount, Ranges, Scale, Steps};
use poseidon_types::MaxHopDelay;
use zerocopy::big_endian::{U16, U32, U64};

/// An EtherType used in tests by others; nothing is assigned.
pub const DEFAULT_TPID: u16 = 0x9900;
/// Steps of 128 ns in 20 bits, from the draft's appendix: per-hop delay in the wide forms.
pub const WIDE_DELAY: Steps = Steps::new(7, 20);

/// What a compact tag does to a delay on a path where `hops` are known to measure.
pub const fn compact_quantiser(table: Ranges, hops: u8) -> DelayQuantiser<Ranges> {
    DelayQuantiser { scale: table, hops: HopCount::Assumed(hops) }
}

/// What a wide tag does to a delay on a path where `hops` are known to measure. Codes have 20 bits.
pub const fn wide_quantiser(steps: Steps, hops: u8) -> DelayQuantiser<Steps> {
    DelayQuantiser { scale: steps, hops: HopCount::Assumed(hops) }
}

/// The four published layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Where the fields of a layout are, in the tag read as one big-endian integer.
struct Fields {
    signal: Field,
    code: Field,
    locator: Field,
    trimmed: Option<Field>,
}

impl Layout {
    /// Every layout.
    pub const ALL: [Self; 4] = [Self::CompactDraft, Self::CompactUec, Self::ExpandedDraft, Self::WideUec];

    /// Bytes on the wire.
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::CompactDraft | Self::CompactUec => 4,
            Self::ExpandedDraft | Self::WideUec => 8,
        }
    }

    /// The largest code of the signal field.
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

/// What S means, and which of two values is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Available bandwidth; the smallest is kept.
    AvailableBandwidth,
    /// Available bandwidth over capacity; the smallest is kept.
    AvailableFraction,
    /// Per-hop delay; the largest is kept. Poseidon's signal.
    HopDelay,
    /// Queue depth over port speed, i.e. the time to drain (UEC); the largest is kept.
    QueueDrainTime,
    /// A type this crate does not know: hops pass it through.
    Other(u8),
}

impl Signal {
    /// The type of a number.
    pub const fn from_number(number: u8) -> Self {
        match number {
            0 => Self::AvailableBandwidth,
            1 => Self::AvailableFraction,
            2 => Self::HopDelay,
            3 => Self::QueueDrainTime,
            other => Self::Other(other),
        }
    }

    /// The number of the type.
    pub const fn number(self) -> u8 {
        match self {
            Self::AvailableBandwidth => 0,
            Self::AvailableFraction => 1,
            Self::HopDelay => 2,
            Self::QueueDrainTime => 3,
            Self::Other(number) => number,
        }
    }

    /// Whether `new` is a worse bottleneck than `old`.
    pub const fn replaces(self, new: u32, old: u32) -> bool {
        match self {
            Self::AvailableBandwidth | Self::AvailableFraction => new < old,
            Self::HopDelay | Self::QueueDrainTime => new > old,
            Self::Other(_) => false,
        }
    }

    /// What a sender writes: the best value, which any hop replaces.
    pub const fn initial_code(self, layout: Layout) -> u32 {
        match self {
            Self::AvailableBandwidth | Self::AvailableFraction => layout.max_code(),
            Self::HopDelay | Self::QueueDrainTime | Self::Other(_) => 0,
        }
    }
}

/// A view over the bytes that begin with a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    buffer: T,
    layout: Layout,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// A view, if the buffer begins with a whole tag of identifier `tpid`.
    pub fn new_checked(buffer: T, layout: Layout, tpid: u16) -> Result<Self> {
        demand(buffer.as_ref(), layout.header_bytes())?;
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

    /// The tag protocol identifier.
    pub fn tpid(&self) -> u16 {
        load::<U16>(self.buffer.as_ref(), 0).get()
    }

    /// T: what S means.
    pub fn signal(&self) -> Signal {
        Signal::from_number(low8(self.layout.fields().signal.get(self.word())))
    }

    /// S: the quantised signal.
    pub fn code(&self) -> u32 {
        low32(self.layout.fields().code.get(self.word()))
    }

    /// LM: who set S.
    pub fn locator(&self) -> u16 {
        low16(self.layout.fields().locator.get(self.word()))
    }

    /// D: the packet was trimmed. The draft's layouts cannot say so.
    pub fn is_trimmed(&self) -> bool {
        let word = self.word();
        self.layout.fields().trimmed.is_some_and(|field| field.get(word) == 1)
    }

    /// The buffer back.
    pub fn into_inner(self) -> T {
        self.buffer
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// What a switch does, and whether it replaced the signal: `code` is its own value of the packet's signal.
    /// Trimmed packets and unknown signals stay untouched; so does a tag with an equally bad value.
    pub fn update(&mut self, code: u32, locator: u16) -> bool {
        let code = code.min(self.layout.max_code());
        if self.is_trimmed() || !self.signal().replaces(code, self.code()) {
            return false;
        }
        let fields = self.layout.fields();
        let word = fields.code.set(self.word(), u64::from(code));
        self.put(fields.locator.set(word, u64::from(locator)));
        true
    }

    /// What a node does that trims the packet. Without effect in the draft's layouts.
    pub fn mark_trimmed(&mut self) {
        if let Some(field) = self.layout.fields().trimmed {
            self.put(field.set(self.word(), 1));
        }
    }

    fn put(&mut self, word: u64) {
        put(self.buffer.as_mut(), self.layout, word);
    }
}

/// Writes the tag. No Internet checksum covers it.
fn put(buffer: &mut [u8], layout: Layout, word: u64) {
    let _ = match layout.header_bytes() {
        4 => store(buffer, 0, &U32::new(low32(word))),
        _ => store(buffer, 0, &U64::new(word)),
    };
}

/// What a tag says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The layout.
    pub layout: Layout,
    /// The tag protocol identifier.
    pub tpid: u16,
    /// T.
    pub signal: Signal,
    /// S.
    pub code: u32,
    /// LM.
    pub locator: u16,
    /// D; the draft's layouts lose it.
    pub trimmed: bool,
}

impl Repr {
    /// A fresh tag for `signal`.
    pub const fn fresh(layout: Layout, tpid: u16, signal: Signal) -> Self {
        Self { layout, tpid, signal, code: signal.initial_code(layout), locator: 0, trimmed: false }
    }

    /// Reads a tag.
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

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        self.layout.header_bytes()
    }

    /// Writes the tag at the start of `buffer`. The code saturates, type and locator keep their low bits, reserved
    /// bits are zero.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<()> {
        demand(buffer, self.buffer_len())?;
        let fields = self.layout.fields();
        let tpid = Field::new(if self.buffer_len() == 4 { 16 } else { 48 }, 16);
        let mut word = tpid.set(0, u64::from(self.tpid));
        word = fields.signal.set(word, u64::from(self.signal.number()));
        word = fields.code.set(word, u64::from(self.code.min(self.layout.max_code())));
        word = fields.locator.set(word, u64::from(self.locator));
        if let Some(field) = fields.trimmed {
            word = field.set(word, u64::from(self.trimmed));
        }
        put(buffer, self.layout, word);
        Ok(())
    }

    /// The delay in the tag, on a path where `assumed_hops` are known to measure; `None` for other signals. A trimmed packet
    /// is incomplete: some hops may have left it alone.
    pub fn telemetry(&self, scale: &impl Scale, assumed_hops: u8) -> Option<MaxHopDelay> {
        // Hops behind the one that trimmed a packet did not update it.
        let read = |code| MaxHopDelay { incomplete: self.trimmed, ..scale.uncounted(code, assumed_hops) };
        matches!(self.signal, Signal::HopDelay | Signal::QueueDrainTime).then(|| read(self.code))
    }

    /// The compact or wide tag that says `signal`; its hop count is lost.
    pub fn from_telemetry(signal: MaxHopDelay, layout: Layout, tpid: u16, scale: &impl Scale) -> Self {
        let code = signal.delay().map_or(0, |delay| scale.delay_code(delay));
        Self { code: code.min(layout.max_code()), ..Self::fresh(layout, tpid, Signal::HopDelay) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Type, code, locator; the first two from others' tests.
    const COMPACT: [([u8; 4], u8, u32, u16); 3] = [
        ([0x99, 0x00, 0x2b, 0x85], 1, 0x17, 5),
        ([0x99, 0x00, 0x28, 0x42], 1, 0x10, 0x42),
        ([0x99, 0x00, 0x44, 0x83], 2, 9, 3),
    ];

    #[test]
    fn golden_vectors_of_the_drafts_compact_tag() {
        for (bytes, number, code, locator) in COMPACT {
            let repr = Repr::parse(&bytes, Layout::CompactDraft, 0x9900).expect("parses");
            assert_eq!((repr.signal.number(), repr.code, repr.locator), (number, code, locator));
            let mut out = [0xff; 4];
            repr.emit(&mut out).expect("fits");
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn layouts_of_the_wide_tags() {
        let repr = Repr {
            code: 0xabcde,
            locator: 0x1234,
            trimmed: true,
            ..Repr::fresh(Layout::WideUec, 0x9900, Signal::HopDelay)
        };
        let mut out = [0; 8];
        repr.emit(&mut out).expect("fits");
        assert_eq!(out, [0x99, 0x00, 0x24, 0x69, 0x2a, 0xbc, 0xde, 0x00]);
        assert_eq!(Repr::parse(&out, Layout::WideUec, 0x9900), Ok(repr));
        let draft = Repr { layout: Layout::ExpandedDraft, trimmed: false, ..repr };
        draft.emit(&mut out).expect("fits");
        assert_eq!(out, [0x99, 0x00, 0x12, 0x34, 0x2a, 0xbc, 0xde, 0x00]);
        let mut compact = [0; 4];
        let uec = Repr { layout: Layout::CompactUec, code: 9, locator: 3, ..repr };
        uec.emit(&mut compact).expect("fits");
        assert_eq!(compact, [0x99, 0x00, 0x44, 0x87]);
    }

    #[test]
    fn the_worse_bottleneck_replaces() {
        for layout in Layout::ALL {
            for number in 0..4 {
                let signal = Signal::from_number(number);
                let fresh = Repr::fresh(layout, 0x9900, signal);
                let mut bytes = [0; 8];
                fresh.emit(&mut bytes).expect("fits");
                let mut packet = Packet::new_checked(&mut bytes, layout, 0x9900).expect("ours");
                // The best value replaces nothing, whoever says it.
                assert!(!packet.update(fresh.code, 9));
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
    fn trimmed_and_unknown_stay_untouched() {
        let mut packet =
            Packet::new_checked([0x99, 0x00, 0x44, 0x82], Layout::CompactUec, 0x9900).expect("ours");
        packet.mark_trimmed();
        assert!(!packet.update(31, 1));
        assert_eq!(packet.into_inner(), [0x99, 0x00, 0x44, 0x83]);
        let unknown = [0x99, 0x00, 0xe4, 0x83];
        let mut packet = Packet::new_checked(unknown, Layout::CompactDraft, 0x9900).expect("ours");
        assert!(!packet.update(31, 1) && !packet.update(0, 1));
        packet.mark_trimmed();
        assert_eq!(packet.into_inner(), unknown);
    }

    #[test]
    fn reserved_bits_survive_a_hop() {
        let mut packet =
            Packet::new_checked([0x99, 0x00, 0x50, 0x00], Layout::CompactDraft, 0x9900).expect("ours");
        assert!(packet.update(u32::MAX, 1));
        assert_eq!(packet.into_inner(), [0x99, 0x00, 0x5f, 0x81]);
    }

    #[test]
    fn only_delays_are_delays() {
        let delay = Repr { code: 9, ..Repr::fresh(Layout::WideUec, 0x9900, Signal::HopDelay) };
        let signal = delay.telemetry(&WIDE_DELAY, 4).expect("a delay");
        assert_eq!((signal.worst.get(), signal.hops), (9 * 128, 4));
        assert_eq!(Repr::from_telemetry(signal, Layout::WideUec, 0x9900, &WIDE_DELAY), delay);
        let bandwidth = Repr::fresh(Layout::WideUec, 0x9900, Signal::AvailableBandwidth);
        assert_eq!(bandwidth.telemetry(&WIDE_DELAY, 4), None);
    }

    #[test]
    fn other_tags_and_short_buffers_are_refused() {
        for layout in Layout::ALL {
            let need = layout.header_bytes();
            for have in 0..need {
                let short = Error::Truncated { need, have };
                assert_eq!(Repr::parse(&[0x99; 8][..have], layout, 0x9999), Err(short));
                let fresh = Repr::fresh(layout, 0x9900, Signal::HopDelay);
                assert_eq!(fresh.emit(&mut [0; 8][..have]), Err(short));
            }
            let other = Error::BadIdentifier { expected: 0x9900, found: 0x8100 };
            let vlan = [0x81, 0, 0, 0, 0, 0, 0, 0];
            assert_eq!(Repr::parse(&vlan, layout, 0x9900), Err(other));
        }
    }
}
