//! What sockets and controllers of one [`crate::Poseidon`] have in common.

use crate::address::Fingerprints;
use crate::config::{Config, Observer, PlainPeers};
use crate::flow::Flow;
use crate::flows::Flows;
use crate::metrics::{FlowMetrics, Metrics, Tally, Totals};
use crate::peers::{Form, Peers};
use crate::prefix::Prefix;
use crate::signal::Bounds;
use crate::stamp::Echo;
use crate::strip::Stripper;
use core::net::SocketAddr;
use core::sync::atomic::Ordering::Relaxed;
use poseidon_types::{Bytes, Nanos, Packets};
use std::sync::Arc;

/// To a peer that has said nothing, the form changes after so many sends: two datagrams may be lost, and nobody waits for minutes.
const TRIES: u32 = 3;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) flows: Flows,
    pub(crate) peers: Peers,
    pub(crate) prints: Fingerprints,
    pub(crate) totals: Totals,
    pub(crate) plain_peers: PlainPeers,
    pub(crate) packet: u16,
    pub(crate) bounds: Bounds,
    pub(crate) coexistence: bool,
    pub(crate) observer: Option<Observer>,
}

impl Shared {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            flows: Flows::new(),
            peers: Peers::new(),
            prints: Fingerprints::new(),
            totals: Totals::default(),
            plain_peers: config.plain_peers,
            packet: config.packet,
            bounds: config.bounds(),
            coexistence: config.coexistence,
            observer: config.observer.clone(),
        }
    }

    /// How a datagram to this peer must look.
    #[inline]
    pub(crate) fn form(&self, flow: Option<&Flow>, destination: SocketAddr) -> Form {
        if self.plain_peers == PlainPeers::Refuse || flow.is_some_and(Flow::is_linked) {
            return Form::Shim;
        }
        if let Some(form) = self.peers.form(self.prints.of(destination)) {
            return form;
        }
        let tries = flow.map_or(0, Flow::count_unanswered);
        if (tries / TRIES).is_multiple_of(2) { Form::Shim } else { Form::Plain }
    }

    /// What goes before a packet of this flow, and the echo in it, which is to be put back where the packet does not go out.
    #[inline]
    pub(crate) fn prefix(&self, flow: &Arc<Flow>, packet: &[u8]) -> (Prefix, Echo) {
        self.flows.note_packet(flow, packet);
        let echo @ Echo { tag, stamp } = flow.heard.take();
        let reflection = stamp.map(|stamp| stamp.reflection());
        (Prefix { shim: None, reflection, mine: flow.tag(), yours: tag }, echo)
    }

    /// Reads datagrams that came together, and keeps count.
    #[inline]
    pub(crate) fn strip<T>(&self, read: impl FnOnce(&mut Stripper<'_>) -> T) -> T {
        let table = self.flows.read();
        let mut stripper = Stripper {
            table: &table,
            peers: &self.peers,
            prints: &self.prints,
            plain_peers: self.plain_peers,
            tally: Tally::default(),
            answered: Vec::new(),
        };
        let found = read(&mut stripper);
        let Stripper { tally, answered, .. } = stripper;
        drop(table);
        for flow in answered {
            self.flows.end_handshake(&flow);
        }
        self.totals.add(&tally);
        found
    }

    pub(crate) fn metrics(&self) -> Metrics {
        let table = self.flows.read();
        Metrics {
            flows: table.each().map(|flow| of_flow(flow)).collect(),
            handshakes: table.sizes().1,
            with_prefix: self.totals.with_prefix.load(Relaxed),
            plain: self.totals.plain.load(Relaxed),
            refused: self.totals.refused.load(Relaxed),
            malformed: self.totals.malformed.load(Relaxed),
            ruined: self.totals.ruined.load(Relaxed),
            strangers: self.totals.strangers.load(Relaxed),
        }
    }
}

pub(crate) fn of_flow(flow: &Flow) -> FlowMetrics {
    let gauges = &flow.gauges;
    let [window, delay, rtt] = [&gauges.window, &gauges.delay, &gauges.rtt].map(|gauge| gauge.load(Relaxed));
    FlowMetrics {
        number: flow.number,
        tag: flow.tag(),
        remote: flow.cold().remote,
        speaks_shim: flow.is_linked(),
        mode: gauges.mode(),
        law_window: Packets::from_q24(gauges.law_window_q24.load(Relaxed)),
        window: Bytes::new(window),
        delay: Nanos::new(delay),
        rtt: Nanos::new(rtt),
        acks_with_telemetry: gauges.acks_with_telemetry.load(Relaxed),
        acks_without_telemetry: gauges.acks_without_telemetry.load(Relaxed),
        told: gauges.told_range(),
        guarded: gauges.guarded.load(Relaxed),
        implausible: gauges.implausible.load(Relaxed),
        below_floor: gauges.below_floor.load(Relaxed),
        unpaced: gauges.unpaced.load(Relaxed),
        mode_changes: gauges.mode_changes.load(Relaxed),
        losses: gauges.losses.load(Relaxed),
        timeouts: gauges.timeouts.load(Relaxed),
    }
}
