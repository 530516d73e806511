//! Collects the samples of all ports in steps: the largest queue and delay, and the bytes sent.

use super::network::MapNetwork;
use super::rates::RateSchedule;
use core::ops::Range;
use poseidon_plan::records::{DropRow, MessageRow, QueueRow, Sink};
use poseidon_plan::{Plan, SwitchPort};
use poseidon_types::{Bytes, Picos};

/// The maximum number of steps of the slider.
const MAX_STEPS: u64 = 1_000;
/// The maximum number of steps times channels.
const MAX_SAMPLES: u64 = 600_000;
/// The maximum number of rows that a recording creates.
const MAX_ROWS: u64 = 20_000_000;
/// A step lasts at least as long as this many full packets on the slowest link, so that the load is not a matter of
/// single packets.
const MIN_PACKETS: u64 = 4;

/// How often ports are sampled, and how many samples form a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sampling {
    /// The time between two samples.
    pub(super) every: Picos,
    /// The number of samples per step.
    pub(super) per_step: u64,
    /// The begin of the first step and the end of the last step. Other samples are ignored.
    pub(super) window: (Picos, Picos),
}

impl Sampling {
    /// Chooses the interval for a time window. A step lasts 1, 2 or 5 times a power of ten picoseconds.
    pub(super) fn choose(network: &MapNetwork, plan: &Plan, window: Range<Picos>) -> Self {
        let (length, until) = ((window.end - window.start).get(), window.end.get());
        let channels = (network.channel_count() as u64).max(1);
        let steps = (MAX_SAMPLES / channels).clamp(1, MAX_STEPS);
        let slowest = network.wiring.ports.iter().map(|port| port.rate).min();
        let packet = slowest.map_or(Picos::ZERO, |rate| rate.send_time_ceil(plan.data_size()));
        // The simulator samples from the start of the run.
        let ports = (network.wiring.ports.len() as u64).max(1);
        let fastest = ports.saturating_mul(until) / MAX_ROWS;
        let shortest =
            length.div_ceil(steps).max(fastest).max(packet.get().saturating_mul(MIN_PACKETS)).max(10);
        let step = round_up(shortest);
        let rows = ports.saturating_mul(until / step + 1);
        let per_step = [10, 5, 2].into_iter().find(|count| rows.saturating_mul(*count) <= MAX_ROWS);
        let per_step = per_step.unwrap_or(1);
        // A window begins with a sample.
        let every = step / per_step;
        let start = Picos::new(window.start.get() / every * every);
        Self { every: Picos::new(every), per_step, window: (start, window.end) }
    }

    /// Returns the duration of a step.
    pub(super) fn step(&self) -> Picos {
        self.every * self.per_step
    }
}

/// Rounds up to 1, 2 or 5 times a power of ten.
fn round_up(value: u64) -> u64 {
    let mut power: u64 = 1;
    loop {
        for factor in [1, 2, 5] {
            let candidate = power.saturating_mul(factor);
            if candidate >= value {
                return candidate;
            }
        }
        power = power.saturating_mul(10);
    }
}

/// The values of all channels in one step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// The time of the last sample in the step. The step begins at the end of the previous step.
    pub(super) end: Picos,
    /// The bytes that each channel sent.
    pub(super) sent: Vec<f64>,
    /// The largest sample of a queue in each channel, in bytes.
    pub(super) queued: Vec<u64>,
    /// The largest delay of a departed packet in each channel, in nanoseconds.
    pub(super) delay: Vec<u64>,
}

impl Step {
    fn new(channels: usize) -> Self {
        let zeros = || vec![0; channels];
        Self { end: Picos::ZERO, sent: vec![0.0; channels], queued: zeros(), delay: zeros() }
    }

    /// Adds the values of the next step.
    fn merge(&mut self, next: &Self) {
        self.end = next.end;
        self.sent.iter_mut().zip(&next.sent).for_each(|(sum, sent)| *sum += sent);
        self.queued.iter_mut().zip(&next.queued).for_each(|(max, queued)| *max = (*max).max(*queued));
        self.delay.iter_mut().zip(&next.delay).for_each(|(max, delay)| *max = (*max).max(*delay));
    }
}

/// The largest queue of a port in the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Peak {
    pub(super) queued: Bytes,
    pub(super) time: Picos,
}

