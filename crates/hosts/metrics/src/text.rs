//! Builds the text of metric families.

use core::fmt::{Display, Write as _};
use core::time::Duration;

/// A format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `OpenMetrics` 1.0.0.
    OpenMetrics,
    /// The Prometheus text format 0.0.4.
    Prometheus,
}

impl Format {
    /// Returns the content type of an HTTP response.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Returns the format that a client accepts, from the header `Accept` of its request.
    pub fn accepted(header: &str) -> Self {
        if header.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Prometheus }
    }
}

/// The kind of a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows. Its samples have the suffix `_total`.
    Counter,
    /// A current value.
    Gauge,
    /// Labels with the value 1. Its samples have the suffix `_info`.
    Info,
    /// Counts of values by upper bound.
    Histogram,
}

/// A builder of metrics text. All samples of a family follow its header.
#[derive(Debug)]
pub struct MetricsText {
    format: Format,
    text: String,
    family: String,
    kind: Kind,
}

impl MetricsText {
    /// Creates an empty text.
    pub const fn new(format: Format) -> Self {
        Self { format, text: String::new(), family: String::new(), kind: Kind::Gauge }
    }

    /// Starts a metric family. The name has no suffix of its kind, and it ends with the unit, if the family has one.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        name.clone_into(&mut self.family);
        self.kind = kind;
        // The older format names the samples, and does not know families of information.
        let (name, kind) = match (self.format, kind) {
            (Format::OpenMetrics, Kind::Counter) => (name.to_owned(), "counter"),
            (Format::OpenMetrics, Kind::Info) => (name.to_owned(), "info"),
            (Format::Prometheus, Kind::Counter) => (format!("{name}_total"), "counter"),
            (Format::Prometheus, Kind::Info) => (format!("{name}_info"), "gauge"),
            (_, Kind::Gauge) => (name.to_owned(), "gauge"),
            (_, Kind::Histogram) => (name.to_owned(), "histogram"),
        };
        self.line(format_args!("# TYPE {name} {kind}"));
        let unit = UNITS.iter().find(|unit| self.family.ends_with(&format!("_{unit}")));
        if let Some(unit) = unit.filter(|_| self.format == Format::OpenMetrics) {
            self.line(format_args!("# UNIT {name} {unit}"));
        }
        self.line(format_args!("# HELP {name} {help}"));
    }

    /// Adds a sample to the current family.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        self.line_of(suffix, labels, value);
    }

    /// Adds a histogram to the current family: pairs of an upper bound and the number of values up to it, with growing
    /// bounds, then the number and the sum of all values.
    pub fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        buckets: impl IntoIterator<Item = (String, u64)>,
        count: u64,
        sum: impl Display,
    ) {
        let buckets = buckets.into_iter().chain([("+Inf".to_owned(), count)]);
        for (bound, count) in buckets {
            let mut labels = labels.to_vec();
            labels.push(("le", &bound));
            self.line_of("_bucket", &labels, count);
        }
        self.line_of("_count", labels, count);
        self.line_of("_sum", labels, sum);
    }

    /// Appends the end marker, which the older format reads as a comment, and returns the text.
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.line(format_args!("# EOF"));
        }
        self.text
    }

    fn line_of(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let name = core::mem::take(&mut self.family);
        self.line(format_args!("{name}{suffix}{labels} {value}"));
        self.family = name;
    }

    fn line(&mut self, line: core::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }
}

/// The units at the ends of names.
const UNITS: [&str; 5] = ["seconds", "bytes", "packets", "ratio", "bytes_per_second"];

/// Formats a time in seconds, exactly.
pub fn seconds(time: Duration) -> String {
    format!("{}.{:09}", time.as_secs(), time.subsec_nanos())
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(format: Format) -> String {
        let mut text = MetricsText::new(format);
        text.family("a_packets", Kind::Counter, "Packets.");
        text.sample(&[("device", "e\"0\\")], 7);
        text.family("a_delay_seconds", Kind::Histogram, "Delays.");
        text.histogram(
            &[("device", "e0")],
            [("0.5".to_owned(), 2)],
            3,
            seconds(Duration::from_millis(1_250)),
        );
        text.family("a_port", Kind::Info, "A port.");
        text.sample(&[("mode", "m")], 1);
        text.family("a_up", Kind::Gauge, "1 if it is enabled.");
        text.sample(&[], 1);
        text.finish()
    }

    #[test]
    fn open_metrics_names_families_without_suffix_and_ends_with_eof() {
        let expected = "# TYPE a_packets counter\n# UNIT a_packets packets\n# HELP a_packets Packets.\n\
                        a_packets_total{device=\"e\\\"0\\\\\"} 7\n\
                        # TYPE a_delay_seconds histogram\n# UNIT a_delay_seconds seconds\n\
                        # HELP a_delay_seconds Delays.\n\
                        a_delay_seconds_bucket{device=\"e0\",le=\"0.5\"} 2\n\
                        a_delay_seconds_bucket{device=\"e0\",le=\"+Inf\"} 3\n\
                        a_delay_seconds_count{device=\"e0\"} 3\na_delay_seconds_sum{device=\"e0\"} 1.250000000\n\
                        # TYPE a_port info\n# HELP a_port A port.\na_port_info{mode=\"m\"} 1\n\
                        # TYPE a_up gauge\n# HELP a_up 1 if it is enabled.\na_up 1\n# EOF\n";
        assert_eq!(text(Format::OpenMetrics), expected);
    }

    #[test]
    fn the_older_format_names_samples_and_has_no_units() {
        let text = text(Format::Prometheus);
        for line in
            ["# TYPE a_packets_total counter", "# TYPE a_port_info gauge", "a_port_info{mode=\"m\"} 1"]
        {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("# UNIT") && !text.contains("# EOF"));
    }

    #[test]
    fn prometheus_gets_the_format_that_it_accepts() {
        let header = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Format::accepted(header), Format::OpenMetrics);
        assert_eq!(Format::accepted("text/plain, */*"), Format::Prometheus);
    }
}
