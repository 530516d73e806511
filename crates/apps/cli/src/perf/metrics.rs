//! The metrics of QUIC connections, for Prometheus.

use super::options::PerfError;
use crate::build_info::write_build_info;
use core::convert::Infallible;
use core::net::SocketAddr;
use poseidon_metrics::{Endpoint, MetricsText, serve};
use poseidon_quic::Poseidon;
use poseidon_quic::metrics::Exporter;

/// Serves the metrics of all connections on a thread of its own, until the process ends.
pub(super) fn serve_metrics(address: SocketAddr, poseidon: Poseidon) -> Result<(), PerfError> {
    let endpoint = Endpoint::listen(address).map_err(PerfError::io("listening for requests of metrics"))?;
    std::thread::spawn(move || {
        let mut exporter = Exporter::default();
        serve(&endpoint, |format| {
            let mut text = MetricsText::new(format);
            write_build_info(&mut text);
            exporter.write(&poseidon.metrics(), &mut text);
            Ok::<_, Infallible>(text.finish())
        })
    });
    Ok(())
}
