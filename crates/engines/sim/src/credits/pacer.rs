//! The receiver's side of credits: one pacer per NIC, which grants credit to the connections that ask for it.

use poseidon_plan::transport::Credits;
use poseidon_types::{BitRate, ConnectionId, Fraction, Picos};
use std::collections::VecDeque;

use super::oversubscription::{Arrival, Oversubscription};
use super::{QUANTUM, to_quanta};

/// The quanta that the pacer waits for after a pull packet that grants nothing.
const SMALLEST_WAIT: u32 = 4;

/// A connection's credit at its receiver, in quanta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The total that the receiver has granted.
    granted: u32,
    /// The largest total that the sender has asked for.
    target: u32,
    /// The largest credit that the receiver grants without demand.
    limit: u32,
    queue: Queue,
}

/// The pacer's list that contains a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    None,
    /// The connections with demand.
    Active,
    /// The connections whose demand is satisfied.
    Idle,
}

impl Grant {
    /// `limit` is the largest credit without demand in bytes.
    pub(crate) fn new(limit: u64) -> Self {
        let limit = u32::try_from(limit / QUANTUM).unwrap_or(u32::MAX);
        Self { granted: 0, target: 0, limit, queue: Queue::None }
    }
}

/// The pacer of one NIC.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    active: VecDeque<ConnectionId>,
    idle: VecDeque<ConnectionId>,
    /// The time of the next pull packet, or [`Picos::MAX`] if the pacer is stopped.
    next: Picos,
    oversubscription: Oversubscription,
}

/// A pull packet that the receiver sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pull {
    pub(crate) connection: ConnectionId,
    /// The connection's total credit so far, in quanta.
    pub(crate) granted: u32,
}

impl Pacer {
    pub(crate) fn new(credits: &Credits) -> Self {
        Self {
            active: VecDeque::new(),
            idle: VecDeque::new(),
            next: Picos::MAX,
            oversubscription: Oversubscription::new(to_f64(credits.min_rate)),
        }
    }

    /// Counts an arrival for oversubscription control.
    pub(crate) fn record(&mut self, arrival: Arrival, now: Picos, credits: &Credits) {
        if credits.oversubscription {
            self.oversubscription.record(arrival, now, period(credits));
        }
    }

    /// Processes a sender's demand. Returns whether the pacer was stopped and must now send a pull packet.
    ///
    /// With `must_answer`, the connection gets a pull packet even if it asks for nothing new.
    pub(crate) fn on_demand(
        &mut self,
        connection: ConnectionId,
        grant: &mut Grant,
        target: u32,
        must_answer: bool,
        now: Picos,
    ) -> bool {
        let is_new = target > grant.target;
        grant.target = grant.target.max(target);
        if grant.queue == Queue::Active || !is_new && !must_answer {
            return false;
        }
        grant.queue = Queue::Active;
        self.active.push_back(connection);
        let was_stopped = self.next == Picos::MAX;
        if was_stopped {
            self.next = now;
        }
        was_stopped
    }

    /// Returns whether a timer at `now` is the pacer's current timer.
    pub(crate) fn is_due(&self, now: Picos) -> bool {
        self.next == now
    }

    /// Returns the next pull packet and the time of the one after it. Without connections, stops the pacer.
    ///
    /// Connections with demand take turns. If there is none, the connections whose demand is satisfied get credit in
    /// advance, up to their limit.
    pub(crate) fn next_pull(
        &mut self,
        grants: &mut [Grant],
        rate_of: &dyn Fn(ConnectionId) -> BitRate,
        credits: &Credits,
        now: Picos,
    ) -> Option<(Pull, Picos)> {
        let pull = to_quanta(credits.pull.get());
        let (connection, granted, quanta) = if let Some(connection) = self.active.pop_front() {
            let grant = &mut grants[connection.index()];
            let quanta = pull.min(grant.target.saturating_sub(grant.granted));
            grant.granted += quanta;
            if grant.granted < grant.target {
                self.active.push_back(connection);
            } else {
                grant.queue = Queue::Idle;
                self.idle.push_back(connection);
            }
            (connection, grant.granted, quanta)
        } else {
            let connection = self.pop_idle(grants)?;
            let grant = &mut grants[connection.index()];
            grant.granted = grant.granted.saturating_add(pull);
            if grant.granted.saturating_sub(grant.target) < grant.limit {
                self.idle.push_back(connection);
            } else {
                grant.queue = Queue::None;
            }
            (connection, grant.granted, pull)
        };
        self.next = now + self.pull_time(quanta.max(SMALLEST_WAIT), credits, rate_of(connection), now);
        Some((Pull { connection, granted }, self.next))
    }

    /// Returns the next connection without demand, or stops the pacer.
    fn pop_idle(&mut self, grants: &[Grant]) -> Option<ConnectionId> {
        while let Some(connection) = self.idle.pop_front() {
            // Connections with new demand have moved to the other list.
            if grants[connection.index()].queue == Queue::Idle {
                return Some(connection);
            }
        }
        self.next = Picos::MAX;
        None
    }

