//! Flow size distributions.

use super::error::{TextError, lines};
use super::workloads::WORKLOADS;
use crate::random::RandomKey;
use core::fmt;
use poseidon_types::Bytes;

/// A flow size distribution, given as CDF points with linear interpolation between them.
///
/// The traffic generators in the HPCC and PowerTCP artifacts interpolate in the same way. The interpolation affects the
/// mean, and the mean determines the arrival rate for a given load.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeDistribution {
    points: Vec<SizePoint>,
}

/// A CDF point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizePoint {
    /// The flow size.
    pub size: Bytes,
    /// The fraction of flows that are no larger than this size.
    pub cdf: f64,
}

/// The reason that CDF points do not form a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizePointError {
    /// The first CDF value is not 0, or there is no point.
    First,
    /// A size or a CDF value is below that of the previous point, or a CDF value is not a number.
    Decreasing {
        /// The index of the point.
        point: usize,
    },
    /// The last CDF value is not 1, or the largest size is zero.
    Last {
        /// The index of the point.
        point: usize,
    },
}

impl SizePointError {
    /// Returns the index of the point that caused the error.
    pub const fn point(self) -> usize {
        match self {
            Self::First => 0,
            Self::Decreasing { point } | Self::Last { point } => point,
        }
    }
}

impl fmt::Display for SizePointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "the first CDF value must be 0",
            Self::Decreasing { .. } => "sizes and CDF values must not decrease",
            Self::Last { .. } => "the last CDF value must be 1, with a size above zero",
        })
    }
}

impl core::error::Error for SizePointError {}

impl SizeDistribution {
    /// Creates a distribution from its CDF points.
    ///
    /// The first CDF value must be 0 and the last must be 1. Neither sizes nor CDF values may decrease.
    pub fn from_points(points: Vec<SizePoint>) -> Result<Self, SizePointError> {
        if points.first().is_none_or(|first| first.cdf != 0.0) {
            return Err(SizePointError::First);
        }
        // The comparison is false for a CDF value that is not a number.
        let rises = |pair: &[SizePoint]| pair[0].size <= pair[1].size && pair[0].cdf <= pair[1].cdf;
        if let Some(previous) = points.windows(2).position(|pair| !rises(pair)) {
            return Err(SizePointError::Decreasing { point: previous + 1 });
        }
        if points.last().is_none_or(|last| last.cdf != 1.0 || last.size.is_zero()) {
            return Err(SizePointError::Last { point: points.len() - 1 });
        }
        Ok(Self { points })
    }

    /// Returns a distribution in which all flows have this size.
    pub fn fixed(size: Bytes) -> Self {
        Self { points: vec![SizePoint { size, cdf: 0.0 }, SizePoint { size, cdf: 1.0 }] }
    }

    /// Returns the published distribution with this name from [`WORKLOADS`].
    pub fn named(name: &str) -> Option<Self> {
        let workload = WORKLOADS.iter().find(|workload| workload.name == name)?;
        Some(Self::parse(workload.text).expect("all workloads are valid"))
    }

    /// Parses a file that has the header `size_bytes,cdf` and one point per line. `#` starts a comment.
    ///
    /// The first CDF value must be 0 and the last must be 1. Neither column may decrease.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let (mut points, mut line_numbers) = (Vec::new(), Vec::new());
        let mut lines = lines(text);
        let reject = |line, reason: &str| Err(TextError { line, reason: reason.into() });
        match lines.next() {
            Some((_, "size_bytes,cdf")) => {}
            Some((line, _)) => return reject(line, "the first line must be \"size_bytes,cdf\""),
            None => return reject(1, "the file is empty: begin with \"size_bytes,cdf\""),
        }
        for (line, row) in lines {
            let Some(point) = parse_point(row) else {
                return reject(line, "write a size in bytes and a CDF value from 0 to 1: \"4000,0.2293\"");
            };
            points.push(point);
            line_numbers.push(line);
        }
        Self::from_points(points).map_err(|error| TextError {
            line: line_numbers.get(error.point()).copied().unwrap_or(1),
            reason: error.to_string(),
        })
    }

    /// Returns the CDF points.
    pub fn points(&self) -> &[SizePoint] {
        &self.points
    }

    /// Returns the mean size in bytes. Sizes are uniformly distributed between two points, so each segment contributes
    /// its probability times its midpoint.
    pub fn mean(&self) -> f64 {
        let segment = |pair: &[SizePoint]| {
            let midpoint = (pair[0].size.get() as f64 + pair[1].size.get() as f64) / 2.0;
            midpoint * (pair[1].cdf - pair[0].cdf)
        };
        self.points.windows(2).map(segment).sum()
    }

    /// Returns a flow size quantile, rounded down to whole bytes. The result is at least one byte.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the result lies between two sizes and is rounded down"
    )]
    pub fn quantile(&self, probability: f64) -> Bytes {
        let next = self.points.partition_point(|point| point.cdf < probability);
        let Some(previous) = next.checked_sub(1) else {
            return self.points[0].size.max(Bytes::new(1));
        };
        let Some(next) = self.points.get(next) else {
            return self.points[previous].size;
        };
        let previous = &self.points[previous];
        let (low, high) = (previous.size.get() as f64, next.size.get() as f64);
        // The next point's CDF value exceeds the previous point's, so the denominator is positive.
        let position = (probability - previous.cdf) / (next.cdf - previous.cdf);
        Bytes::new((low + (high - low) * position) as u64).max(Bytes::new(1))
    }

    /// Draws a random flow size.
    pub fn draw(&self, random: RandomKey) -> Bytes {
        // The probability is in (0, 1]. A probability of zero would return the first point, whose size may never occur.
        self.quantile(1.0 - random.uniform())
    }
}

