//! reTCP: Reno that scales its window when a circuit in a reconfigurable datacenter comes up or goes down.
//!
//! ```text
//! Model      circuit comes up     w *= jump
//!            circuit goes down    w /= jump
//!            otherwise            Reno: slow start, one packet per round trip, half after a loss
//! ```
//!
//! Signals    the circuit state: one bit that the top-of-rack switch sets on ACKs
//! Source     Mukerjee et al., NSDI 2020; the public kernel module uses a factor of 2
//! Differs    - The kernel module uses the ECE bit, so ECE must not cut the window there. Here the circuit state is a
//!              separate signal, and the law ignores marks.
//!            - A factor of 4 is the ratio of 100 Gbps to 25 Gbps in PowerTCP's Fig. 8.
//!            - The window does not grow while the flow is application-limited.
//! Limits     The network must fill queues before the circuit comes up (`prebuffer`).

use crate::event::{Ack, Loss, Timeout};
use crate::law::{Decision, Law, LawDefinition, Pacing, Path};
use crate::params::params;
use crate::parts::float::{clamp, packets, to_window};
use crate::parts::reno::Reno;
use poseidon_types::{Packets, Signals};

params! {
    /// Parameters of [`Retcp`].
    pub struct RetcpParams {
        /// The factor by which the window grows when the circuit comes up.
        jump_up: f64 = 2.0,
        /// The divisor by which the window shrinks when the circuit goes down.
        jump_down: f64 = 2.0,
        /// The initial window (RFC 6928).
        initial_window: Packets = Packets::whole(10),
        /// The smallest window.
        min_window: Packets = Packets::ONE,
        /// The largest window.
        max_window: Packets = Packets::MAX_WINDOW,
    }
    presets {
        "rate-ratio", "a factor of 4, the rate ratio of circuit to packet network in PowerTCP's Fig. 8", |p| {
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

/// The state of one reTCP flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Retcp {
    reno: Reno,
    circuit_up: bool,
    jump_up: f64,
    jump_down: f64,
    min_window: f64,
    max_window: f64,
}

impl LawDefinition for Retcp {
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
}

impl Law for Retcp {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        match (self.circuit_up, ack.circuit_up) {
            (false, true) => self.reno.window *= self.jump_up,
            (true, false) => self.reno.window /= self.jump_down,
            _ if !ack.app_limited => self.reno.grow(f64::from(ack.packets)),
            _ => {}
        }
        self.circuit_up = ack.circuit_up;
        self.reno.window = clamp(self.reno.window, self.min_window, self.max_window);
    }

    fn on_loss(&mut self, _: &Loss) {
        self.reno.cut(0.5, self.min_window);
    }

    fn on_timeout(&mut self, _: &Timeout) {
        self.reno.restart(0.5, self.min_window);
    }

    /// Always returns false: the law reacts only to losses and to the circuit state.
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
    use poseidon_types::{BitRate, Bytes, Nanos};

    #[test]
    fn the_window_scales_when_the_circuit_changes() {
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
        assert_eq!(law.decision().window, Packets::whole(20), "only a circuit change counts");
        law.on_ack(&ack(false));
        assert_eq!(law.decision().window, Packets::whole(10));
    }
}
