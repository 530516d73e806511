//! Chooses axis ranges and computes the positions of values on an axis.

use super::numbers::{decimal, magnitude};
use super::{Axis, Scale};

/// The largest absolute value on an axis. With larger values, the axis length could overflow.
const MAX_VALUE: f64 = 1e300;

/// The minimum length of an axis, relative to its values.
const MIN_RELATIVE_LENGTH: f64 = 1e-9;

/// An axis end snaps to a round number within this distance, relative to the axis length.
const SNAP_DISTANCE: f64 = 0.02;

/// An axis is not extended to a round number if more than this part of the axis would be empty.
const MAX_EMPTY_PART: f64 = 0.12;

/// The empty part beyond the data at an end that is not a round number. Lines must not touch the frame.
const MARGIN: f64 = 0.03;

/// The maximum number of tick steps on an axis.
pub(super) const MAX_STEPS: f64 = 6.0;

/// Returns the position of a value on a scale; `None` if the scale cannot show it.
pub(super) fn position(scale: Scale, value: f64) -> Option<f64> {
    let position = match scale {
        Scale::Linear => value,
        Scale::Log if value > 0.0 => libm::log10(value),
        Scale::Tail if (0.0..1.0).contains(&value) => -libm::log1p(-value) / core::f64::consts::LN_10,
        _ => return None,
    };
    position.is_finite().then_some(position)
}

/// The range of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AxisRange {
    pub(super) scale: Scale,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Whether a linear axis starts at zero if no value is negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZeroPolicy {
    /// The axis always starts at zero, because readers compare lengths.
    Always,
    /// The axis starts at zero only if zero is close to the data.
    IfNear,
}

/// Range options that do not depend on the data.
#[derive(Clone, Copy, Debug)]
pub(super) struct RangeOptions {
    /// Whether the axis starts at zero.
    pub(super) zero: ZeroPolicy,
    /// Whether the axis ends are extended to round numbers.
    pub(super) round_ends: bool,
}

impl AxisRange {
    /// Creates a range; `None` unless `low` is below `high`.
    pub(super) fn new(scale: Scale, low: f64, high: f64) -> Option<Self> {
        let width = position(scale, high)? - position(scale, low)?;
        let smallest = if scale == Scale::Log { 1.0 / MAX_VALUE } else { -MAX_VALUE };
        let is_in_bounds = (smallest..=MAX_VALUE).contains(&low) && (smallest..=MAX_VALUE).contains(&high);
        let is_long_enough = match scale {
            Scale::Linear => {
                width > MIN_RELATIVE_LENGTH * low.abs().max(high.abs()) && width > 1.0 / MAX_VALUE
            }
            Scale::Log | Scale::Tail => width > MIN_RELATIVE_LENGTH,
        };
        (is_long_enough && is_in_bounds).then_some(Self { scale, low, high })
    }

    /// Returns the range for these values; `None` if the scale cannot show any of the values.
    pub(super) fn from_data(
        axis: &Axis,
        values: impl Iterator<Item = f64>,
        options: RangeOptions,
    ) -> Option<Self> {
        let scale = axis.scale;
        let mut ends: Option<(f64, f64)> = None;
        for value in values.filter(|&value| position(scale, value).is_some()) {
            let (low, high) = ends.unwrap_or((value, value));
            ends = Some((low.min(value), high.max(value)));
        }
        let (low, high) = ends?;
        let data = Self::covering(scale, low, high, options.zero);
        let requested = Self::new(scale, axis.from.unwrap_or(data.low), axis.to.unwrap_or(data.high));
        let range = requested.unwrap_or(data);
        let round = range.rounded();
        let choose_end = |requested: Option<f64>, end: f64, round: f64| {
            let is_close =
                scale == Scale::Linear && (end - round).abs() < SNAP_DISTANCE * (range.high - range.low);
            let is_free = requested != Some(end) && (options.round_ends || is_close);
            if !is_free {
                return end;
            }
            let empty_part =
                (range.fraction(round).unwrap_or(0.0) - range.fraction(end).unwrap_or(0.0)).abs();
            let has_data_at_end = end != 0.0;
            if options.round_ends && has_data_at_end && empty_part > MAX_EMPTY_PART {
                range.beyond(end)
            } else {
                round
            }
        };
        let (low, high) =
            (choose_end(axis.from, range.low, round.low), choose_end(axis.to, range.high, round.high));
        Self::new(scale, low, high).or(Some(range))
    }

