//! The methods of [`Poseidon`] for quinn endpoints.

use super::connect::ConnectError;
use super::controller::LawControllerFactory;
use super::runtime::ShimRuntime;
use crate::core::config::{ConfigError, SUPPLIED_SIGNALS};
use crate::core::metrics::FlowMetrics;
use crate::core::poseidon::Poseidon;
use crate::core::prefix::PREFIX_BYTES_U16;
use core::any::TypeId;
use core::net::SocketAddr;
use poseidon_laws::LawDefinition;
use poseidon_laws::registry::build;
use quinn::congestion::ControllerFactory;
use quinn::{
    Connection, Endpoint, EndpointConfig, MtuDiscoveryConfig, Runtime, TokioRuntime, TransportConfig,
};
use std::sync::Arc;

/// quinn's default maximum UDP payload for received datagrams. Poseidon never lowers it.
const DEFAULT_MAX_UDP_PAYLOAD: u16 = 1_472;

impl Poseidon {
    /// Returns a controller factory for the configured law, for use with
    /// [`TransportConfig::congestion_controller_factory`].
    pub fn controller_factory(&self) -> Arc<dyn ControllerFactory + Send + Sync> {
        Arc::new(LawControllerFactory::new(self.initial_law().clone(), Arc::clone(self.shared())))
    }

    /// Returns a controller factory for a law that is not in the registry.
    pub fn controller_factory_for<L>(
        &self,
        params: &L::Params,
    ) -> Result<Arc<dyn ControllerFactory + Send + Sync>, ConfigError>
    where
        L: LawDefinition + Send + Sync + 'static,
    {
        let law = build::<L>(params, &self.config().path(), SUPPLIED_SIGNALS)?;
        Ok(Arc::new(LawControllerFactory::new(law, Arc::clone(self.shared()))))
    }

    /// Returns the runtime for [`Endpoint::new`]. It wraps the program's runtime and adds the prefix to each
    /// packet. For [`TokioRuntime`], whose sockets only send and receive, the result is the same as with
    /// [`Self::direct_runtime`].
    pub fn runtime<R: Runtime>(&self, runtime: R) -> Arc<dyn Runtime> {
        self.shim_runtime(runtime, TypeId::of::<R>() == TypeId::of::<TokioRuntime>())
    }

    /// Returns a runtime that bypasses the sockets of the wrapped runtime on Linux. The kernel reads large
    /// packets from quinn's own buffer, which saves a copy. The wrapped socket sends small packets, and packets
    /// that the kernel does not accept immediately.
    ///
    /// Use this method only if the runtime's sockets send datagrams without processing them. A socket that
    /// counts, delays or changes outgoing datagrams would miss most of them.
    pub fn direct_runtime<R: Runtime>(&self, runtime: R) -> Arc<dyn Runtime> {
        self.shim_runtime(runtime, true)
    }

    fn shim_runtime<R: Runtime>(&self, inner: R, is_direct: bool) -> Arc<dyn Runtime> {
        Arc::new(ShimRuntime { inner, is_direct, shared: Arc::clone(self.shared()) })
    }

    /// Adjusts quinn's configuration for the prefix. This method sets the upper bound for MTU discovery and the
    /// maximum UDP payload. It also disables greasing of the bit that distinguishes plain QUIC from a prefix.
    pub fn tune(&self, transport: &mut TransportConfig, endpoint: &mut EndpointConfig) {
        let mut discovery = MtuDiscoveryConfig::default();
        discovery.upper_bound(self.config().packet_size);
        transport.mtu_discovery_config(Some(discovery));
        endpoint.grease_quic_bit(false);
        let max_payload =
            self.config().packet_size.saturating_add(PREFIX_BYTES_U16).max(DEFAULT_MAX_UDP_PAYLOAD);
        // quinn rejects only values below 1200.
        let _ = endpoint.max_udp_payload_size(max_payload);
    }

    /// Connects to a server. If plain peers are refused and the server does not use the prefix, the error
    /// reports this.
    pub async fn connect(
        &self,
        endpoint: &Endpoint,
        address: SocketAddr,
        server_name: &str,
    ) -> Result<Connection, ConnectError> {
        let connecting = endpoint.connect(address, server_name).map_err(ConnectError::Rejected)?;
        connecting.await.map_err(|error| {
            let plain_peers = self.config().plain_peers;
            ConnectError::from_failure(error, address, plain_peers, self.shim_negotiated(address))
        })
    }

    /// Returns the metrics of a connection's path, or `None` if the connection uses another congestion
    /// controller.
    pub fn metrics_of(connection: &Connection) -> Option<FlowMetrics> {
        connection.congestion_state().into_any().downcast().ok().map(|metrics| *metrics)
    }
}
