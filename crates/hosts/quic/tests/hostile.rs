//! Attacks a server with random, mutated, truncated, oversized and replayed datagrams, and with forged
//! telemetry from the peer's address, during an honest transfer.
//!
//! ```text
//! cargo test --release -p poseidon-quic --features quinn --test hostile -- --ignored --nocapture --test-threads=1
//! ```
//!
//! The honest transfer runs at only 20 Mbit/s, so two cores are enough for both ends and the attacker. Any
//! slowdown is then caused by the attack itself rather than by the attacker's CPU use.

mod common;

use common::attack::{Attack, AttackSize, FORGED_DELAY, LONG, LONG_FORGED, SLICE, start_forged_telemetry};
use common::relay::{Link, Relay};
use common::{connect, endpoint, poseidon};
use core::time::Duration;
use poseidon_quic::prefix::{PREFIX_BYTES, Prefix, Tag};
use poseidon_types::random::splitmix64;
use quinn::Connection;
use std::fs;
use std::net::UdpSocket;
use tokio::time::Instant;

const RATE: u64 = 20_000_000;
/// The size of the attack in the short tests, which `.ci/run` runs.
const SHORT: AttackSize = AttackSize { datagrams: 30_000, per_second: 10_000 };

/// Sends data for the given duration and returns the number of echoed bytes.
async fn echo_for(connection: &Connection, duration: Duration) -> u64 {
    let (mut send, mut receive) = connection.open_bi().await.expect("the connection is open");
    let end = Instant::now() + duration;
    let send_all = async {
        while Instant::now() < end {
            send.write_all(&[0x5a; 1 << 14]).await.expect("the peer reads");
        }
        send.reset(0_u32.into()).expect("the stream is open");
    };
    let receive_all = async {
        let mut bytes = 0;
        while let Ok(Ok(Some(chunk))) = tokio::time::timeout_at(end, receive.read_chunk(1 << 16, true)).await
        {
            bytes += chunk.bytes.len() as u64;
        }
        bytes
    };
    tokio::join!(send_all, receive_all).1
}

/// The kind of attack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AttackKind {
    /// Random, mutated and replayed datagrams from another address, with the correct tag.
    Noise,
    /// Forged telemetry from the peer's address, with guessed tags.
    ForgedTelemetry,
    /// The same datagrams sent to plain quinn, to measure the attack's cost without the shim.
    NoiseAgainstPlainQuinn,
}

/// Runs an attack. Returns the median ratio of the goodput under attack to the goodput before it.
async fn run_attack(size: AttackSize, kind: AttackKind) -> f64 {
    let is_plain_quinn = kind == AttackKind::NoiseAgainstPlainQuinn;
    let (client, server) = (poseidon(|_| ()), poseidon(|_| ()));
    let [client_endpoint, server_endpoint] =
        [&client, &server].map(|poseidon| endpoint((!is_plain_quinn).then_some(poseidon)));
    let target = server_endpoint.local_addr().expect("the socket is bound");
    let link =
        Link { rate: Some(RATE), delay: Duration::from_millis(2), max_wait: Duration::from_millis(100) };
    let relay = Relay::start(target, link, 0).await;
    let connection = connect(&client_endpoint, relay.address).await;
    // Warm up so that the windows open.
    echo_for(&connection, SLICE).await;

    let memory_before = resident_kib();
    let attack = if kind == AttackKind::ForgedTelemetry {
        start_forged_telemetry(&relay, target, size)
    } else {
        let tag = server.metrics().flows.first().map_or(1, |flow| flow.tag);
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        Attack::start(size, socket, target, noise_with_tag(tag))
    };
    let mut max_flows = 0;
    let track_max_flows = || max_flows = max_flows.max(server.metrics().flows.len());
    let outcome = attack.run(async |duration| echo_for(&connection, duration).await, track_max_flows).await;
    let (ratio, metrics) = (outcome.median_ratio(), server.metrics());
    println!(
        "{} hostile datagrams, {:.0} per second; honest transfer {:.2} Mbit/s under attack, \
         {ratio:.3} of the rate before (median of {} pairs, {:.3} to {:.3}); resident {memory_before} KiB before, {} after; at most {max_flows} flows; {} unknown tags, {} malformed, {} plain",
        outcome.sent,
        outcome.sent as f64 / outcome.seconds,
        outcome.honest_bytes as f64 * 8.0 / 1e6 / outcome.seconds,
        outcome.ratios.len(),
        outcome.ratios[0],
        outcome.ratios[outcome.ratios.len() - 1],
        resident_kib(),
        metrics.unknown_tag,
        metrics.malformed,
        metrics.plain,
    );
    println!(
        "\n{{\"test\":\"hostile\",\"datagrams\":{},\"goodput_ratio\":{ratio:.4},\"pairs\":{},\"most_flows\":{max_flows},\
         \"resident_growth_kib\":{}}}",
        outcome.sent,
        outcome.ratios.len(),
        resident_kib().cast_signed() - memory_before.cast_signed(),
    );
    // Besides the honest flow, only a few random Initial packets that happen to be valid may open flows.
    assert!(max_flows <= 8, "{max_flows} flows");
    assert!(
        resident_kib() < memory_before + 64 * 1_024,
        "memory grew from {memory_before} to {} KiB",
        resident_kib()
    );
    common::echo(&connection, 100_000).await;
    assert!(is_plain_quinn || server.metrics().flows.iter().any(|flow| flow.shim_negotiated));
    if kind == AttackKind::ForgedTelemetry {
        // Datagrams that arrive at a full socket buffer are lost.
        assert!(metrics.unknown_tag > outcome.sent / 2, "{metrics:?}");
        for flow in client.metrics().flows.iter().chain(&server.metrics().flows) {
            assert!(flow.echoed_range.is_none_or(|(_, max)| max < FORGED_DELAY), "accepted: {flow:?}");
        }
    }
    ratio
}

