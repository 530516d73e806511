//! The network device of an endpoint: a packet that has arrived, and packets to send.

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use std::collections::VecDeque;

/// A device for IP packets.
#[derive(Debug)]
pub(super) struct PacketQueue {
    mtu: usize,
    incoming: Vec<u8>,
    has_incoming: bool,
    outgoing: VecDeque<Vec<u8>>,
    /// An empty buffer to use again.
    spare: Vec<u8>,
}

impl PacketQueue {
    pub(super) const fn new(mtu: usize) -> Self {
        Self { mtu, incoming: Vec::new(), has_incoming: false, outgoing: VecDeque::new(), spare: Vec::new() }
    }

    /// Adds the packet that the interface receives next.
    pub(super) fn push_incoming(&mut self, packet: &[u8]) {
        self.incoming.clear();
        self.incoming.extend_from_slice(packet);
        self.has_incoming = true;
    }

    /// Returns whether no packet waits to be sent.
    pub(super) fn is_empty(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Appends the next packet to `buffer`. Returns whether there was one.
    pub(super) fn pop_outgoing(&mut self, buffer: &mut Vec<u8>) -> bool {
        let Some(mut packet) = self.outgoing.pop_front() else { return false };
        buffer.extend_from_slice(&packet);
        packet.clear();
        self.spare = packet;
        true
    }
}

impl Device for PacketQueue {
    type RxToken<'a> = Incoming<'a>;
    type TxToken<'a> = Outgoing<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Incoming<'_>, Outgoing<'_>)> {
        if !core::mem::take(&mut self.has_incoming) {
            return None;
        }
        let outgoing = Outgoing { queue: &mut self.outgoing, spare: &mut self.spare };
        Some((Incoming { packet: &self.incoming }, outgoing))
    }

    /// Accepts a packet only if no other packet waits, so that the socket decides late what it sends.
    fn transmit(&mut self, _: Instant) -> Option<Outgoing<'_>> {
        self.outgoing.is_empty().then_some(Outgoing { queue: &mut self.outgoing, spare: &mut self.spare })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

pub(super) struct Incoming<'a> {
    packet: &'a [u8],
}

impl RxToken for Incoming<'_> {
    fn consume<R, F>(self, process: F) -> R
    where
        F: FnOnce(&[u8]) -> R,
    {
        process(self.packet)
    }
}

pub(super) struct Outgoing<'a> {
    queue: &'a mut VecDeque<Vec<u8>>,
    spare: &'a mut Vec<u8>,
}

impl TxToken for Outgoing<'_> {
    fn consume<R, F>(self, length: usize, write: F) -> R
    where
        F: FnOnce(&mut [u8]) -> R,
    {
        let mut packet = core::mem::take(self.spare);
        packet.resize(length, 0);
        let result = write(&mut packet);
        self.queue.push_back(packet);
        result
    }
}