/// The finished messages of a connection: their first start, their last end, their bytes and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowSpan {
    pub(super) start: Picos,
    pub(super) end: Picos,
    pub(super) bytes: u64,
    pub(super) messages: u64,
}

/// What a recording collected for a map.
#[derive(Clone, Debug)]
pub(super) struct MapSamples {
    /// The time between two samples.
    pub(super) every: Picos,
    /// The begin of the first step.
    pub(super) from: Picos,
    /// The duration of a step. The last step may be shorter.
    pub(super) step: Picos,
    pub(super) steps: Vec<Step>,
    /// The peak of each port.
    pub(super) peaks: Vec<Peak>,
    /// The finished messages of each connection.
    pub(super) spans: Vec<Option<FlowSpan>>,
    pub(super) drops: u64,
}

impl MapSamples {
    /// Returns the end of the last step in which a port sent or queued bytes.
    pub(super) fn active_until(&self) -> Picos {
        let is_active = |step: &&Step| {
            step.sent.iter().any(|bytes| *bytes > 0.0) || step.queued.iter().any(|bytes| *bytes > 0)
        };
        self.steps.iter().rev().find(is_active).map_or(Picos::ZERO, |step| step.end)
    }

    /// Joins each two neighboring steps.
    pub(super) fn halve(&mut self) {
        let mut steps = core::mem::take(&mut self.steps).into_iter();
        while let Some(mut step) = steps.next() {
            if let Some(next) = steps.next() {
                step.merge(&next);
            }
            self.steps.push(step);
        }
        self.step = self.step * 2;
    }

    /// Returns when a step begins.
    pub(super) fn start_of(&self, step: usize) -> Picos {
        step.checked_sub(1).map_or(self.from, |previous| self.steps[previous].end)
    }

    /// Returns the share of a channel's capacity that it used in a step, or `None` if its links were down.
    pub(super) fn load(&self, network: &MapNetwork, step: usize, channel: usize) -> Option<f64> {
        let capacity = network.capacity_bits(channel, self.start_of(step), self.steps[step].end);
        (capacity > 0.0).then(|| self.steps[step].sent[channel] * 8.0 / capacity)
    }
}

/// The last sample of a port.
///
/// A port counts a packet when its transmission begins. Bytes that the link cannot have carried yet belong to the next
/// interval, so the load never exceeds the capacity.
#[derive(Clone, Copy, Debug, Default)]
struct LastSample {
    time: Picos,
    /// The bytes that the port had counted.
    counted: u64,
    /// The bytes that were counted but not transmitted yet.
    pending: f64,
}

impl LastSample {
    /// Returns the bytes transmitted since the last sample, and replaces the sample.
    fn transmitted(&mut self, row: &QueueRow, schedule: &RateSchedule) -> f64 {
        let pending = self.pending + row.sent.get().saturating_sub(self.counted) as f64;
        let transmitted = pending.min(schedule.bits(self.time, row.time) / 8.0);
        *self = Self { time: row.time, counted: row.sent.get(), pending: pending - transmitted };
        transmitted
    }
}

/// Collects the rows of a run for a map. It needs samples of all ports of the network.
pub(super) struct MapSink<'a> {
    network: &'a MapNetwork,
    plan: &'a Plan,
    sampling: Sampling,
    samples: MapSamples,
    last: Vec<LastSample>,
    /// The step of the last sample.
    current: Step,
    current_index: u64,
}

impl<'a> MapSink<'a> {
    /// Creates a sink for a run of `plan`.
    pub(super) fn new(network: &'a MapNetwork, plan: &'a Plan, sampling: Sampling) -> Self {
        let ports = network.wiring.ports.len();
        Self {
            network,
            plan,
            sampling,
            samples: MapSamples {
                every: sampling.every,
                from: sampling.window.0,
                step: sampling.step(),
                steps: Vec::new(),
                peaks: vec![Peak::default(); ports],
                spans: vec![None; plan.connections.len()],
                drops: 0,
            },
            last: vec![LastSample::default(); ports],
            current: Step::new(network.channel_count()),
            current_index: 0,
        }
    }

    /// Returns the samples.
    pub(super) fn finish(mut self) -> MapSamples {
        self.end_step();
        self.samples
    }

    /// Stores the current step if it has samples.
    fn end_step(&mut self) {
        if !self.current.end.is_zero() {
            let next = Step::new(self.network.channel_count());
            self.samples.steps.push(core::mem::replace(&mut self.current, next));
        }
    }
}

