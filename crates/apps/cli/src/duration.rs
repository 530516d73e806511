//! Parses durations on the command line.

use core::time::Duration;

/// The error of an invalid duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a positive number and a unit (s, min, h), such as \"10 min\"")]
pub(crate) struct InvalidDuration;

/// Parses a duration with a unit, such as `10 min`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, InvalidDuration> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or(InvalidDuration)?;
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().map_err(|_| InvalidDuration)?;
    let seconds = match unit.trim() {
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3_600.0,
        _ => return Err(InvalidDuration),
    };
    let duration = Duration::try_from_secs_f64(number * seconds).map_err(|_| InvalidDuration)?;
    if duration.is_zero() { Err(InvalidDuration) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit() {
        for (text, seconds) in [("90 s", 90.0), ("10 min", 600.0), ("1.5h", 5_400.0), (" 0.5 s", 0.5)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in
            ["", "10", "min", "0 s", "-1 s", "1 ms", "1.2.3 s", "1e400 h", "99999999999999999999 h", "1 m"]
        {
            assert_eq!(parse_duration(text), Err(InvalidDuration), "{text}");
        }
    }
}
