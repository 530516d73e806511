//! Metrics for Prometheus and compatible tools.
//!
//! [`MetricsText`] formats metric families in two formats: `OpenMetrics`, which Prometheus requests, and the older
//! Prometheus text format, which `promtool check metrics` and the textfile collector of the node exporter read.
//! [`serve`] answers requests for `/metrics`, and [`write_textfile`] replaces a file.
//!
//! ```
//! use poseidon_metrics::{Format, Kind, MetricsText};
//!
//! let mut text = MetricsText::new(Format::OpenMetrics);
//! text.family("poseidon_switch_packets", Kind::Counter, "Packets by outcome.");
//! text.sample(&[("device", "e0"), ("fate", "tcp_stamped")], 812);
//! let expected = [
//!     "# TYPE poseidon_switch_packets counter",
//!     "# UNIT poseidon_switch_packets packets",
//!     "# HELP poseidon_switch_packets Packets by outcome.",
//!     "poseidon_switch_packets_total{device=\"e0\",fate=\"tcp_stamped\"} 812",
//!     "# EOF\n",
//! ];
//! assert_eq!(text.finish(), expected.join("\n"));
//! ```

mod counters;
mod endpoint;
mod text;
mod textfile;

pub use counters::FlowCounters;
pub use endpoint::{Endpoint, serve};
pub use text::{Format, Kind, MetricsText, seconds};
pub use textfile::write_textfile;
