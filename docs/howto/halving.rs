//! Halving: adds one packet per round trip and halves the window after a congestion mark.
//!
//! Signals    ECN marks
//! Source     none: the example of docs/howto/law.md

use crate::event::{Ack, Loss, Timeout};
use crate::law::{Decision, Law, LawDefinition, Pacing, Path};
use crate::params::params;
use poseidon_types::{Packets, Signals};

params! {
    /// Parameters of [`Halving`].
    pub struct HalvingParams {
        /// The initial window.
        initial_window: Packets = Packets::whole(32),
    }
    presets {}
    check {
        initial_window: "between 1 and 1024 packets",
            |p| (Packets::ONE..=Packets::whole(1_024)).contains(&p.initial_window);
    }
}

/// The state of one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halving {
    /// The window in packets, as a Q24 fixed-point number.
    window: u64,
    /// The earliest time of the next cut: one round trip after the last one.
    next_cut: u64,
}

impl Halving {
    fn halve(&mut self) {
        self.window = (self.window / 2).max(Packets::ONE.q24());
    }
}

impl LawDefinition for Halving {
    const NAME: &'static str = "halving";
    const SOURCE: &'static str = "example of the book";
    const STATE_LIMIT: usize = 16;
    type Params = HalvingParams;

    fn needs(_: &HalvingParams) -> Signals {
        Signals::ECN_ECHO
    }

    fn new(params: &HalvingParams, _: &Path) -> Self {
        Self { window: params.initial_window.q24(), next_cut: 0 }
    }
}

impl Law for Halving {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        if ack.marked.is_zero() {
            // One packet per acknowledged window.
            let acked = u64::from(ack.packets) << (2 * Packets::FRACTION_BITS);
            self.window = (self.window + acked / self.window).min(Packets::whole(1_024).q24());
        } else if ack.now.get() >= self.next_cut {
            self.halve();
            self.next_cut = ack.now.get().saturating_add(ack.rtt.get());
        }
    }

    fn on_loss(&mut self, _: &Loss) {
        self.halve();
    }

    fn on_timeout(&mut self, _: &Timeout) {
        self.halve();
    }

    /// Returns whether the ACK carries a mark. A host with PLB counts such ACKs.
    fn is_congested(&self, ack: &Ack<'_>) -> bool {
        !ack.marked.is_zero()
    }

    fn decision(&self) -> Decision {
        Decision { window: Packets::from_q24(self.window), pacing: Pacing::Off }
    }
}
