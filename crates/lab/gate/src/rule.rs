//! Rules: which metrics are guarded, in which direction and with which margin.

use core::fmt;
use poseidon_lab::rollout::Direction;
use poseidon_lab::summary::METRICS;
use serde::Serialize;

/// How much worse a metric may become.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "value")]
pub enum Margin {
    /// A share of the base value: 0.05 for 5 %.
    Relative(f64),
    /// An amount in the unit of the metric.
    Absolute(f64),
}

impl Margin {
    /// Returns the number to compare a worsening with.
    pub const fn value(self) -> f64 {
        match self {
            Self::Relative(value) | Self::Absolute(value) => value,
        }
    }

    /// Formats a change in the unit of this margin: `+1.2 %`, or `+3.1` for an absolute margin.
    pub fn format_change(self, change: f64) -> String {
        match self {
            Self::Relative(_) => format!("{} %", format_signed(100.0 * change)),
            Self::Absolute(_) => format_signed(change),
        }
    }
}

impl fmt::Display for Margin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relative(value) => write!(f, "{} %", trimmed(100.0 * value)),
            Self::Absolute(value) => f.write_str(&trimmed(*value)),
        }
    }
}

/// Formats a number with a sign and three significant digits.
fn format_signed(value: f64) -> String {
    let text = poseidon_lab::report::format_number(value);
    if value < 0.0 { text } else { format!("+{text}") }
}

/// Formats a number as it was written: without the rounding error of a percentage.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A guarded metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rule {
    /// A full metric name, such as `victim.share`, or its last part, which stands for all such metrics.
    pub metric: String,
    /// Whether a smaller or a larger value is better.
    pub direction: Direction,
    /// How much worse the metric may become.
    pub margin: Margin,
}

/// An error in a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The rule does not have the expected form.
    #[error(
        "{text:?}: write METRIC > +5% (a rise fails), METRIC < -1% (a fall fails), or an amount such as METRIC > +10"
    )]
    Form {
        /// The rule.
        text: String,
    },
    /// The sign of the margin contradicts the operator.
    #[error("{text:?}: write a positive margin after >, and a negative one after <")]
    Sign {
        /// The rule.
        text: String,
    },
    /// The rule would fail if the metric improves.
    #[error("{text:?} fails if {metric} improves, because a {better} value is better; write {remedy:?}")]
    Improvement {
        /// The rule.
        text: String,
        /// The metric.
        metric: String,
        /// The better direction.
        better: &'static str,
        /// The rule in the other direction.
        remedy: String,
    },
    /// There is no such metric.
    #[error("{text:?}: there is no metric {metric:?}; `poseidon list metrics` prints all metrics")]
    UnknownMetric {
        /// The rule.
        text: String,
        /// The last part of the metric.
        metric: String,
    },
    /// A margin is not a positive percentage.
    #[error("{text:?} is not a margin; write a positive percentage, such as 5%")]
    Margin {
        /// The margin.
        text: String,
    },
}

/// The guarded metrics and margins if no rule is given: rates 1 %, completion times 5 %, queues 10 %, and unfinished
/// messages.
const DEFAULTS: &[(&str, Margin)] = &[
    ("total_gbps", Margin::Relative(0.01)),
    ("latency_p99_us", Margin::Relative(0.05)),
    ("completion_us", Margin::Relative(0.05)),
    ("delay_mean_us", Margin::Relative(0.1)),
    ("delay_p99_us", Margin::Relative(0.1)),
    ("unfinished_share", Margin::Absolute(0.001)),
];

impl Rule {
    /// Returns the rules that apply if the user gives none. `margin` replaces the relative margins.
    pub fn defaults(margin: Option<f64>) -> Vec<Self> {
        let rule = |(metric, default): &(&str, Margin)| Self {
            metric: (*metric).to_owned(),
            direction: Direction::of_metric(metric).expect("a default metric has a direction"),
            margin: match (default, margin) {
                (Margin::Relative(_), Some(margin)) => Margin::Relative(margin),
                (default, _) => *default,
            },
        };
        DEFAULTS.iter().map(rule).collect()
    }

