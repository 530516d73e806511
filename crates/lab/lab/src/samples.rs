//! Stores the completion times of a run's messages next to its summary. Percentiles over the messages of all seeds need
//! these times.
//!
//! A message that did not finish has an infinite completion time. For such a message, the file stores the elapsed time
//! at the end of the run, which is a lower bound.

use crate::bound::Bounds;
use crate::scenario::GroupedDigits;
use crate::stats::{rank_of, supports_percentile};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A measured quantity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// The time from submission to the ACK of the last byte, in microseconds.
    Latency,
    /// The latency divided by the latency in an empty network.
    Slowdown,
    /// The time from submission until the receiver has the last byte, in microseconds.
    Arrival,
}

impl Quantity {
    /// All quantities, in file order.
    const ALL: [Self; 3] = [Self::Latency, Self::Slowdown, Self::Arrival];

    /// Returns the prefix and the unit suffix of the quantity's metric names.
    pub const fn affixes(self) -> (&'static str, &'static str) {
        match self {
            Self::Latency => ("latency", "_us"),
            Self::Slowdown => ("slowdown", ""),
            Self::Arrival => ("arrival", "_us"),
        }
    }
}

/// The share and the name of each reported percentile.
pub const PERCENTILES: [(f64, &str); 3] = [(0.5, "p50"), (0.99, "p99"), (0.999, "p999")];

/// The name of a message percentile metric, such as `short.latency_p99_us`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PercentileName<'a> {
    /// The traffic pattern or message class.
    pub owner: &'a str,
    /// The measured quantity.
    pub quantity: Quantity,
    /// The share of messages at or below the percentile.
    pub share: f64,
    /// The percentile name, such as `p99`.
    pub name: &'static str,
}

impl<'a> PercentileName<'a> {
    /// Parses a metric name; returns `None` if the metric is not a message percentile.
    pub fn parse(metric: &'a str) -> Option<Self> {
        let (owner, last) = metric.rsplit_once('.')?;
        Quantity::ALL.into_iter().find_map(|quantity| {
            let (prefix, unit) = quantity.affixes();
            let name = last.strip_prefix(prefix)?.strip_prefix('_')?.strip_suffix(unit)?;
            let (share, name) = PERCENTILES.into_iter().find(|(_, known)| *known == name)?;
            Some(Self { owner, quantity, share, name })
        })
    }
}

/// The sorted times of a set of messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    finished: Vec<f32>,
    unfinished: Vec<f32>,
}

impl Times {
    /// Creates a set from the times of finished messages and the elapsed times of unfinished messages.
    pub fn new(mut finished: Vec<f32>, mut unfinished: Vec<f32>) -> Self {
        finished.sort_unstable_by(f32::total_cmp);
        unfinished.sort_unstable_by(f32::total_cmp);
        Self { finished, unfinished }
    }

    /// Returns the times of finished messages, sorted.
    pub fn finished(&self) -> &[f32] {
        &self.finished
    }

    /// Returns the elapsed times of unfinished messages, sorted.
    pub fn unfinished(&self) -> &[f32] {
        &self.unfinished
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.finished.len() + self.unfinished.len()
    }

    /// Returns whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts the messages that finished within a time.
    fn finished_within(&self, time: f32) -> usize {
        self.finished.partition_point(|other| *other <= time)
    }

    /// Counts the messages that finished within a time, plus the unfinished messages whose elapsed time does not exceed
    /// it.
    fn possibly_finished_within(&self, time: f32) -> usize {
        self.finished_within(time) + self.unfinished.partition_point(|other| *other <= time)
    }
}

/// The pooled times of several seeds, each with a weight.
#[derive(Clone, Debug, Default)]
pub struct Pool<'a> {
    weighted: Vec<(&'a Times, usize)>,
}

