//! Parses received datagrams, removes their prefixes, and passes the telemetry to the flows.
//!
//! The kernel may deliver several datagrams as one buffer (GRO):
//!
//! ```text
//!   | prefix | packet 1 | prefix | packet 2 | prefix | pack |     stride 1468
//!   | packet 1 | packet 2 | pack |                                stride 1452
//! ```
//!
//! quinn reads from the start of the buffer, so the parser moves the packets forward. All datagrams in a buffer
//! come from one address, but they may belong to several connections.

use super::address::{AddressHasher, Fingerprint};
use super::config::PlainPeers;
use super::flow::Flow;
use super::flows::FlowTable;
use super::handshake::LongHeader;
use super::metrics::BatchCounts;
use super::peers::{Encapsulation, PeerTable};
use super::prefix::{NO_TAG, PREFIX_BYTES, Prefix, Tag, has_prefix};
use super::stamp::Stamp;
use core::net::SocketAddr;
use std::sync::Arc;

/// Parses a batch of received datagrams.
#[derive(Debug)]
pub(crate) struct DatagramParser<'a> {
    pub(crate) table: &'a FlowTable,
    pub(crate) peers: &'a PeerTable,
    pub(crate) address_hasher: &'a AddressHasher,
    pub(crate) plain_peers: PlainPeers,
    pub(crate) counts: BatchCounts,
    /// The flows whose handshakes this batch answers.
    pub(crate) answered: Vec<Arc<Flow>>,
}

/// The QUIC packets that remain in a buffer after [`DatagramParser::decap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketBuffer {
    /// The number of bytes, counted from the start of the buffer.
    pub(crate) length: usize,
    /// The length of every packet except the last. It is at least one.
    pub(crate) stride: usize,
}

/// The result of parsing a single datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatagramKind {
    /// Plain QUIC.
    Plain,
    /// QUIC with a prefix.
    Prefixed,
    /// A refused or malformed datagram.
    Dropped,
}

/// The telemetry from consecutive datagrams with the same tags.
struct TagRun<'a> {
    sender_tag: Tag,
    receiver_tag: Tag,
    flow: Option<&'a Arc<Flow>>,
    shim: Option<Stamp>,
    echoed: Option<Stamp>,
}

impl TagRun<'_> {
    fn deliver(&self) {
        let Some(flow) = self.flow else { return };
        flow.echo.add(self.sender_tag, self.shim);
        if let Some(stamp) = self.shim {
            flow.reverse.add(stamp);
        }
        if let Some(stamp) = self.echoed {
            flow.echoed.add(stamp);
        }
    }
}

impl<'a> DatagramParser<'a> {
    /// Removes the prefix from every datagram in a buffer. Every datagram except the last is `stride` bytes
    /// long.
    pub(crate) fn decap(&mut self, bytes: &mut [u8], stride: usize, address: SocketAddr) -> PacketBuffer {
        // quinn splits the buffer into packets of `stride` bytes. With a stride of zero, it would loop forever.
        let stride = stride.max(1);
        let peer = self.address_hasher.fingerprint(address);
        if has_prefix(bytes) || self.has_corrupted_shim(bytes, peer) {
            self.decap_prefixed(bytes, stride, peer)
        } else {
            self.accept_plain(bytes.len(), stride, peer)
        }
    }

    /// Parses a single datagram and leaves its bytes in place.
    pub(crate) fn parse_datagram(&mut self, datagram: &[u8], address: SocketAddr) -> DatagramKind {
        let peer = self.address_hasher.fingerprint(address);
        if !has_prefix(datagram) && !self.has_corrupted_shim(datagram, peer) {
            self.counts.plain += 1;
            self.peers.record(peer, Encapsulation::Plain);
            if self.plain_peers == PlainPeers::Refuse {
                self.counts.refused += 1;
                return DatagramKind::Dropped;
            }
            return DatagramKind::Plain;
        }
        let mut run = None;
        if datagram.len() <= PREFIX_BYTES || !self.parse_prefix(datagram, peer, &mut run) {
            self.counts.malformed += 1;
            return DatagramKind::Dropped;
        }
        self.counts.with_prefix += 1;
        if let Some(run) = run {
            run.deliver();
        }
        DatagramKind::Prefixed
    }

