//! PowerTCP's phase plots: the trajectories of each control law from many initial states.
//!
//! Model   trajectories (w, q) of [`System`] from a grid of initial states around the bandwidth-delay product
//! Claims  3a: voltage reaches one equilibrium, but the link idles on the way; 3b: the gradient has no unique
//!         equilibrium; 3c: power reaches one equilibrium, and the link never idles
//! Source  Addanki et al., NSDI 2022, fig. 3 (100 Gbps, 20 us; grid and horizon are not stated)
//! Differs 3b holds literally only without additive increase. With additive increase there is no equilibrium: all
//!         queues grow slowly, and their lengths differ at any given time

use crate::powertcp_fluid::{STEPS_PER_RTT, State, System};

/// One point of a trajectory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrajectoryPoint {
    /// The time since the start, in ns.
    pub time_ns: f64,
    /// The sum of all windows, in bytes.
    pub window_bytes: f64,
    /// The queue length at the bottleneck, in bytes.
    pub queue_bytes: f64,
}

/// Returns the trajectory from `start`: `points` points at intervals of `interval_ns`, rounded up to whole steps.
pub fn trajectory(system: &System, start: &State, interval_ns: f64, points: usize) -> Vec<TrajectoryPoint> {
    let step_ns = system.base_rtt_ns / STEPS_PER_RTT;
    let interval_ns = (interval_ns / step_ns - 1e-6).ceil() * step_ns;
    let states =
        core::iter::successors(Some(start.clone()), |state| Some(system.state_after(state, interval_ns)));
    let points = states.take(points).enumerate();
    points
        .map(|(index, state)| TrajectoryPoint {
            time_ns: index as f64 * interval_ns,
            window_bytes: state.window_bytes(),
            queue_bytes: state.queue_bytes,
        })
        .collect()
}

/// Returns the trajectories of fig. 3 over 50 base RTTs with 20 points per RTT.
pub fn phase_plot(system: &System) -> Vec<Vec<TrajectoryPoint>> {
    let bdp = system.bdp_bytes();
    let windows = [0.25, 0.5, 1.0, 1.5, 2.0, 3.0];
    let queues = [0.0, 0.1, 0.5, 1.0, 1.5];
    let starts = windows.iter().flat_map(|w| queues.iter().map(move |q| (w, q)));
    starts
        .map(|(w, q)| {
            trajectory(system, &State::single_flow(w * bdp, q * bdp), system.base_rtt_ns / 20.0, 1001)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::powertcp_fluid::Law;

    /// Returns the relative error.
    fn relative_error(value: f64, expected: f64) -> f64 {
        (value / expected - 1.0).abs()
    }

    /// Returns a law's phase plot for an additive increase given as a fraction of the BDP.
    fn plot(law: Law, increase: f64) -> (System, Vec<Vec<TrajectoryPoint>>) {
        let mut system = System::paper(law);
        system.increases_bytes = vec![increase * system.bdp_bytes()];
        let plot = phase_plot(&system);
        (system, plot)
    }

    /// Returns the number of trajectories that start at or above the BDP and later leave the link idle, and the number
    /// of all trajectories that start at or above the BDP.
    fn count_idle_links(system: &System, plot: &[Vec<TrajectoryPoint>]) -> (usize, usize) {
        let bdp = system.bdp_bytes();
        let above = plot.iter().filter(|points| points[0].window_bytes >= bdp);
        let idles = |points: &&Vec<TrajectoryPoint>| {
            points.iter().any(|point| point.queue_bytes == 0.0 && point.window_bytes < bdp)
        };
        (above.clone().filter(idles).count(), above.count())
    }

    #[test]
    fn thm1_voltage_and_power_reach_one_equilibrium_from_every_start() {
        for law in [Law::QueueLength, Law::Delay, Law::Power] {
            let (system, plot) = plot(law, 0.01);
            let equilibrium = system.equilibrium();
            assert!(relative_error(equilibrium.window_bytes(), 1.01 * system.bdp_bytes()) < 1e-12);
            for points in &plot {
                let end = points[points.len() - 1];
                assert!(
                    relative_error(end.window_bytes, equilibrium.window_bytes()) < 1e-6,
                    "{law:?} {:?} {end:?}",
                    points[0]
                );
                assert!(
                    relative_error(end.queue_bytes, equilibrium.queue_bytes) < 1e-4,
                    "{law:?} {:?} {end:?}",
                    points[0]
                );
            }
        }
    }

    #[test]
    fn fig3a_voltage_loses_throughput_from_almost_every_start() {
        for law in [Law::QueueLength, Law::Delay] {
            let (system, plot) = plot(law, 0.01);
            // The exception starts at the BDP with an empty queue, close to the equilibrium.
            assert_eq!(count_idle_links(&system, &plot), (19, 20), "{law:?}");
        }
    }

    #[test]
    fn fig3b_every_point_of_a_line_is_an_equilibrium_of_the_gradient_without_additive_increase() {
        let (system, plot) = plot(Law::RttGradient, 0.0);
        let bdp = system.bdp_bytes();
        let ends: Vec<TrajectoryPoint> = plot
            .iter()
            .filter(|points| points[0].queue_bytes > 0.0)
            .map(|points| points[points.len() - 1])
            .collect();
        for end in &ends {
            assert!(relative_error(end.window_bytes, end.queue_bytes + bdp) < 1e-9, "{end:?}");
        }
        let queues = ends.iter().map(|end| end.queue_bytes / bdp);
        let (low, high) = (queues.clone().fold(f64::INFINITY, f64::min), queues.fold(0.0, f64::max));
        // The measured values are 0.0193 and 1.5212 BDP: the queue ends near its initial length.
        assert!(low < 0.02 && high > 1.5, "{low} {high}");
    }

    #[test]
    fn gradient_has_no_equilibrium_with_additive_increase() {
        let (system, plot) = plot(Law::RttGradient, 0.01);
        let bdp = system.bdp_bytes();
        for points in &plot {
            let [.., before, last] = points.as_slice() else {
                panic!("a trajectory has at least two points")
            };
            // Far from the start, q' = b u / (q + b tau) with u between 0.9 and 1 of the additive increase.
            let slope = (last.queue_bytes - before.queue_bytes) / (last.time_ns - before.time_ns);
            let predicted = system.bandwidth * system.increase_bytes() / (last.queue_bytes + bdp);
            assert!((0.9..1.0).contains(&(slope / predicted)), "{:?} {}", points[0], slope / predicted);
        }
        let ends = plot.iter().map(|points| points[points.len() - 1].queue_bytes / bdp);
        let spread = ends.clone().fold(0.0, f64::max) - ends.fold(f64::INFINITY, f64::min);
        assert!(spread > 1.0, "{spread}");
    }

    #[test]
    fn fig3c_power_never_loses_throughput_from_above() {
        let (system, plot) = plot(Law::Power, 0.01);
        assert_eq!(count_idle_links(&system, &plot), (0, 20));
        let falls_below = |points: &&Vec<TrajectoryPoint>| {
            points[0].window_bytes >= system.bdp_bytes()
                && points.iter().any(|point| point.window_bytes < system.bdp_bytes())
        };
        assert_eq!(plot.iter().filter(falls_below).count(), 0);
    }
}
