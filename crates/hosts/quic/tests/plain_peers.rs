//! Peers that do not speak the shim are recognised, and served or refused.

mod common;

use common::{NAME, connect, echo, endpoint, endpoint_with, poseidon};
use poseidon_quic::{ConnectError, Mode, PlainPeers, Poseidon};
use quinn::ConnectionError;

const BYTES: usize = 300_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_speak_it_know() {
    let (client, server) = (poseidon(|_| ()), poseidon(|_| ()));
    let (from, to) = (endpoint(Some(&client)), endpoint(Some(&server)));
    let connection = connect(&from, to.local_addr().expect("bound")).await;
    echo(&connection, BYTES).await;
    let flow = Poseidon::metrics_of(&connection).expect("our controller");
    // No hop measures between them.
    assert!(flow.speaks_shim && flow.mode == Mode::Delay && flow.acks_with_telemetry == 0, "{flow:?}");
    assert_eq!(flow.remote, Some(to.local_addr().expect("bound")));
    let metrics = server.metrics();
    assert!(metrics.with_prefix > 100 && metrics.plain == 0 && metrics.handshakes == 0, "{metrics:?}");
    assert_eq!(metrics.flows.len(), 1);
    assert!(metrics.open_metrics().contains("mode=\"delay\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_client_is_served() {
    let server = poseidon(|_| ());
    let (from, to) = (endpoint(None), endpoint(Some(&server)));
    let connection = connect(&from, to.local_addr().expect("bound")).await;
    echo(&connection, BYTES).await;
    let metrics = server.metrics();
    assert_eq!((metrics.with_prefix, metrics.strangers), (0, 0));
    assert!(metrics.plain > 100 && !metrics.flows[0].speaks_shim, "{metrics:?}");
    assert_eq!(server.speaks_shim(from.local_addr().expect("bound")), Some(false));
    assert!(Poseidon::metrics_of(&connection).is_none(), "plain quinn has a controller of its own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_server_is_found_out_and_asked_in_its_own_way() {
    let client = poseidon(|_| ());
    let (from, to) = (endpoint(Some(&client)), endpoint(None));
    let connection = connect(&from, to.local_addr().expect("bound")).await;
    echo(&connection, BYTES).await;
    let flow = Poseidon::metrics_of(&connection).expect("our controller");
    assert!(!flow.speaks_shim && flow.mode == Mode::Delay, "{flow:?}");
    assert_eq!(client.metrics().with_prefix, 0);
    // The second time it is known.
    assert_eq!(client.speaks_shim(to.local_addr().expect("bound")), Some(false));
    echo(&connect(&from, to.local_addr().expect("bound")).await, BYTES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_server_is_refused_with_the_reason() {
    let client = poseidon(|config| config.plain_peers = PlainPeers::Refuse);
    let (from, to) = (endpoint_with(Some(&client), 2), endpoint(None));
    let address = to.local_addr().expect("bound");
    let error = client.connect(&from, address, NAME).await.expect_err("it speaks plain QUIC");
    assert!(matches!(error, ConnectError::PlainPeer(_) | ConnectError::NoShim(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&address.to_string()) && text.contains("set plain_peers to Serve"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_client_is_refused_and_counted() {
    let server = poseidon(|config| config.plain_peers = PlainPeers::Refuse);
    let (from, to) = (endpoint_with(None, 2), endpoint(Some(&server)));
    let refused = from.connect(to.local_addr().expect("bound"), NAME).expect("an address").await;
    assert_eq!(refused.err(), Some(ConnectionError::TimedOut));
    let metrics = server.metrics();
    assert!(metrics.refused > 0 && metrics.refused == metrics.plain, "{metrics:?}");
    assert!(metrics.flows.is_empty());
}
