//! Numbers as people read them in a figure: few digits, and k, M, G where they are large.

/// `value` with three significant digits.
pub(super) fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { String::new() };
    }
    // Rounded first: 999.6 is 1000, not "1e3" in the place of three digits.
    let rounded = format!("{value:.2e}");
    let (digits, exponent) = parts(&rounded);
    let text = match exponent {
        -3..=3 => number(digits, exponent).to_string(),
        4..=14 => {
            let (power, letter) = prefix(exponent);
            format!("{}{letter}", number(digits, exponent - power))
        }
        _ => scientific(value),
    };
    with_minus(&text)
}

/// A whole number times a power of ten, for the ticks of an axis whose largest value is about 10^`largest`.
/// All ticks of an axis have the same decimals and the same letter.
pub(super) fn tick(count: f64, exponent: i32, largest: i32) -> String {
    if count == 0.0 {
        return "0".to_owned();
    }
    let text = match largest {
        -3..=14 => {
            let (power, letter) = if largest < 4 { (0, "") } else { prefix(largest) };
            let decimals = usize::try_from(power - exponent).unwrap_or(0);
            format!("{:.decimals$}{letter}", decimal(count, exponent - power))
        }
        _ => scientific(decimal(count, exponent)),
    };
    with_minus(&text)
}

/// `count` · 10^`exponent`, as close as a double comes. A product with a power of ten would not be.
pub(super) fn decimal(count: f64, exponent: i32) -> f64 {
    number(&format!("{count:.0}"), exponent)
}

/// The exponent of ten of a number's first digit.
#[expect(clippy::cast_possible_truncation, reason = "a double's decimal exponent is between -324 and 308")]
pub(super) fn magnitude(value: f64) -> i32 {
    if value == 0.0 { 0 } else { libm::floor(libm::log10(value.abs())) as i32 }
}

fn number(digits: &str, exponent: i32) -> f64 {
    format!("{digits}e{exponent}").parse().unwrap_or(0.0)
}

/// Digits and exponent of what `{:e}` wrote.
fn parts(text: &str) -> (&str, i32) {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    (digits, exponent.parse().unwrap_or(0))
}

fn prefix(exponent: i32) -> (i32, &'static str) {
    match exponent {
        ..=5 => (3, "k"),
        6..=8 => (6, "M"),
        9..=11 => (9, "G"),
        _ => (12, "T"),
    }
}

fn scientific(value: f64) -> String {
    let rounded = format!("{value:.2e}");
    let (digits, exponent) = parts(&rounded);
    format!("{}e{exponent}", number(digits, 0))
}

fn with_minus(text: &str) -> String {
    text.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
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
            assert_eq!(short(value), text, "{value}");
        }
    }

    #[test]
    fn ticks_of_an_axis_are_alike() {
        let axis = |exponent, largest, counts: [f64; 3]| counts.map(|count| tick(count, exponent, largest));
        assert_eq!(axis(-1, 0, [0.0, 5.0, 10.0]), ["0", "0.5", "1.0"]);
        assert_eq!(axis(3, 4, [0.0, 5.0, 10.0]), ["0", "5k", "10k"]);
        assert_eq!(axis(5, 6, [0.0, 5.0, 10.0]), ["0", "0.5M", "1.0M"]);
        assert_eq!(axis(2, 3, [-5.0, 10.0, 20.0]), ["−500", "1000", "2000"]);
        assert_eq!(axis(-6, -5, [0.0, 5.0, 10.0]), ["0", "5e−6", "1e−5"]);
    }

    #[test]
    fn decimals_are_the_closest_doubles() {
        assert_eq!([decimal(3.0, -1), decimal(7.0, -3), decimal(1.0, 23)], [0.3, 0.007, 1e23]);
    }
}
