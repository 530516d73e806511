//! Hierarchical all-reduce.

use super::ring_all_gather::all_gather;
use super::ring_all_reduce::all_reduce;
use super::ring_reduce_scatter::reduce_scatter;
use super::{Algorithm, Channel, Collective, Operation, Transfers};

/// A reduce-scatter inside each server, an all-reduce across servers between the ranks with the same local number (a
/// rail), and an all-gather inside each server. All of them use rings.
pub(super) const ALGORITHM: Algorithm = Algorithm {
    name: "hierarchical-all-reduce",
    operation: Operation::AllReduce,
    description: "reduce-scatter in each server, all-reduce on each rail, all-gather in each server",
    check: |collective| {
        collective.check_servers()?;
        collective.check_channel_parts(collective.ranks.len())
    },
    count_messages: |collective| collective.sum_channels(count_channel_messages),
    add_transfers: add_channel_transfers,
};

/// Returns the number of ranks per server and the number of servers.
fn server_shape(collective: &Collective) -> (usize, usize) {
    let local = collective.ranks_per_server.map_or(1, |ranks| ranks.max(1) as usize);
    (local, collective.ranks.len() / local)
}

fn count_channel_messages(channel: &Channel<'_>) -> u64 {
    let (local, servers) = server_shape(channel.collective);
    let local_hops = 2 * servers as u64 * (local as u64 - 1);
    let local_messages = channel.collective.count_part_chunks(channel.data, local).saturating_mul(local_hops);
    (0..local).fold(local_messages, |sum, rail| {
        let blocks = channel.collective.count_part_chunks(channel.data.part(local, rail), servers);
        sum.saturating_add(blocks.saturating_mul(2 * (servers as u64 - 1)))
    })
}

fn add_channel_transfers(channel: &Channel<'_>, transfers: &mut Transfers) {
    let (local, servers) = server_shape(channel.collective);
    let server = |server: usize| (server * local..(server + 1) * local).collect::<Vec<usize>>();
    for index in 0..servers {
        reduce_scatter(transfers, &server(index), channel.data);
    }
    for rail in 0..local {
        let ring: Vec<usize> = (rail..servers * local).step_by(local).collect();
        all_reduce(transfers, &ring, channel.data.part(local, rail));
    }
    for index in 0..servers {
        all_gather(transfers, &server(index), channel.data);
    }
}
