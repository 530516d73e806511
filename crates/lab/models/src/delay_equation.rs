//! Numerical integration of a second-order delay differential equation with two delays.
//!
//! Model   x'' = f(x, x', x(t - long), x'(t - long), x(t - short), x'(t - short)) The method is classical Runge-Kutta.
//!         Cubic Hermite curves interpolate the history between steps, so lookups and steps both have a fourth-order
//!         error
//! Limits  A step must not exceed the short delay, because a Runge-Kutta stage would otherwise need future values.
//!         Before time zero the position is one and the velocity is zero

use std::collections::VecDeque;

/// The position and velocity at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Motion {
    /// The position `x`.
    pub position: f64,
    /// The velocity `x'`.
    pub velocity: f64,
}

/// A turning point of the position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// The turning point's time.
    pub time: f64,
    /// The absolute value of the position.
    pub amplitude: f64,
}

/// One computed point of the history.
#[derive(Debug, Clone, Copy)]
struct HistoryPoint {
    position: f64,
    velocity: f64,
    acceleration: f64,
}

/// The equation `x'' = acceleration(position, velocity, long ago, short ago)`, its state and its history.
#[derive(Debug, Clone)]
pub struct DelayEquation<F> {
    long: f64,
    short: f64,
    step: f64,
    steps_done: u64,
    /// The history, with one point per step. The last point is the current state.
    history: VecDeque<HistoryPoint>,
    acceleration: F,
}

impl<F: Fn(f64, f64, Motion, Motion) -> f64> DelayEquation<F> {
    /// Creates an equation with the given delays and step. The initial history is constant at position one.
    ///
    /// # Panics
    ///
    /// Panics if the step exceeds the short delay.
    pub fn new(long: f64, short: f64, step: f64, acceleration: F) -> Self {
        assert!(step <= short, "the step {step} exceeds the short delay {short}");
        let initial = HistoryPoint { position: 1.0, velocity: 0.0, acceleration: 0.0 };
        let mut history = VecDeque::from([initial]);
        let mut covered = 0.0;
        // Add two extra points, because the long delay is rarely a multiple of the step.
        while covered < long + 2.0 * step {
            history.push_back(initial);
            covered += step;
        }
        Self { long, short, step, steps_done: 0, history, acceleration }
    }

    /// Returns the current time.
    pub const fn time(&self) -> f64 {
        self.steps_done as f64 * self.step
    }

    /// Advances by one step. Returns the turning point within the step, if any.
    pub fn advance(&mut self) -> Option<Peak> {
        let h = self.step;
        let from = *self.history.back().expect("the history is never empty");
        let [start, middle, end] = [0.0, h / 2.0, h]
            .map(|ahead| (self.state_before(self.long - ahead), self.state_before(self.short - ahead)));
        let acceleration = |position: f64, velocity: f64, (long_ago, short_ago): (Motion, Motion)| {
            (self.acceleration)(position, velocity, long_ago, short_ago)
        };
        let (v1, a1) = (from.velocity, acceleration(from.position, from.velocity, start));
        let (v2, a2) = {
            let velocity = from.velocity + a1 * h / 2.0;
            (velocity, acceleration(from.position + v1 * h / 2.0, velocity, middle))
        };
        let (v3, a3) = {
            let velocity = from.velocity + a2 * h / 2.0;
            (velocity, acceleration(from.position + v2 * h / 2.0, velocity, middle))
        };
        let (v4, a4) = {
            let velocity = from.velocity + a3 * h;
            (velocity, acceleration(from.position + v3 * h, velocity, end))
        };
        let position = from.position + h / 6.0 * (v1 + 2.0 * v2 + 2.0 * v3 + v4);
        let velocity = from.velocity + h / 6.0 * (a1 + 2.0 * a2 + 2.0 * a3 + a4);
        let to = HistoryPoint { position, velocity, acceleration: acceleration(position, velocity, end) };
        let start_time = self.time();
        self.history.pop_front();
        self.history.push_back(to);
        self.steps_done += 1;
        let has_turned = from.velocity * to.velocity < 0.0;
        has_turned.then(|| {
            let fraction = from.velocity / (from.velocity - to.velocity);
            Peak {
                time: start_time + fraction * h,
                amplitude: interpolate(from, to, h, fraction).position.abs(),
            }
        })
    }

    /// Returns the state `delay` before the current time.
    fn state_before(&self, delay: f64) -> Motion {
        let steps = (delay / self.step).max(0.0);
        let whole = steps.floor();
        let last = self.history.len() - 1;
        #[expect(clippy::cast_possible_truncation, reason = "a delay has few steps")]
        let newer = last - (whole as usize).min(last - 1);
        interpolate(self.history[newer - 1], self.history[newer], self.step, 1.0 - (steps - whole))
    }
}

/// Interpolates between two points with a cubic Hermite curve, at `fraction` of the step.
fn interpolate(from: HistoryPoint, to: HistoryPoint, step: f64, fraction: f64) -> Motion {
    let curve = |value: (f64, f64), slope: (f64, f64)| {
        let (t, u) = (fraction, 1.0 - fraction);
        value.0 * u * u * (1.0 + 2.0 * t)
            + value.1 * t * t * (3.0 - 2.0 * t)
            + step * t * u * (slope.0 * u - slope.1 * t)
    };
    Motion {
        position: curve((from.position, to.position), (from.velocity, to.velocity)),
        velocity: curve((from.velocity, to.velocity), (from.acceleration, to.acceleration)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undelayed_oscillator_keeps_amplitude_and_period() {
        let mut equation = DelayEquation::new(1.0, 1.0, 0.01, |position, _, _, _| -position);
        let mut peaks = Vec::new();
        while peaks.len() < 100 {
            peaks.extend(equation.advance());
        }
        let last = peaks[99];
        assert!((last.amplitude - 1.0).abs() < 1e-8, "{last:?}");
        assert!((last.time / core::f64::consts::PI - 100.0).abs() < 1e-5, "{last:?}");
    }

    #[test]
    fn first_delay_interval_matches_the_exact_solution() {
        // x'' = -x(t - 1) with a history of one gives x = 1 - t^2/2 up to t = 1, and then higher-order terms:
        // x(2) = 1 - 2 + 1/24.
        let mut equation = DelayEquation::new(1.0, 1.0, 0.125, |_, _, long_ago, _| -long_ago.position);
        for _ in 0..16 {
            equation.advance();
        }
        let now = equation.state_before(0.0);
        assert!((now.position - (1.0 - 2.0 + 1.0 / 24.0)).abs() < 1e-6, "{now:?}");
    }

    #[test]
    fn delayed_spring_amplifies_its_oscillation() {
        // The growth rate of x'' = -w^2 x(t - tau) is w^2 tau / 2 for a short delay tau.
        let (w, tau) = (0.1, 0.05);
        let mut equation =
            DelayEquation::new(1.0, tau, tau, |_, _, _, short_ago| -w * w * short_ago.position);
        let mut peaks = Vec::new();
        while peaks.len() < 40 {
            peaks.extend(equation.advance());
        }
        let growth = (peaks[39].amplitude / peaks[9].amplitude).ln() / (peaks[39].time - peaks[9].time);
        assert!((growth / (w * w * tau / 2.0) - 1.0).abs() < 1e-4, "{growth}");
    }

    #[test]
    #[should_panic(expected = "exceeds the short delay")]
    fn step_beyond_the_short_delay_panics() {
        let _ = DelayEquation::new(1.0, 0.4, 0.5, |_, _, _, _| 0.0);
    }
}
