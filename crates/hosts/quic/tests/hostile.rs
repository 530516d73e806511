//! A server under fire: random, mutated, truncated, oversized and replayed datagrams, and telemetry forged in the peer's name, while
//! honest connections work.
//!
//! ```text
//! cargo test --release -p poseidon-quic --test hostile -- --ignored --nocapture --test-threads=1
//! ```
//!
//! Honest work is 20 Mbit/s: so little that both ends and the attacker find room on two cores, and what is lost is lost to the attack and
//! not to the attacker's computing.

mod common;

use common::attack::{Attack, FORGED, LONG, SLICE, Size, forge_as_peer};
use common::relay::{Link, Relay};
use common::{connect, endpoint, poseidon};
use core::time::Duration;
use poseidon_quic::prefix::{PREFIX_BYTES, Prefix, Tag};
use poseidon_types::chance::mix;
use quinn::Connection;
use std::fs;
use std::net::UdpSocket;
use tokio::time::Instant;

const RATE: u64 = 20_000_000;
/// What fits into `.ci/run`.
const SHORT: Size = Size { datagrams: 30_000, per_second: 10_000 };

/// Bytes that a connection gets back in this time.
async fn echoed(connection: &Connection, time: Duration) -> u64 {
    let (mut send, mut receive) = connection.open_bi().await.expect("the connection is up");
    let end = Instant::now() + time;
    let out = async {
        while Instant::now() < end {
            send.write_all(&[0x5a; 1 << 14]).await.expect("the peer reads");
        }
        send.reset(0_u32.into()).expect("not ended");
    };
    let back = async {
        let mut bytes = 0;
        while let Ok(Ok(Some(chunk))) = tokio::time::timeout_at(end, receive.read_chunk(1 << 16, true)).await
        {
            bytes += chunk.bytes.len() as u64;
        }
        bytes
    };
    tokio::join!(out, back).1
}

/// Who attacks whom.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    /// Strangers send noise, mutated and replayed datagrams, with the right tag.
    Strangers,
    /// Somebody sends in the name of the peer, without its tag.
    InThePeersName,
    /// Strangers, and both ends are plain quinn: what the same attack costs a server without the shim.
    StrangersOfPlainQuinn,
}

/// Gives the median of what a slice under attack gets of the one before.
async fn under_fire(size: Size, who: Who) -> f64 {
    let is_bare = who == Who::StrangersOfPlainQuinn;
    let (client, server) = (poseidon(|_| ()), poseidon(|_| ()));
    let [from, to] = [&client, &server].map(|poseidon| endpoint((!is_bare).then_some(poseidon)));
    let target = to.local_addr().expect("bound");
    let link = Link { rate: Some(RATE), delay: Duration::from_millis(2), room: Duration::from_millis(100) };
    let relay = Relay::start(target, link, 0).await;
    let connection = connect(&from, relay.address).await;
    // Windows open.
    echoed(&connection, SLICE).await;

    let memory = resident_kib();
    let attack = if who == Who::InThePeersName {
        forge_as_peer(&relay, target, size)
    } else {
        let tag = server.metrics().flows.first().map_or(1, |flow| flow.tag);
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        Attack::start(size, socket, target, noise(tag))
    };
    let mut most_flows = 0;
    let count_flows = || most_flows = most_flows.max(server.metrics().flows.len());
    let outcome = attack.run(async |time| echoed(&connection, time).await, count_flows).await;
    let (ratio, metrics) = (outcome.median(), server.metrics());
    println!(
        "{} hostile datagrams, {:.0} per second; honest {:.2} Mbit/s under fire, {ratio:.3} of what it is without, median of {} pairs \
         ({:.3} to {:.3}); resident {memory} KiB before, {} after; {most_flows} flows at most; {} strangers, {} malformed, {} plain",
        outcome.sent,
        outcome.sent as f64 / outcome.seconds,
        outcome.honest as f64 * 8.0 / 1e6 / outcome.seconds,
        outcome.ratios.len(),
        outcome.ratios[0],
        outcome.ratios[outcome.ratios.len() - 1],
        resident_kib(),
        metrics.strangers,
        metrics.malformed,
        metrics.plain,
    );
    println!(
        "\n{{\"test\":\"hostile\",\"datagrams\":{},\"goodput_ratio\":{ratio:.4},\"pairs\":{},\"most_flows\":{most_flows},\
         \"resident_growth_kib\":{}}}",
        outcome.sent,
        outcome.ratios.len(),
        resident_kib().cast_signed() - memory.cast_signed(),
    );
    // The honest one, and at most a few Initials that happen to be valid.
    assert!(most_flows <= 8, "{most_flows} flows");
    assert!(resident_kib() < memory + 64 * 1_024, "memory grew from {memory} to {} KiB", resident_kib());
    common::echo(&connection, 100_000).await;
    assert!(is_bare || server.metrics().flows.iter().any(|flow| flow.speaks_shim));
    if who == Who::InThePeersName {
        // Where the server's buffer was full, a forged datagram did not arrive.
        assert!(metrics.strangers > outcome.sent / 2, "{metrics:?}");
        for flow in client.metrics().flows.iter().chain(&server.metrics().flows) {
            assert!(flow.told.is_none_or(|(_, most)| most < FORGED), "believed: {flow:?}");
        }
    }
    ratio
}

