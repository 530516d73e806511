//! The sending half of a rack: messages are handed over, replies come in, the law decides, packets are made.

use core::cmp::Reverse;
use poseidon_laws::parts::coexistence::{Coexistence, CoexistenceAck};
use poseidon_laws::parts::plb::PlbAck;
use poseidon_laws::{Ack, Loss, Pacing};
use poseidon_plan::records::{DecisionRow, MessageRow};
use poseidon_plan::traffic::{Amount, Connection, Event};
use poseidon_plan::transport::{Echo, Eligibility, Recovery, Spread};
use poseidon_types::{Bytes, Nanos, Packets, Picos};

use super::{Ends, Rack, Timer};
use crate::chance::{low_half, mix, mix_two};
use crate::connection::{Acked, Sender, Sending};
use crate::packet::{Kind, Packet, Tag};
use crate::schedule::last_payload;
use crate::world::World;

impl Rack {
    /// A message may be sent; it is, once those before it on its connection have been handed over.
    pub(super) fn its_time_has_come(
        &mut self,
        world: &mut World<'_>,
        ends: &mut Ends,
        message: u32,
        now: u64,
    ) {
        let connection = world.plan.messages[message as usize].connection;
        if let Some(early) = ends.is_early.get_mut(message as usize) {
            *early = true;
        }
        let mut next = Some(message);
        while let Some(message) = next {
            let handed = ends.senders[connection as usize].as_ref().map_or(0, |sender| sender.handed);
            if world.schedule.message(connection, handed) != Some(message) {
                break;
            }
            self.hand_over(world, ends, message, now);
            let follows = world.schedule.message(connection, handed + 1);
            next = follows.filter(|next| ends.is_early.get(*next as usize) == Some(&true));
        }
        self.make_ready(world, ends, connection, now);
    }

    /// The application hands over a message.
    fn hand_over(&mut self, world: &mut World<'_>, ends: &mut Ends, index: u32, now: u64) {
        let plan = world.plan;
        let message = plan.messages[index as usize];
        let connection = plan.connections[message.connection as usize];
        let sender = ends.senders[message.connection as usize].get_or_insert_with(|| {
            let law = plan.laws[connection.law as usize]
                .build(&plan.path(&connection), crate::run::supplies(plan))
                .expect("the plan was checked");
            let mut sender = Sender::new(law, entropy_of(&connection));
            if world.plan.transport.coexistence {
                sender.coexistence = Some(Box::new(Coexistence::new(Nanos::new(now / 1_000))));
            }
            Box::new(sender)
        });
        let first = match sender.handed.checked_sub(1) {
            Some(before) => world.schedule.message(message.connection, before).map(|m| world.schedule.end(m)),
            None => None,
        };
        sender.handed += 1;
        sender.hand_over(Sending {
            message: index,
            first: first.unwrap_or(0),
            end: world.schedule.end(index),
            last_payload: message.amount.bytes().map_or(0, |size| last_payload(size, plan.transport.mtu)),
            start: Picos::new(now),
            size: message.amount.bytes(),
            retransmitted: 0,
        });
        if let Amount::Until(until) = message.amount
            && until < plan.stop
        {
            self.timers.push(Reverse((until.get().max(now), Timer::Stop(message.connection))));
        }
    }

    /// A message without a size ends.
    pub(super) fn stop(&mut self, world: &mut World<'_>, ends: &mut Ends, connection: u32, now: u64) {
        let Some(sender) = ends.senders[connection as usize].as_mut() else { return };
        if sender.stop() {
            self.finish_messages(world, ends, connection, now);
        }
    }

