//! PowerTCP's fluid model: the windows of all flows and the queue at one bottleneck.
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
//! Steady  Voltage and power: w = b tau + B, q = B, where B is the sum of beta (Thm 1, App. B). Gradient: w' = (gain /
//!         dt) (q + b tau + B - w) while q > 0. With B = 0, every point on w = q + b tau is an equilibrium. With B > 0,
//!         there is no equilibrium, and the queue grows without bound
//! Source  Addanki et al., NSDI 2022, section 2, appendices A and B; fig. 2
//! Differs Feedback is instantaneous, as in Eq. 15. For power the delays of Eq. 12 cancel (Property 1); for the
//!         other laws the paper does not state them. At an empty queue the gradient law sees q' = 0, because an RTT
//!         cannot fall below tau (Eq. 21)
//! Limits  Units are bytes and ns. The method is classical Runge-Kutta with steps of tau / 200; it is first order where
//!         the queue becomes empty. Eq. 3 is the Euler approximation of Eq. 2: an update by Eq. 12 leaves a fraction 1
//!         - gain of an error, but Thm 2 states e^-gain. At gain 0.9 the real law is 2.56 times faster

/// The number of integration steps per base RTT. The fastest rate in the paper's setting is 9 per RTT.
pub(crate) const STEPS_PER_RTT: f64 = 200.0;

/// The control laws of section 2.2 and PowerTCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Law {
    /// Reacts to voltage: bytes in flight, like HPCC (Eq. 25).
    QueueLength,
    /// Reacts to voltage: round-trip time, like FAST (Eq. 26).
    Delay,
    /// Reacts to current: the gradient of the round-trip time, like TIMELY (Eq. 27).
    RttGradient,
    /// Reacts to power, i.e. voltage times current: PowerTCP (Eq. 12).
    Power,
}

impl Law {
    /// All laws, in the order of the paper.
    pub const ALL: [Self; 4] = [Self::QueueLength, Self::Delay, Self::RttGradient, Self::Power];
}

/// A bottleneck and its flows, which all use the same law.
#[derive(Debug, Clone)]
pub struct System {
    /// The control law used by all flows.
    pub law: Law,
    /// The capacity in bytes per ns, `b` in the paper.
    pub bandwidth: f64,
    /// The round-trip time with an empty queue in ns, `tau` in the paper.
    pub base_rtt_ns: f64,
    /// The weight of a new window, `gamma` in the paper.
    pub gain: f64,
    /// The time between window updates in ns, `delta t` in the paper.
    pub update_interval_ns: f64,
    /// Each flow's additive increase in bytes, `beta_i` in the paper.
    pub increases_bytes: Vec<f64>,
}

/// The state of a system: one window per flow, and the queue.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Each flow's window, in bytes.
    pub windows_bytes: Vec<f64>,
    /// The queue length at the bottleneck, in bytes.
    pub queue_bytes: f64,
}

impl State {
    /// Creates the state for one flow or for an aggregate of flows.
    pub fn single_flow(window_bytes: f64, queue_bytes: f64) -> Self {
        Self { windows_bytes: vec![window_bytes], queue_bytes }
    }

    /// Returns the sum of all windows, in bytes.
    pub fn window_bytes(&self) -> f64 {
        self.windows_bytes.iter().sum()
    }

    /// Returns `self + slope * step`, with a queue of at least zero.
    fn advance(&self, slope: &Self, step: f64) -> Self {
        let windows = self.windows_bytes.iter().zip(&slope.windows_bytes);
        Self {
            windows_bytes: windows.map(|(w, dw)| w + dw * step).collect(),
            queue_bytes: (self.queue_bytes + slope.queue_bytes * step).max(0.0),
        }
    }
}

impl System {
    /// Returns the system used in fig. 2 and 3: 100 Gbps and 20 us. The paper does not state the other values. Here the
    /// gain is 0.9 (section 3.3), the update interval is a tenth of an RTT, and the additive increase is 1 % of the
    /// BDP.
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

    /// Returns the bandwidth-delay product `b tau`, in bytes.
    pub fn bdp_bytes(&self) -> f64 {
        self.bandwidth * self.base_rtt_ns
    }

