//! PowerTCP's fluid model: one bottleneck, windows and a queue, no packets.
//!
//! ```text
//! w_i' = (gain / dt) * (w_i * e / f - w_i + beta_i)               Eq. 3, 22; Eq. 14 for power
//! q'   = w / theta - b,  theta = q / b + tau;  never below q = 0   Eq. 4, 9, 10
//!
//! law            e        f                       signal
//! queue length   b tau    q + b tau               voltage
//! delay          tau      q / b + tau             voltage
//! RTT gradient   1        q' / b + 1              current
//! power          b^2 tau  (q + b tau) (q' + mu)   voltage times current (Eq. 11)
//! ```
//!
//! Rests   voltage and power: w = b tau + B, q = B with B the sum of beta (Thm 1, App. B).
//!         Gradient: w' = (gain / dt) (q + b tau + B - w) while q > 0. With B = 0 every point of
//!         w = q + b tau rests; with B > 0 none does and the queue grows for ever
//! Source  Addanki et al., NSDI 2022, section 2, appendices A and B; fig. 2
//! Differs feedback is instantaneous (propagation delays zero), as in Eq. 15: for power the delays of
//!         Eq. 12 cancel (Property 1), for the others the paper's plots do not say. The gradient law at an
//!         empty queue sees q' = 0 (Eq. 21: an RTT cannot fall below tau), not the current below b
//! Limits  bytes and ns; classical Runge-Kutta, step tau / 200, first order where the queue runs empty.
//!         Eq. 3 is Euler's first-order form of Eq. 2: an update by Eq. 12 leaves 1 - gain of an error, Thm 2
//!         says e^-gain, so at gain 0.9 the real rule is 2.56 times faster than the theorem

/// Steps of the integrator per base RTT: the fastest rate of the paper's setting is 9 per RTT.
pub(crate) const STEPS_PER_RTT: f64 = 200.0;

/// The control laws of section 2.2, and power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Law {
    /// Voltage: bytes in flight, as HPCC (Eq. 25).
    QueueLength,
    /// Voltage: round-trip time, as FAST (Eq. 26).
    Delay,
    /// Current: change of the round-trip time, as TIMELY (Eq. 27).
    RttGradient,
    /// Voltage times current: PowerTCP (Eq. 12).
    Power,
}

impl Law {
    /// All of them, in the paper's order.
    pub const ALL: [Self; 4] = [Self::QueueLength, Self::Delay, Self::RttGradient, Self::Power];
}

/// A bottleneck and the flows that share it, all under one law.
#[derive(Debug, Clone)]
pub struct System {
    /// What the flows react to.
    pub law: Law,
    /// Capacity, `b` in the paper, in bytes per ns.
    pub bandwidth: f64,
    /// Round-trip time with an empty queue, `tau` in the paper, in ns.
    pub base_rtt_ns: f64,
    /// Weight of a new window, `gamma` in the paper.
    pub gain: f64,
    /// Time between window updates, `delta t` in the paper, in ns.
    pub update_interval_ns: f64,
    /// Additive increase of each flow, `beta_i` in the paper, in bytes. Its length is the number of flows.
    pub increases_bytes: Vec<f64>,
}

/// Where a system is: one window per flow, and the queue.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Window of each flow, in bytes.
    pub windows_bytes: Vec<f64>,
    /// Queue at the bottleneck, in bytes.
    pub queue_bytes: f64,
}

impl State {
    /// One flow, or the aggregate of many.
    pub fn one(window_bytes: f64, queue_bytes: f64) -> Self {
        Self { windows_bytes: vec![window_bytes], queue_bytes }
    }

    /// Sum of all windows, in bytes.
    pub fn window_bytes(&self) -> f64 {
        self.windows_bytes.iter().sum()
    }

    /// `self + slope * step`, the queue not below empty.
    fn moved(&self, slope: &Self, step: f64) -> Self {
        let windows = self.windows_bytes.iter().zip(&slope.windows_bytes);
        Self {
            windows_bytes: windows.map(|(w, dw)| w + dw * step).collect(),
            queue_bytes: (self.queue_bytes + slope.queue_bytes * step).max(0.0),
        }
    }
}

impl System {
    /// Fig. 2 and 3: 100 Gbps, 20 us. The paper leaves the rest open; here gain 0.9 (its section 3.3), an
    /// update every tenth of an RTT, and additive increases that sum to 1 % of the BDP.
    pub fn paper(law: Law) -> Self {
        Self {
            law,
            bandwidth: 12.5,
            base_rtt_ns: 20_000.0,
            gain: 0.9,
            update_interval_ns: 2_000.0,
            increases_bytes: vec![2_500.0],
        }
    }

