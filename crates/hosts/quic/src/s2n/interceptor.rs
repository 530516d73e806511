//! Adds and removes the prefix in s2n-quic's own buffers. Receiving needs no copy. Sending moves the packet by
//! 16 bytes.
//!
//! s2n-quic calls the controller and then the interceptor on the same thread (`core/send_context.rs`).

use super::address::to_socket_addr;
use crate::core::config::IPV6_AND_UDP_BYTES;
use crate::core::datagram::DatagramKind;
use crate::core::flow::Flow;
use crate::core::peers::Encapsulation;
use crate::core::poseidon::Poseidon;
use crate::core::prefix::{PREFIX_BYTES, PREFIX_BYTES_U16, Prefix};
use crate::core::send_context;
use crate::core::shared::Shared;
use core::net::SocketAddr;
use s2n_quic_core::event::api::Subject;
use s2n_quic_core::packet::interceptor::{Datagram, DecoderBufferMut, EncoderBuffer, Interceptor};
use s2n_quic_core::path::mtu;
use std::sync::Arc;

/// The combined size of the IPv4 and UDP headers.
const IPV4_AND_UDP_BYTES: u16 = 28;

/// The packet interceptor that adds and removes the prefix, for `with_packet_interceptor`.
#[derive(Clone, Debug)]
pub struct ShimInterceptor {
    shared: Arc<Shared>,
}

impl ShimInterceptor {
    /// Creates the interceptor. The same endpoint also needs [`super::LawControllerFactory`] and
    /// [`super::ShimMtu`].
    pub fn new(poseidon: &Poseidon) -> Self {
        Self { shared: Arc::clone(poseidon.shared()) }
    }

    /// Returns the prefix of a packet, or `None` for a peer that uses plain QUIC.
    fn prefix(
        &self,
        flow: Option<&Arc<Flow>>,
        destination: SocketAddr,
        packet: &[u8],
    ) -> Option<[u8; PREFIX_BYTES]> {
        let fingerprint = self.shared.address_hasher.fingerprint(destination);
        if let Some(flow) = flow.filter(|flow| flow.remote() != fingerprint) {
            self.shared.flows.change_remote(flow, fingerprint, destination);
        }
        let encapsulation = self.shared.encapsulation(flow.map(Arc::as_ref), destination);
        if encapsulation == Encapsulation::Plain {
            return None;
        }
        let Some(flow) = flow else { return Some(Prefix::default().emit()) };
        Some(self.shared.next_prefix(flow, packet).0.emit())
    }
}

impl Interceptor for ShimInterceptor {
    fn intercept_rx_datagram<'a>(
        &mut self,
        _: &Subject,
        datagram: &Datagram<'_>,
        payload: DecoderBufferMut<'a>,
    ) -> DecoderBufferMut<'a> {
        let bytes = payload.into_less_safe_slice();
        let peer = to_socket_addr(&datagram.remote_address);
        let kind = self.shared.parse_batch(|parser| parser.parse_datagram(bytes, peer));
        let packet_start = match kind {
            DatagramKind::Plain => 0,
            DatagramKind::Prefixed => PREFIX_BYTES,
            // s2n-quic drops an empty datagram.
            DatagramKind::Dropped => bytes.len(),
        };
        DecoderBufferMut::new(&mut bytes[packet_start..])
    }

    fn intercept_tx_datagram(
        &mut self,
        _: &Subject,
        datagram: &Datagram<'_>,
        payload: &mut EncoderBuffer<'_>,
    ) {
        let flow = send_context::take_counted_flow();
        let (packet, free_space) = payload.split_mut();
        let length = packet.len();
        // All datagrams in a GSO batch are as long as the first, including the prefix. s2n-quic pads nearly
        // full packets, so no larger packet follows. A batch that begins with plain QUIC stays plain.
        let (Some(free_space), Some(split)) =
            (free_space.first_chunk_mut::<PREFIX_BYTES>(), length.checked_sub(PREFIX_BYTES))
        else {
            return;
        };
        let destination = to_socket_addr(&datagram.remote_address);
        let Some(prefix) = self.prefix(flow.as_ref(), destination, packet) else {
            return;
        };
        free_space.copy_from_slice(&packet[split..]);
        packet.copy_within(..split, PREFIX_BYTES);
        packet[..PREFIX_BYTES].copy_from_slice(&prefix);
        payload.set_position(length + PREFIX_BYTES);
    }
}

/// The MTU settings for `with_mtu`. They limit packets to [`crate::Config::packet_size`] and leave room for the
/// prefix.
///
/// An endpoint sends IP packets of at most 1500 bytes unless its I/O provider sets another limit
/// (`with_max_mtu`).
#[derive(Clone, Copy, Debug)]
pub struct ShimMtu {
    packet_size: u16,
}

impl ShimMtu {
    /// Creates the MTU settings. The same endpoint also needs [`super::LawControllerFactory`] and
    /// [`super::ShimInterceptor`].
    pub fn new(poseidon: &Poseidon) -> Self {
        Self { packet_size: poseidon.config().packet_size }
    }

    /// Returns the size of the largest IP packet without the prefix.
    fn max_mtu(self, is_ipv4: bool, endpoint_max_mtu: u16) -> u16 {
        let headers = if is_ipv4 { IPV4_AND_UDP_BYTES } else { IPV6_AND_UDP_BYTES };
        self.packet_size.saturating_add(headers).min(endpoint_max_mtu.saturating_sub(PREFIX_BYTES_U16))
    }
}

impl mtu::Endpoint for ShimMtu {
    /// Returns `None` if the endpoint's MTU leaves no room for a prefix. s2n-quic then uses the endpoint's
    /// settings.
    fn on_path(&mut self, path: &mtu::PathInfo<'_>, endpoint: mtu::Config) -> Option<mtu::Config> {
        let is_ipv4 = to_socket_addr(&path.remote_address).is_ipv4();
        let max_mtu = self.max_mtu(is_ipv4, u16::from(endpoint.max_mtu()));
        let builder = mtu::Config::builder().with_max_mtu(max_mtu).ok()?;
        let builder = builder.with_base_mtu(u16::from(endpoint.base_mtu()).min(max_mtu)).ok()?;
        builder.with_initial_mtu(u16::from(endpoint.initial_mtu()).min(max_mtu)).ok()?.build().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_and_prefix_fit_into_the_mtu_of_the_endpoint() {
        let shim_mtu = |packet_size| ShimMtu { packet_size };
        // The configured packet size applies if the endpoint's IP packets have room for it and the prefix.
        assert_eq!(shim_mtu(1_436).max_mtu(true, 1_500), 1_436 + 28);
        assert_eq!(shim_mtu(1_436).max_mtu(false, 1_500), 1_436 + 48);
        assert_eq!(shim_mtu(8_940).max_mtu(true, 1_500), 1_484);
        assert_eq!(shim_mtu(8_940).max_mtu(true, 9_000), 8_968);
        assert_eq!(shim_mtu(u16::MAX).max_mtu(false, 9_000), 8_984);
    }
}