    /// Returns the sum of the additive increases, in bytes.
    pub fn increase_bytes(&self) -> f64 {
        self.increases_bytes.iter().sum()
    }

    /// Returns the equilibrium of voltage and power laws according to theorems 1 and 3: `(w_i)_e = (B + b tau) / B *
    /// beta_i` and `q_e = B`.
    pub fn equilibrium(&self) -> State {
        let total = self.increase_bytes();
        let scale = (total + self.bdp_bytes()) / total;
        State {
            windows_bytes: self.increases_bytes.iter().map(|beta| beta * scale).collect(),
            queue_bytes: total,
        }
    }

    /// Returns the time constant `dt / gain` of the aggregate window under PowerTCP, in ns (theorem 2).
    pub fn time_constant_ns(&self) -> f64 {
        self.update_interval_ns / self.gain
    }

    /// Returns the time constant of one flow's share under PowerTCP, in ns. Once the aggregate is in equilibrium, each
    /// flow follows `w_i' = (gain / dt) (beta_i - w_i B / (b tau + B))`. This result is not in the paper.
    pub fn fairness_time_constant_ns(&self) -> f64 {
        let total = self.increase_bytes();
        self.time_constant_ns() * (self.bdp_bytes() + total) / total
    }

    /// Returns the factor `e / f` by which the law multiplies the window (fig. 2). The arguments are the queue in
    /// bytes, its slope, and the bottleneck's transmit rate (`mu` in the paper) in bytes per ns.
    pub fn reaction(&self, queue_bytes: f64, queue_slope: f64, sent_rate: f64) -> f64 {
        let (b, tau) = (self.bandwidth, self.base_rtt_ns);
        match self.law {
            Law::QueueLength => b * tau / (queue_bytes + b * tau),
            Law::Delay => tau / (queue_bytes / b + tau),
            Law::RttGradient => 1.0 / (queue_slope / b + 1.0),
            Law::Power => b * b * tau / ((queue_bytes + b * tau) * (queue_slope + sent_rate)),
        }
    }

    /// Returns the derivative of the state in bytes per ns (Eq. 3 and 4).
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

    /// Performs one step of the classical Runge-Kutta method.
    fn step(&self, state: &State, step_ns: f64) -> State {
        let k1 = self.slope(state);
        let k2 = self.slope(&state.advance(&k1, step_ns / 2.0));
        let k3 = self.slope(&state.advance(&k2, step_ns / 2.0));
        let k4 = self.slope(&state.advance(&k3, step_ns));
        [(k1, 6.0), (k2, 3.0), (k3, 3.0), (k4, 6.0)]
            .iter()
            .fold(state.clone(), |sum, (k, divisor)| sum.advance(k, step_ns / divisor))
    }

