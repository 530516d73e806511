//! All flows by their tags.
//!
//! The task that receives holds the list while it goes through a batch of datagrams; it is changed when a connection begins, moves to another
//! address, or ends. Tags are handed out in turn, so that one is not used again soon: a datagram of its last owner could still
//! be on the way.

use crate::address::Fingerprint;
use crate::flow::Flow;
use crate::handshake::{Cid, LongHeader};
use crate::prefix::{NOBODY, Tag};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// So many places at first; doubled while more than a fourth is taken.
const FIRST_PLACES: usize = 1_024;
/// As many as tags can name.
const MOST_PLACES: usize = 1 << Tag::BITS;

/// The list.
#[derive(Debug)]
pub(crate) struct Flows {
    table: RwLock<Table>,
    numbers: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Table {
    /// By tag; the first is nobody's.
    places: Vec<Option<Arc<Flow>>>,
    next: usize,
    live: usize,
    /// Connection ids of ours that the other end has not answered to.
    handshakes: BTreeMap<Cid, Arc<Flow>>,
}

impl Flows {
    pub(crate) fn new() -> Self {
        let table = Table { places: vec![None; FIRST_PLACES], next: 1, live: 0, handshakes: BTreeMap::new() };
        Self { table: RwLock::new(table), numbers: AtomicU64::new(1) }
    }

    /// A new flow, with a tag if one is free.
    pub(crate) fn open(&self) -> Arc<Flow> {
        let flow = Arc::new(Flow::new(self.numbers.fetch_add(1, Relaxed)));
        self.write().give_tag(&flow);
        flow
    }

    /// The flow has ended.
    pub(crate) fn close(&self, flow: &Flow) {
        let mut table = self.write();
        table.forget_handshake(flow);
        table.take_tag(flow);
    }

    /// The flow's datagrams go to another address. It gets another tag, because what is still said under the old one is said of the old path.
    pub(crate) fn moved(&self, flow: &Arc<Flow>, print: Fingerprint, address: SocketAddr) {
        if flow.remote() != Fingerprint::NONE {
            let mut table = self.write();
            table.take_tag(flow);
            table.give_tag(flow);
        }
        flow.set_remote(print, address);
    }

    /// The flow sends this. While its peer has not answered, the packet of a handshake says under which id the answer will come.
    #[inline]
    pub(crate) fn note_packet(&self, flow: &Arc<Flow>, packet: &[u8]) {
        if !flow.is_linked()
            && let Some(ids) = LongHeader::parse(packet)
        {
            self.note_handshake(flow, ids.source);
        }
    }

    /// The flow has sent a packet of its handshake under this id.
    fn note_handshake(&self, flow: &Arc<Flow>, source: Cid) {
        if flow.cold().waits_as == Some(source) {
            return;
        }
        let mut table = self.write();
        table.forget_handshake(flow);
        table.handshakes.insert(source, Arc::clone(flow));
        flow.cold().waits_as = Some(source);
    }

    /// Its peer has answered.
    pub(crate) fn end_handshake(&self, flow: &Flow) {
        self.write().forget_handshake(flow);
    }

    /// To look up several.
    #[inline]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The flow whose datagrams carry this tag.
    #[inline]
    pub(crate) fn by_tag(&self, tag: Tag) -> Option<&Arc<Flow>> {
        self.places.get(usize::from(tag))?.as_ref()
    }

    /// The flow that waits for an answer to this id.
    pub(crate) fn by_handshake(&self, destination: &Cid) -> Option<&Arc<Flow>> {
        self.handshakes.get(destination)
    }

    /// Every flow that has a tag.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Arc<Flow>> {
        self.places.iter().flatten()
    }

    /// Flows, and connection ids that wait.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.live, self.handshakes.len())
    }

    fn give_tag(&mut self, flow: &Arc<Flow>) {
        if self.live * 4 >= self.places.len() && self.places.len() < MOST_PLACES {
            self.places.resize(self.places.len() * 2, None);
        }
        let places = self.places.len();
        let in_turn = (self.next..places).chain(1..self.next);
        let Some(free) = in_turn.into_iter().find(|at| self.places[*at].is_none()) else { return };
        let Ok(tag) = Tag::try_from(free) else { return };
        self.places[free] = Some(Arc::clone(flow));
        self.live += 1;
        self.next = if free + 1 < places { free + 1 } else { 1 };
        flow.set_tag(tag);
    }

    fn take_tag(&mut self, flow: &Flow) {
        let tag = flow.tag();
        if let Some(place @ Some(_)) = self.places.get_mut(usize::from(tag)) {
            *place = None;
            self.live -= 1;
        }
        flow.set_tag(NOBODY);
    }

    fn forget_handshake(&mut self, flow: &Flow) {
        if let Some(cid) = flow.cold().waits_as.take() {
            self.handshakes.remove(&cid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cid(byte: u8) -> Cid {
        LongHeader::parse(&[0xc0, 0, 0, 0, 1, 1, byte, 0]).expect("a long header").destination
    }

    #[test]
    fn a_tag_finds_its_flow_until_it_ends() {
        let flows = Flows::new();
        let (a, b) = (flows.open(), flows.open());
        assert_ne!(a.tag(), b.tag());
        assert_eq!(flows.read().by_tag(a.tag()).map(|flow| flow.number), Some(a.number));
        let tag = a.tag();
        flows.close(&a);
        assert!(flows.read().by_tag(tag).is_none());
        assert_eq!(flows.read().sizes(), (1, 0));
        // Not used again at once.
        assert_ne!(flows.open().tag(), tag);
    }

    #[test]
    fn nobody_has_tag_zero_and_no_two_have_the_same() {
        let flows = Flows::new();
        let all: Vec<_> = (0..MOST_PLACES).map(|_| flows.open()).collect();
        let mut tags: Vec<Tag> = all.iter().map(|flow| flow.tag()).collect();
        // One flow more than tags: it does without.
        assert_eq!(tags.iter().filter(|tag| **tag == NOBODY).count(), 1);
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), MOST_PLACES);
        for flow in &all {
            flows.close(flow);
        }
        assert_eq!(flows.read().sizes(), (0, 0));
    }

    #[test]
    fn a_path_that_moves_gets_another_tag() {
        let flows = Flows::new();
        let flow = flows.open();
        let first = flow.tag();
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        flows.moved(&flow, Fingerprint(2), address);
        assert_eq!(flow.tag(), first, "the first address is no move");
        flows.moved(&flow, Fingerprint(4), address);
        assert_ne!(flow.tag(), first);
        assert!(flows.read().by_tag(first).is_none());
        assert_eq!(flows.read().sizes(), (1, 0));
    }

    #[test]
    fn a_handshake_is_forgotten_when_it_is_answered_and_when_it_is_not() {
        let flows = Flows::new();
        let (a, b) = (flows.open(), flows.open());
        flows.note_handshake(&a, cid(1));
        flows.note_handshake(&b, cid(2));
        assert_eq!(flows.read().by_handshake(&cid(2)).map(|flow| flow.number), Some(b.number));
        assert_eq!(flows.read().sizes(), (2, 2));
        flows.end_handshake(&a);
        flows.close(&b);
        assert_eq!(flows.read().sizes(), (1, 0));
    }
}
