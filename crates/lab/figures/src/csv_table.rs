//! Writes a figure's data as a CSV table with one row per value.

use super::{Chart, Marks};

/// The column names. Bars have a `group` instead of an `x`.
const COLUMNS: [&str; 9] =
    ["panel", "chart", "x_axis", "y_axis", "series", "group", "x", "y", "half_interval"];

/// Writes the data in `charts` as a table.
pub(super) fn write_table(charts: &[Chart]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write_row = |cells: [&str; 9]| writer.write_record(cells).expect("writing to memory cannot fail");
    write_row(COLUMNS);
    for (index, chart) in charts.iter().enumerate() {
        let panel = (index + 1).to_string();
        let Chart { title, x, y, marks, notes: _ } = chart;
        match marks {
            Marks::Lines(lines) | Marks::Points(lines) => {
                for line in lines {
                    for (i, &(x_value, y_value)) in line.points.iter().enumerate() {
                        let half = line.half_widths.get(i).copied().map(format_exact).unwrap_or_default();
                        let (x_value, y_value) = (format_exact(x_value), format_exact(y_value));
                        write_row([
                            &panel, title, &x.label, &y.label, &line.name, "", &x_value, &y_value, &half,
                        ]);
                    }
                }
            }
            Marks::Bars { groups, series } => {
                for bars in series {
                    for (i, group) in groups.iter().enumerate() {
                        let value = bars.values.get(i).copied().map(format_exact).unwrap_or_default();
                        let half = bars.half_widths.get(i).copied().map(format_exact).unwrap_or_default();
                        write_row([&panel, title, &x.label, &y.label, &bars.name, group, "", &value, &half]);
                    }
                }
            }
        }
    }
    let bytes = writer.into_inner().expect("writing to memory cannot fail");
    String::from_utf8(bytes).expect("all cells are valid UTF-8")
}

/// Formats a number so that parsing it returns the same bits. A NaN becomes an empty string.
fn format_exact(value: f64) -> String {
    if value.is_nan() {
        return String::new();
    }
    // Display can write hundreds of zeros. Debug writes an exponent instead.
    let text = format!("{value:?}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{bar_chart, line_chart};
    use super::*;
    use crate::LineSeries;

    fn rows(charts: &[Chart]) -> Vec<Vec<String>> {
        let text = write_table(charts);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(reader.headers().unwrap(), &COLUMNS[..]);
        reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect()
    }

    #[test]
    fn every_value_has_a_row() {
        let mut chart = line_chart(vec![LineSeries {
            name: "a, \"b\"".to_owned(),
            points: vec![(1.0, 0.1), (2.5, f64::NAN), (3e200, f64::INFINITY)],
            half_widths: vec![0.25],
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
    fn numbers_round_trip_exactly() {
        for value in [0.1, 1.0 / 3.0, 1e-320, f64::MAX, -7.0, f64::NEG_INFINITY] {
            assert_eq!(format_exact(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
        }
    }
}
