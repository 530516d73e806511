//! All flows by their tags.
//!
//! The task that receives holds the list while it goes through a batch of datagrams; it is changed when a connection begins, moves to another
//! address, or ends. Tags are random, so nobody can tell the tag of one connection from that of another.

use crate::address::Fingerprint;
use crate::flow::Flow;
use crate::handshake::{Cid, LongHeader};
use crate::prefix::{NOBODY, Tag};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// So many slots at first; doubled when a fourth is taken. A power of two.
const FIRST_SLOTS: usize = 1_024;
/// Random tags that are tried for a free slot. At most a fourth is taken, so a second try is rare and the last one never needed.
const MOST_TRIES: usize = 64;

/// The list.
#[derive(Debug)]
pub(crate) struct Flows {
    table: RwLock<Table>,
    numbers: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Table {
    /// By the lowest bits of the tag.
    slots: Vec<Option<Arc<Flow>>>,
    live: usize,
    /// Connection ids of ours that the other end has not answered to.
    handshakes: BTreeMap<Cid, Arc<Flow>>,
}

impl Flows {
    pub(crate) fn new() -> Self {
        let table = Table { slots: vec![None; FIRST_SLOTS], live: 0, handshakes: BTreeMap::new() };
        Self { table: RwLock::new(table), numbers: AtomicU64::new(1) }
    }

    /// A new flow.
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
        self.slots[self.slot_of(tag)].as_ref().filter(|flow| flow.tag() == tag)
    }

    /// The flow that waits for an answer to this id.
    pub(crate) fn by_handshake(&self, destination: &Cid) -> Option<&Arc<Flow>> {
        self.handshakes.get(destination)
    }

    /// Every flow that has a tag.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Arc<Flow>> {
        self.slots.iter().flatten()
    }

    /// Flows, and connection ids that wait.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.live, self.handshakes.len())
    }

    /// Without a random number of the system's the flow stays without a tag: its peer does not hear of it, and it runs on the RTT.
    fn give_tag(&mut self, flow: &Arc<Flow>) {
        if self.live * 4 >= self.slots.len() {
            self.grow();
        }
        for _ in 0..MOST_TRIES {
            let Ok(tag) = getrandom::u32() else { return };
            let slot = self.slot_of(tag);
            if tag == NOBODY || self.slots[slot].is_some() {
                continue;
            }
            flow.set_tag(tag);
            self.slots[slot] = Some(Arc::clone(flow));
            self.live += 1;
            return;
        }
    }

    fn take_tag(&mut self, flow: &Flow) {
        let slot = self.slot_of(flow.tag());
        if self.slots[slot].as_ref().is_some_and(|found| found.number == flow.number) {
            self.slots[slot] = None;
            self.live -= 1;
        }
        flow.set_tag(NOBODY);
    }

    /// Flows with different slots keep different ones: of their tags one bit more counts.
    fn grow(&mut self) {
        let slots = vec![None; self.slots.len() * 2];
        for flow in core::mem::replace(&mut self.slots, slots).into_iter().flatten() {
            let slot = self.slot_of(flow.tag());
            self.slots[slot] = Some(flow);
        }
    }

    #[inline]
    fn slot_of(&self, tag: Tag) -> usize {
        tag as usize & (self.slots.len() - 1)
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
        let all: Vec<_> = (0..20_000).map(|_| flows.open()).collect();
        for flow in &all {
            assert_eq!(flows.read().by_tag(flow.tag()).map(|found| found.number), Some(flow.number));
        }
        let mut tags: Vec<Tag> = all.iter().map(|flow| flow.tag()).collect();
        tags.sort_unstable();
        tags.dedup();
        assert_eq!((tags.len(), tags.contains(&NOBODY)), (all.len(), false));
        for flow in &all {
            flows.close(flow);
        }
        assert_eq!(flows.read().sizes(), (0, 0));
    }

    /// Each bit is set in half of the tags, give or take five standard deviations, whatever it was in the tag before.
    #[test]
    fn a_tag_says_nothing_of_the_next() {
        let flows = Flows::new();
        let tags: Vec<Tag> = (0..4_000).map(|_| flows.open().tag()).collect();
        for bit in 0..Tag::BITS {
            let set = tags.iter().filter(|tag| *tag >> bit & 1 == 1).count();
            assert!((1_842..=2_158).contains(&set), "bit {bit}: {set} of 4,000");
            let changed = tags.windows(2).filter(|two| (two[0] ^ two[1]) >> bit & 1 == 1).count();
            assert!((1_842..=2_158).contains(&changed), "bit {bit} changes {changed} of 3,999 times");
        }
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
