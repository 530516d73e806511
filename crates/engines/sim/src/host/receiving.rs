//! The receiving half of a rack: data comes in, replies go out.

use core::cmp::Reverse;
use poseidon_plan::records::ReceivedRow;
use poseidon_plan::traffic::Event;
use poseidon_types::{Bytes, Picos};

use super::{Ends, Rack, Timer};
use crate::packet::{Kind, NONE, Packet, Tag};
use crate::reply::Reply;
use crate::world::World;

impl Rack {
    /// A data packet has arrived.
    pub(super) fn on_data(&mut self, world: &mut World<'_>, ends: &mut Ends, place: u32, id: u32, now: u64) {
        let data = world.arena[id];
        let payload = world.payload(&data);
        let schedule = world.schedule;
        let receiver = &mut ends.receivers[data.connection as usize];
        world.report.delivered += 1;
        world.arrived_bytes += payload;
        let was_marked = receiver.held != NONE && world.arena[receiver.held].tag.is_marked();
        let before = receiver.cumulative;
        let whole = receiver.whole;
        let arrived = receiver.receive(world.plan, &data, was_marked, now, |cumulative| {
            schedule
                .message(data.connection, whole)
                .is_some_and(|message| schedule.end(message) <= cumulative)
        });
        if arrived.is_new {
            receiver.bytes += payload;
            world.report.delivered_bytes += Bytes::new(payload);
            self.note_whole_messages(world, ends, data.connection, now);
        }
        if arrived.flush_first {
            // It does not speak for the packet that has just come.
            self.acknowledge_held(world, ends, data.connection, before, now);
        }
        if arrived.notify {
            self.notify(world, place, &data, now);
        }
        let receiver = &mut ends.receivers[data.connection as usize];
        match arrived.reply {
            Reply::Ack | Reply::Hold => {
                // An ACK speaks for the last of the packets it acknowledges; those before it are done.
                if receiver.held != NONE {
                    world.discard(receiver.held);
                }
                receiver.held = id;
                let held = &mut world.arena[id];
                (held.enqueued_at, held.tag) = (now, held.tag.with_kind(Kind::Held));
                if arrived.reply == Reply::Ack {
                    let cumulative = receiver.cumulative;
                    self.acknowledge_held(world, ends, data.connection, cumulative, now);
                } else if receiver.is_first_held() {
                    self.timers.push(Reverse((receiver.deadline, Timer::Reply(data.connection))));
                }
            }
            Reply::Nack => self.reply(world, place, id, Kind::Nack, receiver.cumulative, false, now),
            Reply::Nothing => world.discard(id),
        }
        self.send_next(world, ends, place, now);
    }

    /// What a receiver holds becomes an ACK of everything below `cumulative`.
    pub(super) fn acknowledge_held(
        &mut self,
        world: &mut World<'_>,
        ends: &mut Ends,
        connection: u32,
        cumulative: u32,
        now: u64,
    ) {
        let receiver = &mut ends.receivers[connection as usize];
        let id = core::mem::replace(&mut receiver.held, NONE);
        let marked = receiver.echoes(world.plan.transport.echo, world.arena[id].tag.is_marked());
        let place = self.place_of(world, world.plan.connections[connection as usize].to);
        self.reply(world, place, id, Kind::Ack, cumulative, marked, now);
    }

    /// A data packet becomes its reply and waits for the wire.
    #[expect(clippy::too_many_arguments, reason = "a reply is made of these")]
    fn reply(
        &mut self,
        world: &mut World<'_>,
        place: u32,
        id: u32,
        kind: Kind,
        cumulative: u32,
        marked: bool,
        now: u64,
    ) {
        let connection = world.plan.connections[world.arena[id].connection as usize];
        let back = world.network.place(connection.from);
        let packet = &mut world.arena[id];
        // The time since the packet came in is the host's, not the network's.
        if packet.enqueued_at < now && kind == Kind::Ack {
            packet.sent_at += now - packet.enqueued_at;
        }
        let priority = world.plan.transport.ack_priority.unwrap_or_else(|| packet.tag.priority());
        packet.tag = Tag::new(kind, priority);
        packet.tag.set_marked(marked);
        packet.enqueued_at = now;
        packet.cumulative = cumulative;
        (packet.to_rack, packet.to_place, packet.to_pod) = (back.rack, back.place, back.pod);
        // The way back is hashed apart from the way there.
        packet.entropy = !packet.entropy;
        packet.size = world.reply_size;
        world.telemetry.reflect(packet);
        world.report.replies += 1;
        self.lane(world, place, priority).replies.push(&mut world.arena, id);
    }

    /// A notification of congestion, beside the ACK.
    fn notify(&mut self, world: &mut World<'_>, place: u32, data: &Packet, now: u64) {
        let back = world.network.place(world.plan.connections[data.connection as usize].from);
        let priority = world.plan.transport.ack_priority.unwrap_or_else(|| data.tag.priority());
        let mut tag = Tag::new(Kind::Notice, priority);
        tag.set_marked(true);
        let id = world.arena.add(Packet {
            enqueued_at: now,
            to_rack: back.rack,
            to_place: back.place,
            to_pod: back.pod,
            entropy: !data.entropy,
            own_delay: 0,
            own_hops: 0,
            size: world.reply_size,
            records: NONE,
            tag,
            ..*data
        });
        world.report.replies += 1;
        self.lane(world, place, priority).replies.push(&mut world.arena, id);
    }

    /// Writes down messages that have just become whole, and lets go what waited for them.
    fn note_whole_messages(&mut self, world: &mut World<'_>, ends: &mut Ends, connection: u32, now: u64) {
        loop {
            let receiver = &mut ends.receivers[connection as usize];
            let next = world.schedule.message(connection, receiver.whole);
            let Some(message) = next.filter(|message| world.schedule.end(*message) <= receiver.cumulative)
            else {
                return;
            };
            receiver.whole += 1;
            world.rows.received.push(ReceivedRow { message, at: Picos::new(now) });
            self.let_go(world, ends, message, Event::Received, now);
        }
    }
}
