//! All flows, indexed by tag.
//!
//! The receive task holds a read lock while it processes a batch of datagrams. The table changes when a
//! connection is opened, migrates or is closed. Tags are random, so one connection's tag reveals nothing about
//! another connection's tag.

use super::address::Fingerprint;
use super::flow::Flow;
use super::handshake::{Cid, LongHeader};
use super::prefix::{NO_TAG, Tag};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The initial number of slots, a power of two. The table doubles when a quarter of its slots are used.
const INITIAL_SLOTS: usize = 1_024;
/// The maximum number of random tags to try when searching for a free slot. At most a quarter of the slots are
/// used, so a second attempt is rare and the limit is never reached in practice.
const MAX_ATTEMPTS: usize = 64;

/// The shared table of all flows.
#[derive(Debug)]
pub(crate) struct FlowRegistry {
    table: RwLock<FlowTable>,
    next_number: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct FlowTable {
    /// The slots, indexed by the lowest bits of the tag.
    slots: Vec<Option<Arc<Flow>>>,
    used_slots: usize,
    /// The flows whose peer has not answered, by local connection ID.
    pending_handshakes: BTreeMap<Cid, Arc<Flow>>,
}

impl FlowRegistry {
    pub(crate) fn new() -> Self {
        let table = FlowTable {
            slots: vec![None; INITIAL_SLOTS],
            used_slots: 0,
            pending_handshakes: BTreeMap::new(),
        };
        Self { table: RwLock::new(table), next_number: AtomicU64::new(1) }
    }

    /// Creates a flow.
    pub(crate) fn open(&self) -> Arc<Flow> {
        let flow = Arc::new(Flow::new(self.next_number.fetch_add(1, Relaxed)));
        self.write().assign_tag(&flow);
        flow
    }

    /// Removes a flow.
    pub(crate) fn close(&self, flow: &Flow) {
        let mut table = self.write();
        table.remove_handshake(flow);
        table.release_tag(flow);
    }

    /// Changes a flow's remote address. If the flow had a different address, it is assigned a new tag, because
    /// telemetry under the old tag belongs to the old path.
    pub(crate) fn change_remote(&self, flow: &Arc<Flow>, fingerprint: Fingerprint, address: SocketAddr) {
        if flow.remote() != Fingerprint::NONE {
            let mut table = self.write();
            table.release_tag(flow);
            table.assign_tag(flow);
        }
        flow.set_remote(fingerprint, address);
    }

    /// Inspects an outgoing packet. Until the peer has answered, this records the source connection ID of a
    /// long header, because the peer addresses its answer to that ID.
    #[inline]
    pub(crate) fn inspect_outgoing(&self, flow: &Arc<Flow>, packet: &[u8]) {
        if !flow.shim_negotiated()
            && let Some(header) = LongHeader::parse(packet)
        {
            self.add_handshake(flow, header.source);
        }
    }

    /// Registers a flow's pending handshake under this connection ID.
    fn add_handshake(&self, flow: &Arc<Flow>, source: Cid) {
        if flow.handshake().pending_cid == Some(source) {
            return;
        }
        let mut table = self.write();
        table.remove_handshake(flow);
        table.pending_handshakes.insert(source, Arc::clone(flow));
        flow.handshake().pending_cid = Some(source);
    }

    /// Removes the pending handshake of a flow whose peer has answered.
    pub(crate) fn complete_handshake(&self, flow: &Flow) {
        self.write().remove_handshake(flow);
    }

    /// Locks the table for several lookups.
    #[inline]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, FlowTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, FlowTable> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FlowTable {
    /// Returns the flow whose datagrams carry this tag.
    #[inline]
    pub(crate) fn by_tag(&self, tag: Tag) -> Option<&Arc<Flow>> {
        self.slots[self.slot_index(tag)].as_ref().filter(|flow| flow.tag() == tag)
    }

    /// Returns the flow that waits for an answer to this connection ID.
    pub(crate) fn by_handshake(&self, destination: &Cid) -> Option<&Arc<Flow>> {
        self.pending_handshakes.get(destination)
    }

    /// Iterates over all flows with a tag.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Flow>> {
        self.slots.iter().flatten()
    }

    /// Returns the number of pending handshakes.
    pub(crate) fn handshake_count(&self) -> usize {
        self.pending_handshakes.len()
    }

    /// Assigns a random tag. If the random number generator fails, the flow has no tag. Its peer then cannot
    /// echo telemetry to it, and the round-trip time controls its window.
    fn assign_tag(&mut self, flow: &Arc<Flow>) {
        if self.used_slots * 4 >= self.slots.len() {
            self.grow();
        }
        for _ in 0..MAX_ATTEMPTS {
            let Ok(tag) = getrandom::u32() else { return };
            let slot = self.slot_index(tag);
            if tag == NO_TAG || self.slots[slot].is_some() {
                continue;
            }
            flow.set_tag(tag);
            self.slots[slot] = Some(Arc::clone(flow));
            self.used_slots += 1;
            return;
        }
    }

