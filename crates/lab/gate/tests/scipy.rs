//! Compares the statistics with SciPy. Without it, the test prints that it is skipped.

use poseidon_gate::stats::{
    hodges_lehmann, holm_adjusted, mann_whitney, rank_sum_critical_count, shift, sign_flip_p,
    signed_rank_critical_count,
};
use poseidon_plan::random::RandomKey;
use std::path::Path;
use std::process::Command;

/// Reads the samples as JSON and prints the values of SciPy as JSON.
const SCRIPT: &str = r#"
import itertools, json, sys
import numpy as np
from scipy import stats

request = json.load(sys.stdin)
mean = lambda x, axis: np.mean(x, axis=axis)
delta = lambda x, y, axis: stats.mannwhitneyu(y, x, axis=axis).statistic
out = {"sign_flip": [], "walsh": [], "mann_whitney": [], "shift": [], "holm": [], "signed_rank": [], "rank_sum": []}
for d in request["paired"]:
    test = stats.permutation_test((d,), mean, permutation_type="samples", alternative="greater", n_resamples=np.inf)
    out["sign_flip"].append(float(test.pvalue))
    pairs = itertools.combinations_with_replacement(d, 2)
    out["walsh"].append(float(np.median([(a + b) / 2 for a, b in pairs])))
for x, y in request["unpaired"]:
    if len(set(x + y)) == len(x + y):
        p = stats.mannwhitneyu(y, x, alternative="greater", method="exact").pvalue
    else:
        p = stats.permutation_test((x, y), delta, permutation_type="independent", alternative="greater", n_resamples=np.inf).pvalue
    out["mann_whitney"].append([float(p), float(stats.mannwhitneyu(y, x).statistic)])
    out["shift"].append(float(np.median([b - a for a in x for b in y])))
for x, y in request["large"]:
    test = stats.mannwhitneyu(y, x, alternative="greater", method="asymptotic", use_continuity=True)
    out["mann_whitney"].append([float(test.pvalue), float(test.statistic)])
for p in request["holm"]:
    q = len(p)
    order = np.argsort(p)
    steps = np.maximum.accumulate([(q - i) * p[j] for i, j in enumerate(order)])
    adjusted = np.empty(q)
    adjusted[order] = np.minimum(steps, 1)
    out["holm"].append(list(map(float, adjusted)))
