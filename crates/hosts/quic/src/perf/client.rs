//! Sends, and reports what the server has counted.

use super::args::{ClientArgs, PerfError, Steering};
use super::endpoint::{Role, SERVER_NAME, endpoint};
use super::log::Log;
use super::report::{Flow, Interval, Summary};
use super::server::Count;
use super::stop::Stop;
use crate::connect::ConnectError;
use crate::poseidon::Poseidon;
use core::time::Duration;
use quinn::{Connection, Endpoint, RecvStream, SendStream, VarInt};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const CHUNK: usize = 1 << 16;
/// How long the server may take to count what is still on the way.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends for as long as it is asked to, or until it is stopped. `report` is called after each interval of the server's.
pub async fn run(
    mut args: ClientArgs,
    stop: &Stop,
    mut report: impl FnMut(&Interval),
) -> Result<Summary, PerfError> {
    let mut log = None;
    if let (Some(path), Steering::Law(config)) = (&args.qlog, &mut args.steering) {
        let opened = Log::open(path, args.qlog_interval).map_err(PerfError::io("opening the log"))?;
        config.observer = Some(opened.observer());
        log = Some(opened);
    }
    let role = Role::Client { authority: args.authority.as_deref() };
    let (endpoint, poseidon) = endpoint(&args.steering, args.bind, args.ip_mtu, role)?;
    let mut connections = Vec::new();
    for _ in 0..args.connections.max(1) {
        connections.push(connect(&endpoint, poseidon.as_ref(), &args).await?);
    }
    let intervals = intervals(args.duration, args.interval);
    let mut transfers = JoinSet::new();
    let mut counted = Vec::new();
    for connection in &connections {
        let streams: Vec<_> = (0..args.streams.max(1)).map(|_| Arc::new(Counts::new(intervals))).collect();
        for counts in &streams {
            let (send, receive) = connection.open_bi().await.map_err(PerfError::broken)?;
            transfers.spawn(transfer(send, receive, Work::of(&args, stop), Arc::clone(counts)));
        }
        counted.push(streams);
    }
    let mut observed = Observed { connections, counted, reported: Vec::new(), until: Duration::ZERO };
    observed.reported = observed.bytes_after(0);
    for number in 1..intervals {
        tokio::select! {
            () = observed.wait_for_count(number, args.interval) => report(&observed.interval(number)),
            // Before its time only because the connection broke.
            Some(ended) = transfers.join_next() => {
                ended.map_err(PerfError::broken)??;
            }
            () = stop.wait() => break,
        }
    }
    let all = timeout(PATIENCE + args.interval, async {
        while let Some(ended) = transfers.join_next().await {
            ended.map_err(PerfError::broken)??;
        }
        Ok::<(), PerfError>(())
    });
    all.await.map_err(|_| PerfError::broken("the server does not answer"))??;
    report(&observed.interval(usize::MAX));
    let summary = observed.summary(&args);
    endpoint.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    if let Some(log) = log {
        log.close().map_err(PerfError::io("writing the log"))?;
    }
    Ok(summary)
}

/// The last may be shorter.
fn intervals(duration: Duration, interval: Duration) -> usize {
    let count = duration.as_nanos().div_ceil(interval.as_nanos().max(1)).max(1);
    usize::try_from(count).unwrap_or(usize::MAX)
}

async fn connect(
    endpoint: &Endpoint,
    poseidon: Option<&Poseidon>,
    args: &ClientArgs,
) -> Result<Connection, PerfError> {
    let name = args.server_name.as_deref().unwrap_or(SERVER_NAME);
    let Some(poseidon) = poseidon else {
        let refused = |error| PerfError::Connect(ConnectError::Refused(error));
        let connecting = endpoint.connect(args.server, name).map_err(refused)?;
        return connecting.await.map_err(|error| PerfError::Connect(ConnectError::Failed(error)));
    };
    poseidon.connect(endpoint, args.server, name).await.map_err(PerfError::Connect)
}

/// What a stream is to do.
struct Work {
    interval: Duration,
    duration: Duration,
    stop: Stop,
}

impl Work {
    fn of(args: &ClientArgs, stop: &Stop) -> Self {
        Self { interval: args.interval, duration: args.duration, stop: stop.clone() }
    }
}

/// One stream: writes until the time is over, and keeps what the server says.
async fn transfer(
    mut send: SendStream,
    mut receive: RecvStream,
    work: Work,
    counts: Arc<Counts>,
) -> Result<(), PerfError> {
    let out = async {
        let every = u32::try_from(work.interval.as_millis()).unwrap_or(u32::MAX);
        send.write_all(&every.to_be_bytes()).await.map_err(PerfError::broken)?;
        let chunk = vec![0x5a; CHUNK];
        let end = Instant::now() + work.duration;
        while Instant::now() < end && !work.stop.is_requested() {
            send.write_all(&chunk).await.map_err(PerfError::broken)?;
        }
        send.finish().map_err(PerfError::broken)
    };
    let back = async {
        let mut bytes = [0; Count::BYTES];
        while receive.read_exact(&mut bytes).await.is_ok() {
            counts.add(Count::parse(bytes));
        }
        Ok(())
    };
    tokio::try_join!(out, back).map(|_| ())
}

