//! Direct all-reduce.

use super::direct_all_gather::all_gather;
use super::direct_reduce_scatter::reduce_scatter;
use super::{Algorithm, Operation};

/// A direct reduce-scatter followed by a direct all-gather. A rank sends its block of the sum when it has received this
/// block from all other ranks.
pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "direct-all-reduce",
    operation: Operation::AllReduce,
    description: "direct reduce-scatter, then direct all-gather",
    check: |collective| collective.check_channel_parts(collective.ranks.len()),
    count_messages: |collective| {
        collective.count_transfers(collective.ranks.len(), 2 * (collective.ranks.len() - 1))
    },
    add_transfers: |channel, transfers| {
        reduce_scatter(channel, transfers);
        all_gather(channel, transfers);
    },
};
