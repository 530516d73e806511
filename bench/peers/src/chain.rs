//! Compares Poseidon's simulator with ns-3 in which the same laws run, through the C library (`ns3/`).
//!
//! The network is a chain of switches: one switch is a star, two are a dumbbell.

use core::error::Error;
use poseidon_types::{BitRate, Nanos};

use crate::results::{DumbbellResult, median};
use crate::scenario::{MARK_PACKETS, packet_size};
use crate::{ns3, simulator};

/// A network, its flows and their law.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub(crate) switches: u32,
    /// The number of hosts at each switch.
    pub(crate) hosts: u32,
    pub(crate) rate: BitRate,
    pub(crate) host_rate: BitRate,
    /// The propagation delay of every link.
    pub(crate) delay: Nanos,
    pub(crate) law: &'static str,
    /// The parameters that differ from the defaults.
    pub(crate) params: &'static [(&'static str, &'static str)],
    /// The hosts at both ends of each flow. Hosts are numbered switch by switch.
    pub(crate) flows: Vec<(u32, u32)>,
    /// The flow whose rate is compared with the others, or all flows.
    pub(crate) victim: Option<usize>,
    pub(crate) queue: WatchedQueue,
    /// Whether switches mark packets.
    pub(crate) marks: bool,
    pub(crate) stop: Nanos,
    /// The time between consecutive flow starts.
    pub(crate) start_gap: Nanos,
    /// The size of a socket's send buffer in ns-3. A flow without congestion fills it.
    pub(crate) send_buffer: u64,
}

/// The queue whose mean length is compared.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WatchedQueue {
    /// The switch's queue to a host.
    ToHost(u32),
    /// The queue of a switch to the next switch.
    ToNext(u32),
}

/// The buffer of each queue, in packets.
pub(crate) const BUFFER: u64 = 1_000;
const GAPS: [Nanos; 3] = [Nanos::new(6_300), Nanos::new(123_300), Nanos::new(286_200)];
const POSEIDON: &[(&str, &str)] = &[("max-rate", "10 Gbps")];

impl Chain {
    /// The dumbbell of `scenario::Dumbbell::DCTCP`, with another law.
    fn dumbbell(law: &'static str, params: &'static [(&'static str, &'static str)], flows: u32) -> Self {
        Self {
            switches: 2,
            hosts: flows,
            rate: BitRate::from_gbps(10),
            host_rate: BitRate::from_gbps(40),
            delay: Nanos::from_micros(15),
            law,
            params,
            flows: (0..flows).map(|flow| (flow, flows + flow)).collect(),
            victim: None,
            queue: WatchedQueue::ToNext(0),
            marks: matches!(law, "dctcp" | "dcqcn" | "cubic"),
            stop: Nanos::from_millis(40),
            start_gap: Nanos::ZERO,
            send_buffer: 16_000_000,
        }
    }

    /// The star of `scenario::Star` with 10 Gbps links. Hosts 1 to `flows` send to host 0.
    fn star(law: &'static str, params: &'static [(&'static str, &'static str)], flows: u32) -> Self {
        Self {
            switches: 1,
            hosts: flows + 1,
            host_rate: BitRate::from_gbps(10),
            delay: Nanos::from_micros(1),
            flows: (1..=flows).map(|host| (host, 0)).collect(),
            queue: WatchedQueue::ToHost(0),
            stop: Nanos::from_millis(20),
            ..Self::dumbbell(law, params, flows)
        }
    }

    /// Three switches at 10 Gbps. A victim crosses both middle links, `first` flows cross the first one, and `second`
    /// flows the second one (Poseidon, fig. 12b with two and two, fig. 14b with other numbers).
    fn two_bottlenecks(law: &'static str, first: u32, second: u32) -> Self {
        let hosts = 1 + first.max(second);
        let victim = (0, 2 * hosts);
        let first = (1..=first).map(|i| (i, hosts + i));
        let second = (1..=second).map(|i| (hosts + i, 2 * hosts + i));
        Self {
            switches: 3,
            hosts,
            flows: core::iter::once(victim).chain(first).chain(second).collect(),
            queue: WatchedQueue::ToNext(0),
            victim: Some(0),
            send_buffer: 1_000_000,
            ..Self::star(law, params_of(law), 2)
        }
    }

    /// A star in which four flows go to the victim's sender, so the victim's ACKs wait with them (fig. 13b).
    fn reverse_path(law: &'static str) -> Self {
        Self {
            hosts: 6,
            flows: core::iter::once((0, 5)).chain((1..=4).map(|host| (host, 0))).collect(),
            victim: Some(0),
            queue: WatchedQueue::ToHost(0),
            send_buffer: 1_000_000,
            ..Self::star(law, params_of(law), 5)
        }
    }

    /// Returns the parameters as text, in the form that the C library parses. Without spaces, because ns-3 cuts arguments at them.
    pub(crate) fn params_text(&self) -> String {
        let items: Vec<String> =
            self.params.iter().map(|(name, value)| format!("{name}={}", value.replace(' ', ""))).collect();
        items.join(",")
    }