impl Sink for MapSink<'_> {
    fn record_queue(&mut self, row: QueueRow) {
        let Some(port) = self.network.wiring.index(SwitchPort::new(row.switch, row.port)) else { return };
        let Sampling { every, per_step, window: (from, until) } = self.sampling;
        let transmitted = self.last[port].transmitted(&row, &self.network.schedules[port]);
        if row.time <= from || row.time > until {
            return;
        }
        // The sample at the end of an interval belongs to that interval.
        let index = ((row.time - from).get().saturating_sub(1) / every.get().max(1)) / per_step;
        if index != self.current_index {
            self.end_step();
            self.current_index = index;
        }
        let channel = self.network.channel_of_port[port];
        let step = &mut self.current;
        step.end = row.time;
        step.sent[channel] += transmitted;
        step.queued[channel] = step.queued[channel].max(row.queued.get());
        step.delay[channel] = step.delay[channel].max(row.delay.get());
        let peak = &mut self.samples.peaks[port];
        if row.queued > peak.queued {
            *peak = Peak { queued: row.queued, time: row.time };
        }
    }

    fn record_message(&mut self, row: MessageRow) {
        let Some(connection) = self.plan.connection_of(row.message) else { return };
        let Some(span) = self.samples.spans.get_mut(connection.index()) else { return };
        let new = FlowSpan { start: row.start, end: row.acknowledged, bytes: row.size.get(), messages: 1 };
        *span = Some(span.map_or(new, |span| FlowSpan {
            start: span.start.min(new.start),
            end: span.end.max(new.end),
            bytes: span.bytes.saturating_add(new.bytes),
            messages: span.messages + 1,
        }));
    }

    fn record_drop(&mut self, _: DropRow) {
        self.samples.drops += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_plan::traffic::Amount;
    use poseidon_plan::{Backend as _, Link, Topology};
    use poseidon_sim::Simulator;
    use poseidon_types::{BitRate, Nanos, PortId, SwitchId};

    const US: fn(u64) -> Picos = |us| Picos::from_nanos(Nanos::from_micros(us));

    fn sampling(per_step: u64, until_us: u64) -> Sampling {
        Sampling { every: US(1), per_step, window: (Picos::ZERO, US(until_us)) }
    }

    fn run(mut plan: Plan, until: Picos, sampling: Option<Sampling>) -> (MapNetwork, MapSamples) {
        let network = MapNetwork::new(&plan).expect("below the limits");
        let sampling = sampling.unwrap_or_else(|| Sampling::choose(&network, &plan, Picos::ZERO..until));
        plan.stop = until;
        plan.sample_every = sampling.every;
        plan.watched_ports = network.ports();
        let mut sink = MapSink::new(&network, &plan, sampling);
        Simulator::with_threads(core::num::NonZeroU32::MIN).run(&plan, &mut sink).expect("the plan is valid");
        let samples = sink.finish();
        (network, samples)
    }

    fn dumbbell(host_gbps: u64, middle_gbps: u64, endpoints: &[(u32, u32)]) -> Plan {
        let link = |gbps| Link { rate: BitRate::from_gbps(gbps), delay: Picos::new(245_000) };
        let topology = Topology::dumbbell(2, link(host_gbps), link(middle_gbps));
        poseidon_testkit::plans::plan(topology, "poseidon", endpoints)
    }

    /// The ports of switch 0 are those to its two hosts and to switch 1; those of switch 1 follow.
    const FORWARD: usize = 2;
    const TO_RECEIVER: usize = 3;
    const BACKWARD: usize = 5;

    #[test]
    fn one_flow_at_line_rate_loads_each_link_by_its_share() {
        // The sender's link has a quarter of the rate of the link between the switches.
        let plan = dumbbell(100, 400, &[(0, 2)]);
        let (data, ack) = (plan.data_size().get() as f64, plan.ack_size().get() as f64);
        let (network, samples) = run(plan, US(1_000), None);
        let steps = samples.steps.len();
        assert!((400..=1_000).contains(&steps), "{steps}");
        // Steps in the middle of the run, when the flow sends at the line rate of its host.
        let mean = |channel: usize| {
            let loads = (steps / 2..steps).map(|step| samples.load(&network, step, channel));
            loads.map(|load| load.expect("the link is up")).sum::<f64>() / (steps - steps / 2) as f64
        };
        assert!((mean(TO_RECEIVER) - 1.0).abs() < 0.01, "{}", mean(TO_RECEIVER));
        assert!((mean(FORWARD) - 0.25).abs() < 0.0025, "{}", mean(FORWARD));
        let ack_load = 0.25 * ack / data;
        assert!((mean(BACKWARD) - ack_load).abs() < 0.01 * ack_load, "{} {ack_load}", mean(BACKWARD));
        for idle in [1, 4] {
            assert!((0..steps).all(|step| samples.load(&network, step, idle) == Some(0.0)));
            assert_eq!(samples.peaks[idle].queued, Bytes::ZERO);
        }
    }

    #[test]
    fn busy_ports_have_a_load_of_one_and_never_more() {
        // A step of 1 us carries 3.05 packets, so it begins 3 or 4 of them.
        let (network, samples) = run(dumbbell(100, 100, &[(0, 2), (1, 2)]), US(100), Some(sampling(1, 100)));
        let loads: Vec<f64> = (0..samples.steps.len())
            .map(|step| samples.load(&network, step, FORWARD).expect("the link is up"))
            .collect();
        assert!(loads.iter().all(|load| *load <= 1.0 + 1e-9), "{loads:?}");
        let is_queued = |step: usize| samples.steps[step].queued[FORWARD] > 0;
        let busy: Vec<f64> =
            (20..90).filter(|step| is_queued(*step) && is_queued(step - 1)).map(|step| loads[step]).collect();
        let full = busy.iter().filter(|load| **load > 1.0 - 1e-9).count();
        // The queue can be empty for a moment between two samples.
        assert!(busy.len() > 30 && full * 10 >= busy.len() * 9, "{full} of {}", busy.len());
    }

    #[test]
    fn queue_of_a_step_is_the_largest_sample() {
        let plan = dumbbell(100, 100, &[(0, 2), (1, 2)]);
        let (_, fine) = run(plan.clone(), US(100), Some(sampling(1, 100)));
        let (_, coarse) = run(plan, US(100), Some(sampling(10, 100)));
        assert_eq!((fine.steps.len(), coarse.steps.len()), (100, 10));
        for (index, step) in coarse.steps.iter().enumerate() {
            let parts = &fine.steps[10 * index..10 * index + 10];
            assert_eq!(Some(step.queued[FORWARD]), parts.iter().map(|part| part.queued[FORWARD]).max());
            let sent = parts.iter().map(|part| part.sent[FORWARD]).sum::<f64>();
            assert!((step.sent[FORWARD] - sent).abs() < 1e-6);
            assert_eq!(step.end, parts[9].end);
        }
        let peak = fine.peaks[FORWARD];
        let largest = fine.steps.iter().map(|step| step.queued[FORWARD]).max();
        assert!(peak.queued > Bytes::ZERO, "two flows share the link");
        assert_eq!(Some(peak.queued.get()), largest);
        let at_peak = fine.steps.iter().find(|step| step.end == peak.time).map(|step| step.queued[FORWARD]);
        assert_eq!(at_peak, largest);
        let mut halved = fine.clone();
        (0..3).for_each(|_| halved.halve());
        assert_eq!((halved.steps.len(), halved.step), (13, US(8)));
        assert_eq!(halved.steps.iter().map(|step| step.queued[FORWARD]).max(), largest);
        let total = |samples: &MapSamples| samples.steps.iter().map(|step| step.sent[FORWARD]).sum::<f64>();
        assert!((total(&halved) - total(&fine)).abs() < 1e-6);
    }

    #[test]
    fn a_window_has_the_steps_of_the_whole_run() {
        let plan = dumbbell(100, 100, &[(0, 2), (1, 2)]);
        let (whole_network, whole) = run(plan.clone(), US(100), Some(sampling(5, 100)));
        let window = Sampling { window: (US(40), US(70)), ..sampling(5, 100) };
        let (network, part) = run(plan.clone(), US(100), Some(window));
        assert_eq!((part.steps.len(), part.from), (6, US(40)));
        for (index, step) in part.steps.iter().enumerate() {
            assert_eq!(step, &whole.steps[index + 8]);
            let loads = [part.load(&network, index, FORWARD), whole.load(&whole_network, index + 8, FORWARD)];
            assert_eq!(loads[0], loads[1]);
        }
        let peak = part.peaks[FORWARD];
        assert!(peak.time > US(40) && peak.time <= US(70));
        // A short window late in a long run must not need too many rows.
        let late = Sampling::choose(&network, &plan, US(9_999_990)..US(10_000_000));
        assert!(10_000_000_000_000 / late.every.get() * 6 <= MAX_ROWS, "{late:?}");
        assert!((US(9_999_990) - late.window.0) < late.every, "{late:?}");
    }

    #[test]
    fn links_that_are_down_have_no_load() {
        let mut plan = dumbbell(100, 100, &[(0, 2)]);
        let down = |us, event| poseidon_testkit::plans::link_change(US(us), 0, 2, event);
        use poseidon_plan::link_changes::LinkEvent::{Down, Up};
        plan.link_changes = vec![down(20, Down), down(40, Up)];
        let (network, samples) = run(plan, US(100), Some(sampling(10, 100)));
        let loads: Vec<Option<f64>> = (0..10).map(|step| samples.load(&network, step, FORWARD)).collect();
        assert_eq!(loads[2..4], [None, None]);
        assert!(loads[1].is_some_and(|load| load > 0.9), "{loads:?}");
    }

    #[test]
    fn bundles_sum_bytes_and_keep_the_worst_queue() {
        let link = Link { rate: BitRate::from_gbps(100), delay: Picos::new(245_000) };
        let plan = poseidon_testkit::plans::plan(Topology::fat_tree(32, link), "poseidon", &[]);
        let network = MapNetwork::new(&plan).expect("below the limits");
        let mut sink = MapSink::new(&network, &plan, sampling(1, 100));
        // The first two ports of the first rack lead to its hosts.
        for (port, sent, queued) in [(0, 5_000, 10), (1, 7_500, 30)] {
            sink.record_queue(QueueRow {
                time: US(1),
                switch: SwitchId::new(0),
                port: PortId::new(port),
                queued: Bytes::new(queued),
                delay: Nanos::new(queued),
                sent: Bytes::new(sent),
            });
        }
        let samples = sink.finish();
        let channel = network.channel_of_port[0];
        assert_eq!(network.channels[channel].ports.len(), 16);
        assert!((samples.steps[0].sent[channel] - 12_500.0).abs() < 1e-6);
        assert_eq!(samples.steps[0].queued[channel], 30);
        // 12.5 kB of the 200 kB that 16 links can send in a microsecond.
        assert!(samples.load(&network, 0, channel).is_some_and(|load| (load - 0.0625).abs() < 1e-12));
        assert_eq!(samples.peaks[1].queued, Bytes::new(30));
    }

    #[test]
    fn finished_messages_give_the_span_of_a_flow() {
        let mut plan = dumbbell(100, 100, &[(0, 2)]);
        plan.messages[0].amount = Amount::Exactly(Bytes::new(100_000));
        plan.messages[0].start = US(5);
        let (_, samples) = run(plan, US(100), None);
        let span = samples.spans[0].expect("the message finishes");
        assert_eq!((span.start, span.bytes, span.messages), (US(5), 100_000, 1));
        assert!(span.end > US(13) && span.end < US(40), "{}", span.end);
        let active = samples.active_until();
        assert!(active >= span.end && active < span.end + US(5), "{active} {}", span.end);
    }

    #[test]
    fn steps_are_bounded_and_round() {
        let plan = dumbbell(100, 400, &[(0, 2)]);
        let network = MapNetwork::new(&plan).expect("below the limits");
        for (until, step) in [(US(1_000), US(2)), (US(12_000), US(20)), (US(1), Picos::new(2_000_000))] {
            assert_eq!(Sampling::choose(&network, &plan, Picos::ZERO..until).step(), step, "{until}");
        }
        let clos = poseidon_testkit::plans::plan(Topology::poseidon_clos(40), "poseidon", &[]);
        let network = MapNetwork::new(&clos).expect("below the limits");
        let sampling = Sampling::choose(&network, &clos, Picos::ZERO..US(10_000));
        let steps = 10_000_000_000 / sampling.step().get();
        assert!(steps * network.channel_count() as u64 <= MAX_SAMPLES);
        assert!(steps * sampling.per_step * network.wiring.ports.len() as u64 <= MAX_ROWS);
        assert_eq!(round_up(1), 1);
        assert_eq!((round_up(3), round_up(501), round_up(u64::MAX)), (5, 1_000, u64::MAX));
    }
}
