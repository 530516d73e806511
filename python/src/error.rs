//! The package's exceptions.

use poseidon_lab::runner::StudyError;
use poseidon_lab::scenario::ScenarioError as InvalidScenario;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;

create_exception!(poseidon_cc, PoseidonError, PyException, "A run, a result or a comparison failed.");
create_exception!(
    poseidon_cc,
    ScenarioError,
    PyValueError,
    "A scenario is invalid. The message names the file, the line, the key and a remedy."
);

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("PoseidonError", module.py().get_type::<PoseidonError>())?;
    module.add("ScenarioError", module.py().get_type::<ScenarioError>())
}

/// An invalid scenario as an exception.
pub(crate) fn invalid_scenario(error: &InvalidScenario) -> PyErr {
    ScenarioError::new_err(error.to_string())
}

/// A study that failed as an exception.
pub(crate) fn failed_study(error: &StudyError) -> PyErr {
    match error {
        StudyError::Scenario(error) => invalid_scenario(error),
        error => failure(error),
    }
}

/// Any other failure as an exception.
pub(crate) fn failure(error: impl core::fmt::Display) -> PyErr {
    PoseidonError::new_err(error.to_string())
}

/// An invalid argument as an exception.
pub(crate) fn invalid(text: impl Into<String>) -> PyErr {
    PyValueError::new_err(text.into())
}
