//! Packets and FIFO queues.
//!
//! All packets live in one arena. A packet occupies one 64-byte cache line, and a queue is a list linked
//! through `next`.

use poseidon_types::{ConnectionId, Picos};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::datagrams::DatagramSlot;
use crate::hop_records::RecordsId;

/// A packet's index in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(transparent)]
pub(crate) struct PacketId(u32);

impl PacketId {
    /// The null link that ends a packet list.
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    #[inline]
    pub(crate) const fn get(self) -> u32 {
        self.0
    }
}

/// The kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketKind {
    Data,
    Ack,
    /// Asks the sender to go back to the first missing packet, or reports a trimmed packet.
    Nack,
    /// A congestion notification packet, or a credit packet.
    Cnp,
    /// A PFC frame that pauses or resumes one priority at a neighbour.
    Pause,
    /// Data that has arrived and is waiting for a delayed ACK.
    PendingAck,
    /// Data that a switch trimmed to its header.
    Trimmed,
    /// A datagram of a real transport stack, in either direction of its connection.
    Datagram,
}

const KINDS: [PacketKind; 8] = [
    PacketKind::Data,
    PacketKind::Ack,
    PacketKind::Nack,
    PacketKind::Cnp,
    PacketKind::Pause,
    PacketKind::PendingAck,
    PacketKind::Trimmed,
    PacketKind::Datagram,
];

/// Bit 4, whose meaning depends on the packet kind: CWR or ACK request, circuit up, trimmed at the last hop, pause or
/// ECN-capable.
const FLAG: u8 = 16;

/// The ECN-capable packets: a bit mask over the lower five bits of a tag. Data is always ECN-capable, and a datagram is
/// if its flag is set.
const ECN_CAPABLE: u32 = {
    let (data, datagram) = (PacketKind::Data as u8, PacketKind::Datagram as u8 | FLAG);
    1 << data
        | 1 << (data | 8)
        | 1 << (data | FLAG)
        | 1 << (data | 8 | FLAG)
        | 1 << datagram
        | 1 << (datagram | 8)
};

/// A packet's kind, congestion mark, flag and priority, packed into one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(transparent)]
pub(crate) struct PacketTag(u8);

impl PacketTag {
    pub(crate) const fn new(kind: PacketKind, priority: u8) -> Self {
        Self(kind as u8 | priority << 5)
    }

    #[inline]
    pub(crate) const fn kind(self) -> PacketKind {
        KINDS[(self.0 & 7) as usize]
    }

    /// Returns this tag with a different kind.
    pub(crate) const fn with_kind(self, kind: PacketKind) -> Self {
        Self(self.0 & !7 | kind as u8)
    }

    #[inline]
    pub(crate) const fn priority(self) -> u8 {
        self.0 >> 5
    }

    /// Returns whether a data packet or a datagram is marked (CE) or a reply echoes a mark (ECE).
    #[inline]
    pub(crate) const fn is_marked(self) -> bool {
        self.0 & 8 != 0
    }

    #[inline]
    pub(crate) const fn set_marked(&mut self, marked: bool) {
        self.0 = self.0 & !8 | (marked as u8) << 3;
    }

    /// Returns whether switches may mark the packet.
    #[inline]
    pub(crate) const fn is_ecn_capable(self) -> bool {
        ECN_CAPABLE >> (self.0 & 31) & 1 != 0
    }

    /// Sets whether switches may mark a datagram.
    pub(crate) const fn set_ecn_capable(&mut self, ecn_capable: bool) {
        self.0 = self.0 & !FLAG | (ecn_capable as u8) << 4;
    }

    /// Returns whether a data packet reports a window reduction (CWR). With ACKs per number of bytes, the flag
    /// requests an ACK instead.
    #[inline]
    pub(crate) const fn has_cwr(self) -> bool {
        self.0 & FLAG != 0
    }