    /// A reply has arrived: the law decides.
    pub(super) fn on_reply(&mut self, world: &mut World<'_>, ends: &mut Ends, id: u32, now: u64) {
        let reply = world.arena[id];
        let connection = reply.connection;
        let Some(sender) = ends.senders[connection as usize].as_mut() else {
            // All its messages are done.
            world.discard(id);
            return;
        };
        let transport = &world.plan.transport;
        let before = Packets::whole(u64::from(sender.in_flight));
        let lost_before = sender.lost;
        let acked = match (reply.tag.kind(), transport.recovery) {
            (Kind::Ack, Recovery::Selective { reordering }) => {
                sender.acknowledge(reply.seq, reply.sent_at, reply.cumulative, reordering)
            }
            (Kind::Ack, Recovery::GoBackN) => {
                sender.acknowledge(reply.seq, reply.sent_at, reply.cumulative, u32::MAX)
            }
            (Kind::Nack, _) => sender.go_back(reply.cumulative),
            // A notification acknowledges nothing.
            _ => Acked { packets: 0, found_loss: false },
        };
        let marked = reply.tag.is_marked();
        if marked && transport.echo == Echo::UntilReduced {
            sender.hear_mark();
        }
        let rtt = (now - reply.sent_at) / 1_000;
        sender.srtt = if sender.srtt == 0 { rtt } else { (3 * sender.srtt + rtt) / 4 };
        let bytes = transport.mtu * u64::from(acked.packets);
        let (forward, backward) = world.telemetry.delays(&reply);
        let at = Nanos::new(now / 1_000);
        let chance = low_half(mix(world.plan.seed ^ mix_two(connection, reply.seq)));
        let ack = Ack {
            now: at,
            rtt: Nanos::new(rtt),
            packets: acked.packets,
            bytes,
            // A notification speaks for one packet that is acknowledged elsewhere.
            marked: if marked { bytes.max(Bytes::new(1)) } else { Bytes::ZERO },
            acked_seq: u64::from(sender.una) * transport.mtu.get(),
            next_seq: u64::from(sender.next) * transport.mtu.get(),
            max_hop_delay: forward,
            reverse_max_hop_delay: backward,
            hops: world.telemetry.records(&reply),
            hop_count: reply.switches,
            circuit_up: reply.tag.has_flag(),
            // Less than half of the window was in use when the ACK arrived.
            app_limited: before.q24() * 2 < sender.decision.window.q24(),
            chance,
            ..Ack::EMPTY
        };
        let (acked_seq, next_seq) = (ack.acked_seq, ack.next_seq);
        let hop_queue = ack.hops.records.iter().map(|record| record.queue).max();
        sender.law.on_ack(&ack);
        let congested = transport.plb.is_some() && sender.law.is_congested(&ack);
        world.report.decisions += 1;
        world.report.decisions_with_telemetry += u64::from(reply.reflected_hops > 0);
        update_coexistence(sender, &ack, sender.lost.wrapping_sub(lost_before));
        if acked.found_loss && sender.coexistence.as_mut().is_none_or(|coexistence| coexistence.on_loss(at)) {
            sender.law.on_loss(&Loss { now: at });
        }
        take_over(sender);
        if let Some(plb) = &transport.plb {
            let heard = PlbAck { now: at, acked_seq, next_seq, congested, idle: sender.in_flight == 0 };
            if sender.plb.on_ack(&heard, plb) {
                repath(world, sender);
            }
        }
        sender.deadline = now.saturating_add(timeout(world, sender));
        if world.plan.log_decisions && world.plan.watched_connections.binary_search(&connection).is_ok() {
            world.rows.decisions.push(DecisionRow {
                at: Picos::new(now),
                connection,
                packet: reply.seq,
                rtt: Nanos::new(rtt),
                marked,
                hop_delay: forward,
                hop_queue,
                window: sender.decision.window,
            });
        }
        world.discard(id);
        self.finish_messages(world, ends, connection, now);
        self.make_ready(world, ends, connection, now);
    }

    /// Writes down the messages that have been acknowledged whole.
    fn finish_messages(&mut self, world: &mut World<'_>, ends: &mut Ends, connection: u32, now: u64) {
        loop {
            let Some(sender) = ends.senders[connection as usize].as_mut() else { return };
            let Some(message) = sender.take_finished() else { return };
            let packets = u64::from(message.end - message.first);
            world.rows.messages.push(MessageRow {
                message: message.message,
                start: message.start,
                acknowledged: Picos::new(now),
                size: message.size.unwrap_or(world.plan.transport.mtu * packets),
                retransmitted: message.retransmitted,
            });
            let is_last = world.schedule.message(connection, sender.handed).is_none();
            if sender.messages.is_empty() && is_last {
                // Nothing more will be sent: a connection takes no memory when it is done.
                ends.senders[connection as usize] = None;
            }
            self.let_go(world, ends, message.message, Event::Acknowledged, now);
        }
    }

    /// A timer for silence has fired; the ACKs since it was set may have moved the time that it was set for.
    pub(super) fn on_silence(&mut self, world: &mut World<'_>, ends: &mut Ends, connection: u32, now: u64) {
        let Some(sender) = ends.senders[connection as usize].as_mut() else { return };
        if sender.silence_timer != now {
            return;
        }
        sender.silence_timer = u64::MAX;
        if sender.in_flight > 0 && now >= sender.deadline {
            let at = Nanos::new(now / 1_000);
            world.report.timeouts += 1;
            sender.time_out();
            sender.law.on_timeout(at);
            if let Some(coexistence) = &mut sender.coexistence {
                coexistence.on_timeout(at);
            }
            take_over(sender);
            let chance = low_half(mix(world.plan.seed ^ mix_two(connection, sender.next)));
            if let Some(plb) = &world.plan.transport.plb
                && sender.plb.on_timeout(at, chance, plb)
            {
                repath(world, sender);
            }
            sender.deadline = now.saturating_add(timeout(world, sender));
        }
        self.make_ready(world, ends, connection, now);
    }

