//! Connections that come and go leave nothing behind.
//!
//! ```text
//! cargo test -p poseidon-quic --test soak soak_long -- --ignored --nocapture       # ten minutes; SOAK_SECONDS=180 is three
//! ```

mod common;

use common::{connect, echo, endpoint, poseidon};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;
use std::{env, fs};
use tokio::time::{Instant, sleep};

const PAUSE: Duration = Duration::from_secs(1);

/// `at_once` connections, each echoing a little, closing and coming again, until the time is over. Gives the memory in use, KiB, in the
/// second quarter of the time and in its second half.
async fn soak(at_once: usize, time: Duration, is_bare: bool) -> [u64; 2] {
    let (client, server) = (poseidon(|_| ()), poseidon(|_| ()));
    let [from, to] = [&client, &server].map(|poseidon| endpoint((!is_bare).then_some(poseidon)));
    let address = to.local_addr().expect("bound");
    let end = Instant::now() + time;
    let done = Arc::new(AtomicU64::new(0));
    let workers: Vec<_> = (0..at_once)
        .map(|worker| {
            let (from, to, done) = (from.clone(), to.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                while Instant::now() < end {
                    // A closed connection is kept for three timeouts, which are seconds where a machine is busy. Memory is the most that
                    // were ever kept at a time, so that is bounded.
                    while from.open_connections().max(to.open_connections()) >= 2 * at_once {
                        sleep(PAUSE / 20).await;
                    }
                    let connection = connect(&from, address).await;
                    echo(&connection, 2_000 + worker * 100).await;
                    connection.close(0_u32.into(), b"");
                    done.fetch_add(1, Relaxed);
                    // Without a pause, those that are kept are most.
                    sleep(PAUSE).await;
                }
            })
        })
        .collect();
    // Sizes are taken when everything has been allocated that a steady state needs.
    let mut sizes = Vec::new();
    let mut most_flows = 0;
    while Instant::now() < end {
        sleep(time / 20).await;
        sizes.push(resident_kib());
        let flows = [&client, &server].map(|poseidon| poseidon.metrics().flows.len());
        most_flows = flows.into_iter().max().max(Some(most_flows)).unwrap_or(0);
        println!(
            "{:6} connections so far; open {} and {}, flows {flows:?}; resident {} KiB",
            done.load(Relaxed),
            from.open_connections(),
            to.open_connections(),
            resident_kib(),
        );
    }
    for worker in workers {
        worker.await.expect("no panic");
    }
    from.wait_idle().await;
    to.wait_idle().await;
    assert_eq!([from.open_connections(), to.open_connections()], [0, 0]);
    for poseidon in [&client, &server] {
        common::until("no flow and no handshake is left", || {
            let metrics = poseidon.metrics();
            metrics.flows.is_empty() && metrics.handshakes == 0
        })
        .await;
    }
    let half = sizes.len() / 2;
    let (early, late) = (median(&sizes[half / 2..half]), median(&sizes[half..]));
    println!(
        "{} connections, {most_flows} flows at most; resident {early} KiB in the second quarter, {late} KiB in the second half",
        done.load(Relaxed)
    );
    println!(
        "\n{{\"test\":\"soak\",\"connections\":{},\"most_flows\":{most_flows},\"early_kib\":{early},\"late_kib\":{late}}}",
        done.load(Relaxed)
    );
    assert!(done.load(Relaxed) >= at_once as u64);
    [early, late]
}

fn median(sizes: &[u64]) -> u64 {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it is there");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

/// Seconds are too short for memory to settle; what is held per connection is counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_connections_come_and_go() {
    soak(200, Duration::from_secs(6), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ten minutes: .ci/long"]
async fn soak_long() {
    let [early, late] = soak(200, asked(), false).await;
    assert!(late < early + early / 20, "memory grew from {early} to {late} KiB");
}

/// To compare with: what quinn itself does on the same machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by hand: plain quinn with the same connections"]
async fn soak_bare() {
    soak(200, asked(), true).await;
}

fn asked() -> Duration {
    let seconds = env::var("SOAK_SECONDS").map_or(600, |text| text.parse().expect("a number of seconds"));
    Duration::from_secs(seconds)
}
