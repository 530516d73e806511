//! A network of two hosts, with one bottleneck in each direction, that carries the datagrams of two endpoints.
//!
//! ```text
//!   sender ──NIC──> queue ──bottleneck, delay──> receiver
//!     ^                                              │
//!     └─────delay, bottleneck<── queue <──NIC────────┘
//! ```
//!
//! A NIC serialises one datagram at a time, at ten times the rate of the bottleneck, and then asks its endpoint for the next
//! one. The network has no clock and no state outside of this struct, so runs repeat exactly.

#![allow(dead_code, reason = "each test uses only part of the network")]

use poseidon_laws::AnyParams;
use poseidon_plan::stack::{
    Arrival, Controller, Side, StackEndpoint, StackEvent, StackKind, StackLaw, StackMessage, StackState,
};
use poseidon_plan::stack_factory::StackFactory as _;
use poseidon_plan::traffic::{Amount, Message};
use poseidon_plan::{Link, Plan, Topology};
use poseidon_stacks::STACKS;
use poseidon_testkit::plans;
use poseidon_types::random::splitmix64;
use poseidon_types::telemetry::MaxHopDelay;
use poseidon_types::{BitRate, Bytes, ConnectionId, Nanos, Picos};
use std::collections::{BTreeMap, VecDeque};

pub(crate) const CONNECTION: ConnectionId = ConnectionId::new(0);
/// The size of a full packet on the wire, an Ethernet frame with 1500 bytes of IP.
pub(crate) const FRAME: u64 = 1_518;

/// Returns a time in milliseconds.
pub(crate) fn ms(time: u64) -> Picos {
    Picos::from_nanos(Nanos::from_millis(time))
}

/// The properties of the network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) rate: BitRate,
    /// The delay of each direction.
    pub(crate) delay: Picos,
    /// The size of each queue in bytes. A datagram that does not fit is dropped.
    pub(crate) queue: u64,
    /// Out of a thousand datagrams, how many are lost.
    pub(crate) losses: u64,
    /// Out of a thousand datagrams, how many arrive 3 ms late.
    pub(crate) reordered: u64,
    /// A longer queue marks datagrams, if they are ECN-capable.
    pub(crate) mark_above: Option<u64>,
    /// Whether the bottleneck reports its queueing delay.
    pub(crate) has_telemetry: bool,
}

impl Path {
    /// 100 Mbit/s and 10 ms, with a queue of two bandwidth-delay products.
    pub(crate) const WAN: Self = Self {
        rate: BitRate::from_mbps(100),
        delay: Picos::new(10_000_000_000),
        queue: 500_000,
        losses: 0,
        reordered: 0,
        mark_above: None,
        has_telemetry: false,
    };

    /// Returns a plan with one connection over this path. The stack runs its own controller, or the law if there is none.
    pub(crate) fn plan(&self, stack: StackKind, controller: Option<Controller>, law: &AnyParams) -> Plan {
        let link = Link { rate: self.rate, delay: Picos::new(self.delay.get() / 2) };
        let mut plan = plans::plan(Topology::star(2, link), "swift", &[(0, 1)]);
        plan.switch.pipeline = Picos::ZERO;
        plan.transport.mtu = Bytes::new(1_460);
        plan.transport.header = Bytes::new(FRAME - 1_460);
        plan.laws = vec![law.clone()];
        plan.stacks = vec![StackLaw { law: 0, stack, controller }];
        plan.messages.clear();
        plan
    }
}

/// A datagram that an endpoint has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Transmission {
    pub(crate) time: Picos,
    pub(crate) side: Side,
    pub(crate) size: usize,
    pub(crate) is_ecn_capable: bool,
}

#[derive(Debug)]
enum Step {
    Send(StackMessage),
    EndLongFlow,
    /// The NIC has sent a datagram.
    Sent {
        side: usize,
        datagram: Vec<u8>,
        is_ecn_capable: bool,
    },
    Arrive {
        side: usize,
        datagram: Vec<u8>,
        arrival: Arrival,
    },
}

/// The network and its two endpoints.
pub(crate) struct Network {
    path: Path,
    overhead: u64,
    endpoints: [Box<dyn StackEndpoint>; 2],
    nic_free: [Picos; 2],
    bottleneck_free: [Picos; 2],
    agenda: BTreeMap<(Picos, u64), Step>,
    next_step: u64,
    pub(crate) now: Picos,
    pub(crate) log: Vec<Transmission>,
    /// The first datagram of the client.
    pub(crate) first_datagram: Vec<u8>,
    pub(crate) received: Vec<(Picos, u32)>,
    pub(crate) acknowledged: Vec<(Picos, u32)>,
    /// The bytes that have arrived, after each datagram.
    pub(crate) progress: Vec<(Picos, u64)>,
    pub(crate) timeouts: u64,
    pub(crate) drops: u64,
    pub(crate) marks: u64,
    pub(crate) max_window: u64,
    pub(crate) max_in_flight: u64,
    /// The sum of the queueing delays of the sender's datagrams.
    queueing_delay: Picos,
    random: u64,
}

