//! Figures, which notebooks show as SVG.

use crate::convert::escape_html;
use poseidon_figures::render_csv;
use poseidon_lab::report;
use pyo3::prelude::*;
use std::path::PathBuf;

/// A figure.
#[pyclass(frozen, module = "poseidon_cc")]
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) figure: report::Figure,
}

#[pymethods]
impl Figure {
    #[getter]
    fn title(&self) -> &str {
        &self.figure.title
    }

    /// The figure as SVG.
    #[getter]
    fn svg(&self) -> String {
        self.figure.to_svg()
    }

    /// The plotted numbers as CSV.
    #[getter]
    fn csv(&self) -> String {
        render_csv(&self.figure.charts)
    }

    /// Writes the figure as SVG, or its numbers if the name ends with `.csv`.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        let is_csv = path.extension().is_some_and(|extension| extension == "csv");
        Ok(std::fs::write(path, if is_csv { self.csv() } else { self.svg() })?)
    }

    fn _repr_svg_(&self) -> String {
        self.svg()
    }

    fn _repr_html_(&self) -> String {
        let (title, svg) = (escape_html(&self.figure.title), self.svg());
        format!(
            "<figure style=\"margin:0;background:white;max-width:720px\">{svg}<figcaption style=\"color:black\">{title}</figcaption></figure>"
        )
    }

    fn _mime_(&self) -> (&'static str, String) {
        ("text/html", self._repr_html_())
    }

    fn __repr__(&self) -> String {
        format!("<Figure {:?}>", self.figure.title)
    }
}
