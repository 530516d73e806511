//! Halving: one packet more per round trip, half the window after a mark.
//!
//! Signals    marks
//! Source     an example of the book: what is added to try a law

use crate::event::{Ack, Loss};
use crate::law::{Decision, Law, Pacing, Path};
use crate::params::params;
use poseidon_types::{Nanos, Packets, Signals};

params! {
    /// Its parameters.
    pub struct HalvingParams {
        /// The first window.
        initial_window: Packets = Packets::whole(32),
    }
    presets {}
    check {
        initial_window: "between 1 and 1024 packets",
            |p| (Packets::ONE..=Packets::whole(1_024)).contains(&p.initial_window);
    }
}

/// One flow: its window, and the end of the round trip in which it was halved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halving {
    window: u64,
    not_before: u64,
}

impl Halving {
    fn halve(&mut self) {
        self.window = (self.window / 2).max(Packets::ONE.q24());
    }
}

impl Law for Halving {
    const NAME: &'static str = "halving";
    const SOURCE: &'static str = "the book's example";
    const STATE_LIMIT: usize = 16;
    type Params = HalvingParams;

    fn needs(_: &HalvingParams) -> Signals {
        Signals::ECN_ECHO
    }

    fn new(params: &HalvingParams, _: &Path) -> Self {
        Self { window: params.initial_window.q24(), not_before: 0 }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        if ack.marked.is_zero() {
            // A packet per window of acknowledged packets.
            let whole = u64::from(ack.packets) << (2 * Packets::FRACTION_BITS);
            self.window = (self.window + whole / self.window).min(Packets::whole(1_024).q24());
        } else if ack.now.get() >= self.not_before {
            self.halve();
            self.not_before = ack.now.get().saturating_add(ack.rtt.get());
        }
    }

    fn on_loss(&mut self, _: &Loss) {
        self.halve();
    }

    fn on_timeout(&mut self, _: Nanos) {
        self.halve();
    }

    /// What a host with PLB counts before it chooses another path.
    fn is_congested(&self, ack: &Ack<'_>) -> bool {
        !ack.marked.is_zero()
    }

    fn decision(&self) -> Decision {
        Decision { window: Packets::from_q24(self.window), pacing: Pacing::Off }
    }
}
