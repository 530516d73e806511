//! All-reduce by recursive doubling.

use super::{Algorithm, Operation, PatternError, TransferKind};

/// Pairs of ranks exchange all their data at doubling distances. This needs the fewest steps, but the most bytes.
pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "recursive-doubling-all-reduce",
    operation: Operation::AllReduce,
    description: "pairs of ranks exchange all data at distances 1, 2, 4, ...",
    check: |collective| {
        let ranks = collective.ranks.len();
        if !ranks.is_power_of_two() {
            return Err(PatternError::NotPowerOfTwo { ranks });
        }
        collective.check_channel_parts(1)
    },
    count_messages: |collective| {
        let n = collective.ranks.len();
        collective.count_transfers(1, n * n.trailing_zeros() as usize)
    },
    add_transfers: |channel, transfers| {
        let n = channel.ranks();
        for step in 0..n.trailing_zeros() {
            for rank in 0..n {
                transfers.send(rank, rank ^ (1 << step), channel.data, TransferKind::Reduce);
            }
            transfers.end_step();
        }
    },
};
