//! Ends a client before its time, in order: what was sent is counted, the log is whole.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use tokio::sync::Notify;

/// Asks a client to end. Clones ask the same client.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_asked_for: AtomicBool,
    notify: Notify,
}

impl Stop {
    /// Now. May be called from any thread; says whether it was asked for before.
    pub fn now(&self) -> bool {
        let before = self.0.is_asked_for.swap(true, Relaxed);
        self.0.notify.notify_one();
        before
    }

    /// Whether the client was asked to end.
    pub fn is_asked_for(&self) -> bool {
        self.0.is_asked_for.load(Relaxed)
    }

    /// Only one task may wait.
    pub(super) async fn wait(&self) {
        while !self.is_asked_for() {
            self.0.notify.notified().await;
        }
    }
}