    /// Returns the state after `duration_ns`, rounded up to whole steps of 1/200 of the base RTT.
    pub fn state_after(&self, start: &State, duration_ns: f64) -> State {
        let step_ns = self.base_rtt_ns / STEPS_PER_RTT;
        let mut state = start.clone();
        let mut remaining_ns = duration_ns;
        // A remainder below a millionth of a step is a rounding error.
        while remaining_ns > step_ns * 1e-6 {
            state = self.step(&state, step_ns);
            remaining_ns -= step_ns;
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the relative error.
    fn relative_error(value: f64, expected: f64) -> f64 {
        (value / expected - 1.0).abs()
    }

    #[test]
    fn fig2a_only_current_and_power_depend_on_the_slope() {
        for law in Law::ALL {
            let system = System::paper(law);
            let (b, queue) = (system.bandwidth, 0.5 * system.bdp_bytes());
            let reaction = |slope: f64| system.reaction(queue, slope * b, b);
            let expected = match law {
                Law::QueueLength | Law::Delay => [2.0 / 3.0; 3],
                Law::RttGradient => [2.0, 1.0, 0.2],
                Law::Power => [4.0 / 3.0, 2.0 / 3.0, 2.0 / 15.0],
            };
            for (slope, expected) in [-0.5, 0.0, 4.0].into_iter().zip(expected) {
                assert!(relative_error(reaction(slope), expected) < 1e-12, "{law:?} at slope {slope}");
            }
        }
    }

    #[test]
    fn fig2b_only_voltage_and_power_depend_on_the_queue() {
        for law in Law::ALL {
            let system = System::paper(law);
            let b = system.bandwidth;
            let reaction = |queue: f64| system.reaction(queue * system.bdp_bytes(), b, b);
            let expected = match law {
                Law::QueueLength | Law::Delay => [1.0, 0.5, 0.25],
                Law::RttGradient => [0.5; 3],
                Law::Power => [0.5, 0.25, 0.125],
            };
            for (queue, expected) in [0.0, 1.0, 3.0].into_iter().zip(expected) {
                assert!(relative_error(reaction(queue), expected) < 1e-12, "{law:?} at queue {queue}");
            }
        }
    }

    #[test]
    fn property_1_power_is_bandwidth_times_window() {
        // The factor e / f is therefore b tau / w in every state, and Eq. 14 becomes Eq. 15.
        let system = System::paper(Law::Power);
        let bdp = system.bdp_bytes();
        for (window, queue) in [(0.2, 0.0), (0.2, 0.7), (1.0, 0.0), (3.0, 0.0), (3.0, 2.0)] {
            let slope = system.slope(&State::single_flow(window * bdp, queue * bdp));
            let expected = (bdp + system.increase_bytes() - window * bdp) / system.time_constant_ns();
            assert!((slope.windows_bytes[0] - expected).abs() < 1e-9, "{window} {queue}");
        }
    }

    #[test]
    fn thm2_power_removes_99_3_percent_of_the_error_in_five_time_constants() {
        let system = System::paper(Law::Power);
        let equilibrium = system.equilibrium().window_bytes();
        for (window, queue) in [(2.0, 0.0), (2.0, 1.0), (0.3, 0.0), (0.3, 0.5), (10.0, 3.0)] {
            let start = State::single_flow(window * equilibrium, queue * equilibrium);
            let error =
                |state: &State| (state.window_bytes() - equilibrium) / (start.window_bytes() - equilibrium);
            // 5 dt / gain = 11,111 ns; the next whole step ends at 11,200 ns.
            assert!((system.time_constant_ns() - 2222.2).abs() < 0.1);
            let remaining = error(&system.state_after(&start, 5.0 * system.time_constant_ns()));
            assert!((0.0064..=0.0070).contains(&remaining), "{remaining}");
            let span_ns = 4_000.0;
            let measured_ns = span_ns / -error(&system.state_after(&start, span_ns)).ln();
            assert!(relative_error(measured_ns, system.time_constant_ns()) < 1e-6, "{measured_ns}");
        }
    }

    #[test]
    fn thm3_windows_are_proportional_to_the_weights() {
        let mut system = System::paper(Law::Power);
        system.increases_bytes = vec![250.0, 500.0, 750.0, 1000.0];
        let start =
            State { windows_bytes: vec![400_000.0, 10_000.0, 90_000.0, 1_000.0], queue_bytes: 100_000.0 };
        let end = system.state_after(&start, 15.0 * system.fairness_time_constant_ns());
        for (window, beta) in end.windows_bytes.iter().zip(&system.increases_bytes) {
            let expected = (2_500.0 + 250_000.0) / 2_500.0 * beta;
            assert!(relative_error(*window, expected) < 1e-4, "{window} {expected}");
        }
        // The aggregate converges within 11 us. The shares have a time constant of 224 us at 1 % additive increase.
        assert!(relative_error(system.fairness_time_constant_ns(), 224_444.4) < 1e-6);
        let from = system.state_after(&start, 50_000.0);
        let to = system.state_after(&from, 200_000.0);
        let equilibrium = system.equilibrium().windows_bytes[0];
        let decay = (to.windows_bytes[0] - equilibrium) / (from.windows_bytes[0] - equilibrium);
        assert!(relative_error(200_000.0 / -decay.ln(), system.fairness_time_constant_ns()) < 1e-3);
    }
}
