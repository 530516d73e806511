//! Compares the speed of the two simulators on a star. Runs alternate between the simulators, and the result is the
//! median.

use core::error::Error;
use poseidon_types::Nanos;

use crate::results::{Speed, median};
use crate::scenario::Star;
use crate::{ns3, simulator};

pub(crate) fn compare(quick: bool, json: bool) -> Result<(), Box<dyn Error>> {
    let sizes: &[(u32, u64)] = if quick { &[(16, 1_000)] } else { &[(16, 5_000), (64, 2_000), (128, 1_000)] };
    if !json {
        println!(
            "{:>5} {:>8} {:<5} {:>12} {:>10} {:>12} {:>7}",
            "hosts", "sim us", "", "packet-hops", "wall s", "hops/s", "ratio"
        );
    }
    for &(hosts, us) in sizes {
        let scenario = Star { hosts, stop: Nanos::from_micros(us) };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..if quick { 1 } else { 3 } {
            ours.push(simulator::run_star(&scenario)?);
            theirs.push(ns3::run_star(&scenario)?);
        }
        let rate = |runs: &[Speed]| median(runs.iter().map(Speed::hops_per_second));
        let ratio = rate(&ours) / rate(&theirs);
        for (side, runs) in [("ours", &ours), ("ns-3", &theirs)] {
            let wall = median(runs.iter().map(|run| run.wall_seconds));
            let (hops, rate) = (runs[0].packet_hops, rate(runs));
            if json {
                println!(
                    "{{\"hosts\":{hosts},\"side\":\"{side}\",\"simulated_us\":{us},\"packet_hops\":{hops},\
                     \"wall_seconds\":{wall:.6},\"hops_per_second\":{rate:.0}}}"
                );
            } else {
                let ratio = if side == "ours" { format!("{ratio:.0}") } else { String::new() };
                println!("{hosts:>5} {us:>8} {side:<5} {hops:>12} {wall:>10.4} {rate:>12.0} {ratio:>7}");
            }
        }
    }
    if !json {
        println!(
            "ns-3 does more per packet: headers in bytes, IP routing, sockets with buffers, queue discs, trace hooks."
        );
    }
    Ok(())
}
