//! The numbers of a figure as a table, one row for each, so that a figure shows nothing that a reader cannot compute with.

use super::{Chart, Marks};

/// The columns: `group` is empty but for bars, `x` is empty for bars.
const COLUMNS: [&str; 9] =
    ["panel", "chart", "x_axis", "y_axis", "series", "group", "x", "y", "half_interval"];

/// The table of these charts.
pub(super) fn table(charts: &[Chart]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut row =
        |cells: [&str; 9]| writer.write_record(cells).expect("memory takes every row of nine cells");
    row(COLUMNS);
    for (i, chart) in charts.iter().enumerate() {
        let panel = (i + 1).to_string();
        let Chart { title, x, y, marks, notes: _ } = chart;
        match marks {
            Marks::Lines(lines) | Marks::Points(lines) => {
                for line in lines {
                    for (i, &(first, second)) in line.points.iter().enumerate() {
                        let half = line.half.get(i).copied().map(text).unwrap_or_default();
                        let (first, second) = (text(first), text(second));
                        row([&panel, title, &x.label, &y.label, &line.name, "", &first, &second, &half]);
                    }
                }
            }
            Marks::Bars { groups, series } => {
                for bars in series {
                    for (i, group) in groups.iter().enumerate() {
                        let value = bars.values.get(i).copied().map(text).unwrap_or_default();
                        let half = bars.half.get(i).copied().map(text).unwrap_or_default();
                        row([&panel, title, &x.label, &y.label, &bars.name, group, "", &value, &half]);
                    }
                }
            }
        }
    }
    let bytes = writer.into_inner().expect("memory is never full");
    String::from_utf8(bytes).expect("made of strings")
}

/// A number as it is read back, bit by bit; nothing for what is not a number.
fn text(value: f64) -> String {
    if value.is_nan() {
        return String::new();
    }
    // Debug writes exponents where Display writes hundreds of zeros.
    let text = format!("{value:?}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{bar_chart, line_chart};
    use super::*;
    use crate::draw::Line;

    fn rows(charts: &[Chart]) -> Vec<Vec<String>> {
        let text = table(charts);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(reader.headers().unwrap(), &COLUMNS[..]);
        reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect()
    }

    #[test]
    fn each_number_has_a_row() {
        let mut chart = line_chart(vec![Line {
            name: "a, \"b\"".to_owned(),
            points: vec![(1.0, 0.1), (2.5, f64::NAN), (3e200, f64::INFINITY)],
            half: vec![0.25],
            is_reference: false,
        }]);
        chart.title = "rates".to_owned();
        let bars = bar_chart(&["N = 1", "N = 2"], &[("hpcc", &[3.0, -0.0])]);
        let rows = rows(&[chart, bars]);
        assert_eq!(rows[0], ["1", "rates", "time (µs)", "rate (Gbps)", "a, \"b\"", "", "1", "0.1", "0.25"]);
        assert_eq!(rows[1][6..], ["2.5", "", ""]);
        assert_eq!(rows[2][6..], ["3e200", "inf", ""]);
        assert_eq!(rows[3][4..], ["hpcc", "N = 1", "", "3", ""]);
        assert_eq!(rows[4][4..], ["hpcc", "N = 2", "", "-0", ""]);
        assert_eq!(rows.len(), 5);
    }

    #[test]
    fn numbers_come_back() {
        for value in [0.1, 1.0 / 3.0, 1e-320, f64::MAX, -7.0, f64::NEG_INFINITY] {
            assert_eq!(text(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
        }
    }
}