const SIDES: [Side; 2] = [Side::Sender, Side::Receiver];

impl Network {
    pub(crate) fn new(plan: &Plan, path: Path) -> Self {
        let stack = plan.stack_of(CONNECTION).expect("the connection runs in a stack").stack;
        STACKS.check(plan).expect("the stack can run the plan");
        Self {
            path,
            overhead: STACKS.overhead(stack).get(),
            endpoints: SIDES.map(|side| STACKS.create(plan, CONNECTION, side)),
            nic_free: [Picos::ZERO; 2],
            bottleneck_free: [Picos::ZERO; 2],
            agenda: BTreeMap::new(),
            next_step: 0,
            now: Picos::ZERO,
            log: Vec::new(),
            first_datagram: Vec::new(),
            received: Vec::new(),
            acknowledged: Vec::new(),
            progress: Vec::new(),
            timeouts: 0,
            drops: 0,
            marks: 0,
            max_window: 0,
            max_in_flight: 0,
            queueing_delay: Picos::ZERO,
            random: splitmix64(plan.seed),
        }
    }

    /// Creates a network in which the sender sends messages of these sizes one after the other, at the given interval.
    pub(crate) fn with_messages(mut plan: Plan, path: Path, sizes: &[u64], interval: Picos) -> Self {
        plan.messages = sizes
            .iter()
            .zip(0..)
            .map(|(size, number)| Message {
                connection: CONNECTION,
                start: interval * number,
                amount: Amount::Exactly(Bytes::new(*size)),
            })
            .collect();
        let mut network = Self::new(&plan, path);
        for (number, message) in (0..).zip(&plan.messages) {
            network
                .schedule(message.start, Step::Send(StackMessage { number, size: message.amount.bytes() }));
        }
        network
    }

    /// Creates a network with a long flow that ends at this time.
    pub(crate) fn with_long_flow(mut plan: Plan, path: Path, end: Picos) -> Self {
        plan.messages =
            vec![Message { connection: CONNECTION, start: Picos::ZERO, amount: Amount::Until(end) }];
        let mut network = Self::new(&plan, path);
        network.schedule(Picos::ZERO, Step::Send(StackMessage { number: 0, size: None }));
        network.schedule(end, Step::EndLongFlow);
        network
    }

    fn schedule(&mut self, time: Picos, step: Step) {
        self.agenda.insert((time, self.next_step), step);
        self.next_step += 1;
    }

    /// Runs until nothing remains to be done, or until a time.
    pub(crate) fn run(mut self, stop: Picos) -> Self {
        while self.run_step(stop) {}
        self
    }

    fn run_step(&mut self, stop: Picos) -> bool {
        let timer = (0..2).filter_map(|side| Some((self.endpoints[side].timeout()?, side))).min();
        let step = self.agenda.first_key_value().map(|((time, _), _)| *time);
        let is_timer = match (timer, step) {
            (Some((timer, _)), Some(step)) => timer < step,
            (timer, _) => timer.is_some(),
        };
        let Some(time) = (if is_timer { timer.map(|(time, _)| time) } else { step }) else { return false };
        if time > stop {
            return false;
        }
        self.now = self.now.max(time);
        if let Some((timer, side)) = timer.filter(|_| is_timer) {
            self.timeouts += 1;
            self.endpoints[side].on_timeout(self.now);
            let next = self.endpoints[side].timeout();
            assert!(next.is_none_or(|next| next > timer), "the timer at {timer} does not advance");
            self.after_call(side);
        } else if let Some((_, step)) = self.agenda.pop_first() {
            self.perform(step);
        }
        true
    }

    fn perform(&mut self, step: Step) {
        let now = self.now;
        match step {
            Step::Send(message) => {
                self.endpoints[0].send(now, message);
                self.after_call(0);
            }
            Step::EndLongFlow => {
                self.endpoints[0].end_long_flow(now);
                self.after_call(0);
            }
            Step::Sent { side, datagram, is_ecn_capable } => {
                self.enqueue(side, datagram, is_ecn_capable);
                self.transmit(side);
            }
            Step::Arrive { side, datagram, arrival } => {
                self.endpoints[side].on_datagram(now, &datagram, arrival);
                self.after_call(side);
                if side == 1 {
                    self.progress.push((now, self.endpoints[1].state().received.get()));
                }
            }
        }
    }

    fn after_call(&mut self, side: usize) {
        while let Some(event) = self.endpoints[side].poll_event() {
            match event {
                StackEvent::Received(number) => self.received.push((self.now, number)),
                StackEvent::Acknowledged(number) => self.acknowledged.push((self.now, number)),
            }
        }
        if side == 0 {
            let state = self.endpoints[0].state();
            self.max_window = self.max_window.max(state.window.get());
            self.max_in_flight = self.max_in_flight.max(state.in_flight.get());
        }
        self.transmit(side);
    }

