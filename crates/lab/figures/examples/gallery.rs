//! Draws one figure of each kind from made-up numbers, for visual inspection after changes to this crate.
//!
//! ```text
//! cargo run -p poseidon-figures --example gallery -- DIRECTORY
//! ```

use std::path::Path;

use poseidon_figures::{Axis, BarSeries, Chart, LineSeries, Marks, Scale, render_csv, render_svg};
use poseidon_plan::random::RandomKey;

const LAWS: [&str; 3] = ["Poseidon", "HPCC", "Swift"];

fn main() -> std::io::Result<()> {
    let Some(directory) = std::env::args_os().nth(1) else {
        eprintln!("usage: gallery DIRECTORY");
        std::process::exit(2);
    };
    let directory = Path::new(&directory);
    std::fs::create_dir_all(directory)?;
    let figures: [(&str, Vec<Chart>); 11] = [
        ("multi_hop", multi_hop()),
        ("many_bars", many_bars()),
        ("log_bars", log_bars()),
        ("staggered_start", staggered_start()),
        ("latency", latency()),
        ("start_finish", start_finish()),
        ("slowdown", slowdown()),
        ("load", load()),
        ("phase", phase()),
        ("many_series", many_series()),
        (
            "no_data",
            vec![chart("No data was recorded", axis("time (µs)"), axis("queue (kB)"), Marks::Lines(vec![]))],
        ),
    ];
    for (name, charts) in figures {
        std::fs::write(directory.join(name).with_extension("svg"), render_svg(&charts))?;
        std::fs::write(directory.join(name).with_extension("csv"), render_csv(&charts))?;
    }
    Ok(())
}

fn axis(label: &str) -> Axis {
    Axis { label: label.to_owned(), scale: Scale::Linear, from: None, to: None }
}

fn log_axis(label: &str) -> Axis {
    Axis { scale: Scale::Log, ..axis(label) }
}

fn chart(title: &str, x: Axis, y: Axis, marks: Marks) -> Chart {
    Chart { title: title.to_owned(), x, y, marks, notes: Vec::new() }
}

fn line(name: &str, points: Vec<(f64, f64)>) -> LineSeries {
    LineSeries { name: name.to_owned(), points, half_widths: vec![], is_reference: false }
}

fn reference(name: &str, points: Vec<(f64, f64)>) -> LineSeries {
    LineSeries { is_reference: true, ..line(name, points) }
}

fn bars(name: &str, values: &[f64], half_widths: &[f64]) -> BarSeries {
    BarSeries { name: name.to_owned(), values: values.to_vec(), half_widths: half_widths.to_vec() }
}

/// Returns a reproducible random number between -1 and 1.
fn noise(name: &str, counter: u64) -> f64 {
    2.0 * RandomKey::new(1, name).nth(counter).uniform() - 1.0
}

fn range_f64(count: u32) -> impl Iterator<Item = f64> {
    (0..count).map(f64::from)
}

fn multi_hop() -> Vec<Chart> {
    let groups = |letter: &str, counts: [u32; 4]| counts.map(|count| format!("{letter} = {count}")).to_vec();
    let by_hops = Marks::Bars {
        groups: groups("M", [2, 4, 6, 8]),
        series: vec![
            bars(LAWS[0], &[49.8, 48.9, 48.1, 47.4], &[0.4, 0.6, 0.9, 1.4]),
            bars(LAWS[1], &[33.1, 19.8, 14.2, 11.0], &[1.1, 0.9, 0.8, 0.7]),
            bars(LAWS[2], &[21.4, 6.32, 0.871, 0.0134], &[2.0, 1.1, 0.3, 0.01]),
        ],
    };
    let by_flows = Marks::Bars {
        groups: groups("N", [1, 4, 16, 64]),
        series: vec![
            bars(LAWS[0], &[50.0, 20.0, 5.88, 1.54], &[]),
            bars(LAWS[1], &[33.3, 12.1, 3.02, 0.711], &[]),
            bars(LAWS[2], &[24.9, 7.7, 1.1, 0.0], &[]),
        ],
    };
    let rate = || axis("rate of the long flow (Gbps)");
    vec![
        chart("Flow over M bottlenecks, one cross flow at each", axis("bottlenecks"), rate(), by_hops),
        chart("Flow over two bottlenecks, N cross flows", axis("cross flows"), rate(), by_flows),
    ]
}

