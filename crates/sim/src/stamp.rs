//! What switches write into packets and what hosts read: telemetry through whatever carries it.
//!
//! Packets carry decoded values, and a host passes them through the carrier's quantiser when it reads them. With `through_bytes`
//! every value lives in real bytes of its format instead, which switches update in place: slower, and the same.

use poseidon_plan::switch::{DelayCarrier, RecordCarrier, Stamp};
use poseidon_types::telemetry::MAX_HOPS;
use poseidon_types::{BitRate, Bytes, HopPath, HopRecord, MaxHopDelay, Nanos, Signals, Wrap};
use poseidon_wire::quantiser::HopScale;
use poseidon_wire::{hop_word, hpcc_ns3, reflection, shim};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::chance::low_half;
use crate::packet::{Kind, NONE, Packet};

/// The words of HPCC's artifact.
const HPCC: hop_word::Codec = hop_word::Codec::new(hop_word::Layout::Ns3);
/// Exact records are kept in 32 bits: 4.29 s and 4.29 GB pass before one comes round, a thousand times an RTT.
const EXACT: Wrap = Wrap { at: Nanos::new(1 << 32), sent: Bytes::new(1 << 32) };

/// What a hop measured as a packet left it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// When, ps.
    pub(crate) now: u64,
    /// How long the packet waited, ns.
    pub(crate) delay: u32,
    /// Bytes that its queue had sent before it.
    pub(crate) sent: u64,
    /// Bytes that wait behind it.
    pub(crate) queue: u64,
    /// The rate of the port, as its place among all rates.
    pub(crate) rate: u16,
}

/// One hop, small.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct Record {
    at: u32,
    sent: u32,
    queue: u32,
    rate: u16,
    unused: u16,
}

/// What a packet carries beside itself: records of hops, or the bytes of its telemetry header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub(crate) struct Side([Record; MAX_HOPS]);

const _: () = assert!(size_of::<Side>() == 128, "two cache lines, and room for the largest header");

impl Side {
    const EMPTY: Self = Self([Record { at: 0, sent: 0, queue: 0, rate: 0, unused: 0 }; MAX_HOPS]);
}

/// The telemetry of a run.
#[derive(Debug)]
pub(crate) struct Telemetry {
    stamp: Stamp,
    through_bytes: bool,
    /// Every rate of a link there is, at any time.
    rates: Vec<BitRate>,
    sides: Vec<Side>,
    free: Vec<u32>,
    /// What was read last.
    read: [HopRecord; MAX_HOPS],
    /// What HPCC's words do to a record, and where they wrap.
    hpcc_scale: HopScale,
    hpcc_wrap: Wrap,
}

impl Telemetry {
    pub(crate) fn new(stamp: Stamp, through_bytes: bool, rates: Vec<BitRate>) -> Self {
        Self {
            stamp,
            through_bytes,
            rates,
            sides: Vec::new(),
            free: Vec::new(),
            read: [HopRecord::default(); MAX_HOPS],
            hpcc_scale: HPCC.scale(),
            hpcc_wrap: HPCC.wrap(),
        }
    }

    /// What a host can tell a law of it.
    pub(crate) const fn supplies(stamp: Stamp) -> Signals {
        match stamp {
            Stamp::Off => Signals::NONE,
            Stamp::MaxHopDelay(_) => Signals::MAX_HOP_DELAY.union(Signals::REVERSE_MAX_HOP_DELAY),
            Stamp::HopRecords(_) => Signals::HOP_RECORDS,
        }
    }

