//! Ticks: which values of an axis are written beside it.

use super::Scale;
use super::number::{decimal, magnitude, short, tick};
use super::scale::{MOST_STEPS, Span, Step, position};

/// A bound on ticks for axes on which doubles are too coarse to count.
const FAR_TOO_MANY: usize = 20;

/// The ticks of a decade.
const DIGITS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];

/// A value that is marked on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    /// Where.
    pub(super) value: f64,
    /// What is written there; nothing at the small ticks between decades.
    pub(super) label: String,
}

/// The ticks of an axis: as many as have room.
pub(super) fn ticks(span: &Span, have_room: impl Fn(&[Tick]) -> bool) -> Vec<Tick> {
    let own = match span.scale {
        Scale::Linear => Vec::new(),
        Scale::Log => logarithmic(span),
        Scale::Tail => nines(span),
    };
    // An axis too short for its own ticks has even ones, in their places on its scale.
    let even = [MOST_STEPS, 5.0, 4.0, 3.0, 2.0, 1.0].map(|most| even(span, most));
    let labelled = |ticks: &[Tick]| ticks.iter().filter(|tick| !tick.label.is_empty()).count();
    let sparsest = even.last().cloned().unwrap_or_default();
    own.into_iter().chain(even).find(|ticks| labelled(ticks) >= 2 && have_room(ticks)).unwrap_or(sparsest)
}

/// Ticks at equal distances.
fn even(span: &Span, most: f64) -> Vec<Tick> {
    let step = Step::of(span.high - span.low, most);
    let first = libm::ceil(span.low / step.size() - 1e-6);
    let last = libm::floor(span.high / step.size() + 1e-6);
    let largest = magnitude(span.low.abs().max(span.high.abs()) * (1.0 + 1e-9));
    let counts =
        core::iter::successors(Some(first), |count| Some(count + 1.0)).take_while(|&count| count <= last);
    counts
        .take(FAR_TOO_MANY)
        .map(|count| {
            let label = tick(count * step.digit, step.exponent, largest);
            // A tick that is rounded beyond an end is the end.
            Tick { value: step.times(count).clamp(span.low, span.high), label }
        })
        .collect()
}

/// Ticks of a logarithmic axis, the densest first: 1, 2, 5, 10; decades, with small ticks between them and without; every
/// second decade and so on.
fn logarithmic(span: &Span) -> Vec<Vec<Tick>> {
    let (first, last) = (magnitude(span.low), magnitude(span.high * (1.0 + 1e-9)));
    let is_inside = |value: f64| value >= span.low * (1.0 - 1e-9) && value <= span.high * (1.0 + 1e-9);
    let decades = span.share_of_decade().recip();
    let all = |digits: &'static [f64], label: &dyn Fn(f64, i32) -> bool| -> Vec<Tick> {
        (first..=last)
            .flat_map(|exponent| digits.iter().map(move |&digit| (digit, exponent)))
            .map(|(digit, exponent)| (decimal(digit, exponent), label(digit, exponent)))
            .filter(|&(value, _)| is_inside(value))
            .map(|(value, has_label)| Tick {
                value,
                label: if has_label { short(value) } else { String::new() },
            })
            .collect()
    };
    let mut sets = Vec::new();
    if decades < 2.5 {
        sets.push(all(DIGITS, &|digit, _| [1.0, 2.0, 5.0].contains(&digit)));
    }
    for every in [1, 2, 3, 5, 10, 20, 50, 100, 200] {
        for digits in [DIGITS, &DIGITS[..1]] {
            sets.push(all(digits, &|digit, exponent| digit == 1.0 && exponent % every == 0));
        }
    }
    sets
}

/// Ticks of a tail, the densest first: 0, 0.5, 0.9, 0.99, ...
fn nines(span: &Span) -> Vec<Vec<Tick>> {
    let is_inside = |value: f64| span.share(value).is_some_and(|share| (-1e-9..=1.0 + 1e-9).contains(&share));
    let sets = [(true, true, 1), (false, true, 1), (true, false, 1), (true, false, 2), (true, false, 4)];
    sets.into_iter()
        .map(|(has_zero, has_half, every)| {
            // A double has no more than fifteen nines.
            let nines =
                (1..=15).filter(|count| count % every == 0).map(|count| format!("0.{}", "9".repeat(count)));
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

impl Span {
    /// How much of a logarithmic axis a factor of ten takes.
    fn share_of_decade(&self) -> f64 {
        let ends = position(self.scale, self.low).zip(position(self.scale, self.high));
        ends.map_or(1.0, |(low, high)| 1.0 / (high - low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(scale: Scale, low: f64, high: f64, most: usize) -> Vec<String> {
        let span = Span::new(scale, low, high).unwrap();
        let count = |ticks: &[Tick]| ticks.iter().filter(|tick| !tick.label.is_empty()).count();
        let ticks = ticks(&span, |ticks| count(ticks) <= most);
        ticks.into_iter().map(|tick| tick.label).filter(|label| !label.is_empty()).collect()
    }

    #[test]
    fn known_axes() {
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
        fn ticks_cover_the_axis_in_steps_of_one_two_five(low in -1e9..1e9f64, width in 1.0..1e9f64, places in 0..12i32) {
            let unit = libm::pow(10.0, f64::from(-places));
            let (low, width) = (low * unit, width * unit);
            let Some(span) = Span::new(Scale::Linear, low, low + width) else { return Ok(()) };
            let ticks = ticks(&span, |_| true);
            let step = ticks[1].value - ticks[0].value;
            let digit = step / libm::pow(10.0, f64::from(magnitude(step * 1.000_001)));
            prop_assert!([1.0, 2.0, 5.0].iter().any(|round| (digit - round).abs() < 1e-5), "{digit}");
            prop_assert!(ticks.windows(2).all(|pair| (pair[1].value - pair[0].value - step).abs() < step * 1e-5));
            // No step more would fit at either end.
            prop_assert!(ticks[0].value >= span.low && ticks[0].value - step < span.low + step * 1e-5);
            let last = ticks[ticks.len() - 1].value;
            prop_assert!(last <= span.high && last + step > span.high - step * 1e-5);
            prop_assert!(ticks.len() <= 7, "{}", ticks.len());
        }
    }
}