for k in range(5, 21):
    # The p-value of Wilcoxon's test for each value of the statistic.
    values = list(range(1, k + 1))
    p_of = {}
    for c in range(k * (k + 1) // 2 + 1):
        signs, rest = [], c
        for v in reversed(values):
            take = rest >= v
            rest -= v if take else 0
            signs.append(v if take else -v)
        p_of[c] = stats.wilcoxon(signs, alternative="less", method="exact").pvalue
        if p_of[c] > 0.05:
            break
    out["signed_rank"].append(c - 1)
for n, m in request["sizes"]:
    c = 0
    while True:
        x, y, u = [], [], c
        # A second sample of size m with the statistic c.
        above = [0] * m
        for i in reversed(range(m)):
            above[i] = min(n, u)
            u -= above[i]
        x = [10.0 * i for i in range(1, n + 1)]
        y = [10.0 * a + 5 + 0.01 * i for i, a in enumerate(above)]
        if stats.mannwhitneyu(y, x, alternative="less", method="exact").pvalue > 0.05:
            break
        c += 1
    out["rank_sum"].append(c - 1)
json.dump(out, sys.stdout)
"#;

fn find_python() -> Option<String> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/python/bin/python3");
    let candidates = [repository.to_string_lossy().into_owned(), "python3".to_owned()];
    let has_scipy = |python: &String| {
        let output = Command::new(python).args(["-c", "import scipy, numpy"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    candidates.into_iter().find(has_scipy)
}

/// Returns values, with ties if `is_coarse` is set.
fn sample(key: RandomKey, count: u64, offset: f64, is_coarse: bool) -> Vec<f64> {
    let value = |index: u64| {
        let value = key.nth(index).uniform() * 10.0 - 4.0 + offset;
        if is_coarse { value.round() } else { value }
    };
    (0..count).map(value).collect()
}

fn run_python(python: &str, request: &serde_json::Value) -> serde_json::Value {
    use std::io::Write as _;
    let mut child = Command::new(python)
        .args(["-c", SCRIPT])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("Python starts");
    let mut input = child.stdin.take().expect("stdin is a pipe");
    input.write_all(request.to_string().as_bytes()).expect("Python reads its input");
    drop(input);
    let output = child.wait_with_output().expect("Python ends");
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).expect("the script prints JSON")
}

fn numbers(value: &serde_json::Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
}

fn assert_close(ours: f64, theirs: f64, what: &str) {
    assert!((ours - theirs).abs() <= 1e-9 * theirs.abs().max(1e-3), "{what}: {ours} and {theirs}");
}

#[test]
fn the_statistics_agree_with_scipy() {
    let Some(python) = find_python() else {
        eprintln!(
            "SKIPPED the_statistics_agree_with_scipy: no Python with scipy; .ci/install installs it in target/python"
        );
        return;
    };
    let key = RandomKey::new(1, "scipy");
    let paired: Vec<Vec<f64>> =
        (0..30).map(|i| sample(key.named("paired").nth(i), 2 + i % 11, 0.3, i % 3 == 0)).collect();
    let unpaired: Vec<[Vec<f64>; 2]> = (0..30)
        .map(|i| {
            let key = key.named("unpaired").nth(i);
            [sample(key.nth(0), 2 + i % 5, 0.0, i % 2 == 0), sample(key.nth(1), 2 + i % 4, 1.0, i % 2 == 0)]
        })
        .collect();
    let large: Vec<[Vec<f64>; 2]> = (0..4)
        .map(|i| {
            [0, 1].map(|side| {
                sample(key.named("large").nth(i).nth(side), 25 + 5 * i, 0.4 * side as f64, i % 2 == 0)
            })
        })
        .collect();
    let holm: Vec<Vec<f64>> = (1..6)
        .map(|i| (0..4 * i).map(|j| key.named("holm").nth(i).nth(j).uniform() / 5.0).collect())
        .collect();
    let sizes = [[3, 3], [4, 6], [5, 5], [8, 8], [6, 12], [20, 20]];
    let request = serde_json::json!({ "paired": paired, "unpaired": unpaired, "large": large, "holm": holm, "sizes": sizes });
    let scipy = run_python(&python, &request);

    let (sign_flip, walsh) = (numbers(&scipy["sign_flip"]), numbers(&scipy["walsh"]));
    for (index, differences) in paired.iter().enumerate() {
        assert_close(sign_flip_p(differences).unwrap(), sign_flip[index], "sign flip");
        assert_close(hodges_lehmann(differences).unwrap(), walsh[index], "Hodges-Lehmann");
    }
    let theirs = scipy["mann_whitney"].as_array().expect("a list");
    for ([first, second], theirs) in unpaired.iter().chain(&large).zip(theirs) {
        let (test, theirs) = (mann_whitney(first, second).unwrap(), numbers(theirs));
        assert_close(test.p, theirs[0], "Mann-Whitney p");
        assert_close(test.u, theirs[1], "Mann-Whitney U");
    }
    for ([first, second], theirs) in unpaired.iter().zip(numbers(&scipy["shift"])) {
        assert_close(shift(first, second).unwrap(), theirs, "shift");
    }
    for (p_values, theirs) in holm.iter().zip(scipy["holm"].as_array().expect("a list")) {
        for (ours, theirs) in holm_adjusted(p_values, p_values.len()).into_iter().zip(numbers(theirs)) {
            assert_close(ours, theirs, "Holm");
        }
    }
    for (pairs, theirs) in (5..=20).zip(numbers(&scipy["signed_rank"])) {
        assert_eq!(
            signed_rank_critical_count(pairs, 0.05).map(|count| count as f64),
            Some(theirs),
            "{pairs} pairs"
        );
    }
    for ([n, m], theirs) in sizes.into_iter().zip(numbers(&scipy["rank_sum"])) {
        assert_eq!(
            rank_sum_critical_count(n, m, 0.05).map(|count| count as f64),
            Some(theirs),
            "{n} and {m}"
        );
    }
}
