//! PowerTCP's phase plots: where each control law goes from many starts.
//!
//! Model   trajectories (w, q) of [`System`] from a grid of starts around the bandwidth-delay product
//! Claims  3a voltage ends at one point but idles the link on the way, 3b the gradient ends where it
//!         happens to, 3c power ends at one point and never idles the link
//! Source  Addanki et al., NSDI 2022, fig. 3 (100 Gbps, 20 us; grid and horizon are not stated)
//! Differs 3b holds literally without additive increase only. With it no point rests: all queues creep
//!         upwards together, and what differs is where they are at a given time

use crate::powertcp_fluid::{STEPS_PER_RTT, State, System};

/// One point of a trajectory, ready for a table or a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Since the start, in ns.
    pub time_ns: f64,
    /// Sum of all windows, in bytes.
    pub window_bytes: f64,
    /// Queue at the bottleneck, in bytes.
    pub queue_bytes: f64,
}

/// The way from `start`: `rows` points `every_ns` apart (rounded up to whole steps), the start first.
pub fn trajectory(system: &System, start: &State, every_ns: f64, rows: usize) -> Vec<Row> {
    let step_ns = system.base_rtt_ns / STEPS_PER_RTT;
    let every_ns = (every_ns / step_ns - 1e-6).ceil() * step_ns;
    let states = core::iter::successors(Some(start.clone()), |state| Some(system.after(state, every_ns)));
    let rows = states.take(rows).enumerate();
    rows.map(|(row, state)| Row {
        time_ns: row as f64 * every_ns,
        window_bytes: state.window_bytes(),
        queue_bytes: state.queue_bytes,
    })
    .collect()
}

/// Fig. 3: trajectories over 50 base RTTs, 20 rows per RTT, from a grid of starts around the BDP.
pub fn phase_plot(system: &System) -> Vec<Vec<Row>> {
    let bdp = system.bdp_bytes();
    let windows = [0.25, 0.5, 1.0, 1.5, 2.0, 3.0];
    let queues = [0.0, 0.1, 0.5, 1.0, 1.5];
    let starts = windows.iter().flat_map(|w| queues.iter().map(move |q| (w, q)));
    starts
        .map(|(w, q)| trajectory(system, &State::one(w * bdp, q * bdp), system.base_rtt_ns / 20.0, 1001))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::powertcp_fluid::Law;

    /// Relative distance.
    fn off(value: f64, expected: f64) -> f64 {
        (value / expected - 1.0).abs()
    }

    /// The phase plot of a law with the sum of additive increases at this part of the BDP.
    fn plot(law: Law, increase: f64) -> (System, Vec<Vec<Row>>) {
        let mut system = System::paper(law);
        system.increases_bytes = vec![increase * system.bdp_bytes()];
        let plot = phase_plot(&system);
        (system, plot)
    }

    /// Starts at or above the BDP whose trajectory then has an idle link; all such starts.
    fn losing_starts(system: &System, plot: &[Vec<Row>]) -> (usize, usize) {
        let bdp = system.bdp_bytes();
        let above = plot.iter().filter(|rows| rows[0].window_bytes >= bdp);
        let loses =
            |rows: &&Vec<Row>| rows.iter().any(|row| row.queue_bytes == 0.0 && row.window_bytes < bdp);
        (above.clone().filter(loses).count(), above.count())
    }

    #[test]
    fn thm1_voltage_and_power_reach_one_equilibrium_from_every_start() {
        for law in [Law::QueueLength, Law::Delay, Law::Power] {
            let (system, plot) = plot(law, 0.01);
            let rest = system.equilibrium();
            assert!(off(rest.window_bytes(), 1.01 * system.bdp_bytes()) < 1e-12);
            for rows in &plot {
                let end = rows[rows.len() - 1];
                assert!(off(end.window_bytes, rest.window_bytes()) < 1e-6, "{law:?} {:?} {end:?}", rows[0]);
                assert!(off(end.queue_bytes, rest.queue_bytes) < 1e-4, "{law:?} {:?} {end:?}", rows[0]);
            }
        }
    }

    #[test]
    fn fig3a_voltage_loses_throughput_from_almost_every_start() {
        for law in [Law::QueueLength, Law::Delay] {
            let (system, plot) = plot(law, 0.01);
            // The exception begins at the BDP with an empty queue, next to the equilibrium.
            assert_eq!(losing_starts(&system, &plot), (19, 20), "{law:?}");
        }
    }

    #[test]
    fn fig3b_gradient_rests_anywhere_on_a_line_without_additive_increase() {
        let (system, plot) = plot(Law::RttGradient, 0.0);
        let bdp = system.bdp_bytes();
        let ends: Vec<Row> =
            plot.iter().filter(|rows| rows[0].queue_bytes > 0.0).map(|rows| rows[rows.len() - 1]).collect();
        for end in &ends {
            assert!(off(end.window_bytes, end.queue_bytes + bdp) < 1e-9, "{end:?}");
        }
        let queues = ends.iter().map(|end| end.queue_bytes / bdp);
        let (low, high) = (queues.clone().fold(f64::INFINITY, f64::min), queues.fold(0.0, f64::max));
        // Measured 0.0193 and 1.5212 of a BDP: the queue ends about where it began.
        assert!(low < 0.02 && high > 1.5, "{low} {high}");
    }

    #[test]
    fn gradient_never_rests_with_additive_increase() {
        let (system, plot) = plot(Law::RttGradient, 0.01);
        let bdp = system.bdp_bytes();
        for rows in &plot {
            let [.., before, last] = rows.as_slice() else { panic!("a trajectory has rows") };
            // Far from the start, q' = b u / (q + b tau) with u between 0.9 and 1 of the additive increase.
            let slope = (last.queue_bytes - before.queue_bytes) / (last.time_ns - before.time_ns);
            let predicted = system.bandwidth * system.increase_bytes() / (last.queue_bytes + bdp);
            assert!((0.9..1.0).contains(&(slope / predicted)), "{:?} {}", rows[0], slope / predicted);
        }
        let ends = plot.iter().map(|rows| rows[rows.len() - 1].queue_bytes / bdp);
        let spread = ends.clone().fold(0.0, f64::max) - ends.fold(f64::INFINITY, f64::min);
        assert!(spread > 1.0, "{spread}");
    }

    #[test]
    fn fig3c_power_never_loses_throughput_from_above() {
        let (system, plot) = plot(Law::Power, 0.01);
        assert_eq!(losing_starts(&system, &plot), (0, 20));
        let falls_below = |rows: &&Vec<Row>| {
            rows[0].window_bytes >= system.bdp_bytes()
                && rows.iter().any(|row| row.window_bytes < system.bdp_bytes())
        };
        assert_eq!(plot.iter().filter(falls_below).count(), 0);
    }
}
