//! What a recording adds to a run.

use poseidon_plan::PlanError;
use poseidon_plan::recording::{NodePort, Recording};
use poseidon_plan::topology::Node;
use poseidon_types::{Picos, PortId};

use crate::network::Network;

/// What a shard records.
#[derive(Debug)]
pub(crate) struct Recorder<'a> {
    recording: &'a Recording,
    /// For each watched connection, the time from which its next law state is recorded.
    next_state: Vec<Picos>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(recording: &'a Recording, watched_connections: usize) -> Self {
        let states = if recording.law_states_every.is_zero() { 0 } else { watched_connections };
        Self { recording, next_state: vec![Picos::ZERO; states] }
    }

    /// Returns whether packets are captured.
    pub(crate) const fn captures_packets(&self) -> bool {
        !self.recording.captured_ports.is_empty()
    }

    /// Returns whether law states are recorded.
    pub(crate) const fn records_law_states(&self) -> bool {
        !self.next_state.is_empty()
    }

    /// Returns whether PFC pauses are recorded.
    pub(crate) const fn records_pauses(&self) -> bool {
        self.recording.pauses
    }

    /// Returns whether a mark at `now` is recorded.
    #[inline]
    pub(crate) fn records_mark(&self, now: Picos) -> bool {
        self.recording.marks && self.recording.window.contains(&now)
    }

    /// Returns whether a port is captured at `time`.
    pub(crate) fn captures(&self, port: NodePort, time: Picos) -> bool {
        self.recording.window.contains(&time) && self.recording.captured_ports.binary_search(&port).is_ok()
    }

    /// Returns whether the law state of a watched connection is due. If so, the next one is due one interval later.
    pub(crate) fn take_due_state(&mut self, watched: usize, now: Picos) -> bool {
        let Some(next) = self.next_state.get_mut(watched).filter(|next| **next <= now) else { return false };
        if !self.recording.window.contains(&now) {
            return false;
        }
        let every = self.recording.law_states_every.get();
        *next = Picos::new((now.get() / every + 1).saturating_mul(every));
        true
    }
}

/// Rejects recordings that the simulator does not support.
pub(crate) fn check_recording(recording: &Recording, network: &Network<'_>) -> Result<(), PlanError> {
    if recording.captured_ports.is_empty() {
        return Ok(());
    }
    if network.rotor().is_some() {
        return Err(PlanError::Unsupported("packet captures in a rotor, whose links change"));
    }
    let hosts = network.hosts_in(network.racks - 1).end;
    let exists = |port: &NodePort| match port.node {
        Node::Host(host) => host.get() < hosts && port.port == PortId::new(0),
        Node::Switch(switch) => {
            switch.get() < network.switches() && port.port.get() < network.port_count(switch)
        }
    };
    if !recording.captured_ports.iter().all(exists) {
        return Err(PlanError::Setting("a captured port does not exist"));
    }
    if !recording.captured_ports.is_sorted() {
        return Err(PlanError::Setting("captured ports must be sorted"));
    }
    Ok(())
}
