//! The Python package `poseidon_cc`: runs scenarios, returns their rows as Arrow tables, and runs laws that are written in
//! Python.
//!
//! Users see `poseidon_cc/__init__.pyi`, which documents every class and function. This crate is the module
//! `poseidon_cc._core`.

mod compare;
mod convert;
mod error;
mod figure;
mod law;
mod observer;
mod python_laws;
mod run;
mod scenario;
mod table;
mod temporary;

use pyo3::prelude::*;

/// The compiled part of `poseidon_cc`.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    error::register(module)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<scenario::Scenario>()?;
    module.add_class::<law::Law>()?;
    module.add_class::<law::Ack>()?;
    module.add_class::<law::Hop>()?;
    module.add_class::<law::Path>()?;
    module.add_class::<law::Decision>()?;
    module.add_class::<run::Run>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<figure::Figure>()?;
    module.add_class::<compare::Comparison>()?;
    module.add_function(wrap_pyfunction!(scenario::scenarios, module)?)?;
    module.add_function(wrap_pyfunction!(law::laws, module)?)?;
    module.add_function(wrap_pyfunction!(run::run, module)?)?;
    module.add_function(wrap_pyfunction!(compare::compare, module)?)?;
    Ok(())
}