    /// Returns the distance of `value` from the low end as a fraction of the axis. The result may lie outside 0 to 1.
    pub(super) fn fraction(&self, value: f64) -> Option<f64> {
        // The constructor checks that both ends have a position.
        let (low, high) = (position(self.scale, self.low)?, position(self.scale, self.high)?);
        let fraction = (position(self.scale, value)? - low) / (high - low);
        fraction.is_finite().then_some(fraction)
    }

    /// Returns a value slightly beyond an end of the range.
    fn beyond(&self, end: f64) -> f64 {
        let is_low = end == self.low;
        match self.scale {
            Scale::Linear => {
                let margin = MARGIN * (self.high - self.low);
                if is_low { end - margin } else { end + margin }
            }
            Scale::Log => {
                let factor = libm::pow(self.high / self.low, MARGIN);
                if is_low { end / factor } else { end * factor }
            }
            Scale::Tail => end,
        }
    }

    /// Returns a range that covers `low` and `high`, even if they are equal.
    fn covering(scale: Scale, low: f64, high: f64, zero: ZeroPolicy) -> Self {
        let (low, high) = match scale {
            Scale::Linear => {
                let (mut low, mut high) =
                    (low.clamp(-MAX_VALUE, MAX_VALUE), high.clamp(-MAX_VALUE, MAX_VALUE));
                let is_near = |end: f64, far: f64| zero == ZeroPolicy::Always || end.abs() < far.abs() / 8.0;
                if low > 0.0 && is_near(low, high) {
                    low = 0.0;
                } else if high < 0.0 && is_near(high, low) {
                    high = 0.0;
                }
                (low, high)
            }
            Scale::Log => (low.clamp(1.0 / MAX_VALUE, MAX_VALUE), high.clamp(1.0 / MAX_VALUE, MAX_VALUE)),
            // A distribution starts at zero.
            Scale::Tail => (0.0, high.max(0.9)),
        };
        Self::new(scale, low, high).unwrap_or_else(|| {
            let (low, high) = match scale {
                Scale::Log => (low / 2.0, high * 2.0),
                Scale::Linear if low.abs().max(high.abs()) > 2.0 / MAX_VALUE => {
                    (low - low.abs() / 2.0, high + high.abs() / 2.0)
                }
                Scale::Linear | Scale::Tail => (0.0, 1.0),
            };
            Self { scale, low, high }
        })
    }

    /// Extends the range to round numbers.
    fn rounded(self) -> Self {
        match self.scale {
            Scale::Linear => {
                let once = self.rounded_once();
                // The extended range may need larger steps.
                once.rounded_once()
            }
            Scale::Log => Self { low: round_below(self.low), high: round_above(self.high), ..self },
            Scale::Tail => self,
        }
    }

    fn rounded_once(self) -> Self {
        let step = Step::new(self.high - self.low, MAX_STEPS);
        // The tolerance keeps an end that is already a round number.
        let first = libm::floor(self.low / step.size() + 1e-6);
        let last = libm::ceil(self.high / step.size() - 1e-6);
        Self { low: step.times(first), high: step.times(last), ..self }
    }
}

/// The distance between ticks of a linear axis: 1, 2 or 5 times a power of ten.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) digit: f64,
    pub(super) exponent: i32,
}