    /// Returns the start of a flow.
    pub(crate) fn start(&self, flow: usize) -> Nanos {
        Nanos::new(self.start_gap.get() * flow as u64)
    }

    /// Returns the marking threshold in packets.
    pub(crate) const fn threshold(&self) -> Option<u64> {
        if self.marks { Some(MARK_PACKETS) } else { None }
    }

    /// Returns the queue sampling interval.
    pub(crate) const fn sample_interval(&self) -> Nanos {
        Nanos::from_micros(1)
    }
}

/// Returns the parameters for 10 Gbps links.
fn params_of(law: &str) -> &'static [(&'static str, &'static str)] {
    if law == "poseidon" { POSEIDON } else { &[] }
}

/// Runs the same laws on the dumbbell and on the star.
pub(crate) fn compare_laws(quick: bool, json: bool) -> Result<(), Box<dyn Error>> {
    // The base RTT of the dumbbell exceeds Swift's default target.
    let swift: &'static [(&str, &str)] = &[("base-target", "120 us")];
    let dumbbell =
        |law, params, flows| (format!("dumbbell, {law}, {flows} flows"), Chain::dumbbell(law, params, flows));
    let star = |law, params, flows| (format!("star, {law}, {flows} flows"), Chain::star(law, params, flows));
    run_cases(
        &[
            dumbbell("poseidon", POSEIDON, 2),
            dumbbell("poseidon", POSEIDON, 8),
            dumbbell("swift", swift, 2),
            dumbbell("swift", swift, 8),
            dumbbell("dctcp", &[], 2),
            dumbbell("dctcp", &[], 8),
            dumbbell("theta-powertcp", &[], 2),
            dumbbell("dcqcn", &[], 2),
            dumbbell("cubic", &[], 2),
            dumbbell("bbr", &[], 2),
            star("poseidon", POSEIDON, 2),
            star("poseidon", POSEIDON, 8),
            star("swift", &[], 8),
            star("timely", &[], 2),
            star("dctcp", &[], 8),
        ],
        quick,
        json,
    )
}

/// Runs Poseidon and Swift in small versions of figures 12, 13 and 14 of the Poseidon paper.
pub(crate) fn compare_victims(quick: bool, json: bool) -> Result<(), Box<dyn Error>> {
    let mut cases = Vec::new();
    for law in ["poseidon", "swift"] {
        cases.push((format!("fig. 12, {law}"), Chain::two_bottlenecks(law, 2, 2)));
        cases.push((format!("fig. 13, {law}"), Chain::reverse_path(law)));
        for (first, second) in [(2, 0), (0, 2), (2, 9), (9, 9), (9, 2)] {
            let name = format!("fig. 14, {law}, ({first},{second})");
            cases.push((name, Chain::two_bottlenecks(law, first, second)));
        }
    }
    // With links of 10 us, windows are three times as large.
    let far = Chain { delay: Nanos::from_micros(10), ..Chain::two_bottlenecks("poseidon", 2, 9) };
    cases.push(("fig. 14, poseidon, (2,9), 10 us".to_owned(), far));
    run_cases(&cases, quick, json)
}

/// Runs the cases. Command-line arguments select cases by name.
fn run_cases(cases: &[(String, Chain)], quick: bool, json: bool) -> Result<(), Box<dyn Error>> {
    let versions = ns3::chain_programs()?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_selected = |name: &str| words.iter().any(|word| name.contains(word.as_str()));
    let any_selected = cases.iter().any(|(name, _)| is_selected(name));
    if !json {
        println!(
            "{:<30} {:<8} {:>15} {:>6} {:>9} {:>8} {:>6} {:>9} {:>8}",
            "scenario", "", "shares of fair", "swing", "Mbps", "packets", "drops", "d share", "d queue"
        );
    }
    for (name, chain) in cases.iter().filter(|(name, _)| !any_selected || is_selected(name)) {
        let scenarios: Vec<Chain> = GAPS[..if quick { 1 } else { GAPS.len() }]
            .iter()
            .map(|&start_gap| {
                let stop = Nanos::new(chain.stop.get() / if quick { 2 } else { 1 });
                Chain { start_gap, stop, ..chain.clone() }
            })
            .collect();
        let ours = scenarios.iter().map(simulator::run_chain).collect::<Result<Vec<_>, _>>()?;
        let ours = MedianRun::new(chain, &ours);
        ours.print(name, "ours", None, json);
        for version in &versions {
            let runs = scenarios.iter().map(|scenario| ns3::run_chain(scenario, version));
            let runs = runs.collect::<Result<Vec<_>, _>>()?;
            MedianRun::new(chain, &runs).print("", &version.name, Some((name, &ours)), json);
        }
    }
    Ok(())
}

/// The medians over all start gaps.
struct MedianRun {
    /// The shares of the compared flows, relative to the mean of all flows or, for a victim, to its max-min share.
    shares: Vec<f64>,
    rms_deviation: f64,
    mbps: f64,
    queue_packets: f64,
    drops: f64,
}

