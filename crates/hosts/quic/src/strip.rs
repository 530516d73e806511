//! Takes the prefixes off a batch of datagrams that came as one message (GRO), and hands what they say to their flows.
//!
//! ```text
//!   | prefix | packet 1 | prefix | packet 2 | prefix | pack |      stride 1464, length 4392 - …
//!   | packet 1 | packet 2 | pack |                                stride 1452
//! ```
//!
//! quinn reads from the first byte, so packets are moved up. All datagrams of a message came from one address, but not always for one connection.

use crate::address::{Fingerprint, Fingerprints};
use crate::config::PlainPeers;
use crate::flow::Flow;
use crate::flows::Table;
use crate::handshake::LongHeader;
use crate::metrics::Tally;
use crate::peers::{Form, Peers};
use crate::prefix::{NOBODY, PREFIX_BYTES, Prefix, Tag, has_prefix};
use crate::stamp::Stamp;
#[cfg(feature = "s2n")]
use core::net::SocketAddr;
use quinn::udp::RecvMeta;
use std::sync::Arc;

/// What datagrams are compared with while a batch is gone through.
#[derive(Debug)]
pub(crate) struct Stripper<'a> {
    pub(crate) table: &'a Table,
    pub(crate) peers: &'a Peers,
    pub(crate) prints: &'a Fingerprints,
    pub(crate) plain_peers: PlainPeers,
    pub(crate) tally: Tally,
    /// Flows whose handshake was answered just now.
    pub(crate) answered: Vec<Arc<Flow>>,
}

/// What a datagram is.
#[cfg(feature = "s2n")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Plain QUIC.
    Plain,
    /// QUIC behind a prefix.
    Prefixed,
    /// Nothing to read.
    Nothing,
}

/// What datagrams under the same two tags said together.
struct Run<'a> {
    mine: Tag,
    yours: Tag,
    flow: Option<&'a Arc<Flow>>,
    shim: Option<Stamp>,
    told: Option<Stamp>,
}

impl Run<'_> {
    fn hand_over(&self) {
        let Some(flow) = self.flow else { return };
        flow.heard.add(self.mine, self.shim);
        if let Some(stamp) = self.shim {
            flow.reverse.add(stamp);
        }
        if let Some(stamp) = self.told {
            flow.told.add(stamp);
        }
    }
}

impl<'a> Stripper<'a> {
    /// One message. What quinn is to read begins at the first byte; `meta` says how much of it there is, possibly nothing.
    pub(crate) fn strip(&mut self, bytes: &mut [u8], meta: &mut RecvMeta) {
        let length = meta.len.min(bytes.len());
        let bytes = &mut bytes[..length];
        let peer = self.prints.of(meta.addr);
        if has_prefix(bytes) || self.is_ruined(bytes, peer) {
            self.strip_prefixes(bytes, meta, peer);
        } else {
            self.take_plain(meta, peer);
        }
    }

    /// One datagram of a stack that takes them one by one, and reads behind the prefix itself.
    #[cfg(feature = "s2n")]
    pub(crate) fn one(&mut self, datagram: &[u8], address: SocketAddr) -> Kind {
        let peer = self.prints.of(address);
        if !has_prefix(datagram) && !self.is_ruined(datagram, peer) {
            self.tally.plain += 1;
            self.peers.heard(peer, Form::Plain);
            if self.plain_peers == PlainPeers::Refuse {
                self.tally.refused += 1;
                return Kind::Nothing;
            }
            return Kind::Plain;
        }
        let mut run = None;
        if datagram.len() <= PREFIX_BYTES || !self.read(datagram, peer, &mut run) {
            self.tally.malformed += 1;
            return Kind::Nothing;
        }
        self.tally.with_prefix += 1;
        if let Some(run) = run {
            run.hand_over();
        }
        Kind::Prefixed
    }

