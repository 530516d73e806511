//! The flow table, read from the kernel. It has one row per socket that uses the law.

use super::error::TcpError;
use super::pins;
use crate::flow::Flow;
use crate::mount_namespace::with_bpf_file_system;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use poseidon_laws::laws::poseidon::Signal;
use poseidon_types::{Bytes, Nanos, Packets};
use std::fs;
use std::io;
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// The signal that controls a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// The largest hop delay in the telemetry.
    Telemetry,
    /// The largest hop delay in the telemetry, or the unreported delay if it is larger.
    Brownfield,
    /// The queueing delay of the round trip. A flow uses it if the peer does not support the option, no hop has
    /// reported a delay, echoes have stopped, or the settings select it.
    Delay,
    /// Losses and marks, because other flows fill the queue (coexistence).
    Compete,
    /// No signal for a few round trips, while the flow tests whether the queue drains.
    Yield,
}

/// A TCP connection that uses the law.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpFlow {
    /// The local address.
    pub local: SocketAddr,
    /// The remote address.
    pub remote: SocketAddr,
    /// The network namespace inode.
    pub netns: u32,
    /// The signal that controls the flow.
    pub mode: Mode,
    /// Whether both ends negotiated the option.
    pub option_negotiated: bool,
    /// T(rate), the target delay at the current rate.
    pub target: Nanos,
    /// The delay that was last compared with the target.
    pub delay: Nanos,
    /// The window, which may be below one packet.
    pub window: Packets,
    /// TCP's congestion window, in whole packets.
    pub cwnd: u32,
    /// The last raw round-trip time.
    pub rtt: Nanos,
    /// The configured base RTT, or else the connection's smallest RTT.
    pub base_rtt: Nanos,
    /// The payload size of a full packet.
    pub mss: Bytes,
    /// The number of acknowledged payload bytes.
    pub acked: Bytes,
    /// The event counters.
    pub counters: Counters,
}

/// A flow's event counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// ACKs that echo the largest hop delay.
    pub acks_with_echo: u64,
    /// ACKs without an echo.
    pub acks_without_echo: u64,
    /// ACKs whose echoed delay was raised by the delay guard, because the round-trip time proves a longer delay.
    pub guarded: u64,
    /// ACKs whose echoed delay exceeds the round-trip time.
    pub implausible: u64,
    /// Fast recoveries.
    pub losses: u64,
    /// Fast recoveries without a queue, which did not reduce the window.
    pub ignored_losses: u64,
    /// How often the flow started to compete with flows that fill the buffer.
    pub competed: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// ACKs that TCP processed without our programs (see `poseidon doctor`).
    pub missed_acks: u64,
}

/// Returns all flows, sorted by address.
pub fn flows() -> Result<Vec<TcpFlow>, TcpError> {
    with_bpf_file_system(read_flows)
}

pub(super) fn read_flows() -> Result<Vec<TcpFlow>, TcpError> {
    let path = pins::path(pins::FLOWS);
    // Reading the file runs the iterator.
    let bytes = fs::read(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => TcpError::NotEnabled,
        _ => TcpError::file("reading", path)(error),
    })?;
    let rows = bytes.chunks(size_of::<Row>()).map(Row::read_from_bytes);
    let flows: Result<Vec<_>, _> = rows.map(|row| row.map(|row| TcpFlow::from(&row))).collect();
    let mut flows = flows.map_err(|_| TcpError::VersionMismatch { object: "the table of flows" })?;
    flows.sort_by_key(|flow| (flow.local, flow.remote, flow.netns));
    Ok(flows)
}

/// The Rust counterpart of `struct poseidon_telemetry`, which documents the fields.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Telemetry {
    echoes: u32,
    echo: u16,
    reverse: u16,
    received: u16,
    negotiated: u8,
    is_proven: u8,
    has_law: u8,
    echoes_stopped: u8,
    unused: [u8; 2],
    delay: u32,
    acks_with_echo: u64,
    acks_without_echo: u64,
    guarded: u64,
    implausible: u64,
    losses: u64,
    ignored_losses: u64,
    timeouts: u64,
    missed_acks: u64,
    coexistence: Coexistence,
}

