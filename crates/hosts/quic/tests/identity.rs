//! Each controller sees exactly its own path's stamps.

mod common;

use common::relay::{Link, Relay, stamp_of};
use common::{Log, bind, connect, echo, endpoint, logged};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::time::Duration;
use poseidon_quic::Poseidon;
use poseidon_quic::prefix::Tag;
use quinn::Endpoint;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What each relay adds to the tag, so that paths through different relays differ too.
const PER_RELAY: u16 = 1_000;

/// Everything that a log tells, against what the relays have stamped: under its own tag, by its own relay.
fn assert_own_stamps(log: &Log, relays: &BTreeMap<u64, u16>, known: bool) -> usize {
    let log = log.lock().expect("nobody panics");
    let mut told = 0;
    for decided in log.iter() {
        let Some(delay) = decided.told else { continue };
        told += 1;
        let relay = delay.get() / (u64::from(PER_RELAY) << 8);
        let stamp = u16::try_from(relay).expect("few relays") * PER_RELAY;
        assert_eq!(delay, stamp_of(stamp, decided.tag), "{decided:?}");
        if known {
            assert_eq!(relays.get(&decided.flow), Some(&stamp), "{decided:?}");
        }
    }
    told
}

/// `per_relay` connections through each relay, all from one socket, in `rounds` of opening and closing; with `moves`, the client
/// changes its port in the middle of each round.
async fn through_relays(relays: u16, per_relay: usize, rounds: usize, bytes: usize, moves: bool) {
    let (client, client_log) = logged(|_| ());
    let (server, server_log) = logged(|_| ());
    let from = endpoint(Some(&client));
    let mut switches = Vec::new();
    for number in 0..relays {
        let to = endpoint(Some(&server)).local_addr().expect("bound");
        switches.push(Relay::start(to, Link::default(), number * PER_RELAY).await);
    }
    let (mut relay_of, mut ids) = (BTreeMap::new(), 0);
    for round in 0..rounds {
        let mut work = Vec::new();
        let connected = Arc::new(AtomicUsize::new(0));
        for (number, switch) in (0_u16..).zip(&switches) {
            for _ in 0..per_relay {
                let (from, address, connected) = (from.clone(), switch.address, Arc::clone(&connected));
                work.push((
                    number,
                    tokio::spawn(async move {
                        let connection = connect(&from, address).await;
                        connected.fetch_add(1, Relaxed);
                        echo(&connection, bytes).await;
                        let flow = Poseidon::metrics_of(&connection).expect("our controller").number;
                        (connection, flow)
                    }),
                ));
            }
        }
        if moves && round > 0 {
            // QUIC forbids to move before the handshake is over: such a connection is lost, with any stack.
            common::until("all are connected", || connected.load(Relaxed) == work.len()).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            from.rebind(bind()).expect("a port is free");
        }
        let mut connections = Vec::new();
        for (number, task) in work {
            let (connection, flow) = task.await.expect("it echoes");
            relay_of.insert(flow, number * PER_RELAY);
            connections.push(connection);
        }
        if moves {
            // After the move too.
            let again: Vec<_> = connections
                .iter()
                .cloned()
                .map(|connection| tokio::spawn(async move { echo(&connection, bytes / 8).await }))
                .collect();
            for task in again {
                task.await.expect("it echoes");
            }
        }
        for connection in connections {
            connection.close(0_u32.into(), b"");
        }
        from.wait_idle().await;
        for switch in &switches {
            let ([to_server, from_server], here) = switch.take_tags();
            ids += here;
            // The client's paths lead to the same address all the time.
            assert_eq!(to_server, 1, "a connection id went under two tags");
            let most = if moves { 2 } else { 1 };
            assert!(from_server <= most, "a connection id went under {from_server} tags");
        }
    }
    let told = assert_own_stamps(&client_log, &relay_of, true);
    let server_told = assert_own_stamps(&server_log, &relay_of, false);
    let connections = usize::from(relays) * per_relay * rounds;
    if moves {
        // A path that moved has another tag: so many were there.
        let moved = tags_of_flows(&server_log).values().filter(|tags| tags.len() > 1).count();
        println!("{moved} paths moved");
        assert!(moved >= connections / 4, "{moved} of {connections} paths moved");
    }
    println!("{connections} connections, {ids} connection ids, {told} and {server_told} stamps");
    println!(
        "\n{{\"test\":\"identity\",\"connections\":{connections},\"connection_ids\":{ids},\"client_stamps\":{told},\
         \"server_stamps\":{server_told}}}"
    );
    assert_eq!(relay_of.len(), connections);
    // About ten each; on a busy machine an ACK stands for more packets.
    assert!(told >= 5 * connections && server_told >= 5 * connections, "{told} and {server_told} stamps");
    nothing_left(&client, &server, &from).await;
}

fn tags_of_flows(log: &Log) -> BTreeMap<u64, BTreeSet<Tag>> {
    let mut tags = BTreeMap::<u64, BTreeSet<Tag>>::new();
    for decided in log.lock().expect("nobody panics").iter() {
        tags.entry(decided.flow).or_default().insert(decided.tag);
    }
    tags
}

async fn nothing_left(client: &Poseidon, server: &Poseidon, from: &Endpoint) {
    from.close(0_u32.into(), b"");
    for poseidon in [client, server] {
        let poseidon = Arc::new(poseidon.clone());
        common::until("no flow is left", || {
            let metrics = poseidon.metrics();
            metrics.flows.is_empty() && metrics.handshakes == 0
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_connections_to_one_peer_see_their_own_stamps() {
    through_relays(1, 16, 2, 200_000, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_connections_to_eight_peers_see_their_own_stamps() {
    through_relays(8, 8, 2, 100_000, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_client_that_moves_takes_no_stamp_of_its_old_path_along() {
    through_relays(1, 8, 3, 400_000, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "minutes, more of everything: .ci/long"]
async fn identity_long() {
    through_relays(8, 8, 40, 1_000_000, true).await;
    through_relays(1, 16, 40, 1_000_000, true).await;
}
