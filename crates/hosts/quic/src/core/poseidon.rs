//! The object that a program creates and passes to its endpoints.

use super::config::{Config, ConfigError, SUPPLIED_SIGNALS};
use super::metrics::Metrics;
use super::peers::Encapsulation;
use super::shared::Shared;
use core::net::SocketAddr;
use poseidon_laws::AnyLaw;
use std::sync::Arc;

/// Provides congestion control and telemetry to the endpoints of a program. Clones share all state.
#[derive(Clone, Debug)]
pub struct Poseidon {
    config: Arc<Config>,
    /// The validated law in its initial state.
    law: AnyLaw,
    shared: Arc<Shared>,
}

impl Poseidon {
    /// Validates the configuration. Returns an error if the law needs a signal that this host does not
    /// supply, or if a parameter is out of range.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let law = config.law.build(&config.path(), SUPPLIED_SIGNALS)?;
        let shared = Arc::new(Shared::new(&config));
        Ok(Self { config: Arc::new(config), law, shared })
    }

    /// Returns whether the datagrams from this address carry the prefix. Returns `None` if no datagram
    /// has arrived recently.
    pub fn shim_negotiated(&self, address: SocketAddr) -> Option<bool> {
        let peer = self.shared.address_hasher.fingerprint(address);
        let encapsulation = self.shared.peers.encapsulation(peer)?;
        Some(encapsulation == Encapsulation::Shim)
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the metrics of all paths and the datagram counts.
    pub fn metrics(&self) -> Metrics {
        self.shared.metrics()
    }

    /// Returns the law in its initial state, for a new flow.
    pub(crate) fn initial_law(&self) -> &AnyLaw {
        &self.law
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}
