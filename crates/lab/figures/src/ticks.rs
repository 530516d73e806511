//! Chooses the ticks on an axis.

use super::Scale;
use super::numbers::{decimal, format_short, format_tick, magnitude};
use super::scale::{AxisRange, MAX_STEPS, Step, position};

/// The maximum number of ticks on an axis. This limit bounds the list if the values exceed the precision of a double.
const MAX_TICKS: usize = 20;

/// The leading digits of the ticks within a decade.
const DECADE_DIGITS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];

/// A tick on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    /// The value.
    pub(super) value: f64,
    /// The label; empty for minor ticks between decades.
    pub(super) label: String,
}

/// Returns the densest ticks of an axis that `fits` accepts.
pub(super) fn ticks(range: &AxisRange, fits: impl Fn(&[Tick]) -> bool) -> Vec<Tick> {
    let scale_ticks = match range.scale {
        Scale::Linear => Vec::new(),
        Scale::Log => log_tick_sets(range),
        Scale::Tail => tail_tick_sets(range),
    };
    // If the axis is too short for the ticks of its scale, the ticks are evenly spaced.
    let even_ticks = [MAX_STEPS, 5.0, 4.0, 3.0, 2.0, 1.0].map(|max_steps| evenly_spaced(range, max_steps));
    let label_count = |ticks: &[Tick]| ticks.iter().filter(|tick| !tick.label.is_empty()).count();
    let sparsest = even_ticks.last().cloned().unwrap_or_default();
    scale_ticks
        .into_iter()
        .chain(even_ticks)
        .find(|ticks| label_count(ticks) >= 2 && fits(ticks))
        .unwrap_or(sparsest)
}

/// Returns evenly spaced ticks.
fn evenly_spaced(range: &AxisRange, max_steps: f64) -> Vec<Tick> {
    let step = Step::new(range.high - range.low, max_steps);
    let first = libm::ceil(range.low / step.size() - 1e-6);
    let last = libm::floor(range.high / step.size() + 1e-6);
    let max_exponent = magnitude(range.low.abs().max(range.high.abs()) * (1.0 + 1e-9));
    let multiples = core::iter::successors(Some(first), |multiple| Some(multiple + 1.0))
        .take_while(|&multiple| multiple <= last);
    multiples
        .take(MAX_TICKS)
        .map(|multiple| {
            let label = format_tick(multiple * step.digit, step.exponent, max_exponent);
            // Rounding may move a tick beyond the end of the axis.
            Tick { value: step.times(multiple).clamp(range.low, range.high), label }
        })
        .collect()
}

/// Returns candidate tick sets for a logarithmic axis, densest first: 1, 2, 5, 10; then decades with and without minor
/// ticks; then every second decade, and so on.
fn log_tick_sets(range: &AxisRange) -> Vec<Vec<Tick>> {
    let (first, last) = (magnitude(range.low), magnitude(range.high * (1.0 + 1e-9)));
    let is_inside = |value: f64| value >= range.low * (1.0 - 1e-9) && value <= range.high * (1.0 + 1e-9);
    let decades = range.decade_fraction().recip();
    let tick_set = |digits: &'static [f64], is_labelled: &dyn Fn(f64, i32) -> bool| -> Vec<Tick> {
        (first..=last)
            .flat_map(|exponent| digits.iter().map(move |&digit| (digit, exponent)))
            .map(|(digit, exponent)| (decimal(digit, exponent), is_labelled(digit, exponent)))
            .filter(|&(value, _)| is_inside(value))
            .map(|(value, has_label)| Tick {
                value,
                label: if has_label { format_short(value) } else { String::new() },
            })
            .collect()
    };
    let mut sets = Vec::new();
    if decades < 2.5 {
        sets.push(tick_set(DECADE_DIGITS, &|digit, _| [1.0, 2.0, 5.0].contains(&digit)));
    }
    for decade_step in [1, 2, 3, 5, 10, 20, 50, 100, 200] {
        for digits in [DECADE_DIGITS, &DECADE_DIGITS[..1]] {
            sets.push(tick_set(digits, &|digit, exponent| digit == 1.0 && exponent % decade_step == 0));
        }
    }
    sets
}

