//! A network without packets around any law: rates follow windows, queues follow rates, laws see the queues.
//!
//! ```text
//! Model   rtt_i   = base_i + Σ queue_l / capacity_l             over the links of the flow
//!         rate_i  = min(window_i · mtu / rtt_i, cap_i)
//!         queue_l' = Σ rate_i - capacity_l,  never below zero
//!         each whole packet that `rate_i` has delivered is one ACK, with the delays of that instant
//! ```
//!
//! Why     it has no packet quantisation, no bursts and no feedback delay, so what a law misses here it misses by
//!         its design; what it reaches here is its fixed point
//! Limits  upstream queues do not shape what arrives downstream; that matters in transients, not at rest

use crate::network::Network;
use poseidon_laws::{Ack, Law, Pacing, Path};
use poseidon_types::{BitRate, Bytes, HopPath, HopRecord, Nanos, Packets, Wrap};

/// The loop: a network, a law per flow, queues per link.
#[derive(Debug, Clone)]
pub struct FluidLoop<L> {
    network: Network,
    flows: Vec<FlowState<L>>,
    links: Vec<LinkState>,
    mtu_bytes: f64,
    now_ns: f64,
}

#[derive(Debug, Clone)]
struct FlowState<L> {
    law: L,
    rate: f64,
    /// Packets delivered but not yet acknowledged: below one.
    pending: f64,
    delivered_bytes: f64,
    next_seq: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct LinkState {
    /// Bytes per ns.
    capacity: f64,
    queue_bytes: f64,
    sent_bytes: f64,
}

/// Averages over a stretch of time.
#[derive(Debug, Clone)]
pub struct Averages {
    /// Of each flow, in Mbps.
    pub rates_mbps: Vec<f64>,
    /// Queueing delay of each link, in ns.
    pub delays_ns: Vec<f64>,
}

/// Mbps in one byte per ns.
const MBPS: f64 = 8_000.0;

impl<L: Law> FluidLoop<L> {
    /// Flow `i` of `network` runs `make(i, path)`; packets carry `mtu` bytes.
    ///
    /// # Panics
    /// If the network is unsound ([`Network::check`]).
    pub fn new(network: &Network, mtu: Bytes, make: impl Fn(usize, &Path) -> L) -> Self {
        network.check();
        let fastest = network.capacities_mbps.iter().copied().max().unwrap_or(1);
        let flows = (network.flows.iter().enumerate())
            .map(|(id, flow)| {
                let path = Path {
                    mtu,
                    line_rate: BitRate::from_mbps(flow.cap_mbps.unwrap_or(fastest)),
                    base_rtt: Nanos::new(flow.base_rtt_ns),
                };
                FlowState { law: make(id, &path), rate: 0.0, pending: 0.0, delivered_bytes: 0.0, next_seq: 0 }
            })
            .collect();
        let links = (network.capacities_mbps.iter())
            .map(|&mbps| LinkState { capacity: mbps as f64 / MBPS, ..LinkState::default() })
            .collect();
        Self { network: network.clone(), flows, links, mtu_bytes: mtu.get() as f64, now_ns: 0.0 }
    }

    /// Runs for `duration_ns` in steps of `step_ns` and gives the averages over it.
    pub fn run(&mut self, duration_ns: f64, step_ns: f64) -> Averages {
        let mut sum =
            Averages { rates_mbps: vec![0.0; self.flows.len()], delays_ns: vec![0.0; self.links.len()] };
        let end = self.now_ns + duration_ns;
        let mut steps = 0.0;
        while self.now_ns < end {
            self.step(step_ns);
            steps += 1.0;
            for (total, flow) in sum.rates_mbps.iter_mut().zip(&self.flows) {
                *total += flow.rate * MBPS;
            }
            for (total, link) in sum.delays_ns.iter_mut().zip(&self.links) {
                *total += link.delay_ns();
            }
        }
        for total in sum.rates_mbps.iter_mut().chain(&mut sum.delays_ns) {
            *total /= steps;
        }
        sum
    }

    /// The law of a flow.
    pub fn law(&self, flow: usize) -> &L {
        &self.flows[flow].law
    }

    /// The window of a flow, in bytes.
    pub fn window_bytes(&self, flow: usize) -> f64 {
        window_packets(&self.flows[flow].law) * self.mtu_bytes
    }

    /// The queue of a link, in bytes.
    pub fn queue_bytes(&self, link: usize) -> f64 {
        self.links[link].queue_bytes
    }

