//! The rate of each port over time, which failures and rate changes of links affect.

use super::wiring::Wiring;
use poseidon_plan::link_changes::LinkEvent;
use poseidon_plan::{Plan, SwitchPort};
use poseidon_types::{BitRate, Picos};

/// The rate of a port over time. It is zero while the link is down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RateSchedule {
    /// The rate at the start of the run.
    first: BitRate,
    /// Later rates and their start times, sorted by time.
    changes: Vec<(Picos, BitRate)>,
}

impl RateSchedule {
    pub(super) const fn constant(rate: BitRate) -> Self {
        Self { first: rate, changes: Vec::new() }
    }

    /// Returns the schedule of each port. A link change affects both directions.
    pub(super) fn of_ports(wiring: &Wiring, plan: &Plan) -> Vec<Self> {
        let mut schedules: Vec<Self> = wiring.ports.iter().map(|port| Self::constant(port.rate)).collect();
        // The rate that each port has when its link is up.
        let mut rates: Vec<BitRate> = wiring.ports.iter().map(|port| port.rate).collect();
        let mut is_down = vec![false; rates.len()];
        for change in &plan.link_changes {
            let Some(port) = wiring.index(SwitchPort::new(change.switch, change.port)) else { continue };
            for port in core::iter::once(port).chain(wiring.ports[port].opposite) {
                match change.event {
                    LinkEvent::Down => is_down[port] = true,
                    LinkEvent::Up => is_down[port] = false,
                    LinkEvent::Rate(rate) => rates[port] = rate,
                    LinkEvent::Delay(_) => {}
                }
                let rate = if is_down[port] { BitRate::from_bps(0) } else { rates[port] };
                schedules[port].changes.push((change.time, rate));
            }
        }
        schedules
    }

    /// Returns the bits that the port can send in an interval.
    pub(super) fn bits(&self, from: Picos, to: Picos) -> f64 {
        let mut bits = 0.0;
        let (mut start, mut rate) = (from, self.first);
        for (time, next) in &self.changes {
            let end = (*time).clamp(start, to.max(start));
            bits += rate.get() as f64 * ((end - start).get() as f64 / 1e12);
            (start, rate) = (end, *next);
        }
        bits + rate.get() as f64 * ((to.max(start) - start).get() as f64 / 1e12)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_plan::Topology;
    use poseidon_plan::link_changes::LinkChange;
    use poseidon_plan::topology::Link;
    use poseidon_types::{PortId, SwitchId};

    const GBPS: fn(u64) -> BitRate = BitRate::from_gbps;
    const US: fn(u64) -> Picos = |us| Picos::new(us * 1_000_000);

    #[test]
    fn capacity_is_the_integral_of_the_rate() {
        let schedule = RateSchedule { first: GBPS(100), changes: vec![(US(2), GBPS(0)), (US(5), GBPS(40))] };
        // In units of kilobits: 100 Gbps for a microsecond is 100 kbit.
        let kilobits = |from, to| schedule.bits(US(from), US(to)) / 1e3;
        for (from, to, expected) in [
            (0, 1, 100.0),
            (0, 2, 200.0),
            (0, 5, 200.0),
            (2, 5, 0.0),
            (1, 6, 140.0),
            (6, 8, 80.0),
            (3, 3, 0.0),
        ] {
            assert!((kilobits(from, to) - expected).abs() < 1e-9, "{from} to {to}");
        }
    }

    #[test]
    fn a_failure_affects_both_directions() {
        let link = Link { rate: GBPS(100), delay: US(1) };
        let mut plan = poseidon_testkit::plans::plan(Topology::dumbbell(1, link, link), "poseidon", &[]);
        let change =
            |us, event| LinkChange { time: US(us), switch: SwitchId::new(0), port: PortId::new(1), event };
        plan.link_changes =
            vec![change(1, LinkEvent::Down), change(2, LinkEvent::Rate(GBPS(10))), change(3, LinkEvent::Up)];
        let wiring = Wiring::new(&plan.topology).expect("the network is small");
        let schedules = RateSchedule::of_ports(&wiring, &plan);
        let changed: Vec<bool> = schedules.iter().map(|schedule| !schedule.changes.is_empty()).collect();
        // Each switch has a port to its host, and a port to the other switch.
        assert_eq!(changed, [false, true, false, true]);
        assert_eq!(schedules[1], schedules[3]);
        assert!((schedules[1].bits(US(0), US(4)) / 1e3 - 110.0).abs() < 1e-9);
    }
}
