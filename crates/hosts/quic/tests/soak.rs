//! Checks that connections leave no state behind when they close.
//!
//! ```text
//! cargo test -p poseidon-quic --features quinn --test soak soak_long -- --ignored --nocapture
//! ```
//!
//! The long test runs for ten minutes, or for `SOAK_SECONDS` seconds if that variable is set.

mod common;

use common::{connect, echo, endpoint, poseidon};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;
use std::{env, fs};
use tokio::time::{Instant, sleep};

const PAUSE: Duration = Duration::from_secs(1);

/// Keeps `concurrency` connections busy for the given duration. Each connection transfers some data, closes
/// and is opened again. Returns the resident memory in KiB in the second quarter and in the second half of
/// the duration.
async fn soak(concurrency: usize, duration: Duration, is_plain_quinn: bool) -> [u64; 2] {
    let (client, server) = (poseidon(|_| ()), poseidon(|_| ()));
    let [client_endpoint, server_endpoint] =
        [&client, &server].map(|poseidon| endpoint((!is_plain_quinn).then_some(poseidon)));
    let address = server_endpoint.local_addr().expect("the socket is bound");
    let end = Instant::now() + duration;
    let completed = Arc::new(AtomicU64::new(0));
    let workers: Vec<_> = (0..concurrency)
        .map(|worker| {
            let (client, server) = (client_endpoint.clone(), server_endpoint.clone());
            let completed = Arc::clone(&completed);
            tokio::spawn(async move {
                while Instant::now() < end {
                    // quinn keeps a closed connection for three probe timeouts, which is seconds on a busy
                    // machine. Memory grows with the number of such connections, so this loop limits that
                    // number.
                    while client.open_connections().max(server.open_connections()) >= 2 * concurrency {
                        sleep(PAUSE / 20).await;
                    }
                    let connection = connect(&client, address).await;
                    echo(&connection, 2_000 + worker * 100).await;
                    connection.close(0_u32.into(), b"");
                    completed.fetch_add(1, Relaxed);
                    // Without a pause, most connections in memory would already be closed.
                    sleep(PAUSE).await;
                }
            })
        })
        .collect();
    let mut sizes = Vec::new();
    let mut max_flows = 0;
    while Instant::now() < end {
        sleep(duration / 20).await;
        sizes.push(resident_kib());
        let flows = [&client, &server].map(|poseidon| poseidon.metrics().flows.len());
        max_flows = flows.into_iter().max().max(Some(max_flows)).unwrap_or(0);
        println!(
            "{:6} connections so far; open {} and {}, flows {flows:?}; resident {} KiB",
            completed.load(Relaxed),
            client_endpoint.open_connections(),
            server_endpoint.open_connections(),
            resident_kib(),
        );
    }
    for worker in workers {
        worker.await.expect("the task does not panic");
    }
    client_endpoint.wait_idle().await;
    server_endpoint.wait_idle().await;
    assert_eq!([client_endpoint.open_connections(), server_endpoint.open_connections()], [0, 0]);
    for poseidon in [&client, &server] {
        common::wait_until("no flow and no handshake remains", || {
            let metrics = poseidon.metrics();
            metrics.flows.is_empty() && metrics.handshakes == 0
        })
        .await;
    }
    let half = sizes.len() / 2;
    let (early, late) = (median(&sizes[half / 2..half]), median(&sizes[half..]));
    println!(
        "{} connections, at most {max_flows} flows; resident {early} KiB in the second quarter, {late} KiB in the second half",
        completed.load(Relaxed)
    );
    println!(
        "\n{{\"test\":\"soak\",\"connections\":{},\"most_flows\":{max_flows},\"early_kib\":{early},\"late_kib\":{late}}}",
        completed.load(Relaxed)
    );
    assert!(completed.load(Relaxed) >= concurrency as u64);
    [early, late]
}

fn median(sizes: &[u64]) -> u64 {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the system is Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("Linux reports VmRSS");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("the value is a number")
}

/// Memory use does not settle within a few seconds, so this test checks only flows and handshakes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_connections_leave_no_state() {
    soak(200, Duration::from_secs(6), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ten minutes: .ci/long"]
async fn soak_long() {
    let [early, late] = soak(200, soak_duration(), false).await;
    assert!(late < early + early / 20, "memory grew from {early} to {late} KiB");
}

/// Runs the same load on plain quinn, for comparison.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by hand: plain quinn with the same connections"]
async fn soak_bare() {
    soak(200, soak_duration(), true).await;
}

fn soak_duration() -> Duration {
    let seconds =
        env::var("SOAK_SECONDS").map_or(600, |text| text.parse().expect("SOAK_SECONDS is a number"));
    Duration::from_secs(seconds)
}
