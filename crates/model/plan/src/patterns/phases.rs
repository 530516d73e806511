//! Long flows that join and leave.

use super::error::{check_ends, check_span};
use super::pairs::Twins;
use super::{Class, Pattern, PatternError, Traffic};
use crate::traffic::Amount;
use poseidon_types::Picos;
use std::collections::BTreeMap;

/// Long flows that join and leave: who sends in each phase. A flow of two phases in a row runs on; one that comes back is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phases {
    /// In order of time.
    pub phases: Vec<Phase>,
    /// When the last of them ends.
    pub end: Picos,
}

/// Who sends from a time on, until the next phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// When it begins.
    pub at: Picos,
    /// From whom to whom. A pair that is named twice has two flows, of which the second leaves first.
    pub flows: Vec<(u32, u32)>,
}

impl Phases {
    /// Flows that join one step after the other, `together` at a time, and stay until one step after the last has joined (Poseidon
    /// fig. 18).
    pub fn joining(flows: &[(u32, u32)], together: usize, start: Picos, step: Picos) -> Self {
        let together = together.max(1);
        let steps = flows.len().div_ceil(together);
        let phase = |k: usize| Phase {
            at: start + step * k as u64,
            flows: flows.iter().take((k + 1).saturating_mul(together)).copied().collect(),
        };
        Self { phases: (0..steps).map(phase).collect(), end: start + step * steps as u64 }
    }

    /// The same, and then they leave, `together` at a time: first come, first gone, so that each stays for as long (Poseidon
    /// fig. 16, PowerTCP fig. 5).
    pub fn joining_and_leaving(flows: &[(u32, u32)], together: usize, start: Picos, step: Picos) -> Self {
        let Self { mut phases, end } = Self::joining(flows, together, start, step);
        let steps = phases.len();
        phases.extend((1..steps).map(|k| Phase {
            at: end + step * (k - 1) as u64,
            flows: flows.iter().skip(k * together.max(1)).copied().collect(),
        }));
        Self { phases, end: end + step * steps.saturating_sub(1) as u64 }
    }
}

impl Pattern for Phases {
    fn expected_messages(&self) -> f64 {
        self.phases.iter().map(|phase| phase.flows.len() as f64).sum()
    }

    fn traffic(&self, class: &Class) -> Result<Traffic, PatternError> {
        let mut traffic = Traffic::default();
        // The message of each flow that runs, by its ends and how many of the phase have them before it.
        let mut running = BTreeMap::new();
        let mut twins = Twins::default();
        let ends = self.phases.iter().skip(1).map(|phase| phase.at).chain([self.end]);
        for (phase, end) in self.phases.iter().zip(ends) {
            check_span(phase.at, end)?;
            let mut seen = Twins::default();
            let mut next = BTreeMap::new();
            for &(from, to) in &phase.flows {
                check_ends(from, to)?;
                let flow = (from, to, seen.next(from, to));
                let message = running.remove(&flow).unwrap_or_else(|| {
                    let twin = twins.next(from, to);
                    let connection = traffic.connect(class.connection(from, to, twin));
                    traffic.send(connection, phase.at, Amount::Until(end))
                });
                traffic.messages[message as usize].amount = Amount::Until(end);
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

    const MS: u64 = 1_000_000_000;

    /// From, start and stop of every flow, in milliseconds.
    fn flows(phases: &Phases) -> Vec<(u32, u64, u64)> {
        let traffic = phases.traffic(&Class::new(1, "phases")).expect("a pattern");
        let until = |amount| if let Amount::Until(until) = amount { until.get() / MS } else { 0 };
        let row = |m: &crate::traffic::Message| {
            (traffic.connections[m.connection as usize].from, m.at.get() / MS, until(m.amount))
        };
        traffic.messages.iter().map(row).collect()
    }

    #[test]
    fn flows_join_one_by_one_and_leave_one_by_one() {
        // Poseidon fig. 16: four flows, a step of 5 ms.
        let pairs = [(0, 9), (1, 9), (2, 9), (3, 9)];
        let phases = Phases::joining_and_leaving(&pairs, 1, Picos::ZERO, Picos::new(5 * MS));
        assert_eq!(flows(&phases), [(0, 0, 20), (1, 5, 25), (2, 10, 30), (3, 15, 35)]);
        assert_eq!(phases.end, Picos::new(35 * MS));
    }

    #[test]
    fn flows_join_many_at_a_time() {
        // As Poseidon fig. 18b, with two for fifty: the last step has what is left.
        let pairs = [(0, 9), (1, 9), (2, 9)];
        let phases = Phases::joining(&pairs, 2, Picos::new(MS), Picos::new(25 * MS));
        assert_eq!(flows(&phases), [(0, 1, 51), (1, 1, 51), (2, 26, 51)]);
    }

    #[test]
    fn a_flow_that_comes_back_is_new_and_twins_are_two() {
        let phase = |at: u64, flows: &[(u32, u32)]| Phase { at: Picos::new(at * MS), flows: flows.to_vec() };
        let phases = Phases {
            phases: vec![
                phase(0, &[(0, 9), (1, 9), (1, 9)]),
                phase(10, &[(1, 9)]),
                phase(20, &[(0, 9), (1, 9)]),
            ],
            end: Picos::new(30 * MS),
        };
        assert_eq!(flows(&phases), [(0, 0, 10), (1, 0, 30), (1, 0, 10), (0, 20, 30)]);
        let traffic = phases.traffic(&Class::new(1, "phases")).expect("a pattern");
        assert_ne!(traffic.connections[1].entropy, traffic.connections[2].entropy);
        assert_ne!(traffic.connections[0].entropy, traffic.connections[3].entropy);
    }

    #[test]
    fn phases_out_of_order_are_refused() {
        let phase = |at| Phase { at: Picos::new(at), flows: vec![(0, 1)] };
        let phases = Phases { phases: vec![phase(5), phase(3)], end: Picos::new(9) };
        let refused = phases.traffic(&Class::new(1, "phases"));
        assert_eq!(refused, Err(PatternError::Backwards { from: Picos::new(5), until: Picos::new(3) }));
    }
}
