//! What the socket and the controller of one connection share.
//!
//! ```text
//!   task that receives                    Flow                     task of the connection
//!   shim of the peer's datagrams  ──>  heard, reverse  ──>  next datagram's reflection; the law
//!   the peer's reflection         ──>  told            ──>  the law
//!                                      gauges          <──  the controller, for whoever asks
//! ```

use crate::address::Fingerprint;
use crate::handshake::Cid;
use crate::metrics::Gauges;
use crate::prefix::{NOBODY, Tag};
use crate::stamp::{Heard, Stamps};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One path of one connection.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Counts up over all flows of a [`crate::Poseidon`]; a tag comes again, this does not.
    pub(crate) number: u64,
    /// What our datagrams are marked with; [`NOBODY`] where the system gave no random number.
    tag: AtomicU32,
    /// Where they go.
    remote: AtomicU64,
    /// What the peer's datagrams say, to be reflected.
    pub(crate) heard: Heard,
    /// The same, for the law: the way of its ACKs.
    pub(crate) reverse: Stamps,
    /// What the peer's reflections say of our datagrams.
    pub(crate) told: Stamps,
    /// Sends while nothing was heard.
    unanswered: AtomicU32,
    /// What the controller does.
    pub(crate) gauges: Gauges,
    cold: Mutex<Cold>,
}

/// What changes once or twice in a connection's life.
#[derive(Debug, Default)]
pub(crate) struct Cold {
    /// For people; the hot path compares fingerprints.
    pub(crate) remote: Option<SocketAddr>,
    /// The connection id that waits in the list of handshakes.
    pub(crate) waits_as: Option<Cid>,
}

impl Flow {
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number,
            tag: AtomicU32::new(NOBODY),
            remote: AtomicU64::new(Fingerprint::NONE.0),
            heard: Heard::default(),
            reverse: Stamps::default(),
            told: Stamps::default(),
            unanswered: AtomicU32::new(0),
            gauges: Gauges::default(),
            cold: Mutex::default(),
        }
    }

    #[inline]
    pub(crate) fn tag(&self) -> Tag {
        self.tag.load(Relaxed)
    }

    /// Only the table that hands tags out may call this.
    pub(crate) fn set_tag(&self, tag: Tag) {
        self.tag.store(tag, Relaxed);
    }

    #[inline]
    pub(crate) fn remote(&self) -> Fingerprint {
        Fingerprint(self.remote.load(Relaxed))
    }

    /// Datagrams go elsewhere from now on. What was said of the old path is forgotten.
    pub(crate) fn set_remote(&self, print: Fingerprint, address: SocketAddr) {
        self.remote.store(print.0, Relaxed);
        self.told.take();
        self.reverse.take();
        self.cold().remote = Some(address);
    }

    /// Whether the other end has answered with a tag of its own.
    #[inline]
    pub(crate) fn is_linked(&self) -> bool {
        self.heard.tag() != NOBODY
    }

    /// One more send to a peer that has not answered; how many there were before.
    pub(crate) fn count_unanswered(&self) -> u32 {
        self.unanswered.fetch_add(1, Relaxed)
    }

    pub(crate) fn cold(&self) -> MutexGuard<'_, Cold> {
        self.cold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
