//! reTCP: a TCP that jumps with the circuit of a reconfigurable datacenter.
//!
//! ```text
//! Model      circuit comes up     w *= jump
//!            circuit goes down    w /= jump
//!            otherwise            Reno: slow start, one packet per round trip, half on loss
//! ```
//!
//! Signals    whether the circuit is up: one bit that the top-of-rack switch sets on ACKs
//! Source     Mukerjee et al., NSDI 2020; jumps of 2 in the public kernel module
//! Differs    the bit travels as ECE there, so ECE must not cut the window; here it is a signal of its own and marks are
//!            ignored. A jump of 4 is 100 Gbps over 25 Gbps, the ratio of PowerTCP's Fig. 8.
//!            A flow that does not use its window does not grow it.
//! Limits     the other half is in the network: queues that fill before the circuit comes (`prebuffer`)

use crate::event::{Ack, Loss};
use crate::law::{Decision, Law, Pacing, Path};
use crate::params::params;
use crate::parts::float::{bounded, packets, to_window};
use crate::parts::reno::Reno;
use poseidon_types::{Nanos, Packets, Signals};

params! {
    /// reTCP's parameters.
    pub struct RetcpParams {
        /// The window's factor when the circuit comes up.
        jump_up: f64 = 2.0,
        /// The window's divisor when the circuit goes down.
        jump_down: f64 = 2.0,
        /// The first window (RFC 6928).
        initial_window: Packets = Packets::whole(10),
        /// The smallest window.
        min_window: Packets = Packets::ONE,
        /// The largest window.
        max_window: Packets = Packets::MAX_WINDOW,
    }
    presets {
        "rate-ratio", "jumps of 4, the ratio of circuit to packet network in PowerTCP's Fig. 8", |p| {
            p.jump_up = 4.0;
            p.jump_down = 4.0;
        };
    }
    check {
        jump_up: "between 1 and 64", |p| (1.0..=64.0).contains(&p.jump_up);
        jump_down: "between 1 and 64", |p| (1.0..=64.0).contains(&p.jump_down);
        min_window: "at least one packet", |p| p.min_window >= Packets::ONE;
        max_window: "at most 32768 packets", |p| p.max_window <= Packets::MAX_WINDOW;
        initial_window: "between min_window and max_window",
            |p| (p.min_window..=p.max_window).contains(&p.initial_window);
    }
}

/// One flow under reTCP.
#[derive(Clone, Debug, PartialEq)]
pub struct Retcp {
    reno: Reno,
    circuit_up: bool,
    jump_up: f64,
    jump_down: f64,
    min_window: f64,
    max_window: f64,
}

impl Law for Retcp {
    const NAME: &'static str = "retcp";
    const SOURCE: &'static str = "Mukerjee et al., NSDI 2020";
    const STATE_LIMIT: usize = 64;
    type Params = RetcpParams;

    fn needs(_: &RetcpParams) -> Signals {
        Signals::CIRCUIT_STATE
    }

    fn new(params: &RetcpParams, _: &Path) -> Self {
        Self {
            reno: Reno::new(packets(params.initial_window)),
            circuit_up: false,
            jump_up: params.jump_up,
            jump_down: params.jump_down,
            min_window: packets(params.min_window),
            max_window: packets(params.max_window),
        }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        match (self.circuit_up, ack.circuit_up) {
            (false, true) => self.reno.window *= self.jump_up,
            (true, false) => self.reno.window /= self.jump_down,
            _ if !ack.app_limited => self.reno.grow(f64::from(ack.packets)),
            _ => {}
        }
        self.circuit_up = ack.circuit_up;
        self.reno.window = bounded(self.reno.window, self.min_window, self.max_window);
    }

    fn on_loss(&mut self, _: &Loss) {
        self.reno.cut(0.5, self.min_window);
    }

    fn on_timeout(&mut self, _: Nanos) {
        self.reno.restart(0.5, self.min_window);
    }

    /// Never: it reacts to losses and circuits alone.
    fn is_congested(&self, _: &Ack<'_>) -> bool {
        false
    }

    fn decision(&self) -> Decision {
        Decision { window: to_window(self.reno.window), pacing: Pacing::Off }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::{BitRate, Bytes};

    #[test]
    fn jumps_with_the_circuit_and_back() {
        let path = Path {
            mtu: Bytes::new(1_000),
            line_rate: BitRate::from_gbps(25),
            base_rtt: Nanos::from_micros(24),
        };
        let mut law = Retcp::new(&RetcpParams::default(), &path);
        let ack = |circuit_up| Ack { circuit_up, packets: 0, ..Ack::EMPTY };
        law.on_ack(&ack(true));
        assert_eq!(law.decision().window, Packets::whole(20));
        law.on_ack(&ack(true));
        assert_eq!(law.decision().window, Packets::whole(20), "only the change counts");
        law.on_ack(&ack(false));
        assert_eq!(law.decision().window, Packets::whole(10));
    }
}