impl Step {
    /// Returns the smallest step that divides `width` into at most `max_steps` parts.
    pub(super) fn new(width: f64, max_steps: f64) -> Self {
        let min_size = width / max_steps * (1.0 - 1e-9);
        let exponent = magnitude(min_size);
        let steps = [(1.0, exponent), (2.0, exponent), (5.0, exponent)]
            .map(|(digit, exponent)| Self { digit, exponent });
        let next = Self { digit: 1.0, exponent: exponent + 1 };
        steps.into_iter().find(|step| step.size() >= min_size).unwrap_or(next)
    }

    /// Returns the length of one step.
    pub(super) fn size(self) -> f64 {
        decimal(self.digit, self.exponent)
    }

    /// Returns the length of `count` steps.
    pub(super) fn times(self, count: f64) -> f64 {
        decimal(count * self.digit, self.exponent)
    }
}

/// Rounds down to 1, 2 or 5 times a power of ten.
fn round_below(value: f64) -> f64 {
    let exponent = magnitude(value);
    let candidates =
        [(5.0, exponent), (2.0, exponent), (1.0, exponent)].map(|(digit, exponent)| decimal(digit, exponent));
    candidates.into_iter().find(|&round| round <= value * (1.0 + 1e-9)).unwrap_or(value)
}

/// Rounds up to 1, 2 or 5 times a power of ten.
fn round_above(value: f64) -> f64 {
    let exponent = magnitude(value);
    let candidates = [(1.0, exponent), (2.0, exponent), (5.0, exponent), (1.0, exponent + 1)];
    let mut candidates = candidates.into_iter().map(|(digit, exponent)| decimal(digit, exponent));
    candidates.find(|&round| round >= value * (1.0 - 1e-9)).unwrap_or(value)
}

