//! Sends data and reports the bytes that the server counted.

use super::endpoint::{Role, SERVER_NAME, create_endpoint};
use super::metrics::serve_metrics;
use super::options::{ClientOptions, CongestionControl, PerfError};
use super::qlog::QlogWriter;
use super::report::{FlowReport, IntervalReport, Summary};
use super::server::Count;
use super::stop::StopSignal;
use core::time::Duration;
use poseidon_quic::Poseidon;
use poseidon_quic::quinn::ConnectError;
use quinn::{Connection, Endpoint, RecvStream, SendStream, VarInt};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const CHUNK_BYTES: usize = 1 << 16;
/// The maximum time to wait for the server to count the bytes in flight at the end.
const FINAL_COUNT_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends data until the duration has passed or a stop is requested. Calls `report` after each interval.
pub(super) async fn run(
    mut options: ClientOptions,
    stop: &StopSignal,
    mut report: impl FnMut(&IntervalReport),
) -> Result<Summary, PerfError> {
    let mut qlog = None;
    if let (Some(path), CongestionControl::Law(config)) = (&options.qlog, &mut options.control) {
        let writer =
            QlogWriter::open(path, options.qlog_interval).map_err(PerfError::io("opening the log"))?;
        config.observer = Some(writer.observer());
        qlog = Some(writer);
    }
    let role = Role::Client { authority: options.authority.as_deref() };
    let (endpoint, poseidon) = create_endpoint(&options.control, options.bind, options.ip_mtu, role)?;
    if let Some((address, poseidon)) = options.metrics.zip(poseidon.clone()) {
        serve_metrics(address, poseidon)?;
    }
    let mut connections = Vec::new();
    for _ in 0..options.connections.max(1) {
        connections.push(connect(&endpoint, poseidon.as_ref(), &options).await?);
    }
    let intervals = interval_count(options.duration, options.interval);
    let mut transfers = JoinSet::new();
    let mut counts = Vec::new();
    for connection in &connections {
        let streams: Vec<_> =
            (0..options.streams.max(1)).map(|_| Arc::new(StreamCounts::new(intervals))).collect();
        for stream in &streams {
            let (send, receive) = connection.open_bi().await.map_err(PerfError::connection_failed)?;
            transfers.spawn(transfer(send, receive, StreamSettings::new(&options, stop), Arc::clone(stream)));
        }
        counts.push(streams);
    }
    let mut progress =
        Progress { connections, counts, reported_bytes: Vec::new(), reported_until: Duration::ZERO };
    progress.reported_bytes = progress.bytes_after(0);
    for number in 1..intervals {
        tokio::select! {
            () = progress.wait_for_count(number, options.interval) => report(&progress.next_interval(number)),
            // A transfer ends early only if the connection failed.
            Some(result) = transfers.join_next() => {
                result.map_err(PerfError::connection_failed)??;
            }
            () = stop.wait() => break,
        }
    }
    let all_transfers = timeout(FINAL_COUNT_TIMEOUT + options.interval, async {
        while let Some(result) = transfers.join_next().await {
            result.map_err(PerfError::connection_failed)??;
        }
        Ok::<(), PerfError>(())
    });
    all_transfers.await.map_err(|_| PerfError::connection_failed("the server did not answer"))??;
    report(&progress.next_interval(usize::MAX));
    let summary = progress.summary(&options);
    endpoint.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    if let Some(qlog) = qlog {
        qlog.close().map_err(PerfError::io("writing the log"))?;
    }
    Ok(summary)
}

/// Returns the number of intervals. The last interval may be shorter.
fn interval_count(duration: Duration, interval: Duration) -> usize {
    let count = duration.as_nanos().div_ceil(interval.as_nanos().max(1)).max(1);
    usize::try_from(count).unwrap_or(usize::MAX)
}

async fn connect(
    endpoint: &Endpoint,
    poseidon: Option<&Poseidon>,
    options: &ClientOptions,
) -> Result<Connection, PerfError> {
    let name = options.server_name.as_deref().unwrap_or(SERVER_NAME);
    let Some(poseidon) = poseidon else {
        let rejected = |error| PerfError::Connect(ConnectError::Rejected(error));
        let connecting = endpoint.connect(options.server, name).map_err(rejected)?;
        return connecting.await.map_err(|error| PerfError::Connect(ConnectError::Failed(error)));
    };
    poseidon.connect(endpoint, options.server, name).await.map_err(PerfError::Connect)
}

/// The settings of one stream.
struct StreamSettings {
    interval: Duration,
    duration: Duration,
    stop: StopSignal,
}

impl StreamSettings {
    fn new(options: &ClientOptions, stop: &StopSignal) -> Self {
        Self { interval: options.interval, duration: options.duration, stop: stop.clone() }
    }
}

/// Runs one stream: writes until the duration has passed, and stores the counts that the server reports.
async fn transfer(
    mut send: SendStream,
    mut receive: RecvStream,
    settings: StreamSettings,
    counts: Arc<StreamCounts>,
) -> Result<(), PerfError> {
    let send_data = async {
        let interval_ms = u32::try_from(settings.interval.as_millis()).unwrap_or(u32::MAX);
        send.write_all(&interval_ms.to_be_bytes()).await.map_err(PerfError::connection_failed)?;
        let chunk = vec![0x5a; CHUNK_BYTES];
        let end = Instant::now() + settings.duration;
        while Instant::now() < end && !settings.stop.is_requested() {
            send.write_all(&chunk).await.map_err(PerfError::connection_failed)?;
        }
        send.finish().map_err(PerfError::connection_failed)
    };
    let receive_counts = async {
        let mut bytes = [0; Count::BYTES];
        while receive.read_exact(&mut bytes).await.is_ok() {
            counts.add(Count::parse(bytes));
        }
        Ok(())
    };
    tokio::try_join!(send_data, receive_counts).map(|_| ())
}

