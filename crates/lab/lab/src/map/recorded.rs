//! Records a run again and draws its map.

use super::MapError;
use super::flows::Flows;
use super::network::MapNetwork;
use super::page::{MapRun, render_map};
use super::sampling::{MapSamples, MapSink, Sampling};
use crate::recording::{RecordingOptions, record};
use crate::resolve::ResolvedRun;
use core::ops::Range;
use poseidon_plan::Backend;
use poseidon_types::Picos;

/// Runs a plan again with samples of all ports, and returns the page with the map of a time window. The window ends at
/// the latest with the measured part of the run, and earlier if the network is idle afterwards.
pub fn record_map(
    run: &MapRun<'_>,
    resolved: &ResolvedRun,
    window: Range<Picos>,
    backend: &dyn Backend,
) -> Result<String, MapError> {
    let plan = &resolved.plan;
    let network = MapNetwork::new(plan)?;
    let record_until = |until: Picos| -> Result<MapSamples, MapError> {
        let sampling = Sampling::choose(&network, plan, window.start..until);
        let options = RecordingOptions {
            ports: network.ports(),
            sample_every: sampling.every,
            until,
            ..RecordingOptions::default()
        };
        let mut sink = MapSink::new(&network, plan, sampling);
        record(resolved, &options, backend, &mut sink)?;
        Ok(sink.finish())
    };
    let until = window.end.min(resolved.measured_until);
    let mut samples = record_until(until)?;
    let active = samples.active_until();
    if active > window.start && active - window.start < Picos::new((until - window.start).get() / 2) {
        // The network is idle for most of the time. Shorter steps show the active part better.
        samples = record_until(active)?;
    }
    let flows = Flows::new(&network, resolved, backend);
    render_map(run, plan, &network, &flows, samples)
}
