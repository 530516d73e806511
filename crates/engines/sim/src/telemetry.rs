//! In-band telemetry: switches write it into packets, receivers reflect it, and senders read it.
//!
//! Packets normally store decoded values, and the sender applies the carrier's quantiser when it reads them.
//! In wire-format mode, packets store the bytes of the real header, and switches update the header in place.
//! This mode is slower but produces the same result.

use poseidon_plan::records::CapturedTelemetry;
use poseidon_plan::switch::{DelayCarrier, RecordCarrier, Stamp};
use poseidon_plan::transport::Acks;
use poseidon_plan::{Plan, Topology};
use poseidon_types::telemetry::MAX_HOPS;
use poseidon_types::{
    BitRate, Bytes, CounterWrap, HopPath, HopRecord, HopStack, MaxHopDelay, Nanos, Picos, Signals,
};
use poseidon_wire::{hop_word, hpcc_ns3, reflection, shim};

use crate::hash::low32;
use crate::hop_records::{RecordArena, RecordsId};
use crate::packet::{Packet, PacketKind};
use crate::wire::LinkRates;

/// The hop word format used by HPCC's ns-3 artifact.
const HPCC: hop_word::Codec = hop_word::Codec::new(hop_word::Layout::Ns3);
/// The range of the 32-bit timestamps and byte counters in exact records. These fields wrap after 4.29 s and
/// 4.29 GB, which is more than a thousand RTTs.
const EXACT_WRAP: CounterWrap = CounterWrap { timestamp: Nanos::new(1 << 32), sent: Bytes::new(1 << 32) };

/// A hop's measurements at the departure of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HopMeasurement {
    pub(crate) now: Picos,
    /// The packet's queueing delay in ns.
    pub(crate) delay_ns: u32,
    /// The number of bytes that the queue sent before this packet.
    pub(crate) sent_bytes: u64,
    /// The number of bytes in the queue behind this packet.
    pub(crate) queue_bytes: u64,
    /// The index of the port's rate in [`LinkRates`].
    pub(crate) rate_index: u16,
}

/// The telemetry of all packets in a shard.
#[derive(Debug)]
pub(crate) struct Telemetry {
    stamp: Stamp,
    /// Whether telemetry is stored in its wire format.
    wire_format: bool,
    rates: LinkRates,
    pub(crate) record_arena: RecordArena,
    /// The hop records of the most recently read reply.
    read_buffer: [HopRecord; MAX_HOPS],
    hpcc_wrap: CounterWrap,
}

/// Returns the signals that simulated hosts provide to the laws of this plan.
pub(crate) fn available_signals(plan: &Plan) -> Signals {
    let circuit = match plan.topology {
        Topology::Rotor(_) => Signals::CIRCUIT_STATE,
        Topology::Tiers(_) | Topology::Chain(_) | Topology::Rails(_) | Topology::Edges(_) => Signals::NONE,
    };
    let telemetry = match plan.switch.stamp {
        Stamp::Off => Signals::NONE,
        Stamp::MaxHopDelay(_) => Signals::MAX_HOP_DELAY.union(Signals::REVERSE_MAX_HOP_DELAY),
        Stamp::HopRecords(_) => Signals::HOP_RECORDS,
    };
    Signals::RTT | Signals::ECN_ECHO | Signals::HOP_COUNT | circuit | telemetry
}

/// Returns an error message if the telemetry format cannot represent a link rate.
pub(crate) fn unsupported_rate(stamp: Stamp, rate: BitRate) -> Option<&'static str> {
    let record = HopRecord { rate, ..HopRecord::default() };
    let is_unsupported =
        stamp == Stamp::HopRecords(RecordCarrier::HpccNs3) && HPCC.quantise(&record).is_err();
    is_unsupported
        .then_some("a link rate that HPCC's header cannot encode (use 25, 40, 50, 100, 200, 400 Gbps)")
}

