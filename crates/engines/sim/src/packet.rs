//! Packets: 64 bytes each, one cache line, in one arena. A queue is a list through their `next`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// No packet.
pub(crate) const NONE: u32 = u32::MAX;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Data,
    /// What it acknowledges has arrived.
    Ack,
    /// What it names is missing: send again from there.
    Nack,
    /// A congestion notification of its own.
    Notice,
    /// Flow control between neighbours: stop, or go on.
    Pause,
    /// Data that has arrived and waits to be acknowledged with others.
    Held,
    /// Not in use.
    Free,
}

const KINDS: [Kind; 8] =
    [Kind::Data, Kind::Ack, Kind::Nack, Kind::Notice, Kind::Pause, Kind::Held, Kind::Free, Kind::Free];

/// Kind, mark, one more bit and priority of a packet in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(transparent)]
pub(crate) struct Tag(u8);

impl Tag {
    pub(crate) const fn new(kind: Kind, priority: u8) -> Self {
        Self(kind as u8 | priority << 5)
    }

    #[inline]
    pub(crate) const fn kind(self) -> Kind {
        KINDS[(self.0 & 7) as usize]
    }

    /// The same with another kind.
    pub(crate) const fn with_kind(self, kind: Kind) -> Self {
        Self(self.0 & !7 | kind as u8)
    }

    #[inline]
    pub(crate) const fn priority(self) -> u8 {
        self.0 >> 5
    }

    /// Data: it carries a congestion mark. Reply: it tells of one.
    #[inline]
    pub(crate) const fn is_marked(self) -> bool {
        self.0 & 8 != 0
    }

    #[inline]
    pub(crate) const fn set_marked(&mut self, marked: bool) {
        self.0 = self.0 & !8 | (marked as u8) << 3;
    }

    /// Data: the sender has reacted to a mark. Reply: the circuit of its connection stands. Pause: stop.
    #[inline]
    pub(crate) const fn has_flag(self) -> bool {
        self.0 & 16 != 0
    }

    #[inline]
    pub(crate) const fn set_flag(&mut self, flag: bool) {
        self.0 = self.0 & !16 | (flag as u8) << 4;
    }
}

/// A packet on its way. Times in picoseconds, delays in nanoseconds.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub(crate) struct Packet {
    /// Data: when its first bit left the sender. Reply: the same of the packet it answers, later by the time it waited at the
    /// receiver, so that the difference to its arrival is the network's alone.
    pub(crate) sent_at: u64,
    /// When it entered the queue it is in.
    pub(crate) enqueued_at: u64,
    /// The packet behind it in a queue, or in the list of free ones.
    pub(crate) next: u32,
    pub(crate) connection: u32,
    /// Data: its number. Reply: the number of the packet that caused it.
    pub(crate) seq: u32,
    /// Reply: every packet below this has arrived.
    pub(crate) cumulative: u32,
    /// Where it goes: rack, place in the rack, pod.
    pub(crate) to_rack: u32,
    pub(crate) to_place: u16,
    pub(crate) to_pod: u16,
    /// What its path is chosen by.
    pub(crate) entropy: u32,
    /// The largest hop delay of its own path so far.
    pub(crate) own_delay: u32,
    /// Reply: what the data packet carried. Opaque on the way back.
    pub(crate) reflected_delay: u32,
    /// Its hop records in the side arena, or [`NONE`].
    pub(crate) records: u32,
    /// Bytes on the wire.
    pub(crate) size: u16,
    /// The port by which it came into the switch that it is in.
    pub(crate) in_port: u16,
    /// Hops that measured on its own path, and on that of the data packet.
    pub(crate) own_hops: u8,
    pub(crate) reflected_hops: u8,
    /// Switches it has passed; in a reply, those of the data packet.
    pub(crate) switches: u8,
    pub(crate) tag: Tag,
}

const _: () = assert!(size_of::<Packet>() == 64, "a packet is one cache line");