    #[inline]
    pub(crate) const fn set_cwr(&mut self, cwr: bool) {
        self.0 = self.0 & !FLAG | (cwr as u8) << 4;
    }

    /// Returns whether a data packet requests an ACK, with ACKs per number of bytes.
    #[inline]
    pub(crate) const fn requests_ack(self) -> bool {
        self.has_cwr()
    }

    /// Returns whether the last switch before the receiver trimmed the packet, or the packet that a NACK reports.
    #[inline]
    pub(crate) const fn is_last_hop(self) -> bool {
        self.0 & FLAG != 0
    }

    #[inline]
    pub(crate) const fn set_last_hop(&mut self, last_hop: bool) {
        self.0 = self.0 & !FLAG | (last_hop as u8) << 4;
    }

    /// Returns whether a reply reports that the connection's circuit is up.
    #[inline]
    pub(crate) const fn is_circuit_up(self) -> bool {
        self.0 & FLAG != 0
    }

    #[inline]
    pub(crate) const fn set_circuit_up(&mut self, circuit_up: bool) {
        self.0 = self.0 & !FLAG | (circuit_up as u8) << 4;
    }

    /// Returns whether a control packet carries credit or asks for it. Otherwise, it is a CNP.
    #[inline]
    pub(crate) const fn is_credit(self) -> bool {
        self.0 & FLAG != 0
    }

    #[inline]
    pub(crate) const fn set_credit(&mut self, credit: bool) {
        self.0 = self.0 & !FLAG | (credit as u8) << 4;
    }

    /// Returns whether a PFC frame pauses (XOFF) its priority. Otherwise, the frame resumes the priority
    /// (XON).
    #[inline]
    pub(crate) const fn is_xoff(self) -> bool {
        self.0 & FLAG != 0
    }

    #[inline]
    pub(crate) const fn set_xoff(&mut self, xoff: bool) {
        self.0 = self.0 & !FLAG | (xoff as u8) << 4;
    }
}

/// A packet.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub(crate) struct Packet {
    /// For data, the time at which the first bit left the sender. For a reply, the data packet's send time
    /// plus all waiting time at the receiver, so that the measured RTT includes only network delay.
    pub(crate) sent_at_ps: u64,
    /// The time at which the packet entered its current queue.
    pub(crate) enqueued_at_ps: u64,
    /// The next packet in the same queue or in the free list.
    pub(crate) next: PacketId,
    /// The packet's [`ConnectionId`] as a number.
    pub(crate) connection: u32,
    /// For data, the packet's sequence number. For a reply, the sequence number of the data packet that
    /// caused it. For a datagram, its number: even numbers come from the connection's sender, and odd numbers
    /// from its receiver.
    pub(crate) seq: u32,
    /// For a reply, every packet below this sequence number has arrived. For a datagram, its
    /// [slot](Self::datagram_slot). With credits: for data and requests, the sender's demand, and for a pull packet,
    /// the receiver's total, in quanta.
    pub(crate) cumulative_ack: u32,
    /// The destination's rack, slot within the rack, and pod.
    pub(crate) dst_rack: u32,
    pub(crate) dst_slot: u16,
    pub(crate) dst_pod: u16,
    /// The ECMP hash input.
    pub(crate) entropy: u32,
    /// The largest hop delay so far on this packet's path.
    pub(crate) max_delay_ns: u32,
    /// For a reply, the largest hop delay on the data packet's path. For a datagram, its
    /// [length](Self::datagram_len). Switches do not change this field.
    pub(crate) reflected_delay_ns: u32,
    pub(crate) records: RecordsId,
    /// The packet size on the wire, in bytes. Zero for a free arena slot.
    pub(crate) size: u16,
    /// The ingress port at the current switch.
    pub(crate) in_port: u16,
    /// The number of hops with telemetry on this packet's path.
    pub(crate) hops: u8,
    /// For a reply, the number of hops with telemetry on the data packet's path.
    pub(crate) reflected_hops: u8,
    /// For data, the number of switches traversed so far. For a reply, the number of switches on the data
    /// packet's path.
    pub(crate) switches: u8,
    pub(crate) tag: PacketTag,
}