impl Telemetry {
    /// Creates the telemetry of a shard.
    pub(crate) fn new(plan: &Plan, wire_format: bool, rates: LinkRates) -> Self {
        let stamp = plan.switch.stamp;
        let hop_lines = match stamp {
            Stamp::HopRecords(RecordCarrier::Exact) => 2,
            Stamp::HopRecords(RecordCarrier::HpccNs3) => 1,
            Stamp::MaxHopDelay(_) | Stamp::Off => usize::from(wire_format),
        };
        let has_selective_acks = matches!(plan.transport.acks, Acks::CoalescedBytes { .. });
        Self {
            stamp,
            wire_format,
            rates,
            record_arena: RecordArena::new(hop_lines, has_selective_acks),
            read_buffer: [HopRecord::default(); MAX_HOPS],
            hpcc_wrap: HPCC.wrap(),
        }
    }

    /// Allocates hop records for a new data packet, if it needs any.
    // There are two callers, but only one of them matters for the speed.
    #[inline(always)]
    pub(crate) fn allocate_records(&mut self) -> RecordsId {
        match self.stamp {
            Stamp::HopRecords(RecordCarrier::HpccNs3) if self.wire_format => {
                let id = self.record_arena.allocate();
                self.record_arena.bytes_mut(id).expect("the records were just allocated").fill(0);
                id
            }
            Stamp::HopRecords(_) => self.record_arena.allocate(),
            Stamp::MaxHopDelay(DelayCarrier::Shim) if self.wire_format => {
                let id = self.record_arena.allocate();
                let bytes = self.record_arena.bytes_mut(id).expect("the records were just allocated");
                shim::Repr::default()
                    .emit(&mut bytes[..shim::HEADER_BYTES])
                    .expect("a shim fits in a cache line");
                id
            }
            Stamp::MaxHopDelay(_) | Stamp::Off => RecordsId::NONE,
        }
    }

    /// Allocates the telemetry of a new datagram, if it needs any. Datagrams carry no hop records.
    pub(crate) fn allocate_for_datagram(&mut self) -> RecordsId {
        match self.stamp {
            Stamp::MaxHopDelay(_) => self.allocate_records(),
            Stamp::HopRecords(_) | Stamp::Off => RecordsId::NONE,
        }
    }

    /// Returns whether packets have hop records in the arena.
    pub(crate) const fn has_records(&self) -> bool {
        matches!(self.stamp, Stamp::HopRecords(_)) || self.wire_format
    }

    /// Writes a hop's measurements into a packet.
    #[inline]
    pub(crate) fn write(&mut self, packet: &mut Packet, measured: &HopMeasurement) {
        match self.stamp {
            Stamp::Off => return,
            Stamp::MaxHopDelay(_) => {
                packet.max_delay_ns = packet.max_delay_ns.max(measured.delay_ns);
                if self.wire_format {
                    self.update_shim(packet.records, measured);
                }
            }
            Stamp::HopRecords(carrier) => {
                match packet.tag.kind() {
                    PacketKind::Data => self.push_record(carrier, packet, measured),
                    // A header has no space for more records.
                    PacketKind::Trimmed => return,
                    _ => {}
                }
            }
        }
        packet.hops = packet.hops.saturating_add(1);
    }

    /// Moves the telemetry of a data packet that becomes a reply into the reflected fields, and resets the
    /// packet's own telemetry.
    pub(crate) fn reflect(&mut self, packet: &mut Packet) {
        (packet.reflected_delay_ns, packet.reflected_hops) = (packet.max_delay_ns, packet.hops);
        (packet.max_delay_ns, packet.hops) = (0, 0);
        if self.stamp == Stamp::MaxHopDelay(DelayCarrier::Shim)
            && let Some(bytes) = self.record_arena.bytes_mut(packet.records)
        {
            let (shim_bytes, reflection_bytes) = bytes.split_at_mut(shim::HEADER_BYTES);
            let shim = shim::Repr::parse(shim_bytes).expect("the simulator wrote this shim");
            let ttl = reflection::INITIAL_TTL.saturating_sub(packet.switches);
            let block = reflection::Repr::reflect(&shim, ttl, reflection::INITIAL_TTL);
            block.emit(reflection_bytes).expect("a reflection fits behind the shim");
            shim::Repr::default().emit(shim_bytes).expect("a shim fits in a cache line");
        }
    }

