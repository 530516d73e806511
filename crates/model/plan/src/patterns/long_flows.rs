//! Long flows with start and stop times.

use super::arrivals::start_offset;
use super::error::{check_ends, check_interval};
use super::pairs::PairCounters;
use super::{Pattern, PatternError, Traffic, TrafficClass};
use crate::traffic::Amount;
use poseidon_types::{HostId, Picos};

/// Flows that always have data to send between their start and stop times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongFlows {
    /// The sender and receiver of each flow.
    pub ends: Vec<(HostId, HostId)>,
    /// The earliest start time.
    pub start: Picos,
    /// Each flow starts at a random time between `start` and `start + spread`. If all flows started simultaneously,
    /// they would synchronize.
    pub spread: Picos,
    /// The time at which the flows stop. [`Picos::MAX`] means the end of the run.
    pub stop: Picos,
}

impl Pattern for LongFlows {
    fn expected_messages(&self) -> f64 {
        self.ends.len() as f64
    }

    fn generate(&self, class: &TrafficClass) -> Result<Traffic, PatternError> {
        check_interval(self.start + self.spread, self.stop)?;
        let mut traffic = Traffic::default();
        let mut counters = PairCounters::default();
        for &(from, to) in &self.ends {
            check_ends(from, to)?;
            let number = counters.next(from, to);
            let connection = traffic.add_connection(class.connection(from, to, number));
            let start = self.start + start_offset(class.connection_key(from, to, number), self.spread);
            traffic.add_message(connection, start, Amount::Until(self.stop));
        }
        Ok(traffic.grouped(&class.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::test_hosts::ends;
    use crate::traffic::Message;
    use poseidon_types::ConnectionId;

    #[test]
    fn each_flow_is_one_message_until_the_stop_time() {
        let (start, stop) = (Picos::new(5), Picos::new(50));
        let flows = LongFlows { ends: ends(&[(0, 2), (1, 2)]), start, spread: Picos::ZERO, stop };
        let traffic = flows.generate(&TrafficClass::new(1, "long")).expect("the pattern is valid");
        let message = |connection| Message {
            connection: ConnectionId::new(connection),
            start,
            amount: Amount::Until(stop),
        };
        assert_eq!(traffic.messages, [message(0), message(1)]);
        let connection_ends: Vec<_> = traffic.connections.iter().map(|c| (c.from, c.to)).collect();
        assert_eq!(connection_ends, flows.ends);
    }

    #[test]
    fn starts_are_uniformly_distributed() {
        // As in RPM, all flows start within 1 s. The mean start time is 0.5 s, with a standard error of 0.29 / √1000.
        let flows = LongFlows {
            ends: ends(&[(0, 1); 1_000]),
            start: Picos::new(1_000),
            spread: "1 s".parse().expect("the time is valid"),
            stop: Picos::MAX,
        };
        let traffic = flows.generate(&TrafficClass::new(1, "long")).expect("the pattern is valid");
        let offsets = traffic.messages.iter().map(|m| (m.start - flows.start).get() as f64 / 1e12);
        assert!(offsets.clone().all(|seconds| seconds < 1.0));
        assert!((offsets.sum::<f64>() / 1e3 - 0.5).abs() < 5.0 * 0.01);
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        let error = |pairs: &[(u32, u32)], stop| {
            let flows = LongFlows {
                ends: ends(pairs),
                start: Picos::new(9),
                spread: Picos::new(1),
                stop: Picos::new(stop),
            };
            flows.generate(&TrafficClass::new(1, "long")).expect_err("the pattern is invalid").to_string()
        };
        assert_eq!(error(&[(3, 3)], 99), "host 3 would send to itself: remove it from one list");
        assert_eq!(
            error(&[(0, 1)], 10),
            "it begins at 10 ps and ends at 10 ps: move the end after the beginning"
        );
    }
}