const _: () = assert!(size_of::<Packet>() == 64, "a packet is one cache line");

impl Packet {
    /// An empty data packet.
    pub(crate) const EMPTY: Self = Self {
        sent_at_ps: 0,
        enqueued_at_ps: 0,
        next: PacketId::NONE,
        connection: 0,
        seq: 0,
        cumulative_ack: 0,
        dst_rack: 0,
        dst_slot: 0,
        dst_pod: 0,
        entropy: 0,
        max_delay_ns: 0,
        reflected_delay_ns: 0,
        records: RecordsId::NONE,
        size: 0,
        in_port: 0,
        hops: 0,
        reflected_hops: 0,
        switches: 0,
        tag: PacketTag::new(PacketKind::Data, 0),
    };

    #[inline]
    pub(crate) const fn connection(&self) -> ConnectionId {
        ConnectionId::new(self.connection)
    }

    #[inline]
    pub(crate) const fn sent_at(&self) -> Picos {
        Picos::new(self.sent_at_ps)
    }

    #[inline]
    pub(crate) const fn set_enqueued_at(&mut self, now: Picos) {
        self.enqueued_at_ps = now.get();
    }

    /// Returns the time since the packet entered its current queue.
    #[inline]
    pub(crate) const fn waited(&self, now: Picos) -> Picos {
        Picos::new(now.get() - self.enqueued_at_ps)
    }

    /// Returns whether the packet is a datagram of a real transport stack.
    #[inline]
    pub(crate) const fn is_datagram(&self) -> bool {
        matches!(self.tag.kind(), PacketKind::Datagram)
    }

    /// Returns the arena slot that contains a datagram's bytes.
    pub(crate) const fn datagram_slot(&self) -> DatagramSlot {
        DatagramSlot::new(self.cumulative_ack)
    }

    /// Returns a datagram's length.
    pub(crate) const fn datagram_len(&self) -> u32 {
        self.reflected_delay_ns
    }

    /// Returns this packet as a datagram of `len` bytes in the arena slot `slot`.
    pub(crate) const fn with_datagram(self, slot: DatagramSlot, len: u32) -> Self {
        Self { cumulative_ack: slot.get(), reflected_delay_ns: len, ..self }
    }

    /// Excludes time spent waiting at the receiver from the measured RTT.
    #[inline]
    pub(crate) const fn exclude_host_delay(&mut self, delay: Picos) {
        self.sent_at_ps += delay.get();
    }
}

/// The size of a free arena slot. A packet is never empty.
const FREE: u16 = 0;

/// All packets in a shard. The most recently freed slot is reused first because it is probably still in the
/// cache.
#[derive(Debug)]
pub(crate) struct PacketArena {
    packets: Vec<Packet>,
    /// The head of the free list.
    first_free: PacketId,
}

impl PacketArena {
    pub(crate) const fn new() -> Self {
        Self { packets: Vec::new(), first_free: PacketId::NONE }
    }

    pub(crate) fn insert(&mut self, packet: Packet) -> PacketId {
        if self.first_free == PacketId::NONE {
            let number = u32::try_from(self.packets.len()).expect("fewer than 2^32 packets exist at once");
            self.packets.push(packet);
            return PacketId(number);
        }
        let id = self.first_free;
        self.first_free = self[id].next;
        self[id] = packet;
        id
    }

    pub(crate) fn remove(&mut self, id: PacketId) {
        let first_free = self.first_free;
        let packet = &mut self[id];
        packet.size = FREE;
        packet.next = first_free;
        self.first_free = id;
    }

    /// Prefetches packets. The loads are independent, so the memory system can overlap them.
    #[inline]
    pub(crate) fn prefetch(&self, ids: impl Iterator<Item = PacketId>) {
        core::hint::black_box(ids.fold(0, |sizes, id| sizes ^ self[id].size));
    }

