//! Sends, and reports what has come.

use super::args::{ClientArgs, PerfError, Steering};
use super::endpoint::{NAME, endpoint};
use super::log::Log;
use super::report::{Flow, Interval, Summary};
use crate::connect::ConnectError;
use crate::poseidon::Poseidon;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use quinn::{Connection, Endpoint, RecvStream, SendStream, VarInt};
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const CHUNK: usize = 1 << 16;
/// How long the server may take to count what is still on the way.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of one connection that the server has counted, by stream.
type Counted = Arc<Vec<AtomicU64>>;

/// Sends for as long as it is asked to; `report` is called after each interval.
pub async fn run(mut args: ClientArgs, mut report: impl FnMut(&Interval)) -> Result<Summary, PerfError> {
    let mut log = None;
    if let (Some(path), Steering::Law(config)) = (&args.qlog, &mut args.steering) {
        let opened = Log::open(path).map_err(PerfError::io("opening the log"))?;
        config.observer = Some(opened.observer());
        log = Some(opened);
    }
    let (endpoint, poseidon) = endpoint(&args.steering, args.bind, false)?;
    let mut connections = Vec::new();
    for _ in 0..args.connections.max(1) {
        connections.push(connect(&endpoint, poseidon.as_ref(), &args).await?);
    }
    let mut streams = JoinSet::new();
    let mut counted = Vec::new();
    for connection in &connections {
        let counts: Counted = Arc::new((0..args.streams.max(1)).map(|_| AtomicU64::new(0)).collect());
        for stream in 0..counts.len() {
            let (send, receive) = connection.open_bi().await.map_err(PerfError::broken)?;
            streams.spawn(transfer(send, receive, args.interval, args.duration, Arc::clone(&counts), stream));
        }
        counted.push(counts);
    }
    let mut observed = Observed { connections, counted, before: Vec::new(), began: Instant::now() };
    observed.before = observed.totals();
    let mut last = Duration::ZERO;
    while last < args.duration {
        sleep(args.interval.min(args.duration - last)).await;
        let now = observed.began.elapsed();
        report(&observed.interval(last, now));
        last = now;
    }
    let all = timeout(PATIENCE, async {
        while let Some(ended) = streams.join_next().await {
            ended.map_err(PerfError::broken)??;
        }
        Ok::<(), PerfError>(())
    });
    all.await.map_err(|_| PerfError::broken("the server does not answer"))??;
    let summary = observed.summary(&args);
    endpoint.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    if let Some(log) = log {
        log.close().map_err(PerfError::io("writing the log"))?;
    }
    Ok(summary)
}

async fn connect(
    endpoint: &Endpoint,
    poseidon: Option<&Poseidon>,
    args: &ClientArgs,
) -> Result<Connection, PerfError> {
    let Some(poseidon) = poseidon else {
        let refused = |error| PerfError::Connect(ConnectError::Refused(error));
        let connecting = endpoint.connect(args.server, NAME).map_err(refused)?;
        return connecting.await.map_err(|error| PerfError::Connect(ConnectError::Failed(error)));
    };
    poseidon.connect(endpoint, args.server, NAME).await.map_err(PerfError::Connect)
}

/// One stream: writes until the time is over, and keeps what the server says.
async fn transfer(
    mut send: SendStream,
    mut receive: RecvStream,
    interval: Duration,
    duration: Duration,
    counts: Counted,
    stream: usize,
) -> Result<(), PerfError> {
    let out = async {
        let every = u32::try_from(interval.as_millis()).unwrap_or(u32::MAX);
        send.write_all(&every.to_be_bytes()).await.map_err(PerfError::broken)?;
        let chunk = vec![0x5a; CHUNK];
        let end = Instant::now() + duration;
        while Instant::now() < end {
            send.write_all(&chunk).await.map_err(PerfError::broken)?;
        }
        send.finish().map_err(PerfError::broken)
    };
    let back = async {
        let mut count = [0; 8];
        while receive.read_exact(&mut count).await.is_ok() {
            counts[stream].store(u64::from_be_bytes(count), Relaxed);
        }
        Ok(())
    };
    tokio::try_join!(out, back).map(|_| ())
}

/// What reports are made from.
struct Observed {
    connections: Vec<Connection>,
    counted: Vec<Counted>,
    /// At the last report, by connection.
    before: Vec<u64>,
    began: Instant,
}

impl Observed {
    fn totals(&self) -> Vec<u64> {
        self.counted.iter().map(|counts| counts.iter().map(|count| count.load(Relaxed)).sum()).collect()
    }

    fn interval(&mut self, from: Duration, to: Duration) -> Interval {
        let totals = self.totals();
        let bytes = totals.iter().zip(&self.before).map(|(now, before)| now - before);
        let flows = self.flows(bytes, to - from);
        self.before = totals;
        Interval::new(from, to, flows)
    }

    fn summary(&self, args: &ClientArgs) -> Summary {
        let took = self.began.elapsed();
        let law = match &args.steering {
            Steering::Law(config) => config.law.law(),
            Steering::Quinn => "quinn-cubic",
        };
        Summary::new(law, took, self.flows(self.totals().into_iter(), took))
    }

    fn flows(&self, bytes: impl Iterator<Item = u64>, time: Duration) -> Vec<Flow> {
        let flows = self.connections.iter().zip(bytes);
        flows.map(|(connection, bytes)| Flow::new(connection, bytes, time)).collect()
    }
}
