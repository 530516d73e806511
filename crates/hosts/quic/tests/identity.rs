//! Checks that each controller receives only stamps from its own path.

mod common;

use common::relay::{Link, Relay, expected_stamp};
use common::{DecisionLog, bind, connect, echo, endpoint, poseidon_with_log};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::time::Duration;
use poseidon_quic::Poseidon;
use poseidon_quic::prefix::Tag;
use quinn::Endpoint;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The difference between the stamp offsets of consecutive relays, which makes their stamps distinct.
const OFFSET_STEP: u16 = 1_000;

/// Checks that each echoed stamp matches its flow's tag and, if `check_relay` is set, its relay.
/// `relay_offsets` maps each flow to its relay's stamp offset. Returns the number of stamps.
fn check_stamps(log: &DecisionLog, relay_offsets: &BTreeMap<u64, u16>, check_relay: bool) -> usize {
    let log = log.lock().expect("the lock is not poisoned");
    let mut stamps = 0;
    for decision in log.iter() {
        let Some(delay) = decision.echoed_delay else { continue };
        stamps += 1;
        let relay = delay.get() / (u64::from(OFFSET_STEP) << 8);
        let offset = u16::try_from(relay).expect("the number of relays is small") * OFFSET_STEP;
        assert_eq!(delay, expected_stamp(offset, decision.tag), "{decision:?}");
        if check_relay {
            assert_eq!(relay_offsets.get(&decision.flow), Some(&offset), "{decision:?}");
        }
    }
    stamps
}

/// Opens `per_relay` connections through each relay from one socket and closes them, for several rounds. With
/// `migrate`, the client changes its port in the middle of each round except the first.
async fn run_through_relays(relays: u16, per_relay: usize, rounds: usize, bytes: usize, migrate: bool) {
    let (client, client_log) = poseidon_with_log(|_| ());
    let (server, server_log) = poseidon_with_log(|_| ());
    let client_endpoint = endpoint(Some(&client));
    let mut running_relays = Vec::new();
    for number in 0..relays {
        let address = endpoint(Some(&server)).local_addr().expect("the socket is bound");
        running_relays.push(Relay::start(address, Link::default(), number * OFFSET_STEP).await);
    }
    let (mut relay_offsets, mut connection_ids) = (BTreeMap::new(), 0);
    for round in 0..rounds {
        let mut tasks = Vec::new();
        let connected = Arc::new(AtomicUsize::new(0));
        for (number, relay) in (0_u16..).zip(&running_relays) {
            for _ in 0..per_relay {
                let (endpoint, address) = (client_endpoint.clone(), relay.address);
                let connected = Arc::clone(&connected);
                tasks.push((
                    number,
                    tokio::spawn(async move {
                        let connection = connect(&endpoint, address).await;
                        connected.fetch_add(1, Relaxed);
                        echo(&connection, bytes).await;
                        let flow = Poseidon::metrics_of(&connection)
                            .expect("Poseidon controls the connection")
                            .number;
                        (connection, flow)
                    }),
                ));
            }
        }
        if migrate && round > 0 {
            // QUIC forbids migration during the handshake.
            let all_connected = || connected.load(Relaxed) == tasks.len();
            common::wait_until("all connections are open", all_connected).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            client_endpoint.rebind(bind()).expect("a port is free");
        }
        let mut connections = Vec::new();
        for (number, task) in tasks {
            let (connection, flow) = task.await.expect("the echo succeeds");
            relay_offsets.insert(flow, number * OFFSET_STEP);
            connections.push(connection);
        }
        if migrate {
            // Also transfer data after the migration.
            let transfers: Vec<_> = connections
                .iter()
                .cloned()
                .map(|connection| tokio::spawn(async move { echo(&connection, bytes / 8).await }))
                .collect();
            for task in transfers {
                task.await.expect("the echo succeeds");
            }
        }
        for connection in connections {
            connection.close(0_u32.into(), b"");
        }
        client_endpoint.wait_idle().await;
        for relay in &running_relays {
            let ([to_server, from_server], ids) = relay.take_tag_counts();
            connection_ids += ids;
            // The remote address of the client's paths never changes.
            assert_eq!(to_server, 1, "a connection ID has several tags");
            let max_tags = if migrate { 2 } else { 1 };
            assert!(from_server <= max_tags, "a connection ID has {from_server} tags");
        }
    }
    let client_stamps = check_stamps(&client_log, &relay_offsets, true);
    let server_stamps = check_stamps(&server_log, &relay_offsets, false);
    let connections = usize::from(relays) * per_relay * rounds;
    if migrate {
        // Each migrated path has several tags.
        let migrated = tags_by_flow(&server_log).values().filter(|tags| tags.len() > 1).count();
        println!("{migrated} paths migrated");
        assert!(migrated >= connections / 4, "{migrated} of {connections} paths migrated");
    }
    println!(
        "{connections} connections, {connection_ids} connection IDs, {client_stamps} and {server_stamps} stamps"
    );
    println!(
        "\n{{\"test\":\"identity\",\"connections\":{connections},\"connection_ids\":{connection_ids},\"client_stamps\":{client_stamps},\
         \"server_stamps\":{server_stamps}}}"
    );
    assert_eq!(relay_offsets.len(), connections);
    // An idle machine reports about ten stamps per connection. On a busy machine, an ACK covers more packets.
    let expected = 5 * connections;
    assert!(client_stamps >= expected && server_stamps >= expected, "{client_stamps} and {server_stamps}");
    assert_no_flow_remains(&client, &server, &client_endpoint).await;
}

fn tags_by_flow(log: &DecisionLog) -> BTreeMap<u64, BTreeSet<Tag>> {
    let mut tags = BTreeMap::<u64, BTreeSet<Tag>>::new();
    for decision in log.lock().expect("the lock is not poisoned").iter() {
        tags.entry(decision.flow).or_default().insert(decision.tag);
    }
    tags
}

async fn assert_no_flow_remains(client: &Poseidon, server: &Poseidon, client_endpoint: &Endpoint) {
    client_endpoint.close(0_u32.into(), b"");
    for poseidon in [client, server] {
        let poseidon = Arc::new(poseidon.clone());
        common::wait_until("no flow remains", || {
            let metrics = poseidon.metrics();
            metrics.flows.is_empty() && metrics.handshakes == 0
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_connections_to_one_peer_receive_their_own_stamps() {
    run_through_relays(1, 16, 2, 200_000, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_connections_to_eight_peers_receive_their_own_stamps() {
    run_through_relays(8, 8, 2, 100_000, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn migrated_client_ignores_stamps_of_its_old_path() {
    run_through_relays(1, 8, 3, 400_000, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "takes minutes: .ci/long"]
async fn identity_long() {
    run_through_relays(8, 8, 40, 1_000_000, true).await;
    run_through_relays(1, 16, 40, 1_000_000, true).await;
}
