//! Tests unfinished messages: an overloaded queue with a closed-form solution, percentiles over all seeds, verdicts and
//! figures.

use core::num::NonZeroU32;
use poseidon_figures::Marks;
use poseidon_lab::bound::Bounds;
use poseidon_lab::budget::{Limits, TimeEstimation};
use poseidon_lab::expression::Expression;
use poseidon_lab::figure::charts;
use poseidon_lab::judge::{Outcome, Verdict, judge};
use poseidon_lab::manifest::{Manifest, Program};
use poseidon_lab::pooled::{Draw, readings};
use poseidon_lab::reduce::Reducer;
use poseidon_lab::runner::{RunObserver, RunOptions, Shard, run_studies};
use poseidon_lab::samples::{MessageSamples, MessageStorage, Selection, SizedSlowdown, Times};
use poseidon_lab::scenario::{Label, Scenario};
use poseidon_lab::store::{FinishedRun, Store};
use poseidon_lab::study::{RunId, Study};
use poseidon_lab::summary::{PhaseSummary, RunSummary, Summary};
use poseidon_plan::Backend;
use poseidon_plan::records::Progress;
use poseidon_sim::Simulator;
use poseidon_types::Picos;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn simulator() -> Simulator {
    Simulator::with_threads(NonZeroU32::MIN)
}

/// Three senders offer three times the capacity of the last link for 10 ms. Every 10 us, each sender submits a message
/// that takes 10 us on that link. The senders' windows keep the queue busy.
fn overload(extra_keys: &str) -> String {
    format!(
        r#"
title = "an overloaded queue"
source = "none"
stop = "10 ms"
law = "full"
{extra_keys}
[laws.full]
base = "fixed"
window = "64 packets"
[topology]
kind = "star"
hosts = 4
link = {{ rate = "9.8304 Gbps", delay = "1 us" }}
[transport]
mtu = "4096 B"
header = "0 B"
[switch]
buffer = {{ policy = "per-queue", size = "100 MB" }}
[[traffic]]
name = "m"
kind = "rotating-incast"
from = "host[0-2]"
to = "host3"
every = "10 us"
size = "12288 B"
"#
    )
}

fn study(text: &str) -> Study {
    let study = Study::read("overload.toml", text, false).unwrap_or_else(|error| panic!("{error}"));
    study.check(&simulator()).unwrap_or_else(|error| panic!("{error}"));
    study
}

fn is_near(value: f64, expected: f64, tolerance: f64) -> bool {
    (value - expected).abs() <= tolerance * expected
}

#[test]
fn an_overloaded_queue_leaves_a_predictable_share_unfinished() {
    let study = study(&overload(""));
    let resolved = study.resolve(&study.cells[0], 1, &simulator()).expect("the study was checked");
    let mut reducer = Reducer::new(&resolved, false);
    let report = simulator().run(&resolved.plan, &mut reducer).expect("the study was checked");
    assert_eq!(report.dropped, 0);
    let (summary, samples) = reducer.finish(&report);
    let phase = &summary.phases[0];
    // One third of the offered load is delivered, so a message submitted at time t finishes at time 3t.
    assert!(is_near(phase.values["m.unfinished_share"], 2.0 / 3.0, 0.01), "{:?}", phase.values);
    assert_eq!(phase.values["m.messages"] + phase.values["m.unfinished"], 3_000.0);
    // In the first third of the run, the latency is 2t. Later messages do not finish in the remaining 10 ms - t. Both
    // times are uniform over 0 to 6.67 ms.
    for (name, share) in [("m.latency_p50_us", 0.5), ("m.latency_p99_us", 0.99)] {
        assert!(!phase.values.contains_key(name), "{name} is not reached");
        let missing = &phase.missing[name];
        assert!(missing.reason.starts_with("not reached (66."), "{}", missing.reason);
        let at_least = missing.at_least.expect("there is a lower bound");
        assert!(is_near(at_least, share * 6_666.7, 0.02), "{name} {at_least}");
    }
    assert_eq!(phase.missing["m.latency_p999_us"].reason, "p99.9 needs 10,000 messages, there are 3,000");
    assert!(phase.missing["m.latency_mean_us"].at_least.is_some_and(|mean| is_near(mean, 3_333.3, 0.02)));
    let selection = samples.selection("all", "m").expect("the run has messages");
    assert!(is_near(selection.unfinished_share(), 2.0 / 3.0, 0.01));
}

