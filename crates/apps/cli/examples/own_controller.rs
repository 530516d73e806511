//! The command `poseidon` with a congestion controller of your own, which runs in quinn in the simulator. `docs/howto/gate.md`
//! guards this controller in CI.

use core::any::Any;
use poseidon_stacks::Stacks;
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// The share of the window that remains after a loss.
const BETA: f64 = 0.5;

/// Additive increase, multiplicative decrease, and slow start.
#[derive(Clone, Debug)]
struct Aimd {
    window: u64,
    slow_start_threshold: u64,
    mtu: u64,
    /// Losses of packets that were sent before this time belong to the last reaction.
    recovery_start: Option<Instant>,
}

impl Controller for Aimd {
    fn on_ack(&mut self, _: Instant, sent: Instant, bytes: u64, app_limited: bool, _: &RttEstimator) {
        let in_recovery = self.recovery_start.is_some_and(|start| sent <= start);
        if app_limited || in_recovery {
            return;
        }
        if self.window < self.slow_start_threshold {
            self.window += bytes;
        } else {
            // One packet per round trip.
            self.window += (self.mtu * bytes / self.window).max(1);
        }
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, _: u64) {
        if self.recovery_start.is_some_and(|start| sent <= start) {
            return;
        }
        self.recovery_start = Some(now);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a window has less than 2^52 bytes"
        )]
        let reduced = (self.window as f64 * BETA) as u64;
        self.slow_start_threshold = reduced.max(2 * self.mtu);
        self.window = if is_persistent { 2 * self.mtu } else { self.slow_start_threshold };
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        10 * self.mtu
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[derive(Debug)]
struct AimdFactory;

impl ControllerFactory for AimdFactory {
    fn build(self: Arc<Self>, _: Instant, mtu: u16) -> Box<dyn Controller> {
        let mtu = u64::from(mtu);
        Box::new(Aimd { window: 10 * mtu, slow_start_threshold: u64::MAX, mtu, recovery_start: None })
    }
}

/// Scenarios select the controller with `stack = "quinn"` and `controller = "custom"`.
static STACKS: Stacks = Stacks::new().with_quinn_controller(|| Arc::new(AimdFactory));

fn main() -> ExitCode {
    poseidon_cli::run_with_stacks(&STACKS)
}
