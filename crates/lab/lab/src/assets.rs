//! Vendored scripts for HTML pages. Pages inline them, so that they need no network.

/// [uPlot](https://github.com/leeoniya/uPlot) 1.6.32, MIT licence: interactive time series. The global `uPlot`.
pub const UPLOT_JS: &str = include_str!("../assets/uplot/uPlot.iife.min.js");
/// The style sheet of uPlot.
pub const UPLOT_CSS: &str = include_str!("../assets/uplot/uPlot.min.css");
/// The licence of uPlot, which pages with a copy must contain.
pub const UPLOT_LICENSE: &str = include_str!("../assets/uplot/LICENSE");

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    /// The files of the npm package `uplot` 1.6.32.
    #[test]
    fn vendored_files_are_unchanged() {
        let hash =
            |text: &str| Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hash(UPLOT_JS), "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f");
        assert_eq!(hash(UPLOT_CSS), "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04");
    }
}
