//! Messages that never finish count: closed forms of an overloaded queue, percentiles over all seeds, and what verdicts and figures say.

use core::num::NonZeroU32;
use poseidon_lab::bound::Bounds;
use poseidon_lab::draw::Marks;
use poseidon_lab::expression::Expression;
use poseidon_lab::figure::charts;
use poseidon_lab::judge::{Outcome, Ran, Verdict, judge};
use poseidon_lab::pooled::{Draw, readings};
use poseidon_lab::reduce::Reducer;
use poseidon_lab::samples::{MessageSamples, Messages, Selection, SizedSlowdown, Times};
use poseidon_lab::scenario::{Label, Scenario};
use poseidon_lab::store::{Manifest, Store};
use poseidon_lab::study::{self, Finished, Options, RunName, Study, Watch};
use poseidon_lab::summary::{PhaseSummary, Summary};
use poseidon_plan::Backend;
use poseidon_plan::records::Progress;
use poseidon_sim::Simulator;
use poseidon_types::Picos;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn simulator() -> Simulator {
    Simulator::with_threads(NonZeroU32::MIN)
}

/// Three senders that together hand over three times what the last link carries, for 10 ms: each a message of 10 us of that link every
/// 10 us, in order, through windows that keep the queue busy.
fn overload(head: &str) -> String {
    format!(
        r#"
title = "an overloaded queue"
source = "none"
stop = "10 ms"
law = "full"
{head}
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

fn near(found: f64, expected: f64, within: f64) -> bool {
    (found - expected).abs() <= within * expected
}

#[test]
fn an_overloaded_queue_leaves_a_known_share_unfinished() {
    let study = study(&overload(""));
    let resolved = study.resolve(&study.cells[0], 1, &simulator()).expect("it was checked");
    let mut reducer = Reducer::new(&resolved, false);
    let report = simulator().run(&resolved.plan, &mut reducer).expect("it was checked");
    assert_eq!(report.dropped, 0);
    let (summary, samples) = reducer.finish(&report);
    let phase = &summary.phases[0];
    // A third of what is handed over gets through, so a message handed over at s is finished at 3 s.
    assert!(near(phase.values["m.unfinished_share"], 2.0 / 3.0, 0.01), "{:?}", phase.values);
    assert_eq!(phase.values["m.messages"] + phase.values["m.unfinished"], 3_000.0);
    // The time that messages had or took, 2 s up to a third of the run and 10 ms - s after that, is spread evenly over 0 to 6.67 ms.
    for (name, share) in [("m.latency_p50_us", 0.5), ("m.latency_p99_us", 0.99)] {
        assert!(!phase.values.contains_key(name), "{name} does not exist");
        let missing = &phase.missing[name];
        assert!(missing.reason.starts_with("not reached (66."), "{}", missing.reason);
        let at_least = missing.at_least.expect("a bound");
        assert!(near(at_least, share * 6_666.7, 0.02), "{name} {at_least}");
    }
    assert_eq!(phase.missing["m.latency_p999_us"].reason, "p99.9 needs 10,000 messages, there are 3,000");
    assert!(phase.missing["m.latency_mean_us"].at_least.is_some_and(|mean| near(mean, 3_333.3, 0.02)));
    let selection = samples.selection("all", "m").expect("the messages of the run");
    assert!(near(selection.unfinished_share(), 2.0 / 3.0, 0.01));
}

struct Silent;

impl Watch for Silent {
    fn begins(&self, _: &RunName) {}
    fn progress(&self, _: &RunName, _: Progress, _: Picos) {}
    fn ended(&self, _: &RunName, _: &Manifest, _: bool) {}
    fn is_interrupted(&self) -> bool {
        false
    }
}

fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("removes");
    }
    folder
}

fn run(study: &Study, folder: &str) -> Vec<Finished> {
    let options = Options {
        seeds: None,
        jobs: 1,
        records: None,
        shard: (0, 1),
        identity: "a test".to_owned(),
        code_hash: String::new(),
    };
    let store = Store::new(empty_folder(folder));
    study::run(core::slice::from_ref(study), &simulator(), &store, &options, &Silent).expect("runs")
}