    /// Something has changed for a connection: it may send now, or its timers move.
    pub(super) fn make_ready(&mut self, world: &mut World<'_>, ends: &mut Ends, connection: u32, now: u64) {
        let Some(sender) = ends.senders[connection as usize].as_mut() else { return };
        let ends_of = &world.plan.connections[connection as usize];
        let (from, priority) = (ends_of.from, ends_of.priority);
        let place = self.place_of(world, from);
        self.take_turn(world, sender, connection, place, priority, now);
        if sender.in_flight > 0 {
            self.arm_silence(sender, connection);
        }
        self.send_next(world, ends, place, now);
    }

    /// A connection that has something to send and room for it gets in line, or waits for its pacing.
    fn take_turn(
        &mut self,
        world: &World<'_>,
        sender: &mut Sender,
        connection: u32,
        place: u32,
        priority: u8,
        now: u64,
    ) {
        if !sender.has_data() || !has_room(world, sender) {
            return;
        }
        if sender.next_send > now {
            if sender.next_send < sender.pace_timer {
                sender.pace_timer = sender.next_send;
                self.timers.push(Reverse((sender.next_send, Timer::Pace(connection))));
            }
        } else if !sender.is_ready {
            sender.is_ready = true;
            self.lane(world, place, priority).ready.push_back(connection);
        }
    }

    /// Sets a connection's timer for silence, unless an earlier one is set: when that fires, it is set anew.
    fn arm_silence(&mut self, sender: &mut Sender, connection: u32) {
        if sender.deadline < sender.silence_timer {
            sender.silence_timer = sender.deadline;
            self.timers.push(Reverse((sender.deadline, Timer::Silence(connection))));
        }
    }

    /// The next packet of a lane: a reply, or one of the first connection in turn that may still send.
    pub(super) fn next_of_lane(
        &mut self,
        world: &mut World<'_>,
        ends: &mut Ends,
        place: u32,
        priority: u8,
        now: u64,
    ) -> Option<u32> {
        if let Some(id) = self.lane(world, place, priority).replies.pop(&world.arena) {
            // The time a reply waits for the wire is the host's, not the network's.
            let reply = &mut world.arena[id];
            reply.sent_at += now - reply.enqueued_at;
            return Some(id);
        }
        while let Some(connection) = self.lane(world, place, priority).ready.pop_front() {
            let Some(sender) = ends.senders[connection as usize].as_mut() else { continue };
            sender.is_ready = false;
            if !has_room(world, sender) || sender.next_send > now {
                continue;
            }
            let Some((seq, again)) = sender.take_next(now) else { continue };
            let id = new_packet(world, sender, connection, seq, now);
            world.report.retransmitted += u64::from(again);
            sender.next_send = now.saturating_add(spacing(sender, world.arena[id].size));
            if sender.in_flight == 1 {
                sender.deadline = now.saturating_add(timeout(world, sender));
            }
            self.arm_silence(sender, connection);
            self.take_turn(world, sender, connection, place, priority, now);
            return Some(id);
        }
        None
    }
}

fn new_packet(world: &mut World<'_>, sender: &mut Sender, connection: u32, seq: u32, now: u64) -> u32 {
    let ends = &world.plan.connections[connection as usize];
    let to = world.network.place(ends.to);
    let payload = sender.payload(seq, world.mtu);
    let records = world.telemetry.fresh();
    let mut tag = Tag::new(Kind::Data, ends.priority);
    tag.set_flag(core::mem::take(&mut sender.says_reduced));
    world.report.sent += 1;
    world.report.sent_bytes += Bytes::new(u64::from(payload));
    world.arena.add(Packet {
        sent_at: now,
        connection,
        seq,
        to_rack: to.rack,
        to_place: to.place,
        to_pod: to.pod,
        entropy: match world.plan.transport.spread {
            Spread::PerFlow => sender.entropy,
            // Sent again, it takes another way.
            Spread::PerPacket => low_half(mix_two(sender.entropy, sender.transmitted)),
        },
        size: payload + world.overhead,
        records,
        tag,
        ..Packet::EMPTY
    })
}

