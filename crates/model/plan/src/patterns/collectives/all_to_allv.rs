//! All-to-all with different sizes.

use super::{Algorithm, Channel, Collective, Operation, PatternError, Span, TransferKind, Transfers};
use poseidon_types::Bytes;

/// Each rank sends the bytes of its row of the matrix, all at once. Ranks without bytes for each other exchange no
/// message, and the diagonal stays at its rank.
pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "all-to-allv",
    operation: Operation::AllToAllV,
    description: "each rank sends directly to every other rank; a matrix gives the sizes",
    check,
    count_messages: |collective| {
        let channels = collective.channels as usize;
        let rows = collective.matrix.iter().flatten().enumerate();
        let entries = rows.flat_map(|(from, row)| {
            row.iter().enumerate().filter(move |(to, _)| *to != from).map(|(_, size)| Span::new(size.get()))
        });
        entries.fold(0, |sum: u64, data| sum.saturating_add(collective.count_part_chunks(data, channels)))
    },
    add_transfers: add_channel_transfers,
};

fn check(collective: &Collective) -> Result<(), PatternError> {
    let ranks = collective.ranks.len();
    let Some(matrix) = &collective.matrix else { return Err(PatternError::MissingMatrix) };
    if matrix.len() != ranks {
        return Err(PatternError::MatrixShape { ranks, row: None, actual: matrix.len() });
    }
    if let Some(row) = matrix.iter().position(|row| row.len() != ranks) {
        return Err(PatternError::MatrixShape { ranks, row: Some(row), actual: matrix[row].len() });
    }
    let sends = |(from, row): (usize, &Vec<Bytes>)| {
        row.iter().enumerate().any(|(to, size)| to != from && !size.is_zero())
    };
    if matrix.iter().enumerate().any(sends) { Ok(()) } else { Err(PatternError::EmptyMatrix) }
}

fn add_channel_transfers(channel: &Channel<'_>, transfers: &mut Transfers) {
    let n = channel.ranks();
    let Some(matrix) = &channel.collective.matrix else { return };
    for shift in 1..n {
        for (from, row) in matrix.iter().enumerate() {
            let to = (from + shift) % n;
            let data = Span::new(row[to].get());
            let part = data.part(channel.collective.channels as usize, channel.index as usize);
            if part.len() > 0 {
                transfers.send(from, to, part, TransferKind::Exchange);
            }
        }
    }
}

/// Returns the largest number of bytes that any rank sends or receives, including the diagonal.
pub(super) fn largest_transfer(matrix: &[Vec<Bytes>]) -> Bytes {
    let sent = matrix.iter().map(|row| row.iter().copied().sum()).max();
    let columns = matrix.iter().map(Vec::len).max().unwrap_or(0);
    let column = |to: usize| matrix.iter().filter_map(|row| row.get(to).copied()).sum();
    sent.max((0..columns).map(column).max()).unwrap_or(Bytes::ZERO)
}
