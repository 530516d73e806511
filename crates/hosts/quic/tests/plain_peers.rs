//! Checks that an endpoint recognises peers without the shim, and serves or refuses them.

mod common;

use common::{SERVER_NAME, connect, echo, endpoint, endpoint_with_timeout, poseidon};
use poseidon_quic::quinn::ConnectError;
use poseidon_quic::{Mode, PlainPeers, Poseidon};
use quinn::ConnectionError;

const BYTES: usize = 300_000;

/// Returns whether telemetry has set the window. On a busy machine, a flow without telemetry may compete for a while.
const fn uses_telemetry(mode: Mode) -> bool {
    matches!(mode, Mode::Telemetry | Mode::Lost)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_ends_negotiate_the_shim() {
    let (client, server) = (poseidon(|_| ()), poseidon(|_| ()));
    let (client_endpoint, server_endpoint) = (endpoint(Some(&client)), endpoint(Some(&server)));
    let connection =
        connect(&client_endpoint, server_endpoint.local_addr().expect("the socket is bound")).await;
    echo(&connection, BYTES).await;
    let flow = Poseidon::metrics_of(&connection).expect("Poseidon controls the connection");
    // No hop between the endpoints writes telemetry.
    assert!(flow.shim_negotiated && !uses_telemetry(flow.mode) && flow.acks_with_telemetry == 0, "{flow:?}");
    assert_eq!(flow.remote, Some(server_endpoint.local_addr().expect("the socket is bound")));
    let metrics = server.metrics();
    assert!(metrics.with_prefix > 100 && metrics.plain == 0 && metrics.handshakes == 0, "{metrics:?}");
    assert_eq!(metrics.flows.len(), 1);
    let mode = metrics.flows[0].mode.name();
    assert!(metrics.open_metrics().contains(&format!("poseidon_quic_flows{{mode=\"{mode}\"}} 1\n")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_client_is_served() {
    let server = poseidon(|_| ());
    let (client_endpoint, server_endpoint) = (endpoint(None), endpoint(Some(&server)));
    let connection =
        connect(&client_endpoint, server_endpoint.local_addr().expect("the socket is bound")).await;
    echo(&connection, BYTES).await;
    let metrics = server.metrics();
    assert_eq!((metrics.with_prefix, metrics.unknown_tag), (0, 0));
    assert!(metrics.plain > 100 && !metrics.flows[0].shim_negotiated, "{metrics:?}");
    assert_eq!(
        server.shim_negotiated(client_endpoint.local_addr().expect("the socket is bound")),
        Some(false)
    );
    assert!(Poseidon::metrics_of(&connection).is_none(), "plain quinn uses its own controller");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_falls_back_to_plain_quic_for_a_plain_server() {
    let client = poseidon(|_| ());
    let (client_endpoint, server_endpoint) = (endpoint(Some(&client)), endpoint(None));
    let connection =
        connect(&client_endpoint, server_endpoint.local_addr().expect("the socket is bound")).await;
    echo(&connection, BYTES).await;
    let flow = Poseidon::metrics_of(&connection).expect("Poseidon controls the connection");
    assert!(!flow.shim_negotiated && !uses_telemetry(flow.mode), "{flow:?}");
    assert_eq!(client.metrics().with_prefix, 0);
    // The second connection starts with plain QUIC.
    assert_eq!(
        client.shim_negotiated(server_endpoint.local_addr().expect("the socket is bound")),
        Some(false)
    );
    echo(&connect(&client_endpoint, server_endpoint.local_addr().expect("the socket is bound")).await, BYTES)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_error_reports_a_refused_plain_server() {
    let client = poseidon(|config| config.plain_peers = PlainPeers::Refuse);
    let (client_endpoint, server_endpoint) = (endpoint_with_timeout(Some(&client), 2), endpoint(None));
    let address = server_endpoint.local_addr().expect("the socket is bound");
    let error =
        client.connect(&client_endpoint, address, SERVER_NAME).await.expect_err("the server uses plain QUIC");
    assert!(matches!(error, ConnectError::PlainPeer(_) | ConnectError::NoShim(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&address.to_string()) && text.contains("set plain_peers to Serve"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_client_is_refused_and_counted() {
    let server = poseidon(|config| config.plain_peers = PlainPeers::Refuse);
    let (client_endpoint, server_endpoint) = (endpoint_with_timeout(None, 2), endpoint(Some(&server)));
    let result = client_endpoint
        .connect(server_endpoint.local_addr().expect("the socket is bound"), SERVER_NAME)
        .expect("the arguments are valid")
        .await;
    assert_eq!(result.err(), Some(ConnectionError::TimedOut));
    let metrics = server.metrics();
    assert!(metrics.refused > 0 && metrics.refused == metrics.plain, "{metrics:?}");
    assert!(metrics.flows.is_empty());
}
