//! Runs a law from another crate over QUIC.
//!
//! `cargo run -p poseidon-quic --features quinn --example custom_law`
//!
//! The law is a struct with a few functions. It halves its window if the worst hop's delay exceeds a limit.
//! Otherwise, it adds one packet per round trip. The Poseidon crates need no changes.

use core::error::Error;
use poseidon_laws::law::Path;
use poseidon_laws::params::params;
use poseidon_laws::{Ack, Decision, Law, LawDefinition, Loss, Pacing, Timeout};
use poseidon_quic::{Config, Poseidon};
use poseidon_types::{BitRate, Nanos, Packets, Signals};
use quinn::TransportConfig;

params! {
    /// The law's parameters.
    pub struct HalvingParams {
        /// The largest hop delay at which the window still grows.
        max_delay: Nanos = Nanos::from_micros(50),
    }
    presets {}
    check {
        max_delay: "above zero", |p| !p.max_delay.is_zero();
    }
}

/// The state of one flow.
#[derive(Clone, Debug, PartialEq)]
struct Halving {
    window: Packets,
    max_delay: Nanos,
    last_decrease: Nanos,
}

impl LawDefinition for Halving {
    const NAME: &'static str = "halving";
    const SOURCE: &'static str = "this example";
    const STATE_LIMIT: usize = 64;
    type Params = HalvingParams;

    fn needs(_: &HalvingParams) -> Signals {
        Signals::RTT | Signals::MAX_HOP_DELAY
    }

    fn new(params: &HalvingParams, _: &Path) -> Self {
        Self { window: Packets::whole(10), max_delay: params.max_delay, last_decrease: Nanos::ZERO }
    }
}

impl Law for Halving {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        let Some(delay) = ack.max_hop_delay else { return };
        if delay <= self.max_delay {
            let increase_per_packet = (1_u64 << 48) / self.window.q24().max(1);
            let new_window = self.window.q24() + increase_per_packet * u64::from(ack.packets);
            self.window = Packets::from_q24(new_window.min(Packets::MAX_WINDOW.q24()));
        } else if ack.now - self.last_decrease > ack.rtt {
            self.halve(ack.now);
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.halve(loss.now);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.halve(timeout.now);
    }

    fn is_congested(&self, ack: &Ack<'_>) -> bool {
        ack.max_hop_delay.is_some_and(|delay| delay > self.max_delay)
    }

    fn decision(&self) -> Decision {
        Decision { window: self.window, pacing: Pacing::Off }
    }
}

impl Halving {
    fn halve(&mut self, now: Nanos) {
        self.window = Packets::from_q24(self.window.q24() / 2).max(Packets::ONE);
        self.last_decrease = now;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let poseidon = Poseidon::new(Config::for_rate(BitRate::from_gbps(10)))?;
    let mut transport = TransportConfig::default();
    let factory = poseidon.controller_factory_for::<Halving>(&HalvingParams::default())?;
    transport.congestion_controller_factory(factory);
    println!("{} is ready; see the example quinn_echo for a complete program", Halving::NAME);

    // Invalid parameters are rejected before the law runs.
    let invalid = HalvingParams { max_delay: Nanos::ZERO };
    if let Err(error) = poseidon.controller_factory_for::<Halving>(&invalid) {
        println!("with a limit of zero: {error}");
    }
    Ok(())
}
