//! Packet trimming: data that does not fit in its queue is cut to its header.

use poseidon_plan::records::{DropCause, TrimRow};
use poseidon_types::{Bytes, Picos};

use super::Switches;
use crate::context::ShardContext;
use crate::hash::{hash_pair, splitmix64};
use crate::packet::{Packet, PacketId, PacketKind, PacketTag};

/// The priority of headers, ACKs and NACKs.
const HEADER_PRIORITY: u8 = 0;
/// The limit of the header queue as a multiple of the limit of another queue.
const HEADER_LIMIT: u64 = 2;

impl Switches {
    /// Handles a packet that the buffer policy does not admit to its queue. Data is trimmed: either the packet or the
    /// newest packet in the queue. A header may exceed the limit, up to a larger one. Returns whether the packet itself
    /// was admitted to its queue.
    #[cold]
    pub(super) fn trim_or_drop(
        &mut self,
        ctx: &mut ShardContext<'_>,
        switch: usize,
        port: usize,
        queue: usize,
        id: PacketId,
        now: Picos,
    ) -> bool {
        let packet = ctx.arena[id];
        if packet.tag.priority() == HEADER_PRIORITY {
            let is_admitted = self.has_header_space(switch, port, packet.size);
            if !is_admitted {
                self.drop_at(ctx, switch, port, id, now);
            }
            return is_admitted;
        }
        if packet.tag.kind() != PacketKind::Data {
            self.drop_at(ctx, switch, port, id, now);
            return false;
        }
        let newest = self.queues[queue].packets.back();
        let newest = newest.filter(|newest| {
            let random = splitmix64(now.get() ^ hash_pair(packet.connection, packet.seq));
            let trims_newest = splitmix64(self.ports[port].random_seed ^ random) & 1 != 0;
            trims_newest && self.fits_instead(switch, port, queue, ctx.arena[*newest].size, packet.size)
        });
        if let Some(newest) = newest {
            // The packets change places, so that the slot at the end of the queue holds the new packet.
            let trimmed = ctx.arena[newest];
            ctx.arena[newest] = Packet { next: trimmed.next, ..packet };
            ctx.arena[id] = Packet { next: PacketId::NONE, ..trimmed };
            let change = |bytes: &mut u64| *bytes = *bytes - u64::from(trimmed.size) + u64::from(packet.size);
            change(&mut self.queues[queue].queued_bytes);
            change(&mut self.switches[switch].buffered_bytes);
        }
        self.trim(ctx, switch, port, id, now);
        false
    }

    /// Returns whether a packet fits in a queue that loses another packet.
    fn fits_instead(&self, switch: usize, port: usize, queue: usize, lost: u16, size: u16) -> bool {
        let divisor = u64::from(self.ports[port].divisor);
        let (lost, size) = (u64::from(lost), u64::from(size));
        let queue_len = (self.queues[queue].queued_bytes - lost) * divisor;
        let used = Bytes::new(self.switches[switch].buffered_bytes - lost);
        Bytes::new(size * divisor) <= self.switches[switch].buffer.free_space(used, Bytes::new(queue_len))
    }

    /// Returns whether the header queue of a port may hold another packet.
    fn has_header_space(&self, switch: usize, port: usize, size: u16) -> bool {
        let queue = &self.queues[self.ports[port].first_queue as usize + usize::from(HEADER_PRIORITY)];
        let divisor = u64::from(self.ports[port].divisor);
        let queue_len = Bytes::new(queue.queued_bytes * divisor / HEADER_LIMIT);
        let used = Bytes::new(self.switches[switch].buffered_bytes);
        let free = self.switches[switch].buffer.free_space(used, queue_len) * HEADER_LIMIT;
        Bytes::new(u64::from(size) * divisor) <= free
    }

    /// Cuts a packet to its header and queues the header, or drops it if the header queue is full.
    fn trim(&mut self, ctx: &mut ShardContext<'_>, switch: usize, port: usize, id: PacketId, now: Picos) {
        let Some(trim) = ctx.plan.switch.trim else { return };
        let last_hop = !ctx.network.is_switch(self.ports[port].wire.peer);
        let payload = Bytes::new(ctx.payload(&ctx.arena[id]));
        ctx.report.trimmed += 1;
        ctx.report.trimmed_at_last_hop += u64::from(last_hop);
        ctx.report.trimmed_bytes += payload;
        self.trims[port] += 1;
        let packet = &mut ctx.arena[id];
        let mut tag = PacketTag::new(PacketKind::Trimmed, HEADER_PRIORITY);
        tag.set_marked(packet.tag.is_marked());
        tag.set_last_hop(last_hop);
        packet.tag = tag;
        // A packet may be smaller than a header.
        packet.size = packet.size.min(u16::try_from(trim.size.get()).unwrap_or(u16::MAX));
        packet.set_enqueued_at(now);
        self.queue_header(ctx, switch, port, id, now);
    }

    /// Queues a header, or drops it if the header queue is full.
    fn queue_header(
        &mut self,
        ctx: &mut ShardContext<'_>,
        switch: usize,
        port: usize,
        id: PacketId,
        now: Picos,
    ) {
        let size = ctx.arena[id].size;
        if !self.has_header_space(switch, port, size) {
            self.drop_at(ctx, switch, port, id, now);
            return;
        }
        let queue = self.ports[port].first_queue as usize + usize::from(HEADER_PRIORITY);
        self.queues[queue].packets.push(&mut ctx.arena, id);
        self.queues[queue].queued_bytes += u64::from(size);
        self.switches[switch].buffered_bytes += u64::from(size);
        self.ports[port].occupied |= 1 << HEADER_PRIORITY;
        self.try_depart(ctx, switch, port, now);
    }

    fn drop_at(&self, ctx: &mut ShardContext<'_>, switch: usize, port: usize, id: PacketId, now: Picos) {
        let switch_id = self.switches[switch].id;
        ctx.capture_drop(switch_id, self.port_id(switch, port), id, now, DropCause::Buffer);
        ctx.drop_packet(switch_id, id, now, DropCause::Buffer);
    }

    /// Records the number of packets that each port has trimmed.
    pub(crate) fn record_trims(&self, ctx: &mut ShardContext<'_>) {
        for switch in 0..self.switches.len() {
            let first = self.switches[switch].first_port as usize;
            let ports = first..first + self.switches[switch].ports as usize;
            for port in ports.filter(|port| self.trims.get(*port).is_some_and(|trims| *trims > 0)) {
                let (switch_id, port_id) = (self.switches[switch].id, self.port_id(switch, port));
                let trimmed = self.trims[port];
                ctx.rows.trims.push(TrimRow { switch: switch_id, port: port_id, trimmed });
            }
        }
    }
}
