//! All-reduce by recursive halving and doubling.

use super::{Algorithm, Channel, Operation, PatternError, TransferKind, Transfers};

/// Pairs of ranks exchange halves, quarters and so on of the data at doubling distances (reduce-scatter). Then they
/// exchange the sums in the reverse order (all-gather) (Thakur, Rabenseifner and Gropp, 2005).
pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "halving-doubling-all-reduce",
    operation: Operation::AllReduce,
    description: "reduce-scatter by recursive halving, then all-gather by recursive doubling",
    check: |collective| {
        let ranks = collective.ranks.len();
        if !ranks.is_power_of_two() {
            return Err(PatternError::NotPowerOfTwo { ranks });
        }
        collective.check_channel_parts(ranks)
    },
    count_messages: |collective| collective.sum_channels(count_channel_messages),
    add_transfers: add_channel_transfers,
};

/// Counts the messages of a channel. In the step with groups of `blocks` blocks, `blocks` ranks receive each group.
fn count_channel_messages(channel: &Channel<'_>) -> u64 {
    let n = channel.ranks();
    let mut messages: u64 = 0;
    let mut blocks = n / 2;
    while blocks > 0 {
        for first in (0..n).step_by(blocks) {
            let chunks = channel.collective.count_chunks(channel.data.part_range(n, first, blocks).len());
            messages = messages.saturating_add(chunks.saturating_mul(2 * blocks as u64));
        }
        blocks /= 2;
    }
    messages
}

fn add_channel_transfers(channel: &Channel<'_>, transfers: &mut Transfers) {
    let n = channel.ranks();
    let steps = n.trailing_zeros();
    // The first block of each rank's group. A group shrinks from all `n` blocks to one block and grows again.
    let mut first_block = vec![0; n];
    for step in 0..steps {
        let (distance, blocks) = (1 << step, n >> (step + 1));
        for (rank, first_block) in first_block.iter_mut().enumerate() {
            // Both ranks of a pair have the same group. The lower rank keeps its first half.
            let keeps_first_half = rank & distance == 0;
            let (kept, sent) = if keeps_first_half { (0, blocks) } else { (blocks, 0) };
            let span = channel.data.part_range(n, *first_block + sent, blocks);
            transfers.send(rank, rank ^ distance, span, TransferKind::Reduce);
            *first_block += kept;
        }
        transfers.end_step();
    }
    for step in (0..steps).rev() {
        let (distance, blocks) = (1 << step, n >> (step + 1));
        for (rank, first_block) in first_block.iter_mut().enumerate() {
            let span = channel.data.part_range(n, *first_block, blocks);
            transfers.send(rank, rank ^ distance, span, TransferKind::Copy);
            *first_block -= *first_block % (2 * blocks);
        }
        transfers.end_step();
    }
}