    /// `b tau`, in bytes.
    pub fn bdp_bytes(&self) -> f64 {
        self.bandwidth * self.base_rtt_ns
    }

    /// Sum of the additive increases, in bytes.
    pub fn increase_bytes(&self) -> f64 {
        self.increases_bytes.iter().sum()
    }

    /// Theorems 1 and 3: the one point where voltage laws and power rest, `(w_i)_e = (B + b tau) / B * beta_i`
    /// and `q_e = B`.
    pub fn equilibrium(&self) -> State {
        let total = self.increase_bytes();
        let scale = (total + self.bdp_bytes()) / total;
        State {
            windows_bytes: self.increases_bytes.iter().map(|beta| beta * scale).collect(),
            queue_bytes: total,
        }
    }

    /// Theorem 2: with power, an error of the aggregate window shrinks by e in `dt / gain`, in ns.
    pub fn time_constant_ns(&self) -> f64 {
        self.update_interval_ns / self.gain
    }

    /// With power, an error of one flow's part of the window shrinks by e in this many ns: each flow follows
    /// `w_i' = (gain / dt) (beta_i - w_i B / (b tau + B))` once the aggregate rests. Not in the paper.
    pub fn fairness_time_constant_ns(&self) -> f64 {
        let total = self.increase_bytes();
        self.time_constant_ns() * (self.bdp_bytes() + total) / total
    }

    /// Fig. 2: the factor `e / f` by which the law multiplies the window, given the queue (bytes), its slope
    /// and the rate the bottleneck sends at, `mu` in the paper (bytes per ns).
    pub fn reaction(&self, queue_bytes: f64, queue_slope: f64, sent_rate: f64) -> f64 {
        let (b, tau) = (self.bandwidth, self.base_rtt_ns);
        match self.law {
            Law::QueueLength => b * tau / (queue_bytes + b * tau),
            Law::Delay => tau / (queue_bytes / b + tau),
            Law::RttGradient => 1.0 / (queue_slope / b + 1.0),
            Law::Power => b * b * tau / ((queue_bytes + b * tau) * (queue_slope + sent_rate)),
        }
    }

    /// Eq. 3 and 4: how fast each part of the state moves, in bytes per ns.
    fn slope(&self, state: &State) -> State {
        let rtt_ns = state.queue_bytes / self.bandwidth + self.base_rtt_ns;
        let arrivals = state.window_bytes() / rtt_ns;
        let has_queue = state.queue_bytes > 0.0 || arrivals > self.bandwidth;
        let (queue_slope, sent_rate) =
            if has_queue { (arrivals - self.bandwidth, self.bandwidth) } else { (0.0, arrivals) };
        let factor = self.reaction(state.queue_bytes, queue_slope, sent_rate);
        let windows = state.windows_bytes.iter().zip(&self.increases_bytes);
        State {
            windows_bytes: windows
                .map(|(w, beta)| (w * factor - w + beta) / self.time_constant_ns())
                .collect(),
            queue_bytes: queue_slope,
        }
    }

    /// One step of the classical Runge-Kutta method.
    fn step(&self, state: &State, step_ns: f64) -> State {
        let k1 = self.slope(state);
        let k2 = self.slope(&state.moved(&k1, step_ns / 2.0));
        let k3 = self.slope(&state.moved(&k2, step_ns / 2.0));
        let k4 = self.slope(&state.moved(&k3, step_ns));
        [(k1, 6.0), (k2, 3.0), (k3, 3.0), (k4, 6.0)]
            .iter()
            .fold(state.clone(), |at, (k, part)| at.moved(k, step_ns / part))
    }