    /// Returns the largest hop delays on the data path and on the reply path, as read by the sender.
    pub(crate) fn max_hop_delays(&self, reply: &Packet) -> (Option<Nanos>, Option<Nanos>) {
        if self.wire_format
            && let (Stamp::MaxHopDelay(DelayCarrier::Shim), Some(bytes)) =
                (self.stamp, self.record_arena.bytes(reply.records))
        {
            let reflected = reflection::Repr::parse(&bytes[shim::HEADER_BYTES..])
                .expect("the simulator wrote this reflection");
            let shim = shim::Repr::parse(bytes).expect("the simulator wrote this shim");
            return (reflected.telemetry(&shim::SCALE).delay(), shim.telemetry(&shim::SCALE).delay());
        }
        (
            self.quantised_delay(reply.reflected_hops, reply.reflected_delay_ns),
            self.quantised_delay(reply.hops, reply.max_delay_ns),
        )
    }

    /// Returns the largest hop delay on a datagram's path, as read by the host at which it arrives. Returns
    /// `None` if switches do not write this telemetry.
    pub(crate) fn datagram_max_hop_delay(&self, datagram: &Packet) -> Option<MaxHopDelay> {
        if let (Stamp::MaxHopDelay(DelayCarrier::Shim), Some(bytes)) =
            (self.stamp, self.record_arena.bytes(datagram.records))
        {
            let shim = shim::Repr::parse(bytes).expect("the simulator wrote this shim");
            return Some(shim.telemetry(&shim::SCALE));
        }
        self.quantise(datagram.hops, datagram.max_delay_ns)
    }

    /// Returns the largest hop delay as read by a host, or `None` if no hop measured a delay.
    fn quantised_delay(&self, hops: u8, delay_ns: u32) -> Option<Nanos> {
        self.quantise(hops, delay_ns)?.delay()
    }

    /// Returns the largest hop delay as read by a host, or `None` if switches do not write this telemetry. Real
    /// switches compare quantised codes. The quantiser is monotonic, so quantising the maximum once gives the
    /// same result.
    fn quantise(&self, hops: u8, delay_ns: u32) -> Option<MaxHopDelay> {
        let exact = MaxHopDelay { worst: Nanos::new(u64::from(delay_ns)), hops, ..MaxHopDelay::default() };
        match self.stamp {
            Stamp::MaxHopDelay(DelayCarrier::Shim) => Some(shim::QUANTISER.quantise(exact)),
            Stamp::MaxHopDelay(DelayCarrier::Exact) => Some(exact),
            Stamp::HopRecords(_) | Stamp::Off => None,
        }
    }

