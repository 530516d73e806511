//! Collective operations.

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// All ranks receive the sum of all ranks' data.
    AllReduce,
    /// All ranks receive the data of all ranks.
    AllGather,
    /// Each rank receives its part of the sum of all ranks' data.
    ReduceScatter,
    /// Each rank receives a part of the data of every rank. All parts have the same size.
    AllToAll,
    /// Each rank receives a part of the data of every rank. A matrix gives the sizes.
    AllToAllV,
    /// All ranks receive the data of the first rank.
    Broadcast,
    /// Each rank receives data from a neighbour.
    SendRecv,
}

impl Operation {
    /// Returns the operation's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all-reduce",
            Self::AllGather => "all-gather",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllToAll => "all-to-all",
            Self::AllToAllV => "all-to-allv",
            Self::Broadcast => "broadcast",
            Self::SendRecv => "send-recv",
        }
    }

    /// Returns what a collective's size means for this operation.
    pub const fn size_meaning(self) -> &'static str {
        match self {
            Self::AllReduce => "the data of each rank",
            Self::AllGather => "the data of all ranks together; each rank contributes an equal part",
            Self::ReduceScatter => "the data of each rank; each rank receives an equal part of the sum",
            Self::AllToAll => {
                "the data of each rank; each rank receives an equal part, and one part stays at its rank"
            }
            Self::AllToAllV => "not used; the matrix gives the sizes",
            Self::Broadcast => "the data of the first rank",
            Self::SendRecv => "the data that the first rank sends in one repetition",
        }
    }

    /// Returns the ratio of bus bandwidth to algorithm bandwidth, as defined by nccl-tests.
    ///
    /// The bus bandwidth of an optimal algorithm is the rate of its slowest link, for any number of ranks.
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let ranks = f64::from(ranks);
        match self {
            Self::AllReduce => 2.0 * (ranks - 1.0) / ranks,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll | Self::AllToAllV => (ranks - 1.0) / ranks,
            Self::Broadcast | Self::SendRecv => 1.0,
        }
    }
}
