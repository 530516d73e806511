//! A fluid network model that runs any law: windows determine rates, rates determine queues, and queues drive the laws.
//!
//! ```text
//! Model   rtt_i   = base_i + Σ queue_l / capacity_l             over the links of the flow
//!         rate_i  = min(window_i · mtu / rtt_i, cap_i)
//!         queue_l' = Σ rate_i - capacity_l,  never below zero
//!         each whole packet that `rate_i` delivers produces one ACK with the current delays
//! ```
//!
//! Why     The model has no packet quantisation, no bursts and no feedback delay. A law therefore converges to its
//!         fixed point, and any error is a property of the law.
//! Limits  Upstream queues do not shape the traffic on downstream links. This matters in transients, not in
//!         equilibrium.

use crate::network::Network;
use poseidon_laws::{Ack, Law, Pacing, Path};
use poseidon_types::{BitRate, Bytes, CounterWrap, HopPath, HopRecord, Nanos, Packets};

/// A network with one law per flow and one queue per link.
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
    /// The fraction of a packet that is delivered but not yet acknowledged.
    pending: f64,
    delivered_bytes: f64,
    next_seq: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct LinkState {
    /// The capacity in bytes per ns.
    capacity: f64,
    queue_bytes: f64,
    sent_bytes: f64,
}

/// Averages over a time interval.
#[derive(Debug, Clone)]
pub struct Averages {
    /// Each flow's rate in Mbps.
    pub rates_mbps: Vec<f64>,
    /// Each link's queueing delay in ns.
    pub delays_ns: Vec<f64>,
}

/// One byte per ns, expressed in Mbps.
const MBPS_PER_BYTE_PER_NS: f64 = 8_000.0;

impl<L: Law> FluidLoop<L> {
    /// Creates a network in which flow `i` runs the law `make(i, path)` with packets of `mtu` bytes.
    ///
    /// # Panics
    /// Panics if the network is invalid ([`Network::check`]).
    pub fn new(network: &Network, mtu: Bytes, make: impl Fn(usize, &Path) -> L) -> Self {
        network.check();
        let max_capacity = network.capacities_mbps.iter().copied().max().unwrap_or(1);
        let flows = (network.flows.iter().enumerate())
            .map(|(id, flow)| {
                let path = Path {
                    mtu,
                    line_rate: BitRate::from_mbps(flow.cap_mbps.unwrap_or(max_capacity)),
                    base_rtt: Nanos::new(flow.base_rtt_ns),
                };
                FlowState { law: make(id, &path), rate: 0.0, pending: 0.0, delivered_bytes: 0.0, next_seq: 0 }
            })
            .collect();
        let links = (network.capacities_mbps.iter())
            .map(|&mbps| LinkState { capacity: mbps as f64 / MBPS_PER_BYTE_PER_NS, ..LinkState::default() })
            .collect();
        Self { network: network.clone(), flows, links, mtu_bytes: mtu.get() as f64, now_ns: 0.0 }
    }