    /// Returns a reply's hop records, as read by the sender.
    pub(crate) fn hop_records(&mut self, reply: &Packet) -> HopPath<'_> {
        let Stamp::HopRecords(carrier) = self.stamp else { return HopPath::NONE };
        let hops = usize::from(reply.reflected_hops);
        match carrier {
            RecordCarrier::Exact => {
                let count = self.read_exact_records(reply, hops);
                HopPath { records: &self.read_buffer[..count], wrap: EXACT_WRAP }
            }
            // The path has more hops than the header has slots, so the header cannot be read.
            RecordCarrier::HpccNs3 if hops > hpcc_ns3::MAX_HOPS => {
                HopPath { records: &[], wrap: self.hpcc_wrap }
            }
            RecordCarrier::HpccNs3 => {
                self.read_hpcc_records(reply, hops);
                HopPath { records: &self.read_buffer[..hops], wrap: self.hpcc_wrap }
            }
        }
    }

    /// Returns the telemetry that a packet carries.
    pub(crate) fn capture(&mut self, packet: &Packet) -> CapturedTelemetry {
        let delay = |delay_ns: u32, hops| MaxHopDelay {
            worst: Nanos::new(u64::from(delay_ns)),
            hops,
            ..MaxHopDelay::default()
        };
        match self.stamp {
            Stamp::Off => CapturedTelemetry::None,
            Stamp::MaxHopDelay(_) => CapturedTelemetry::MaxHopDelay {
                path: delay(packet.max_delay_ns, packet.hops),
                reflected: delay(packet.reflected_delay_ns, packet.reflected_hops),
            },
            Stamp::HopRecords(_) => {
                let is_data = packet.tag.kind() == PacketKind::Data;
                let reflected_hops = if is_data { packet.hops } else { packet.reflected_hops };
                let mut records = HopStack::EMPTY;
                if packet.records != RecordsId::NONE {
                    records.replace(self.hop_records(&Packet { reflected_hops, ..*packet }).records);
                }
                CapturedTelemetry::HopRecords(records)
            }
        }
    }

    /// Decodes up to `hops` exact records into the read buffer. Returns the number of records.
    #[inline]
    fn read_exact_records(&mut self, reply: &Packet, hops: usize) -> usize {
        let mut hop = 0;
        while let Some([counters, port]) = self.record_arena.hop(reply.records, hop).filter(|_| hop < hops) {
            self.read_buffer[hop] = HopRecord {
                timestamp: Nanos::new(counters >> 32),
                sent: Bytes::new(counters & u64::from(u32::MAX)),
                queue: Bytes::new(port >> 32),
                rate: self.rates[low32(port) as usize],
            };
            hop += 1;
        }
        hop
    }

    /// Decodes `hops` records from HPCC's header into the read buffer.
    #[inline]
    fn read_hpcc_records(&mut self, reply: &Packet, hops: usize) {
        if self.wire_format {
            let bytes = self.record_arena.bytes(reply.records).expect("every data packet has records");
            let header = hpcc_ns3::Packet::new_checked(bytes).expect("the header fits in a cache line");
            let stack = header.hop_stack(&HPCC).expect("the header has a slot for every hop");
            self.read_buffer[..hops].copy_from_slice(stack.as_slice());
        } else {
            for (hop, record) in self.read_buffer[..hops].iter_mut().enumerate() {
                let [word] =
                    self.record_arena.hop(reply.records, hop).expect("every data packet has records");
                *record = HPCC.decode(word).expect("the simulator encoded this word");
            }
        }
    }

    fn push_record(&mut self, carrier: RecordCarrier, packet: &Packet, measured: &HopMeasurement) {
        let now_ns = measured.now.to_nanos_floor();
        let hop = usize::from(packet.hops);
        if carrier == RecordCarrier::Exact {
            if let Some(words) = self.record_arena.hop_mut(packet.records, hop) {
                let queue = u32::try_from(measured.queue_bytes).unwrap_or(u32::MAX);
                let counters = u64::from(low32(now_ns.get())) << 32 | u64::from(low32(measured.sent_bytes));
                *words = [counters, u64::from(queue) << 32 | u64::from(measured.rate_index)];
            }
            return;
        }
        let record = HopRecord {
            timestamp: now_ns,
            sent: Bytes::new(measured.sent_bytes),
            queue: Bytes::new(measured.queue_bytes),
            rate: self.rates[usize::from(measured.rate_index)],
        };
        if self.wire_format {
            let Some(bytes) = self.record_arena.bytes_mut(packet.records) else { return };
            let mut header = hpcc_ns3::Packet::new_checked(bytes).expect("the header fits in a cache line");
            let _ = header.push(&record, &HPCC).expect("the link rates were validated");
        } else if let Some([word]) = self.record_arena.hop_mut(packet.records, hop) {
            *word = HPCC.encode(&record).expect("the link rates were validated");
        }
    }

    fn update_shim(&mut self, id: RecordsId, measured: &HopMeasurement) {
        if let Some(bytes) = self.record_arena.bytes_mut(id) {
            let mut header = shim::Packet::new_checked(&mut bytes[..shim::HEADER_BYTES])
                .expect("a shim fits in a cache line");
            let _ = header.update(Nanos::new(u64::from(measured.delay_ns)), &shim::SCALE);
        }
    }
}
