//! A user-space switch. It can stamp and queue datagrams, forge telemetry, or simply forward datagrams. It also
//! records the tags and connection IDs that it sees.
//!
//! Each client address has its own socket towards the server, so the server sees a separate address for each
//! client.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use poseidon_quic::prefix::{PREFIX_BYTES, Prefix, Tag, has_prefix};
use poseidon_types::Nanos;
use poseidon_types::random::splitmix64;
use poseidon_wire::shim;
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::{Arc, Mutex};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How the relay treats shims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum StampMode {
    /// Writes the datagram's queueing delay or, without a queue, a delay that depends on the tag.
    Honest,
    /// Leaves the shim unchanged, like a switch without telemetry.
    Off,
    /// Reports an empty queue, regardless of the actual queue.
    Hide,
    /// Writes the largest possible delay.
    Inflate,
    /// Overwrites the shim of each datagram with other random bytes. One in sixteen still has a valid version.
    Corrupt,
}

const STAMP_MODES: [StampMode; 5] =
    [StampMode::Honest, StampMode::Off, StampMode::Hide, StampMode::Inflate, StampMode::Corrupt];

/// The link to the server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    /// The rate in bits per second. `None` means unlimited.
    pub(crate) rate: Option<u64>,
    /// The propagation delay in each direction.
    pub(crate) delay: Duration,
    /// The longest queueing delay. Datagrams that would wait longer are dropped.
    pub(crate) max_wait: Duration,
}

/// A direction (true means towards the server) and a connection ID.
type DirectedId = (bool, [u8; 8]);

pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    stamp_mode: AtomicU8,
    link: Link,
    /// The offset of the stamps if the link has no queue. See [`expected_stamp`].
    stamp_offset: u16,
    link_idle_at: Mutex<Option<Instant>>,
    /// The datagrams whose shim was corrupted.
    corrupted: AtomicU64,
    pub(crate) drops: AtomicU64,
    /// The longest queueing delay in nanoseconds.
    pub(crate) longest_wait: AtomicU64,
    /// The tags seen with each connection ID, by direction.
    tags: Mutex<BTreeMap<DirectedId, BTreeSet<Tag>>>,
    /// The sockets that the server sees as its peers.
    server_sockets: Mutex<Vec<std::net::UdpSocket>>,
}

/// Returns the delay that a relay without a queue writes into a datagram with this tag.
pub(crate) fn expected_stamp(offset: u16, tag: Tag) -> Nanos {
    Nanos::new((u64::from(offset) + u64::from(tag % 1_000)) << 8)
}

impl Relay {
    pub(crate) async fn start(server: SocketAddr, link: Link, stamp_offset: u16) -> Arc<Self> {
        let client_socket = Arc::new(to_tokio(bind_nonblocking()));
        let relay = Arc::new(Self {
            address: client_socket.local_addr().expect("the socket is bound"),
            stamp_mode: AtomicU8::new(StampMode::Honest as u8),
            link,
            stamp_offset,
            link_idle_at: Mutex::new(None),
            corrupted: AtomicU64::new(0),
            drops: AtomicU64::new(0),
            longest_wait: AtomicU64::new(0),
            tags: Mutex::default(),
            server_sockets: Mutex::default(),
        });
        tokio::spawn(Arc::clone(&relay).forward_to_server(client_socket, server));
        relay
    }

    /// Clones the first socket towards the server, to send forged datagrams from a peer's address.
    pub(crate) fn clone_server_socket(&self) -> std::net::UdpSocket {
        let sockets = self.server_sockets.lock().expect("the lock is not poisoned");
        sockets.first().expect("a client has sent a datagram").try_clone().expect("a file descriptor is free")
    }

    pub(crate) fn set_mode(&self, mode: StampMode) {
        self.stamp_mode.store(mode as u8, Relaxed);
    }

    /// Returns the largest number of tags per connection ID in each direction, and the number of connection
    /// IDs. Then clears the record. The number is one unless a path migrated or connections were mixed up. Only
    /// 24 bits of quinn's IDs are random, so IDs repeat after a few thousand connections.
    pub(crate) fn take_tag_counts(&self) -> ([usize; 2], usize) {
        let tags = core::mem::take(&mut *self.tags.lock().expect("the lock is not poisoned"));
        let max_tags = [true, false].map(|direction| {
            let ids = tags.iter().filter(|((to_server, _), _)| *to_server == direction);
            ids.map(|(_, tags)| tags.len()).max().unwrap_or(0)
        });
        (max_tags, tags.len())
    }

