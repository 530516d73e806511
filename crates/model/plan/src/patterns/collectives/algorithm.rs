//! The description of a collective algorithm.

use super::{ALGORITHMS, Channel, Collective, Operation, PatternError, Transfers};
use core::fmt;

/// An algorithm for a collective operation.
#[derive(Clone, Copy)]
pub struct Algorithm {
    /// The algorithm's name in scenario files.
    pub name: &'static str,
    /// The operation that the algorithm performs.
    pub operation: Operation,
    /// A description of the algorithm.
    pub description: &'static str,
    /// Returns an error if the algorithm does not support the settings.
    pub(super) check: fn(&Collective) -> Result<(), PatternError>,
    /// Returns the number of messages in one repetition. The count saturates.
    pub(super) count_messages: fn(&Collective) -> u64,
    /// Adds the transfers of one channel in one repetition.
    pub(super) add_transfers: fn(&Channel<'_>, &mut Transfers),
}

impl Algorithm {
    /// Returns the algorithm called `name`, or `None` if the name is unknown.
    pub fn from_name(name: &str) -> Option<&'static Self> {
        ALGORITHMS.iter().find(|algorithm| algorithm.name == name)
    }
}

impl PartialEq for Algorithm {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Algorithm {}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::test_hosts::hosts;
    use poseidon_types::Bytes;

    #[test]
    fn bus_bandwidth_of_a_ring_is_the_link_rate() {
        // A ring all-reduce of 8 ranks and 1 GB over links of 50 GB/s takes 2 * 7 / 8 GB / (50 GB/s) = 35 ms.
        let algorithm = Algorithm::from_name("ring-all-reduce").expect("the algorithm exists");
        let info = Collective::new(algorithm, hosts(0..8), Bytes::new(1_000_000_000)).info();
        let algorithm_bandwidth = info.size.get() as f64 / 0.035;
        assert!((algorithm_bandwidth * info.bus_factor() - 50e9).abs() < 1.0);
    }

    #[test]
    fn names_are_unique_and_contain_their_operation() {
        for (index, algorithm) in ALGORITHMS.iter().enumerate() {
            assert!(ALGORITHMS[..index].iter().all(|other| other.name != algorithm.name), "{algorithm:?}");
            assert_eq!(Algorithm::from_name(algorithm.name), Some(algorithm));
            let is_pipeline = algorithm.operation == Operation::SendRecv;
            assert!(algorithm.name.contains(algorithm.operation.name()) || is_pipeline, "{algorithm:?}");
        }
        assert_eq!(Algorithm::from_name("ring"), None);
    }
}