/// The Rust counterpart of `struct coexistence` in `bpf/coexistence.h`.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Coexistence {
    window: u64,
    threshold: u64,
    since: u64,
    last_cut: u64,
    last_above: u64,
    round_began: u64,
    rtt: u32,
    round_peak: u32,
    peak: u32,
    ceiling: u32,
    delay: u32,
    delivered: u32,
    lost: u32,
    episodes: u32,
    mode: u8,
    within_target: u8,
    unused: [u8; 6],
}

/// The Rust counterpart of `struct poseidon_row`.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Row {
    flow: Flow,
    telemetry: Telemetry,
    local: [u8; 16],
    remote: [u8; 16],
    local_port: u16,
    remote_port: u16,
    family: u16,
    state: u8,
    unused: u8,
    netns: u32,
    mss: u32,
    snd_cwnd: u32,
    srtt_us: u32,
    bytes_acked: u64,
    pacing_rate: u64,
}

// bpf/tcp.h asserts the same sizes.
const _: () = assert!(size_of::<Telemetry>() == 176 && size_of::<Row>() == 312);

impl From<&Row> for TcpFlow {
    fn from(row: &Row) -> Self {
        let ip = |bytes: [u8; 16]| match bytes {
            [a, b, c, d, ..] if row.family == AF_INET => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            _ => IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical(),
        };
        let telemetry = &row.telemetry;
        let has_echoes = telemetry.is_proven != 0 && telemetry.echoes_stopped == 0;
        Self {
            local: SocketAddr::new(ip(row.local), row.local_port),
            remote: SocketAddr::new(ip(row.remote), row.remote_port),
            netns: row.netns,
            mode: match (telemetry.coexistence.mode, row.flow.signal()) {
                (COMPETE, _) => Mode::Compete,
                (YIELD, _) => Mode::Yield,
                (_, Signal::MaxHopDelay) => Mode::Telemetry,
                (_, Signal::Brownfield) if has_echoes => Mode::Brownfield,
                (_, Signal::Brownfield | Signal::Rtt) => Mode::Delay,
            },
            option_negotiated: telemetry.negotiated != 0,
            target: row.flow.target_delay(),
            delay: Nanos::new(u64::from(telemetry.delay)),
            window: row.flow.window(),
            cwnd: row.snd_cwnd,
            rtt: row.flow.rtt(),
            base_rtt: row.flow.base_rtt(),
            mss: Bytes::new(u64::from(row.mss)),
            acked: Bytes::new(row.bytes_acked),
            counters: Counters {
                acks_with_echo: telemetry.acks_with_echo,
                acks_without_echo: telemetry.acks_without_echo,
                guarded: telemetry.guarded,
                implausible: telemetry.implausible,
                losses: telemetry.losses,
                ignored_losses: telemetry.ignored_losses,
                competed: u64::from(telemetry.coexistence.episodes),
                timeouts: telemetry.timeouts,
                missed_acks: telemetry.missed_acks,
            },
        }
    }
}

/// The IPv4 address family.
const AF_INET: u16 = 2;
/// Values of `enum coexistence_mode`.
const COMPETE: u8 = 1;
const YIELD: u8 = 2;

impl Mode {
    /// Returns the name used in tables and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Telemetry => "telemetry",
            // The plus sign stands for delay that no hop reports.
            Self::Brownfield => "telemetry+",
            Self::Delay => "delay",
            Self::Compete => "compete",
            Self::Yield => "yield",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl TcpFlow {
    /// The header for the table rows that `Display` writes.
    pub const HEADER: &'static str = "local                  remote                 mode         target us  delay us   rtt us  window   \
                                    echo  no echo  guard  loss  rto";
}

/// Formats one table row, to be printed below [`TcpFlow::HEADER`].
impl fmt::Display for TcpFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |time: Nanos| time.get() / 1_000;
        let hundredths = (self.window.q24() * 100) >> Packets::FRACTION_BITS;
        write!(
            f,
            "{:22} {:22} {:10} {:11} {:9} {:8} {:4}.{:02} {:6} {:8} {:6} {:5} {:4}",
            self.local.to_string(),
            self.remote.to_string(),
            self.mode,
            us(self.target),
            us(self.delay),
            us(self.rtt),
            hundredths / 100,
            hundredths % 100,
            self.counters.acks_with_echo,
            self.counters.acks_without_echo,
            self.counters.guarded,
            self.counters.losses,
            self.counters.timeouts,
        )
    }
}
