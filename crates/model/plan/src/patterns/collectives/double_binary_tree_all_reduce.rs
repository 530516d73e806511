//! All-reduce over NCCL's double binary tree.

use super::{Algorithm, Channel, Operation, TransferKind, Transfers};

/// Each half of the data is summed up along a binary tree to its root, and the sum travels back down. A rank that is an
/// inner node in one tree is a leaf in the other, so both directions of all links are used.
///
/// The trees are those of NCCL (`src/graph/trees.cc`). Chunks of the data are pipelined. As in NCCL, a sender is at most
/// [`BUFFER_SLOTS`] chunks ahead of its receiver. Without this limit, the leaves send all their data at once, and the
/// data that comes down the trees waits behind it. This costs 4 to 6 % of the time.
pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "double-binary-tree-all-reduce",
    operation: Operation::AllReduce,
    description: "two binary trees as in NCCL, each for half of the data; set a chunk size to pipeline them",
    check: |collective| collective.check_channel_parts(2),
    count_messages: |collective| collective.count_transfers(2, 2 * (collective.ranks.len() - 1)),
    add_transfers: |channel, transfers| {
        let n = channel.ranks();
        transfers.limit_chunks_ahead(BUFFER_SLOTS);
        let first: Vec<_> = (0..n).map(|rank| parent_in_first_tree(rank, n)).collect();
        let second: Vec<_> = (0..n).map(|rank| parent_in_second_tree(rank, n)).collect();
        add_tree(channel, transfers, 0, &first);
        add_tree(channel, transfers, 1, &second);
    },
};

/// The number of chunks in the buffer of a connection, which is `NCCL_STEPS` in NCCL.
const BUFFER_SLOTS: usize = 8;

/// Adds the transfers of one tree, which is given by the parent of each rank. The two trees may contain the same edges,
/// so each tree has its own connections.
fn add_tree(channel: &Channel<'_>, transfers: &mut Transfers, tree: u8, parents: &[Option<usize>]) {
    let half = channel.data.part(2, tree.into());
    transfers.use_lane(tree.into());
    let order = parents_before_children(parents);
    let edges = || order.iter().filter_map(|rank| Some((*rank, parents[*rank]?)));
    for (rank, parent) in edges().rev() {
        transfers.send(rank, parent, half, TransferKind::Reduce);
        transfers.end_step();
    }
    for (rank, parent) in edges() {
        transfers.send(parent, rank, half, TransferKind::Copy);
        transfers.end_step();
    }
}

/// Returns the parent of a rank in the first tree, whose root is rank 0.
const fn parent_in_first_tree(rank: usize, ranks: usize) -> Option<usize> {
    if rank == 0 {
        return None;
    }
    let lowest_bit = 1 << rank.trailing_zeros();
    let parent = (rank ^ lowest_bit) | (lowest_bit << 1);
    Some(if parent < ranks { parent } else { rank ^ lowest_bit })
}

/// Returns the parent of a rank in the second tree. This tree is the first tree mirrored if the number of ranks is even,
/// or shifted by one rank if it is odd.
fn parent_in_second_tree(rank: usize, ranks: usize) -> Option<usize> {
    if ranks.is_multiple_of(2) {
        parent_in_first_tree(ranks - 1 - rank, ranks).map(|parent| ranks - 1 - parent)
    } else {
        parent_in_first_tree((rank + ranks - 1) % ranks, ranks).map(|parent| (parent + 1) % ranks)
    }
}

/// Returns the ranks in level order, beginning with the root.
fn parents_before_children(parents: &[Option<usize>]) -> Vec<usize> {
    let mut children = vec![Vec::new(); parents.len()];
    let mut order = Vec::with_capacity(parents.len());
    for (rank, parent) in parents.iter().enumerate() {
        match parent {
            Some(parent) => children[*parent].push(rank),
            None => order.push(rank),
        }
    }
    let mut next = 0;
    while next < order.len() {
        order.extend(&children[order[next]]);
        next += 1;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the children of each inner node, as `(node, children)`.
    fn inner_nodes(parents: &[Option<usize>]) -> Vec<(usize, Vec<usize>)> {
        let children =
            |node| (0..parents.len()).filter(|rank| parents[*rank] == Some(node)).collect::<Vec<_>>();
        (0..parents.len()).map(|node| (node, children(node))).filter(|(_, list)| !list.is_empty()).collect()
    }

    fn first_tree(n: usize) -> Vec<Option<usize>> {
        (0..n).map(|rank| parent_in_first_tree(rank, n)).collect()
    }

    fn second_tree(n: usize) -> Vec<Option<usize>> {
        (0..n).map(|rank| parent_in_second_tree(rank, n)).collect()
    }

    #[test]
    fn trees_are_those_in_the_comments_of_nccl() {
        #[rustfmt::skip]
        assert_eq!(inner_nodes(&first_tree(14)), [
            (0, vec![8]), (2, vec![1, 3]), (4, vec![2, 6]), (6, vec![5, 7]), (8, vec![4, 12]),
            (10, vec![9, 11]), (12, vec![10, 13]),
        ]);
        // An even number of ranks: the second tree is mirrored.
        #[rustfmt::skip]
        assert_eq!(inner_nodes(&second_tree(12)), [
            (1, vec![0, 2]), (3, vec![1, 7]), (5, vec![4, 6]), (7, vec![5, 9]), (9, vec![8, 10]), (11, vec![3]),
        ]);
        // An odd number of ranks: the second tree is shifted.
        #[rustfmt::skip]
        assert_eq!(inner_nodes(&second_tree(13)), [
            (0, vec![11]), (1, vec![9]), (3, vec![2, 4]), (5, vec![3, 7]), (7, vec![6, 8]), (9, vec![0, 5]),
            (11, vec![10, 12]),
        ]);
    }

    #[test]
    fn children_follow_the_formula_of_nccl() {
        for n in 2..200 {
            let parents = first_tree(n);
            for rank in 1..n {
                let mut low = (1 << rank.trailing_zeros()) / 2;
                let mut expected = Vec::new();
                if low > 0 {
                    expected.push(rank - low);
                    while low > 0 && rank + low >= n {
                        low /= 2;
                    }
                    expected.extend((low > 0).then_some(rank + low));
                }
                let children: Vec<_> = (0..n).filter(|child| parents[*child] == Some(rank)).collect();
                assert_eq!(children, expected, "rank {rank} of {n}");
            }
        }
    }

    #[test]
    fn inner_nodes_of_one_tree_are_leaves_of_the_other() {
        for n in 2..200 {
            let is_inner = |parents: &[Option<usize>]| {
                let mut is_inner = vec![false; n];
                inner_nodes(parents).iter().for_each(|(node, _)| is_inner[*node] = true);
                is_inner
            };
            let both = is_inner(&first_tree(n)).into_iter().zip(is_inner(&second_tree(n)));
            let in_both: Vec<_> =
                (0..n).zip(both).filter(|(_, (a, b))| *a && *b).map(|(rank, _)| rank).collect();
            // Rank 0 is the root of the first tree. With an odd number of ranks, it is also an inner node of the second.
            assert!(in_both.is_empty() || (n % 2 == 1 && in_both == [0]), "{n}: {in_both:?}");
            let roots = |tree: &[Option<usize>]| tree.iter().position(Option::is_none);
            assert_eq!(roots(&first_tree(n)), Some(0));
            assert_eq!(roots(&second_tree(n)), Some(if n % 2 == 1 { 1 } else { n - 1 }));
        }
    }
}
