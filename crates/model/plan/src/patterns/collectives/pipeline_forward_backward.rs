//! The forward and backward passes of a pipeline.

use super::{Algorithm, Operation, TransferKind};

/// The forward pass of a pipeline, followed by gradients in the opposite direction. The last stage sends the gradients
/// of a micro-batch when it has received its activations. Gradients are as large as activations.
pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "pipeline-forward-backward",
    operation: Operation::SendRecv,
    description: "activations to the next stage, then gradients to the previous stage; a chunk is a micro-batch",
    check: |collective| collective.check_channel_parts(1),
    count_messages: |collective| collective.count_transfers(1, 2 * (collective.ranks.len() - 1)),
    add_transfers: |channel, transfers| {
        for stage in 1..channel.ranks() {
            transfers.send(stage - 1, stage, channel.data, TransferKind::Copy);
            transfers.end_step();
        }
        for stage in (1..channel.ranks()).rev() {
            transfers.send(stage, stage - 1, channel.data, TransferKind::Copy);
            transfers.end_step();
        }
    },
};