    /// Where the system is after `duration_ns` (rounded up to whole steps of a 200th of the base RTT).
    pub fn after(&self, start: &State, duration_ns: f64) -> State {
        let step_ns = self.base_rtt_ns / STEPS_PER_RTT;
        let mut state = start.clone();
        let mut left_ns = duration_ns;
        // A millionth of a step left over is rounding, not time.
        while left_ns > step_ns * 1e-6 {
            state = self.step(&state, step_ns);
            left_ns -= step_ns;
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative distance.
    fn off(value: f64, expected: f64) -> f64 {
        (value / expected - 1.0).abs()
    }

    #[test]
    fn fig2a_voltage_ignores_the_slope_and_current_and_power_follow_it() {
        for law in Law::ALL {
            let system = System::paper(law);
            let (b, queue) = (system.bandwidth, 0.5 * system.bdp_bytes());
            let at = |slope: f64| system.reaction(queue, slope * b, b);
            let expected = match law {
                Law::QueueLength | Law::Delay => [2.0 / 3.0; 3],
                Law::RttGradient => [2.0, 1.0, 0.2],
                Law::Power => [4.0 / 3.0, 2.0 / 3.0, 2.0 / 15.0],
            };
            for (slope, expected) in [-0.5, 0.0, 4.0].into_iter().zip(expected) {
                assert!(off(at(slope), expected) < 1e-12, "{law:?} at slope {slope}");
            }
        }
    }

    #[test]
    fn fig2b_current_ignores_the_queue_and_voltage_and_power_follow_it() {
        for law in Law::ALL {
            let system = System::paper(law);
            let b = system.bandwidth;
            let at = |queue: f64| system.reaction(queue * system.bdp_bytes(), b, b);
            let expected = match law {
                Law::QueueLength | Law::Delay => [1.0, 0.5, 0.25],
                Law::RttGradient => [0.5; 3],
                Law::Power => [0.5, 0.25, 0.125],
            };
            for (queue, expected) in [0.0, 1.0, 3.0].into_iter().zip(expected) {
                assert!(off(at(queue), expected) < 1e-12, "{law:?} at queue {queue}");
            }
        }
    }

    #[test]
    fn property_1_power_is_bandwidth_times_window() {
        // So the factor e / f is b tau / w wherever the system is, and Eq. 14 becomes Eq. 15.
        let system = System::paper(Law::Power);
        let bdp = system.bdp_bytes();
        for (window, queue) in [(0.2, 0.0), (0.2, 0.7), (1.0, 0.0), (3.0, 0.0), (3.0, 2.0)] {
            let slope = system.slope(&State::one(window * bdp, queue * bdp));
            let expected = (bdp + system.increase_bytes() - window * bdp) / system.time_constant_ns();
            assert!((slope.windows_bytes[0] - expected).abs() < 1e-9, "{window} {queue}");
        }
    }

    #[test]
    fn thm2_power_forgets_99_3_percent_in_five_time_constants() {
        let system = System::paper(Law::Power);
        let rest = system.equilibrium().window_bytes();
        for (window, queue) in [(2.0, 0.0), (2.0, 1.0), (0.3, 0.0), (0.3, 0.5), (10.0, 3.0)] {
            let start = State::one(window * rest, queue * rest);
            let error = |state: &State| (state.window_bytes() - rest) / (start.window_bytes() - rest);
            // 5 dt / gain = 11,111 ns; the next whole step ends at 11,200 ns.
            assert!((system.time_constant_ns() - 2222.2).abs() < 0.1);
            let left = error(&system.after(&start, 5.0 * system.time_constant_ns()));
            assert!((0.0064..=0.0070).contains(&left), "{left}");
            let span_ns = 4_000.0;
            let measured_ns = span_ns / -error(&system.after(&start, span_ns)).ln();
            assert!(off(measured_ns, system.time_constant_ns()) < 1e-6, "{measured_ns}");
        }
    }

    #[test]
    fn thm3_windows_follow_the_weights() {
        let mut system = System::paper(Law::Power);
        system.increases_bytes = vec![250.0, 500.0, 750.0, 1000.0];
        let start =
            State { windows_bytes: vec![400_000.0, 10_000.0, 90_000.0, 1_000.0], queue_bytes: 100_000.0 };
        let end = system.after(&start, 15.0 * system.fairness_time_constant_ns());
        for (window, beta) in end.windows_bytes.iter().zip(&system.increases_bytes) {
            let expected = (2_500.0 + 250_000.0) / 2_500.0 * beta;
            assert!(off(*window, expected) < 1e-4, "{window} {expected}");
        }
        // The aggregate rests within 11 us, the weights take 224 us per factor of e at 1 % additive increase.
        assert!(off(system.fairness_time_constant_ns(), 224_444.4) < 1e-6);
        let from = system.after(&start, 50_000.0);
        let to = system.after(&from, 200_000.0);
        let rest = system.equilibrium().windows_bytes[0];
        let decay = (to.windows_bytes[0] - rest) / (from.windows_bytes[0] - rest);
        assert!(off(200_000.0 / -decay.ln(), system.fairness_time_constant_ns()) < 1e-3);
    }
}
