//! Counts what comes, and says so.

use super::args::{PerfError, ServerArgs};
use super::endpoint::{Role, endpoint};
use core::net::SocketAddr;
use core::time::Duration;
use quinn::{Connection, Endpoint, Incoming, RecvStream, SendStream, VarInt};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// A client asks for reports no more often than this.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// What the server says of one stream after each interval, and once more when the stream has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Since the stream began, on the server's clock.
    pub(super) at: Duration,
    /// That have come by then.
    pub(super) bytes: u64,
}

impl Count {
    pub(super) const BYTES: usize = 16;

    /// Microseconds, then bytes, big-endian.
    fn emit(self) -> [u8; Self::BYTES] {
        let at = u64::try_from(self.at.as_micros()).unwrap_or(u64::MAX);
        let both = (u128::from(at) << 64) | u128::from(self.bytes);
        both.to_be_bytes()
    }

    pub(super) fn parse(bytes: [u8; Self::BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
        let at = Duration::from_micros(u64::from_be_bytes([a, b, c, d, e, f, g, h]));
        Self { at, bytes: u64::from_be_bytes(rest) }
    }
}

/// Serves until it is dropped; with `once`, until its first client has gone. `ready` is told where it listens.
pub async fn serve(args: ServerArgs, ready: impl FnOnce(SocketAddr)) -> Result<(), PerfError> {
    let role = Role::Server { identity: args.identity.as_ref() };
    let (endpoint, _poseidon) = endpoint(&args.steering, args.listen, args.ip_mtu, role)?;
    ready(endpoint.local_addr().map_err(PerfError::io("asking for the address"))?);
    let mut first = None;
    while let Some(incoming) = endpoint.accept().await {
        let task = tokio::spawn(attend(incoming));
        if args.once && first.is_none() {
            first = Some(tokio::spawn(close_after(endpoint.clone(), task)));
        }
    }
    endpoint.wait_idle().await;
    Ok(())
}

async fn close_after(endpoint: Endpoint, client: tokio::task::JoinHandle<()>) {
    // However it ended, it has.
    let _ = client.await;
    endpoint.close(VarInt::from_u32(0), b"");
}

async fn attend(incoming: Incoming) {
    // Who did not come needs nothing.
    let Ok(connection) = incoming.await else { return };
    while let Ok((send, receive)) = connection.accept_bi().await {
        tokio::spawn(count(connection.clone(), send, receive));
    }
}

/// The first four bytes are the interval in milliseconds; all others count.
async fn count(connection: Connection, mut send: SendStream, mut receive: RecvStream) {
    let mut head = [0; 4];
    if receive.read_exact(&mut head).await.is_err() {
        return;
    }
    let every = Duration::from_millis(u64::from(u32::from_be_bytes(head))).max(SHORTEST_INTERVAL);
    let began = Instant::now();
    let mut ticks = interval_at(began + every, every);
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
                let count = Count { at: began.elapsed(), bytes };
                if send.write_all(&count.emit()).await.is_err() {
                    return;
                }
            }
        }
    }
    // The last word; whoever does not want it has gone.
    let _ = send.write_all(&Count { at: began.elapsed(), bytes }.emit()).await;
    let _ = send.finish();
    let _ = connection.closed().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_reads_back() {
        let count = Count { at: Duration::from_micros(1_234_567), bytes: u64::MAX - 1 };
        assert_eq!(Count::parse(count.emit()), count);
    }
}
