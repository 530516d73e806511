//! What switches write into packets and what hosts read: telemetry through whatever carries it.
//!
//! Packets carry decoded values, and a host passes them through the carrier's quantiser when it reads them. With `through_bytes`
//! every value lives in real bytes of its format instead, which switches update in place: slower, and the same.

use poseidon_plan::switch::{DelayCarrier, RecordCarrier, Stamp};
use poseidon_types::telemetry::MAX_HOPS;
use poseidon_types::{BitRate, Bytes, HopPath, HopRecord, MaxHopDelay, Nanos, Signals, Wrap};
use poseidon_wire::{hop_word, hpcc_ns3, reflection, shim};

use crate::chance::low_half;
use crate::packet::{Kind, NONE, Packet};
use crate::side::Sides;

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

/// The telemetry of a run.
#[derive(Debug)]
pub(crate) struct Telemetry {
    stamp: Stamp,
    through_bytes: bool,
    /// Every rate of a link there is, at any time.
    rates: Vec<BitRate>,
    /// What packets carry beside themselves.
    pub(crate) sides: Sides,
    /// What was read last.
    read: [HopRecord; MAX_HOPS],
    hpcc_wrap: Wrap,
}

impl Telemetry {
    pub(crate) fn new(stamp: Stamp, through_bytes: bool, rates: Vec<BitRate>) -> Self {
        Self {
            stamp,
            through_bytes,
            rates,
            sides: Sides::new(if stamp == Stamp::HopRecords(RecordCarrier::Exact) { 2 } else { 1 }),
            read: [HopRecord::default(); MAX_HOPS],
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
            Stamp::HopRecords(RecordCarrier::HpccNs3) if self.through_bytes => {
                let id = self.sides.add();
                self.sides.bytes_mut(id).expect("it was added").fill(0);
                id
            }
            Stamp::HopRecords(_) => self.sides.add(),
            Stamp::MaxHopDelay(DelayCarrier::Shim) if self.through_bytes => {
                let id = self.sides.add();
                let bytes = self.sides.bytes_mut(id).expect("it was added");
                shim::Repr::default()
                    .emit(&mut bytes[..shim::HEADER_BYTES])
                    .expect("there is room for a shim");
                id
            }
            Stamp::MaxHopDelay(_) | Stamp::Off => NONE,
        }
    }

    /// Whether packets carry anything beside themselves.
    pub(crate) const fn has_sides(&self) -> bool {
        matches!(self.stamp, Stamp::HopRecords(_)) || self.through_bytes
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
        if self.stamp == Stamp::MaxHopDelay(DelayCarrier::Shim)
            && let Some(side) = self.sides.bytes_mut(packet.records)
        {
            let (own, back) = side.split_at_mut(shim::HEADER_BYTES);
            let shim = shim::Repr::parse(own).expect("it was written here");
            let ttl = reflection::INITIAL_TTL.saturating_sub(packet.switches);
            let block = reflection::Repr::reflect(&shim, ttl, reflection::INITIAL_TTL);
            block.emit(back).expect("there is room for a reflection");
            shim::Repr::default().emit(own).expect("there is room for a shim");
        }
    }

    /// The largest hop delay of the data's way and of the reply's, as the sender reads them.
    pub(crate) fn delays(&self, reply: &Packet) -> (Option<Nanos>, Option<Nanos>) {
        if let (Stamp::MaxHopDelay(DelayCarrier::Shim), Some(bytes)) =
            (self.stamp, self.sides.bytes(reply.records))
        {
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
        let Stamp::HopRecords(carrier) = self.stamp else { return HopPath::NONE };
        let hops = usize::from(reply.reflected_hops);
        match carrier {
            RecordCarrier::Exact => {
                let mut read = 0;
                while let Some([counters, port]) = self.sides.hop(reply.records, read).filter(|_| read < hops)
                {
                    self.read[read] = HopRecord {
                        at: Nanos::new(counters >> 32),
                        sent: Bytes::new(counters & u64::from(u32::MAX)),
                        queue: Bytes::new(port >> 32),
                        rate: self.rates[low_half(port) as usize],
                    };
                    read += 1;
                }
                HopPath { records: &self.read[..read], wrap: EXACT }
            }
            // More hops than slots: nothing can be read.
            RecordCarrier::HpccNs3 if hops > hpcc_ns3::MAX_HOPS => {
                HopPath { records: &[], wrap: self.hpcc_wrap }
            }
            RecordCarrier::HpccNs3 => {
                if self.through_bytes {
                    let bytes = self.sides.bytes(reply.records).expect("every data packet has a side");
                    let header = hpcc_ns3::Packet::new_checked(bytes).expect("there is room");
                    let stack = header.hop_stack(&HPCC).expect("no more hops than slots");
                    self.read[..hops].copy_from_slice(stack.as_slice());
                } else {
                    for (hop, slot) in self.read[..hops].iter_mut().enumerate() {
                        let [word] =
                            self.sides.hop(reply.records, hop).expect("every data packet has a side");
                        *slot = HPCC.decode(word).expect("it was written here");
                    }
                }
                HopPath { records: &self.read[..hops], wrap: self.hpcc_wrap }
            }
        }
    }

    fn push(&mut self, carrier: RecordCarrier, packet: &Packet, measured: &Measured) {
        let at = measured.now / 1_000;
        let hop = usize::from(packet.own_hops);
        if carrier == RecordCarrier::Exact {
            if let Some(words) = self.sides.hop_mut(packet.records, hop) {
                let queue = u32::try_from(measured.queue).unwrap_or(u32::MAX);
                let counters = u64::from(low_half(at)) << 32 | u64::from(low_half(measured.sent));
                *words = [counters, u64::from(queue) << 32 | u64::from(measured.rate)];
            }
            return;
        }
        let record = HopRecord {
            at: Nanos::new(at),
            sent: Bytes::new(measured.sent),
            queue: Bytes::new(measured.queue),
            rate: self.rates[usize::from(measured.rate)],
        };
        if self.through_bytes {
            let Some(bytes) = self.sides.bytes_mut(packet.records) else { return };
            let mut header = hpcc_ns3::Packet::new_checked(bytes).expect("there is room");
            let _ = header.push(&record, &HPCC).expect("the rates were checked");
        } else if let Some([word]) = self.sides.hop_mut(packet.records, hop) {
            *word = HPCC.encode(&record).expect("the rates were checked");
        }
    }

    fn update_bytes(&mut self, id: u32, measured: &Measured) {
        if let Some(bytes) = self.sides.bytes_mut(id) {
            let mut header =
                shim::Packet::new_checked(&mut bytes[..shim::HEADER_BYTES]).expect("there is room");
            let _ = header.update(Nanos::new(u64::from(measured.delay)), &shim::SCALE);
        }
    }
}
