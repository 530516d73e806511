//! Shares and queues: both simulators from several starts, and the middle of what came out.

use core::error::Error;
use poseidon_types::Nanos;

use crate::outcome::{Shared, median};
use crate::scenario::{Disc, Dumbbell, Law, packet};
use crate::{ns3, ours};

/// A line of the table.
struct Case {
    name: &'static str,
    /// Our side has no such feature: ns-3 is shown alone.
    only_ns3: bool,
    scenario: Dumbbell,
}

/// What must agree.
pub(crate) fn compare(quick: bool, json: bool) -> Result<(), Box<dyn Error>> {
    let both = |name, scenario| Case { name, only_ns3: false, scenario };
    run(
        &[
            both("DCTCP, 2 flows", Dumbbell::DCTCP),
            both("DCTCP, 8 flows", Dumbbell { flows: 8, ..Dumbbell::DCTCP }),
            both("CUBIC, 2 flows", Dumbbell::CUBIC),
            both("CUBIC, 8 flows", Dumbbell { flows: 8, ..Dumbbell::CUBIC }),
        ],
        usize::MAX,
        quick,
        json,
    )
}

/// One feature changed at a time, to see what it does.
pub(crate) fn causes(quick: bool, json: bool) -> Result<(), Box<dyn Error>> {
    let both = |name, scenario| Case { name, only_ns3: false, scenario };
    let alone = |name, scenario| Case { name, only_ns3: true, scenario };
    let (dctcp, cubic) = (Dumbbell::DCTCP, Dumbbell::CUBIC);
    let marked = Dumbbell { disc: Disc::Leaving, buffer: 2_000, stop: Nanos::from_millis(200_000), ..cubic };
    run(
        &[
            alone("DCTCP, 2 flows, marks on arrival", Dumbbell { disc: Disc::Arriving, ..dctcp }),
            alone("DCTCP, 8 flows, marks on arrival", Dumbbell { disc: Disc::Arriving, flows: 8, ..dctcp }),
            alone("DCTCP, 2 flows, cuts not spread", Dumbbell { spread_cuts: false, ..dctcp }),
            alone("DCTCP, 8 flows, cuts not spread", Dumbbell { spread_cuts: false, flows: 8, ..dctcp }),
            both("CUBIC, 2 flows, marks for drops", marked),
            both("CUBIC, 2 flows, 10 Gbps, marks", Dumbbell { law: Law::Cubic, ..dctcp }),
        ],
        3,
        quick,
        json,
    )
}

/// From the first `most` starts. Words on the command line that are in a case's name choose it.
fn run(cases: &[Case], most: usize, quick: bool, json: bool) -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).map(|word| word.to_uppercase()).collect();
    let is_asked = |case: &Case| words.iter().any(|word| case.name.to_uppercase().contains(word.as_str()));
    let chosen: Vec<&Case> = match cases.iter().filter(|case| is_asked(case)).collect::<Vec<_>>() {
        none if none.is_empty() => cases.iter().collect(),
        some => some,
    };
    if !json {
        println!(
            "{:<33} {:<5} {:>15} {:>6} {:>9} {:>8} {:>7} {:>8} {:>7}",
            "scenario", "", "shares of fair", "swing", "Mbps", "packets", "drops", "d share", "d queue"
        );
    }
    for case in chosen {
        let (mut our, mut their) = (Vec::new(), Vec::new());
        for &gap in case.scenario.gaps.iter().take(if quick { 1 } else { most }) {
            let mut scenario = case.scenario;
            scenario.gap = gap;
            if quick {
                scenario.stop = Nanos::new(scenario.stop.get() / 2);
            }
            if !case.only_ns3 {
                our.push(ours::dumbbell(&scenario)?);
                if json {
                    print_json(case, "ours", gap, &our[our.len() - 1]);
                }
            }
            their.push(ns3::dumbbell(&scenario)?);
            if json {
                print_json(case, "ns-3", gap, &their[their.len() - 1]);
            }
        }
        if !json {
            print_rows(case, &our, &their);
        }
    }
    Ok(())
}

fn print_rows(case: &Case, our: &[Shared], their: &[Shared]) {
    let their = Middle::of(their);
    if case.only_ns3 {
        println!("{:<33} {:<5} {}", case.name, "ns-3", their.text());
        return;
    }
    let our = Middle::of(our);
    let shares = our.shares.iter().zip(&their.shares).map(|(a, b)| (a - b).abs());
    // Not `f64::max`, which would turn "nothing arrived" into "no difference".
    let worst = shares.fold(0.0, |worst: f64, share| if share <= worst { worst } else { share });
    let queue = our.queue / their.queue - 1.0;
    println!(
        "{:<33} {:<5} {} {:>7.1}% {:>+6.1}%",
        case.name,
        "ours",
        our.text(),
        worst * 100.0,
        queue * 100.0
    );
    println!("{:<33} {:<5} {}", "", "ns-3", their.text());
}

/// The median over all starts, number by number.
struct Middle {
    shares: Vec<f64>,
    swing: f64,
    mbps: f64,
    queue: f64,
    drops: f64,
}

impl Middle {
    fn of(runs: &[Shared]) -> Self {
        let shares: Vec<Vec<f64>> = runs.iter().map(Shared::shares).collect();
        Self {
            shares: (0..shares[0].len()).map(|flow| median(shares.iter().map(|run| run[flow]))).collect(),
            swing: median(runs.iter().map(Shared::swing)),
            mbps: median(runs.iter().map(Shared::total_bps)) / 1e6,
            queue: median(runs.iter().map(|run| run.mean_queue_bytes)),
            drops: median(runs.iter().map(|run| run.drops as f64)),
        }
    }

    fn text(&self) -> String {
        let least = self.shares.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.shares.iter().copied().fold(0.0, f64::max);
        let shares =
            if least <= most { format!("{least:.3} .. {most:.3}") } else { "nothing arrived".to_owned() };
        let queue = self.queue / packet().get() as f64;
        format!(
            "{shares:>15} {:>5.1}% {:>9.1} {queue:>8.1} {:>7.0}",
            self.swing * 100.0,
            self.mbps,
            self.drops
        )
    }
}

fn print_json(case: &Case, side: &str, gap: Nanos, run: &Shared) {
    // JSON has no NaN, which is the share of nothing.
    let number = |x: f64| if x.is_finite() { format!("{x:.4}") } else { "null".to_owned() };
    let shares: Vec<String> = run.shares().into_iter().map(number).collect();
    println!(
        "{{\"scenario\":\"{}\",\"side\":\"{side}\",\"gap_ns\":{},\"shares\":[{}],\"swing\":{},\
         \"goodput_bps\":{:.0},\"mean_queue_bytes\":{:.0},\"drops\":{}}}",
        case.name,
        gap.get(),
        shares.join(","),
        number(run.swing()),
        run.total_bps(),
        run.mean_queue_bytes,
        run.drops
    );
}
