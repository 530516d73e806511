//! A law of one's own, in a crate of one's own, in QUIC.
//!
//! `cargo run -p poseidon-quic --example own_law`
//!
//! The law is a struct and five functions; nothing of Poseidon's is changed. It halves when the worst hop delays more than it likes, and
//! otherwise adds one packet per round trip.

use core::error::Error;
use poseidon_laws::law::Path;
use poseidon_laws::params::params;
use poseidon_laws::{Ack, Decision, Law, Loss, Pacing};
use poseidon_quic::{Config, Poseidon};
use poseidon_types::{BitRate, Nanos, Packets, Signals};
use quinn::TransportConfig;

params! {
    /// What can be set.
    pub struct PatientParams {
        /// The longest delay of a hop that it puts up with.
        patience: Nanos = Nanos::from_micros(50),
    }
    presets {}
    check {
        patience: "above zero", |p| !p.patience.is_zero();
    }
}

/// One flow under it.
#[derive(Clone, Debug, PartialEq)]
struct Patient {
    window: Packets,
    patience: Nanos,
    last_cut: Nanos,
}

impl Law for Patient {
    const NAME: &'static str = "patient";
    const SOURCE: &'static str = "this example";
    const STATE_LIMIT: usize = 64;
    type Params = PatientParams;

    fn needs(_: &PatientParams) -> Signals {
        Signals::RTT | Signals::MAX_HOP_DELAY
    }

    fn new(params: &PatientParams, _: &Path) -> Self {
        Self { window: Packets::whole(10), patience: params.patience, last_cut: Nanos::ZERO }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let Some(delay) = ack.max_hop_delay else { return };
        if delay <= self.patience {
            let per_packet = (1_u64 << 48) / self.window.q24().max(1);
            let grown = self.window.q24() + per_packet * u64::from(ack.packets);
            self.window = Packets::from_q24(grown.min(Packets::MAX_WINDOW.q24()));
        } else if ack.now - self.last_cut > ack.rtt {
            self.halve(ack.now);
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.halve(loss.now);
    }

    fn on_timeout(&mut self, now: Nanos) {
        self.halve(now);
    }

    fn is_congested(&self, ack: &Ack<'_>) -> bool {
        ack.max_hop_delay.is_some_and(|delay| delay > self.patience)
    }

    fn decision(&self) -> Decision {
        Decision { window: self.window, pacing: Pacing::Off }
    }
}

impl Patient {
    fn halve(&mut self, now: Nanos) {
        self.window = Packets::from_q24(self.window.q24() / 2).max(Packets::ONE);
        self.last_cut = now;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let poseidon = Poseidon::new(Config::for_rate(BitRate::from_gbps(10)))?;
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(poseidon.controllers_of::<Patient>(&PatientParams::default())?);
    println!("{} is ready; the rest is as in the example two_lines", Patient::NAME);

    // What it cannot use is refused here, not while it runs.
    let impatient = PatientParams { patience: Nanos::ZERO };
    if let Err(error) = poseidon.controllers_of::<Patient>(&impatient) {
        println!("and with a patience of zero: {error}");
    }
    Ok(())
}