    fn take_plain(&mut self, meta: &mut RecvMeta, peer: Fingerprint) {
        // quinn cuts by the stride, and would cut for ever by one of zero.
        meta.stride = meta.stride.max(1);
        let datagrams = meta.len.div_ceil(meta.stride) as u64;
        self.tally.plain += datagrams;
        self.peers.heard(peer, Form::Plain);
        if self.plain_peers == PlainPeers::Refuse {
            self.tally.refused += datagrams;
            meta.len = 0;
        }
    }

    /// Whether a datagram with a prefix had its shim overwritten with something that is none. Its tags still tell whose it is: plain
    /// QUIC from the same peer has the same 68 bits there with probability 2^-68.
    fn is_ruined(&self, bytes: &[u8], peer: Fingerprint) -> bool {
        let Ok(prefix) = Prefix::parse(bytes) else { return false };
        prefix.reflection.is_some()
            && prefix.mine != NOBODY
            && self.flow_of(prefix.yours, peer).is_some_and(|flow| flow.heard.tag() == prefix.mine)
    }

    fn flow_of(&self, tag: Tag, peer: Fingerprint) -> Option<&'a Arc<Flow>> {
        self.table.by_tag(tag).filter(|flow| flow.remote() == peer)
    }

    fn strip_prefixes(&mut self, bytes: &mut [u8], meta: &mut RecvMeta, peer: Fingerprint) {
        let stride = meta.stride.max(1);
        let (mut from, mut to) = (0, 0);
        let mut run: Option<Run<'a>> = None;
        let mut last = None;
        while from < bytes.len() {
            let end = (from + stride).min(bytes.len());
            let datagram = &bytes[from..end];
            let head = datagram.first_chunk::<PREFIX_BYTES>().copied();
            // What the last one said need not be read again: most of a batch met the same queue.
            let is_known = head.is_some() && head == last;
            if datagram.len() > PREFIX_BYTES && (is_known || self.read(datagram, peer, &mut run)) {
                self.tally.with_prefix += 1;
                // Ruined ones are counted one by one.
                last = head.filter(|head| has_prefix(head));
                bytes.copy_within(from + PREFIX_BYTES..end, to);
                to += end - from - PREFIX_BYTES;
            } else {
                // Too short, or plain QUIC among others: left out, so that all that stay are of one length but the last.
                self.tally.malformed += 1;
            }
            from = end;
        }
        if let Some(run) = run {
            run.hand_over();
        }
        meta.stride = stride.saturating_sub(PREFIX_BYTES).max(1);
        meta.len = to;
    }

    /// Takes what a prefix says; false where the datagram has none.
    fn read(&mut self, datagram: &[u8], peer: Fingerprint, run: &mut Option<Run<'a>>) -> bool {
        let Ok(prefix) = Prefix::parse(datagram) else { return false };
        if prefix.shim.is_none() {
            if !self.is_ruined(datagram, peer) {
                return false;
            }
            self.tally.ruined += 1;
        }
        self.listen(&prefix, &datagram[PREFIX_BYTES..], peer, run);
        true
    }

    fn listen(&mut self, prefix: &Prefix, packet: &[u8], peer: Fingerprint, run: &mut Option<Run<'a>>) {
        let shim = prefix.shim.as_ref().and_then(Stamp::of_shim);
        let told = prefix.reflection.as_ref().and_then(Stamp::of_reflection);
        match run {
            Some(run) if run.mine == prefix.mine && run.yours == prefix.yours => {
                run.shim = run.shim.max(shim);
                run.told = run.told.max(told);
            }
            _ => {
                if let Some(ended) = run.take() {
                    ended.hand_over();
                }
                let flow = self.find(prefix, packet, peer);
                *run = Some(Run { mine: prefix.mine, yours: prefix.yours, flow, shim, told });
            }
        }
    }

    /// Whose datagrams these are: by our tag if it stands there, else by the connection id of a handshake.
    fn find(&mut self, prefix: &Prefix, packet: &[u8], peer: Fingerprint) -> Option<&'a Arc<Flow>> {
        if prefix.yours == NOBODY {
            self.peers.heard(peer, Form::Shim);
            if prefix.mine == NOBODY {
                return None;
            }
            let ids = LongHeader::parse(packet)?;
            let flow = self.table.by_handshake(&ids.destination).filter(|flow| flow.remote() == peer)?;
            self.answered.push(Arc::clone(flow));
            return Some(flow);
        }
        let Some(flow) = self.flow_of(prefix.yours, peer) else {
            self.tally.strangers += 1;
            return None;
        };
        if prefix.mine == NOBODY {
            return None;
        }
        if !flow.is_linked() {
            self.peers.heard(peer, Form::Shim);
            self.answered.push(Arc::clone(flow));
        }
        Some(flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::Flows;
    use core::net::SocketAddr;
    use poseidon_types::Nanos;
    use poseidon_wire::{reflection, shim};

    const PACKET: usize = 100;

    struct Bench {
        flows: Flows,
        peers: Peers,
        prints: Fingerprints,
        address: SocketAddr,
    }

    impl Bench {
        fn new() -> Self {
            let address = SocketAddr::from(([10, 0, 0, 1], 65_053));
            Self { flows: Flows::new(), peers: Peers::new(), prints: Fingerprints::new(), address }
        }

        fn flow(&self) -> Arc<Flow> {
            let flow = self.flows.open();
            self.flows.moved(&flow, self.prints.of(self.address), self.address);
            flow
        }

        fn strip(&self, plain_peers: PlainPeers, bytes: &mut [u8], stride: usize) -> (Tally, RecvMeta) {
            let mut meta = RecvMeta { addr: self.address, len: bytes.len(), stride, ..RecvMeta::default() };
            let table = self.flows.read();
            let mut stripper = Stripper {
                table: &table,
                peers: &self.peers,
                prints: &self.prints,
                plain_peers,
                tally: Tally::default(),
                answered: Vec::new(),
            };
            stripper.strip(bytes, &mut meta);
            (stripper.tally, meta)
        }
    }

    /// A datagram that went through one hop, and reflects one; its packet is full of `fill`.
    fn datagram(mine: Tag, yours: Tag, delays: (u16, u16), fill: u8) -> Vec<u8> {
        let shim = shim::Repr { int_hops: 1, max_hop_delay: delays.0, ..shim::Repr::default() };
        let reflection =
            reflection::Repr { int_hops: 1, max_hop_delay: delays.1, ..reflection::Repr::default() };
        let prefix = Prefix { shim: Some(shim), reflection: Some(reflection), mine, yours };
        [prefix.emit().as_slice(), &[fill; PACKET]].concat()
    }

    fn told(flow: &Flow) -> Option<u64> {
        flow.told.take().and_then(|stamp| stamp.telemetry().delay()).map(Nanos::get)
    }

    #[test]
    fn packets_move_up_and_the_largest_delays_reach_the_flow() {
        let bench = Bench::new();
        let flow = bench.flow();
        let mut bytes = [
            datagram(9, flow.tag(), (5, 1), 1),
            datagram(9, flow.tag(), (7, 4), 2),
            datagram(9, flow.tag(), (6, 2), 3)[..PREFIX_BYTES + 28].to_vec(),
        ]
        .concat();
        let (tally, meta) = bench.strip(PlainPeers::Serve, &mut bytes, PACKET + PREFIX_BYTES);
        assert_eq!((meta.stride, meta.len), (PACKET, 2 * PACKET + 28));
        assert_eq!(bytes[..PACKET], [1; PACKET]);
        assert_eq!(bytes[PACKET..2 * PACKET], [2; PACKET]);
        assert_eq!(bytes[2 * PACKET..meta.len], [3; 28]);
        assert_eq!(tally, Tally { with_prefix: 3, ..Tally::default() });
        assert_eq!(told(&flow), Some(4 << 8));
        let echo = flow.heard.take();
        assert_eq!(echo.tag, 9);
        assert_eq!(echo.stamp.map(|stamp| stamp.reflection().max_hop_delay), Some(7));
    }

    #[test]
    fn two_connections_in_one_message_do_not_mix() {
        let bench = Bench::new();
        let (a, b) = (bench.flow(), bench.flow());
        let mut bytes = [
            datagram(1, a.tag(), (0, 10), 1),
            datagram(2, b.tag(), (0, 20), 1),
            datagram(1, a.tag(), (0, 11), 1),
        ]
        .concat();
        bench.strip(PlainPeers::Serve, &mut bytes, PACKET + PREFIX_BYTES);
        assert_eq!((told(&a), told(&b)), (Some(11 << 8), Some(20 << 8)));
    }

    #[test]
    fn a_stranger_with_the_right_tag_is_not_heard() {
        let mut bench = Bench::new();
        let flow = bench.flow();
        bench.address.set_port(1);
        let mut bytes = datagram(9, flow.tag(), (5, 5), 1);
        let (tally, meta) = bench.strip(PlainPeers::Serve, &mut bytes, PREFIX_BYTES + PACKET);
        // quinn decides whether the packet is good: the peer may have moved.
        assert_eq!(meta.len, PACKET);
        assert_eq!(tally.strangers, 1);
        assert_eq!((told(&flow), flow.is_linked()), (None, false));
    }

    /// Sixteen bits of a tag were guessed, or are those of an endpoint whose tags have no more.
    #[test]
    fn half_a_tag_is_not_enough() {
        let bench = Bench::new();
        let flow = bench.flow();
        for guess in [flow.tag() ^ 1, flow.tag() & 0xffff, flow.tag() >> 16] {
            let mut bytes = datagram(9, guess, (5, 5), 1);
            let (tally, meta) = bench.strip(PlainPeers::Serve, &mut bytes, PREFIX_BYTES + PACKET);
            assert_eq!((tally.strangers, meta.len), (1, PACKET));
            assert_eq!((told(&flow), flow.is_linked()), (None, false));
        }
    }

    #[test]
    fn a_ruined_shim_costs_its_stamp_and_not_the_packet() {
        let bench = Bench::new();
        let flow = bench.flow();
        let mut first = datagram(9, flow.tag(), (5, 5), 1);
        bench.strip(PlainPeers::Serve, &mut first, PREFIX_BYTES + PACKET);
        told(&flow);
        let mut bytes = datagram(9, flow.tag(), (5, 6), 1);
        bytes[..4].copy_from_slice(&[0xff; 4]);
        let (tally, meta) = bench.strip(PlainPeers::Serve, &mut bytes, PREFIX_BYTES + PACKET);
        assert_eq!((tally.ruined, meta.len), (1, PACKET));
        assert_eq!(told(&flow), Some(6 << 8));
    }

    #[test]
    fn plain_quic_passes_or_is_refused() {
        let bench = Bench::new();
        let mut bytes = [0x40; 3 * PACKET];
        let (tally, meta) = bench.strip(PlainPeers::Serve, &mut bytes, PACKET);
        assert_eq!((tally.plain, meta.len, meta.stride), (3, 3 * PACKET, PACKET));
        assert_eq!(bench.peers.form(bench.prints.of(bench.address)), Some(Form::Plain));
        let (tally, meta) = bench.strip(PlainPeers::Refuse, &mut bytes, PACKET);
        assert_eq!((tally.refused, meta.len), (3, 0));
    }

    #[test]
    fn any_bytes_in_any_strides_are_survived() {
        let bench = Bench::new();
        let flow = bench.flow();
        let mut state = 1_u64;
        let mut random = move || {
            state = poseidon_types::chance::mix(state);
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
            let (_, meta) = bench.strip(PlainPeers::Serve, &mut bytes, stride);
            assert!(meta.len <= length && meta.stride > 0);
        }
    }
}