    fn accept_plain(&mut self, length: usize, stride: usize, peer: Fingerprint) -> PacketBuffer {
        let datagrams = length.div_ceil(stride) as u64;
        self.counts.plain += datagrams;
        self.peers.record(peer, Encapsulation::Plain);
        if self.plain_peers == PlainPeers::Refuse {
            self.counts.refused += datagrams;
            return PacketBuffer { length: 0, stride };
        }
        PacketBuffer { length, stride }
    }

    /// Returns whether the datagram has a prefix whose shim was overwritten. The tags still identify the flow:
    /// a plain QUIC packet from the same peer matches these 68 bits with probability 2^-68.
    fn has_corrupted_shim(&self, bytes: &[u8], peer: Fingerprint) -> bool {
        let Ok(prefix) = Prefix::parse(bytes) else { return false };
        prefix.reflection.is_some()
            && prefix.sender_tag != NO_TAG
            && self
                .flow_by_tag(prefix.receiver_tag, peer)
                .is_some_and(|flow| flow.echo.tag() == prefix.sender_tag)
    }

    fn flow_by_tag(&self, tag: Tag, peer: Fingerprint) -> Option<&'a Arc<Flow>> {
        self.table.by_tag(tag).filter(|flow| flow.remote() == peer)
    }

    fn decap_prefixed(&mut self, bytes: &mut [u8], stride: usize, peer: Fingerprint) -> PacketBuffer {
        let (mut start, mut length) = (0, 0);
        let mut run: Option<TagRun<'a>> = None;
        let mut last_prefix = None;
        while start < bytes.len() {
            let end = (start + stride).min(bytes.len());
            let datagram = &bytes[start..end];
            let prefix = datagram.first_chunk::<PREFIX_BYTES>().copied();
            // Most datagrams in a batch carry the same prefix. A repeated prefix is not parsed again.
            let is_repeated = prefix.is_some() && prefix == last_prefix;
            if datagram.len() > PREFIX_BYTES && (is_repeated || self.parse_prefix(datagram, peer, &mut run)) {
                self.counts.with_prefix += 1;
                // Corrupted shims are not cached, so each of them is counted.
                last_prefix = prefix.filter(|prefix| has_prefix(prefix));
                bytes.copy_within(start + PREFIX_BYTES..end, length);
                length += end - start - PREFIX_BYTES;
            } else {
                // The datagram is too short, or it is plain QUIC among prefixed datagrams. Dropping it keeps
                // the stride uniform.
                self.counts.malformed += 1;
            }
            start = end;
        }
        if let Some(run) = run {
            run.deliver();
        }
        PacketBuffer { length, stride: stride.saturating_sub(PREFIX_BYTES).max(1) }
    }

    /// Parses the prefix of a datagram. Returns false if the datagram has none.
    fn parse_prefix(&mut self, datagram: &[u8], peer: Fingerprint, run: &mut Option<TagRun<'a>>) -> bool {
        let Ok(prefix) = Prefix::parse(datagram) else { return false };
        if prefix.shim.is_none() {
            if !self.has_corrupted_shim(datagram, peer) {
                return false;
            }
            self.counts.corrupted += 1;
        }
        self.add_to_run(&prefix, &datagram[PREFIX_BYTES..], peer, run);
        true
    }

    fn add_to_run(
        &mut self,
        prefix: &Prefix,
        packet: &[u8],
        peer: Fingerprint,
        run: &mut Option<TagRun<'a>>,
    ) {
        let shim = prefix.shim.as_ref().and_then(Stamp::from_shim);
        let echoed = prefix.reflection.as_ref().and_then(Stamp::from_reflection);
        let Prefix { sender_tag, receiver_tag, .. } = *prefix;
        match run {
            Some(run) if run.sender_tag == sender_tag && run.receiver_tag == receiver_tag => {
                run.shim = run.shim.max(shim);
                run.echoed = run.echoed.max(echoed);
            }
            _ => {
                if let Some(previous) = run.take() {
                    previous.deliver();
                }
                let flow = self.find_flow(prefix, packet, peer);
                *run = Some(TagRun { sender_tag, receiver_tag, flow, shim, echoed });
            }
        }
    }

    /// Finds a datagram's flow by its receiver tag or, for a handshake packet, by its connection ID.
    fn find_flow(&mut self, prefix: &Prefix, packet: &[u8], peer: Fingerprint) -> Option<&'a Arc<Flow>> {
        if prefix.receiver_tag == NO_TAG {
            self.peers.record(peer, Encapsulation::Shim);
            if prefix.sender_tag == NO_TAG {
                return None;
            }
            let header = LongHeader::parse(packet)?;
            let flow = self.table.by_handshake(&header.destination).filter(|flow| flow.remote() == peer)?;
            self.answered.push(Arc::clone(flow));
            return Some(flow);
        }
        let Some(flow) = self.flow_by_tag(prefix.receiver_tag, peer) else {
            self.counts.unknown_tag += 1;
            return None;
        };
        if prefix.sender_tag == NO_TAG {
            return None;
        }
        if !flow.shim_negotiated() {
            self.peers.record(peer, Encapsulation::Shim);
            self.answered.push(Arc::clone(flow));
        }
        Some(flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::flows::FlowRegistry;
    use poseidon_types::Nanos;
    use poseidon_wire::{reflection, shim};

    const PACKET: usize = 100;

    struct Fixture {
        flows: FlowRegistry,
        peers: PeerTable,
        address_hasher: AddressHasher,
        address: SocketAddr,
    }

    impl Fixture {
        fn new() -> Self {
            Self {
                flows: FlowRegistry::new(),
                peers: PeerTable::new(),
                address_hasher: AddressHasher::new(),
                address: SocketAddr::from(([10, 0, 0, 1], 65_053)),
            }
        }

        fn open_flow(&self) -> Arc<Flow> {
            let flow = self.flows.open();
            self.flows.change_remote(&flow, self.address_hasher.fingerprint(self.address), self.address);
            flow
        }

        fn decap(
            &self,
            plain_peers: PlainPeers,
            bytes: &mut [u8],
            stride: usize,
        ) -> (BatchCounts, PacketBuffer) {
            let table = self.flows.read();
            let mut parser = DatagramParser {
                table: &table,
                peers: &self.peers,
                address_hasher: &self.address_hasher,
                plain_peers,
                counts: BatchCounts::default(),
                answered: Vec::new(),
            };
            let packets = parser.decap(bytes, stride, self.address);
            (parser.counts, packets)
        }
    }

    /// Returns a datagram with one hop in the shim and one hop in the reflection. Every byte of its packet is
    /// `fill`.
    fn datagram(sender_tag: Tag, receiver_tag: Tag, delay_codes: (u16, u16), fill: u8) -> Vec<u8> {
        let shim = shim::Repr { int_hops: 1, max_hop_delay: delay_codes.0, ..shim::Repr::default() };
        let reflection =
            reflection::Repr { int_hops: 1, max_hop_delay: delay_codes.1, ..reflection::Repr::default() };
        let prefix = Prefix { shim: Some(shim), reflection: Some(reflection), sender_tag, receiver_tag };
        [prefix.emit().as_slice(), &[fill; PACKET]].concat()
    }

    /// Takes the delay that the peer echoed to the flow.
    fn take_echoed(flow: &Flow) -> Option<u64> {
        flow.echoed.take().and_then(|stamp| stamp.telemetry().delay()).map(Nanos::get)
    }

    #[test]
    fn prefixes_are_removed_and_the_flow_receives_the_largest_delays() {
        let fixture = Fixture::new();
        let flow = fixture.open_flow();
        let mut bytes = [
            datagram(9, flow.tag(), (5, 1), 1),
            datagram(9, flow.tag(), (7, 4), 2),
            datagram(9, flow.tag(), (6, 2), 3)[..PREFIX_BYTES + 28].to_vec(),
        ]
        .concat();
        let (counts, packets) = fixture.decap(PlainPeers::Serve, &mut bytes, PACKET + PREFIX_BYTES);
        assert_eq!(packets, PacketBuffer { length: 2 * PACKET + 28, stride: PACKET });
        assert_eq!(bytes[..PACKET], [1; PACKET]);
        assert_eq!(bytes[PACKET..2 * PACKET], [2; PACKET]);
        assert_eq!(bytes[2 * PACKET..packets.length], [3; 28]);
        assert_eq!(counts, BatchCounts { with_prefix: 3, ..BatchCounts::default() });
        assert_eq!(take_echoed(&flow), Some(4 << 8));
        let echo = flow.echo.take();
        assert_eq!(echo.tag, 9);
        assert_eq!(echo.stamp.map(|stamp| stamp.reflection().max_hop_delay), Some(7));
    }

    #[test]
    fn two_connections_in_one_buffer_stay_separate() {
        let fixture = Fixture::new();
        let (a, b) = (fixture.open_flow(), fixture.open_flow());
        let mut bytes = [
            datagram(1, a.tag(), (0, 10), 1),
            datagram(2, b.tag(), (0, 20), 1),
            datagram(1, a.tag(), (0, 11), 1),
        ]
        .concat();
        fixture.decap(PlainPeers::Serve, &mut bytes, PACKET + PREFIX_BYTES);
        assert_eq!((take_echoed(&a), take_echoed(&b)), (Some(11 << 8), Some(20 << 8)));
    }

    #[test]
    fn telemetry_from_another_address_is_ignored() {
        let mut fixture = Fixture::new();
        let flow = fixture.open_flow();
        fixture.address.set_port(1);
        let mut bytes = datagram(9, flow.tag(), (5, 5), 1);
        let (counts, packets) = fixture.decap(PlainPeers::Serve, &mut bytes, PREFIX_BYTES + PACKET);
        // The packet is delivered, because the peer may have migrated. QUIC authenticates it.
        assert_eq!(packets.length, PACKET);
        assert_eq!(counts.unknown_tag, 1);
        assert_eq!((take_echoed(&flow), flow.shim_negotiated()), (None, false));
    }

    /// The sender guessed half of the tag, or it uses 16-bit tags.
    #[test]
    fn partly_correct_tag_is_ignored() {
        let fixture = Fixture::new();
        let flow = fixture.open_flow();
        for guess in [flow.tag() ^ 1, flow.tag() & 0xffff, flow.tag() >> 16] {
            let mut bytes = datagram(9, guess, (5, 5), 1);
            let (counts, packets) = fixture.decap(PlainPeers::Serve, &mut bytes, PREFIX_BYTES + PACKET);
            assert_eq!((counts.unknown_tag, packets.length), (1, PACKET));
            assert_eq!((take_echoed(&flow), flow.shim_negotiated()), (None, false));
        }
    }

    #[test]
    fn corrupted_shim_loses_its_stamp_but_not_the_packet() {
        let fixture = Fixture::new();
        let flow = fixture.open_flow();
        let mut first = datagram(9, flow.tag(), (5, 5), 1);
        fixture.decap(PlainPeers::Serve, &mut first, PREFIX_BYTES + PACKET);
        take_echoed(&flow);
        let mut bytes = datagram(9, flow.tag(), (5, 6), 1);
        bytes[..4].copy_from_slice(&[0xff; 4]);
        let (counts, packets) = fixture.decap(PlainPeers::Serve, &mut bytes, PREFIX_BYTES + PACKET);
        assert_eq!((counts.corrupted, packets.length), (1, PACKET));
        assert_eq!(take_echoed(&flow), Some(6 << 8));
    }

    #[test]
    fn plain_quic_is_accepted_or_refused() {
        let fixture = Fixture::new();
        let mut bytes = [0x40; 3 * PACKET];
        let (counts, packets) = fixture.decap(PlainPeers::Serve, &mut bytes, PACKET);
        assert_eq!(counts.plain, 3);
        assert_eq!(packets, PacketBuffer { length: 3 * PACKET, stride: PACKET });
        let peer = fixture.address_hasher.fingerprint(fixture.address);
        assert_eq!(fixture.peers.encapsulation(peer), Some(Encapsulation::Plain));
        let (counts, packets) = fixture.decap(PlainPeers::Refuse, &mut bytes, PACKET);
        assert_eq!((counts.refused, packets.length), (3, 0));
    }

    #[test]
    fn random_bytes_with_random_strides_do_not_panic() {
        let fixture = Fixture::new();
        let flow = fixture.open_flow();
        let mut state = 1_u64;
        let mut random = move || {
            state = poseidon_types::random::splitmix64(state);
            state
        };
        for _ in 0..20_000 {
            let length = (random() % 200) as usize;
            let mut bytes: Vec<u8> = (0..length).map(|_| random().to_le_bytes()[0]).collect();
            if let Some(first) = bytes.first_mut() {
                *first = (*first & 0x0f) | 0x10;
            }
            if random().is_multiple_of(2) && length >= PREFIX_BYTES {
                bytes[12..16].copy_from_slice(&flow.tag().to_be_bytes());
            }
            let stride = (random() % 64) as usize;
            let (_, packets) = fixture.decap(PlainPeers::Serve, &mut bytes, stride);
            assert!(packets.length <= length && packets.stride > 0);
        }
    }
}
