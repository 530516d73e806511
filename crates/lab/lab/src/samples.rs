//! How long the messages of a run took, kept beside its summary, so that percentiles can be taken over the messages of all seeds.
//!
//! A message that did not finish has an infinite completion time. Of it, the time that it had until the run ended is kept: its completion
//! time is greater than that.

use crate::bound::Bounds;
use crate::scenario::grouped;
use crate::stats::{can_carry, rank_of};
use core::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is measured of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// From handing over to the last byte acknowledged, microseconds.
    Latency,
    /// That over the latency of an empty network.
    Slowdown,
    /// From handing over to the last byte at the receiver, microseconds.
    Arrival,
}

impl Quantity {
    /// All, in the order of the file.
    const ALL: [Self; 3] = [Self::Latency, Self::Slowdown, Self::Arrival];

    /// How metrics of it begin, and the unit they end with.
    pub const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Latency => ("latency", "_us"),
            Self::Slowdown => ("slowdown", ""),
            Self::Arrival => ("arrival", "_us"),
        }
    }
}

/// Percentiles that are given, with their names and the number of messages that they need.
pub const PERCENTILES: [(f64, &str); 3] = [(0.5, "p50"), (0.99, "p99"), (0.999, "p999")];

/// A metric that is a percentile of messages: `short.latency_p99_us`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PercentileName<'a> {
    /// The traffic or class.
    pub of: &'a str,
    /// What is measured.
    pub quantity: Quantity,
    /// The share of messages that it is not below.
    pub share: f64,
    /// The name of that share: `p99`.
    pub word: &'static str,
}

impl<'a> PercentileName<'a> {
    /// Reads the name of a metric; `None` if it is another kind of metric.
    pub fn parse(metric: &'a str) -> Option<Self> {
        let (of, last) = metric.rsplit_once('.')?;
        Quantity::ALL.into_iter().find_map(|quantity| {
            let (name, unit) = quantity.words();
            let word = last.strip_prefix(name)?.strip_prefix('_')?.strip_suffix(unit)?;
            let (share, word) = PERCENTILES.into_iter().find(|(_, known)| *known == word)?;
            Some(Self { of, quantity, share, word })
        })
    }
}

/// The times of some messages, sorted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    finished: Vec<f32>,
    unfinished: Vec<f32>,
}

impl Times {
    /// Takes times of messages that finished, and for the others the time that they had.
    pub fn new(mut finished: Vec<f32>, mut unfinished: Vec<f32>) -> Self {
        finished.sort_unstable_by(f32::total_cmp);
        unfinished.sort_unstable_by(f32::total_cmp);
        Self { finished, unfinished }
    }

    /// Those of messages that finished, sorted.
    pub fn finished(&self) -> &[f32] {
        &self.finished
    }

