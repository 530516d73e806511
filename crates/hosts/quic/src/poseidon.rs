//! What a program holds.

use crate::config::{Config, ConfigError, SUPPLIED};
use crate::connect::ConnectError;
use crate::controller::Factory;
use crate::metrics::{FlowMetrics, Metrics};
use crate::peers::Form;
use crate::prefix::PREFIX;
use crate::running::Own;
use crate::runtime::WithShim;
use crate::shared::Shared;
use core::any::TypeId;
use core::net::SocketAddr;
use poseidon_laws::registry::build;
use poseidon_laws::{AnyLaw, Law};
use quinn::congestion::ControllerFactory;
use quinn::{
    Connection, Endpoint, EndpointConfig, MtuDiscoveryConfig, Runtime, TokioRuntime, TransportConfig,
};
use std::sync::Arc;

/// quinn's own largest receive buffer per packet; never made smaller.
const USUAL_PAYLOAD: u16 = 1_472;

/// Poseidon for the endpoints of a program. Clones are the same.
#[derive(Clone, Debug)]
pub struct Poseidon {
    config: Arc<Config>,
    /// The law at the start of a flow, as it was checked.
    law: AnyLaw,
    shared: Arc<Shared>,
}

impl Poseidon {
    /// Refuses a law that needs a signal which this host does not supply, and parameters outside its domain.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let law = config.law.build(&config.path(), SUPPLIED)?;
        let shared = Arc::new(Shared::new(&config));
        Ok(Self { config: Arc::new(config), law, shared })
    }

    /// For [`TransportConfig::congestion_controller_factory`]: the law of the configuration.
    pub fn controllers(&self) -> Arc<dyn ControllerFactory + Send + Sync> {
        Arc::new(Factory::new(self.law.clone(), Arc::clone(&self.shared)))
    }

    /// The same with a law that is not in the registry.
    pub fn controllers_of<L>(
        &self,
        params: &L::Params,
    ) -> Result<Arc<dyn ControllerFactory + Send + Sync>, ConfigError>
    where
        L: Law + Send + Sync + 'static,
    {
        let law = build::<L>(params, &self.config.path(), SUPPLIED)?;
        Ok(Arc::new(Factory::new(Own(law), Arc::clone(&self.shared))))
    }

    /// For [`Endpoint::new`]: the runtime that the program has, with the shim between UDP and QUIC. Over [`TokioRuntime`], whose sockets send
    /// what they are given and nothing else, it is a [`Self::direct_runtime`].
    pub fn runtime<R: Runtime>(&self, runtime: R) -> Arc<dyn Runtime> {
        self.over(runtime, TypeId::of::<R>() == TypeId::of::<TokioRuntime>())
    }

    /// The same over any runtime whose sockets do nothing but send: on Linux, packets go to the kernel from where quinn has them, which saves a
    /// copy, and the runtime's own socket sends only what the kernel does not take at once. Sockets that count, delay or change what they
    /// send would not see it.
    pub fn direct_runtime<R: Runtime>(&self, runtime: R) -> Arc<dyn Runtime> {
        self.over(runtime, true)
    }

    fn over<R: Runtime>(&self, inner: R, is_direct: bool) -> Arc<dyn Runtime> {
        Arc::new(WithShim { inner, is_direct, shared: Arc::clone(&self.shared) })
    }

    /// Sets what must fit the prefix: the end of the search for the MTU, the room for datagrams, and no greasing of the bit by which plain
    /// QUIC is told from ours.
    pub fn tune(&self, transport: &mut TransportConfig, endpoint: &mut EndpointConfig) {
        let mut search = MtuDiscoveryConfig::default();
        search.upper_bound(self.config.packet);
        transport.mtu_discovery_config(Some(search));
        endpoint.grease_quic_bit(false);
        let room = self.config.packet.saturating_add(PREFIX).max(USUAL_PAYLOAD);
        // Refused below 1200 only.
        let _ = endpoint.max_udp_payload_size(room);
    }

    /// Connects, and says so where the peer does not speak the shim and [`crate::PlainPeers::Refuse`] is set.
    pub async fn connect(
        &self,
        endpoint: &Endpoint,
        address: SocketAddr,
        server_name: &str,
    ) -> Result<Connection, ConnectError> {
        let connecting = endpoint.connect(address, server_name).map_err(ConnectError::Refused)?;
        connecting.await.map_err(|error| ConnectError::new(error, self, address))
    }

    /// Whether datagrams from this address came with the shim; nothing where none came lately.
    pub fn speaks_shim(&self, address: SocketAddr) -> Option<bool> {
        self.shared.peers.form(self.shared.prints.of(address)).map(|form| form == Form::Shim)
    }

    /// The law at the start of a flow, and what sockets and controllers share: for another stack.
    #[cfg(feature = "s2n")]
    pub(crate) fn parts(&self) -> (&AnyLaw, &Arc<Shared>) {
        (&self.law, &self.shared)
    }

    /// What was set.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// All paths, and what became of datagrams.
    pub fn metrics(&self) -> Metrics {
        self.shared.metrics()
    }

    /// The path of one connection; nothing where another congestion control has it.
    pub fn metrics_of(connection: &Connection) -> Option<FlowMetrics> {
        connection.congestion_state().into_any().downcast().ok().map(|metrics| *metrics)
    }
}
