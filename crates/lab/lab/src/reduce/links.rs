//! Metrics for the bytes on links.

use super::Reducer;
use crate::resolve::ResolvedRun;
use crate::stats::mean;
use poseidon_plan::SwitchPort;
use poseidon_plan::records::QueueRow;
use std::collections::BTreeMap;

/// The bytes sent on each watched link, at the last sample.
#[derive(Debug)]
pub(super) struct LinkLog {
    sent: BTreeMap<SwitchPort, u64>,
}

impl LinkLog {
    pub(super) fn new(resolved: &ResolvedRun) -> Self {
        let ports = resolved.links.iter().flat_map(|links| &links.ports);
        Self { sent: ports.map(|port| (*port, 0)).collect() }
    }

    pub(super) fn record(&mut self, row: &QueueRow) {
        if let Some(sent) = self.sent.get_mut(&SwitchPort::new(row.switch, row.port)) {
            *sent = row.sent.get();
        }
    }
}

impl Reducer<'_> {
    /// Adds the metrics of all watched links. They cover the whole run.
    pub(super) fn link_metrics(&self, values: &mut BTreeMap<String, f64>) {
        for links in &self.resolved.links {
            let sent: Vec<f64> = links.ports.iter().map(|port| self.links.sent[port] as f64).collect();
            let mut put = |name: &str, value: f64| values.insert(format!("{}.{name}", links.name), value);
            put("link_bytes_max", sent.iter().copied().fold(0.0, f64::max));
            put("link_bytes_mean", mean(&sent).unwrap_or(0.0));
            put("links_used", sent.iter().filter(|sent| **sent > 0.0).count() as f64);
        }
    }
}