    /// What the others had, sorted.
    pub fn unfinished(&self) -> &[f32] {
        &self.unfinished
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.finished.len() + self.unfinished.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many finished within this.
    fn finished_within(&self, time: f32) -> usize {
        self.finished.partition_point(|other| *other <= time)
    }

    /// How many could have finished within this: the others had more time and did not.
    fn at_most_within(&self, time: f32) -> usize {
        self.finished_within(time) + self.unfinished.partition_point(|other| *other <= time)
    }
}

/// Times of several seeds taken together, each seed counting as often as its weight says.
#[derive(Clone, Debug, Default)]
pub struct Pool<'a> {
    of: Vec<(&'a Times, usize)>,
}

impl<'a> Pool<'a> {
    /// Each as often as it is given.
    pub fn new(times: impl IntoIterator<Item = (&'a Times, usize)>) -> Self {
        Self { of: times.into_iter().filter(|(_, weight)| *weight > 0).collect() }
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.of.iter().map(|(times, weight)| times.len() * weight).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The share of messages that did not finish.
    pub fn unfinished_share(&self) -> f64 {
        let unfinished: usize = self.of.iter().map(|(times, weight)| times.unfinished.len() * weight).sum();
        if unfinished == 0 { 0.0 } else { unfinished as f64 / self.len() as f64 }
    }

    /// A percentile by nearest rank: a value, or a bound from below where it falls among messages that did not finish. `None` without
    /// messages.
    pub fn percentile(&self, share: f64) -> Option<Bounds> {
        let rank = rank_of(self.len(), share);
        if rank == 0 {
            return None;
        }
        let count = |within: fn(&Times, f32) -> usize, time: f32| -> usize {
            self.of.iter().map(|(times, weight)| within(times, time) * weight).sum()
        };
        let finished: usize = self.of.iter().map(|(times, weight)| times.finished.len() * weight).sum();
        let is_reached = finished >= rank;
        let within = if is_reached { Times::finished_within } else { Times::at_most_within };
        let found = smallest(|time| count(within, time) >= rank);
        Some(if is_reached { Bounds::exact(found) } else { Bounds::at_least(found) })
    }

    /// A percentile, or why there is none in words.
    pub fn reading(&self, share: f64, word: &str) -> Result<Bounds, String> {
        if !can_carry(share, self.len()) {
            return Err(too_few(word, share, self.len()));
        }
        self.percentile(share).ok_or_else(|| too_few(word, share, 0))
    }
}

/// Why a percentile is not given: it needs more messages.
pub fn too_few(word: &str, share: f64, there_are: usize) -> String {
    let digits = word.strip_prefix('p').unwrap_or(word);
    let name = if digits.len() > 2 { format!("p{}.{}", &digits[..2], &digits[2..]) } else { word.to_owned() };
    format!(
        "{name} needs {} messages, there are {}",
        grouped(needed(share) as u64),
        grouped(there_are as u64)
    )
}

/// The fewest messages that carry a percentile.
pub fn needed(share: f64) -> usize {
    let (mut low, mut high) = (1_usize, 1 << 40);
    while low < high {
        let middle = low.midpoint(high);
        if can_carry(share, middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// The smallest non-negative number for which this holds, searched over the bits of all of them.
fn smallest(holds: impl Fn(f32) -> bool) -> f64 {
    let (mut low, mut high) = (0_u32, f32::INFINITY.to_bits());
    while low < high {
        let middle = low.midpoint(high);
        if holds(f32::from_bits(middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    f64::from(f32::from_bits(low))
}

/// The size of a message and its slowdown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizedSlowdown {
    /// Its size in bytes.
    pub bytes: u64,
    /// Its slowdown; of one that did not finish, what it is greater than.
    pub slowdown: f32,
    /// Whether it finished.
    pub is_finished: bool,
}

/// The messages of one traffic or class that begin in one phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// The phase.
    pub phase: String,
    /// The traffic or class.
    pub name: String,
    latency: Times,
    slowdown: Times,
    arrival: Times,
    /// Every message with its size.
    pub sizes: Vec<SizedSlowdown>,
}

impl Selection {
    /// Those of a phase and of a traffic or class.
    pub fn new(phase: &str, name: &str, times: [Times; 3], sizes: Vec<SizedSlowdown>) -> Self {
        let [latency, slowdown, arrival] = times;
        Self { phase: phase.to_owned(), name: name.to_owned(), latency, slowdown, arrival, sizes }
    }

    /// Their times.
    pub fn times(&self, quantity: Quantity) -> &Times {
        match quantity {
            Quantity::Latency => &self.latency,
            Quantity::Slowdown => &self.slowdown,
            Quantity::Arrival => &self.arrival,
        }
    }

    /// The share of them that did not finish.
    pub fn unfinished_share(&self) -> f64 {
        Pool::new([(&self.latency, 1)]).unfinished_share()
    }
}

/// The times of all measured messages of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessageSamples {
    /// By phase, and by traffic or class.
    pub selections: Vec<Selection>,
}

/// Why a file of message times cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplesError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for SamplesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; run the study again into another folder", self.file.display(), self.what)
    }
}

impl core::error::Error for SamplesError {}

/// What a file begins with: the format and its version.
const MAGIC: &[u8; 8] = b"poseidm1";

impl MessageSamples {
    /// The messages of a phase and of a traffic or class.
    pub fn selection(&self, phase: &str, name: &str) -> Option<&Selection> {
        self.selections.iter().find(|selection| selection.phase == phase && selection.name == name)
    }

    /// As bytes: the magic, then each selection with its names, its sorted times and its sizes, all little-endian, each list behind its
    /// length.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let length = |bytes: &mut Vec<u8>, length: usize| bytes.extend((length as u64).to_le_bytes());
        length(&mut bytes, self.selections.len());
        for selection in &self.selections {
            for name in [&selection.phase, &selection.name] {
                length(&mut bytes, name.len());
                bytes.extend(name.as_bytes());
            }
            for times in Quantity::ALL.map(|quantity| selection.times(quantity)) {
                for list in [&times.finished, &times.unfinished] {
                    length(&mut bytes, list.len());
                    list.iter().for_each(|time| bytes.extend(time.to_le_bytes()));
                }
            }
            length(&mut bytes, selection.sizes.len());
            for message in &selection.sizes {
                bytes.extend(message.bytes.to_le_bytes());
                // The sign says whether it finished; slowdowns are positive.
                let signed = if message.is_finished { message.slowdown } else { -message.slowdown };
                bytes.extend(signed.to_le_bytes());
            }
        }
        bytes
    }

    /// Reads a file; a file that is too short, too long or not of this format is refused.
    pub fn read(file: &Path) -> Result<Self, SamplesError> {
        let refuse = |what: String| SamplesError { file: file.to_owned(), what };
        let bytes = std::fs::read(file).map_err(|error| refuse(error.to_string()))?;
        Self::from_bytes(&bytes).map_err(|what| refuse(what.to_owned()))
    }

    /// Reads bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut rest = Reader(bytes);
        if rest.take(MAGIC.len())? != MAGIC {
            return Err("it does not hold message times of this version");
        }
        let mut selections = Vec::new();
        for _ in 0..rest.length(1)? {
            let [phase, name] = [rest.text()?, rest.text()?];
            let mut times =
                || Ok::<_, &'static str>(Times { finished: rest.times()?, unfinished: rest.times()? });
            let times = [times()?, times()?, times()?];
            let mut sizes = Vec::new();
            for _ in 0..rest.length(12)? {
                let bytes = rest.number()?;
                let signed = f32::from_le_bytes(rest.array()?);
                if !signed.is_finite() {
                    return Err("a slowdown is no number");
                }
                let is_finished = signed.is_sign_positive();
                sizes.push(SizedSlowdown { bytes, slowdown: signed.abs(), is_finished });
            }
            selections.push(Selection::new(&phase, &name, times, sizes));
        }
        if rest.0.is_empty() { Ok(Self { selections }) } else { Err("there is more behind its end") }
    }
}

/// Bytes that are still to be read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or("it ends too soon")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        self.take(N)?.try_into().map_err(|_| "it ends too soon")
    }