/// Returns a generator of hostile datagrams. Some of them carry the correct tag.
fn noise_with_tag(tag: Tag) -> impl FnMut(&mut Vec<u8>) + Send + 'static {
    let mut random = 0x5053_u64;
    let mut next = move || {
        random = splitmix64(random);
        random
    };
    let mut replayed = Vec::new();
    let mut number = 0_u64;
    move |bytes| {
        match next() % 8 {
            // Random bytes of any length.
            0 | 1 => fill_with_random_bytes(bytes, (next() % 1_500) as usize, &mut next),
            // A prefix, then random bytes.
            2 | 3 => {
                fill_with_random_bytes(bytes, (next() % 1_500) as usize, &mut next);
                let sender_tag = next().to_be_bytes()[0].into();
                let prefix = Prefix { sender_tag, receiver_tag: tag, ..Prefix::default() };
                let length = PREFIX_BYTES.min(bytes.len());
                bytes[..length].copy_from_slice(&prefix.emit()[..length]);
            }
            // Bytes that resemble an Initial packet.
            4 | 5 => {
                fill_with_random_bytes(bytes, 1_200 + PREFIX_BYTES, &mut next);
                bytes[..PREFIX_BYTES].copy_from_slice(&Prefix::default().emit());
                bytes[PREFIX_BYTES] |= 0xc0;
                bytes[PREFIX_BYTES + 1..PREFIX_BYTES + 6].copy_from_slice(&[0, 0, 0, 1, 8]);
            }
            // An oversized datagram.
            6 => fill_with_random_bytes(bytes, 9_000, &mut next),
            // A truncated replay.
            _ => bytes.extend_from_slice(&replayed[..replayed.len().min((next() % 1_500) as usize)]),
        }
        if number.is_multiple_of(64) {
            replayed.clone_from(bytes);
        }
        number += 1;
    }
}

fn fill_with_random_bytes(bytes: &mut Vec<u8>, length: usize, next: &mut impl FnMut() -> u64) {
    bytes.resize(length, 0);
    for word in bytes.chunks_mut(8) {
        let random = next().to_le_bytes();
        word.copy_from_slice(&random[..word.len()]);
    }
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the system is Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("Linux reports VmRSS");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("the value is a number")
}

/// On a busy machine, noise affects the ratio more than the attack. The long test enforces a limit of 5 %.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_keeps_serving_under_attack() {
    let ratio = run_attack(SHORT, AttackKind::Noise).await;
    assert!(ratio > 0.5, "{ratio}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_telemetry_from_the_peers_address_is_ignored() {
    let ratio = run_attack(SHORT, AttackKind::ForgedTelemetry).await;
    assert!(ratio > 0.5, "{ratio}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "five minutes, ten million datagrams: .ci/long"]
async fn hostile_long() {
    let ratio = run_attack(LONG, AttackKind::Noise).await;
    assert!(ratio > 0.95, "{ratio}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "eleven minutes, ten million datagrams: .ci/long"]
async fn forged_long() {
    let ratio = run_attack(LONG_FORGED, AttackKind::ForgedTelemetry).await;
    assert!(ratio > 0.95, "{ratio}");
}

/// Runs the same attack on plain quinn, for comparison.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by hand: plain quinn under the same attack"]
async fn hostile_bare() {
    run_attack(AttackSize { datagrams: LONG.datagrams / 5, ..LONG }, AttackKind::NoiseAgainstPlainQuinn)
        .await;
}
