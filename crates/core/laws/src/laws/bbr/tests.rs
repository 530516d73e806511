use super::*;
use std::collections::VecDeque;
use std::vec::Vec;

const PATH: Path =
    Path { mtu: Bytes::new(1_500), line_rate: BitRate::from_gbps(1), base_rtt: Nanos::from_millis(5) };
/// The transmission time of a packet at 100 Mbps, in ns.
const PACKET_TIME: u64 = 120_000;

/// One flow over a bottleneck with an unlimited buffer and one ACK per packet.
struct Bottleneck {
    law: Bbr,
    now: u64,
    /// The transmission time of a packet at the bottleneck.
    packet_time: u64,
    /// The remainder of the round-trip time.
    propagation: u64,
    /// When the bottleneck has sent all queued packets.
    free_at: u64,
    last_send: Option<u64>,
    sent: u64,
    acked: u64,
    /// For each ACK, its arrival time and the time at which its packet was sent.
    acks: VecDeque<(u64, u64)>,
    /// The number of packets that the application has written.
    app_packets: u64,
}

impl Bottleneck {
    fn new(params: &BbrParams, packet_time: u64) -> Self {
        Self {
            law: Bbr::new(params, &PATH),
            now: 0,
            packet_time,
            propagation: PATH.base_rtt.get() - packet_time,
            free_at: 0,
            last_send: None,
            sent: 0,
            acked: 0,
            acks: VecDeque::new(),
            app_packets: u64::MAX,
        }
    }

    /// Processes the next send or ACK.
    fn step(&mut self) {
        let Decision { window, pacing: Pacing::Gap(gap) } = self.law.decision() else { unreachable!() };
        let send_at = self.last_send.map_or(0, |last| last + gap.get()).max(self.now);
        let can_send = self.sent - self.acked < window.floor() && self.sent < self.app_packets;
        let ack_at = self.acks.front().map_or(u64::MAX, |ack| ack.0);
        if can_send && send_at < ack_at {
            self.now = send_at;
            self.free_at = self.free_at.max(self.now) + self.packet_time;
            self.acks.push_back((self.free_at + self.propagation, self.now));
            (self.last_send, self.sent) = (Some(self.now), self.sent + 1);
            return;
        }
        let (ack_time, sent_at) = self.acks.pop_front().expect("a packet is in flight");
        let app_limited = Packets::whole(2 * (self.sent - self.acked)) < window;
        (self.now, self.acked) = (ack_time, self.acked + 1);
        self.law.on_ack(&Ack {
            now: Nanos::new(ack_time),
            rtt: Nanos::new(ack_time - sent_at),
            packets: 1,
            acked_seq: self.acked * 1_500,
            next_seq: self.sent * 1_500,
            app_limited,
            random: u32::try_from(self.acked % 1_024).expect("the remainder is below 1024") << 22,
            ..Ack::EMPTY
        });
    }

    fn run_until(&mut self, time: u64) {
        while self.now < time {
            self.step();
        }
    }

    /// Returns the number of packets queued at the bottleneck.
    fn queue(&self) -> f64 {
        self.free_at.saturating_sub(self.now) as f64 / self.packet_time as f64
    }

    /// Returns the ratio of the estimated to the actual bandwidth.
    fn bandwidth_ratio(&self) -> f64 {
        self.law.bandwidth.max * self.packet_time as f64
    }

    fn is_probing_bw(&self) -> bool {
        matches!(self.law.mode, Mode::ProbeBw { .. })
    }
}

const MS: u64 = 1_000_000;