    fn number(&mut self) -> Result<u64, &'static str> {
        self.array().map(u64::from_le_bytes)
    }

    /// The length of a list whose items have at least so many bytes each: one that the rest cannot hold is refused before room is made.
    fn length(&mut self, each: usize) -> Result<usize, &'static str> {
        let length = usize::try_from(self.number()?).map_err(|_| "a list is too long")?;
        match length.checked_mul(each) {
            Some(bytes) if bytes <= self.0.len() => Ok(length),
            _ => Err("a list is longer than the file"),
        }
    }

    fn text(&mut self) -> Result<String, &'static str> {
        let length = self.length(1)?;
        String::from_utf8(self.take(length)?.to_vec()).map_err(|_| "a name is no text")
    }

    fn times(&mut self) -> Result<Vec<f32>, &'static str> {
        let length = self.length(4)?;
        let times: Vec<f32> =
            self.take(4 * length)?.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let is_time = |time: &f32| time.is_finite() && *time >= 0.0;
        match times.iter().all(is_time) && times.is_sorted() {
            true => Ok(times),
            false => Err("times are not sorted"),
        }
    }
}

/// Where the message times of a run are.
#[derive(Clone, Debug, Default)]
pub enum Messages {
    /// Nowhere: a closed form, or a run without messages.
    #[default]
    None,
    /// In a file.
    File(PathBuf),
    /// Here.
    Loaded(Arc<MessageSamples>),
}

impl Messages {
    /// Reads the file, where they are in one.
    pub fn load(&self) -> Result<Self, SamplesError> {
        Ok(match self {
            Self::File(file) => Self::Loaded(Arc::new(MessageSamples::read(file)?)),
            other => other.clone(),
        })
    }

