//! Formats numbers for readers.

/// Formats a number with three significant digits.
pub fn format_number(value: f64) -> String {
    let magnitude = value.abs();
    match magnitude {
        _ if magnitude == 0.0 || !value.is_finite() => format!("{value}"),
        _ if magnitude >= 1e6 => format!("{value:.3e}"),
        _ if magnitude >= 100.0 => format!("{value:.0}"),
        _ if magnitude >= 10.0 => format!("{value:.1}"),
        _ if magnitude >= 1.0 => format!("{value:.2}"),
        _ if magnitude >= 0.1 => format!("{value:.3}"),
        _ if magnitude >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}