#[test]
fn startup_doubles_the_rate_per_round() {
    // At 100 Gbps the bottleneck does not limit the flow.
    let mut link = Bottleneck::new(&BbrParams::default(), 120);
    let mut rates = Vec::new();
    while rates.len() < 9 {
        let round = link.law.round_count;
        link.step();
        if link.law.round_count > round {
            rates.push(link.law.bandwidth.max);
        }
    }
    // Compare the rates six rounds apart, after the initial-window rounds.
    assert!((48.0..80.0).contains(&(rates[8] / rates[2])), "{rates:?}");
    for pair in rates[2..].windows(2) {
        assert!((1.5..2.5).contains(&(pair[1] / pair[0])), "{rates:?}");
    }
    assert_eq!(link.law.mode, Mode::Startup);
}

#[test]
fn full_bandwidth_is_reached_after_three_rounds_with_less_than_25_percent_growth() {
    let mut law = Bbr::new(&BbrParams::default(), &PATH);
    let mut is_reached_at = |bandwidth: f64| {
        law.bandwidth.max = bandwidth;
        law.check_full_bandwidth_reached();
        law.full_bandwidth_reached()
    };
    assert!(![1.0, 1.25, 1.5, 1.55].map(&mut is_reached_at).contains(&true));
    // 1.57 exceeds 1.25 · 1.25 and restarts the count.
    assert_eq!([1.57, 1.9, 1.9, 1.9].map(&mut is_reached_at), [false, false, false, true]);
    assert!(is_reached_at(100.0), "the state is permanent");
}

#[test]
fn startup_finds_the_bandwidth_and_drain_empties_the_queue() {
    let mut link = Bottleneck::new(&BbrParams::default(), PACKET_TIME);
    let mut longest_queue = 0.0_f64;
    while link.law.mode == Mode::Startup {
        link.step();
        longest_queue = longest_queue.max(link.queue());
    }
    let bdp = PATH.base_rtt.get() as f64 / PACKET_TIME as f64;
    assert!((link.bandwidth_ratio() - 1.0).abs() < 0.01, "{}", link.bandwidth_ratio());
    // The window minus the path's capacity, plus three quanta of 23 packets and one packet each for rounding up, for
    // rounding to an even number and for the packet in transmission.
    assert!(
        longest_queue > bdp && longest_queue < (HIGH_GAIN - 1.0) * bdp + 3.0 * 23.0 + 3.0,
        "{longest_queue}"
    );
    let drain_start = link.now;
    while link.law.mode == Mode::Drain {
        link.step();
    }
    assert!(link.is_probing_bw());
    // The inverse gain drains the queue in about one RTT, including queueing delay.
    assert!(link.now - drain_start < 25 * MS, "{}", link.now - drain_start);
    assert!((link.sent - link.acked) as f64 <= link.law.target_in_flight(1.0) + 1.0);
}

#[test]
fn the_gain_cycle_spends_one_rtt_per_phase() {
    let mut link = Bottleneck::new(&BbrParams::default(), PACKET_TIME);
    link.run_until(200 * MS);
    let mut phases = Vec::new();
    while phases.len() < 24 {
        let before = link.law.mode;
        link.step();
        if let (Mode::ProbeBw { phase_start, .. }, Mode::ProbeBw { phase, phase_start: next_start }) =
            (before, link.law.mode)
            && next_start != phase_start
        {
            phases.push((phase, next_start - phase_start, link.law.pacing_gain()));
        }
    }
    for pair in phases.windows(2) {
        let ((phase, _, gain), (next, duration, _)) = (pair[0], pair[1]);
        assert_eq!((next, gain), ((phase + 1) % 8, PACING_GAIN_CYCLE[usize::from(phase)]));
        if gain == 1.0 {
            assert!((5 * MS..=5 * MS + 2 * PACKET_TIME).contains(&duration), "phase {phase}: {duration}");
        }
    }
}

