//! Stops a client early. The server still counts the data already sent, and the log is complete.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use tokio::sync::Notify;

/// A signal that stops a client. Clones refer to the same client.
#[derive(Clone, Debug, Default)]
pub(super) struct StopSignal(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_requested: AtomicBool,
    notify: Notify,
}

impl StopSignal {
    /// Requests a stop, from any thread. Returns whether a stop was already requested.
    pub(super) fn request(&self) -> bool {
        let was_requested = self.0.is_requested.swap(true, Relaxed);
        self.0.notify.notify_one();
        was_requested
    }

    /// Returns whether a stop was requested.
    pub(super) fn is_requested(&self) -> bool {
        self.0.is_requested.load(Relaxed)
    }

    /// Waits until a stop is requested. Only one task may wait.
    pub(super) async fn wait(&self) {
        while !self.is_requested() {
            self.0.notify.notified().await;
        }
    }
}
