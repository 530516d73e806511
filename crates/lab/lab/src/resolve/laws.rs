//! Resolves a cell's laws and their parameters.

use super::{TrafficGroup, to_u32};
use crate::scenario::{
    KeyPath, ParameterOwner, Scalar, Scenario, SpecError, SpecErrorKind, Subject, Suggestion,
};
use poseidon_laws::AnyParams;
use poseidon_laws::params::ParamError;
use poseidon_plan::stack::{Controller, StackKind, StackLaw};
use poseidon_plan::switch::MARK_POLICIES;
use poseidon_types::Signals;
use std::collections::BTreeMap;

/// The distinct laws that a cell's traffic uses.
pub(super) struct LawTable<'a> {
    scenario: &'a Scenario,
    names: Vec<String>,
    pub(super) params: Vec<AnyParams>,
    /// The laws whose connections run in a real stack, sorted by law.
    pub(super) stacks: Vec<StackLaw>,
}

impl<'a> LawTable<'a> {
    pub(super) const fn new(scenario: &'a Scenario) -> Self {
        Self { scenario, names: Vec::new(), params: Vec::new(), stacks: Vec::new() }
    }

    /// Returns a law's index, adding the law if it is new. `key` is the scenario key that names the law.
    pub(super) fn index_of(&mut self, name: &str, key: &KeyPath) -> Result<u32, SpecError> {
        if let Some(index) = self.names.iter().position(|known| known == name) {
            return Ok(to_u32(index));
        }
        self.params.push(resolve_law(self.scenario, name, key)?);
        self.names.push(name.to_owned());
        let law = to_u32(self.names.len() - 1);
        if let Some((stack, controller)) = resolve_stack(self.scenario, name)? {
            self.stacks.push(StackLaw { law, stack, controller });
        }
        Ok(law)
    }
}

/// Checks the default law and every law that the scenario defines, even if it is unused.
pub(super) fn check_laws(scenario: &Scenario) -> Result<(), SpecError> {
    for name in scenario.laws.keys() {
        resolve_law(scenario, name, &KeyPath::new(["laws", name]))?;
        resolve_stack(scenario, name)?;
    }
    resolve_law(scenario, &scenario.law, &KeyPath::new(["law"])).map(drop)
}

/// Resolves the name of a built-in law or a law that the scenario defines. `key` is the scenario key that names the
/// law.
fn resolve_law(scenario: &Scenario, name: &str, key: &KeyPath) -> Result<AnyParams, SpecError> {
    let Some(spec) = scenario.laws.get(name) else {
        return base_law(scenario, name).map_err(|kind| kind.at_path(key.clone()));
    };
    let mut params = base_law(scenario, &spec.base).map_err(|kind| kind.at(["laws", name, "base"]))?;
    if let Some(preset) = &spec.preset {
        params.apply_preset(preset).map_err(|_| {
            let mut known = vec!["paper"];
            params.for_each_preset(&mut |name, _| known.push(name));
            let suggestion = Suggestion::new(preset, known);
            let (law, preset) = (name.to_owned(), preset.clone());
            SpecErrorKind::UnknownPreset { law, preset, suggestion }.at(["laws", name, "preset"])
        })?;
    }
    let mut known = Vec::new();
    params.for_each(&mut |info, _| known.push(info.name));
    let owner = ParameterOwner::Law(name.to_owned());
    set_parameters(&owner, &spec.parameters, &known, &mut |key, text| params.set(key, text))
        .map_err(|error| error.prepend_path(KeyPath::new(["laws", name])))?;
    Ok(params)
}

/// Returns the stack that runs the connections of a law, and the controller of the stack that replaces the law.
fn resolve_stack(
    scenario: &Scenario,
    law: &str,
) -> Result<Option<(StackKind, Option<Controller>)>, SpecError> {
    let Some(spec) = scenario.laws.get(law) else { return Ok(None) };
    let Some(name) = &spec.stack else {
        return match spec.controller {
            Some(_) => Err(SpecErrorKind::ControllerWithoutStack.at(["laws", law, "controller"])),
            None => Ok(None),
        };
    };
    let stack = StackKind::from_name(name).ok_or_else(|| {
        let suggestion = Suggestion::new(name, StackKind::ALL.map(StackKind::name));
        SpecErrorKind::UnknownStack { stack: name.clone(), suggestion }.at(["laws", law, "stack"])
    })?;
    let known = || stack.controllers().iter().map(|controller| controller.name());
    let Some(name) = &spec.controller else {
        if stack.runs_laws() {
            return Ok(Some((stack, None)));
        }
        let controllers = known().collect::<Vec<_>>().join(", ");
        let kind = SpecErrorKind::StackWithoutLaws { stack: stack.name(), controllers };
        return Err(kind.at(["laws", law, "stack"]));
    };
    let controller = stack.controllers().iter().find(|controller| controller.name() == name);
    let controller = controller.ok_or_else(|| {
        let suggestion = Suggestion::new(name, known());
        let kind =
            SpecErrorKind::UnknownController { stack: stack.name(), controller: name.clone(), suggestion };
        kind.at(["laws", law, "controller"])
    })?;
    Ok(Some((stack, Some(*controller))))
}

/// Returns a built-in law with its default parameters.
fn base_law(scenario: &Scenario, name: &str) -> Result<AnyParams, SpecErrorKind> {
    AnyParams::for_law(name).ok_or_else(|| {
        let mut known: Vec<&str> = poseidon_laws::LAWS.iter().map(|law| law.name).collect();
        known.extend(scenario.laws.keys().map(String::as_str));
        SpecErrorKind::UnknownLaw { law: name.to_owned(), suggestion: Suggestion::new(name, known) }
    })
}

/// Sets the parameters of a law or a policy.
pub(super) fn set_parameters(
    owner: &ParameterOwner,
    values: &BTreeMap<String, Scalar>,
    known: &[&str],
    set: &mut dyn FnMut(&str, &str) -> Result<(), ParamError>,
) -> Result<(), SpecError> {
    for (key, value) in values {
        set(key, &value.0).map_err(|error| {
            let owner = owner.clone();
            let kind = match error {
                ParamError::UnknownName => {
                    let suggestion = Suggestion::new(key, known.iter().map(|name| name.replace('_', "-")));
                    SpecErrorKind::UnknownParameter { owner, parameter: key.clone(), suggestion }
                }
                error => SpecErrorKind::Parameter { owner, error },
            };
            kind.at([key.as_str()])
        })?;
    }
    Ok(())
}

/// Rejects a law that reacts to marks if no switch marks packets: its window would only grow.
pub(super) fn check_marks(scenario: &Scenario, groups: &[TrafficGroup]) -> Result<(), SpecError> {
    let generations = scenario.generation.values().filter_map(|generation| generation.mark.as_ref());
    if generations.chain([&scenario.switch.mark]).any(|mark| mark.policy != "off") {
        return Ok(());
    }
    for (index, group) in groups.iter().enumerate() {
        let key = KeyPath::new(["traffic"]).join(index).join("law");
        if resolve_law(scenario, &group.law, &key)?.needs().contains(Signals::ECN_ECHO) {
            let policies = MARK_POLICIES.iter().map(|policy| policy.name).filter(|name| *name != "off");
            let policies = policies.collect::<Vec<_>>().join(", ");
            let kind = SpecErrorKind::MarksOff { law: group.law.clone(), policies };
            return Err(kind.at_path(key).about(Subject::Traffic(group.name.clone())));
        }
    }
    Ok(())
}
