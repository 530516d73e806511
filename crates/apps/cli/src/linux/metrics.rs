//! `poseidon metrics`: the metrics of TCP, switches and RPM on this machine, for Prometheus.

use super::args::MetricsArgs;
use super::failed;
use crate::Failure;
use crate::build_info::write_build_info;
use core::fmt::Display;
use core::time::Duration;
use poseidon_linux::{rpm, switch, tcp};
use poseidon_metrics::{Endpoint, Format, MetricsText, serve, write_textfile};
use std::path::Path;

pub(super) fn run(args: &MetricsArgs) -> Result<(), Failure> {
    let mut exporter = tcp::Exporter::default();
    match (&args.listen, &args.textfile) {
        (Some(address), _) => {
            let cannot_listen = |error| Failure::Run(format!("{address}: {error}"));
            let endpoint = Endpoint::listen(address).map_err(cannot_listen)?;
            let address = endpoint.address().map_err(cannot_listen)?;
            eprintln!("the metrics are at http://{address}/metrics");
            serve(&endpoint, |format| collect(format, &mut exporter)).map_err(failed)
        }
        (None, Some(path)) => write_repeatedly(path, args.interval, &mut exporter),
        (None, None) => {
            outln!("{}", collect(Format::OpenMetrics, &mut exporter).map_err(failed)?.trim_end());
            Ok(())
        }
    }
}

/// Writes the file once, or at fixed intervals until the process is stopped.
fn write_repeatedly(
    path: &Path,
    interval: Option<Duration>,
    exporter: &mut tcp::Exporter,
) -> Result<(), Failure> {
    loop {
        // The textfile collector reads only the older format.
        let text = collect(Format::Prometheus, exporter).map_err(failed)?;
        write_textfile(path, &text).map_err(Failure::file(path))?;
        let Some(interval) = interval else { return Ok(()) };
        #[expect(clippy::disallowed_methods, reason = "the interval is wall-clock time")]
        std::thread::sleep(interval);
    }
}

/// Returns the metrics of this machine. An error of one part fails the whole, so that no part looks like zero.
fn collect(format: Format, exporter: &mut tcp::Exporter) -> Result<String, String> {
    let mut text = MetricsText::new(format);
    write_build_info(&mut text);
    exporter.write(&mut text).map_err(in_part("tcp"))?;
    let switches: Result<Vec<_>, _> = switch::attached_devices()
        .map_err(in_part("switch"))?
        .iter()
        .map(|device| switch::Switch::open(device)?.status())
        .collect();
    switch::write_metrics(&switches.map_err(in_part("switch"))?, &mut text);
    let ports: Result<Vec<_>, _> = rpm::attached_devices()
        .map_err(in_part("rpm"))?
        .iter()
        .map(|device| rpm::Rpm::open(device)?.status())
        .collect();
    rpm::write_metrics(&ports.map_err(in_part("rpm"))?, &mut text);
    Ok(text.finish())
}

fn in_part<E: Display>(part: &str) -> impl Fn(E) -> String + '_ {
    move |error| format!("{part}: {error}")
}