/// Datagrams of strangers who know a tag.
fn noise(tag: Tag) -> impl FnMut(&mut Vec<u8>) + Send + 'static {
    let mut random = 0x5053_u64;
    let mut next = move || {
        random = mix(random);
        random
    };
    let mut last = Vec::new();
    let mut number = 0_u64;
    move |bytes| {
        match next() % 8 {
            // Noise of any length.
            0 | 1 => fill(bytes, (next() % 1_500) as usize, &mut next),
            // A prefix, then noise.
            2 | 3 => {
                fill(bytes, (next() % 1_500) as usize, &mut next);
                let prefix = Prefix { mine: next().to_be_bytes()[0].into(), yours: tag, ..Prefix::default() };
                let head = PREFIX_BYTES.min(bytes.len());
                bytes[..head].copy_from_slice(&prefix.emit()[..head]);
            }
            // Something like an Initial.
            4 | 5 => {
                fill(bytes, 1_200 + PREFIX_BYTES, &mut next);
                bytes[..PREFIX_BYTES].copy_from_slice(&Prefix::default().emit());
                bytes[PREFIX_BYTES] |= 0xc0;
                bytes[PREFIX_BYTES + 1..PREFIX_BYTES + 6].copy_from_slice(&[0, 0, 0, 1, 8]);
            }
            // Oversized.
            6 => fill(bytes, 9_000, &mut next),
            // Once more what went before, cut.
            _ => bytes.extend_from_slice(&last[..last.len().min((next() % 1_500) as usize)]),
        }
        if number.is_multiple_of(64) {
            last.clone_from(bytes);
        }
        number += 1;
    }
}

fn fill(bytes: &mut Vec<u8>, length: usize, next: &mut impl FnMut() -> u64) {
    bytes.resize(length, 0);
    for word in bytes.chunks_mut(8) {
        let noise = next().to_le_bytes();
        word.copy_from_slice(&noise[..word.len()]);
    }
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it is there");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

/// A busy machine moves the ratio more than the attack does; the long form holds it to 5 %.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_under_fire_goes_on() {
    let ratio = under_fire(SHORT, Who::Strangers).await;
    assert!(ratio > 0.5, "{ratio}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn telemetry_forged_in_the_peers_name_is_ignored() {
    let ratio = under_fire(SHORT, Who::InThePeersName).await;
    assert!(ratio > 0.5, "{ratio}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "five minutes, ten million datagrams: .ci/long"]
async fn hostile_long() {
    let ratio = under_fire(LONG, Who::Strangers).await;
    assert!(ratio > 0.95, "{ratio}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "five minutes, ten million datagrams: .ci/long"]
async fn forged_long() {
    let ratio = under_fire(LONG, Who::InThePeersName).await;
    assert!(ratio > 0.95, "{ratio}");
}

/// To compare with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by hand: plain quinn under the same attack"]
async fn hostile_bare() {
    under_fire(Size { datagrams: LONG.datagrams / 5, ..LONG }, Who::StrangersOfPlainQuinn).await;
}
