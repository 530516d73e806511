//! Packets: 64 bytes each, one cache line, in one arena. A queue is a list through their `next`.

/// No packet.
pub(crate) const NONE: u32 = u32::MAX;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Data,
    Ack,
}

/// A packet on its way. Times in picoseconds, delays in nanoseconds.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Packet {
    /// Data: when its first bit left the sender. ACK: the same of the packet it acknowledges, later by the time the ACK
    /// waited at the receiver, so that the difference to its arrival is the network's alone.
    pub(crate) sent_at: u64,
    /// When it entered the queue it is in.
    pub(crate) enqueued_at: u64,
    /// The packet behind it in a queue, or in the list of free ones.
    pub(crate) next: u32,
    pub(crate) connection: u32,
    /// Data: its number. ACK: the number of the packet that caused it.
    pub(crate) seq: u32,
    /// ACK: every packet below this has arrived.
    pub(crate) cumulative: u32,
    /// Where it goes: rack, place in the rack, pod.
    pub(crate) to_rack: u32,
    pub(crate) to_place: u16,
    pub(crate) to_pod: u16,
    /// What its path is chosen by.
    pub(crate) entropy: u32,
    /// The largest hop delay of its own path so far, and how many hops measured.
    pub(crate) own_delay: u32,
    /// ACK: what the data packet carried. Opaque on the way back.
    pub(crate) reflected_delay: u32,
    /// Bytes on the wire.
    pub(crate) size: u16,
    pub(crate) own_hops: u8,
    pub(crate) reflected_hops: u8,
    /// Switches it has passed; in an ACK, those of the data packet.
    pub(crate) switches: u8,
    pub(crate) kind: Kind,
    /// It carries a congestion mark (data), or echoes one (ACK).
    pub(crate) marked: bool,
    /// Fills the cache line.
    pub(crate) _unused: u8,
    /// Its hop records in the side arena, or [`NONE`].
    pub(crate) records: u32,
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
        size: 0,
        own_hops: 0,
        reflected_hops: 0,
        switches: 0,
        kind: Kind::Data,
        marked: false,
        _unused: 0,
        records: NONE,
    };
}

/// All packets there are: a free one is taken from the top of the pile, where the cache is warm.
#[derive(Debug)]
pub(crate) struct Arena {
    packets: Vec<Packet>,
    free: u32,
    live: u64,
}

impl Arena {
    pub(crate) const fn new() -> Self {
        Self { packets: Vec::new(), free: NONE, live: 0 }
    }

    pub(crate) fn add(&mut self, packet: Packet) -> u32 {
        self.live += 1;
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
        self.live -= 1;
        let free = self.free;
        self[id].next = free;
        self.free = id;
    }

    /// Brings a packet into the cache before it is needed: a load that nothing waits for.
    #[inline]
    pub(crate) fn touch(&self, id: u32) {
        core::hint::black_box(self[id].size);
    }

    /// Packets in use.
    pub(crate) const fn live(&self) -> u64 {
        self.live
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
        assert_eq!(arena.live(), 2);
        let again = arena.add(Packet { seq: 3, ..Packet::EMPTY });
        assert_eq!(again, first);
        queue.push(&mut arena, again);
        let order: Vec<u32> = core::iter::from_fn(|| queue.pop(&arena)).map(|id| arena[id].seq).collect();
        assert_eq!(order, [1, 2, 3]);
        assert!(queue.is_empty());
    }
}