#[test]
fn a_drain_lets_measured_messages_finish_under_the_same_load() {
    let finished = run(&study(&overload("drain = \"25 ms\"")), "drain");
    let run = &finished[0];
    assert!(!run.manifest.interrupted, "a run that has drained is whole");
    let values = &run.ran.summary.phases[0].values;
    assert_eq!(values["m.messages"], 3_000.0);
    assert_eq!(values["m.unfinished"], 0.0);
    // All of them wait for 2 s: up to 20 ms, which they could not without the traffic that goes on.
    assert!(near(values["m.latency_p50_us"], 10_000.0, 0.01), "{values:?}");
    assert!(near(values["m.latency_p99_us"], 19_800.0, 0.01), "{values:?}");
    // It ends when the last of them has finished, at 30 ms, and not with the drain at 35 ms.
    let ended = run.manifest.account["ended_ps"].as_u64().expect("a time") as f64 / 1e9;
    assert!(near(ended, 30.0, 0.02), "{ended} ms");
    let Messages::Loaded(samples) = run.ran.messages.load().expect("kept beside the summary") else {
        panic!("there are messages");
    };
    assert_eq!(samples.selection("all", "m").expect("them").sizes.len(), 3_000);
}

#[test]
fn messages_that_wait_for_others_count_from_when_they_begin() {
    // Each waits for the one before it to be acknowledged; what has not begun is not unfinished.
    let text = overload("")
        .replace("rotating-incast", "closed-loop")
        .replace("every = \"10 us\"", "messages = 1000");
    let study = study(&text);
    let resolved = study.resolve(&study.cells[0], 1, &simulator()).expect("it was checked");
    let mut reducer = Reducer::new(&resolved, false);
    let report = simulator().run(&resolved.plan, &mut reducer).expect("it was checked");
    let phase = reducer.summary(&report).phases.remove(0);
    // One message of each sender is on its way when the run ends.
    assert_eq!(phase.values["m.unfinished"], 3.0, "{:?}", phase.values);
    assert!(phase.values["m.messages"] > 900.0 && phase.values["m.messages"] < 3_000.0);
}

// What follows is judged and drawn from runs made by hand.

fn times(finished: &[f32], unfinished: &[f32]) -> [Times; 3] {
    [(); 3].map(|()| Times::new(finished.to_vec(), unfinished.to_vec()))
}

/// A run whose messages took these times, the others having had those.
fn ran(law: &str, seed: u64, finished: &[f32], unfinished: &[f32]) -> Ran {
    let sized =
        |is_finished: bool| move |time: &f32| SizedSlowdown { bytes: 1_000, slowdown: *time, is_finished };
    let sizes = finished.iter().map(sized(true)).chain(unfinished.iter().map(sized(false))).collect();
    let selection = Selection::new("all", "m", times(finished, unfinished), sizes);
    let mut phase = PhaseSummary { name: "all".into(), ends_us: 1.0, ..PhaseSummary::default() };
    phase.values.insert("m.messages".into(), finished.len() as f64);
    phase.values.insert("m.unfinished".into(), unfinished.len() as f64);
    Ran {
        labels: vec![Label { sweep: "law".into(), value: law.into() }],
        seed,
        summary: Summary { phases: vec![phase], ..Summary::default() },
        messages: Messages::Loaded(Arc::new(MessageSamples { selections: vec![selection] })),
    }
}

