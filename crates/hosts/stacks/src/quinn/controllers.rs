//! The congestion controllers: quinn's own, and our laws.

use super::DEFAULT_MAX_DATAGRAM;
use crate::QuinnController;
use crate::common::{self, Purpose, datagram_size};
use core::any::Any;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use poseidon_laws::{AnyParams, BuildError};
use poseidon_plan::stack::{Controller, Side, StackKind, StackLaw};
use poseidon_plan::{Plan, PlanError};
use poseidon_quic::prefix::PREFIX_BYTES;
use poseidon_quic::quinn::PrefixLayer;
use poseidon_quic::{Config, PlainPeers, Poseidon, SUPPLIED_SIGNALS};
use poseidon_types::{ConnectionId, Nanos};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{
    self, BbrConfig, ControllerFactory, ControllerMetrics, CubicConfig, NewRenoConfig,
};
use std::sync::Arc;
use std::time::Instant;

/// The delay guard as a multiple of Poseidon's largest target delay, as in [`Config::for_rate`].
const GUARD_MULTIPLE: u64 = 4;

type Factory = Arc<dyn ControllerFactory + Send + Sync>;

/// The congestion control of one side of a connection.
pub(super) struct Control {
    pub(super) factory: Factory,
    /// The prefix of the datagrams, if a law controls the connection.
    pub(super) prefix: Option<PrefixLayer>,
}

impl Control {
    pub(super) fn new(
        plan: &Plan,
        law: &StackLaw,
        connection: ConnectionId,
        side: Side,
        packet_size: u16,
        custom: Option<QuinnController>,
    ) -> Self {
        let mut new_reno = NewRenoConfig::default();
        let mut cubic = CubicConfig::default();
        let mut bbr = BbrConfig::default();
        if packet_size > DEFAULT_MAX_DATAGRAM {
            // quinn's own is ten packets of 1,200 bytes, and a sender waits until two packets fit.
            let window = 10 * u64::from(packet_size);
            new_reno.initial_window(window);
            cubic.initial_window(window);
            bbr.initial_window(window);
        }
        let factory: Factory = match law.controller {
            Some(Controller::NewReno | Controller::Reno) => Arc::new(new_reno),
            Some(Controller::Cubic) => Arc::new(cubic),
            Some(Controller::Bbr) => Arc::new(bbr),
            Some(Controller::Custom) => custom.expect("check requires a custom controller")(),
            None => return Self::for_law(plan, connection, side, packet_size),
        };
        Self { factory, prefix: None }
    }

    fn for_law(plan: &Plan, connection: ConnectionId, side: Side, packet_size: u16) -> Self {
        let config = law_config(plan, connection, side, packet_size);
        let poseidon = Poseidon::new(config).expect("check accepts only laws that can run");
        let prefix = poseidon.prefix_layer(peer_address(side));
        Self { factory: poseidon.controller_factory(), prefix: Some(prefix) }
    }
}

/// Returns the address of the other side.
pub(super) fn peer_address(side: Side) -> SocketAddr {
    match side {
        Side::Sender => SocketAddr::from(([10, 0, 0, 2], poseidon_quic::DEFAULT_UDP_PORT)),
        Side::Receiver => SocketAddr::from(([10, 0, 0, 1], poseidon_quic::DEFAULT_UDP_PORT)),
    }
}

/// Checks that the adapter supplies the signals that the law of a connection needs.
pub(super) fn check_law(plan: &Plan, index: usize) -> Result<(), PlanError> {
    let connection = &plan.connections[index];
    let path = plan.path(connection);
    let law = usize::try_from(connection.law).ok().and_then(|law| plan.laws.get(law));
    let Some(law) = law else {
        return Err(PlanError::Connection { index, reason: "its law does not exist" });
    };
    let reject = |error: BuildError| PlanError::Law { connection: index, error };
    law.build(&path, SUPPLIED_SIGNALS).map_err(reject).map(drop)
}

/// Configures the adapter for a connection. Simulated hosts have no scheduling delay, so there is no slack.
fn law_config(plan: &Plan, id: ConnectionId, side: Side, packet_size: u16) -> Config {
    let connection = &plan.connections[id.index()];
    let path = plan.path(connection);
    let mut config = Config::for_rate(path.line_rate);
    config.law = plan.laws[connection.law as usize].clone();
    if let AnyParams::Poseidon(law) = &config.law {
        config.guard = Nanos::new((law.target_floor.get() + law.target_range.get()) * GUARD_MULTIPLE);
    }
    config.packet_size = packet_size;
    config.base_rtt = Some(path.base_rtt);
    config.slack = Nanos::ZERO;
    config.coexistence = plan.transport.coexistence;
    config.plain_peers = PlainPeers::Refuse;
    config.random_seed = common::seed(plan, id, side, Purpose::Law);
    debug_assert!(
        u64::from(packet_size) + PREFIX_BYTES as u64 <= datagram_size(plan, StackKind::Quinn).get()
    );
    config
}

/// The bytes in flight. quinn does not report them, so a wrapper around the controller counts them.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight(Arc<AtomicU64>);

impl InFlight {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Wraps the controllers of a factory.
    pub(super) fn observe(&self, inner: Factory) -> Factory {
        Arc::new(ObservedFactory { inner, in_flight: self.clone() })
    }
}

struct ObservedFactory {
    inner: Factory,
    in_flight: InFlight,
}

impl ControllerFactory for ObservedFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn congestion::Controller> {
        let inner = Arc::clone(&self.inner).build(now, current_mtu);
        Box::new(ObservedController { inner, in_flight: self.in_flight.clone() })
    }
}

/// Passes all calls to a controller and counts the bytes in flight.
struct ObservedController {
    inner: Box<dyn congestion::Controller>,
    in_flight: InFlight,
}

impl congestion::Controller for ObservedController {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.in_flight.0.fetch_add(bytes, Relaxed);
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        // This is quinn's own count. It corrects packets that only contain ACKs, which are never in flight.
        self.in_flight.0.store(in_flight, Relaxed);
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        let in_flight = self.in_flight.get().saturating_sub(lost_bytes);
        self.in_flight.0.store(in_flight, Relaxed);
        self.inner.on_congestion_event(now, sent, is_persistent, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn congestion::Controller> {
        Box::new(Self { inner: self.inner.clone_box(), in_flight: self.in_flight.clone() })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}
