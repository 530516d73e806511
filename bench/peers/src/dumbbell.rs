//! Compares bandwidth shares and queue lengths between the two simulators on a dumbbell. Results are medians over
//! several start offsets.

use core::error::Error;
use poseidon_types::Nanos;

use crate::results::{DumbbellResult, median};
use crate::scenario::{Dumbbell, Law, QueueDiscipline, packet_size};
use crate::{ns3, simulator};

/// A row in the results table.
struct Case {
    name: &'static str,
    /// Whether to run the case only in ns-3, because Poseidon's simulator lacks the required feature.
    only_ns3: bool,
    scenario: Dumbbell,
}

/// Runs the cases in which both simulators should agree.
pub(crate) fn compare(quick: bool, json: bool) -> Result<(), Box<dyn Error>> {
    let both_simulators = |name, scenario| Case { name, only_ns3: false, scenario };
    run_cases(
        &[
            both_simulators("DCTCP, 2 flows", Dumbbell::DCTCP),
            both_simulators("DCTCP, 8 flows", Dumbbell { flows: 8, ..Dumbbell::DCTCP }),
            both_simulators("CUBIC, 2 flows", Dumbbell::CUBIC),
            both_simulators("CUBIC, 8 flows", Dumbbell { flows: 8, ..Dumbbell::CUBIC }),
        ],
        usize::MAX,
        quick,
        json,
    )
}

/// Changes one feature at a time to find out why the simulators differ.
pub(crate) fn compare_causes(quick: bool, json: bool) -> Result<(), Box<dyn Error>> {
    let both_simulators = |name, scenario| Case { name, only_ns3: false, scenario };
    let ns3_only = |name, scenario| Case { name, only_ns3: true, scenario };
    let (dctcp, cubic) = (Dumbbell::DCTCP, Dumbbell::CUBIC);
    let marked = Dumbbell {
        discipline: QueueDiscipline::MarkOnDequeue,
        buffer: 2_000,
        stop: Nanos::from_millis(200_000),
        ..cubic
    };
    run_cases(
        &[
            ns3_only(
                "DCTCP, 2 flows, marks on arrival",
                Dumbbell { discipline: QueueDiscipline::MarkOnEnqueue, ..dctcp },
            ),
            ns3_only(
                "DCTCP, 8 flows, marks on arrival",
                Dumbbell { discipline: QueueDiscipline::MarkOnEnqueue, flows: 8, ..dctcp },
            ),
            ns3_only("DCTCP, 2 flows, cuts not spread", Dumbbell { prr: false, ..dctcp }),
            ns3_only("DCTCP, 8 flows, cuts not spread", Dumbbell { prr: false, flows: 8, ..dctcp }),
            both_simulators("CUBIC, 2 flows, marks for drops", marked),
            both_simulators("CUBIC, 2 flows, 10 Gbps, marks", Dumbbell { law: Law::Cubic, ..dctcp }),
        ],
        3,
        quick,
        json,
    )
}

/// Runs the cases with the first `max_starts` start offsets. Command-line arguments select cases by name.
fn run_cases(cases: &[Case], max_starts: usize, quick: bool, json: bool) -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).map(|word| word.to_uppercase()).collect();
    let is_selected = |case: &Case| words.iter().any(|word| case.name.to_uppercase().contains(word.as_str()));
    let mut selected: Vec<&Case> = cases.iter().filter(|case| is_selected(case)).collect();
    if selected.is_empty() {
        selected = cases.iter().collect();
    }
    if !json {
        println!(
            "{:<33} {:<5} {:>15} {:>6} {:>9} {:>8} {:>7} {:>8} {:>7}",
            "scenario", "", "shares of fair", "swing", "Mbps", "packets", "drops", "d share", "d queue"
        );
    }
    for case in selected {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for &gap in case.scenario.start_gaps.iter().take(if quick { 1 } else { max_starts }) {
            let mut scenario = case.scenario;
            scenario.start_gap = gap;
            if quick {
                scenario.stop = Nanos::new(scenario.stop.get() / 2);
            }
            if !case.only_ns3 {
                let result = simulator::run_dumbbell(&scenario)?;
                if json {
                    print_json(case, "ours", gap, &result);
                }
                ours.push(result);
            }
            let result = ns3::run_dumbbell(&scenario)?;
            if json {
                print_json(case, "ns-3", gap, &result);
            }
            theirs.push(result);
        }
        if !json {
            print_rows(case, &ours, &theirs);
        }
    }
    Ok(())
}

fn print_rows(case: &Case, ours: &[DumbbellResult], theirs: &[DumbbellResult]) {
    let theirs = MedianResult::new(theirs);
    if case.only_ns3 {
        println!("{:<33} {:<5} {}", case.name, "ns-3", theirs.format());
        return;
    }
    let ours = MedianResult::new(ours);
    let differences = ours.shares.iter().zip(&theirs.shares).map(|(a, b)| (a - b).abs());
    // `f64::max` ignores NaN, so it would report no difference if no data arrived.
    let largest = differences.fold(0.0, |largest: f64, other| if other <= largest { largest } else { other });
    let queue = ours.queue_bytes / theirs.queue_bytes - 1.0;
    println!(
        "{:<33} {:<5} {} {:>7.1}% {:>+6.1}%",
        case.name,
        "ours",
        ours.format(),
        largest * 100.0,
        queue * 100.0
    );
    println!("{:<33} {:<5} {}", "", "ns-3", theirs.format());
}

/// The median of each metric over all start offsets.
struct MedianResult {
    shares: Vec<f64>,
    rms_deviation: f64,
    mbps: f64,
    queue_bytes: f64,
    drops: f64,
}

impl MedianResult {
    fn new(runs: &[DumbbellResult]) -> Self {
        let shares: Vec<Vec<f64>> = runs.iter().map(DumbbellResult::shares).collect();
        Self {
            shares: (0..shares[0].len()).map(|flow| median(shares.iter().map(|run| run[flow]))).collect(),
            rms_deviation: median(runs.iter().map(DumbbellResult::rms_deviation)),
            mbps: median(runs.iter().map(DumbbellResult::total_bps)) / 1e6,
            queue_bytes: median(runs.iter().map(|run| run.mean_queue_bytes)),
            drops: median(runs.iter().map(|run| run.drops as f64)),
        }
    }

    fn format(&self) -> String {
        let smallest = self.shares.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = self.shares.iter().copied().fold(0.0, f64::max);
        let shares = if smallest <= largest {
            format!("{smallest:.3} .. {largest:.3}")
        } else {
            "nothing arrived".to_owned()
        };
        let queue = self.queue_bytes / packet_size().get() as f64;
        format!(
            "{shares:>15} {:>5.1}% {:>9.1} {queue:>8.1} {:>7.0}",
            self.rms_deviation * 100.0,
            self.mbps,
            self.drops
        )
    }
}

fn print_json(case: &Case, side: &str, gap: Nanos, run: &DumbbellResult) {
    // JSON cannot represent NaN, and shares are NaN if no data arrived.
    let number = |x: f64| if x.is_finite() { format!("{x:.4}") } else { "null".to_owned() };
    let shares: Vec<String> = run.shares().into_iter().map(number).collect();
    println!(
        "{{\"scenario\":\"{}\",\"side\":\"{side}\",\"gap_ns\":{},\"shares\":[{}],\"swing\":{},\
         \"goodput_bps\":{:.0},\"mean_queue_bytes\":{:.0},\"drops\":{}}}",
        case.name,
        gap.get(),
        shares.join(","),
        number(run.rms_deviation()),
        run.total_bps(),
        run.mean_queue_bytes,
        run.drops
    );
}
