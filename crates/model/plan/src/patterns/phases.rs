//! Long flows that join and leave over time.

use super::error::{check_ends, check_interval};
use super::pairs::PairCounters;
use super::{Pattern, PatternError, Traffic, TrafficClass};
use crate::traffic::Amount;
use poseidon_types::{HostId, Picos};
use std::collections::BTreeMap;

/// Long flows that join and leave over time. Each phase lists the active flows.
///
/// A flow that is listed in consecutive phases keeps running. A flow that returns after a gap counts as a new flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phases {
    /// The phases, sorted by time.
    pub phases: Vec<Phase>,
    /// The end time of the last phase.
    pub end: Picos,
}

/// The flows that are active from this phase's start until the next phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// The start time of the phase.
    pub start: Picos,
    /// The sender and receiver of each flow. If a pair is listed twice, it has two flows, and the second flow leaves
    /// first.
    pub flows: Vec<(HostId, HostId)>,
}

impl Phases {
    /// Creates phases in which `flows_per_step` flows join in each step. All flows run until one step after the last
    /// flow joins (Poseidon fig. 18).
    pub fn joining(flows: &[(HostId, HostId)], flows_per_step: usize, start: Picos, step: Picos) -> Self {
        let flows_per_step = flows_per_step.max(1);
        let steps = flows.len().div_ceil(flows_per_step);
        let phase = |k: usize| Phase {
            start: start + step * k as u64,
            flows: flows.iter().take((k + 1).saturating_mul(flows_per_step)).copied().collect(),
        };
        Self { phases: (0..steps).map(phase).collect(), end: start + step * steps as u64 }
    }

    /// Creates phases in which `flows_per_step` flows join in each step and later leave in the same order.
    ///
    /// All flows run for the same duration (Poseidon fig. 16, PowerTCP fig. 5).
    pub fn joining_and_leaving(
        flows: &[(HostId, HostId)],
        flows_per_step: usize,
        start: Picos,
        step: Picos,
    ) -> Self {
        let Self { mut phases, end } = Self::joining(flows, flows_per_step, start, step);
        let steps = phases.len();
        phases.extend((1..steps).map(|k| Phase {
            start: end + step * (k - 1) as u64,
            flows: flows.iter().skip(k * flows_per_step.max(1)).copied().collect(),
        }));
        Self { phases, end: end + step * steps.saturating_sub(1) as u64 }
    }
}

impl Pattern for Phases {
    fn expected_messages(&self) -> f64 {
        self.phases.iter().map(|phase| phase.flows.len() as f64).sum()
    }

    fn generate(&self, class: &TrafficClass) -> Result<Traffic, PatternError> {
        let mut traffic = Traffic::default();
        // The message of each active flow. The key is the host pair and the flow's index among that pair's flows in the
        // phase.
        let mut running = BTreeMap::new();
        let mut counters = PairCounters::default();
        let ends = self.phases.iter().skip(1).map(|phase| phase.start).chain([self.end]);
        for (phase, end) in self.phases.iter().zip(ends) {
            check_interval(phase.start, end)?;
            let mut ranks = PairCounters::default();
            let mut next = BTreeMap::new();
            for &(from, to) in &phase.flows {
                check_ends(from, to)?;
                let flow = (from, to, ranks.next(from, to));
                let message = running.remove(&flow).unwrap_or_else(|| {
                    let number = counters.next(from, to);
                    let connection = traffic.add_connection(class.connection(from, to, number));
                    traffic.add_message(connection, phase.start, Amount::Until(end))
                });
                traffic.messages[message.index()].amount = Amount::Until(end);
                next.insert(flow, message);
            }
            running = next;
        }
        Ok(traffic.grouped(&class.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::test_hosts::ends;

    const MS: u64 = 1_000_000_000;

    /// Returns each flow's sender, and its start and stop times in milliseconds.
    fn flows(phases: &Phases) -> Vec<(u32, u64, u64)> {
        let traffic = phases.generate(&TrafficClass::new(1, "phases")).expect("the pattern is valid");
        let until = |amount| if let Amount::Until(until) = amount { until.get() / MS } else { 0 };
        let row = |m: &crate::traffic::Message| {
            (traffic.connections[m.connection.index()].from.get(), m.start.get() / MS, until(m.amount))
        };
        traffic.messages.iter().map(row).collect()
    }

    #[test]
    fn flows_join_and_leave_one_by_one() {
        // Poseidon fig. 16: four flows with a step of 5 ms.
        let pairs = ends(&[(0, 9), (1, 9), (2, 9), (3, 9)]);
        let phases = Phases::joining_and_leaving(&pairs, 1, Picos::ZERO, Picos::new(5 * MS));
        assert_eq!(flows(&phases), [(0, 0, 20), (1, 5, 25), (2, 10, 30), (3, 15, 35)]);
        assert_eq!(phases.end, Picos::new(35 * MS));
    }

    #[test]
    fn several_flows_join_per_step() {
        // Like Poseidon fig. 18b, but with 2 flows per step instead of 50. The remaining flow joins in the last step.
        let pairs = ends(&[(0, 9), (1, 9), (2, 9)]);
        let phases = Phases::joining(&pairs, 2, Picos::new(MS), Picos::new(25 * MS));
        assert_eq!(flows(&phases), [(0, 1, 51), (1, 1, 51), (2, 26, 51)]);
    }

    #[test]
    fn a_returning_flow_is_new_and_a_repeated_pair_has_two_flows() {
        let phase = |start: u64, flows| Phase { start: Picos::new(start * MS), flows: ends(flows) };
        let phases = Phases {
            phases: vec![
                phase(0, &[(0, 9), (1, 9), (1, 9)]),
                phase(10, &[(1, 9)]),
                phase(20, &[(0, 9), (1, 9)]),
            ],
            end: Picos::new(30 * MS),
        };
        assert_eq!(flows(&phases), [(0, 0, 10), (1, 0, 30), (1, 0, 10), (0, 20, 30)]);
        let traffic = phases.generate(&TrafficClass::new(1, "phases")).expect("the pattern is valid");
        assert_ne!(traffic.connections[1].entropy, traffic.connections[2].entropy);
        assert_ne!(traffic.connections[0].entropy, traffic.connections[3].entropy);
    }

    #[test]
    fn phases_out_of_order_are_rejected() {
        let phase = |start| Phase { start: Picos::new(start), flows: ends(&[(0, 1)]) };
        let phases = Phases { phases: vec![phase(5), phase(3)], end: Picos::new(9) };
        let result = phases.generate(&TrafficClass::new(1, "phases"));
        assert_eq!(result, Err(PatternError::EmptyInterval { from: Picos::new(5), until: Picos::new(3) }));
    }
}
