//! How large flows are.

use super::error::{TextError, lines};
use super::workloads::WORKLOADS;
use crate::chance::Chance;
use poseidon_types::Bytes;

/// A distribution of sizes: points of its distribution function, and straight lines between them.
///
/// That is how the generators of HPCC's and PowerTCP's artifacts read their files. Another interpolation has another mean, and
/// the mean is what turns a load into a rate of arrivals.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeDistribution {
    points: Vec<SizePoint>,
}

/// A point of a distribution function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizePoint {
    /// A size.
    pub size: Bytes,
    /// The share of flows that are at most so large.
    pub cdf: f64,
}

impl SizeDistribution {
    /// All of one size.
    pub fn fixed(size: Bytes) -> Self {
        Self { points: vec![SizePoint { size, cdf: 0.0 }, SizePoint { size, cdf: 1.0 }] }
    }

    /// A published distribution, by its name in [`WORKLOADS`].
    pub fn named(name: &str) -> Option<Self> {
        let workload = WORKLOADS.iter().find(|workload| workload.name == name)?;
        Some(Self::parse(workload.text).expect("a test reads all of them"))
    }

    /// Reads a file: `size_bytes,cdf` and then one point per line; `#` begins a comment. The first share must be 0, the last 1,
    /// and neither column may fall.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let mut points: Vec<SizePoint> = Vec::new();
        let mut last_line = 1;
        let mut lines = lines(text);
        let refuse = |line, why: &str| Err(TextError { line, why: why.into() });
        match lines.next() {
            Some((_, "size_bytes,cdf")) => {}
            Some((line, _)) => return refuse(line, "the first line must be \"size_bytes,cdf\""),
            None => return refuse(1, "there is nothing in it: begin with \"size_bytes,cdf\""),
        }
        for (line, row) in lines {
            let Some(point) = read_point(row) else {
                return refuse(line, "write a size in bytes and a share from 0 to 1: \"4000,0.2293\"");
            };
            match points.last() {
                None if point.cdf != 0.0 => return refuse(line, "the first share must be 0"),
                Some(before) if point.size < before.size || point.cdf < before.cdf => {
                    return refuse(line, "sizes and shares must not fall");
                }
                None | Some(_) => points.push(point),
            }
            last_line = line;
        }
        if points.last().is_none_or(|last| last.cdf != 1.0 || last.size.is_zero()) {
            return refuse(last_line, "the last share must be 1, of a size above zero");
        }
        Ok(Self { points })
    }

    /// Its points.
    pub fn points(&self) -> &[SizePoint] {
        &self.points
    }

    /// The mean in bytes: between two points sizes are uniform, so each piece adds its share times its middle.
    pub fn mean(&self) -> f64 {
        let piece = |pair: &[SizePoint]| {
            let middle = (pair[0].size.get() as f64 + pair[1].size.get() as f64) / 2.0;
            middle * (pair[1].cdf - pair[0].cdf)
        };
        self.points.windows(2).map(piece).sum()
    }

    /// The size that a share of flows does not exceed, rounded down to whole bytes, and at least one.
    #[expect(clippy::cast_possible_truncation, reason = "it lies between two sizes, and is rounded down")]
    pub fn quantile(&self, share: f64) -> Bytes {
        let next = self.points.partition_point(|point| point.cdf < share);
        let Some(before) = next.checked_sub(1) else {
            return self.points[0].size.max(Bytes::new(1));
        };
        let Some(next) = self.points.get(next) else {
            return self.points[before].size;
        };
        let before = &self.points[before];
        let (low, high) = (before.size.get() as f64, next.size.get() as f64);
        // The share lies above that of the point before, so the two differ.
        let way = (share - before.cdf) / (next.cdf - before.cdf);
        Bytes::new((low + (high - low) * way) as u64).max(Bytes::new(1))
    }

    /// A size by chance.
    pub fn draw(&self, chance: Chance) -> Bytes {
        // From above 0 to 1, so that a share that no flow has (0 at 2 kB) gives no size.
        self.quantile(1.0 - chance.unit())
    }
}

fn read_point(row: &str) -> Option<SizePoint> {
    let (size, cdf) = row.split_once(',')?;
    let cdf: f64 = cdf.trim().parse().ok()?;
    let size = Bytes::new(size.trim().parse().ok()?);
    (0.0..=1.0).contains(&cdf).then_some(SizePoint { size, cdf })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_PIECES: &str = "size_bytes,cdf\n0,0\n100,0.5 # half\n\n300,1";

    #[test]
    fn mean_and_quantiles_of_two_pieces_are_known() {
        let sizes = SizeDistribution::parse(TWO_PIECES).expect("reads");
        // Half of them 50 on average, half 200.
        assert_eq!(sizes.mean(), 125.0);
        let at = |share| sizes.quantile(share).get();
        assert_eq!((at(0.25), at(0.5), at(0.75), at(1.0)), (50, 100, 200, 300));
        assert_eq!(at(0.0), 1, "a flow has a byte");
    }

    #[test]
    fn sizes_that_no_flow_has_are_not_drawn() {
        let sizes = SizeDistribution::parse("size_bytes,cdf\n0,0\n100,0.5\n200,0.5\n300,1").expect("reads");
        assert_eq!(sizes.mean(), 150.0);
        assert_eq!((sizes.quantile(0.5).get(), sizes.quantile(0.75).get()), (100, 250));
        let drawn = |i| sizes.draw(Chance::new(i, "gap")).get();
        assert!((0..10_000).map(drawn).all(|size| !(101..200).contains(&size)));
    }

    #[test]
    fn a_fixed_size_is_always_the_same() {
        let sizes = SizeDistribution::fixed(Bytes::new(131_072));
        assert_eq!(sizes.mean(), 131_072.0);
        assert!((0..100).all(|i| sizes.draw(Chance::new(i, "fixed")) == Bytes::new(131_072)));
    }

    #[test]
    fn files_that_make_no_sense_are_refused_with_their_line() {
        let refused = |text: &str| SizeDistribution::parse(text).expect_err("refused").to_string();
        assert_eq!(refused("0,0\n1,1"), "line 1: the first line must be \"size_bytes,cdf\"");
        assert_eq!(refused("size_bytes,cdf\n1,0.5"), "line 2: the first share must be 0");
        assert_eq!(refused("size_bytes,cdf\n0,0\n9,0.5\n8,1"), "line 4: sizes and shares must not fall");
        assert_eq!(
            refused("size_bytes,cdf\n0,0\n9,0.5"),
            "line 3: the last share must be 1, of a size above zero"
        );
        assert!(refused("size_bytes,cdf\n0 0").starts_with("line 2: write a size"));
        assert!(refused("size_bytes,cdf\n0,0\n9,NaN").starts_with("line 3: write a size"));
        assert!(refused("").starts_with("line 1: "));
    }
}
