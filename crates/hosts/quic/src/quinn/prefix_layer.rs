//! The prefix for a program that drives quinn-proto itself, without quinn's sockets.

use crate::core::address::Fingerprint;
use crate::core::datagram::DatagramKind;
use crate::core::flow::Flow;
use crate::core::poseidon::Poseidon;
use crate::core::prefix::{PREFIX_BYTES, Prefix, has_prefix};
use crate::core::send_context;
use crate::core::shared::Shared;
use core::net::SocketAddr;
use poseidon_types::MaxHopDelay;
use poseidon_wire::shim;
use std::sync::Arc;

/// Adds the prefix to the datagrams of one connection and removes it, as the sockets of [`Poseidon::runtime`] do.
///
/// The connection must use a controller from [`Poseidon::controller_factory`], and all of its datagrams go to one
/// address. The endpoint must not grease the QUIC bit (`EndpointConfig::grease_quic_bit(false)`).
#[derive(Debug)]
pub struct PrefixLayer {
    shared: Arc<Shared>,
    peer: SocketAddr,
    fingerprint: Fingerprint,
    flow: Option<Arc<Flow>>,
}

impl Poseidon {
    /// Creates the prefix layer of a connection to this address.
    pub fn prefix_layer(&self, peer: SocketAddr) -> PrefixLayer {
        let shared = Arc::clone(self.shared());
        let fingerprint = shared.address_hasher.fingerprint(peer);
        PrefixLayer { shared, peer, fingerprint, flow: None }
    }
}

impl PrefixLayer {
    /// Returns the prefix of a packet. Call this method immediately after `quinn_proto::Connection::poll_transmit` has
    /// written the packet, on the same thread.
    pub fn next_prefix(&mut self, packet: &[u8]) -> [u8; PREFIX_BYTES] {
        // The controller does not count every datagram. The stored flow belongs to the other ones.
        if let Some(flow) = send_context::take_counted_flow() {
            self.flow = Some(flow);
        }
        let Some(flow) = &self.flow else { return Prefix::default().emit() };
        if flow.remote() != self.fingerprint {
            self.shared.flows.change_remote(flow, self.fingerprint, self.peer);
        }
        self.shared.next_prefix(flow, packet).0.emit()
    }

    /// Processes the prefix of a received datagram. Returns whether the datagram has a valid prefix. Its QUIC packet then
    /// begins after [`PREFIX_BYTES`].
    ///
    /// If the network carries telemetry outside of the datagram, `telemetry` replaces the contents of the shim.
    pub fn decap(&self, datagram: &mut [u8], telemetry: Option<MaxHopDelay>) -> bool {
        if let Some(telemetry) = telemetry.filter(|_| has_prefix(datagram)) {
            // A datagram that is too short for the shim is also too short for the prefix, so the parser drops it.
            let _ = shim::Repr::from_telemetry(telemetry, &shim::SCALE).emit(datagram);
        }
        let kind = self.shared.parse_batch(|parser| parser.parse_datagram(datagram, self.peer));
        kind == DatagramKind::Prefixed
    }
}