struct SilentObserver;

impl RunObserver for SilentObserver {
    fn on_start(&self, _: &RunId) {}
    fn on_progress(&self, _: &RunId, _: Progress, _: Picos) {}
    fn on_end(&self, _: &RunId, _: &Manifest, _: bool) {}
    fn is_interrupted(&self) -> bool {
        false
    }
}

fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("the folder can be removed");
    }
    folder
}

fn run(study: &Study, folder: &str) -> Vec<FinishedRun> {
    let program = Program { identity: "a test".to_owned(), code_hash: String::new() };
    let options = RunOptions {
        seeds: None,
        jobs: 1,
        records: None,
        shard: Shard::WHOLE,
        program,
        limits: Limits::default(),
        time_estimation: TimeEstimation::Off,
    };
    let store = Store::new(empty_folder(folder));
    run_studies(core::slice::from_ref(study), &simulator(), &store, &options, &SilentObserver)
        .expect("the study runs")
}

#[test]
fn a_drain_lets_measured_messages_finish_under_the_same_load() {
    let finished = run(&study(&overload("drain = \"25 ms\"")), "drain");
    let run = &finished[0];
    assert!(!run.manifest.interrupted, "a drained run is complete");
    let values = &run.run.summary.phases[0].values;
    assert_eq!(values["m.messages"], 3_000.0);
    assert_eq!(values["m.unfinished"], 0.0);
    // The latency is 2t, up to 20 ms, because traffic continues during the drain.
    assert!(is_near(values["m.latency_p50_us"], 10_000.0, 0.01), "{values:?}");
    assert!(is_near(values["m.latency_p99_us"], 19_800.0, 0.01), "{values:?}");
    // The run ends when the last measured message finishes at 30 ms, before the end of the drain at 35 ms.
    let ended =
        run.manifest.counters.number("ended_ps").expect("the counters have the end of the run") as f64 / 1e9;
    assert!(is_near(ended, 30.0, 0.02), "{ended} ms");
    let MessageStorage::Loaded(samples) = run.run.messages.load().expect("message times are stored") else {
        panic!("the run has no message times");
    };
    assert_eq!(samples.selection("all", "m").expect("the run has messages").sizes.len(), 3_000);
}

#[test]
fn dependent_messages_count_from_their_start() {
    // Each message waits for the previous message's ACK. A message that has not started does not count as unfinished.
    let text = overload("")
        .replace("rotating-incast", "closed-loop")
        .replace("every = \"10 us\"", "messages = 1000");
    let study = study(&text);
    let resolved = study.resolve(&study.cells[0], 1, &simulator()).expect("the study was checked");
    let mut reducer = Reducer::new(&resolved, false);
    let report = simulator().run(&resolved.plan, &mut reducer).expect("the study was checked");
    let phase = reducer.summary(&report).phases.remove(0);
    // Each sender has one message in flight when the run ends.
    assert_eq!(phase.values["m.unfinished"], 3.0, "{:?}", phase.values);
    assert!(phase.values["m.messages"] > 900.0 && phase.values["m.messages"] < 3_000.0);
}

// The following tests judge and draw hand-made runs.

fn times(finished: &[f32], unfinished: &[f32]) -> [Times; 3] {
    [(); 3].map(|()| Times::new(finished.to_vec(), unfinished.to_vec()))
}