impl<'a> Pool<'a> {
    /// Creates a pool from times and their weights.
    pub fn new(times: impl IntoIterator<Item = (&'a Times, usize)>) -> Self {
        Self { weighted: times.into_iter().filter(|(_, weight)| *weight > 0).collect() }
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.weighted.iter().map(|(times, weight)| times.len() * weight).sum()
    }

    /// Returns whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the share of messages that did not finish.
    pub fn unfinished_share(&self) -> f64 {
        let unfinished: usize =
            self.weighted.iter().map(|(times, weight)| times.unfinished.len() * weight).sum();
        if unfinished == 0 { 0.0 } else { unfinished as f64 / self.len() as f64 }
    }

    /// Returns a percentile by nearest rank, or a lower bound if it falls among unfinished messages. Returns `None`
    /// if there are no messages.
    pub fn percentile(&self, share: f64) -> Option<Bounds> {
        let rank = rank_of(self.len(), share);
        if rank == 0 {
            return None;
        }
        let count = |within: fn(&Times, f32) -> usize, time: f32| -> usize {
            self.weighted.iter().map(|(times, weight)| within(times, time) * weight).sum()
        };
        let finished: usize = self.weighted.iter().map(|(times, weight)| times.finished.len() * weight).sum();
        let is_reached = finished >= rank;
        let within = if is_reached { Times::finished_within } else { Times::possibly_finished_within };
        let time = smallest_float_where(|time| count(within, time) >= rank);
        Some(if is_reached { Bounds::exact(time) } else { Bounds::at_least(time) })
    }

    /// Returns a percentile if there are enough messages for it. `name` is the percentile name, such as `p99`.
    pub fn checked_percentile(&self, share: f64, name: &str) -> Result<Bounds, TooFewMessages> {
        if !supports_percentile(share, self.len()) {
            return Err(TooFewMessages::new(name, share, self.len()));
        }
        self.percentile(share).ok_or_else(|| TooFewMessages::new(name, share, 0))
    }
}

/// There are not enough messages for a percentile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{percentile} needs {needed} messages, there are {messages}")]
pub struct TooFewMessages {
    /// The percentile name, such as `p99.9`.
    pub percentile: String,
    /// The number of messages that the percentile needs.
    pub needed: GroupedDigits,
    /// The number of messages.
    pub messages: GroupedDigits,
}

impl TooFewMessages {
    /// Creates the error for the percentile at `share`, which is named `name`.
    pub fn new(name: &str, share: f64, messages: usize) -> Self {
        let digits = name.strip_prefix('p').unwrap_or(name);
        let percentile =
            if digits.len() > 2 { format!("p{}.{}", &digits[..2], &digits[2..]) } else { name.to_owned() };
        Self { percentile, needed: needed_messages(share).into(), messages: messages.into() }
    }
}

/// Returns the smallest number of messages that supports a percentile.
pub fn needed_messages(share: f64) -> usize {
    let (mut low, mut high) = (1_usize, 1 << 40);
    while low < high {
        let middle = low.midpoint(high);
        if supports_percentile(share, middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Returns the smallest non-negative float for which a condition holds, using binary search over bit patterns.
fn smallest_float_where(condition: impl Fn(f32) -> bool) -> f64 {
    let (mut low, mut high) = (0_u32, f32::INFINITY.to_bits());
    while low < high {
        let middle = low.midpoint(high);
        if condition(f32::from_bits(middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    f64::from(f32::from_bits(low))
}

/// A message's size and slowdown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizedSlowdown {
    /// The size in bytes.
    pub bytes: u64,
    /// The slowdown; a lower bound if the message did not finish.
    pub slowdown: f32,
    /// Whether the message finished.
    pub is_finished: bool,
}

/// The messages of one traffic pattern or message class that start in one phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// The phase.
    pub phase: String,
    /// The traffic pattern or message class.
    pub name: String,
    latency: Times,
    slowdown: Times,
    arrival: Times,
    /// The size and slowdown of each message.
    pub sizes: Vec<SizedSlowdown>,
}

impl Selection {
    /// Creates the selection for a phase and a traffic pattern or message class.
    pub fn new(phase: &str, name: &str, times: [Times; 3], sizes: Vec<SizedSlowdown>) -> Self {
        let [latency, slowdown, arrival] = times;
        Self { phase: phase.to_owned(), name: name.to_owned(), latency, slowdown, arrival, sizes }
    }

    /// Returns the times of the messages.
    pub fn times(&self, quantity: Quantity) -> &Times {
        match quantity {
            Quantity::Latency => &self.latency,
            Quantity::Slowdown => &self.slowdown,
            Quantity::Arrival => &self.arrival,
        }
    }

    /// Returns the share of messages that did not finish.
    pub fn unfinished_share(&self) -> f64 {
        Pool::new([(&self.latency, 1)]).unfinished_share()
    }
}

/// The times of all measured messages in a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessageSamples {
    /// One selection for each phase and each traffic pattern or message class.
    pub selections: Vec<Selection>,
}

/// An error while reading a message-time file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {cause}; run the study again into another folder", .file.display())]
pub struct SamplesError {
    /// The file.
    pub file: PathBuf,
    /// The cause of the error.
    pub cause: SamplesErrorCause,
}

/// The cause of a [`SamplesError`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SamplesErrorCause {
    /// An I/O error.
    #[error("{0}")]
    Io(String),
    /// The content is corrupt.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// A format error in a message-time file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The magic number is wrong.
    #[error("the file does not contain message times of this version")]
    WrongMagic,
    /// The file is too short.
    #[error("the file ends too early")]
    Truncated,
    /// The file is too long.
    #[error("there are bytes after the end")]
    TrailingBytes,
    /// A list is longer than the rest of the file.
    #[error("a list is longer than the file")]
    ListTooLong,
    /// A name is not UTF-8.
    #[error("a name is not text")]
    NameNotUtf8,
    /// Times are negative, not finite or not sorted.
    #[error("times are not sorted")]
    UnsortedTimes,
    /// A slowdown is infinite or NaN.
    #[error("a slowdown is not a finite number")]
    InvalidSlowdown,
}

/// The magic number at the start of a file, which identifies the format and its version.
const MAGIC: &[u8; 8] = b"poseidm1";

impl MessageSamples {
    /// Returns the messages of a traffic pattern or message class in a phase.
    pub fn selection(&self, phase: &str, name: &str) -> Option<&Selection> {
        self.selections.iter().find(|selection| selection.phase == phase && selection.name == name)
    }

    /// Encodes the samples: the magic number, then each selection with its names, its sorted times and its sizes.
    /// All numbers are little-endian, and each list is preceded by its length.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let write_length = |bytes: &mut Vec<u8>, length: usize| bytes.extend((length as u64).to_le_bytes());
        write_length(&mut bytes, self.selections.len());
        for selection in &self.selections {
            for name in [&selection.phase, &selection.name] {
                write_length(&mut bytes, name.len());
                bytes.extend(name.as_bytes());
            }
            for times in Quantity::ALL.map(|quantity| selection.times(quantity)) {
                for list in [&times.finished, &times.unfinished] {
                    write_length(&mut bytes, list.len());
                    list.iter().for_each(|time| bytes.extend(time.to_le_bytes()));
                }
            }
            write_length(&mut bytes, selection.sizes.len());
            for message in &selection.sizes {
                bytes.extend(message.bytes.to_le_bytes());
                // Slowdowns are positive. A negative sign means that the message did not finish.
                let signed = if message.is_finished { message.slowdown } else { -message.slowdown };
                bytes.extend(signed.to_le_bytes());
            }
        }
        bytes
    }

    /// Reads a file. Returns an error if the file is too short, too long or in another format.
    pub fn read(file: &Path) -> Result<Self, SamplesError> {
        let error = |cause| SamplesError { file: file.to_owned(), cause };
        let bytes = std::fs::read(file).map_err(|cause| error(SamplesErrorCause::Io(cause.to_string())))?;
        Self::from_bytes(&bytes).map_err(|cause| error(cause.into()))
    }

    /// Decodes samples.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut reader = Reader(bytes);
        if reader.bytes(MAGIC.len())? != MAGIC {
            return Err(FormatError::WrongMagic);
        }
        let mut selections = Vec::new();
        for _ in 0..reader.length(1)? {
            let [phase, name] = [reader.text()?, reader.text()?];
            let mut times =
                || Ok::<_, FormatError>(Times { finished: reader.times()?, unfinished: reader.times()? });
            let times = [times()?, times()?, times()?];
            let mut sizes = Vec::new();
            for _ in 0..reader.length(12)? {
                let bytes = reader.number()?;
                let signed = f32::from_le_bytes(reader.array()?);
                if !signed.is_finite() {
                    return Err(FormatError::InvalidSlowdown);
                }
                let is_finished = signed.is_sign_positive();
                sizes.push(SizedSlowdown { bytes, slowdown: signed.abs(), is_finished });
            }
            selections.push(Selection::new(&phase, &name, times, sizes));
        }
        if reader.0.is_empty() { Ok(Self { selections }) } else { Err(FormatError::TrailingBytes) }
    }
}

/// The bytes that have not been decoded yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], FormatError> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(FormatError::Truncated)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        self.bytes(N)?.try_into().map_err(|_| FormatError::Truncated)
    }

    fn number(&mut self) -> Result<u64, FormatError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads the length of a list whose items take at least `item_size` bytes each. The length is checked against the
    /// remaining bytes before any memory is allocated.
    fn length(&mut self, item_size: usize) -> Result<usize, FormatError> {
        let length = usize::try_from(self.number()?).map_err(|_| FormatError::ListTooLong)?;
        match length.checked_mul(item_size) {
            Some(bytes) if bytes <= self.0.len() => Ok(length),
            _ => Err(FormatError::ListTooLong),
        }
    }

    fn text(&mut self) -> Result<String, FormatError> {
        let length = self.length(1)?;
        String::from_utf8(self.bytes(length)?.to_vec()).map_err(|_| FormatError::NameNotUtf8)
    }

    fn times(&mut self) -> Result<Vec<f32>, FormatError> {
        let length = self.length(4)?;
        let times: Vec<f32> =
            self.bytes(4 * length)?.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let is_time = |time: &f32| time.is_finite() && *time >= 0.0;
        match times.iter().all(is_time) && times.is_sorted() {
            true => Ok(times),
            false => Err(FormatError::UnsortedTimes),
        }
    }
}