    fn step(&mut self, step_ns: f64) {
        self.now_ns += step_ns;
        let mut arriving = vec![0.0; self.links.len()];
        for (flow, plan) in self.flows.iter_mut().zip(&self.network.flows) {
            let queueing: f64 = plan.path.iter().map(|&link| self.links[link].delay_ns()).sum();
            let by_window = window_packets(&flow.law) * self.mtu_bytes / (plan.base_rtt_ns as f64 + queueing);
            let paced = match flow.law.decision().pacing {
                Pacing::Rate(rate) => by_window.min(rate.get() as f64 / 8e9),
                Pacing::Off | Pacing::Gap(_) => by_window,
            };
            flow.rate = plan.cap_mbps.map_or(paced, |mbps| paced.min(mbps as f64 / MBPS));
            for &link in &plan.path {
                arriving[link] += flow.rate;
            }
        }
        for (link, rate) in self.links.iter_mut().zip(arriving) {
            let waiting = link.queue_bytes + rate * step_ns;
            let sent = waiting.min(link.capacity * step_ns);
            link.queue_bytes = waiting - sent;
            link.sent_bytes += sent;
        }
        for id in 0..self.flows.len() {
            self.acknowledge(id, step_ns);
        }
    }

    /// Tells a law of the whole packets that its flow has delivered.
    fn acknowledge(&mut self, id: usize, step_ns: f64) {
        let plan = &self.network.flows[id];
        let flow = &mut self.flows[id];
        flow.delivered_bytes += flow.rate * step_ns;
        flow.pending += flow.rate * step_ns / self.mtu_bytes;
        let packets = whole(flow.pending);
        if packets == 0 {
            return;
        }
        flow.pending -= packets as f64;
        let delays = plan.path.iter().map(|&link| self.links[link].delay_ns());
        let rtt_ns = plan.base_rtt_ns as f64 + delays.clone().sum::<f64>();
        let worst_ns = delays.fold(0.0, f64::max);
        let records: Vec<HopRecord> =
            plan.path.iter().map(|&link| self.links[link].record(self.now_ns)).collect();
        let in_flight = flow.rate * rtt_ns;
        let acked_seq = whole(flow.delivered_bytes);
        flow.next_seq = acked_seq + whole(in_flight);
        let ack = Ack {
            now: Nanos::new(whole(self.now_ns)),
            rtt: Nanos::new(whole(rtt_ns)),
            packets: u32::try_from(packets).unwrap_or(u32::MAX),
            bytes: Bytes::new(packets) * whole(self.mtu_bytes),
            acked_seq,
            next_seq: flow.next_seq,
            max_hop_delay: Some(Nanos::new(whole(worst_ns))),
            reverse_max_hop_delay: Some(Nanos::ZERO),
            hops: HopPath { records: &records, wrap: Wrap::NEVER },
            hop_count: u8::try_from(plan.path.len()).unwrap_or(u8::MAX),
            app_limited: 2.0 * in_flight < window_packets(&flow.law) * self.mtu_bytes,
            ..Ack::EMPTY
        };
        flow.law.on_ack(&ack);
    }
}

impl LinkState {
    fn delay_ns(&self) -> f64 {
        self.queue_bytes / self.capacity
    }

    fn record(&self, now_ns: f64) -> HopRecord {
        HopRecord {
            at: Nanos::new(whole(now_ns)),
            sent: Bytes::new(whole(self.sent_bytes)),
            queue: Bytes::new(whole(self.queue_bytes)),
            rate: BitRate::from_mbps(whole(self.capacity * MBPS + 0.5)),
        }
    }
}

/// A law's window in packets.
fn window_packets<L: Law>(law: &L) -> f64 {
    law.decision().window.q24() as f64 / Packets::ONE.q24() as f64
}

/// A non-negative number, rounded down.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounding down is meant")]
fn whole(x: f64) -> u64 {
    x as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Flow;
    use poseidon_laws::laws::fixed::{Fixed, FixedParams};

    #[test]
    fn a_fixed_window_of_two_pipes_leaves_one_pipe_in_the_queue() {
        let network = Network { capacities_mbps: vec![100_000], flows: vec![Flow::through([0])] };
        // 100 Gbps over 4 us: 50 packets of 1000 bytes in the pipe.
        let params = FixedParams { window: Packets::whole(100), ..FixedParams::default() };
        let mut net = FluidLoop::new(&network, Bytes::new(1_000), |_, path| Fixed::new(&params, path));
        net.run(200_000.0, 100.0);
        let at_rest = net.run(10_000.0, 100.0);
        assert!((at_rest.rates_mbps[0] - 100_000.0).abs() < 1.0, "{at_rest:?}");
        assert!((net.queue_bytes(0) - 50_000.0).abs() < 1.0, "{}", net.queue_bytes(0));
        assert!((at_rest.delays_ns[0] - 4_000.0).abs() < 1.0, "{at_rest:?}");
    }
}