/// What the server has said of one stream, one count per interval. Whatever a server sends, no more are kept than there are intervals, and
/// one for the end of the stream.
#[derive(Debug)]
struct Counts {
    limit: usize,
    all: Mutex<Vec<Count>>,
    came: Notify,
}

impl Counts {
    fn new(intervals: usize) -> Self {
        Self { limit: intervals.saturating_add(1), all: Mutex::default(), came: Notify::new() }
    }

    fn add(&self, count: Count) {
        let mut all = self.read();
        if all.len() == self.limit {
            all.pop();
        }
        all.push(count);
        drop(all);
        self.came.notify_one();
    }

    fn read(&self) -> MutexGuard<'_, Vec<Count>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The count after this many intervals, or the last there is.
    fn after(&self, intervals: usize) -> Count {
        let all = self.read();
        let last = all.len().min(intervals);
        last.checked_sub(1).map_or_else(Count::default, |last| all[last])
    }

    async fn wait_for_count(&self, number: usize) {
        while self.read().len() < number {
            self.came.notified().await;
        }
    }
}

/// What reports are made from.
struct Observed {
    connections: Vec<Connection>,
    /// By connection and stream.
    counted: Vec<Vec<Arc<Counts>>>,
    /// Up to the last report, by connection.
    reported: Vec<u64>,
    /// When it ended, on the server's clock.
    until: Duration,
}

impl Observed {
    /// Waits for the server's count of an interval; not for longer than twice the interval, where the server says nothing.
    async fn wait_for_count(&self, number: usize, interval: Duration) {
        let all = async {
            for counts in self.counted.iter().flatten() {
                counts.wait_for_count(number).await;
            }
        };
        tokio::select! {
            () = all => (),
            () = sleep(interval * 2) => (),
        }
    }

    fn bytes_after(&self, intervals: usize) -> Vec<u64> {
        let of_connection = |streams: &Vec<Arc<Counts>>| {
            streams.iter().map(|counts| counts.after(intervals).bytes).fold(0, u64::saturating_add)
        };
        self.counted.iter().map(of_connection).collect()
    }

    /// When the server took its count of an interval: the last stream's.
    fn ended(&self, intervals: usize) -> Duration {
        let times = self.counted.iter().flatten().map(|counts| counts.after(intervals).at);
        times.max().unwrap_or_default()
    }

    fn interval(&mut self, number: usize) -> Interval {
        let (bytes, ended) = (self.bytes_after(number), self.ended(number).max(self.until));
        let new = bytes.iter().zip(&self.reported).map(|(now, before)| now.saturating_sub(*before));
        let flows = self.flows(new, ended - self.until);
        let interval = Interval::new(self.until, ended, flows);
        (self.reported, self.until) = (bytes, ended);
        interval
    }

    fn summary(&self, args: &ClientArgs) -> Summary {
        let took = self.ended(usize::MAX);
        let law = match &args.steering {
            Steering::Law(config) => config.law.law(),
            Steering::Quinn => "quinn-cubic",
        };
        Summary::new(law, took, self.flows(self.bytes_after(usize::MAX).into_iter(), took))
    }

    fn flows(&self, bytes: impl Iterator<Item = u64>, time: Duration) -> Vec<Flow> {
        let flows = self.connections.iter().zip(bytes);
        flows.map(|(connection, bytes)| Flow::new(connection, bytes, time)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_interval_may_be_shorter() {
        let ms = Duration::from_millis;
        for (duration, interval, expected) in [(600, 200, 3), (601, 200, 4), (100, 200, 1), (0, 200, 1)] {
            assert_eq!(intervals(ms(duration), ms(interval)), expected, "{duration} by {interval} ms");
        }
    }

    #[test]
    fn an_interval_is_what_the_server_counted_in_it() {
        let counts = Counts::new(3);
        assert_eq!(counts.after(3).bytes, 0);
        for (ms, bytes) in [(200, 10), (400, 30), (600, 31)] {
            counts.add(Count { at: Duration::from_millis(ms), bytes });
        }
        assert_eq!(
            (counts.after(1).bytes, counts.after(2).bytes, counts.after(usize::MAX).bytes),
            (10, 30, 31)
        );
        assert_eq!(counts.after(0), Count::default());
        // A server that goes on and on.
        for bytes in 32..1_000 {
            counts.add(Count { at: Duration::from_secs(1), bytes });
        }
        let kept = counts.read().len();
        assert_eq!((kept, counts.after(usize::MAX).bytes), (4, 999));
    }
}
