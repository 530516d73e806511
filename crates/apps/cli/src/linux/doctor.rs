//! `poseidon doctor`.

use super::say_json;
use crate::Failure;
use poseidon_linux::doctor::{Check, Part, State, able, examine};
use serde_json::{Map, Value, json};

/// What is missing is an answer and no failure.
pub(super) fn run(json: bool) -> Result<(), Failure> {
    let checks = examine();
    if json {
        let can: Map<String, Value> = Part::ALL
            .iter()
            .map(|part| (part.name().to_owned(), able(*part, &checks).name().into()))
            .collect();
        return say_json(&json!({ "can": can, "checks": checks.iter().map(check_json).collect::<Vec<_>>() }));
    }
    for Check { name, state, says, why, fix, .. } in &checks {
        say!("{:9}  {name:13}  {says}", state.name());
        // What was not tried needs root, which has a line of its own.
        if *state == State::Missing {
            say!("{:9}  {:13}  for: {why}\n{:9}  {:13}  do:  {fix}", "", "", "", "");
        }
    }
    say!();
    for part in Part::ALL {
        let state = able(part, &checks);
        let stands_in_the_way = checks
            .iter()
            .filter(|check| check.state == state && check.needed_by.contains(&part))
            .map(|check| check.name)
            .collect::<Vec<_>>()
            .join(", ");
        match state {
            State::Ok => say!("{:9}  can be used here", part.name()),
            State::Missing => say!("{:9}  cannot be used here: {stands_in_the_way}", part.name()),
            State::NotTried => say!("{:9}  nobody knows: {stands_in_the_way} was not tried", part.name()),
        }
    }
    Ok(())
}

fn check_json(check: &Check) -> Value {
    json!({
        "name": check.name,
        "state": check.state.name(),
        "says": check.says,
        "why": check.why,
        "fix": check.fix,
        "needed_by": check.needed_by.iter().map(|part| part.name()).collect::<Vec<_>>(),
    })
}
