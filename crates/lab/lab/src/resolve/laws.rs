//! Which laws run, with which values.

use super::{GroupOf, count};
use crate::scenario::{self, Scalar, Scenario};
use poseidon_laws::AnyParams;
use poseidon_laws::params::ParamError;
use poseidon_types::Signals;
use std::collections::BTreeMap;

/// The laws of a cell, each once.
pub(super) struct Laws<'a> {
    scenario: &'a Scenario,
    names: Vec<String>,
    pub(super) params: Vec<AnyParams>,
}

impl<'a> Laws<'a> {
    pub(super) const fn of(scenario: &'a Scenario) -> Self {
        Self { scenario, names: Vec::new(), params: Vec::new() }
    }

    /// The index of a law by its name in the scenario or in the table.
    pub(super) fn index(&mut self, name: &str) -> Result<u32, String> {
        if let Some(index) = self.names.iter().position(|known| known == name) {
            return Ok(count(index));
        }
        self.params.push(law(self.scenario, name)?);
        self.names.push(name.to_owned());
        Ok(count(self.names.len() - 1))
    }
}

/// A law by its name in a scenario, or in the table of laws.
pub(super) fn law(scenario: &Scenario, name: &str) -> Result<AnyParams, String> {
    let spec = scenario.laws.get(name);
    let base = spec.map_or(name, |spec| spec.base.as_str());
    let mut params = AnyParams::of(base).ok_or_else(|| {
        let mut known: Vec<&str> = poseidon_laws::LAWS.iter().map(|law| law.name).collect();
        known.extend(scenario.laws.keys().map(String::as_str));
        format!("there is no law {base:?}; {}", scenario::advice(base, &known))
    })?;
    let Some(spec) = spec else { return Ok(params) };
    if let Some(preset) = &spec.preset {
        params.preset(preset).map_err(|_| {
            let mut known = vec!["paper"];
            params.presets(&mut |name, _| known.push(name));
            format!("law {name:?} has no preset {preset:?}; {}", scenario::advice(preset, &known))
        })?;
    }
    let mut known = Vec::new();
    params.each(&mut |info, _| known.push(info.name));
    set_all(&format!("law {name:?}"), &spec.parameters, &known, &mut |key, text| params.set(key, text))?;
    Ok(params)
}

/// Sets parameters of a law or a policy; what is refused is said with the name that was meant.
pub(super) fn set_all(
    owner: &str,
    values: &BTreeMap<String, Scalar>,
    known: &[&str],
    set: &mut dyn FnMut(&str, &str) -> Result<(), ParamError>,
) -> Result<(), String> {
    for (key, value) in values {
        set(key, &value.0).map_err(|error| match error {
            ParamError::UnknownName => {
                let known: Vec<String> = known.iter().map(|name| name.replace('_', "-")).collect();
                format!("{owner} has no parameter {key:?}; {}", scenario::advice(key, &known))
            }
            other => format!("{owner}: {other}"),
        })?;
    }
    Ok(())
}

/// A law that waits for marks where no switch makes any would only ever grow.
pub(super) fn check_marks(scenario: &Scenario, groups: &[GroupOf]) -> Result<(), String> {
    if scenario.switch.mark.policy != "off" {
        return Ok(());
    }
    for group in groups {
        if law(scenario, &group.law)?.needs().supplies(Signals::ECN_ECHO) {
            let known = poseidon_plan::switch::MARKS.iter().map(|policy| policy.name);
            let known: Vec<&str> = known.filter(|name| *name != "off").collect();
            return Err(format!(
                "traffic {:?}: law {:?} needs marks and switch.mark is off; give it a policy: {}",
                group.name,
                group.law,
                known.join(", ")
            ));
        }
    }
    Ok(())
}