/// Returns candidate tick sets for a tail scale, densest first. The densest set is 0, 0.5, 0.9, 0.99, ...
fn tail_tick_sets(range: &AxisRange) -> Vec<Vec<Tick>> {
    let is_inside =
        |value: f64| range.fraction(value).is_some_and(|fraction| (-1e-9..=1.0 + 1e-9).contains(&fraction));
    let sets = [(true, true, 1), (false, true, 1), (true, false, 1), (true, false, 2), (true, false, 4)];
    sets.into_iter()
        .map(|(has_zero, has_half, step)| {
            // A double can represent fifteen nines.
            let nines =
                (1..=15).filter(|count| count % step == 0).map(|count| format!("0.{}", "9".repeat(count)));
            let labels =
                has_zero.then_some("0").into_iter().chain(has_half.then_some("0.5")).map(str::to_owned);
            labels
                .chain(nines)
                .filter_map(|label| Some(Tick { value: label.parse().ok()?, label }))
                .filter(|tick| is_inside(tick.value))
                .collect()
        })
        .collect()
}

impl AxisRange {
    /// Returns the fraction of a logarithmic axis that one decade occupies.
    fn decade_fraction(&self) -> f64 {
        let ends = position(self.scale, self.low).zip(position(self.scale, self.high));
        ends.map_or(1.0, |(low, high)| 1.0 / (high - low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(scale: Scale, low: f64, high: f64, max_labels: usize) -> Vec<String> {
        let range = AxisRange::new(scale, low, high).unwrap();
        let count = |ticks: &[Tick]| ticks.iter().filter(|tick| !tick.label.is_empty()).count();
        let ticks = ticks(&range, |ticks| count(ticks) <= max_labels);
        ticks.into_iter().map(|tick| tick.label).filter(|label| !label.is_empty()).collect()
    }

    #[test]
    fn known_axes_have_the_expected_labels() {
        assert_eq!(labels(Scale::Linear, 0.0, 100.0, 9), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(Scale::Linear, 0.0, 100.0, 3), ["0", "50", "100"]);
        assert_eq!(labels(Scale::Linear, 0.0, 0.3, 9), ["0", "0.05", "0.10", "0.15", "0.20", "0.25", "0.30"]);
        assert_eq!(labels(Scale::Log, 1.0, 50.0, 9), ["1", "2", "5", "10", "20", "50"]);
        assert_eq!(labels(Scale::Log, 300.0, 3e7, 9), ["1000", "10k", "100k", "1M", "10M"]);
        assert_eq!(labels(Scale::Log, 300.0, 3e7, 3), ["10k", "1M"]);
        assert_eq!(labels(Scale::Log, 100.0, 130.0, 9), ["100", "105", "110", "115", "120", "125", "130"]);
        assert_eq!(labels(Scale::Tail, 0.0, 0.9995, 9), ["0", "0.5", "0.9", "0.99", "0.999"]);
        assert_eq!(labels(Scale::Tail, 0.0, 0.9995, 4), ["0.5", "0.9", "0.99", "0.999"]);
        assert_eq!(labels(Scale::Tail, 0.92, 0.98, 4), ["0.92", "0.94", "0.96", "0.98"]);
    }

    proptest! {
        #[test]
        fn ticks_cover_the_axis_in_steps_of_1_2_or_5(low in -1e9..1e9f64, width in 1.0..1e9f64, decimals in 0..12i32) {
            let unit = libm::pow(10.0, f64::from(-decimals));
            let (low, width) = (low * unit, width * unit);
            let Some(range) = AxisRange::new(Scale::Linear, low, low + width) else { return Ok(()) };
            let ticks = ticks(&range, |_| true);
            let step = ticks[1].value - ticks[0].value;
            let digit = step / libm::pow(10.0, f64::from(magnitude(step * 1.000_001)));
            prop_assert!([1.0, 2.0, 5.0].iter().any(|round| (digit - round).abs() < 1e-5), "{digit}");
            prop_assert!(ticks.windows(2).all(|pair| (pair[1].value - pair[0].value - step).abs() < step * 1e-5));
            // No further tick fits at either end.
            prop_assert!(ticks[0].value >= range.low && ticks[0].value - step < range.low + step * 1e-5);
            let last = ticks[ticks.len() - 1].value;
            prop_assert!(last <= range.high && last + step > range.high - step * 1e-5);
            prop_assert!(ticks.len() <= 7, "{}", ticks.len());
        }
    }
}