    /// Iterates over all packets in use.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter().filter(|packet| packet.size != FREE)
    }
}

impl core::ops::Index<PacketId> for PacketArena {
    type Output = Packet;
    #[inline]
    fn index(&self, id: PacketId) -> &Packet {
        &self.packets[id.0 as usize]
    }
}

impl core::ops::IndexMut<PacketId> for PacketArena {
    #[inline]
    fn index_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.packets[id.0 as usize]
    }
}

/// A FIFO queue of packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo {
    head: PacketId,
    tail: PacketId,
}

impl Fifo {
    pub(crate) const EMPTY: Self = Self { head: PacketId::NONE, tail: PacketId::NONE };

    pub(crate) fn is_empty(&self) -> bool {
        self.head == PacketId::NONE
    }

    /// Returns the packet at the head of the queue.
    pub(crate) fn front(&self) -> Option<PacketId> {
        (self.head != PacketId::NONE).then_some(self.head)
    }

    /// Returns the packet at the tail of the queue.
    pub(crate) fn back(&self) -> Option<PacketId> {
        (self.head != PacketId::NONE).then_some(self.tail)
    }

    /// Returns the packet behind packet `id`, which is in the queue.
    pub(crate) fn following(&self, arena: &PacketArena, id: PacketId) -> Option<PacketId> {
        (id != self.tail).then(|| arena[id].next)
    }

    pub(crate) fn push(&mut self, arena: &mut PacketArena, id: PacketId) {
        arena[id].next = PacketId::NONE;
        if self.head == PacketId::NONE {
            self.head = id;
        } else {
            arena[self.tail].next = id;
        }
        self.tail = id;
    }

    pub(crate) fn pop(&mut self, arena: &PacketArena) -> Option<PacketId> {
        if self.head == PacketId::NONE {
            return None;
        }
        let id = self.head;
        self.head = arena[id].next;
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifo_keeps_its_order_and_the_arena_reuses_freed_slots() {
        let mut arena = PacketArena::new();
        let mut queue = Fifo::EMPTY;
        for seq in 0..3 {
            let id = arena.insert(Packet { seq, size: 1, ..Packet::EMPTY });
            queue.push(&mut arena, id);
        }
        let first = queue.pop(&arena).expect("the queue has three packets");
        assert_eq!(arena[first].seq, 0);
        arena.remove(first);
        assert_eq!(arena.live().count(), 2);
        let reused = arena.insert(Packet { seq: 3, size: 1, ..Packet::EMPTY });
        assert_eq!(reused, first);
        queue.push(&mut arena, reused);
        let order: Vec<u32> = core::iter::from_fn(|| queue.pop(&arena)).map(|id| arena[id].seq).collect();
        assert_eq!(order, [1, 2, 3]);
        assert!(queue.is_empty());
    }

    #[test]
    fn data_and_flagged_datagrams_are_ecn_capable() {
        for (tag, kind) in (0..=u8::MAX).map(|bits| (PacketTag(bits), KINDS[usize::from(bits & 7)])) {
            let expected = match kind {
                PacketKind::Data => true,
                PacketKind::Datagram => tag.0 & FLAG != 0,
                _ => false,
            };
            assert_eq!(tag.is_ecn_capable(), expected, "{kind:?} {:#b}", tag.0);
        }
    }

    #[test]
    fn tag_fields_are_independent() {
        for kind in KINDS {
            for priority in 0..8 {
                let mut tag = PacketTag::new(kind, priority);
                assert!(!tag.is_marked() && !tag.has_cwr());
                tag.set_marked(true);
                assert!(tag.is_marked() && !tag.has_cwr());
                tag.set_cwr(true);
                tag.set_marked(false);
                assert!(!tag.is_marked() && tag.has_cwr());
                assert_eq!((tag.kind(), tag.priority()), (kind, priority));
            }
        }
    }
}
