//! Hostile datagrams at a server, in bursts, while honest work goes on in slices of time: under attack in every second one.

use super::relay::Relay;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use poseidon_quic::prefix::{Prefix, Tag};
use poseidon_types::{Nanos, chance::mix};
use poseidon_wire::{reflection, shim};
use std::net::UdpSocket;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Datagrams between two pauses.
const BURST: u64 = 100;
/// How long honest work is measured with and without the attack, in turn.
pub(crate) const SLICE: Duration = Duration::from_secs(1);

/// Datagrams, and how many per second at most.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) datagrams: u64,
    pub(crate) per_second: u64,
}

/// What the long tests send.
pub(crate) const LONG: Size = Size { datagrams: 10_000_000, per_second: 75_000 };

/// A thread that attacks when it is told to.
pub(crate) struct Attack {
    is_on: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

/// What honest work got.
pub(crate) struct Outcome {
    pub(crate) sent: u64,
    pub(crate) seconds: f64,
    /// Bytes under attack.
    pub(crate) honest: u64,
    /// Of each slice under attack to the one before it, sorted.
    pub(crate) ratios: Vec<f64>,
}

impl Outcome {
    pub(crate) fn median(&self) -> f64 {
        self.ratios[self.ratios.len() / 2]
    }
}

impl Attack {
    /// `craft` fills in one datagram after the other.
    pub(crate) fn start(
        size: Size,
        socket: UdpSocket,
        target: SocketAddr,
        mut craft: impl FnMut(&mut Vec<u8>) + Send + 'static,
    ) -> Self {
        let (is_on, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (is_on_here, sent_here) = (Arc::clone(&is_on), Arc::clone(&sent));
        let thread = thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut due = now();
            for number in 0..size.datagrams {
                while !is_on_here.load(Relaxed) {
                    pause(Duration::from_millis(1));
                    due = now();
                }
                if number % BURST == 0 {
                    due += Duration::from_micros(BURST * 1_000_000 / size.per_second);
                    pause(due.saturating_duration_since(now()));
                }
                bytes.clear();
                craft(&mut bytes);
                // A full buffer drops it, as a network would.
                if socket.send_to(&bytes, target).is_ok() {
                    sent_here.fetch_add(1, Relaxed);
                }
            }
        });
        Self { is_on, sent, thread }
    }

    /// Until all datagrams are sent. `work` says how many bytes it got done in a slice; `watch` is called after each pair.
    pub(crate) async fn run(self, work: impl AsyncFn(Duration) -> u64, mut watch: impl FnMut()) -> Outcome {
        let (mut ratios, mut honest) = (Vec::new(), 0);
        while !self.thread.is_finished() {
            let quiet = work(SLICE).await;
            self.is_on.store(true, Relaxed);
            let loud = work(SLICE).await;
            self.is_on.store(false, Relaxed);
            ratios.push(loud as f64 / quiet as f64);
            honest += loud;
            watch();
        }
        self.thread.join().expect("no panic");
        let seconds = ratios.len() as f64 * SLICE.as_secs_f64();
        ratios.sort_unstable_by(f64::total_cmp);
        Outcome { sent: self.sent.load(Relaxed), seconds, honest, ratios }
    }
}

/// A delay that no honest switch of a test writes.
const FORGED_CODE: u16 = 0xf00d;
/// The same as it is heard.
pub(crate) const FORGED: Nanos = Nanos::new((FORGED_CODE as u64) << 8);

/// An attacker off the path: it knows addresses, ports and software, and sees no packet. It sends from the peer's own address, through a
/// copy of its socket, and claims the longest delays under every tag it can think of.
pub(crate) fn forge_as_peer(relay: &Relay, target: SocketAddr, size: Size) -> Attack {
    let mut random = 0x5053_u64;
    Attack::start(size, relay.copy_of_socket(), target, move |bytes| {
        random = mix(random);
        let [a, b, c, d, e, f, g, h] = random.to_be_bytes();
        let guess = Tag::from_be_bytes([a, b, c, d]);
        // Small numbers too: that is how tags would be handed out by who counts.
        let yours = if h % 4 == 0 { guess % 1_024 } else { guess };
        let prefix = Prefix {
            shim: Some(shim::Repr { int_hops: 1, max_hop_delay: FORGED_CODE, ..shim::Repr::default() }),
            reflection: Some(reflection::Repr {
                int_hops: 1,
                max_hop_delay: FORGED_CODE,
                ..reflection::Repr::default()
            }),
            mine: Tag::from_be_bytes([e, f, g, h]) % 2_048,
            yours: yours.max(1),
        };
        bytes.extend_from_slice(&prefix.emit());
        // A short header, and noise where the rest would be.
        bytes.push(0x40 | (a & 0x3f));
        while bytes.len() < 60 + usize::from(b) {
            random = mix(random);
            bytes.extend_from_slice(&random.to_be_bytes());
        }
    })
}

fn pause(time: Duration) {
    #[expect(clippy::disallowed_methods, reason = "an attack takes real time")]
    thread::sleep(time);
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "an attack takes real time")]
    Instant::now()
}