    /// Runs for `duration_ns` in steps of `step_ns` and returns the averages over this time.
    pub fn run(&mut self, duration_ns: f64, step_ns: f64) -> Averages {
        let mut sum =
            Averages { rates_mbps: vec![0.0; self.flows.len()], delays_ns: vec![0.0; self.links.len()] };
        let end = self.now_ns + duration_ns;
        let mut steps = 0.0;
        while self.now_ns < end {
            self.step(step_ns);
            steps += 1.0;
            for (total, flow) in sum.rates_mbps.iter_mut().zip(&self.flows) {
                *total += flow.rate * MBPS_PER_BYTE_PER_NS;
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

    /// Returns a flow's law.
    pub fn law(&self, flow: usize) -> &L {
        &self.flows[flow].law
    }

    /// Returns a flow's window in bytes.
    pub fn window_bytes(&self, flow: usize) -> f64 {
        window_packets(&self.flows[flow].law) * self.mtu_bytes
    }

    /// Returns a link's queue length in bytes.
    pub fn queue_bytes(&self, link: usize) -> f64 {
        self.links[link].queue_bytes
    }

    fn step(&mut self, step_ns: f64) {
        self.now_ns += step_ns;
        let mut arrival_rates = vec![0.0; self.links.len()];
        for (flow, spec) in self.flows.iter_mut().zip(&self.network.flows) {
            let queueing: f64 = spec.path.iter().map(|&link| self.links[link].delay_ns()).sum();
            let window_rate =
                window_packets(&flow.law) * self.mtu_bytes / (spec.base_rtt_ns as f64 + queueing);
            let paced_rate = match flow.law.decision().pacing {
                Pacing::Rate(rate) => window_rate.min(rate.get() as f64 / 8e9),
                Pacing::Off | Pacing::Gap(_) => window_rate,
            };
            flow.rate =
                spec.cap_mbps.map_or(paced_rate, |mbps| paced_rate.min(mbps as f64 / MBPS_PER_BYTE_PER_NS));
            for &link in &spec.path {
                arrival_rates[link] += flow.rate;
            }
        }
        for (link, rate) in self.links.iter_mut().zip(arrival_rates) {
            let backlog = link.queue_bytes + rate * step_ns;
            let sent = backlog.min(link.capacity * step_ns);
            link.queue_bytes = backlog - sent;
            link.sent_bytes += sent;
        }
        for id in 0..self.flows.len() {
            self.acknowledge(id, step_ns);
        }
    }

    /// Reports to a flow's law the whole packets that the flow has delivered.
    fn acknowledge(&mut self, id: usize, step_ns: f64) {
        let spec = &self.network.flows[id];
        let flow = &mut self.flows[id];
        flow.delivered_bytes += flow.rate * step_ns;
        flow.pending += flow.rate * step_ns / self.mtu_bytes;
        let packets = floor(flow.pending);
        if packets == 0 {
            return;
        }
        flow.pending -= packets as f64;
        let delays = spec.path.iter().map(|&link| self.links[link].delay_ns());
        let rtt_ns = spec.base_rtt_ns as f64 + delays.clone().sum::<f64>();
        let max_delay_ns = delays.fold(0.0, f64::max);
        let records: Vec<HopRecord> =
            spec.path.iter().map(|&link| self.links[link].record(self.now_ns)).collect();
        let in_flight = flow.rate * rtt_ns;
        let acked_seq = floor(flow.delivered_bytes);
        flow.next_seq = acked_seq + floor(in_flight);
        let ack = Ack {
            now: Nanos::new(floor(self.now_ns)),
            rtt: Nanos::new(floor(rtt_ns)),
            packets: u32::try_from(packets).unwrap_or(u32::MAX),
            bytes: Bytes::new(packets) * floor(self.mtu_bytes),
            acked_seq,
            next_seq: flow.next_seq,
            max_hop_delay: Some(Nanos::new(floor(max_delay_ns))),
            reverse_max_hop_delay: Some(Nanos::ZERO),
            hops: HopPath { records: &records, wrap: CounterWrap::NEVER },
            hop_count: u8::try_from(spec.path.len()).unwrap_or(u8::MAX),
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
            timestamp: Nanos::new(floor(now_ns)),
            sent: Bytes::new(floor(self.sent_bytes)),
            queue: Bytes::new(floor(self.queue_bytes)),
            rate: BitRate::from_mbps(floor(self.capacity * MBPS_PER_BYTE_PER_NS + 0.5)),
        }
    }
}

/// Returns a law's window in packets.
fn window_packets<L: Law>(law: &L) -> f64 {
    law.decision().window.q24() as f64 / Packets::ONE.q24() as f64
}

/// Rounds a non-negative number down.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounding down is intended")]
fn floor(x: f64) -> u64 {
    x as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Flow;
    use poseidon_laws::LawDefinition;
    use poseidon_laws::laws::fixed::{Fixed, FixedParams};

    #[test]
    fn a_fixed_window_of_two_bdps_leaves_one_bdp_in_the_queue() {
        let network = Network { capacities_mbps: vec![100_000], flows: vec![Flow::through([0])] };
        // The bandwidth-delay product of 100 Gbps and 4 us is 50 packets of 1000 bytes.
        let params = FixedParams { window: Packets::whole(100), ..FixedParams::default() };
        let mut net = FluidLoop::new(&network, Bytes::new(1_000), |_, path| Fixed::new(&params, path));
        net.run(200_000.0, 100.0);
        let steady_state = net.run(10_000.0, 100.0);
        assert!((steady_state.rates_mbps[0] - 100_000.0).abs() < 1.0, "{steady_state:?}");
        assert!((net.queue_bytes(0) - 50_000.0).abs() < 1.0, "{}", net.queue_bytes(0));
        assert!((steady_state.delays_ns[0] - 4_000.0).abs() < 1.0, "{steady_state:?}");
    }
}
