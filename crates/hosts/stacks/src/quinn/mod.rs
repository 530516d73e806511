//! QUIC endpoints in quinn-proto.
//!
//! | setting | value | reason |
//! |---|---|---|
//! | packet size | a full packet of the plan | MTU discovery is off, because the size of packets is part of the plan |
//! | flow control | 64 MB or 8 bandwidth-delay products | it never limits a connection |
//! | initial window of packets above 1,472 bytes | ten packets | quinn's own window holds only one of them |
//! | idle timeout | none | connections may pause between messages |
//! | fairness between streams | off | messages are sent in their order |
//! | GSO, 0-RTT, session tickets, validation tokens, migration | off | their datagrams would be hard to repeat |
//!
//! All other settings are quinn's defaults. Loss timers have a granularity of 1 ms, a receiver delays the ACK of a single
//! packet by up to 25 ms, and the RTT is assumed to be 333 ms before the first sample.
//!
//! With a law, each datagram carries the 16-byte prefix of `poseidon-quic`. At the receiver, the telemetry of an arrival
//! replaces the shim in the prefix, in the format's steps of 256 ns. The receiver's endpoint echoes it in its next
//! datagram.

mod controllers;
mod endpoint;
mod identifiers;
mod tls;

use crate::QuinnController;
use crate::common::{self, Purpose};
use bytes::Bytes as Buffer;
use controllers::{Control, InFlight};
use endpoint::{Parts, QuinnEndpoint};
use identifiers::{FixedResetKey, SeededConnectionIds, rng_seed};
use poseidon_plan::stack::{Side, StackEndpoint, StackKind, StackLaw};
use poseidon_plan::{Plan, PlanError};
use poseidon_quic::prefix::PREFIX_BYTES;
use poseidon_types::{Bytes, ConnectionId};
use quinn_proto::{
    ClientConfig, Endpoint, EndpointConfig, NoneTokenStore, ServerConfig, TransportConfig,
    ValidationTokenConfig, VarInt,
};
use std::sync::Arc;

/// The smallest datagram size that QUIC permits (RFC 9000, section 14).
const MIN_DATAGRAM: Bytes = Bytes::new(1_200);
/// quinn's default limit for received datagrams, which is never lowered.
const DEFAULT_MAX_DATAGRAM: u16 = 1_472;
/// The smallest flow-control window.
const MIN_WINDOW: Bytes = Bytes::new(64_000_000);
/// The number of messages that can be under way at the same time. quinn allocates an entry for each of them.
const MAX_STREAMS: u32 = 256;

/// The data of all messages.
static ZEROS: [u8; 65_536] = [0; 65_536];

/// Returns a part of the data of a message, without an allocation.
fn message_data(length: u64) -> Buffer {
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(ZEROS.len());
    Buffer::from_static(&ZEROS[..length])
}

/// Checks that quinn can run the connections of a law.
pub(crate) fn check(plan: &Plan, law: &StackLaw) -> Result<(), PlanError> {
    let prefix = if law.controller.is_some() { 0 } else { PREFIX_BYTES as u64 };
    common::check_datagram_size(plan, StackKind::Quinn, MIN_DATAGRAM + Bytes::new(prefix))?;
    if law.controller.is_some() {
        return Ok(());
    }
    for (index, connection) in plan.connections.iter().enumerate() {
        if connection.law == law.law {
            controllers::check_law(plan, index)?;
        }
    }
    Ok(())
}

/// Creates one side of a connection.
pub(crate) fn create(
    plan: &Plan,
    law: &StackLaw,
    connection: ConnectionId,
    side: Side,
    custom: Option<QuinnController>,
) -> Box<dyn StackEndpoint> {
    let prefix = if law.controller.is_some() { 0 } else { PREFIX_BYTES as u64 };
    let datagram_size = common::datagram_size(plan, StackKind::Quinn) - Bytes::new(prefix);
    let packet_size = u16::try_from(datagram_size.get()).expect("the plan's packets are below 65,536 bytes");
    let control = Control::new(plan, law, connection, side, packet_size, custom);
    let in_flight = InFlight::default();
    let transport = Arc::new(transport(plan, connection, side, packet_size, &control, &in_flight));
    let seed = |purpose| common::seed(plan, connection, side, purpose);

    let mut config = EndpointConfig::new(Arc::new(FixedResetKey));
    let ids = seed(Purpose::ConnectionIds);
    config
        .rng_seed(Some(rng_seed(seed(Purpose::Stack))))
        .grease_quic_bit(false)
        .cid_generator(move || Box::new(SeededConnectionIds::new(ids)))
        .max_udp_payload_size(packet_size.max(DEFAULT_MAX_DATAGRAM))
        .expect("check accepts only valid packet sizes");
    let (client, server) = match side {
        Side::Sender => {
            let mut client = ClientConfig::new(tls::client());
            let initial = identifiers::connection_id(seed(Purpose::InitialConnectionId));
            client
                .transport_config(transport)
                .token_store(Arc::new(NoneTokenStore))
                .initial_dst_cid_provider(Arc::new(move || initial));
            (Some(client), None)
        }
        Side::Receiver => {
            let mut tokens = ValidationTokenConfig::default();
            tokens.sent(0);
            let mut server = ServerConfig::with_crypto(tls::server());
            server.transport_config(transport).migration(false).validation_token_config(tokens);
            (None, Some(Arc::new(server)))
        }
    };
    let endpoint = Endpoint::new(Arc::new(config), server, false, None);
    Box::new(QuinnEndpoint::new(Parts { endpoint, client, side, prefix: control.prefix, in_flight }))
}

fn transport(
    plan: &Plan,
    connection: ConnectionId,
    side: Side,
    packet_size: u16,
    control: &Control,
    in_flight: &InFlight,
) -> TransportConfig {
    let window = common::window(plan, connection, MIN_WINDOW).get();
    let receive_window = VarInt::from_u64(window).unwrap_or(VarInt::MAX);
    let streams = match side {
        Side::Sender => 0,
        Side::Receiver => MAX_STREAMS,
    };
    let mut transport = TransportConfig::default();
    transport
        .initial_mtu(packet_size)
        .min_mtu(packet_size)
        .mtu_discovery_config(None)
        .enable_segmentation_offload(false)
        .max_idle_timeout(None)
        .stream_receive_window(receive_window)
        .receive_window(receive_window)
        .send_window(window)
        .send_fairness(false)
        .max_concurrent_uni_streams(VarInt::from_u32(streams))
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .congestion_controller_factory(in_flight.observe(Arc::clone(&control.factory)));
    transport
}
