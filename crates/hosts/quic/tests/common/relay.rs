//! A switch in user space: it stamps, and may queue, lie, or do nothing. It also watches who sends under which tag.
//!
//! Each socket that sends to it gets a socket of its own towards the server, so the server sees as many addresses.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use poseidon_quic::prefix::{PREFIX_BYTES, Prefix, Tag, has_prefix};
use poseidon_types::Nanos;
use poseidon_wire::shim;
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::{Arc, Mutex};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// What it does with shims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Does {
    /// Stamps how long the datagram waits, or what [`Relay::stamp`] says.
    Stamp,
    /// Forwards, like a switch that knows no telemetry.
    Nothing,
    /// Stamps an empty queue, whatever there is.
    Hide,
    /// Stamps the largest delay.
    Inflate,
    /// Writes noise over the shim.
    Garble,
}

const ALL: [Does; 5] = [Does::Stamp, Does::Nothing, Does::Hide, Does::Inflate, Does::Garble];

/// What the way to the server is like.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    /// Bits per second; nothing: as fast as it goes.
    pub(crate) rate: Option<u64>,
    /// Each way.
    pub(crate) delay: Duration,
    /// How long a datagram may wait before there is no room for it.
    pub(crate) room: Duration,
}

/// Towards the server or from it, and a connection id.
type Id = (bool, [u8; 8]);

pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    does: AtomicU8,
    link: Link,
    /// Added to the tag for the delay that is stamped where the link has no queue; see [`stamp_of`].
    stamp: u16,
    free_at: Mutex<Option<Instant>>,
    pub(crate) drops: AtomicU64,
    /// The longest that any datagram waited, ns.
    pub(crate) longest_wait: AtomicU64,
    /// Which tags were seen with which connection id, each way.
    seen: Mutex<BTreeMap<Id, BTreeSet<Tag>>>,
    /// The sockets that the server knows as its peers.
    backs: Mutex<Vec<std::net::UdpSocket>>,
}

/// The delay that a relay without a queue stamps on a datagram under this tag.
pub(crate) fn stamp_of(stamp: u16, tag: Tag) -> Nanos {
    Nanos::new((u64::from(stamp) + u64::from(tag % 1_000)) << 8)
}

impl Relay {
    pub(crate) async fn start(server: SocketAddr, link: Link, stamp: u16) -> Arc<Self> {
        let front = Arc::new(tokio_socket(bind_for_tokio()));
        let relay = Arc::new(Self {
            address: front.local_addr().expect("bound"),
            does: AtomicU8::new(Does::Stamp as u8),
            link,
            stamp,
            free_at: Mutex::new(None),
            drops: AtomicU64::new(0),
            longest_wait: AtomicU64::new(0),
            seen: Mutex::default(),
            backs: Mutex::default(),
        });
        tokio::spawn(Arc::clone(&relay).forward(front, server));
        relay
    }

    /// The first socket towards the server, to send from a peer's address what the peer did not send.
    pub(crate) fn copy_of_socket(&self) -> std::net::UdpSocket {
        let backs = self.backs.lock().expect("nobody panics");
        backs.first().expect("a client has sent").try_clone().expect("a descriptor is free")
    }

    pub(crate) fn set(&self, does: Does) {
        self.does.store(does as u8, Relaxed);
    }

    /// The most tags that any connection id was seen with, to the server and from it, and how many ids there were; then all is forgotten. The most is one, unless
    /// a path moved or a connection was taken for another. Of quinn's ids only 24 bits are random, so one comes again after some thousands.
    pub(crate) fn take_tags(&self) -> ([usize; 2], usize) {
        let seen = core::mem::take(&mut *self.seen.lock().expect("nobody panics"));
        let most = [true, false].map(|way| {
            let one_way = seen.iter().filter(|((to_server, _), _)| *to_server == way);
            one_way.map(|(_, tags)| tags.len()).max().unwrap_or(0)
        });
        (most, seen.len())
    }

