//! The state shared by the socket and the controller of one path.
//!
//! ```text
//!   receive task                                Flow                connection task
//!   shim of the peer's datagrams    ──>  echo, reverse  ──>  reflection in the next datagram; law
//!   reflection from the peer        ──>  echoed         ──>  law
//!                                        gauges         <──  controller, for metrics
//! ```

use super::address::Fingerprint;
use super::handshake::Cid;
use super::metrics::{FlowGauges, FlowMetrics};
use super::prefix::{NO_TAG, Tag};
use super::stamp::{EchoSlot, StampSlot};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use poseidon_types::{Bytes, Nanos, Packets};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One path of one connection.
#[derive(Debug)]
pub(crate) struct Flow {
    /// The flow's serial number. Tags may be reused over time, but serial numbers are not.
    pub(crate) number: u64,
    /// The tag of outgoing datagrams, or [`NO_TAG`] if the system's random number generator failed.
    tag: AtomicU32,
    /// The fingerprint of the remote address.
    remote: AtomicU64,
    /// The telemetry from the peer's datagrams, to be echoed to the peer.
    pub(crate) echo: EchoSlot,
    /// The same telemetry, for the law, which uses it as the reverse-path delay.
    pub(crate) reverse: StampSlot,
    /// The telemetry from our datagrams, as echoed by the peer.
    pub(crate) echoed: StampSlot,
    /// The number of datagrams sent before the peer's first answer.
    unanswered: AtomicU32,
    /// The metrics that the controller updates.
    pub(crate) gauges: FlowGauges,
    handshake: Mutex<HandshakeInfo>,
}

/// The fields of a flow that rarely change.
#[derive(Debug, Default)]
pub(crate) struct HandshakeInfo {
    /// The remote address for metrics. The hot path compares fingerprints.
    pub(crate) remote: Option<SocketAddr>,
    /// The connection ID under which the flow's pending handshake is registered.
    pub(crate) pending_cid: Option<Cid>,
}

impl Flow {
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number,
            tag: AtomicU32::new(NO_TAG),
            remote: AtomicU64::new(Fingerprint::NONE.0),
            echo: EchoSlot::default(),
            reverse: StampSlot::default(),
            echoed: StampSlot::default(),
            unanswered: AtomicU32::new(0),
            gauges: FlowGauges::default(),
            handshake: Mutex::default(),
        }
    }

    #[inline]
    pub(crate) fn tag(&self) -> Tag {
        self.tag.load(Relaxed)
    }

    /// Sets the tag. Only the flow table, which assigns tags, may call this.
    pub(crate) fn set_tag(&self, tag: Tag) {
        self.tag.store(tag, Relaxed);
    }

    #[inline]
    pub(crate) fn remote(&self) -> Fingerprint {
        Fingerprint(self.remote.load(Relaxed))
    }

    /// Changes the remote address and discards telemetry from the old path.
    pub(crate) fn set_remote(&self, fingerprint: Fingerprint, address: SocketAddr) {
        self.remote.store(fingerprint.0, Relaxed);
        self.echoed.take();
        self.reverse.take();
        self.handshake().remote = Some(address);
    }

    /// Returns whether the peer has answered with its own tag.
    #[inline]
    pub(crate) fn shim_negotiated(&self) -> bool {
        self.echo.tag() != NO_TAG
    }

    /// Counts a datagram to a peer that has not answered. Returns the count before this datagram.
    pub(crate) fn count_unanswered(&self) -> u32 {
        self.unanswered.fetch_add(1, Relaxed)
    }

    pub(crate) fn handshake(&self) -> MutexGuard<'_, HandshakeInfo> {
        self.handshake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the flow's current metrics.
    pub(crate) fn metrics(&self) -> FlowMetrics {
        let gauges = &self.gauges;
        let [window, delay, rtt] =
            [&gauges.window, &gauges.delay, &gauges.rtt].map(|gauge| gauge.load(Relaxed));
        FlowMetrics {
            number: self.number,
            tag: self.tag(),
            remote: self.handshake().remote,
            shim_negotiated: self.shim_negotiated(),
            mode: gauges.mode(),
            law_window: Packets::from_q24(gauges.law_window_q24.load(Relaxed)),
            window: Bytes::new(window),
            delay: Nanos::new(delay),
            rtt: Nanos::new(rtt),
            acks_with_telemetry: gauges.acks_with_telemetry.load(Relaxed),
            acks_without_telemetry: gauges.acks_without_telemetry.load(Relaxed),
            echoed_range: gauges.echoed_range(),
            guarded: gauges.guarded.load(Relaxed),
            implausible: gauges.implausible.load(Relaxed),
            below_floor: gauges.below_floor.load(Relaxed),
            unpaced: gauges.unpaced.load(Relaxed),
            mode_changes: gauges.mode_changes.load(Relaxed),
            losses: gauges.losses.load(Relaxed),
            timeouts: gauges.timeouts.load(Relaxed),
        }
    }
}
