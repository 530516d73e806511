//! Scales: where a value lies between the two ends of an axis, and which ends an axis has.

use super::number::{decimal, magnitude};
use super::{Axis, Scale};

/// No axis goes further: the width of one that does would not be a number.
const LARGEST: f64 = 1e300;

/// An axis shorter than this, beside its values, has one value and not two.
const SMALLEST_SHARE: f64 = 1e-9;

/// An axis that ends this close to a round number, as a share of its length, ends there.
const CLOSE: f64 = 0.02;

/// At most so many steps between the ends of an axis.
pub(super) const MOST_STEPS: f64 = 6.0;

/// Where `value` lies on this scale; nowhere, if the scale has no place for it.
pub(super) fn position(scale: Scale, value: f64) -> Option<f64> {
    let position = match scale {
        Scale::Linear => value,
        Scale::Log if value > 0.0 => libm::log10(value),
        Scale::Tail if (0.0..1.0).contains(&value) => -libm::log1p(-value) / core::f64::consts::LN_10,
        _ => return None,
    };
    position.is_finite().then_some(position)
}

/// The two ends of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) scale: Scale,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Whether an even axis begins at zero where no value is negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Zero {
    /// It does: lengths are compared.
    Always,
    /// It does if that costs little of the axis.
    IfNear,
}

/// What the data cannot say about an axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wishes {
    /// Whether it begins at zero.
    pub(super) zero: Zero,
    /// Whether it ends at a round number.
    pub(super) is_rounded: bool,
}

impl Span {
    /// An axis between two ends; none, if the first is not below the second.
    pub(super) fn new(scale: Scale, low: f64, high: f64) -> Option<Self> {
        let width = position(scale, high)? - position(scale, low)?;
        let smallest = if scale == Scale::Log { 1.0 / LARGEST } else { -LARGEST };
        let is_near = (smallest..=LARGEST).contains(&low) && (smallest..=LARGEST).contains(&high);
        let is_wide = match scale {
            Scale::Linear => width > SMALLEST_SHARE * low.abs().max(high.abs()) && width > 1.0 / LARGEST,
            Scale::Log | Scale::Tail => width > SMALLEST_SHARE,
        };
        (is_wide && is_near).then_some(Self { scale, low, high })
    }

    /// The axis for these values; none, if the scale has a place for none of them.
    pub(super) fn of(axis: &Axis, values: impl Iterator<Item = f64>, wishes: Wishes) -> Option<Self> {
        let scale = axis.scale;
        let mut ends: Option<(f64, f64)> = None;
        for value in values.filter(|&value| position(scale, value).is_some()) {
            let (low, high) = ends.unwrap_or((value, value));
            ends = Some((low.min(value), high.max(value)));
        }
        let (low, high) = ends?;
        let data = Self::around(scale, low, high, wishes.zero);
        let given = Self::new(scale, axis.from.unwrap_or(data.low), axis.to.unwrap_or(data.high));
        let span = given.unwrap_or(data);
        let round = span.rounded();
        let end = |given: Option<f64>, end: f64, round: f64| {
            let is_close = scale == Scale::Linear && (end - round).abs() < CLOSE * (span.high - span.low);
            let is_free = given != Some(end) && (wishes.is_rounded || is_close);
            if is_free { round } else { end }
        };
        let (low, high) = (end(axis.from, span.low, round.low), end(axis.to, span.high, round.high));
        Self::new(scale, low, high).or(Some(span))
    }

    /// How far `value` is from the low end, in lengths of the axis. It may lie outside.
    pub(super) fn share(&self, value: f64) -> Option<f64> {
        // Both ends have positions, or there would be no span.
        let (low, high) = (position(self.scale, self.low)?, position(self.scale, self.high)?);
        let share = (position(self.scale, value)? - low) / (high - low);
        share.is_finite().then_some(share)
    }

