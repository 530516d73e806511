//! Slowdown by the size of messages: logarithmic bins, each with enough messages for its percentile.

use crate::judge::Ran;
use crate::reduce::not_reached;
use crate::samples::{PERCENTILES, SizedSlowdown, needed, too_few};

/// Most bins.
const MOST_BINS: usize = 10;

/// A curve that a figure may ask for: `short.slowdown_p99_by_size`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BySize<'a> {
    /// The traffic or class.
    pub of: &'a str,
    share: f64,
    word: &'static str,
}

/// Reads the name of a curve; `None` if it is the name of something else.
pub fn parse(name: &str) -> Option<BySize<'_>> {
    let (of, last) = name.rsplit_once('.')?;
    let word = last.strip_prefix("slowdown_")?.strip_suffix("_by_size")?;
    let (share, word) = PERCENTILES.into_iter().find(|(_, known)| *known == word)?;
    Some(BySize { of, share, word })
}

/// The names of the curves of a traffic or class.
pub fn names(of: &str) -> impl Iterator<Item = String> + '_ {
    PERCENTILES.iter().map(move |(_, word)| format!("{of}.slowdown_{word}_by_size"))
}

/// A curve: the size in the middle of each bin and the percentile of its slowdowns, infinite where it was not reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Size in bytes and slowdown.
    pub points: Vec<(f64, f64)>,
    /// What was not reached, or why there is no curve.
    pub notes: Vec<String>,
}

/// The curve over the messages of all these runs.
pub fn curve<'a>(metric: &BySize<'_>, runs: impl Iterator<Item = &'a Ran>) -> Curve {
    let mut messages: Vec<SizedSlowdown> = Vec::new();
    let mut has_runs = false;
    for run in runs {
        has_runs = true;
        let of_phase =
            run.summary.phases.iter().filter_map(|phase| run.messages.selection(&phase.name, metric.of));
        messages.extend(of_phase.flat_map(|selection| &selection.sizes));
    }
    if !has_runs {
        return Curve::default();
    }
    messages.sort_unstable_by(|a, b| a.bytes.cmp(&b.bytes).then(a.slowdown.total_cmp(&b.slowdown)));
    if messages.len() < needed(metric.share) {
        return Curve { points: Vec::new(), notes: vec![too_few(metric.word, metric.share, messages.len())] };
    }
    let mut curve = Curve::default();
    let (mut lost, mut in_lost) = (0, 0);
    for bin in bins(&messages, needed(metric.share)) {
        let middle = bin[bin.len() / 2].bytes as f64;
        let value = percentile(bin, metric.share);
        if value.is_infinite() {
            lost += bin.iter().filter(|message| !message.is_finished).count();
            in_lost += bin.len();
        }
        curve.points.push((middle, value));
    }
    if in_lost > 0 {
        curve.notes.push(format!("{} in bins at the top edge", not_reached(lost as f64 / in_lost as f64)));
    }
    curve
}

/// The percentile of some slowdowns, those that did not finish being infinite.
fn percentile(messages: &[SizedSlowdown], share: f64) -> f64 {
    let slowdown = |message: &SizedSlowdown| {
        if message.is_finished { f64::from(message.slowdown) } else { f64::INFINITY }
    };
    let mut slowdowns: Vec<f64> = messages.iter().map(slowdown).collect();
    slowdowns.sort_unstable_by(f64::total_cmp);
    crate::stats::percentile(&slowdowns, share).unwrap_or(f64::NAN)
}

/// Cuts messages that are sorted by size into bins of equal width on a logarithmic scale; one with fewer messages than `least` is joined
/// with the next, and the last with the one before.
fn bins(messages: &[SizedSlowdown], least: usize) -> Vec<&[SizedSlowdown]> {
    let [first, .., last] = messages else { return vec![messages] };
    let (low, high) = (libm::log(first.bytes.max(1) as f64), libm::log(last.bytes.max(1) as f64));
    let mut ends = Vec::new();
    let mut begin = 0;
    for number in 1..=MOST_BINS {
        let edge = libm::exp(low + (high - low) * number as f64 / MOST_BINS as f64);
        let end = match number {
            MOST_BINS => messages.len(),
            _ => messages.partition_point(|message| (message.bytes as f64) < edge),
        };
        if end - begin >= least {
            ends.push(end);
            begin = end;
        }
    }
    match ends.last_mut() {
        Some(end) => *end = messages.len(),
        None => ends.push(messages.len()),
    }
    let begins = core::iter::once(0).chain(ends.iter().copied());
    begins.zip(&ends).map(|(begin, end)| &messages[begin..*end]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(sizes: impl Iterator<Item = u64>) -> Vec<SizedSlowdown> {
        sizes.map(|bytes| SizedSlowdown { bytes, slowdown: 1.0, is_finished: true }).collect()
    }

    #[test]
    fn names_are_read() {
        let read = parse("short.slowdown_p99_by_size").expect("a curve");
        assert_eq!((read.of, read.share), ("short", 0.99));
        assert_eq!(parse("short.slowdown_p99"), None);
        assert_eq!(parse("short.rate_gbps"), None);
    }

    #[test]
    fn there_are_at_most_ten_bins_and_each_has_enough_messages() {
        // 100 of each power of two from 1 to 2^19: ten bins of two powers each.
        let even = messages((0..2_000).map(|n| 1 << (n / 100)));
        let of = |least| bins(&even, least).iter().map(|bin| bin.len()).collect::<Vec<_>>();
        assert_eq!(of(20), [200; 10]);
        assert_eq!(of(150), [200; 10]);
        assert_eq!(of(201), [400; 5], "joined two by two");
        assert_eq!(of(900), [1_000, 1_000]);
        assert_eq!(of(1_001), [2_000]);
        assert_eq!(bins(&messages(core::iter::repeat_n(1_000, 50)), 20).len(), 1, "one size, one bin");
    }

    #[test]
    fn every_message_is_in_one_bin() {
        let skewed = messages((0..1_000_u64).map(|n| 100 + n * n * n));
        for least in [1, 20, 333, 2_000] {
            let bins = bins(&skewed, least);
            assert!(bins.len() <= MOST_BINS);
            assert_eq!(bins.concat(), skewed);
            assert!(bins.len() == 1 || bins.iter().all(|bin| bin.len() >= least), "{least}");
        }
    }

    #[test]
    fn a_percentile_among_the_unfinished_is_infinite() {
        let mut some = messages(core::iter::repeat_n(10, 100));
        some[..2].iter_mut().for_each(|message| message.is_finished = false);
        assert_eq!((percentile(&some, 0.98), percentile(&some, 0.99)), (1.0, f64::INFINITY));
    }
}
