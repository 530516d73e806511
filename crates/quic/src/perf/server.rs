//! Counts what comes, and says so.

use super::args::{PerfError, ServerArgs};
use super::endpoint::endpoint;
use core::net::SocketAddr;
use core::time::Duration;
use quinn::{Connection, Endpoint, Incoming, RecvStream, SendStream, VarInt};
use tokio::time::{MissedTickBehavior, interval};

/// A client asks for reports no more often than this.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// Serves until it is dropped; with `once`, until its first client has gone. `ready` is told where it listens.
pub async fn serve(args: ServerArgs, ready: impl FnOnce(SocketAddr)) -> Result<(), PerfError> {
    let (endpoint, _poseidon) = endpoint(&args.steering, args.listen, true)?;
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
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut bytes = 0_u64;
    loop {
        tokio::select! {
            chunk = receive.read_chunk(usize::MAX, true) => match chunk {
                Ok(Some(chunk)) => bytes += chunk.bytes.len() as u64,
                Ok(None) => break,
                Err(_) => return,
            },
            _ = ticks.tick() => {
                if send.write_all(&bytes.to_be_bytes()).await.is_err() {
                    return;
                }
            }
        }
    }
    // The last word; whoever does not want it has gone.
    let _ = send.write_all(&bytes.to_be_bytes()).await;
    let _ = send.finish();
    let _ = connection.closed().await;
}