    /// Why a link of this rate cannot be told, if so.
    pub(crate) fn cannot_tell(stamp: Stamp, rate: BitRate) -> Option<&'static str> {
        let record = HopRecord { rate, ..HopRecord::default() };
        let unknown = stamp == Stamp::HopRecords(RecordCarrier::HpccNs3) && HPCC.carry(&record).is_err();
        unknown.then_some("a rate that HPCC's header has no code for (25, 50, 100, 200, 400, 40 Gbps)")
    }

    /// Room for what a new data packet will carry, or [`NONE`].
    pub(crate) fn fresh(&mut self) -> u32 {
        match self.stamp {
            Stamp::HopRecords(_) => self.add(Side::EMPTY),
            Stamp::MaxHopDelay(DelayCarrier::Shim) if self.through_bytes => {
                let mut side = Side::EMPTY;
                let written = shim::Repr::default().emit(&mut side.as_mut_bytes()[..shim::HEADER_BYTES]);
                written.expect("there is room for a shim");
                self.add(side)
            }
            Stamp::MaxHopDelay(_) | Stamp::Off => NONE,
        }
    }

    /// A hop writes what it measured.
    #[inline]
    pub(crate) fn write(&mut self, packet: &mut Packet, measured: &Measured) {
        match self.stamp {
            Stamp::Off => return,
            Stamp::MaxHopDelay(_) => {
                packet.own_delay = packet.own_delay.max(measured.delay);
                if self.through_bytes {
                    self.update_bytes(packet.records, measured);
                }
            }
            Stamp::HopRecords(carrier) => {
                if packet.tag.kind() == Kind::Data {
                    self.push(carrier, packet, measured);
                }
            }
        }
        packet.own_hops = packet.own_hops.saturating_add(1);
    }

    /// A data packet has become its reply: what it carried is reflected, and its own begins anew.
    pub(crate) fn reflect(&mut self, packet: &mut Packet) {
        (packet.reflected_delay, packet.reflected_hops) = (packet.own_delay, packet.own_hops);
        (packet.own_delay, packet.own_hops) = (0, 0);
        let Some(side) = self.sides.get_mut(packet.records as usize) else { return };
        if self.stamp == Stamp::MaxHopDelay(DelayCarrier::Shim) {
            let (own, back) = side.as_mut_bytes().split_at_mut(shim::HEADER_BYTES);
            let shim = shim::Repr::parse(own).expect("it was written here");
            let ttl = reflection::INITIAL_TTL.saturating_sub(packet.switches);
            let block = reflection::Repr::reflect(&shim, ttl, reflection::INITIAL_TTL);
            block.emit(back).expect("there is room for a reflection");
            shim::Repr::default().emit(own).expect("there is room for a shim");
        }
    }

    /// The largest hop delay of the data's way and of the reply's, as the sender reads them.
    pub(crate) fn delays(&self, reply: &Packet) -> (Option<Nanos>, Option<Nanos>) {
        if let (Stamp::MaxHopDelay(DelayCarrier::Shim), Some(side)) =
            (self.stamp, self.sides.get(reply.records as usize))
        {
            let bytes = side.as_bytes();
            let back = reflection::Repr::parse(&bytes[shim::HEADER_BYTES..]).expect("it was written here");
            let own = shim::Repr::parse(bytes).expect("it was written here");
            return (back.telemetry(&shim::SCALE).delay(), own.telemetry(&shim::SCALE).delay());
        }
        (self.delay(reply.reflected_hops, reply.reflected_delay), self.delay(reply.own_hops, reply.own_delay))
    }

    /// What a host reads of one largest hop delay. Hops compare codes, but the code of the largest delay is the largest code, so
    /// it is enough to pass the value through the carrier once.
    fn delay(&self, hops: u8, delay: u32) -> Option<Nanos> {
        let measured = MaxHopDelay { worst: Nanos::new(u64::from(delay)), hops, ..MaxHopDelay::default() };
        match self.stamp {
            Stamp::MaxHopDelay(DelayCarrier::Shim) => shim::QUANTISER.carry(measured).delay(),
            Stamp::MaxHopDelay(DelayCarrier::Exact) => measured.delay(),
            Stamp::HopRecords(_) | Stamp::Off => None,
        }
    }

    /// The records of a reply, as the sender reads them.
    pub(crate) fn records(&mut self, reply: &Packet) -> HopPath<'_> {
        let (Stamp::HopRecords(carrier), Some(side)) = (self.stamp, self.sides.get(reply.records as usize))
        else {
            return HopPath::NONE;
        };
        let wrap = match carrier {
            RecordCarrier::Exact => EXACT,
            RecordCarrier::HpccNs3 => self.hpcc_wrap,
        };
        let hops = usize::from(reply.reflected_hops);
        let mut read = 0;
        if carrier == RecordCarrier::HpccNs3 && (hops > hpcc_ns3::MAX_HOPS) {
            // More hops than slots: nothing can be read.
        } else if self.through_bytes && carrier == RecordCarrier::HpccNs3 {
            let header = hpcc_ns3::Packet::new_checked(side.as_bytes()).expect("there is room");
            let stack = header.hop_stack(&HPCC).expect("no more hops than slots");
            read = stack.as_slice().len();
            self.read[..read].copy_from_slice(stack.as_slice());
        } else {
            read = hops.min(MAX_HOPS);
            for (slot, record) in self.read.iter_mut().zip(&side.0[..read]) {
                let exact = HopRecord {
                    at: Nanos::new(u64::from(record.at)),
                    sent: Bytes::new(u64::from(record.sent)),
                    queue: Bytes::new(u64::from(record.queue)),
                    rate: self.rates[usize::from(record.rate)],
                };
                *slot = match carrier {
                    RecordCarrier::Exact => exact,
                    RecordCarrier::HpccNs3 => self.hpcc_scale.carry(&exact),
                };
            }
        }
        HopPath { records: &self.read[..read], wrap }
    }

    /// The side of a packet, to go with it to another shard.
    pub(crate) fn side(&self, id: u32) -> Option<&Side> {
        self.sides.get(id as usize)
    }

    /// Takes a side in.
    pub(crate) fn add(&mut self, side: Side) -> u32 {
        if let Some(id) = self.free.pop() {
            self.sides[id as usize] = side;
            return id;
        }
        self.sides.push(side);
        u32::try_from(self.sides.len() - 1).expect("fewer than 2^32 packets at once")
    }

    pub(crate) fn remove(&mut self, id: u32) {
        if id != NONE {
            self.free.push(id);
        }
    }

    fn push(&mut self, carrier: RecordCarrier, packet: &Packet, measured: &Measured) {
        let Some(side) = self.sides.get_mut(packet.records as usize) else { return };
        if self.through_bytes && carrier == RecordCarrier::HpccNs3 {
            let record = HopRecord {
                at: Nanos::new(measured.now / 1_000),
                sent: Bytes::new(measured.sent),
                queue: Bytes::new(measured.queue),
                rate: self.rates[usize::from(measured.rate)],
            };
            let mut header = hpcc_ns3::Packet::new_checked(side.as_mut_bytes()).expect("there is room");
            let _ = header.push(&record, &HPCC).expect("the rates were checked");
            return;
        }
        if let Some(slot) = side.0.get_mut(usize::from(packet.own_hops)) {
            *slot = Record {
                at: low_half(measured.now / 1_000),
                sent: low_half(measured.sent),
                queue: u32::try_from(measured.queue).unwrap_or(u32::MAX),
                rate: measured.rate,
                unused: 0,
            };
        }
    }

    fn update_bytes(&mut self, id: u32, measured: &Measured) {
        if let Some(side) = self.sides.get_mut(id as usize) {
            let bytes = &mut side.as_mut_bytes()[..shim::HEADER_BYTES];
            let mut header = shim::Packet::new_checked(bytes).expect("there is room");
            let _ = header.update(Nanos::new(u64::from(measured.delay)), &shim::SCALE);
        }
    }
}
