//! A server under fire: random, mutated, truncated, oversized and replayed datagrams, while honest connections work.
//!
//! ```text
//! cargo test --release -p poseidon-quic --test hostile -- --ignored --nocapture --test-threads=1
//! ```
//!
//! Honest work is 20 Mbit/s: so little that both ends and the attacker find room on two cores, and what is lost is lost to the attack and
//! not to the attacker's computing.

mod common;

use common::relay::{Link, Relay};
use common::{connect, endpoint, poseidon};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use poseidon_quic::prefix::{PREFIX_BYTES, Prefix};
use poseidon_types::chance::mix;
use quinn::Connection;
use std::fs;
use std::net::UdpSocket;
use std::sync::Arc;
use std::thread;
use tokio::time::Instant;

const RATE: u64 = 20_000_000;
/// Datagrams between two pauses.
const BURST: u64 = 100;
const SLICE: Duration = Duration::from_secs(1);

/// Datagrams, and how many per second at most.
#[derive(Clone, Copy)]
struct Attack {
    datagrams: u64,
    per_second: u64,
}

const LONG: Attack = Attack { datagrams: 10_000_000, per_second: 75_000 };

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

/// Honest work in slices, under fire in every second one. Gives the median of what a slice under fire gets of the one before. With
/// `is_bare`, both ends are plain quinn: what the same fire costs a server without the shim.
async fn under_fire(attack: Attack, is_bare: bool) -> f64 {
    let (client, server) = (poseidon(|_| ()), poseidon(|_| ()));
    let [from, to] = [&client, &server].map(|poseidon| endpoint((!is_bare).then_some(poseidon)));
    let target = to.local_addr().expect("bound");
    let link = Link { rate: Some(RATE), delay: Duration::from_millis(2), room: Duration::from_millis(100) };
    let relay = Relay::start(target, link, 0).await;
    let connection = connect(&from, relay.address).await;
    // Windows open.
    echoed(&connection, SLICE).await;

    let memory = resident_kib();
    let (firing, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let attacker = {
        let (firing, sent) = (Arc::clone(&firing), Arc::clone(&sent));
        let mut tags = server.metrics().flows.iter().map(|flow| flow.tag).collect::<Vec<_>>();
        if is_bare {
            tags.push(1);
        }
        thread::spawn(move || fire(target, &tags, &attack, &firing, &sent))
    };
    let (mut ratios, mut most_flows, mut honest) = (Vec::new(), 0, 0);
    while !attacker.is_finished() {
        let quiet = echoed(&connection, SLICE).await;
        firing.store(true, Relaxed);
        let loud = echoed(&connection, SLICE).await;
        firing.store(false, Relaxed);
        ratios.push(loud as f64 / quiet as f64);
        honest += loud;
        most_flows = most_flows.max(server.metrics().flows.len());
    }
    attacker.join().expect("no panic");
    ratios.sort_unstable_by(f64::total_cmp);
    let (ratio, metrics) = (ratios[ratios.len() / 2], server.metrics());
    let seconds = ratios.len() as f64 * SLICE.as_secs_f64();
    println!(
        "{} hostile datagrams, {:.0} per second; honest {:.2} Mbit/s under fire, {ratio:.3} of what it is without, median of {} pairs \
         ({:.3} to {:.3}); resident {memory} KiB before, {} after; {most_flows} flows at most; {} strangers, {} malformed, {} plain",
        sent.load(Relaxed),
        sent.load(Relaxed) as f64 / seconds,
        honest as f64 * 8.0 / 1e6 / seconds,
        ratios.len(),
        ratios[0],
        ratios[ratios.len() - 1],
        resident_kib(),
        metrics.strangers,
        metrics.malformed,
        metrics.plain,
    );
    println!(
        "\n{{\"test\":\"hostile\",\"datagrams\":{},\"goodput_ratio\":{ratio:.4},\"pairs\":{},\"most_flows\":{most_flows},\
         \"resident_growth_kib\":{}}}",
        sent.load(Relaxed),
        ratios.len(),
        resident_kib().cast_signed() - memory.cast_signed(),
    );
    // The honest one, and at most a few Initials that happen to be valid.
    assert!(most_flows <= 8, "{most_flows} flows");
    assert!(resident_kib() < memory + 64 * 1_024, "memory grew from {memory} to {} KiB", resident_kib());
    common::echo(&connection, 100_000).await;
    assert!(is_bare || server.metrics().flows.iter().any(|flow| flow.speaks_shim));
    ratio
}

fn fire(target: SocketAddr, tags: &[u16], attack: &Attack, firing: &AtomicBool, sent: &AtomicU64) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let mut random = 0x5053_u64;
    let mut next = || {
        random = mix(random);
        random
    };
    let mut bytes = vec![0; 65_000];
    let mut last = Vec::new();
    let mut known = tags.iter().cycle();
    let mut due = Instant::now();
    for number in 0..attack.datagrams {
        while !firing.load(Relaxed) {
            pause(Duration::from_millis(1));
            due = Instant::now();
        }
        if number % BURST == 0 {
            due += Duration::from_micros(BURST * 1_000_000 / attack.per_second);
            pause(due.saturating_duration_since(Instant::now()));
        }
        let datagram: &[u8] = match next() % 8 {
            // Noise of any length.
            0 | 1 => fill(&mut bytes, (next() % 1_500) as usize, &mut next),
            // A prefix, then noise.
            2 | 3 => {
                let length = (next() % 1_500) as usize;
                let filled = fill(&mut bytes, length, &mut next);
                let tag = *known.next().expect("the honest one has a tag");
                let prefix = Prefix { mine: next().to_be_bytes()[0].into(), yours: tag, ..Prefix::default() };
                let head = PREFIX_BYTES.min(filled.len());
                filled[..head].copy_from_slice(&prefix.emit()[..head]);
                filled
            }
            // Something like an Initial.
            4 | 5 => {
                let filled = fill(&mut bytes, 1_200 + PREFIX_BYTES, &mut next);
                filled[..PREFIX_BYTES].copy_from_slice(&Prefix::default().emit());
                filled[PREFIX_BYTES] |= 0xc0;
                filled[PREFIX_BYTES + 1..PREFIX_BYTES + 6].copy_from_slice(&[0, 0, 0, 1, 8]);
                filled
            }
            // Oversized.
            6 => fill(&mut bytes, 9_000, &mut next),
            // Once more what went before, cut.
            _ => &last[..last.len().min((next() % 1_500) as usize)],
        };
        // A full buffer drops it, as a network would.
        if socket.send_to(datagram, target).is_ok() {
            sent.fetch_add(1, Relaxed);
        }
        if number % 64 == 0 {
            last = datagram.to_vec();
        }
    }
}

fn fill<'a>(bytes: &'a mut [u8], length: usize, next: &mut impl FnMut() -> u64) -> &'a mut [u8] {
    let filled = &mut bytes[..length];
    for word in filled.chunks_mut(8) {
        let noise = next().to_le_bytes();
        word.copy_from_slice(&noise[..word.len()]);
    }
    filled
}

fn pause(time: Duration) {
    #[expect(clippy::disallowed_methods, reason = "an attack takes real time")]
    thread::sleep(time);
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it is there");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

/// A busy machine moves the ratio more than the attack does; the long form holds it to 5 %.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_under_fire_goes_on() {
    let ratio = under_fire(Attack { datagrams: 30_000, per_second: 10_000 }, false).await;
    assert!(ratio > 0.5, "{ratio}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "five minutes, ten million datagrams: .ci/long"]
async fn hostile_long() {
    let ratio = under_fire(LONG, false).await;
    assert!(ratio > 0.95, "{ratio}");
}

/// To compare with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by hand: plain quinn under the same attack"]
async fn hostile_bare() {
    under_fire(Attack { datagrams: LONG.datagrams / 5, ..LONG }, true).await;
}