/// The counts that the server reported for one stream, one per interval.
///
/// The list contains at most one count per interval and one for the end of the stream, even if the server sends
/// more.
#[derive(Debug)]
struct StreamCounts {
    limit: usize,
    counts: Mutex<Vec<Count>>,
    changed: Notify,
}

impl StreamCounts {
    fn new(intervals: usize) -> Self {
        Self { limit: intervals.saturating_add(1), counts: Mutex::default(), changed: Notify::new() }
    }

    fn add(&self, count: Count) {
        let mut counts = self.lock();
        if counts.len() == self.limit {
            counts.pop();
        }
        counts.push(count);
        drop(counts);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the count after this number of intervals, or the last count if there are fewer.
    fn count_after(&self, intervals: usize) -> Count {
        let counts = self.lock();
        let available = counts.len().min(intervals);
        available.checked_sub(1).map_or_else(Count::default, |last| counts[last])
    }

    async fn wait_for_count(&self, number: usize) {
        while self.lock().len() < number {
            self.changed.notified().await;
        }
    }
}

/// The progress of all connections, used to create the reports.
struct Progress {
    connections: Vec<Connection>,
    /// The counts, by connection and stream.
    counts: Vec<Vec<Arc<StreamCounts>>>,
    /// The number of bytes in all reports so far, by connection.
    reported_bytes: Vec<u64>,
    /// The end of the last reported interval, on the server's clock.
    reported_until: Duration,
}

impl Progress {
    /// Waits for the server's counts of an interval, for at most twice the interval.
    async fn wait_for_count(&self, number: usize, interval: Duration) {
        let all_counts = async {
            for stream in self.counts.iter().flatten() {
                stream.wait_for_count(number).await;
            }
        };
        tokio::select! {
            () = all_counts => (),
            () = sleep(interval * 2) => (),
        }
    }

    fn bytes_after(&self, intervals: usize) -> Vec<u64> {
        let connection_bytes = |streams: &Vec<Arc<StreamCounts>>| {
            streams.iter().map(|stream| stream.count_after(intervals).bytes).fold(0, u64::saturating_add)
        };
        self.counts.iter().map(connection_bytes).collect()
    }

    /// Returns the time at which the server counted the last stream of an interval.
    fn end_time(&self, intervals: usize) -> Duration {
        let times = self.counts.iter().flatten().map(|stream| stream.count_after(intervals).time);
        times.max().unwrap_or_default()
    }

    fn next_interval(&mut self, number: usize) -> IntervalReport {
        let (bytes, end) = (self.bytes_after(number), self.end_time(number).max(self.reported_until));
        let new_bytes =
            bytes.iter().zip(&self.reported_bytes).map(|(now, before)| now.saturating_sub(*before));
        let flows = self.flow_reports(new_bytes, end - self.reported_until);
        let interval = IntervalReport::new(self.reported_until, end, flows);
        (self.reported_bytes, self.reported_until) = (bytes, end);
        interval
    }

    fn summary(&self, options: &ClientOptions) -> Summary {
        let duration = self.end_time(usize::MAX);
        let law = match &options.control {
            CongestionControl::Law(config) => config.law.law_name(),
            CongestionControl::QuinnCubic => "quinn-cubic",
        };
        let bytes = self.bytes_after(usize::MAX);
        Summary::new(law, duration, self.flow_reports(bytes.into_iter(), duration))
    }

    fn flow_reports(&self, bytes: impl Iterator<Item = u64>, duration: Duration) -> Vec<FlowReport> {
        let flows = self.connections.iter().zip(bytes);
        flows.map(|(connection, bytes)| FlowReport::new(connection, bytes, duration)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_interval_may_be_shorter() {
        let ms = Duration::from_millis;
        for (duration, interval, expected) in [(600, 200, 3), (601, 200, 4), (100, 200, 1), (0, 200, 1)] {
            assert_eq!(interval_count(ms(duration), ms(interval)), expected, "{duration} by {interval} ms");
        }
    }

    #[test]
    fn number_of_stored_counts_is_limited() {
        let counts = StreamCounts::new(3);
        assert_eq!(counts.count_after(3).bytes, 0);
        for (ms, bytes) in [(200, 10), (400, 30), (600, 31)] {
            counts.add(Count { time: Duration::from_millis(ms), bytes });
        }
        assert_eq!(
            (counts.count_after(1).bytes, counts.count_after(2).bytes, counts.count_after(usize::MAX).bytes),
            (10, 30, 31)
        );
        assert_eq!(counts.count_after(0), Count::default());
        // The server never stops sending counts.
        for bytes in 32..1_000 {
            counts.add(Count { time: Duration::from_secs(1), bytes });
        }
        let stored = counts.lock().len();
        assert_eq!((stored, counts.count_after(usize::MAX).bytes), (4, 999));
    }
}