    /// Returns the time that the link needs for `quanta`, at the rate that the receiver asks for.
    fn pull_time(&mut self, quanta: u32, credits: &Credits, rate: BitRate, now: Picos) -> Picos {
        let share =
            if credits.oversubscription { self.oversubscription.rate(now, period(credits)) } else { 1.0 };
        let bits = (u64::from(quanta) * QUANTUM * 8) as f64;
        let picos = bits * 1e12 / (rate.get() as f64 * to_f64(credits.rate) * share);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float cast saturates")]
        let picos = picos as u64;
        Picos::new(picos.max(1))
    }
}

/// Converts a share to a number.
fn to_f64(share: Fraction) -> f64 {
    share.q32() as f64 / 4_294_967_296.0
}

/// Returns the period of oversubscription control: 1.5 RTTs of the network. The source varies it by a quarter.
fn period(credits: &Credits) -> Picos {
    let rtt = Picos::from_nanos(credits.network_rtt);
    rtt + Picos::new(rtt.get() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_types::Nanos;

    const RATE: BitRate = BitRate::from_gbps(100);

    fn credits() -> Credits {
        Credits::uet(Nanos::new(14_023), false)
    }

    /// A pacer and the grants of its connections.
    struct Receiver {
        pacer: Pacer,
        grants: Vec<Grant>,
        now: Picos,
    }

    impl Receiver {
        fn new(connections: usize) -> Self {
            Self {
                pacer: Pacer::new(&credits()),
                grants: vec![Grant::new(262_926); connections],
                now: Picos::ZERO,
            }
        }

        fn ask(&mut self, connection: u32, target: u32) {
            let id = ConnectionId::new(connection);
            self.pacer.on_demand(id, &mut self.grants[id.index()], target, false, self.now);
        }

        fn pull(&mut self) -> Option<Pull> {
            let pull = self.pacer.next_pull(&mut self.grants, &|_| RATE, &credits(), self.now);
            pull.map(|(pull, next)| {
                self.now = next;
                pull
            })
        }
    }

    #[test]
    fn one_connection_gets_99_percent_of_the_link_in_pulls_of_16_kib() {
        let mut receiver = Receiver::new(1);
        receiver.ask(0, 6_400);
        for i in 1..=100 {
            let pull = receiver.pull().expect("the connection has demand");
            assert_eq!(pull.granted, 64 * i);
        }
        let bits = 100.0 * 16_384.0 * 8.0;
        let rate = bits / (receiver.now.get() as f64 * 1e-12);
        assert!((rate / 99e9 - 1.0).abs() < 1e-6, "{rate}");
    }

    #[test]
    fn connections_take_turns_whatever_they_ask_for() {
        let mut receiver = Receiver::new(3);
        for (connection, target) in [(0, 100_000), (1, 1_000), (2, 5_000)] {
            receiver.ask(connection, target);
        }
        for _ in 0..30 {
            receiver.pull();
        }
        assert!(receiver.grants.iter().all(|grant| grant.granted == 640), "{:?}", receiver.grants);
    }

    #[test]
    fn credit_never_exceeds_the_demand_while_others_wait() {
        let mut receiver = Receiver::new(2);
        receiver.ask(0, 10);
        receiver.ask(1, 1_000);
        assert_eq!(receiver.pull().map(|pull| pull.granted), Some(10));
        let start = receiver.now;
        // Ten quanta at 99 Gbps.
        assert_eq!(start, Picos::new(206_868));
        for i in 1..=15 {
            assert_eq!(receiver.pull(), Some(Pull { connection: ConnectionId::new(1), granted: 64 * i }));
        }
        assert_eq!(receiver.pull().map(|pull| pull.granted), Some(1_000));
    }

    #[test]
    fn satisfied_connections_get_credit_in_advance_up_to_the_limit_and_the_pacer_stops() {
        let mut receiver = Receiver::new(2);
        receiver.ask(0, 64);
        receiver.ask(1, 64);
        let pulls = core::iter::from_fn(|| receiver.pull()).count();
        // The limit is 1,027 quanta: 17 pulls of 64.
        assert_eq!(pulls, 2 + 2 * 17);
        assert!(receiver.pacer.is_due(Picos::MAX));
        receiver.ask(1, 64 + 17 * 64 + 1);
        assert!(receiver.pacer.is_due(receiver.now));
        assert_eq!(
            receiver.pull(),
            Some(Pull { connection: ConnectionId::new(1), granted: 64 + 17 * 64 + 1 })
        );
    }

    #[test]
    fn a_small_new_demand_waits_for_its_turn_at_least_four_quanta() {
        let mut receiver = Receiver::new(1);
        receiver.ask(0, 1);
        receiver.pull();
        // Four quanta at 99 Gbps.
        assert_eq!(receiver.now, Picos::new(82_747));
    }
}