impl MedianRun {
    fn new(chain: &Chain, runs: &[DumbbellResult]) -> Self {
        let shares: Vec<Vec<f64>> = runs.iter().map(|run| compared_shares(chain, run)).collect();
        Self {
            shares: (0..shares[0].len()).map(|flow| median(shares.iter().map(|run| run[flow]))).collect(),
            rms_deviation: median(runs.iter().map(DumbbellResult::rms_deviation)),
            mbps: median(runs.iter().map(|run| compared_mbps(chain, run))),
            queue_packets: median(runs.iter().map(|run| run.mean_queue_bytes)) / packet_size().get() as f64,
            drops: median(runs.iter().map(|run| run.drops as f64)),
        }
    }

    /// Prints a row. `reference`: the name of the scenario and our result, if this one comes from ns-3.
    fn print(&self, name: &str, side: &str, reference: Option<(&String, &Self)>, json: bool) {
        let smallest = self.shares.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = self.shares.iter().copied().fold(0.0, f64::max);
        let share_difference = |other: &Self| {
            let differences = self.shares.iter().zip(&other.shares).map(|(a, b)| (a - b).abs());
            differences.fold(0.0, f64::max)
        };
        let queue_difference = |other: &Self| {
            let both_empty = other.queue_packets.max(self.queue_packets) < 0.1;
            if both_empty { 0.0 } else { other.queue_packets / self.queue_packets - 1.0 }
        };
        if json {
            let (name, differences) = reference.map_or((name, String::new()), |(name, ours)| {
                let (share, queue) = (share_difference(ours), queue_difference(ours));
                (name.as_str(), format!(",\"share_difference\":{share:.4},\"queue_difference\":{queue:.4}"))
            });
            println!(
                "{{\"scenario\":\"{name}\",\"side\":\"{side}\",\"smallest_share\":{smallest:.4},\
                 \"largest_share\":{largest:.4},\"swing\":{:.4},\"mbps\":{:.1},\"queue_packets\":{:.2},\
                 \"drops\":{}{differences}}}",
                self.rms_deviation, self.mbps, self.queue_packets, self.drops
            );
            return;
        }
        let shares = format!("{smallest:.3} .. {largest:.3}");
        let differences = reference.map_or(String::new(), |(_, ours)| {
            let (share, queue) = (share_difference(ours), queue_difference(ours));
            format!(" {:>8.1}% {:>+7.1}%", share * 100.0, queue * 100.0)
        });
        println!(
            "{name:<30} {side:<8} {shares:>15} {:>5.1}% {:>9.1} {:>8.1} {:>6.0}{differences}",
            self.rms_deviation * 100.0,
            self.mbps,
            self.queue_packets,
            self.drops
        );
    }
}

/// Returns the flow's mean goodput.
fn flow_bps(run: &DumbbellResult, flow: usize) -> f64 {
    run.goodput_bps.iter().map(|slice| slice[flow]).sum::<f64>() / run.goodput_bps.len() as f64
}

fn compared_shares(chain: &Chain, run: &DumbbellResult) -> Vec<f64> {
    chain
        .victim
        .map_or_else(|| run.shares(), |victim| vec![flow_bps(run, victim) / victim_share(chain, victim)])
}

fn compared_mbps(chain: &Chain, run: &DumbbellResult) -> f64 {
    chain.victim.map_or_else(|| run.total_bps(), |victim| flow_bps(run, victim)) / 1e6
}

/// Returns a flow's max-min share of the payload rate: the fullest link on its path decides, because all other flows
/// cross one link only.
fn victim_share(chain: &Chain, victim: usize) -> f64 {
    let switch_of = |host: u32| host / chain.hosts;
    let crosses = |&(from, to): &(u32, u32), link: u32| switch_of(from) <= link && link < switch_of(to);
    let path = chain.flows[victim];
    let shared = (0..chain.switches).filter(|&link| crosses(&path, link));
    let most = shared.map(|link| chain.flows.iter().filter(|flow| crosses(flow, link)).count()).max();
    let payload = (packet_size().get() - crate::scenario::HEADERS.get()) as f64 / packet_size().get() as f64;
    chain.rate.get() as f64 * payload / most.unwrap_or(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_link_decides_the_share() {
        let gbps = |chain: &Chain| victim_share(chain, 0) / (1e9 * 1_448.0 / 1_502.0);
        assert!((gbps(&Chain::two_bottlenecks("poseidon", 2, 9)) - 1.0).abs() < 1e-9);
        assert!((gbps(&Chain::two_bottlenecks("poseidon", 2, 2)) - 10.0 / 3.0).abs() < 1e-9);
        assert!((gbps(&Chain::reverse_path("poseidon")) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn parameters_are_written_as_the_c_library_reads_them() {
        assert_eq!(Chain::dumbbell("poseidon", POSEIDON, 2).params_text(), "max-rate=10Gbps");
    }
}
