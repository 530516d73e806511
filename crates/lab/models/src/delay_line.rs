//! Integrates one second-order equation with two delays, the past kept exactly as it was computed.
//!
//! Model   x'' = f(x, x', x(t - long), x'(t - long), x(t - short), x'(t - short))
//!         classical Runge-Kutta; between steps the past is a cubic Hermite curve (place from place and speed,
//!         speed from speed and push), so the error of a lookup is of fourth order like the step's
//! Limits  a step must not exceed the short delay, else a stage would look into the future. Before time zero
//!         the place is one and the speed zero

use std::collections::VecDeque;

/// Place and speed at some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Motion {
    /// `x`.
    pub place: f64,
    /// `x'`.
    pub speed: f64,
}

/// A turning point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// When.
    pub time: f64,
    /// How far from zero.
    pub height: f64,
}

/// A computed point of the past.
#[derive(Debug, Clone, Copy)]
struct Node {
    place: f64,
    speed: f64,
    push: f64,
}

/// The state, its past, and the equation: `push(place, speed, long ago, short ago)` is `x''`.
#[derive(Debug, Clone)]
pub struct DelayLine<F> {
    long: f64,
    short: f64,
    step: f64,
    steps_done: u64,
    /// The last is now, each before it one step earlier.
    past: VecDeque<Node>,
    push: F,
}

impl<F: Fn(f64, f64, Motion, Motion) -> f64> DelayLine<F> {
    /// At rest at one since ever, with these delays and this step.
    ///
    /// # Panics
    /// If the step exceeds the short delay.
    pub fn new(long: f64, short: f64, step: f64, push: F) -> Self {
        assert!(step <= short, "a step of {step} looks into the future of delay {short}");
        let still = Node { place: 1.0, speed: 0.0, push: 0.0 };
        let mut nodes = VecDeque::from([still]);
        let mut covered = 0.0;
        // Two nodes more than the long delay needs: its ends are rarely nodes.
        while covered < long + 2.0 * step {
            nodes.push_back(still);
            covered += step;
        }
        Self { long, short, step, steps_done: 0, past: nodes, push }
    }

    /// Now.
    pub const fn time(&self) -> f64 {
        self.steps_done as f64 * self.step
    }

    /// One step; the turning point it passed, if any.
    pub fn advance(&mut self) -> Option<Peak> {
        let h = self.step;
        let from = *self.past.back().expect("the past is never empty");
        let [start, middle, end] =
            [0.0, h / 2.0, h].map(|ahead| (self.ago(self.long - ahead), self.ago(self.short - ahead)));
        let push = |place: f64, speed: f64, (long_ago, short_ago): (Motion, Motion)| {
            (self.push)(place, speed, long_ago, short_ago)
        };
        let (v1, p1) = (from.speed, push(from.place, from.speed, start));
        let (v2, p2) = {
            let speed = from.speed + p1 * h / 2.0;
            (speed, push(from.place + v1 * h / 2.0, speed, middle))
        };
        let (v3, p3) = {
            let speed = from.speed + p2 * h / 2.0;
            (speed, push(from.place + v2 * h / 2.0, speed, middle))
        };
        let (v4, p4) = {
            let speed = from.speed + p3 * h;
            (speed, push(from.place + v3 * h, speed, end))
        };
        let place = from.place + h / 6.0 * (v1 + 2.0 * v2 + 2.0 * v3 + v4);
        let speed = from.speed + h / 6.0 * (p1 + 2.0 * p2 + 2.0 * p3 + p4);
        let to = Node { place, speed, push: push(place, speed, end) };
        let began = self.time();
        self.past.pop_front();
        self.past.push_back(to);
        self.steps_done += 1;
        let turned = from.speed * to.speed < 0.0;
        turned.then(|| {
            let part = from.speed / (from.speed - to.speed);
            Peak { time: began + part * h, height: between(from, to, h, part).place.abs() }
        })
    }

    /// Where it was so long before now.
    fn ago(&self, delay: f64) -> Motion {
        let steps = (delay / self.step).max(0.0);
        let whole = steps.floor();
        let last = self.past.len() - 1;
        #[expect(clippy::cast_possible_truncation, reason = "a delay holds few steps")]
        let newer = last - (whole as usize).min(last - 1);
        between(self.past[newer - 1], self.past[newer], self.step, 1.0 - (steps - whole))
    }
}

/// The cubic Hermite curve from one node to the next, `part` of a step after the first.
fn between(from: Node, to: Node, step: f64, part: f64) -> Motion {
    let curve = |value: (f64, f64), slope: (f64, f64)| {
        let (t, u) = (part, 1.0 - part);
        value.0 * u * u * (1.0 + 2.0 * t)
            + value.1 * t * t * (3.0 - 2.0 * t)
            + step * t * u * (slope.0 * u - slope.1 * t)
    };
    Motion {
        place: curve((from.place, to.place), (from.speed, to.speed)),
        speed: curve((from.speed, to.speed), (from.push, to.push)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_delays_a_swing_keeps_its_height_and_period() {
        let mut line = DelayLine::new(1.0, 1.0, 0.01, |place, _, _, _| -place);
        let mut peaks = Vec::new();
        while peaks.len() < 100 {
            peaks.extend(line.advance());
        }
        let last = peaks[99];
        assert!((last.height - 1.0).abs() < 1e-8, "{last:?}");
        assert!((last.time / core::f64::consts::PI - 100.0).abs() < 1e-5, "{last:?}");
    }

    #[test]
    fn the_first_delay_is_solved_exactly() {
        // x'' = -x(t - 1) from a past of one: x = 1 - t^2/2 up to 1, then a cubic-and-higher correction:
        // x(2) = 1 - 2 + 1/24.
        let mut line = DelayLine::new(1.0, 1.0, 0.125, |_, _, long_ago, _| -long_ago.place);
        for _ in 0..16 {
            line.advance();
        }
        let now = line.ago(0.0);
        assert!((now.place - (1.0 - 2.0 + 1.0 / 24.0)).abs() < 1e-6, "{now:?}");
    }

    #[test]
    fn a_delayed_spring_feeds_its_swing() {
        // x'' = -w^2 x(t - tau) grows with w^2 tau / 2 for a short delay tau.
        let (w, tau) = (0.1, 0.05);
        let mut line = DelayLine::new(1.0, tau, tau, |_, _, _, short_ago| -w * w * short_ago.place);
        let mut peaks = Vec::new();
        while peaks.len() < 40 {
            peaks.extend(line.advance());
        }
        let growth = (peaks[39].height / peaks[9].height).ln() / (peaks[39].time - peaks[9].time);
        assert!((growth / (w * w * tau / 2.0) - 1.0).abs() < 1e-4, "{growth}");
    }

    #[test]
    #[should_panic(expected = "looks into the future")]
    fn a_step_beyond_the_short_delay_is_refused() {
        let _ = DelayLine::new(1.0, 0.4, 0.5, |_, _, _, _| 0.0);
    }
}