    fn release_tag(&mut self, flow: &Flow) {
        let slot = self.slot_index(flow.tag());
        if self.slots[slot].as_ref().is_some_and(|found| found.number == flow.number) {
            self.slots[slot] = None;
            self.used_slots -= 1;
        }
        flow.set_tag(NO_TAG);
    }

    /// Doubles the table. Flows in different slots stay in different slots, because the index gains one bit.
    fn grow(&mut self) {
        let slots = vec![None; self.slots.len() * 2];
        for flow in core::mem::replace(&mut self.slots, slots).into_iter().flatten() {
            let slot = self.slot_index(flow.tag());
            self.slots[slot] = Some(flow);
        }
    }

    #[inline]
    fn slot_index(&self, tag: Tag) -> usize {
        tag as usize & (self.slots.len() - 1)
    }

    fn remove_handshake(&mut self, flow: &Flow) {
        if let Some(cid) = flow.handshake().pending_cid.take() {
            self.pending_handshakes.remove(&cid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cid(byte: u8) -> Cid {
        LongHeader::parse(&[0xc0, 0, 0, 0, 1, 1, byte, 0]).expect("a valid long header").destination
    }

    /// Returns the number of flows and the number of pending handshakes.
    fn counts(flows: &FlowRegistry) -> (usize, usize) {
        let table = flows.read();
        (table.used_slots, table.handshake_count())
    }

    #[test]
    fn tag_identifies_its_flow_until_the_flow_closes() {
        let flows = FlowRegistry::new();
        let (a, b) = (flows.open(), flows.open());
        assert_ne!(a.tag(), b.tag());
        assert_eq!(flows.read().by_tag(a.tag()).map(|flow| flow.number), Some(a.number));
        let tag = a.tag();
        flows.close(&a);
        assert!(flows.read().by_tag(tag).is_none());
        assert_eq!(counts(&flows), (1, 0));
        assert_ne!(flows.open().tag(), tag, "a released tag is not reused immediately");
    }

    #[test]
    fn tags_are_unique_and_never_zero() {
        let flows = FlowRegistry::new();
        let open_flows: Vec<_> = (0..20_000).map(|_| flows.open()).collect();
        for flow in &open_flows {
            assert_eq!(flows.read().by_tag(flow.tag()).map(|found| found.number), Some(flow.number));
        }
        let mut tags: Vec<Tag> = open_flows.iter().map(|flow| flow.tag()).collect();
        tags.sort_unstable();
        tags.dedup();
        assert_eq!((tags.len(), tags.contains(&NO_TAG)), (open_flows.len(), false));
        for flow in &open_flows {
            flows.close(flow);
        }
        assert_eq!(counts(&flows), (0, 0));
    }

    /// Each bit is set in half of the tags, within five standard deviations, and is independent of the
    /// previous tag.
    #[test]
    fn consecutive_tags_are_independent() {
        let flows = FlowRegistry::new();
        let tags: Vec<Tag> = (0..4_000).map(|_| flows.open().tag()).collect();
        for bit in 0..Tag::BITS {
            let set_count = tags.iter().filter(|tag| *tag >> bit & 1 == 1).count();
            assert!((1_842..=2_158).contains(&set_count), "bit {bit}: {set_count} of 4,000");
            let change_count = tags.windows(2).filter(|pair| (pair[0] ^ pair[1]) >> bit & 1 == 1).count();
            assert!(
                (1_842..=2_158).contains(&change_count),
                "bit {bit} changes {change_count} of 3,999 times"
            );
        }
    }

    #[test]
    fn migrated_path_gets_a_new_tag() {
        let flows = FlowRegistry::new();
        let flow = flows.open();
        let first_tag = flow.tag();
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        flows.change_remote(&flow, Fingerprint(2), address);
        assert_eq!(flow.tag(), first_tag, "setting the first address does not change the tag");
        flows.change_remote(&flow, Fingerprint(4), address);
        assert_ne!(flow.tag(), first_tag);
        assert!(flows.read().by_tag(first_tag).is_none());
        assert_eq!(counts(&flows), (1, 0));
    }

    #[test]
    fn handshake_is_removed_when_it_completes_or_the_flow_closes() {
        let flows = FlowRegistry::new();
        let (a, b) = (flows.open(), flows.open());
        flows.add_handshake(&a, cid(1));
        flows.add_handshake(&b, cid(2));
        assert_eq!(flows.read().by_handshake(&cid(2)).map(|flow| flow.number), Some(b.number));
        assert_eq!(counts(&flows), (2, 2));
        flows.complete_handshake(&a);
        flows.close(&b);
        assert_eq!(counts(&flows), (1, 0));
    }
}
