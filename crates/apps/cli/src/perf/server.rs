//! Counts received bytes and reports the counts to the client.

use super::endpoint::{Role, create_endpoint};
use super::metrics::serve_metrics;
use super::options::{PerfError, ServerOptions};
use core::net::SocketAddr;
use core::time::Duration;
use quinn::{Connection, Endpoint, Incoming, RecvStream, SendStream, VarInt};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// The shortest interval between two counts, even if the client requests a shorter one.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// The number of bytes received on a stream so far. The server sends a count after each interval and at the
/// end of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// The time since the start of the stream, on the server's clock.
    pub(super) time: Duration,
    /// The number of bytes received up to this time.
    pub(super) bytes: u64,
}

impl Count {
    pub(super) const BYTES: usize = 16;

    /// Encodes the count: microseconds, then bytes, both big-endian.
    fn emit(self) -> [u8; Self::BYTES] {
        let micros = u64::try_from(self.time.as_micros()).unwrap_or(u64::MAX);
        let word = (u128::from(micros) << 64) | u128::from(self.bytes);
        word.to_be_bytes()
    }

    pub(super) fn parse(bytes: [u8; Self::BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
        let time = Duration::from_micros(u64::from_be_bytes([a, b, c, d, e, f, g, h]));
        Self { time, bytes: u64::from_be_bytes(rest) }
    }
}

/// Serves until the future is dropped or, with `once`, until the first client has disconnected. Calls
/// `on_ready` with the local address.
pub(super) async fn serve(
    options: ServerOptions,
    on_ready: impl FnOnce(SocketAddr),
) -> Result<(), PerfError> {
    let role = Role::Server { identity: options.identity.as_ref() };
    let (endpoint, poseidon) = create_endpoint(&options.control, options.listen, options.ip_mtu, role)?;
    if let Some((address, poseidon)) = options.metrics.zip(poseidon.clone()) {
        serve_metrics(address, poseidon)?;
    }
    on_ready(endpoint.local_addr().map_err(PerfError::io("reading the local address"))?);
    let mut first_client = None;
    while let Some(incoming) = endpoint.accept().await {
        let task = tokio::spawn(serve_connection(incoming));
        if options.once && first_client.is_none() {
            first_client = Some(tokio::spawn(close_after(endpoint.clone(), task)));
        }
    }
    endpoint.wait_idle().await;
    Ok(())
}

async fn close_after(endpoint: Endpoint, client: tokio::task::JoinHandle<()>) {
    // The result does not matter: the client has disconnected.
    let _ = client.await;
    endpoint.close(VarInt::from_u32(0), b"");
}

async fn serve_connection(incoming: Incoming) {
    // A failed handshake needs no action.
    let Ok(connection) = incoming.await else { return };
    while let Ok((send, receive)) = connection.accept_bi().await {
        tokio::spawn(count_stream(connection.clone(), send, receive));
    }
}

/// Counts the bytes of a stream. The stream's first four bytes are the interval in milliseconds and are not counted.
async fn count_stream(connection: Connection, mut send: SendStream, mut receive: RecvStream) {
    let mut interval_ms = [0; 4];
    if receive.read_exact(&mut interval_ms).await.is_err() {
        return;
    }
    let interval = Duration::from_millis(u64::from(u32::from_be_bytes(interval_ms))).max(MIN_INTERVAL);
    let start = Instant::now();
    let mut ticks = interval_at(start + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut bytes = 0_u64;
    loop {
        tokio::select! {
            chunk = receive.read_chunk(usize::MAX, true) => match chunk {
                Ok(Some(chunk)) => bytes += chunk.bytes.len() as u64,
                Ok(None) => break,
                Err(_) => return,
            },
            _ = ticks.tick() => {
                let count = Count { time: start.elapsed(), bytes };
                if send.write_all(&count.emit()).await.is_err() {
                    return;
                }
            }
        }
    }
    // Send the final count. A client that does not read it has disconnected.
    let _ = send.write_all(&Count { time: start.elapsed(), bytes }.emit()).await;
    let _ = send.finish();
    let _ = connection.closed().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_encoding_round_trips() {
        let count = Count { time: Duration::from_micros(1_234_567), bytes: u64::MAX - 1 };
        assert_eq!(Count::parse(count.emit()), count);
    }
}