    /// An axis with these values on it, however close they are.
    fn around(scale: Scale, low: f64, high: f64, zero: Zero) -> Self {
        let (low, high) = match scale {
            Scale::Linear => {
                let (mut low, mut high) = (low.clamp(-LARGEST, LARGEST), high.clamp(-LARGEST, LARGEST));
                let is_near = |end: f64, far: f64| zero == Zero::Always || end.abs() < far.abs() / 8.0;
                if low > 0.0 && is_near(low, high) {
                    low = 0.0;
                } else if high < 0.0 && is_near(high, low) {
                    high = 0.0;
                }
                (low, high)
            }
            Scale::Log => (low.clamp(1.0 / LARGEST, LARGEST), high.clamp(1.0 / LARGEST, LARGEST)),
            // Distributions are read from their foot.
            Scale::Tail => (0.0, high.max(0.9)),
        };
        Self::new(scale, low, high).unwrap_or_else(|| {
            let (low, high) = match scale {
                Scale::Log => (low / 2.0, high * 2.0),
                Scale::Linear if low.abs().max(high.abs()) > 2.0 / LARGEST => {
                    (low - low.abs() / 2.0, high + high.abs() / 2.0)
                }
                Scale::Linear | Scale::Tail => (0.0, 1.0),
            };
            Self { scale, low, high }
        })
    }

    /// This axis, or the next longer one between round numbers.
    fn rounded(self) -> Self {
        match self.scale {
            Scale::Linear => {
                let once = self.rounded_once();
                // A longer axis may have longer steps.
                once.rounded_once()
            }
            Scale::Log => Self { low: round_below(self.low), high: round_above(self.high), ..self },
            Scale::Tail => self,
        }
    }

    fn rounded_once(self) -> Self {
        let step = Step::of(self.high - self.low, MOST_STEPS);
        // A little less and more, so that an end that is round already stays.
        let first = libm::floor(self.low / step.size() + 1e-6);
        let last = libm::ceil(self.high / step.size() - 1e-6);
        Self { low: step.times(first), high: step.times(last), ..self }
    }
}

/// From one tick to the next on an even axis: 1, 2 or 5 times a power of ten.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) digit: f64,
    pub(super) exponent: i32,
}

impl Step {
    /// The smallest with at most so many in `width`.
    pub(super) fn of(width: f64, most: f64) -> Self {
        let least = width / most * (1.0 - 1e-9);
        let exponent = magnitude(least);
        let steps = [(1.0, exponent), (2.0, exponent), (5.0, exponent)]
            .map(|(digit, exponent)| Self { digit, exponent });
        let next = Self { digit: 1.0, exponent: exponent + 1 };
        steps.into_iter().find(|step| step.size() >= least).unwrap_or(next)
    }

    /// How long it is.
    pub(super) fn size(self) -> f64 {
        decimal(self.digit, self.exponent)
    }

    /// How long so many are.
    pub(super) fn times(self, count: f64) -> f64 {
        decimal(count * self.digit, self.exponent)
    }
}

/// The largest of 1, 2 and 5 times a power of ten that is not above `value`.
fn round_below(value: f64) -> f64 {
    let exponent = magnitude(value);
    let all =
        [(5.0, exponent), (2.0, exponent), (1.0, exponent)].map(|(digit, exponent)| decimal(digit, exponent));
    all.into_iter().find(|&round| round <= value * (1.0 + 1e-9)).unwrap_or(value)
}

/// The smallest of 1, 2 and 5 times a power of ten that is not below `value`.
fn round_above(value: f64) -> f64 {
    let exponent = magnitude(value);
    let all = [(1.0, exponent), (2.0, exponent), (5.0, exponent), (1.0, exponent + 1)];
    let mut all = all.into_iter().map(|(digit, exponent)| decimal(digit, exponent));
    all.find(|&round| round >= value * (1.0 - 1e-9)).unwrap_or(value)
}