fn many_bars() -> Vec<Chart> {
    let workloads = [
        "web search",
        "hadoop",
        "cache follower",
        "alltoall",
        "ring allreduce",
        "storage reads",
        "rpc",
        "video",
    ];
    let series = |(i, name): (usize, &&str)| {
        let values: Vec<f64> = (0..8).map(|j| 20_000.0 * (2.0 + i as f64 + noise(name, j))).collect();
        bars(name, &values, &values.iter().map(|value| value / 15.0).collect::<Vec<_>>())
    };
    let names = ["Poseidon", "HPCC", "Swift", "DCTCP", "PowerTCP"];
    let marks = Marks::Bars {
        groups: workloads.map(str::to_owned).to_vec(),
        series: names.iter().enumerate().map(series).collect(),
    };
    vec![chart("Queue at the 99th percentile by workload", axis("workload"), axis("queue (bytes)"), marks)]
}

fn log_bars() -> Vec<Chart> {
    let marks = Marks::Bars {
        groups: ["none", "marks only", "per-hop delay", "full INT"].map(str::to_owned).to_vec(),
        series: vec![
            bars("drops", &[18_200.0, 310.0, 0.0, 12.0], &[2_000.0, 90.0, 0.0, 11.0]),
            bars("pauses", &[912.0, 1_430_000.0, 44.0, f64::NAN], &[]),
        ],
    };
    let change = Marks::Bars {
        groups: (1..=6).map(|i| format!("{}", 10 * i)).collect(),
        series: vec![bars("mean", &[-1.2, 3.4, 8.8, -4.5, 0.0, 2.2], &[1.0, 1.0, 2.0, 2.0, 0.3, 0.2])],
    };
    vec![
        chart("Drops and pauses by telemetry", axis("telemetry"), log_axis("events"), marks),
        chart(
            "Change in completion time",
            axis("share of ToRs with telemetry (%)"),
            axis("change (%)"),
            change,
        ),
    ]
}

fn staggered_start() -> Vec<Chart> {
    let starts = [0.0, 200.0, 400.0, 600.0];
    let active_flows = |time: f64| starts.iter().filter(|&&start| start <= time).count();
    let rate = |flow: usize, time: f64| {
        let last = active_flows(time) - 1;
        let fair_share = 100.0 / (last + 1) as f64;
        let before = if flow == last { 0.0 } else { 100.0 / last as f64 };
        fair_share + (before - fair_share) * libm::exp(-(time - starts[last]) / 30.0)
    };
    let flows = (0..4).map(|flow| {
        let name = format!("flow {}", flow + 1);
        let point = |time: f64| {
            let noise = 2.5 * noise(&name, time.to_bits());
            (time, if time < starts[flow] { f64::NAN } else { (rate(flow, time) + noise).max(0.0) })
        };
        let points = range_f64(2000).map(|i| point(i * 0.5)).collect();
        line(&name, points)
    });
    let queue = |time: f64| {
        let burst = starts.iter().skip(1).filter(|&&start| start <= time);
        let burst: f64 = burst.map(|start| 60.0 * libm::exp(-(time - start) / 12.0)).sum();
        (time, 4.0 + burst + 3.0 * noise("queue", time.to_bits()).abs())
    };
    let queue = line("queue", range_f64(2000).map(|i| queue(i * 0.5)).collect());
    let fair_share = range_f64(1000).map(|time| (time, 100.0 / active_flows(time) as f64));
    let fair_share = reference("fair share", fair_share.collect());
    vec![
        chart(
            "Four flows with staggered starts",
            axis("time (µs)"),
            axis("rate (Gbps)"),
            Marks::Lines(flows.chain([fair_share]).collect()),
        ),
        chart("Queue at the bottleneck", axis("time (µs)"), axis("queue (kB)"), Marks::Lines(vec![queue])),
    ]
}

fn latency() -> Vec<Chart> {
    let laws = LAWS.iter().zip([(8.0, 1.0), (10.0, 2.2), (14.0, 3.5)]);
    let lines = laws.map(|(law, (base, spread))| {
        let mut samples: Vec<f64> = (0..5000)
            .map(|i| base + libm::pow(RandomKey::new(3, law).nth(i).exponential(), 1.7) * spread)
            .collect();
        samples.sort_by(f64::total_cmp);
        let count = samples.len() as f64;
        line(
            law,
            samples.into_iter().enumerate().map(|(i, sample)| (sample, (i as f64 + 1.0) / count)).collect(),
        )
    });
    let y = Axis { scale: Scale::Tail, ..axis("share of operations") };
    vec![chart("Latency of 4 KiB reads", log_axis("latency (µs)"), y, Marks::Lines(lines.collect()))]
}

