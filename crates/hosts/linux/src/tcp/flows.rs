//! The table of flows: one row per socket that runs the law, read from the kernel at the moment of asking.

use super::error::TcpError;
use super::pins;
use crate::flow::Flow;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use poseidon_laws::laws::poseidon::Signal;
use poseidon_types::{Bytes, Nanos, Packets};
use std::fs;
use std::io;
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// What a flow is steered by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// The worst hop that telemetry reports.
    Telemetry,
    /// The worst hop that telemetry reports, or what no hop reported if that is more.
    Brownfield,
    /// The queueing delay of the round trip: the other end does not speak the option, no hop has measured yet, echoes have
    /// stopped, or it was set so.
    Delay,
    /// Losses and marks, because the queue is somebody else's: coexistence.
    Compete,
    /// Nothing for a few round trips: whether that queue drains.
    Yield,
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpFlow {
    /// Its end on this machine.
    pub local: SocketAddr,
    /// Its other end.
    pub remote: SocketAddr,
    /// The network namespace, by the number of its inode.
    pub netns: u32,
    /// What it is steered by.
    pub mode: Mode,
    /// Whether both ends speak the option.
    pub speaks_option: bool,
    /// T(rate), the target delay at the present rate.
    pub target: Nanos,
    /// The delay that was last held against the target.
    pub delay: Nanos,
    /// The window, which may be below one packet.
    pub window: Packets,
    /// The window in whole packets that TCP has been given.
    pub whole_window: u32,
    /// The last raw round-trip time.
    pub rtt: Nanos,
    /// The smallest round-trip time, or the one that was configured.
    pub base_rtt: Nanos,
    /// Payload of a full packet.
    pub mss: Bytes,
    /// Payload that has been acknowledged.
    pub acked: Bytes,
    /// How often what happened.
    pub counters: Counters,
}

/// How often what happened to one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// ACKs that brought the delay of the worst hop.
    pub acks_with_echo: u64,
    /// ACKs that did not.
    pub acks_without_echo: u64,
    /// ACKs whose delay was below what the round trip proves: the delay guard acted.
    pub guarded: u64,
    /// ACKs whose delay was above the round trip itself.
    pub implausible: u64,
    /// Fast recoveries.
    pub losses: u64,
    /// Of them, those that did not slow the flow down, because there was no queue.
    pub ignored_losses: u64,
    /// How often the flow began to compete with flows that fill the buffer.
    pub competed: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// ACKs that TCP processed without our programs: see `poseidon doctor`.
    pub missed_acks: u64,
}

/// All flows, in the order of their addresses.
pub fn flows() -> Result<Vec<TcpFlow>, TcpError> {
    let path = pins::at(pins::FLOWS);
    // Reading the file runs the iterator.
    let bytes = fs::read(&path).map_err(|why| match why.kind() {
        io::ErrorKind::NotFound => TcpError::Off,
        _ => TcpError::file("reading", path)(why),
    })?;
    let rows = bytes.chunks(size_of::<Row>()).map(Row::read_from_bytes);
    let flows: Result<Vec<_>, _> = rows.map(|row| row.map(|row| TcpFlow::from(&row))).collect();
    let mut flows = flows.map_err(|_| TcpError::OtherVersion { what: "the table of flows" })?;
    flows.sort_by_key(|flow| (flow.local, flow.remote, flow.netns));
    Ok(flows)
}

/// `struct poseidon_telemetry`; what the fields mean is written there.
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Telemetry {
    echoes: u32,
    echo: u16,
    reverse: u16,
    received: u16,
    speaks: u8,
    is_proven: u8,
    has_law: u8,
    is_silent: u8,
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

/// `struct coexistence` of `bpf/coexistence.h`.
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

/// `struct poseidon_row`.
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

// As bpf/tcp.h asserts it.
const _: () = assert!(size_of::<Telemetry>() == 176 && size_of::<Row>() == 312);

impl From<&Row> for TcpFlow {
    fn from(row: &Row) -> Self {
        let ip = |bytes: [u8; 16]| match bytes {
            [a, b, c, d, ..] if row.family == AF_INET => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            _ => IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical(),
        };
        let seen = &row.telemetry;
        let hears = seen.is_proven != 0 && seen.is_silent == 0;
        Self {
            local: SocketAddr::new(ip(row.local), row.local_port),
            remote: SocketAddr::new(ip(row.remote), row.remote_port),
            netns: row.netns,
            mode: match (seen.coexistence.mode, row.flow.signal()) {
                (COMPETE, _) => Mode::Compete,
                (YIELD, _) => Mode::Yield,
                (_, Signal::MaxHopDelay) => Mode::Telemetry,
                (_, Signal::Brownfield) if hears => Mode::Brownfield,
                (_, Signal::Brownfield | Signal::Rtt) => Mode::Delay,
            },
            speaks_option: seen.speaks != 0,
            target: row.flow.target_delay(),
            delay: Nanos::new(u64::from(seen.delay)),
            window: row.flow.window(),
            whole_window: row.snd_cwnd,
            rtt: row.flow.rtt(),
            base_rtt: row.flow.base_rtt(),
            mss: Bytes::new(u64::from(row.mss)),
            acked: Bytes::new(row.bytes_acked),
            counters: Counters {
                acks_with_echo: seen.acks_with_echo,
                acks_without_echo: seen.acks_without_echo,
                guarded: seen.guarded,
                implausible: seen.implausible,
                losses: seen.losses,
                ignored_losses: seen.ignored_losses,
                competed: u64::from(seen.coexistence.episodes),
                timeouts: seen.timeouts,
                missed_acks: seen.missed_acks,
            },
        }
    }
}

/// As C has them.
const AF_INET: u16 = 2;
const COMPETE: u8 = 1;
const YIELD: u8 = 2;

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Telemetry => "telemetry",
            // The same telemetry: what no hop reports is added.
            Self::Brownfield => "telemetry+",
            Self::Delay => "delay",
            Self::Compete => "compete",
            Self::Yield => "yield",
        })
    }
}

impl TcpFlow {
    /// The names of the columns that `Display` writes.
    pub const HEAD: &'static str = "local                  remote                 mode         target us  delay us   rtt us  window   \
                                    echo  no echo  guard  loss  rto";
}

/// One line of a table under [`TcpFlow::HEAD`].
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
