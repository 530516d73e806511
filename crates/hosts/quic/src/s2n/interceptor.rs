//! The prefix before every packet, in s2n-quic's own buffers: no copy on the way in, one move by sixteen bytes on the way out.
//!
//! The calls that a datagram makes follow each other on one thread, as in quinn: the controller counts the packet, then the interceptor is handed the datagram
//! (`context.rs`).

use super::address;
use crate::config::IPV6_AND_UDP_BYTES;
use crate::context;
use crate::flow::Flow;
use crate::peers::Form;
use crate::poseidon::Poseidon;
use crate::prefix::{PREFIX, PREFIX_BYTES, Prefix};
use crate::shared::Shared;
use crate::strip::Kind;
use core::net::SocketAddr;
use s2n_quic_core::event::api::Subject;
use s2n_quic_core::packet::interceptor::{Datagram, DecoderBufferMut, EncoderBuffer, Interceptor};
use s2n_quic_core::path::mtu;
use std::sync::Arc;

const IPV4_AND_UDP_BYTES: u16 = 28;

/// For `with_packet_interceptor`.
#[derive(Clone, Debug)]
pub struct Shim {
    shared: Arc<Shared>,
}

impl Shim {
    /// Give the same endpoint [`super::Controllers`] and [`super::Mtu`].
    pub fn new(poseidon: &Poseidon) -> Self {
        Self { shared: Arc::clone(poseidon.parts().1) }
    }

    /// What goes before the packet; nothing to a peer that speaks plain QUIC.
    fn prefix(&self, flow: Option<&Arc<Flow>>, to: SocketAddr, packet: &[u8]) -> Option<[u8; PREFIX_BYTES]> {
        let print = self.shared.prints.of(to);
        if let Some(flow) = flow.filter(|flow| flow.remote() != print) {
            self.shared.flows.moved(flow, print, to);
        }
        if self.shared.form(flow.map(Arc::as_ref), to) == Form::Plain {
            return None;
        }
        let Some(flow) = flow else { return Some(Prefix::default().emit()) };
        Some(self.shared.prefix(flow, packet).0.emit())
    }
}

impl Interceptor for Shim {
    fn intercept_rx_datagram<'a>(
        &mut self,
        _: &Subject,
        datagram: &Datagram<'_>,
        payload: DecoderBufferMut<'a>,
    ) -> DecoderBufferMut<'a> {
        let bytes = payload.into_less_safe_slice();
        let from = address(&datagram.remote_address);
        let kind = self.shared.strip(|stripper| stripper.one(bytes, from));
        let from = match kind {
            Kind::Plain => 0,
            Kind::Prefixed => PREFIX_BYTES,
            // An empty datagram is no packet, and is dropped.
            Kind::Nothing => bytes.len(),
        };
        DecoderBufferMut::new(&mut bytes[from..])
    }

    fn intercept_tx_datagram(
        &mut self,
        _: &Subject,
        datagram: &Datagram<'_>,
        payload: &mut EncoderBuffer<'_>,
    ) {
        let flow = context::take_sent();
        let (packet, room) = payload.split_mut();
        let length = packet.len();
        // Datagrams of a batch (GSO) are as long as its first, prefix included. s2n-quic fills up a packet that is almost full, so a longer one
        // never follows; but a batch that began as plain QUIC goes on so.
        let (Some(room), Some(end)) =
            (room.first_chunk_mut::<PREFIX_BYTES>(), length.checked_sub(PREFIX_BYTES))
        else {
            return;
        };
        let Some(prefix) = self.prefix(flow.as_ref(), address(&datagram.remote_address), packet) else {
            return;
        };
        room.copy_from_slice(&packet[end..]);
        packet.copy_within(..end, PREFIX_BYTES);
        packet[..PREFIX_BYTES].copy_from_slice(&prefix);
        payload.set_position(length + PREFIX_BYTES);
    }
}

/// For `with_mtu`: packets are no larger than [`crate::Config::packet`], and leave room for the prefix in what the endpoint may send.
///
/// An endpoint sends IP packets of 1500 bytes at most, unless its I/O is told otherwise (`with_max_mtu`).
#[derive(Clone, Copy, Debug)]
pub struct Mtu {
    packet: u16,
}

impl Mtu {
    /// Give the same endpoint [`super::Controllers`] and [`super::Shim`].
    pub fn new(poseidon: &Poseidon) -> Self {
        Self { packet: poseidon.config().packet }
    }

    /// The largest IP packet without the prefix.
    fn most(self, is_ipv4: bool, endpoint: u16) -> u16 {
        let headers = if is_ipv4 { IPV4_AND_UDP_BYTES } else { IPV6_AND_UDP_BYTES };
        self.packet.saturating_add(headers).min(endpoint.saturating_sub(PREFIX))
    }
}

impl mtu::Endpoint for Mtu {
    /// Nothing, that is the endpoint's own sizes, where those leave no room behind the smallest packet of QUIC.
    fn on_path(&mut self, path: &mtu::PathInfo<'_>, endpoint: mtu::Config) -> Option<mtu::Config> {
        let is_ipv4 = address(&path.remote_address).is_ipv4();
        let most = self.most(is_ipv4, u16::from(endpoint.max_mtu()));
        let builder = mtu::Config::builder().with_max_mtu(most).ok()?;
        let builder = builder.with_base_mtu(u16::from(endpoint.base_mtu()).min(most)).ok()?;
        builder.with_initial_mtu(u16::from(endpoint.initial_mtu()).min(most)).ok()?.build().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_and_its_prefix_fit_what_the_endpoint_may_send() {
        let of = |packet| Mtu { packet };
        // The configured packet, if the endpoint's IP packets hold it behind a prefix.
        assert_eq!(of(1_436).most(true, 1_500), 1_436 + 28);
        assert_eq!(of(1_436).most(false, 1_500), 1_436 + 48);
        assert_eq!(of(8_940).most(true, 1_500), 1_484);
        assert_eq!(of(8_940).most(true, 9_000), 8_968);
        assert_eq!(of(u16::MAX).most(false, 9_000), 8_984);
    }
}
