//! The bytes of the datagrams of real transport stacks.

/// The slot of a datagram's bytes in a [`DatagramArena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatagramSlot(u32);

impl DatagramSlot {
    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    pub(crate) const fn get(self) -> u32 {
        self.0
    }

    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The bytes of all datagrams in a shard. A freed slot keeps its buffer for the next datagram.
#[derive(Debug, Default)]
pub(crate) struct DatagramArena {
    buffers: Vec<Vec<u8>>,
    free: Vec<DatagramSlot>,
}

impl DatagramArena {
    /// Allocates a slot with an empty buffer.
    pub(crate) fn allocate(&mut self) -> DatagramSlot {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        let slot = u32::try_from(self.buffers.len()).map(DatagramSlot);
        self.buffers.push(Vec::new());
        slot.expect("fewer than 2^32 packets exist at once")
    }

    pub(crate) fn free(&mut self, slot: DatagramSlot) {
        self.buffers[slot.index()].clear();
        self.free.push(slot);
    }

    pub(crate) fn bytes(&self, slot: DatagramSlot) -> &[u8] {
        &self.buffers[slot.index()]
    }

    pub(crate) fn buffer_mut(&mut self, slot: DatagramSlot) -> &mut Vec<u8> {
        &mut self.buffers[slot.index()]
    }

    /// Copies one datagram of `len` bytes from the front of `bytes` and removes it from `bytes`.
    pub(crate) fn import(&mut self, bytes: &mut &[u8], len: usize) -> DatagramSlot {
        let (datagram, remaining) = bytes.split_at(len);
        *bytes = remaining;
        let slot = self.allocate();
        self.buffer_mut(slot).extend_from_slice(datagram);
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_slot_keeps_its_buffer_and_starts_empty() {
        let mut arena = DatagramArena::default();
        let (first, second) = (arena.allocate(), arena.allocate());
        arena.buffer_mut(first).extend_from_slice(b"first");
        arena.buffer_mut(second).extend_from_slice(b"second");
        arena.free(first);
        let reused = arena.import(&mut b"third and more".as_slice(), 5);
        assert_eq!(reused, first);
        assert_eq!((arena.bytes(first), arena.bytes(second)), (b"third".as_slice(), b"second".as_slice()));
    }
}