fn start_finish() -> Vec<Chart> {
    let flows = |law: &str, spread: f64| {
        let point =
            |i: f64| (20.0 * i, 1370.0 + spread * (noise(law, i.to_bits()).abs() + 0.08 * (15.0 - i)));
        line(law, range_f64(16).map(point).collect())
    };
    let ideal = reference("simultaneous finish", vec![(0.0, 1370.0), (300.0, 1370.0)]);
    let lines = vec![flows(LAWS[0], 20.0), flows(LAWS[1], 250.0), flows(LAWS[2], 500.0), ideal];
    vec![chart("Incast of sixteen 1 MB flows", axis("start (µs)"), axis("finish (µs)"), Marks::Points(lines))]
}

fn slowdown() -> Vec<Chart> {
    let sizes = [3e2, 1e3, 2e3, 5e3, 1e4, 2.2e4, 5e4, 1e5, 3e5, 1e6, 3e6, 1e7, 3e7];
    let percentile = |name: &str, law: &str, factor: f64| {
        let point = |(i, &size): (usize, &f64)| {
            let shape = 1.0 + factor * libm::pow(size / 3e2, 0.16) * (1.0 + 0.1 * noise(law, i as u64));
            (size, shape)
        };
        line(name, sizes.iter().enumerate().map(point).collect())
    };
    let lines = |law: &str, factor: f64| {
        Marks::Lines(vec![
            percentile("p50", law, 0.2 * factor),
            percentile("p99", law, 1.5 * factor),
            percentile("p99.9", law, 6.0 * factor),
        ])
    };
    let panel = |law: &str, factor| {
        let title = format!("{law}, web search at 60 % load");
        chart(&title, log_axis("flow size (bytes)"), log_axis("slowdown"), lines(law, factor))
    };
    vec![panel(LAWS[0], 1.0), panel(LAWS[1], 2.1)]
}

fn load() -> Vec<Chart> {
    let loads = [20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0];
    let law = |(i, law): (usize, &&str)| {
        let mean = |load: &f64| (1.3 + 0.5 * i as f64) / (1.0 - load / 100.0 * (0.86 + 0.03 * i as f64));
        let half = loads.iter().map(|load| 0.03 * mean(load) + load * load / 9000.0).collect();
        LineSeries { half_widths: half, ..line(law, loads.iter().map(|load| (*load, mean(load))).collect()) }
    };
    let lines = LAWS.iter().enumerate().map(law).collect();
    vec![chart(
        "Mean slowdown by load, 95 % interval of 10 runs",
        axis("load (%)"),
        axis("mean slowdown"),
        Marks::Lines(lines),
    )]
}

fn phase() -> Vec<Chart> {
    let spiral = |name: &str, from: (f64, f64), angular_speed: f64| {
        let point = |i: f64| {
            let (radius, angle) = (libm::exp(-i / 60.0), angular_speed * i / 20.0);
            let (dx, dy) = (from.0 - 60.0, from.1 - 20.0);
            let (cos, sin) = (libm::cos(angle) * radius, libm::sin(angle) * radius);
            (60.0 + dx * cos - dy * sin * 2.0, (20.0 + dx * sin / 2.0 + dy * cos).max(0.0))
        };
        line(name, range_f64(120).map(point).collect())
    };
    let lines = vec![
        spiral("from full windows", (110.0, 60.0), 0.3),
        spiral("from idle", (5.0, 0.0), 0.5),
        reference("one bandwidth-delay product", vec![(60.0, 0.0), (60.0, 60.0)]),
    ];
    vec![chart(
        "Windows and queue converge to a fixed point",
        axis("sum of windows (kB)"),
        axis("queue (kB)"),
        Marks::Points(lines),
    )]
}

fn many_series() -> Vec<Chart> {
    let names = [
        "Poseidon",
        "HPCC",
        "PowerTCP",
        "Swift",
        "DCTCP",
        "TIMELY",
        "DCQCN",
        "Swift with RPM",
        "DCQCN with RPM",
    ];
    let law = |(i, name): (usize, &&str)| {
        let point = |hosts: f64| (hosts, 1.0 - 0.03 * i as f64 * libm::log(1.0 + hosts) / 3.0);
        line(name, (0..9).map(|exponent| point(libm::exp2(f64::from(exponent)))).collect())
    };
    let lines = names.iter().enumerate().map(law).collect();
    let y = Axis { from: Some(0.6), to: Some(1.0), ..axis("Jain's index") };
    vec![chart(
        "Fairness by number of senders, after 100 RTTs of the longest path",
        log_axis("senders"),
        y,
        Marks::Lines(lines),
    )]
}