/// Where a run's message times are stored.
#[derive(Clone, Debug, Default)]
pub enum MessageStorage {
    /// The run has no message times, because it is a closed-form model or has no messages.
    #[default]
    None,
    /// The times are in a file.
    File(PathBuf),
    /// The times are in memory.
    Loaded(Arc<MessageSamples>),
}

impl MessageStorage {
    /// Loads the times into memory if they are in a file.
    pub fn load(&self) -> Result<Self, SamplesError> {
        Ok(match self {
            Self::File(file) => Self::Loaded(Arc::new(MessageSamples::read(file)?)),
            other => other.clone(),
        })
    }

    /// Returns the messages of a traffic pattern or message class in a phase, if they are loaded.
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
    fn a_percentile_among_unfinished_messages_is_a_lower_bound() {
        // Nine messages finished. Three are unfinished, with elapsed times of 5, 50 and 60.
        let mixed = times(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], &[50.0, 60.0, 5.0]);
        let pool = Pool::new([(&mixed, 1)]);
        assert_eq!(pool.percentile(0.5), Some(Bounds::exact(6.0)), "the 6th of 12, unfinished messages last");
        assert_eq!(pool.percentile(0.75), Some(Bounds::exact(9.0)));
        assert_eq!(pool.percentile(0.9), Some(Bounds::at_least(50.0)), "the 11th of 12");
        assert_eq!(pool.percentile(0.76), Some(Bounds::at_least(9.0)), "the 10th of 12");
        assert_eq!(pool.unfinished_share(), 0.25);
    }

    #[test]
    fn two_seeds_support_a_percentile_that_one_seed_does_not() {
        let times_from = |from: u16| times(&(from..from + 971).map(f32::from).collect::<Vec<_>>(), &[]);
        let (first, second) = (times_from(0), times_from(971));
        let single = Pool::new([(&first, 1)]).checked_percentile(0.99, "p99");
        let error = single.expect_err("971 messages are too few").to_string();
        assert_eq!(error, "p99 needs 1,000 messages, there are 971");
        // 99 % of 1942 is 1922.58, so p99 is the sample with rank 1923, whose value is 1922.
        let pooled = Pool::new([(&first, 1), (&second, 1)]);
        assert_eq!(pooled.checked_percentile(0.99, "p99"), Ok(Bounds::exact(1922.0)));
        assert_eq!(
            pooled.checked_percentile(0.999, "p999").unwrap_err().to_string(),
            "p99.9 needs 10,000 messages, there are 1,942"
        );
    }

    #[test]
    fn percentile_names_are_parsed() {
        let parsed = PercentileName::parse("short-flows.slowdown_p999").expect("the metric is a percentile");
        assert_eq!((parsed.owner, parsed.quantity, parsed.share), ("short-flows", Quantity::Slowdown, 0.999));
        assert!(PercentileName::parse("a.latency_p99_us").is_some());
        for other in
            ["a.latency_mean_us", "a.rtt_p99_us", "a.latency_p99", "latency_p99_us", "a.delay_p50_us"]
        {
            assert_eq!(PercentileName::parse(other), None, "{other}");
        }
    }

    fn example_samples() -> MessageSamples {
        let all = times(&[1.0, 2.5], &[7.0]);
        let sizes = vec![
            SizedSlowdown { bytes: 100, slowdown: 1.5, is_finished: true },
            SizedSlowdown { bytes: 1 << 40, slowdown: 3.0, is_finished: false },
        ];
        let selection = Selection::new("all", "short", [all.clone(), all.clone(), Times::default()], sizes);
        MessageSamples { selections: vec![selection, Selection::default()] }
    }

    #[test]
    fn samples_survive_a_round_trip() {
        let samples = example_samples();
        assert_eq!(MessageSamples::from_bytes(&samples.to_bytes()), Ok(samples));
    }

    #[test]
    fn a_corrupt_file_is_rejected() {
        let bytes = example_samples().to_bytes();
        for end in 0..bytes.len() {
            assert!(MessageSamples::from_bytes(&bytes[..end]).is_err(), "{end} bytes");
        }
        assert!(MessageSamples::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        let mut long = bytes.clone();
        long[8..16].fill(0xff);
        assert_eq!(MessageSamples::from_bytes(&long), Err(FormatError::ListTooLong));
    }

    proptest! {
        #[test]
        fn a_weighted_pool_equals_a_list_with_infinity_for_unfinished_messages(
            seeds in prop::collection::vec(
                (prop::collection::vec(0.0..100.0f32, 0..30), prop::collection::vec(0.0..100.0f32, 0..5), 0usize..3), 1..5,
            ),
            share in 0.0..=1.0f64,
        ) {
            let weighted: Vec<(Times, usize)> =
                seeds.iter().map(|(finished, elapsed, weight)| (times(finished, elapsed), *weight)).collect();
            let pool = Pool::new(weighted.iter().map(|(times, weight)| (times, *weight)));
            let list = |value_of_unfinished: fn(f32) -> f64| {
                let mut list = Vec::new();
                for (finished, elapsed, weight) in &seeds {
                    for _ in 0..*weight {
                        list.extend(finished.iter().copied().map(f64::from));
                        list.extend(elapsed.iter().copied().map(value_of_unfinished));
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
        fn decoding_arbitrary_bytes_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = MessageSamples::from_bytes(&[MAGIC.as_slice(), &bytes].concat());
        }
    }
}