#[test]
fn a_single_flow_fills_the_path_with_a_short_queue() {
    let mut link = Bottleneck::new(&BbrParams::default(), PACKET_TIME);
    link.run_until(1_000 * MS);
    let (acked, mut longest_queue) = (link.acked, 0.0_f64);
    while link.now < 3_000 * MS {
        link.step();
        longest_queue = longest_queue.max(link.queue());
        assert!((0.99..1.01).contains(&link.bandwidth_ratio()), "{}", link.bandwidth_ratio());
    }
    let utilisation = (link.acked - acked) as f64 * PACKET_TIME as f64 / (2_000.0 * MS as f64);
    assert!(utilisation > 0.985, "{utilisation}");
    // The bandwidth-delay product is 42 packets. Probing adds a quarter, and the window adds three quanta of 9 packets.
    assert!(longest_queue < 42.0, "{longest_queue}");
}

#[test]
fn the_estimate_grows_by_25_percent_per_cycle_and_falls_after_ten_rounds() {
    let mut link = Bottleneck::new(&BbrParams::default(), PACKET_TIME);
    link.run_until(1_000 * MS);
    link.packet_time /= 2;
    // ln 2/ln 1.25 = 3.1 cycles of about 50 ms.
    link.run_until(1_300 * MS);
    assert!(link.bandwidth_ratio() > 0.97, "{}", link.bandwidth_ratio());
    link.packet_time *= 2;
    link.run_until(1_600 * MS);
    assert!((0.98..1.02).contains(&link.bandwidth_ratio()), "{}", link.bandwidth_ratio());
}

#[test]
fn probe_rtt_detects_a_longer_path_after_ten_seconds() {
    let mut link = Bottleneck::new(&BbrParams::default(), PACKET_TIME);
    link.run_until(1_000 * MS);
    assert_eq!(link.law.min_rtt, 5 * MS);
    link.propagation += MS;
    let in_probe_rtt = |link: &Bottleneck| matches!(link.law.mode, Mode::ProbeRtt { .. });
    let measured_at = link.law.min_rtt_stamp;
    while !in_probe_rtt(&link) {
        link.step();
    }
    let probe_start = link.now;
    assert!(
        (10_000 * MS..10_000 * MS + 2 * PACKET_TIME).contains(&(probe_start - measured_at)),
        "{probe_start}"
    );
    assert_eq!(link.law.min_rtt_stamp, probe_start, "the old minimum expires");
    let window = link.law.prior_window;
    while in_probe_rtt(&link) {
        link.step();
        assert!(link.law.window <= 4.0 || !in_probe_rtt(&link));
    }
    // PROBE_RTT lasts 200 ms, measured from when only four packets are in flight.
    assert!((200 * MS..220 * MS).contains(&(link.now - probe_start)), "{}", link.now - probe_start);
    assert_eq!((link.law.min_rtt, link.law.min_rtt_stamp), (6 * MS, link.now));
    assert!(link.is_probing_bw() && link.law.window + 1.0 >= window.min(link.law.target_in_flight(2.0)));
    // The rate of four packets per RTT does not lower the bandwidth estimate.
    assert!((0.99..1.01).contains(&link.bandwidth_ratio()), "{}", link.bandwidth_ratio());
    // A duration of zero disables PROBE_RTT.
    let mut disabled =
        Bottleneck::new(&BbrParams { probe_rtt_time: Nanos::ZERO, ..BbrParams::default() }, PACKET_TIME);
    disabled.run_until(1_000 * MS);
    disabled.propagation += MS;
    while disabled.now < 12_000 * MS {
        disabled.step();
        assert!(!in_probe_rtt(&disabled));
    }
    assert!(disabled.law.min_rtt >= 6 * MS);
}

#[test]
fn probe_bw_starts_in_any_phase_except_the_draining_one() {
    let first_phase = |random: u32| match Bbr::start_probe_bw(0, random) {
        Mode::ProbeBw { phase, .. } => phase,
        _ => u8::MAX,
    };
    let mut phases: Vec<_> = (0..70).map(|i| first_phase(i * (u32::MAX / 70))).collect();
    phases.sort_unstable();
    phases.dedup();
    assert_eq!(phases, [0, 2, 3, 4, 5, 6, 7]);
    assert_eq!(first_phase(u32::MAX), 0);
}

