//! Resolves policies of switches and links, and their parameters.

use super::laws::set_parameters;
use crate::scenario::{KeyPath, ParameterOwner, PolicySpec, SpecError, SpecErrorKind, Suggestion};
use poseidon_plan::impairments::{AnyImpairPolicy, IMPAIR_POLICIES};
use poseidon_plan::switch::{AnyBufferPolicy, AnyMarkPolicy, BUFFER_POLICIES, MARK_POLICIES};
use poseidon_plan::transport::{AnyPathPolicy, PATH_POLICIES};

/// Resolves a switch policy and its parameters. `$kind` is both the kind of policy and its key in the table at `$path`.
macro_rules! resolve_policy {
    ($spec:expr, $path:expr, $any:ty, $list:expr, $kind:literal) => {{
        let path = $path.clone().join($kind);
        let PolicySpec { policy: name, parameters } = $spec;
        let mut policy = <$any>::from_name(name).ok_or_else(|| {
            let suggestion = Suggestion::new(name, $list.iter().map(|policy| policy.name));
            SpecErrorKind::UnknownPolicy { kind: $kind, policy: name.clone(), suggestion }
                .at_path(path.clone().join("policy"))
        })?;
        let mut known = Vec::new();
        policy.for_each(&mut |info, _| known.push(info.name));
        let owner = ParameterOwner::Policy($kind, name.clone());
        set_parameters(&owner, parameters, &known, &mut |key, text| policy.set(key, text))
            .map_err(|error| error.prepend_path(path))?;
        Ok(policy)
    }};
}

/// Resolves the buffer policy of the table at `path`.
pub(super) fn resolve_buffer(spec: &PolicySpec, path: &KeyPath) -> Result<AnyBufferPolicy, SpecError> {
    resolve_policy!(spec, path, AnyBufferPolicy, BUFFER_POLICIES, "buffer")
}

/// Resolves the marking policy of the table at `path`.
pub(super) fn resolve_mark(spec: &PolicySpec, path: &KeyPath) -> Result<AnyMarkPolicy, SpecError> {
    resolve_policy!(spec, path, AnyMarkPolicy, MARK_POLICIES, "mark")
}

/// Resolves the path policy of the table at `path`.
pub(super) fn resolve_paths(spec: &PolicySpec, path: &KeyPath) -> Result<AnyPathPolicy, SpecError> {
    resolve_policy!(spec, path, AnyPathPolicy, PATH_POLICIES, "paths")
}

/// Resolves the impairment policy of the table at `path`.
pub(super) fn resolve_impair(spec: &PolicySpec, path: &KeyPath) -> Result<AnyImpairPolicy, SpecError> {
    resolve_policy!(spec, path, AnyImpairPolicy, IMPAIR_POLICIES, "impair")
}
