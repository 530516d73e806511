//! The state shared by all sockets and controllers of one [`crate::Poseidon`].

use super::address::AddressHasher;
use super::config::{Config, PlainPeers};
use super::datagram::DatagramParser;
use super::flow::Flow;
use super::flows::FlowRegistry;
use super::metrics::{BatchCounts, DatagramTotals, Metrics};
use super::mode::Bounds;
use super::observer::Observer;
use super::peers::{Encapsulation, PeerTable};
use super::prefix::Prefix;
use super::stamp::Echo;
use core::net::SocketAddr;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// The number of unanswered datagrams after which the sender changes the encapsulation. This tolerates two
/// lost datagrams, and the handshake still takes less than a minute.
const DATAGRAMS_PER_ENCAPSULATION: u32 = 3;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) flows: FlowRegistry,
    pub(crate) peers: PeerTable,
    pub(crate) address_hasher: AddressHasher,
    pub(crate) totals: DatagramTotals,
    pub(crate) plain_peers: PlainPeers,
    pub(crate) packet_size: u16,
    pub(crate) bounds: Bounds,
    pub(crate) coexistence: bool,
    pub(crate) observer: Option<Observer>,
    pub(crate) random_seed: u64,
}

impl Shared {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            flows: FlowRegistry::new(),
            peers: PeerTable::new(),
            address_hasher: AddressHasher::new(),
            totals: DatagramTotals::default(),
            plain_peers: config.plain_peers,
            packet_size: config.packet_size,
            bounds: config.bounds(),
            coexistence: config.coexistence,
            observer: config.observer.clone(),
            random_seed: config.random_seed,
        }
    }

    /// Chooses the encapsulation of a datagram to this destination.
    #[inline]
    pub(crate) fn encapsulation(&self, flow: Option<&Flow>, destination: SocketAddr) -> Encapsulation {
        if self.plain_peers == PlainPeers::Refuse || flow.is_some_and(Flow::shim_negotiated) {
            return Encapsulation::Shim;
        }
        let peer = self.address_hasher.fingerprint(destination);
        if let Some(encapsulation) = self.peers.encapsulation(peer) {
            return encapsulation;
        }
        let unanswered = flow.map_or(0, Flow::count_unanswered);
        if (unanswered / DATAGRAMS_PER_ENCAPSULATION).is_multiple_of(2) {
            Encapsulation::Shim
        } else {
            Encapsulation::Plain
        }
    }

    /// Returns the prefix for the flow's next packet and the echo that it contains. The caller puts the echo
    /// back if the packet is not sent.
    #[inline]
    pub(crate) fn next_prefix(&self, flow: &Arc<Flow>, packet: &[u8]) -> (Prefix, Echo) {
        self.flows.inspect_outgoing(flow, packet);
        let echo @ Echo { tag, stamp } = flow.echo.take();
        let reflection = stamp.map(|stamp| stamp.reflection());
        (Prefix { shim: None, reflection, sender_tag: flow.tag(), receiver_tag: tag }, echo)
    }

    /// Runs a parser over a batch of received datagrams and adds its counts to the totals.
    #[inline]
    pub(crate) fn parse_batch<T>(&self, parse: impl FnOnce(&mut DatagramParser<'_>) -> T) -> T {
        let table = self.flows.read();
        let mut parser = DatagramParser {
            table: &table,
            peers: &self.peers,
            address_hasher: &self.address_hasher,
            plain_peers: self.plain_peers,
            counts: BatchCounts::default(),
            answered: Vec::new(),
        };
        let result = parse(&mut parser);
        let DatagramParser { counts, answered, .. } = parser;
        drop(table);
        for flow in answered {
            self.flows.complete_handshake(&flow);
        }
        self.totals.add(&counts);
        result
    }

    pub(crate) fn metrics(&self) -> Metrics {
        let table = self.flows.read();
        Metrics {
            flows: table.iter().map(|flow| flow.metrics()).collect(),
            handshakes: table.handshake_count(),
            with_prefix: self.totals.with_prefix.load(Relaxed),
            plain: self.totals.plain.load(Relaxed),
            refused: self.totals.refused.load(Relaxed),
            malformed: self.totals.malformed.load(Relaxed),
            corrupted: self.totals.corrupted.load(Relaxed),
            unknown_tag: self.totals.unknown_tag.load(Relaxed),
        }
    }
}