fn scenario(text: &str) -> Scenario {
    toml::from_str(&format!("title = \"t\"\nsource = \"s\"\n{text}\n"))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn verdict(keys: &str, runs: &[Ran]) -> Verdict {
    let scenario = scenario(&format!("[[claim]]\nsays = \"it\"\npaper = \"p\"\n{keys}"));
    judge(&scenario.claim[0], runs).unwrap_or_else(|why| panic!("{keys}: {why}"))
}

/// From 1 to this, and so many that had 500.
fn up_to(law: &str, seed: u64, count: u16, unfinished: usize) -> Ran {
    let finished: Vec<f32> = (1..=count).map(f32::from).collect();
    ran(law, seed, &finished, &vec![500.0; unfinished])
}

#[test]
fn a_claim_on_a_tail_that_was_not_reached_is_not_comparable_unless_the_bound_decides_it() {
    use Outcome::{Fails, Holds, NotComparable};
    let runs = [up_to("slow", 1, 970, 30), up_to("fast", 1, 1_000, 0)];
    let own = |condition: &str| {
        verdict(&format!("metric = \"m.latency_p99_us\"\nwhere = {{ law = \"slow\" }}\n{condition}"), &runs)
    };
    // The 990th of 1,000 is one of those that had 500 us, among the 970 that took up to 970 us: at least 960 us.
    for (condition, outcome) in [
        ("above = 900", Holds),
        ("above = 2000", NotComparable),
        ("below = 900", Fails),
        ("below = 2000", NotComparable),
        ("within = [100, 900]", Fails),
        ("within = [900, 1100]", NotComparable),
    ] {
        let verdict = own(condition);
        assert_eq!(verdict.outcome, outcome, "{condition}");
        let cell = &verdict.cells[0];
        assert_eq!((cell.ours, cell.unfinished), (None, Some(0.03)));
        assert_eq!(cell.reason.as_deref(), Some("not reached (3.0 % unfinished), above 960"));
        let json = serde_json::to_value(cell).expect("JSON");
        assert!(json["ours"].is_null() && json["reason"].is_string(), "{json}");
    }
    let ratio = |form: &str| {
        verdict(
            &format!("metric = \"m.latency_p99_us\"\nwhere = {{ law = \"fast\" }}\nagainst = {{ law = \"slow\" }}\n{form}"),
            &runs,
        )
        .outcome
    };
    // 990 us against more than 960 us: below 1.04 for certain, below one perhaps.
    assert_eq!(ratio("below = 1.04"), Holds);
    assert_eq!(ratio("below = 1.0"), NotComparable);
    assert_eq!(ratio("above = 1.04"), Fails);
    // The median is among those that finished.
    let median =
        verdict("metric = \"m.latency_p50_us\"\nwhere = { law = \"slow\" }\nwithin = [499, 516]", &runs);
    assert_eq!((median.outcome, median.cells[0].unfinished), (Holds, Some(0.03)));
}

#[test]
fn a_percentile_is_taken_over_the_messages_of_all_seeds_and_judged_once() {
    // Two seeds of 971 messages: neither has a p99, both together have.
    let seed = |number: u64| {
        let finished: Vec<f32> = (0..971_u16).map(|n| f32::from(2 * n) + (number - 1) as f32).collect();
        ran("a", number, &finished, &[])
    };
    let (one, both) = ([seed(1)], [seed(1), seed(2)]);
    let keys = "metric = \"m.latency_p99_us\"\nabove = 0";
    let alone = verdict(keys, &one);
    assert_eq!(alone.outcome, Outcome::NotComparable);
    assert_eq!(alone.cells[0].reason.as_deref(), Some("p99 needs 1,000 messages, there are 971"));
    let together = verdict(keys, &both);
    let cell = &together.cells[0];
    assert_eq!((together.outcome, cell.passed, cell.of), (Outcome::Holds, 1, 1));
    // Of 0 to 1941, the value with the rank 1923.
    assert_eq!(cell.ours.expect("known").mean, 1_922.0);
    assert!(cell.ours.expect("known").interval.is_some_and(|[low, high]| low <= 1_922.0 && high >= 1_922.0));
}

#[test]
fn the_interval_over_seeds_is_wide_where_seeds_differ() {
    let seed = |number: u64, by: f32| {
        let finished: Vec<f32> = (1..=2_000_u16).map(|n| f32::from(n) * by).collect();
        ran("a", number, &finished, &[])
    };
    let alike: Vec<Ran> = (1..=5).map(|number| seed(number, 1.0)).collect();
    let apart: Vec<Ran> = (1..=5).map(|number| seed(number, number as f32)).collect();
    let ours = |runs: &[Ran]| {
        verdict("metric = \"m.latency_p99_us\"\nabove = 0", runs).cells[0].ours.expect("known")
    };
    let (alike, apart) = (ours(&alike), ours(&apart));
    assert_eq!((alike.mean, alike.interval, alike.spread), (1_980.0, Some([1_980.0; 2]), Some([1_980.0; 2])));
    assert_eq!(apart.spread, Some([1_980.0, 9_900.0]));
    let [low, high] = apart.interval.expect("five seeds");
    assert!(low < apart.mean && apart.mean < high && high <= 9_900.0, "{apart:?}");
}

#[test]
fn draws_are_the_same_seeds_in_every_cell() {
    let runs =
        [up_to("a", 1, 1_000, 0), up_to("a", 2, 2_000, 0), up_to("b", 1, 1_000, 0), up_to("b", 2, 2_000, 0)];
    let expression = Expression::parse("m.latency_p50_us").expect("an expression");
    let all = readings(&expression, &runs);
    let [a, b] = all.values().collect::<Vec<_>>()[..] else { panic!("two cells") };
    assert_eq!(a.draws, b.draws);
    assert_eq!(a.draws[&Draw::Pool], Bounds::exact(750.0));
}

#[test]
fn a_figure_marks_what_was_not_reached_and_says_so() {
    let runs = [up_to("slow", 1, 970, 30), up_to("fast", 1, 1_000, 0), up_to("few", 1, 500, 0)];
    let scenario = scenario(
        "[[figure]]\ntitle = \"tail\"\nkind = \"bars\"\nmetric = \"m.latency_p99_us\"\nby = \"law\"\n\
         [[figure]]\ntitle = \"sizes\"\nkind = \"series\"\nmetric = \"m.slowdown_p99_by_size\"\nby = \"law\"\n",
    );
    let bars = &charts(&scenario.figure[0], &runs).expect("drawn")[0];
    let Marks::Bars { series, .. } = &bars.marks else { panic!("bars") };
    let value =
        |name: &str| series.iter().find(|bars| bars.name == name).map(|bars| bars.values[0]).expect("drawn");
    assert_eq!((value("slow"), value("fast")), (f64::INFINITY, 990.0));
    assert!(value("few").is_nan());
    let said = bars.notes.join("\n");
    assert!(said.contains("slow: not reached (3.0 % unfinished)"), "{said}");
    assert!(said.contains("few: p99 needs 1,000 messages, there are 500"), "{said}");
    let sizes = &charts(&scenario.figure[1], &runs).expect("drawn")[0];
    let Marks::Lines(lines) = &sizes.marks else { panic!("lines") };
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    assert_eq!(names, ["slow", "fast"]);
    assert_eq!(lines[0].points, [(1_000.0, f64::INFINITY)]);
    let said = sizes.notes.join("\n");
    assert!(said.contains("few: p99 needs 1,000 messages, there are 500"), "{said}");
    assert!(said.contains("slow: not reached"), "{said}");
}

#[test]
fn series_say_that_they_are_of_one_seed_and_panels_differ_in_their_titles() {
    let mut runs = [up_to("a", 1, 100, 0), up_to("a", 2, 100, 0)];
    runs[0].summary.series.insert("m.x".into(), vec![(0.0, 1.0)]);
    runs[0].summary.series.insert("m.y".into(), vec![(0.0, 1.0)]);
    let scenario = scenario(
        "[[figure]]\ntitle = \"over time\"\nkind = \"series\"\nmetric = [\"m.x\", \"m.y\"]\nby = \"law\"\n\
         [[figure]]\ntitle = \"median\"\nkind = \"bars\"\nmetric = \"m.latency_p50_us\"\nby = \"law\"\n",
    );
    let series = charts(&scenario.figure[0], &runs).expect("drawn");
    assert_eq!(series[0].notes, ["the first of 2 seeds"]);
    assert_ne!(series[0].title, series[1].title);
    assert_eq!(charts(&scenario.figure[1], &runs).expect("drawn")[0].notes, ["2 seeds"]);
}