impl Packet {
    /// An empty data packet.
    pub(crate) const EMPTY: Self = Self {
        sent_at: 0,
        enqueued_at: 0,
        next: NONE,
        connection: 0,
        seq: 0,
        cumulative: 0,
        to_rack: 0,
        to_place: 0,
        to_pod: 0,
        entropy: 0,
        own_delay: 0,
        reflected_delay: 0,
        records: NONE,
        size: 0,
        in_port: 0,
        own_hops: 0,
        reflected_hops: 0,
        switches: 0,
        tag: Tag::new(Kind::Data, 0),
    };
}

/// All packets there are: a free one is taken from the top of the pile, where the cache is warm.
#[derive(Debug)]
pub(crate) struct Arena {
    packets: Vec<Packet>,
    free: u32,
}

impl Arena {
    pub(crate) const fn new() -> Self {
        Self { packets: Vec::new(), free: NONE }
    }

    pub(crate) fn add(&mut self, packet: Packet) -> u32 {
        if self.free == NONE {
            let id = u32::try_from(self.packets.len()).expect("fewer than 2^32 packets at once");
            self.packets.push(packet);
            return id;
        }
        let id = self.free;
        self.free = self[id].next;
        self[id] = packet;
        id
    }

    pub(crate) fn remove(&mut self, id: u32) {
        let free = self.free;
        let packet = &mut self[id];
        packet.tag = Tag::new(Kind::Free, 0);
        packet.next = free;
        self.free = id;
    }

    /// Brings packets into the cache before they are needed: loads of which none waits for another, so that together they take
    /// little longer than one.
    #[inline]
    pub(crate) fn touch(&self, ids: impl Iterator<Item = u32>) {
        core::hint::black_box(ids.fold(0, |all, id| all ^ self[id].size));
    }

    /// Packets in use.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter().filter(|packet| packet.tag.kind() != Kind::Free)
    }
}

impl core::ops::Index<u32> for Arena {
    type Output = Packet;
    #[inline]
    fn index(&self, id: u32) -> &Packet {
        &self.packets[id as usize]
    }
}

impl core::ops::IndexMut<u32> for Arena {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut Packet {
        &mut self.packets[id as usize]
    }
}

/// A first-in, first-out list of packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo {
    head: u32,
    tail: u32,
}

impl Fifo {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE };

    pub(crate) const fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// The packet that leaves next.
    pub(crate) fn first(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    pub(crate) fn push(&mut self, arena: &mut Arena, id: u32) {
        arena[id].next = NONE;
        if self.head == NONE {
            self.head = id;
        } else {
            arena[self.tail].next = id;
        }
        self.tail = id;
    }

    pub(crate) fn pop(&mut self, arena: &Arena) -> Option<u32> {
        if self.head == NONE {
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
    fn a_queue_keeps_its_order_and_freed_packets_are_used_again() {
        let mut arena = Arena::new();
        let mut queue = Fifo::EMPTY;
        for seq in 0..3 {
            let id = arena.add(Packet { seq, ..Packet::EMPTY });
            queue.push(&mut arena, id);
        }
        let first = queue.pop(&arena).expect("three are in");
        assert_eq!(arena[first].seq, 0);
        arena.remove(first);
        assert_eq!(arena.live().count(), 2);
        let again = arena.add(Packet { seq: 3, ..Packet::EMPTY });
        assert_eq!(again, first);
        queue.push(&mut arena, again);
        let order: Vec<u32> = core::iter::from_fn(|| queue.pop(&arena)).map(|id| arena[id].seq).collect();
        assert_eq!(order, [1, 2, 3]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_tag_holds_four_things_apart() {
        for kind in [Kind::Data, Kind::Ack, Kind::Nack, Kind::Notice, Kind::Pause, Kind::Held, Kind::Free] {
            for priority in 0..8 {
                let mut tag = Tag::new(kind, priority);
                assert!(!tag.is_marked() && !tag.has_flag());
                tag.set_marked(true);
                assert!(tag.is_marked() && !tag.has_flag());
                tag.set_flag(true);
                tag.set_marked(false);
                assert!(!tag.is_marked() && tag.has_flag());
                assert_eq!((tag.kind(), tag.priority()), (kind, priority));
            }
        }
    }
}