/// An axis on the page: from the place of its low end to the place of its high end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ruler {
    pub(super) span: Span,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Ruler {
    /// Where `value` is on the page. What lies far outside is brought nearer, or clipping would lose its precision.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        const FAR: f64 = 1e3;
        let share = self.span.share(value)?.clamp(-FAR, FAR);
        // In this order both ends are exact.
        Some(self.low * (1.0 - share) + self.high * share)
    }

    /// Where `value` is, or the end that is nearest.
    pub(super) fn place_within(&self, value: f64) -> Option<f64> {
        if value.is_nan() {
            return None;
        }
        let value = value.clamp(self.span.low, self.span.high);
        self.place(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale, from: Option<f64>, to: Option<f64>) -> Axis {
        Axis { label: String::new(), scale, from, to }
    }

    const ROUND: Wishes = Wishes { zero: Zero::Always, is_rounded: true };
    const TIGHT: Wishes = Wishes { zero: Zero::IfNear, is_rounded: false };

    fn ends(axis: &Axis, values: &[f64], wishes: Wishes) -> Option<(f64, f64)> {
        Span::of(axis, values.iter().copied(), wishes).map(|span| (span.low, span.high))
    }

    #[test]
    fn ends_are_exact_and_what_is_between_rises() {
        let spans = [
            Span::new(Scale::Linear, -3.7, 11.1),
            Span::new(Scale::Log, 0.003, 7.1e6),
            Span::new(Scale::Tail, 0.0, 0.9995),
        ];
        for span in spans.map(Option::unwrap) {
            // Upwards on a page is downwards in numbers.
            for (low, high) in [(40.0, 330.0), (130.0, 10.0)] {
                let ruler = Ruler { span, low, high };
                assert_eq!(ruler.place(span.low), Some(low));
                assert_eq!(ruler.place(span.high), Some(high));
                let values = (0..=100).map(|i| span.low + (span.high - span.low) * f64::from(i) / 100.0);
                let places: Vec<f64> = values.filter_map(|value| ruler.place(value)).collect();
                assert_eq!(places.len(), 101);
                assert!(places.windows(2).all(|pair| (pair[1] - pair[0]) * (high - low) > 0.0));
            }
        }
    }

    #[test]
    fn scales_have_no_place_for_some() {
        assert_eq!(position(Scale::Log, 0.0), None);
        assert_eq!(position(Scale::Log, -1.0), None);
        assert_eq!(position(Scale::Tail, 1.0), None);
        assert_eq!(position(Scale::Tail, -0.1), None);
        assert_eq!(position(Scale::Linear, f64::NAN), None);
        assert_eq!(position(Scale::Linear, f64::INFINITY), None);
        assert!((position(Scale::Tail, 0.999).unwrap() - 3.0).abs() < 1e-12);
    }

    #[test]
    fn steps_are_one_two_five() {
        let step = |width| Step::of(width, 6.0).size();
        assert_eq!([step(6.0), step(6.1), step(30.0), step(31.0), step(0.3)], [1.0, 2.0, 5.0, 10.0, 0.05]);
    }

    #[test]
    fn even_axes_begin_at_zero_and_end_at_round_numbers() {
        let even = axis(Scale::Linear, None, None);
        assert_eq!(ends(&even, &[3.0, 97.0, f64::NAN], ROUND), Some((0.0, 100.0)));
        assert_eq!(ends(&even, &[-3.0, 97.0], ROUND), Some((-20.0, 100.0)));
        assert_eq!(ends(&even, &[-3.0, -97.0], ROUND), Some((-100.0, 0.0)));
        assert_eq!(ends(&even, &[0.3], ROUND), Some((0.0, 0.3)));
        assert_eq!(ends(&even, &[0.0], ROUND), Some((0.0, 1.0)));
        assert_eq!(ends(&even, &[90.0, 97.0], TIGHT), Some((90.0, 97.0)));
        assert_eq!(ends(&even, &[2.0, 97.0], TIGHT), Some((0.0, 97.0)));
        assert_eq!(ends(&even, &[2.0, 99.0], TIGHT), Some((0.0, 100.0)));
        assert_eq!(ends(&even, &[f64::INFINITY], ROUND), None);
    }

    #[test]
    fn logarithmic_axes_end_at_round_numbers() {
        let log = axis(Scale::Log, None, None);
        assert_eq!(ends(&log, &[0.0, 1.0, 37.0], ROUND), Some((1.0, 50.0)));
        assert_eq!(ends(&log, &[3.0, 600.0], TIGHT), Some((3.0, 600.0)));
        assert_eq!(ends(&log, &[8.0], ROUND), Some((2.0, 20.0)));
        assert_eq!(ends(&log, &[-8.0], ROUND), None);
    }

    #[test]
    fn given_ends_are_kept_where_they_make_sense() {
        let values = [3.0, 97.0];
        assert_eq!(ends(&axis(Scale::Linear, Some(0.5), Some(99.0)), &values, ROUND), Some((0.5, 99.0)));
        assert_eq!(ends(&axis(Scale::Linear, Some(9.0), Some(2.0)), &values, ROUND), Some((0.0, 100.0)));
        assert_eq!(ends(&axis(Scale::Linear, Some(f64::NAN), None), &values, ROUND), Some((0.0, 100.0)));
        assert_eq!(ends(&axis(Scale::Linear, None, Some(f64::MAX)), &values, ROUND), Some((0.0, 100.0)));
        assert_eq!(ends(&axis(Scale::Log, Some(0.0), Some(200.0)), &values, ROUND), Some((2.0, 100.0)));
    }
}