/// An axis on the page: its range and the page coordinates of its ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageAxis {
    pub(super) range: AxisRange,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl PageAxis {
    /// Returns the page coordinate of `value`. Values far outside the axis are clamped, because clipping them would
    /// lose precision.
    pub(super) fn position(&self, value: f64) -> Option<f64> {
        const MAX_FRACTION: f64 = 1e3;
        let fraction = self.range.fraction(value)?.clamp(-MAX_FRACTION, MAX_FRACTION);
        // This expression is exact at both ends.
        Some(self.low * (1.0 - fraction) + self.high * fraction)
    }

    /// Returns the page coordinate of `value`, clamped to the axis.
    pub(super) fn position_clamped(&self, value: f64) -> Option<f64> {
        if value.is_nan() {
            return None;
        }
        let value = value.clamp(self.range.low, self.range.high);
        self.position(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale, from: Option<f64>, to: Option<f64>) -> Axis {
        Axis { label: String::new(), scale, from, to }
    }

    const ROUND: RangeOptions = RangeOptions { zero: ZeroPolicy::Always, round_ends: true };
    const TIGHT: RangeOptions = RangeOptions { zero: ZeroPolicy::IfNear, round_ends: false };

    fn ends(axis: &Axis, values: &[f64], options: RangeOptions) -> Option<(f64, f64)> {
        AxisRange::from_data(axis, values.iter().copied(), options).map(|range| (range.low, range.high))
    }

    #[test]
    fn positions_are_exact_at_the_ends_and_monotonic_between() {
        let ranges = [
            AxisRange::new(Scale::Linear, -3.7, 11.1),
            AxisRange::new(Scale::Log, 0.003, 7.1e6),
            AxisRange::new(Scale::Tail, 0.0, 0.9995),
        ];
        for range in ranges.map(Option::unwrap) {
            // Page coordinates decrease upwards.
            for (low, high) in [(40.0, 330.0), (130.0, 10.0)] {
                let axis = PageAxis { range, low, high };
                assert_eq!(axis.position(range.low), Some(low));
                assert_eq!(axis.position(range.high), Some(high));
                let values = (0..=100).map(|i| range.low + (range.high - range.low) * f64::from(i) / 100.0);
                let positions: Vec<f64> = values.filter_map(|value| axis.position(value)).collect();
                assert_eq!(positions.len(), 101);
                assert!(positions.windows(2).all(|pair| (pair[1] - pair[0]) * (high - low) > 0.0));
            }
        }
    }

    #[test]
    fn values_outside_the_domain_of_a_scale_have_no_position() {
        assert_eq!(position(Scale::Log, 0.0), None);
        assert_eq!(position(Scale::Log, -1.0), None);
        assert_eq!(position(Scale::Tail, 1.0), None);
        assert_eq!(position(Scale::Tail, -0.1), None);
        assert_eq!(position(Scale::Linear, f64::NAN), None);
        assert_eq!(position(Scale::Linear, f64::INFINITY), None);
        assert!((position(Scale::Tail, 0.999).unwrap() - 3.0).abs() < 1e-12);
    }

    #[test]
    fn steps_are_1_2_or_5_times_a_power_of_ten() {
        let step = |width| Step::new(width, 6.0).size();
        assert_eq!([step(6.0), step(6.1), step(30.0), step(31.0), step(0.3)], [1.0, 2.0, 5.0, 10.0, 0.05]);
    }

    #[test]
    fn linear_axes_start_at_zero_and_end_at_round_numbers() {
        let linear = axis(Scale::Linear, None, None);
        assert_eq!(ends(&linear, &[3.0, 97.0, f64::NAN], ROUND), Some((0.0, 100.0)));
        assert_eq!(ends(&linear, &[-3.0, -97.0], ROUND), Some((-100.0, 0.0)));
        assert_eq!(ends(&linear, &[0.3], ROUND), Some((0.0, 0.3)));
        assert_eq!(ends(&linear, &[0.0], ROUND), Some((0.0, 1.0)));
        assert_eq!(ends(&linear, &[90.0, 97.0], TIGHT), Some((90.0, 97.0)));
        assert_eq!(ends(&linear, &[2.0, 97.0], TIGHT), Some((0.0, 97.0)));
        assert_eq!(ends(&linear, &[2.0, 99.0], TIGHT), Some((0.0, 100.0)));
        assert_eq!(ends(&linear, &[f64::INFINITY], ROUND), None);
    }

    #[test]
    fn axes_end_near_the_data() {
        let linear = axis(Scale::Linear, None, None);
        // The next round numbers are -20 and 400.
        assert_eq!(ends(&linear, &[-3.0, 97.0], ROUND), Some((-6.0, 100.0)));
        assert_eq!(ends(&linear, &[3.0, 310.0], ROUND), Some((0.0, 319.3)));
        let log = axis(Scale::Log, None, None);
        // The next round numbers are 2 and 20.
        let (low, high) = ends(&log, &[8.0], ROUND).expect("the value is positive");
        assert!(low > 3.5 && high < 18.0, "{low} {high}");
    }

    #[test]
    fn logarithmic_axes_end_at_round_numbers() {
        let log = axis(Scale::Log, None, None);
        assert_eq!(ends(&log, &[0.0, 1.0, 37.0], ROUND), Some((1.0, 50.0)));
        assert_eq!(ends(&log, &[3.0, 600.0], TIGHT), Some((3.0, 600.0)));
        assert_eq!(ends(&log, &[-8.0], ROUND), None);
    }

    #[test]
    fn valid_requested_ends_are_kept() {
        let values = [3.0, 97.0];
        assert_eq!(ends(&axis(Scale::Linear, Some(0.5), Some(99.0)), &values, ROUND), Some((0.5, 99.0)));
        assert_eq!(ends(&axis(Scale::Linear, Some(9.0), Some(2.0)), &values, ROUND), Some((0.0, 100.0)));
        assert_eq!(ends(&axis(Scale::Linear, Some(f64::NAN), None), &values, ROUND), Some((0.0, 100.0)));
        assert_eq!(ends(&axis(Scale::Linear, None, Some(f64::MAX)), &values, ROUND), Some((0.0, 100.0)));
        assert_eq!(ends(&axis(Scale::Log, Some(0.0), Some(200.0)), &values, ROUND), Some((2.0, 100.0)));
    }
}
