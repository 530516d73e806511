//! Ends a client before its time, in order: what was sent is counted, the log is whole.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use tokio::sync::Notify;

/// Asks a client to end. Clones ask the same client.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_requested: AtomicBool,
    notify: Notify,
}

impl Stop {
    /// May be called from any thread. Returns whether it was requested before.
    pub fn request(&self) -> bool {
        let before = self.0.is_requested.swap(true, Relaxed);
        self.0.notify.notify_one();
        before
    }

    /// Whether the client was asked to stop.
    pub fn is_requested(&self) -> bool {
        self.0.is_requested.load(Relaxed)
    }

    /// Only one task may wait.
    pub(super) async fn wait(&self) {
        while !self.is_requested() {
            self.0.notify.notified().await;
        }
    }
}