    /// Parses a rule such as `latency_p99_us > +5%`.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let form = || RuleError::Form { text: text.to_owned() };
        let operator = text.find(['<', '>']).ok_or_else(form)?;
        let (metric, rest) = (text[..operator].trim(), text[operator + 1..].trim());
        let is_rise = text[operator..].starts_with('>');
        if metric.is_empty() || metric.contains(char::is_whitespace) {
            return Err(form());
        }
        let (number, is_relative) = match rest.strip_suffix('%') {
            Some(number) => (number.trim_end(), true),
            None => (rest, false),
        };
        let value: f64 = number.parse().map_err(|_| form())?;
        if !value.is_finite() {
            return Err(form());
        }
        let margin = if is_rise { value } else { -value };
        if margin < 0.0 || (!is_rise && margin == 0.0 && !number.starts_with('-')) {
            return Err(RuleError::Sign { text: text.to_owned() });
        }
        let last = metric.rsplit('.').next().unwrap_or(metric);
        if !METRICS.iter().any(|known| known.name == last) {
            return Err(RuleError::UnknownMetric { text: text.to_owned(), metric: last.to_owned() });
        }
        let direction = if is_rise { Direction::Minimise } else { Direction::Maximise };
        if Direction::of_metric(last).is_some_and(|known| known != direction) {
            let (better, operator, sign) = if is_rise { ("larger", '<', '-') } else { ("smaller", '>', '+') };
            let number = number.trim_start_matches(['+', '-']);
            let percent = if is_relative { "%" } else { "" };
            return Err(RuleError::Improvement {
                text: text.to_owned(),
                metric: metric.to_owned(),
                better,
                remedy: format!("{metric} {operator} {sign}{number}{percent}"),
            });
        }
        let margin = if is_relative { Margin::Relative(margin / 100.0) } else { Margin::Absolute(margin) };
        Ok(Self { metric: metric.to_owned(), direction, margin })
    }

    /// Returns whether this rule guards a metric. The name of a metric begins with its traffic or queue.
    pub fn guards(&self, metric: &str) -> bool {
        let last = metric.rsplit_once('.').map_or(metric, |(_, last)| last);
        self.metric == metric || self.metric == last
    }

    /// Returns the worsening that corresponds to a change of the metric, and the other way round.
    pub const fn worsening(&self, change: f64) -> f64 {
        match self.direction {
            Direction::Minimise => change,
            Direction::Maximise => -change,
        }
    }
}

/// Parses a relative margin such as `5%`.
pub fn parse_margin(text: &str) -> Result<f64, RuleError> {
    let error = || RuleError::Margin { text: text.to_owned() };
    let number = text.trim().strip_suffix('%').ok_or_else(error)?;
    let percent: f64 = number.trim_end().parse().map_err(|_| error())?;
    if percent > 0.0 && percent.is_finite() { Ok(percent / 100.0) } else { Err(error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_a_metric_a_direction_and_a_margin() {
        for (text, metric, direction, margin) in [
            ("latency_p99_us > +5%", "latency_p99_us", Direction::Minimise, Margin::Relative(0.05)),
            ("latency_p99_us>5 %", "latency_p99_us", Direction::Minimise, Margin::Relative(0.05)),
            (" victim.share < -1% ", "victim.share", Direction::Maximise, Margin::Relative(0.01)),
            ("run.drops > +100", "run.drops", Direction::Minimise, Margin::Absolute(100.0)),
            ("marks > +50%", "marks", Direction::Minimise, Margin::Relative(0.5)),
            ("marks < -50%", "marks", Direction::Maximise, Margin::Relative(0.5)),
            ("unfinished > +0", "unfinished", Direction::Minimise, Margin::Absolute(0.0)),
        ] {
            let expected = Rule { metric: metric.to_owned(), direction, margin };
            assert_eq!(Rule::parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn an_invalid_rule_is_refused_with_a_remedy() {
        let error = |text: &str| Rule::parse(text).expect_err(text).to_string();
        for text in [
            "",
            "latency_p99_us",
            "> 5%",
            "latency_p99_us > fast",
            "a b > 5%",
            "drops > inf",
            "drops > 1e999%",
        ] {
            assert!(error(text).contains("write METRIC > +5%"), "{text}: {}", error(text));
        }
        for text in ["drops > -5%", "total_gbps < 1%", "total_gbps < +1%"] {
            assert!(error(text).contains("a positive margin after >"), "{text}");
        }
        let improvement = error("latency_p99_us < -5%");
        assert!(
            improvement.ends_with("a smaller value is better; write \"latency_p99_us > +5%\""),
            "{improvement}"
        );
        let improvement = error("flows.total_gbps > 2");
        assert!(
            improvement.ends_with("a larger value is better; write \"flows.total_gbps < -2\""),
            "{improvement}"
        );
        assert!(error("goodput < -1%").contains("there is no metric \"goodput\""));
    }

    #[test]
    fn a_rule_guards_a_full_name_or_all_metrics_with_its_last_part() {
        let all = Rule::parse("share < -1%").expect("the rule is valid");
        assert!(all.guards("victim.share") && all.guards("share") && !all.guards("victim.share_min"));
        let one = Rule::parse("victim.share < -1%").expect("the rule is valid");
        assert!(one.guards("victim.share") && !one.guards("other.share"));
    }

    #[test]
    fn the_defaults_are_known_metrics_with_a_direction() {
        for rule in Rule::defaults(None) {
            assert!(METRICS.iter().any(|metric| metric.name == rule.metric), "{rule:?}");
        }
        let wide = Rule::defaults(Some(0.2));
        assert!(wide.iter().filter(|rule| rule.margin == Margin::Relative(0.2)).count() == 5, "{wide:?}");
    }

    #[test]
    fn margins_are_percentages() {
        assert_eq!(parse_margin("5%"), Ok(0.05));
        assert_eq!(parse_margin(" 0.5 % "), Ok(0.005));
        for text in ["5", "0%", "-1%", "x%", "inf%", ""] {
            assert!(parse_margin(text).is_err(), "{text}");
        }
        assert_eq!(Margin::Relative(0.07).to_string(), "7 %");
        assert_eq!(Margin::Absolute(0.001).to_string(), "0.001");
        assert_eq!(Margin::Relative(0.05).format_change(-0.0123), "-1.23 %");
        assert_eq!(Margin::Absolute(5.0).format_change(12.34), "+12.3");
    }
}
