//! Sends hostile datagrams to a server in bursts, while an honest transfer runs in alternating slices with and
//! without the attack.

use super::relay::Relay;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use poseidon_quic::prefix::{Prefix, Tag};
use poseidon_types::Nanos;
use poseidon_types::random::splitmix64;
use poseidon_wire::{reflection, shim};
use std::net::UdpSocket;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// The number of datagrams between two pauses.
const BURST: u64 = 100;
/// The length of a slice, with or without the attack.
pub(crate) const SLICE: Duration = Duration::from_secs(1);

/// The number and the rate of the hostile datagrams.
#[derive(Clone, Copy)]
pub(crate) struct AttackSize {
    pub(crate) datagrams: u64,
    pub(crate) per_second: u64,
}

/// The size of the attack in the long tests.
pub(crate) const LONG: AttackSize = AttackSize { datagrams: 10_000_000, per_second: 75_000 };

/// The size of the attack with forged telemetry. At 75,000 datagrams per second the attacker and both ends exhaust two
/// cores, and the honest transfer keeps only 0.91 to 0.93 of its goodput.
pub(crate) const LONG_FORGED: AttackSize = AttackSize { datagrams: 10_000_000, per_second: 30_000 };

/// A thread that sends hostile datagrams while the attack is enabled.
pub(crate) struct Attack {
    is_enabled: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

/// The result of an attack.
pub(crate) struct Outcome {
    /// The number of hostile datagrams sent.
    pub(crate) sent: u64,
    /// The duration of the attack.
    pub(crate) seconds: f64,
    /// The number of bytes that the honest transfer moved during the attack.
    pub(crate) honest_bytes: u64,
    /// The bytes moved in each slice under attack, relative to the preceding slice, in ascending order.
    pub(crate) ratios: Vec<f64>,
}

impl Outcome {
    pub(crate) fn median_ratio(&self) -> f64 {
        self.ratios[self.ratios.len() / 2]
    }
}

impl Attack {
    /// Starts the thread with the attack disabled. `craft` writes each datagram.
    pub(crate) fn start(
        size: AttackSize,
        socket: UdpSocket,
        target: SocketAddr,
        mut craft: impl FnMut(&mut Vec<u8>) + Send + 'static,
    ) -> Self {
        let (is_enabled, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (is_enabled_in_thread, sent_in_thread) = (Arc::clone(&is_enabled), Arc::clone(&sent));
        let thread = thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut due = now();
            for number in 0..size.datagrams {
                while !is_enabled_in_thread.load(Relaxed) {
                    pause(Duration::from_millis(1));
                    due = now();
                }
                if number % BURST == 0 {
                    due += Duration::from_micros(BURST * 1_000_000 / size.per_second);
                    pause(due.saturating_duration_since(now()));
                }
                bytes.clear();
                craft(&mut bytes);
                // If the socket buffer is full, the datagram is dropped, as in a real network.
                if socket.send_to(&bytes, target).is_ok() {
                    sent_in_thread.fetch_add(1, Relaxed);
                }
            }
        });
        Self { is_enabled, sent, thread }
    }

    /// Runs until all hostile datagrams are sent. `transfer` runs the honest transfer for one slice and returns
    /// the number of bytes moved. `after_pair` is called after each pair of slices.
    pub(crate) async fn run(
        self,
        transfer: impl AsyncFn(Duration) -> u64,
        mut after_pair: impl FnMut(),
    ) -> Outcome {
        let (mut ratios, mut honest_bytes) = (Vec::new(), 0);
        while !self.thread.is_finished() {
            let bytes_before = transfer(SLICE).await;
            self.is_enabled.store(true, Relaxed);
            let bytes_under_attack = transfer(SLICE).await;
            self.is_enabled.store(false, Relaxed);
            ratios.push(bytes_under_attack as f64 / bytes_before as f64);
            honest_bytes += bytes_under_attack;
            after_pair();
        }
        self.thread.join().expect("the thread does not panic");
        let seconds = ratios.len() as f64 * SLICE.as_secs_f64();
        ratios.sort_unstable_by(f64::total_cmp);
        Outcome { sent: self.sent.load(Relaxed), seconds, honest_bytes, ratios }
    }
}

/// The wire code for a delay that no honest switch in the tests writes.
const FORGED_CODE: u16 = 0xf00d;
/// The delay that this code represents.
pub(crate) const FORGED_DELAY: Nanos = Nanos::new((FORGED_CODE as u64) << 8);

/// Starts an attacker that knows addresses, ports and software but cannot observe packets. It sends from the
/// peer's own address, through a copy of the relay's socket, and forges long delays under guessed tags.
pub(crate) fn start_forged_telemetry(relay: &Relay, target: SocketAddr, size: AttackSize) -> Attack {
    let mut random = 0x5053_u64;
    Attack::start(size, relay.clone_server_socket(), target, move |bytes| {
        random = splitmix64(random);
        let [a, b, c, d, e, f, g, h] = random.to_be_bytes();
        let guess = Tag::from_be_bytes([a, b, c, d]);
        // Also guesses small numbers, in case the endpoint assigns sequential tags.
        let receiver_tag = if h % 4 == 0 { guess % 1_024 } else { guess };
        let prefix = Prefix {
            shim: Some(shim::Repr { int_hops: 1, max_hop_delay: FORGED_CODE, ..shim::Repr::default() }),
            reflection: Some(reflection::Repr {
                int_hops: 1,
                max_hop_delay: FORGED_CODE,
                ..reflection::Repr::default()
            }),
            sender_tag: Tag::from_be_bytes([e, f, g, h]) % 2_048,
            receiver_tag: receiver_tag.max(1),
        };
        bytes.extend_from_slice(&prefix.emit());
        // A short header, followed by random bytes.
        bytes.push(0x40 | (a & 0x3f));
        while bytes.len() < 60 + usize::from(b) {
            random = splitmix64(random);
            bytes.extend_from_slice(&random.to_be_bytes());
        }
    })
}

fn pause(duration: Duration) {
    #[expect(clippy::disallowed_methods, reason = "the attack runs in real time")]
    thread::sleep(duration);
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "the attack runs in real time")]
    Instant::now()
}