/// What the packets of a connection are hashed by at first.
pub(crate) fn entropy_of(connection: &Connection) -> u32 {
    low_half(mix(mix_two(connection.from, connection.to) ^ mix(u64::from(connection.entropy))))
}

/// A connection takes another path from its next packet on.
fn repath(world: &mut World<'_>, sender: &mut Sender) {
    world.report.repaths += 1;
    sender.entropy = low_half(mix(u64::from(sender.entropy)));
}

/// Whether the window has room for one more packet.
fn has_room(world: &World<'_>, sender: &Sender) -> bool {
    let window = sender.decision.window;
    // Below one packet, one at a time; pacing spaces them.
    if window < Packets::ONE {
        return sender.in_flight == 0;
    }
    match world.plan.transport.eligibility {
        Eligibility::Floor => Packets::whole(u64::from(sender.in_flight) + 1) <= window,
        Eligibility::Ceil => Packets::whole(u64::from(sender.in_flight)) < window,
    }
}

/// Gives an ACK to the coexistence policy, where it is on and the law has a target delay.
#[inline]
fn update_coexistence(sender: &mut Sender, ack: &Ack<'_>, lost: u32) {
    if let Some(coexistence) = &mut sender.coexistence
        && let Some(signal) = sender.law.delay_signal(ack)
    {
        let window = sender.law.decision().window;
        coexistence.on_ack(&CoexistenceAck::new(ack, signal, window, lost));
    }
}

/// Takes over what the law decides now. A gap that is running is measured anew from the same send: otherwise a flow below one packet
/// would be paced by the round trip before the last, and one that has grown beyond it would still wait.
fn take_over(sender: &mut Sender) {
    let gap = |pacing| match pacing {
        Pacing::Gap(gap) => Picos::from_nanos(gap).get(),
        Pacing::Off | Pacing::Rate(_) => 0,
    };
    let last_send = sender.next_send.saturating_sub(gap(sender.decision.pacing));
    sender.decision = match &sender.coexistence {
        None => sender.law.decision(),
        Some(coexistence) => coexistence.decision(sender.law.decision()),
    };
    sender.next_send = last_send.saturating_add(gap(sender.decision.pacing));
}

/// How long the next packet waits after one of `size` bytes, ps.
fn spacing(sender: &Sender, size: u16) -> u64 {
    match sender.decision.pacing {
        Pacing::Off => 0,
        Pacing::Gap(gap) => Picos::from_nanos(gap).get(),
        Pacing::Rate(rate) => rate.send_time_ceil(Bytes::new(u64::from(size))).get(),
    }
}

/// How long silence may last, ps: the configured minimum, or twice the smoothed round trip and the pacing gap; before there is a
/// round trip to go by, as long as configured for that.
fn timeout(world: &World<'_>, sender: &Sender) -> u64 {
    if sender.srtt == 0 {
        return Picos::from_nanos(world.plan.transport.first_rto).get();
    }
    let gap = match sender.decision.pacing {
        Pacing::Gap(gap) => gap,
        Pacing::Off | Pacing::Rate(_) => Nanos::ZERO,
    };
    let wait = world.plan.transport.min_rto.max(Nanos::new(2 * sender.srtt) + gap);
    Picos::from_nanos(wait).get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_laws::{AnyParams, Path};
    use poseidon_types::{BitRate, Signals};

    #[test]
    fn a_running_gap_is_measured_anew_from_the_same_send() {
        let path = Path {
            mtu: Bytes::new(4_096),
            line_rate: BitRate::from_gbps(200),
            base_rtt: Nanos::from_micros(10),
        };
        let mut params = AnyParams::of("poseidon").expect("a law");
        params.set("initial-window", "0.5 packets").expect("a window");
        let mut sender = Sender::new(params.build(&path, Signals::ALL).expect("builds"), 0);
        // It sent at 7 us and may again after 10 us / 0.5.
        sender.next_send = 7_000_000 + spacing(&sender, 4_096);
        assert_eq!(sender.next_send, 27_000_000);
        let slow = Ack { now: Nanos::from_micros(22), rtt: Nanos::from_micros(15), ..Ack::EMPTY };
        sender.law.on_ack(&slow);
        take_over(&mut sender);
        assert_eq!(sender.next_send, 37_000_000);
        // Four empty queues later it has more than one packet, and waits no longer.
        for _ in 0..4 {
            sender.law.on_ack(&Ack { packets: 1, max_hop_delay: Some(Nanos::ZERO), ..slow });
        }
        take_over(&mut sender);
        assert_eq!(sender.next_send, 7_000_000);
    }
}
