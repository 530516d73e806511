//! Flow size distributions, as CSV or in the form of HPCC's traffic generator.

use crate::error::{NumberProblem, TraceError, TraceErrorKind};
use crate::text::{Line, Lines};
use poseidon_plan::patterns::{SizeDistribution, SizePoint};
use poseidon_types::Bytes;

/// The maximum number of points.
const MAX_POINTS: usize = 1_000_000;

const FIRST_LINE: &str = "\"size_bytes,cdf\" or the first point, \"0 0\"";
const CSV_POINT: &str = "a size in bytes and a CDF value from 0 to 1: \"4000,0.2293\"";
const HPCC_POINT: &str = "a size in bytes and a percentage: \"4000 22.93\"";

/// Parses a flow size distribution. `#` starts a comment.
///
/// The first line determines the form. CSV has the header `size_bytes,cdf` and one point per line. In HPCC's form, each
/// line has a size and a percentage. The first CDF value must be 0, the last must be 1 (100 %), and neither column may
/// decrease.
///
/// ```
/// # use poseidon_traces::parse_sizes;
/// let csv = parse_sizes("size_bytes,cdf\n0,0\n4000,0.2293\n2000000,1\n")?;
/// let hpcc = parse_sizes("0 0\n4000 22.93\n2000000 100\n")?;
/// assert_eq!(csv, hpcc);
/// # Ok::<(), poseidon_traces::TraceError>(())
/// ```
pub fn parse_sizes(text: &str) -> Result<SizeDistribution, TraceError> {
    let mut lines = Lines::new(text.as_bytes());
    let first = lines.expect_line(FIRST_LINE)?;
    let is_csv = first.text == b"size_bytes,cdf";
    let (mut points, mut line_numbers) = (Vec::new(), Vec::new());
    if !is_csv {
        points.push(parse_hpcc_point(first)?);
        line_numbers.push(first.number);
    }
    while let Some(line) = lines.next_line()? {
        if points.len() == MAX_POINTS {
            return Err(line.error(TraceErrorKind::TooMany { items: "points", limit: MAX_POINTS }));
        }
        points.push(if is_csv { parse_csv_point(line)? } else { parse_hpcc_point(line)? });
        line_numbers.push(line.number);
    }
    SizeDistribution::from_points(points).map_err(|error| {
        let line = line_numbers.get(error.point()).copied().unwrap_or(1);
        TraceError { line, kind: TraceErrorKind::Sizes(error) }
    })
}

/// Parses a point such as `4000,0.2293`.
fn parse_csv_point(line: Line<'_>) -> Result<SizePoint, TraceError> {
    let mut cells = line.text.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let (Some(size), Some(cdf), None) = (cells.next(), cells.next(), cells.next()) else {
        return Err(line.error(TraceErrorKind::Syntax { expected: CSV_POINT }));
    };
    make_point(line, size, cdf, parse_f64(cdf))
}

/// Parses a point such as `4000 22.93`.
fn parse_hpcc_point(line: Line<'_>) -> Result<SizePoint, TraceError> {
    let [size, percent] = line.fixed_words(HPCC_POINT)?;
    // The decimal exponent divides exactly. A division by 100 would round twice.
    let is_plain = percent.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let cdf = if is_plain { parse_f64(&[percent, b"e-2"].concat()) } else { None };
    make_point(line, size, percent, cdf)
}

fn parse_f64(word: &[u8]) -> Option<f64> {
    core::str::from_utf8(word).ok()?.parse().ok()
}

fn make_point(line: Line<'_>, size: &[u8], word: &[u8], cdf: Option<f64>) -> Result<SizePoint, TraceError> {
    let size = Bytes::new(line.parse_u64("size", size)?);
    match cdf {
        Some(cdf) if (0.0..=1.0).contains(&cdf) => Ok(SizePoint { size, cdf }),
        Some(cdf) if cdf > 1.0 => Err(line.number_error("CDF value", word, NumberProblem::TooLarge)),
        Some(_) | None => Err(line.number_error("CDF value", word, NumberProblem::NotANumber)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_plan::patterns::WORKLOADS;

    /// Returns a distribution's file in HPCC's form.
    fn to_hpcc(csv: &str) -> String {
        let row = |line: &str| {
            let (size, cdf) = line.split_once(',')?;
            let percent: f64 = format!("{cdf}e2").parse().ok()?;
            Some(format!("{size} {percent}\n"))
        };
        csv.lines().filter_map(row).collect()
    }

    #[test]
    fn both_forms_of_the_published_workloads_are_equal() {
        for workload in WORKLOADS {
            let published = SizeDistribution::named(workload.name).expect("the workload exists");
            assert_eq!(parse_sizes(workload.text), Ok(published.clone()), "{}", workload.name);
            let hpcc = to_hpcc(workload.text);
            assert!(hpcc.contains(" 100\n"), "{hpcc}");
            assert_eq!(parse_sizes(&hpcc), Ok(published), "{}", workload.name);
        }
    }

    #[test]
    fn invalid_file_is_refused_with_its_line() {
        let error = |text: &str| parse_sizes(text).expect_err("the file is invalid").to_string();
        let table = [
            ("# nothing", "2: the file ends too early; add \"size_bytes,cdf\" or the first point, \"0 0\""),
            ("size_bytes,cdf\n", "1: the first CDF value must be 0; correct the points"),
            (
                "size_bytes,cdf\n0,0\n\n9,0.5\n8,1",
                "5: sizes and CDF values must not decrease; correct the points",
            ),
            ("0 1\n5 100", "1: the first CDF value must be 0; correct the points"),
            ("0 0\n5 99", "2: the last CDF value must be 1, with a size above zero; correct the points"),
            ("0 0\n5 100.1", "2: CDF value \"100.1\" is too large; write a smaller number"),
            ("0 0\n5 1e2", "2: CDF value \"1e2\" is not a number; write decimal digits"),
            ("0 0\n5.5 100", "2: size \"5.5\" is not a number; write decimal digits"),
            ("size_bytes,cdf\n0,NaN", "2: CDF value \"NaN\" is not a number; write decimal digits"),
            ("size_bytes,cdf\n0,-1", "2: CDF value \"-1\" is not a number; write decimal digits"),
        ];
        for (text, reason) in table {
            assert_eq!(error(text), format!("line {reason}"), "{text}");
        }
        assert!(error("0,0\n5,1").contains("write a size in bytes and a percentage"));
        assert!(error("size_bytes,cdf\n0 0\n").contains("write a size in bytes and a CDF value"));
    }

    #[test]
    fn number_of_points_is_bounded() {
        let text = "0 0\n".repeat(MAX_POINTS + 1);
        let error = parse_sizes(&text).expect_err("there are too many points");
        assert_eq!(error.line, 1_000_001);
        assert_eq!(error.kind, TraceErrorKind::TooMany { items: "points", limit: MAX_POINTS });
    }
}
