//! Slowdown by message size, in logarithmic bins with enough messages for a percentile.

use crate::reduce::not_reached;
use crate::samples::{PERCENTILES, SizedSlowdown, TooFewMessages, needed_messages};
use crate::summary::RunSummary;

/// The maximum number of bins.
const MAX_BINS: usize = 10;

/// A curve name in a figure, such as `short.slowdown_p99_by_size`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurveName<'a> {
    /// The traffic pattern or message class.
    pub owner: &'a str,
    share: f64,
    percentile: &'static str,
}

/// Parses a curve name; returns `None` for any other name.
pub fn parse(name: &str) -> Option<CurveName<'_>> {
    let (owner, last) = name.rsplit_once('.')?;
    let percentile = last.strip_prefix("slowdown_")?.strip_suffix("_by_size")?;
    let (share, percentile) = PERCENTILES.into_iter().find(|(_, known)| *known == percentile)?;
    Some(CurveName { owner, share, percentile })
}

/// Returns the curve names for a traffic pattern or message class.
pub fn curve_names(owner: &str) -> impl Iterator<Item = String> + '_ {
    PERCENTILES.iter().map(move |(_, percentile)| format!("{owner}.slowdown_{percentile}_by_size"))
}

/// A curve with one point per bin: the median message size and a slowdown percentile. The percentile is infinite if it
/// falls among unfinished messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// The message size in bytes and the slowdown of each point.
    pub points: Vec<(f64, f64)>,
    /// Notes on infinite percentiles, or why there is no curve.
    pub notes: Vec<String>,
}

/// Computes a curve from the messages of all runs.
pub fn compute_curve<'a>(name: &CurveName<'_>, runs: impl Iterator<Item = &'a RunSummary>) -> Curve {
    let mut messages: Vec<SizedSlowdown> = Vec::new();
    let mut has_runs = false;
    for run in runs {
        has_runs = true;
        let selections =
            run.summary.phases.iter().filter_map(|phase| run.messages.selection(&phase.name, name.owner));
        messages.extend(selections.flat_map(|selection| &selection.sizes));
    }
    if !has_runs {
        return Curve::default();
    }
    messages.sort_unstable_by(|a, b| a.bytes.cmp(&b.bytes).then(a.slowdown.total_cmp(&b.slowdown)));
    if messages.len() < needed_messages(name.share) {
        let error = TooFewMessages::new(name.percentile, name.share, messages.len());
        return Curve { points: Vec::new(), notes: vec![error.to_string()] };
    }
    let mut curve = Curve::default();
    // Counts unfinished messages and all messages, in bins with an infinite percentile.
    let (mut unfinished, mut total) = (0, 0);
    for bin in bins(&messages, needed_messages(name.share)) {
        let median_size = bin[bin.len() / 2].bytes as f64;
        let value = percentile(bin, name.share);
        if value.is_infinite() {
            unfinished += bin.iter().filter(|message| !message.is_finished).count();
            total += bin.len();
        }
        curve.points.push((median_size, value));
    }
    if total > 0 {
        let share = unfinished as f64 / total as f64;
        curve.notes.push(format!("{} in bins at the top edge", not_reached(share)));
    }
    curve
}

/// Returns a slowdown percentile. Unfinished messages have an infinite slowdown.
fn percentile(messages: &[SizedSlowdown], share: f64) -> f64 {
    let slowdown = |message: &SizedSlowdown| {
        if message.is_finished { f64::from(message.slowdown) } else { f64::INFINITY }
    };
    let mut slowdowns: Vec<f64> = messages.iter().map(slowdown).collect();
    slowdowns.sort_unstable_by(f64::total_cmp);
    crate::stats::percentile(&slowdowns, share).unwrap_or(f64::NAN)
}

/// Splits messages sorted by size into bins of equal width on a logarithmic scale. A bin with fewer than `min_messages`
/// messages is merged with the next bin. If the last bin is too small, it is merged with the previous bin.
fn bins(messages: &[SizedSlowdown], min_messages: usize) -> Vec<&[SizedSlowdown]> {
    let [first, .., last] = messages else { return vec![messages] };
    let (low, high) = (libm::log(first.bytes.max(1) as f64), libm::log(last.bytes.max(1) as f64));
    let mut ends = Vec::new();
    let mut start = 0;
    for number in 1..=MAX_BINS {
        let edge = libm::exp(low + (high - low) * number as f64 / MAX_BINS as f64);
        let end = match number {
            MAX_BINS => messages.len(),
            _ => messages.partition_point(|message| (message.bytes as f64) < edge),
        };
        if end - start >= min_messages {
            ends.push(end);
            start = end;
        }
    }
    match ends.last_mut() {
        Some(end) => *end = messages.len(),
        None => ends.push(messages.len()),
    }
    let starts = core::iter::once(0).chain(ends.iter().copied());
    starts.zip(&ends).map(|(start, end)| &messages[start..*end]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(sizes: impl Iterator<Item = u64>) -> Vec<SizedSlowdown> {
        sizes.map(|bytes| SizedSlowdown { bytes, slowdown: 1.0, is_finished: true }).collect()
    }

    #[test]
    fn curve_names_are_parsed() {
        let name = parse("short.slowdown_p99_by_size").expect("this is a curve name");
        assert_eq!((name.owner, name.share), ("short", 0.99));
        assert_eq!(parse("short.slowdown_p99"), None);
        assert_eq!(parse("short.rate_gbps"), None);
    }

    #[test]
    fn there_are_at_most_ten_bins_and_each_has_enough_messages() {
        // With 100 messages for each power of two from 1 to 2^19, ten bins cover two powers each.
        let even = messages((0..2_000).map(|n| 1 << (n / 100)));
        let lengths =
            |min_messages| bins(&even, min_messages).iter().map(|bin| bin.len()).collect::<Vec<_>>();
        assert_eq!(lengths(20), [200; 10]);
        assert_eq!(lengths(150), [200; 10]);
        assert_eq!(lengths(201), [400; 5], "bins are merged in pairs");
        assert_eq!(lengths(900), [1_000, 1_000]);
        assert_eq!(lengths(1_001), [2_000]);
        assert_eq!(bins(&messages(core::iter::repeat_n(1_000, 50)), 20).len(), 1, "equal sizes share a bin");
    }

    #[test]
    fn every_message_is_in_one_bin() {
        let skewed = messages((0..1_000_u64).map(|n| 100 + n * n * n));
        for min_messages in [1, 20, 333, 2_000] {
            let bins = bins(&skewed, min_messages);
            assert!(bins.len() <= MAX_BINS);
            assert_eq!(bins.concat(), skewed);
            assert!(bins.len() == 1 || bins.iter().all(|bin| bin.len() >= min_messages), "{min_messages}");
        }
    }

    #[test]
    fn a_percentile_among_unfinished_messages_is_infinite() {
        let mut messages = messages(core::iter::repeat_n(10, 100));
        messages[..2].iter_mut().for_each(|message| message.is_finished = false);
        assert_eq!((percentile(&messages, 0.98), percentile(&messages, 0.99)), (1.0, f64::INFINITY));
    }
}
