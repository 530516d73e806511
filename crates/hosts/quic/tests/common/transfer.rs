//! Runs a bulk transfer from a client to a byte-counting server and reports at regular intervals.

use super::{client_config, server_config};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use poseidon_quic::{Config, Mode, Poseidon};
use quinn::{Connection, Endpoint, EndpointConfig, TokioRuntime, TransportConfig};
use std::sync::Arc;
use tokio::time::{Instant, sleep_until};

/// The time between two reports.
const INTERVAL: Duration = Duration::from_millis(100);

/// A server that counts the bytes of all streams.
pub(crate) struct CountingServer {
    pub(crate) address: SocketAddr,
    received: Arc<AtomicU64>,
    /// Keeps the endpoint open.
    _endpoint: Endpoint,
}

/// The report for one interval. Times are relative to the start of the transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    pub(crate) bytes: u64,
    /// The mode of the connection at the end of the interval.
    pub(crate) mode: Mode,
}

/// The report for a whole transfer.
#[derive(Clone, Debug)]
pub(crate) struct TransferReport {
    pub(crate) intervals: Vec<Interval>,
    pub(crate) goodput_mbps: f64,
    pub(crate) lost_packets: u64,
}

impl CountingServer {
    pub(crate) fn start(config: Config) -> Self {
        let received = Arc::new(AtomicU64::new(0));
        let endpoint = create_endpoint(config, |endpoint, transport, socket, runtime| {
            Endpoint::new(endpoint, Some(server_config(transport, None)), socket, runtime)
        });
        let address = endpoint.local_addr().expect("the socket is bound");
        tokio::spawn(count_streams(endpoint.clone(), Arc::clone(&received)));
        Self { address, received, _endpoint: endpoint }
    }

    /// Sends data to this server through `address` for the given duration.
    pub(crate) async fn transfer(
        &self,
        config: Config,
        address: SocketAddr,
        duration: Duration,
    ) -> TransferReport {
        let endpoint = create_endpoint(config, |endpoint, transport, socket, runtime| {
            let mut endpoint = Endpoint::new(endpoint, None, socket, runtime)?;
            endpoint.set_default_client_config(client_config(transport, None));
            Ok(endpoint)
        });
        let connection = super::connect(&endpoint, address).await;
        let start = Instant::now();
        let end = start + duration;
        let (intervals, ()) =
            tokio::join!(self.report_intervals(&connection, start, end), send_until(&connection, end));
        let goodput_mbps = self.received.load(Relaxed) as f64 * 8.0 / 1e6 / start.elapsed().as_secs_f64();
        let lost_packets = connection.stats().path.lost_packets;
        connection.close(0_u32.into(), b"");
        endpoint.wait_idle().await;
        TransferReport { intervals, goodput_mbps, lost_packets }
    }

    async fn report_intervals(&self, connection: &Connection, start: Instant, end: Instant) -> Vec<Interval> {
        let mut intervals = Vec::new();
        let (mut time, mut bytes) = (start, self.received.load(Relaxed));
        while time < end {
            sleep_until(time + INTERVAL).await;
            let (now, received) = (Instant::now(), self.received.load(Relaxed));
            let metrics = Poseidon::metrics_of(connection).expect("Poseidon controls the connection");
            intervals.push(Interval {
                from_s: (time - start).as_secs_f64(),
                to_s: (now - start).as_secs_f64(),
                bytes: received - bytes,
                mode: metrics.mode,
            });
            (time, bytes) = (now, received);
        }
        intervals
    }
}

fn create_endpoint(
    config: Config,
    build: impl FnOnce(
        EndpointConfig,
        TransportConfig,
        std::net::UdpSocket,
        Arc<dyn quinn::Runtime>,
    ) -> std::io::Result<Endpoint>,
) -> Endpoint {
    let poseidon = Poseidon::new(config).expect("the configuration is valid");
    let (mut endpoint, mut transport) = (EndpointConfig::default(), TransportConfig::default());
    poseidon.tune(&mut transport, &mut endpoint);
    transport.congestion_controller_factory(poseidon.controller_factory());
    let runtime = poseidon.runtime(TokioRuntime);
    build(endpoint, transport, super::bind(), runtime).expect("the endpoint starts")
}

async fn count_streams(endpoint: Endpoint, received: Arc<AtomicU64>) {
    while let Some(incoming) = endpoint.accept().await {
        let received = Arc::clone(&received);
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            while let Ok(mut stream) = connection.accept_uni().await {
                while let Ok(Some(chunk)) = stream.read_chunk(usize::MAX, true).await {
                    received.fetch_add(chunk.bytes.len() as u64, Relaxed);
                }
            }
        });
    }
}

/// Sends until `end` and waits until the server has acknowledged all data.
async fn send_until(connection: &Connection, end: Instant) {
    let mut stream = connection.open_uni().await.expect("the connection is open");
    let chunk = vec![0x5a; 1 << 16];
    while Instant::now() < end {
        stream.write_all(&chunk).await.expect("the server reads");
    }
    stream.finish().expect("the stream is open");
    let _ = stream.stopped().await;
}
