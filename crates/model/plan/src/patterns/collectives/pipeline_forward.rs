//! The forward pass of a pipeline.

use super::{Algorithm, Operation, TransferKind};

/// Each rank is a pipeline stage, which sends activations to the next stage. A micro-batch is a chunk: a stage sends
/// the activations of a micro-batch when it has received those of the previous stage.
///
/// The computation of the stages takes no time. [`Collective::compute_gap`](super::Collective::compute_gap) applies
/// between repetitions.
pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "pipeline-forward",
    operation: Operation::SendRecv,
    description: "each stage sends its activations to the next stage; a chunk is a micro-batch",
    check: |collective| collective.check_channel_parts(1),
    count_messages: |collective| collective.count_transfers(1, collective.ranks.len() - 1),
    add_transfers: |channel, transfers| {
        for stage in 1..channel.ranks() {
            transfers.send(stage - 1, stage, channel.data, TransferKind::Copy);
            transfers.end_step();
        }
    },
};