#[test]
fn a_rate_sample_covers_an_rtt_and_never_exceeds_the_send_rate() {
    let mut sampler = DeliveryRateSampler::default();
    sampler.restart(0);
    // One packet per 10 ns and an RTT of 1000 ns: samples are exact after two round trips.
    let steady = |n: u64, sampler: &mut DeliveryRateSampler| sampler.sample(1_000 + 10 * n, 1_000, 1);
    for n in 0..300 {
        let sample = steady(n, &mut sampler);
        if n >= 200 {
            assert_eq!(sample.interval, 10 * u64::from(sample.packets), "{n}");
            assert!((1_000..=1_260).contains(&sample.interval), "{n}: {}", sample.interval);
        }
    }
    // The next 100 packets leave at the same rate, but their ACKs arrive together; the first is 990 ns late.
    for n in 300..400 {
        let sample = sampler.sample(5_000, 5_000 - 10 * n, 1);
        assert!(sample.packets_per_ns() <= 0.1 * 1.01, "{n}: {}", sample.packets_per_ns());
    }
}

#[test]
fn an_application_limited_flow_does_not_lower_the_estimate() {
    let mut link = Bottleneck::new(&BbrParams::default(), PACKET_TIME);
    link.run_until(1_000 * MS);
    // Two packets per 2.4 ms: a tenth of the bandwidth.
    link.app_packets = link.sent;
    while link.now < 3_000 * MS {
        link.app_packets += 2;
        let next = link.now + 20 * PACKET_TIME;
        while link.sent < link.app_packets || link.acks.front().is_some_and(|ack| ack.0 < next) {
            link.step();
        }
        link.now = link.now.max(next);
    }
    assert!((0.99..1.02).contains(&link.bandwidth_ratio()), "{}", link.bandwidth_ratio());
}

#[test]
fn a_loss_keeps_the_rate_and_a_timeout_cuts_the_window_for_two_rounds() {
    let mut link = Bottleneck::new(&BbrParams::default(), PACKET_TIME);
    link.run_until(1_000 * MS);
    let (pacing_rate, window) = (link.law.pacing_rate, link.law.window);
    link.law.on_loss(&Loss { now: Nanos::new(link.now) });
    assert_eq!((link.law.pacing_rate, link.law.window), (pacing_rate, window));
    link.step();
    while link.law.packet_conservation {
        assert!(link.law.window <= window);
        link.step();
    }
    assert!(link.law.window >= window.min(link.law.target_in_flight(2.0)));
    link.law.on_timeout(&Timeout { now: Nanos::new(link.now), bytes: Bytes::ZERO });
    assert_eq!(link.law.decision().window, Packets::ONE);
    let end = link.now + 20 * MS;
    link.run_until(end);
    assert!(link.law.window + 2.0 >= window, "{} of {window}", link.law.window);
}

#[test]
fn the_window_includes_three_send_quanta() {
    let mut law = Bbr::new(&BbrParams::default(), &PATH);
    (law.min_rtt, law.bandwidth.max, law.pacing_rate) =
        (5 * MS, 1.0 / PACKET_TIME as f64, 1.0 / PACKET_TIME as f64);
    // 100 Mbps for 1/1024 s is eight packets of 1500 bytes. The bandwidth-delay product is 41.7 packets.
    assert_eq!(law.send_quantum(), 8.0);
    assert_eq!(law.target_in_flight(1.0), 66.0);
    assert_eq!(law.target_in_flight(2.0), 108.0);
    law.mode = Mode::ProbeBw { phase: 0, phase_start: 0 };
    assert_eq!(law.target_in_flight(1.0), 68.0);
    law.pacing_rate = 1e-9;
    assert_eq!(law.send_quantum(), 1.0, "the rate is below 1.2 Mbps");
    law.pacing_rate = 1.0;
    assert_eq!(law.send_quantum(), 43.0, "the quantum is at most 64 KiB");
}