    /// The messages of a phase and of a traffic or class, where they are loaded.
    pub fn selection(&self, phase: &str, name: &str) -> Option<&Selection> {
        match self {
            Self::Loaded(samples) => samples.selection(phase, name),
            Self::None | Self::File(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::percentile;
    use proptest::prelude::*;

    fn times(finished: &[f32], unfinished: &[f32]) -> Times {
        Times::new(finished.to_vec(), unfinished.to_vec())
    }

    #[test]
    fn a_percentile_among_the_unfinished_is_a_bound() {
        // Nine finished, three had 5, 50 and 60: sorted with them in place 1..9, 5, 50, 60.
        let some = times(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], &[50.0, 60.0, 5.0]);
        let pool = Pool::new([(&some, 1)]);
        assert_eq!(pool.percentile(0.5), Some(Bounds::exact(6.0)), "the 6th of 12, infinity last");
        assert_eq!(pool.percentile(0.75), Some(Bounds::exact(9.0)));
        assert_eq!(pool.percentile(0.9), Some(Bounds::at_least(50.0)), "the 11th of 12");
        assert_eq!(pool.percentile(0.76), Some(Bounds::at_least(9.0)), "the 10th of 12");
        assert_eq!(pool.unfinished_share(), 0.25);
    }

    #[test]
    fn two_seeds_carry_what_one_does_not() {
        let of = |from: u16| times(&(from..from + 971).map(f32::from).collect::<Vec<_>>(), &[]);
        let (one, other) = (of(0), of(971));
        let alone = Pool::new([(&one, 1)]).reading(0.99, "p99");
        assert_eq!(alone, Err("p99 needs 1,000 messages, there are 971".to_owned()));
        // Of 0 to 1941 the rank 1923 (99 % of 1942 are 1922.58) is the value 1922.
        let both = Pool::new([(&one, 1), (&other, 1)]);
        assert_eq!(both.reading(0.99, "p99"), Ok(Bounds::exact(1922.0)));
        assert_eq!(both.reading(0.999, "p999").unwrap_err(), "p99.9 needs 10,000 messages, there are 1,942");
    }

    #[test]
    fn names_of_percentiles_are_read() {
        let read = PercentileName::parse("short-flows.slowdown_p999").expect("a percentile");
        assert_eq!((read.of, read.quantity, read.share), ("short-flows", Quantity::Slowdown, 0.999));
        assert!(PercentileName::parse("a.latency_p99_us").is_some());
        for other in
            ["a.latency_mean_us", "a.rtt_p99_us", "a.latency_p99", "latency_p99_us", "a.delay_p50_us"]
        {
            assert_eq!(PercentileName::parse(other), None, "{other}");
        }
    }

    fn some_samples() -> MessageSamples {
        let all = times(&[1.0, 2.5], &[7.0]);
        let sizes = vec![
            SizedSlowdown { bytes: 100, slowdown: 1.5, is_finished: true },
            SizedSlowdown { bytes: 1 << 40, slowdown: 3.0, is_finished: false },
        ];
        let selection = Selection::new("all", "short", [all.clone(), all.clone(), Times::default()], sizes);
        MessageSamples { selections: vec![selection, Selection::default()] }
    }

    #[test]
    fn what_is_written_is_read() {
        let samples = some_samples();
        assert_eq!(MessageSamples::from_bytes(&samples.to_bytes()), Ok(samples));
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let bytes = some_samples().to_bytes();
        for end in 0..bytes.len() {
            assert!(MessageSamples::from_bytes(&bytes[..end]).is_err(), "{end} bytes");
        }
        assert!(MessageSamples::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        let mut long = bytes.clone();
        long[8..16].fill(0xff);
        assert_eq!(MessageSamples::from_bytes(&long), Err("a list is longer than the file"));
    }

    proptest! {
        #[test]
        fn a_weighted_pool_is_the_list_of_all_with_infinity_for_the_unfinished(
            seeds in prop::collection::vec(
                (prop::collection::vec(0.0..100.0f32, 0..30), prop::collection::vec(0.0..100.0f32, 0..5), 0usize..3), 1..5,
            ),
            share in 0.0..=1.0f64,
        ) {
            let all: Vec<(Times, usize)> =
                seeds.iter().map(|(done, had, weight)| (times(done, had), *weight)).collect();
            let pool = Pool::new(all.iter().map(|(times, weight)| (times, *weight)));
            let list = |of_unfinished: fn(f32) -> f64| {
                let mut list = Vec::new();
                for (done, had, weight) in &seeds {
                    for _ in 0..*weight {
                        list.extend(done.iter().copied().map(f64::from));
                        list.extend(had.iter().copied().map(of_unfinished));
                    }
                }
                list.sort_unstable_by(f64::total_cmp);
                list
            };
            let value = percentile(&list(|_| f64::INFINITY), share);
            let bound = percentile(&list(f64::from), share);
            let expected = match value {
                Some(value) if value.is_finite() => Some(Bounds::exact(value)),
                _ => bound.map(Bounds::at_least),
            };
            prop_assert_eq!(pool.percentile(share), expected);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = MessageSamples::from_bytes(&[MAGIC.as_slice(), &bytes].concat());
        }
    }
}
