//! Formats numbers for figures: with few digits, and with SI suffixes for large values.

/// Formats a value with three significant digits.
pub(super) fn format_short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { String::new() };
    }
    // Round first, because 999.6 becomes 1000.
    let rounded = format!("{value:.2e}");
    let (digits, exponent) = split_scientific(&rounded);
    let text = match exponent {
        -3..=3 => parse_decimal(digits, exponent).to_string(),
        4..=14 => {
            let (power, suffix) = si_prefix(exponent);
            format!("{}{suffix}", parse_decimal(digits, exponent - power))
        }
        _ => scientific(value),
    };
    with_minus_sign(&text)
}

/// Formats the tick `coefficient` · 10^`exponent` of an axis whose largest value is about 10^`max_exponent`. All ticks
/// on an axis have the same number of decimals and the same suffix.
pub(super) fn format_tick(coefficient: f64, exponent: i32, max_exponent: i32) -> String {
    if coefficient == 0.0 {
        return "0".to_owned();
    }
    let text = match max_exponent {
        -3..=14 => {
            let (power, suffix) = if max_exponent < 4 { (0, "") } else { si_prefix(max_exponent) };
            let decimals = usize::try_from(power - exponent).unwrap_or(0);
            format!("{:.decimals$}{suffix}", decimal(coefficient, exponent - power))
        }
        _ => scientific(decimal(coefficient, exponent)),
    };
    with_minus_sign(&text)
}

/// Returns the double closest to `coefficient` · 10^`exponent`. Multiplying by a power of ten would not be exact.
pub(super) fn decimal(coefficient: f64, exponent: i32) -> f64 {
    parse_decimal(&format!("{coefficient:.0}"), exponent)
}

/// Returns the decimal exponent of a number's leading digit.
#[expect(clippy::cast_possible_truncation, reason = "a double's decimal exponent is between -324 and 308")]
pub(super) fn magnitude(value: f64) -> i32 {
    if value == 0.0 { 0 } else { libm::floor(libm::log10(value.abs())) as i32 }
}

fn parse_decimal(digits: &str, exponent: i32) -> f64 {
    format!("{digits}e{exponent}").parse().unwrap_or(0.0)
}

/// Splits the output of `{:e}` into digits and exponent.
fn split_scientific(text: &str) -> (&str, i32) {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    (digits, exponent.parse().unwrap_or(0))
}

fn si_prefix(exponent: i32) -> (i32, &'static str) {
    match exponent {
        ..=5 => (3, "k"),
        6..=8 => (6, "M"),
        9..=11 => (9, "G"),
        _ => (12, "T"),
    }
}

fn scientific(value: f64) -> String {
    let rounded = format!("{value:.2e}");
    let (digits, exponent) = split_scientific(&rounded);
    format!("{}e{exponent}", parse_decimal(digits, 0))
}

fn with_minus_sign(text: &str) -> String {
    text.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_three_significant_digits() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (0.5, "0.5"),
            (999.6, "1000"),
            (1234.0, "1230"),
            (12_345.0, "12.3k"),
            (99_999.0, "100k"),
            (999_999.0, "1M"),
            (2.5e9, "2.5G"),
            (0.001_234, "0.00123"),
            (-0.25, "−0.25"),
            (1e-7, "1e−7"),
            (1.239e17, "1.24e17"),
        ];
        for (value, text) in cases {
            assert_eq!(format_short(value), text, "{value}");
        }
    }

    #[test]
    fn ticks_of_an_axis_have_the_same_format() {
        let labels = |exponent, max_exponent, coefficients: [f64; 3]| {
            coefficients.map(|coefficient| format_tick(coefficient, exponent, max_exponent))
        };
        assert_eq!(labels(-1, 0, [0.0, 5.0, 10.0]), ["0", "0.5", "1.0"]);
        assert_eq!(labels(3, 4, [0.0, 5.0, 10.0]), ["0", "5k", "10k"]);
        assert_eq!(labels(5, 6, [0.0, 5.0, 10.0]), ["0", "0.5M", "1.0M"]);
        assert_eq!(labels(2, 3, [-5.0, 10.0, 20.0]), ["−500", "1000", "2000"]);
        assert_eq!(labels(-6, -5, [0.0, 5.0, 10.0]), ["0", "5e−6", "1e−5"]);
    }

    #[test]
    fn decimal_returns_the_closest_double() {
        assert_eq!([decimal(3.0, -1), decimal(7.0, -3), decimal(1.0, 23)], [0.3, 0.007, 1e23]);
    }
}