    /// Asks an endpoint for a datagram if its NIC is idle.
    fn transmit(&mut self, side: usize) {
        if self.nic_free[side] > self.now {
            return;
        }
        let mut datagram = Vec::new();
        let Some(is_ecn_capable) = self.endpoints[side].poll_transmit(self.now, &mut datagram) else {
            return;
        };
        if self.log.is_empty() {
            self.first_datagram.clone_from(&datagram);
        }
        self.log.push(Transmission {
            time: self.now,
            side: SIDES[side],
            size: datagram.len(),
            is_ecn_capable,
        });
        let nic_rate = BitRate::from_bps(self.path.rate.get() * 10);
        self.nic_free[side] = self.now + nic_rate.send_time_ceil(self.wire_size(&datagram));
        self.schedule(self.nic_free[side], Step::Sent { side, datagram, is_ecn_capable });
    }

    fn wire_size(&self, datagram: &[u8]) -> Bytes {
        Bytes::new(datagram.len() as u64 + self.overhead)
    }

    fn enqueue(&mut self, side: usize, datagram: Vec<u8>, is_ecn_capable: bool) {
        let size = self.wire_size(&datagram);
        let wait = self.bottleneck_free[side] - self.now;
        let queued = self.path.rate.bytes_in_floor(wait.to_nanos_floor()).get();
        if queued + size.get() > self.path.queue || self.draw(self.path.losses) {
            self.drops += 1;
            return;
        }
        if side == 0 {
            self.queueing_delay += wait;
        }
        let marked = is_ecn_capable && self.path.mark_above.is_some_and(|limit| queued > limit);
        self.marks += u64::from(marked);
        self.bottleneck_free[side] = self.now + wait + self.path.rate.send_time_ceil(size);
        let late = if self.draw(self.path.reordered) { ms(3) } else { Picos::ZERO };
        let worst = wait.to_nanos_floor();
        let max_hop_delay = self.path.has_telemetry.then_some(MaxHopDelay {
            worst,
            hops: 1,
            incomplete: false,
            saturated: false,
        });
        let arrival = Arrival { ecn_capable: is_ecn_capable, marked, max_hop_delay };
        let step = Step::Arrive { side: 1 - side, datagram, arrival };
        self.schedule(self.bottleneck_free[side] + self.path.delay + late, step);
    }

    /// Returns true for this many of a thousand calls.
    fn draw(&mut self, per_thousand: u64) -> bool {
        self.random = splitmix64(self.random);
        self.random % 1_000 < per_thousand
    }

    /// Returns the state of the sender.
    pub(crate) fn sender_state(&self) -> StackState {
        self.endpoints[0].state()
    }

    /// Returns the message bytes that the receiver has received.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.endpoints[1].state().received.get()
    }

    /// Returns the numbers of the messages that have arrived, in the order of their arrival.
    pub(crate) fn received_numbers(&self) -> Vec<u32> {
        self.received.iter().map(|(_, number)| *number).collect()
    }

    /// Returns the rate in bit/s at which the second half of the data has arrived, which excludes the start-up.
    pub(crate) fn goodput_of_second_half(&self) -> f64 {
        let (end, total) = *self
            .progress
            .iter()
            .find(|(_, bytes)| *bytes == self.received_bytes())
            .expect("data has arrived");
        let (start, half) = *self
            .progress
            .iter()
            .find(|(_, bytes)| *bytes >= total / 2)
            .expect("half of the data has arrived");
        (total - half) as f64 * 8e12 / (end - start).get() as f64
    }

    /// Returns the mean queueing delay of the sender's datagrams in seconds.
    pub(crate) fn mean_queueing_delay(&self) -> f64 {
        let sent = self.log.iter().filter(|sent| sent.side == Side::Sender).count();
        self.queueing_delay.get() as f64 / 1e12 / sent as f64
    }

    /// Asserts that timers do not fire more often than datagrams and simulated milliseconds explain.
    pub(crate) fn assert_timers_are_rare(&self) {
        let limit = 2 * self.log.len() as u64 + 2 * self.now.to_nanos_floor().get() / 1_000_000 + 10;
        assert!(
            self.timeouts <= limit,
            "{} timeouts, {} datagrams, {}",
            self.timeouts,
            self.log.len(),
            self.now
        );
    }
}

/// Drops the datagrams that both traces have in common at their start, and returns the first difference.
pub(crate) fn first_difference(
    a: &[Transmission],
    b: &[Transmission],
) -> Option<(Option<Transmission>, Option<Transmission>)> {
    let (mut a, mut b): (VecDeque<_>, VecDeque<_>) =
        (a.iter().copied().collect(), b.iter().copied().collect());
    while let (Some(x), Some(y)) = (a.front(), b.front()) {
        if x != y {
            break;
        }
        a.pop_front();
        b.pop_front();
    }
    (!a.is_empty() || !b.is_empty()).then(|| (a.front().copied(), b.front().copied()))
}