/// Returns a run with these times for its finished and unfinished messages.
fn run_with_messages(law: &str, seed: u64, finished: &[f32], unfinished: &[f32]) -> RunSummary {
    let sized =
        |is_finished: bool| move |time: &f32| SizedSlowdown { bytes: 1_000, slowdown: *time, is_finished };
    let sizes = finished.iter().map(sized(true)).chain(unfinished.iter().map(sized(false))).collect();
    let selection = Selection::new("all", "m", times(finished, unfinished), sizes);
    let mut phase = PhaseSummary { name: "all".into(), ends_us: 1.0, ..PhaseSummary::default() };
    phase.values.insert("m.messages".into(), finished.len() as f64);
    phase.values.insert("m.unfinished".into(), unfinished.len() as f64);
    RunSummary {
        labels: [Label { sweep: "law".into(), value: law.into() }].into(),
        seed,
        summary: Summary { phases: vec![phase], ..Summary::default() }.into(),
        messages: MessageStorage::Loaded(Arc::new(MessageSamples { selections: vec![selection] })),
    }
}

fn scenario(text: &str) -> Scenario {
    toml::from_str(&format!("title = \"t\"\nsource = \"s\"\n{text}\n"))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn verdict(keys: &str, runs: &[RunSummary]) -> Verdict {
    let scenario = scenario(&format!("[[claim]]\nsays = \"it\"\npaper = \"p\"\n{keys}"));
    judge(&scenario.claim[0], runs).unwrap_or_else(|error| panic!("{keys}: {error}"))
}

/// Returns a run whose finished messages took 1 to `count` us, and whose unfinished messages have run for 500 us.
fn run_with_times_up_to(law: &str, seed: u64, count: u16, unfinished: usize) -> RunSummary {
    let finished: Vec<f32> = (1..=count).map(f32::from).collect();
    run_with_messages(law, seed, &finished, &vec![500.0; unfinished])
}

#[test]
fn a_lower_bound_decides_a_claim_or_leaves_it_not_comparable() {
    use Outcome::{Fails, Holds, NotComparable};
    let runs = [run_with_times_up_to("slow", 1, 970, 30), run_with_times_up_to("fast", 1, 1_000, 0)];
    let slow_verdict = |condition: &str| {
        verdict(&format!("metric = \"m.latency_p99_us\"\nwhere = {{ law = \"slow\" }}\n{condition}"), &runs)
    };
    // Of 1,000 messages, 970 took up to 970 us, and 30 did not finish within 500 us. So p99 is at least 960 us.
    for (condition, outcome) in [
        ("above = 900", Holds),
        ("above = 2000", NotComparable),
        ("below = 900", Fails),
        ("below = 2000", NotComparable),
        ("within = [100, 900]", Fails),
        ("within = [900, 1100]", NotComparable),
    ] {
        let verdict = slow_verdict(condition);
        assert_eq!(verdict.outcome, outcome, "{condition}");
        let cell = &verdict.cells[0];
        assert_eq!((cell.measured, cell.unfinished_share), (None, Some(0.03)));
        assert_eq!(cell.reason.as_deref(), Some("not reached (3.0 % unfinished), above 960"));
        let json = serde_json::to_value(cell).expect("a cell is valid JSON");
        assert!(json["ours"].is_null() && json["reason"].is_string(), "{json}");
    }
    let ratio = |form: &str| {
        verdict(
            &format!("metric = \"m.latency_p99_us\"\nwhere = {{ law = \"fast\" }}\nagainst = {{ law = \"slow\" }}\n{form}"),
            &runs,
        )
        .outcome
    };
    // 990 us divided by more than 960 us is below 1.04. It is unknown whether the ratio is below one.
    assert_eq!(ratio("below = 1.04"), Holds);
    assert_eq!(ratio("below = 1.0"), NotComparable);
    assert_eq!(ratio("above = 1.04"), Fails);
    // The median belongs to a finished message.
    let median =
        verdict("metric = \"m.latency_p50_us\"\nwhere = { law = \"slow\" }\nwithin = [499, 516]", &runs);
    assert_eq!((median.outcome, median.cells[0].unfinished_share), (Holds, Some(0.03)));
}

#[test]
fn percentiles_pool_the_messages_of_all_seeds() {
    // One seed with 971 messages has too few for p99. Two seeds together have enough messages.
    let seed = |number: u64| {
        let finished: Vec<f32> = (0..971_u16).map(|n| f32::from(2 * n) + (number - 1) as f32).collect();
        run_with_messages("a", number, &finished, &[])
    };
    let (one_seed, two_seeds) = ([seed(1)], [seed(1), seed(2)]);
    let keys = "metric = \"m.latency_p99_us\"\nabove = 0";
    let single = verdict(keys, &one_seed);
    assert_eq!(single.outcome, Outcome::NotComparable);
    assert_eq!(single.cells[0].reason.as_deref(), Some("p99 needs 1,000 messages, there are 971"));
    let pooled = verdict(keys, &two_seeds);
    let cell = &pooled.cells[0];
    assert_eq!((pooled.outcome, cell.passed, cell.judged), (Outcome::Holds, 1, 1));
    // The values are 0 to 1941, and p99 has rank 1923.
    assert_eq!(cell.measured.expect("the value is known").mean, 1_922.0);
    assert!(
        cell.measured
            .expect("the value is known")
            .interval
            .is_some_and(|[low, high]| low <= 1_922.0 && high >= 1_922.0)
    );
}

#[test]
fn the_interval_reflects_the_spread_over_seeds() {
    let seed = |number: u64, factor: f32| {
        let finished: Vec<f32> = (1..=2_000_u16).map(|n| f32::from(n) * factor).collect();
        run_with_messages("a", number, &finished, &[])
    };
    let equal: Vec<RunSummary> = (1..=5).map(|number| seed(number, 1.0)).collect();
    let different: Vec<RunSummary> = (1..=5).map(|number| seed(number, number as f32)).collect();
    let measure = |runs: &[RunSummary]| {
        verdict("metric = \"m.latency_p99_us\"\nabove = 0", runs).cells[0]
            .measured
            .expect("the value is known")
    };
    let (equal, different) = (measure(&equal), measure(&different));
    assert_eq!((equal.mean, equal.interval, equal.spread), (1_980.0, Some([1_980.0; 2]), Some([1_980.0; 2])));
    assert_eq!(different.spread, Some([1_980.0, 9_900.0]));
    let [low, high] = different.interval.expect("five seeds give an interval");
    assert!(low < different.mean && different.mean < high && high <= 9_900.0, "{different:?}");
}

#[test]
fn resamples_draw_the_same_seeds_in_every_cell() {
    let runs = [
        run_with_times_up_to("a", 1, 1_000, 0),
        run_with_times_up_to("a", 2, 2_000, 0),
        run_with_times_up_to("b", 1, 1_000, 0),
        run_with_times_up_to("b", 2, 2_000, 0),
    ];
    let expression = Expression::parse("m.latency_p50_us").expect("the expression is valid");
    let by_cell = readings(&expression, &runs);
    let [a, b] = by_cell.values().collect::<Vec<_>>()[..] else { panic!("there are not two cells") };
    assert_eq!(a.draws, b.draws);
    assert_eq!(a.draws[&Draw::Pool], Bounds::exact(750.0));
}

#[test]
fn figures_mark_and_explain_unreached_values() {
    let runs = [
        run_with_times_up_to("slow", 1, 970, 30),
        run_with_times_up_to("fast", 1, 1_000, 0),
        run_with_times_up_to("few", 1, 500, 0),
    ];
    let scenario = scenario(
        "[[figure]]\ntitle = \"tail\"\nkind = \"bars\"\nmetric = \"m.latency_p99_us\"\nby = \"law\"\n\
         [[figure]]\ntitle = \"sizes\"\nkind = \"series\"\nmetric = \"m.slowdown_p99_by_size\"\nby = \"law\"\n",
    );
    let bars = &charts(&scenario.figure[0], &runs).expect("the figure is valid")[0];
    let Marks::Bars { series, .. } = &bars.marks else { panic!("the marks are not bars") };
    let value = |name: &str| {
        series.iter().find(|bars| bars.name == name).map(|bars| bars.values[0]).expect("the figure is valid")
    };
    assert_eq!((value("slow"), value("fast")), (f64::INFINITY, 990.0));
    assert!(value("few").is_nan());
    let notes = bars.notes.join("\n");
    assert!(notes.contains("slow: not reached (3.0 % unfinished)"), "{notes}");
    assert!(notes.contains("few: p99 needs 1,000 messages, there are 500"), "{notes}");
    let sizes = &charts(&scenario.figure[1], &runs).expect("the figure is valid")[0];
    let Marks::Lines(lines) = &sizes.marks else { panic!("the marks are not lines") };
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    assert_eq!(names, ["slow", "fast"]);
    assert_eq!(lines[0].points, [(1_000.0, f64::INFINITY)]);
    let notes = sizes.notes.join("\n");
    assert!(notes.contains("few: p99 needs 1,000 messages, there are 500"), "{notes}");
    assert!(notes.contains("slow: not reached"), "{notes}");
}

#[test]
fn series_notes_name_the_seed_and_panel_titles_differ() {
    let mut runs = [run_with_times_up_to("a", 1, 100, 0), run_with_times_up_to("a", 2, 100, 0)];
    let series = &mut Arc::make_mut(&mut runs[0].summary).series;
    series.insert("m.x".into(), vec![(0.0, 1.0)]);
    series.insert("m.y".into(), vec![(0.0, 1.0)]);
    let scenario = scenario(
        "[[figure]]\ntitle = \"over time\"\nkind = \"series\"\nmetric = [\"m.x\", \"m.y\"]\nby = \"law\"\n\
         [[figure]]\ntitle = \"median\"\nkind = \"bars\"\nmetric = \"m.latency_p50_us\"\nby = \"law\"\n",
    );
    let series = charts(&scenario.figure[0], &runs).expect("the figure is valid");
    assert_eq!(series[0].notes, ["the first of 2 seeds"]);
    assert_ne!(series[0].title, series[1].title);
    assert_eq!(charts(&scenario.figure[1], &runs).expect("the figure is valid")[0].notes, ["2 seeds"]);
}

#[test]
fn a_chart_names_the_sweeps_that_it_averages() {
    let runs = [run_with_times_up_to("a", 1, 100, 0), run_with_times_up_to("b", 1, 100, 0)];
    let notes = |keys: &str| {
        let scenario = scenario(&format!(
            "[[figure]]\ntitle = \"median\"\nkind = \"bars\"\nmetric = \"m.latency_p50_us\"\n{keys}\n"
        ));
        charts(&scenario.figure[0], &runs).expect("the figure is valid")[0].notes.clone()
    };
    assert_eq!(notes(""), ["one seed, mean over law"]);
    assert_eq!(notes("by = \"law\""), ["one seed"]);
    assert_eq!(notes("where = { law = \"b\" }"), ["one seed"]);
}

#[test]
fn an_empty_chart_says_why() {
    let mut runs = [run_with_times_up_to("a", 1, 100, 0)];
    Arc::make_mut(&mut runs[0].summary).series.insert("m.x".into(), vec![(0.0, 1.0)]);
    let scenario = scenario(
        "[[figure]]\ntitle = \"over time\"\nkind = \"series\"\nmetric = [\"m.x\", \"m.z\"]\nby = \"law\"\n\
         [[figure]]\ntitle = \"other cells\"\nkind = \"series\"\nmetric = \"m.x\"\nby = \"law\"\nwhere = { law = \"b\" }\n",
    );
    let notes = |figure: usize, runs: &[RunSummary]| -> Vec<String> {
        let charts = charts(&scenario.figure[figure], runs).expect("the figure is valid");
        charts.into_iter().map(|chart| chart.notes.join("; ")).collect()
    };
    assert_eq!(notes(0, &runs), ["one seed", "one seed; no run has m.z"]);
    assert_eq!(notes(1, &runs), ["one seed; no run belongs to the cells that the figure selects"]);
    assert_eq!(notes(1, &[]), ["no runs"]);
    runs[0].seed = 2;
    assert_eq!(notes(0, &runs)[0], "one seed; the figure shows seed 1, which was not run");
}
