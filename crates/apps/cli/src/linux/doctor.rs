//! Implements `poseidon doctor`.

use super::print_json;
use crate::Failure;
use poseidon_linux::doctor::{Check, Feature, State, feature_state, restrictions, run_checks};
use serde_json::{Map, Value, json};

/// Runs the checks and prints the results. A missing feature is a result, not a failure.
pub(super) fn run(json: bool) -> Result<(), Failure> {
    let checks = run_checks();
    if json {
        let features: Map<String, Value> = Feature::ALL
            .iter()
            .map(|feature| (feature.name().to_owned(), feature_state(*feature, &checks).name().into()))
            .collect();
        return print_json(
            &json!({ "can": features, "checks": checks.iter().map(check_json).collect::<Vec<_>>() }),
        );
    }
    outln!("{}", format_report(&checks).trim_end());
    Ok(())
}

/// Formats the checks, and then one line per feature. Users of a package do not need what building needs, so these
/// checks have a heading of their own.
fn format_report(checks: &[Check]) -> String {
    let group = |for_building| checks.iter().filter(move |check| check.is_for_building() == for_building);
    let features = Feature::ALL.map(|feature| format_feature(feature, checks));
    format!(
        "{}\nonly needed to build Poseidon from source:\n{}\n{}",
        group(false).map(format_check).collect::<String>(),
        group(true).map(format_check).collect::<String>(),
        features.concat()
    )
}

fn format_check(check: &Check) -> String {
    let Check { name, state, finding, purpose, remedy, .. } = check;
    let line = format!("{:9}  {name:13}  {finding}\n", state.name());
    // Checks that were not tried need root, and another check reports missing root permissions.
    if *state != State::Missing {
        return line;
    }
    format!("{line}{:9}  {:13}  why: {purpose}\n{:9}  {:13}  fix: {remedy}\n", "", "", "", "")
}

fn format_feature(feature: Feature, checks: &[Check]) -> String {
    let state = feature_state(feature, checks);
    let reasons = checks
        .iter()
        .filter(|check| check.state == state && check.needed_by.contains(&feature))
        .map(|check| check.name)
        .collect::<Vec<_>>()
        .join(", ");
    let limits =
        restrictions(feature, checks).map(|check| check.finding.as_str()).collect::<Vec<_>>().join(", ");
    let text = match (state, feature) {
        (State::Ok, _) if !limits.is_empty() => {
            format!("works on this machine, with a restriction: {limits}")
        }
        (State::Ok, _) => "works on this machine".to_owned(),
        (State::Missing, Feature::Build) => {
            format!("not possible on this machine: {reasons} (an installed package needs no build)")
        }
        (State::Missing, _) => format!("does not work on this machine: {reasons}"),
        (State::NotTried, _) => format!("unknown: not tried: {reasons}"),
    };
    format!("{:9}  {text}\n", feature.name())
}

fn check_json(check: &Check) -> Value {
    json!({
        "name": check.name,
        "state": check.state.name(),
        "says": check.finding,
        "why": check.purpose,
        "fix": check.remedy,
        "since": check.since.map(|version| version.to_string()),
        "needed_by": check.needed_by.iter().map(|feature| feature.name()).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(name: &'static str, needed_by: &'static [Feature], restricts: &'static [Feature]) -> Check {
        Check {
            name,
            state: State::Missing,
            finding: format!("no {name}"),
            purpose: "a purpose",
            remedy: "a remedy",
            since: None,
            needed_by,
            restricts,
        }
    }

    #[test]
    fn missing_items_for_building_do_not_alarm_users_of_a_package() {
        let checks = [missing("make", &[Feature::Build], &[]), missing("tc", &[Feature::Switch], &[])];
        let expected = "missing    tc             no tc\n\
                        \u{20}                         why: a purpose\n\
                        \u{20}                         fix: a remedy\n\
                        \n\
                        only needed to build Poseidon from source:\n\
                        missing    make           no make\n\
                        \u{20}                         why: a purpose\n\
                        \u{20}                         fix: a remedy\n\
                        \n\
                        tcp        works on this machine\n\
                        switch     does not work on this machine: tc\n\
                        rpm        works on this machine\n\
                        testbed    works on this machine\n\
                        build      not possible on this machine: make (an installed package needs no build)\n";
        assert_eq!(format_report(&checks), expected);
    }

    #[test]
    fn the_summary_names_the_restriction_of_a_feature() {
        let checks = [missing("interrupts", &[], &[Feature::Tcp])];
        let lines = format_report(&checks);
        for line in [
            "tcp        works on this machine, with a restriction: no interrupts",
            "switch     works on this machine",
        ] {
            assert!(lines.lines().any(|found| found == line), "{line} is missing in\n{lines}");
        }
        // A feature that does not work at all has no restriction.
        let checks = [missing("interrupts", &[], &[Feature::Tcp]), missing("BPF", &[Feature::Tcp], &[])];
        assert!(format_report(&checks).contains("tcp        does not work on this machine: BPF\n"));
    }
}
