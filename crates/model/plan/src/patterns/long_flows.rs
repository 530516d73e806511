//! Flows that run from one time to another.

use super::arrivals::spread;
use super::error::{check_ends, check_span};
use super::pairs::Twins;
use super::{Class, Pattern, PatternError, Traffic};
use crate::traffic::Amount;
use poseidon_types::Picos;

/// Flows that have always something to send, from one time to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongFlows {
    /// From whom to whom.
    pub ends: Vec<(u32, u32)>,
    /// When they begin.
    pub start: Picos,
    /// Each begins at a time of its own, drawn from `start` to so much later: flows that begin together stay in step.
    pub spread: Picos,
    /// When they stop; [`Picos::MAX`] for with the run.
    pub stop: Picos,
}

impl Pattern for LongFlows {
    fn expected_messages(&self) -> f64 {
        self.ends.len() as f64
    }

    fn traffic(&self, class: &Class) -> Result<Traffic, PatternError> {
        check_span(self.start + self.spread, self.stop)?;
        let mut traffic = Traffic::default();
        let mut twins = Twins::default();
        for &(from, to) in &self.ends {
            check_ends(from, to)?;
            let twin = twins.next(from, to);
            let connection = traffic.connect(class.connection(from, to, twin));
            let at = self.start + spread(class.chance_of(from, to, twin), self.spread);
            traffic.send(connection, at, Amount::Until(self.stop));
        }
        Ok(traffic.grouped(&class.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::Message;

    #[test]
    fn each_flow_is_one_message_until_the_stop() {
        let (start, stop) = (Picos::new(5), Picos::new(50));
        let flows = LongFlows { ends: vec![(0, 2), (1, 2)], start, spread: Picos::ZERO, stop };
        let traffic = flows.traffic(&Class::new(1, "long")).expect("a pattern");
        let message = |connection| Message { connection, at: start, amount: Amount::Until(stop) };
        assert_eq!(traffic.messages, [message(0), message(1)]);
        let ends: Vec<_> = traffic.connections.iter().map(|c| (c.from, c.to)).collect();
        assert_eq!(ends, flows.ends);
    }

    #[test]
    fn starts_are_spread_evenly() {
        // RPM-like: within 1 s. Mean 0.5 s, standard error 0.29 / √1000.
        let flows = LongFlows {
            ends: vec![(0, 1); 1_000],
            start: Picos::new(1_000),
            spread: "1 s".parse().expect("a time"),
            stop: Picos::MAX,
        };
        let traffic = flows.traffic(&Class::new(1, "long")).expect("a pattern");
        let later = traffic.messages.iter().map(|m| (m.at - flows.start).get() as f64 / 1e12);
        assert!(later.clone().all(|s| s < 1.0));
        assert!((later.sum::<f64>() / 1e3 - 0.5).abs() < 5.0 * 0.01);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |ends, stop| {
            let flows =
                LongFlows { ends, start: Picos::new(9), spread: Picos::new(1), stop: Picos::new(stop) };
            flows.traffic(&Class::new(1, "long")).expect_err("refused").to_string()
        };
        assert_eq!(refused(vec![(3, 3)], 99), "host 3 would send to itself: take it out of one list");
        assert_eq!(
            refused(vec![(0, 1)], 10),
            "it begins at 10 ps and ends at 10 ps: put the end behind the beginning"
        );
    }
}
