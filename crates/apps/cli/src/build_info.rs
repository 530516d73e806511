//! The version of the program, as a metric.

use poseidon_metrics::{Kind, MetricsText};

/// Adds the version of the program.
pub(crate) fn write_build_info(text: &mut MetricsText) {
    text.family("poseidon_build", Kind::Info, "The version of the program.");
    text.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
}