    async fn forward_to_server(self: Arc<Self>, client_socket: Arc<UdpSocket>, server: SocketAddr) {
        let mut peers: BTreeMap<SocketAddr, (Arc<UdpSocket>, mpsc::UnboundedSender<DelayedDatagram>)> =
            BTreeMap::new();
        let mut bytes = vec![0; 1 << 16];
        while let Ok((length, client)) = client_socket.recv_from(&mut bytes).await {
            let (server_socket, delay_line) = match peers.entry(client) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let socket = bind_nonblocking();
                    let clone = socket.try_clone().expect("a file descriptor is free");
                    self.server_sockets.lock().expect("the lock is not poisoned").push(clone);
                    let server_socket = Arc::new(to_tokio(socket));
                    let relay = Arc::clone(&self);
                    let sockets = (Arc::clone(&server_socket), Arc::clone(&client_socket));
                    tokio::spawn(relay.forward_to_client(sockets.0, sockets.1, client));
                    let delay_line = start_delay_line(Arc::clone(&server_socket));
                    entry.insert((server_socket, delay_line))
                }
            };
            let datagram = &mut bytes[..length];
            let Some(wait) = self.enqueue(length) else { continue };
            self.process(true, datagram, wait);
            let total_delay = wait + self.link.delay;
            if total_delay.is_zero() {
                // If the receiver's socket buffer is full, the datagram is lost.
                let _ = server_socket.send_to(datagram, server).await;
            } else {
                let bytes = datagram.to_vec();
                let due = now() + total_delay;
                let _ = delay_line.send(DelayedDatagram { due, destination: server, bytes });
            }
        }
    }

    async fn forward_to_client(
        self: Arc<Self>,
        server_socket: Arc<UdpSocket>,
        client_socket: Arc<UdpSocket>,
        client: SocketAddr,
    ) {
        let delay_line = start_delay_line(Arc::clone(&client_socket));
        let mut bytes = vec![0; 1 << 16];
        while let Ok((length, _)) = server_socket.recv_from(&mut bytes).await {
            let datagram = &mut bytes[..length];
            self.process(false, datagram, Duration::ZERO);
            if self.link.delay.is_zero() {
                let _ = client_socket.send_to(datagram, client).await;
            } else {
                let bytes = datagram.to_vec();
                let due = now() + self.link.delay;
                let _ = delay_line.send(DelayedDatagram { due, destination: client, bytes });
            }
        }
    }

    /// Adds a datagram to the queue. Returns its queueing delay, or `None` if it is dropped.
    fn enqueue(&self, bytes: usize) -> Option<Duration> {
        let Some(rate) = self.link.rate else { return Some(Duration::ZERO) };
        let now = now();
        let mut link_idle_at = self.link_idle_at.lock().expect("the lock is not poisoned");
        let start = link_idle_at.unwrap_or(now).max(now);
        let wait = start - now;
        if wait > self.link.max_wait {
            self.drops.fetch_add(1, Relaxed);
            return None;
        }
        *link_idle_at = Some(start + Duration::from_nanos(bytes as u64 * 8_000_000_000 / rate));
        self.longest_wait.fetch_max(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        Some(wait)
    }

    /// Records the tag of a datagram and writes its shim.
    fn process(&self, to_server: bool, datagram: &mut [u8], wait: Duration) {
        if !has_prefix(datagram) || datagram.len() < PREFIX_BYTES {
            return;
        }
        let tag = Prefix::parse(datagram).expect("the datagram is long enough").sender_tag;
        self.record_tag(to_server, tag, &datagram[PREFIX_BYTES..]);
        let delay = match STAMP_MODES[usize::from(self.stamp_mode.load(Relaxed))] {
            StampMode::Off => return,
            StampMode::Corrupt => {
                let noise = splitmix64(self.corrupted.fetch_add(1, Relaxed));
                datagram[..4].copy_from_slice(&noise.to_be_bytes()[..4]);
                return;
            }
            StampMode::Hide => Nanos::ZERO,
            StampMode::Inflate => Nanos::MAX,
            StampMode::Honest if self.link.rate.is_some() => {
                Nanos::new(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX))
            }
            StampMode::Honest => expected_stamp(self.stamp_offset, tag),
        };
        let mut packet = shim::Packet::new_checked(datagram).expect("the datagram is long enough");
        let _ = packet.update(delay, &shim::SCALE);
    }

    /// Records the tag together with QUIC's connection ID. quinn's IDs have eight bytes.
    fn record_tag(&self, to_server: bool, tag: Tag, packet: &[u8]) {
        if tag == 0 || packet.first().is_none_or(|first| first & 0x80 != 0) {
            return;
        }
        if let Some(id) = packet.get(1..9).and_then(|id| id.try_into().ok()) {
            self.tags
                .lock()
                .expect("the lock is not poisoned")
                .entry((to_server, id))
                .or_default()
                .insert(tag);
        }
    }
}

struct DelayedDatagram {
    due: Instant,
    destination: SocketAddr,
    bytes: Vec<u8>,
}

/// Starts a task that sends each datagram when it is due. All datagrams in a delay line have the same delay, so
/// they stay in order.
fn start_delay_line(socket: Arc<UdpSocket>) -> mpsc::UnboundedSender<DelayedDatagram> {
    let (sender, mut receiver) = mpsc::unbounded_channel::<DelayedDatagram>();
    tokio::spawn(async move {
        while let Some(datagram) = receiver.recv().await {
            tokio::time::sleep_until(datagram.due).await;
            let _ = socket.send_to(&datagram.bytes, datagram.destination).await;
        }
    });
    sender
}

/// Binds a socket with a large buffer, so that only the relay drops datagrams.
fn bind_nonblocking() -> std::net::UdpSocket {
    let socket = super::bind();
    socket.set_nonblocking(true).expect("the socket supports nonblocking mode");
    socket
}

fn to_tokio(socket: std::net::UdpSocket) -> UdpSocket {
    UdpSocket::from_std(socket).expect("a runtime is active")
}

fn now() -> Instant {
    Instant::now()
}
