//! A law as the controller sees it: any of the registry, or one of somebody's own.

use core::fmt::Debug;
use poseidon_laws::parts::coexistence::DelaySignal;
use poseidon_laws::{Ack, AnyLaw, Decision, Law, Loss};
use poseidon_types::Nanos;

/// A law at work.
pub(crate) trait Running: Clone + Debug + Send + Sync + 'static {
    fn on_ack(&mut self, ack: &Ack<'_>);
    fn on_loss(&mut self, loss: &Loss);
    fn on_timeout(&mut self, now: Nanos);
    fn delay_signal(&self, ack: &Ack<'_>) -> Option<DelaySignal>;
    fn decision(&self) -> Decision;
}

/// A law by its own type, registered or not.
#[derive(Clone, Debug)]
pub(crate) struct Own<L>(pub(crate) L);

impl<L: Law + Send + Sync + 'static> Running for Own<L> {
    #[inline]
    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.0.on_ack(ack);
    }
    fn on_loss(&mut self, loss: &Loss) {
        self.0.on_loss(loss);
    }
    fn on_timeout(&mut self, now: Nanos) {
        self.0.on_timeout(now);
    }
    fn delay_signal(&self, ack: &Ack<'_>) -> Option<DelaySignal> {
        self.0.delay_signal(ack)
    }
    #[inline]
    fn decision(&self) -> Decision {
        self.0.decision()
    }
}

/// Its own methods have the same names, and go before those of the trait.
impl Running for AnyLaw {
    #[inline]
    fn on_ack(&mut self, ack: &Ack<'_>) {
        Self::on_ack(self, ack);
    }
    fn on_loss(&mut self, loss: &Loss) {
        Self::on_loss(self, loss);
    }
    fn on_timeout(&mut self, now: Nanos) {
        Self::on_timeout(self, now);
    }
    fn delay_signal(&self, ack: &Ack<'_>) -> Option<DelaySignal> {
        Self::delay_signal(self, ack)
    }
    #[inline]
    fn decision(&self) -> Decision {
        Self::decision(self)
    }
}