fn parse_point(row: &str) -> Option<SizePoint> {
    let (size, cdf) = row.split_once(',')?;
    let cdf: f64 = cdf.trim().parse().ok()?;
    let size = Bytes::new(size.trim().parse().ok()?);
    (0.0..=1.0).contains(&cdf).then_some(SizePoint { size, cdf })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_SEGMENTS: &str = "size_bytes,cdf\n0,0\n100,0.5 # half\n\n300,1";

    #[test]
    fn mean_and_quantiles_of_two_segments_are_correct() {
        let sizes = SizeDistribution::parse(TWO_SEGMENTS).expect("the file is valid");
        // Half of the flows have a mean size of 50 bytes, and the other half have a mean size of 200 bytes.
        assert_eq!(sizes.mean(), 125.0);
        let quantile = |probability| sizes.quantile(probability).get();
        assert_eq!([0.25, 0.5, 0.75, 1.0].map(quantile), [50, 100, 200, 300]);
        assert_eq!(quantile(0.0), 1, "a flow has at least one byte");
    }

    #[test]
    fn sizes_with_zero_probability_are_not_drawn() {
        let sizes = SizeDistribution::parse("size_bytes,cdf\n0,0\n100,0.5\n200,0.5\n300,1")
            .expect("the file is valid");
        assert_eq!(sizes.mean(), 150.0);
        assert_eq!((sizes.quantile(0.5).get(), sizes.quantile(0.75).get()), (100, 250));
        let draw = |i| sizes.draw(RandomKey::new(i, "gap")).get();
        assert!((0..10_000).map(draw).all(|size| !(101..200).contains(&size)));
    }

    #[test]
    fn invalid_points_are_rejected() {
        let error = |points: &[(u64, f64)]| {
            let point = |&(size, cdf): &(u64, f64)| SizePoint { size: Bytes::new(size), cdf };
            SizeDistribution::from_points(points.iter().map(point).collect())
                .expect_err("the points are invalid")
        };
        assert_eq!(error(&[]), SizePointError::First);
        assert_eq!(error(&[(1, 0.5), (2, 1.0)]), SizePointError::First);
        assert_eq!(error(&[(1, 0.0), (9, 0.5), (8, 1.0)]), SizePointError::Decreasing { point: 2 });
        assert_eq!(error(&[(1, 0.0), (8, f64::NAN), (9, 1.0)]), SizePointError::Decreasing { point: 1 });
        assert_eq!(error(&[(1, 0.0), (8, 0.5)]), SizePointError::Last { point: 1 });
        assert_eq!(error(&[(0, 0.0), (0, 1.0)]), SizePointError::Last { point: 1 });
    }

    #[test]
    fn fixed_distribution_has_one_size() {
        let sizes = SizeDistribution::fixed(Bytes::new(131_072));
        assert_eq!(sizes.mean(), 131_072.0);
        assert!((0..100).all(|i| sizes.draw(RandomKey::new(i, "fixed")) == Bytes::new(131_072)));
    }

    #[test]
    fn invalid_file_is_rejected_with_the_line_number() {
        let error = |text: &str| SizeDistribution::parse(text).expect_err("the file is invalid").to_string();
        assert_eq!(error("0,0\n1,1"), "line 1: the first line must be \"size_bytes,cdf\"");
        assert_eq!(error("size_bytes,cdf\n1,0.5"), "line 2: the first CDF value must be 0");
        assert_eq!(
            error("size_bytes,cdf\n0,0\n9,0.5\n8,1"),
            "line 4: sizes and CDF values must not decrease"
        );
        assert_eq!(
            error("size_bytes,cdf\n0,0\n9,0.5"),
            "line 3: the last CDF value must be 1, with a size above zero"
        );
        assert!(error("size_bytes,cdf\n0 0").starts_with("line 2: write a size"));
        assert!(error("size_bytes,cdf\n0,0\n9,NaN").starts_with("line 3: write a size"));
        assert!(error("").starts_with("line 1: "));
    }
}