    async fn forward(self: Arc<Self>, front: Arc<UdpSocket>, server: SocketAddr) {
        let mut backs: BTreeMap<SocketAddr, (Arc<UdpSocket>, mpsc::UnboundedSender<Late>)> = BTreeMap::new();
        let mut bytes = vec![0; 1 << 16];
        while let Ok((length, from)) = front.recv_from(&mut bytes).await {
            let (back, line) = match backs.entry(from) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let socket = bind_for_tokio();
                    let copy = socket.try_clone().expect("a descriptor is free");
                    self.backs.lock().expect("nobody panics").push(copy);
                    let back = Arc::new(tokio_socket(socket));
                    tokio::spawn(Arc::clone(&self).back(Arc::clone(&front), Arc::clone(&back), from));
                    let line = late(Arc::clone(&back));
                    new.insert((back, line))
                }
            };
            let datagram = &mut bytes[..length];
            let Some(wait) = self.queue(length) else { continue };
            self.write(true, datagram, wait);
            let after = wait + self.link.delay;
            if after.is_zero() {
                // Where the receiver has no room, the datagram is lost.
                let _ = back.send_to(datagram, server).await;
            } else {
                let _ = line.send(Late { at: now() + after, to: server, bytes: datagram.to_vec() });
            }
        }
    }

    async fn back(self: Arc<Self>, front: Arc<UdpSocket>, back: Arc<UdpSocket>, client: SocketAddr) {
        let line = late(Arc::clone(&front));
        let mut bytes = vec![0; 1 << 16];
        while let Ok((length, _)) = back.recv_from(&mut bytes).await {
            let datagram = &mut bytes[..length];
            self.write(false, datagram, Duration::ZERO);
            if self.link.delay.is_zero() {
                let _ = front.send_to(datagram, client).await;
            } else {
                let late = Late { at: now() + self.link.delay, to: client, bytes: datagram.to_vec() };
                let _ = line.send(late);
            }
        }
    }

    /// How long a datagram must wait; nothing where there is no room.
    fn queue(&self, bytes: usize) -> Option<Duration> {
        let Some(rate) = self.link.rate else { return Some(Duration::ZERO) };
        let now = now();
        let mut free_at = self.free_at.lock().expect("nobody panics");
        let begins = free_at.unwrap_or(now).max(now);
        let wait = begins - now;
        if wait > self.link.room {
            self.drops.fetch_add(1, Relaxed);
            return None;
        }
        *free_at = Some(begins + Duration::from_nanos(bytes as u64 * 8_000_000_000 / rate));
        self.longest_wait.fetch_max(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        Some(wait)
    }

    fn write(&self, to_server: bool, datagram: &mut [u8], wait: Duration) {
        if !has_prefix(datagram) || datagram.len() < PREFIX_BYTES {
            return;
        }
        let tag = Prefix::parse(datagram).expect("long enough").mine;
        self.watch(to_server, tag, &datagram[PREFIX_BYTES..]);
        let delay = match ALL[usize::from(self.does.load(Relaxed))] {
            Does::Nothing => return,
            Does::Garble => {
                let noise = poseidon_types::chance::mix(datagram.len() as u64 ^ u64::from(tag));
                datagram[..4].copy_from_slice(&noise.to_be_bytes()[..4]);
                return;
            }
            Does::Hide => Nanos::ZERO,
            Does::Inflate => Nanos::MAX,
            Does::Stamp if self.link.rate.is_some() => {
                Nanos::new(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX))
            }
            Does::Stamp => stamp_of(self.stamp, tag),
        };
        let mut packet = shim::Packet::new_checked(datagram).expect("long enough");
        let _ = packet.update(delay, &shim::SCALE);
    }

    /// QUIC's own word for whose packet it is, against ours. quinn's ids have eight bytes.
    fn watch(&self, to_server: bool, tag: Tag, packet: &[u8]) {
        if tag == 0 || packet.first().is_none_or(|first| first & 0x80 != 0) {
            return;
        }
        if let Some(id) = packet.get(1..9).and_then(|id| id.try_into().ok()) {
            self.seen.lock().expect("nobody panics").entry((to_server, id)).or_default().insert(tag);
        }
    }
}

struct Late {
    at: Instant,
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// Sends what it is handed when its time has come. All of one line has the same delay, so the order stays.
fn late(socket: Arc<UdpSocket>) -> mpsc::UnboundedSender<Late> {
    let (sender, mut receiver) = mpsc::unbounded_channel::<Late>();
    tokio::spawn(async move {
        while let Some(late) = receiver.recv().await {
            tokio::time::sleep_until(late.at).await;
            let _ = socket.send_to(&late.bytes, late.to).await;
        }
    });
    sender
}

/// With room: what a relay drops, it counts.
fn bind_for_tokio() -> std::net::UdpSocket {
    let socket = super::bind();
    socket.set_nonblocking(true).expect("a socket can");
    socket
}

fn tokio_socket(socket: std::net::UdpSocket) -> UdpSocket {
    UdpSocket::from_std(socket).expect("inside a runtime")
}

fn now() -> Instant {
    Instant::now()
}
