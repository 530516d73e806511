//! A queue of paths that can be used again.

use super::MAX_PATHS;

/// The number of paths in the queue.
const SLOTS: usize = MAX_PATHS as usize;

/// A queue of paths. A path that arrives at a full queue is forgotten.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PathFifo {
    paths: [u8; SLOTS],
    head: u16,
    len: u16,
}

impl Default for PathFifo {
    fn default() -> Self {
        Self { paths: [0; SLOTS], head: 0, len: 0 }
    }
}

impl PathFifo {
    pub(super) fn push(&mut self, path: u8) {
        let slot = (usize::from(self.head) + usize::from(self.len)) % SLOTS;
        if usize::from(self.len) < SLOTS
            && let Some(entry) = self.paths.get_mut(slot)
        {
            *entry = path;
            self.len += 1;
        }
    }

    pub(super) fn pop(&mut self) -> Option<u8> {
        if self.len == 0 {
            return None;
        }
        let path = self.paths.get(usize::from(self.head)).copied();
        self.head = if usize::from(self.head) + 1 == SLOTS { 0 } else { self.head + 1 };
        self.len -= 1;
        path
    }
}
