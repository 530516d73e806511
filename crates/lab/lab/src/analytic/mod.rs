//! Figures computed from closed forms or fluid models, without simulating packets.

mod poseidon;
mod powertcp;
mod rpm;
mod vai_sf;

pub use poseidon::target_us;

use crate::scenario::Analytic;
use crate::summary::{PhaseSummary, Summary};
use std::collections::BTreeMap;

/// Evaluates a closed-form or fluid model.
pub fn evaluate(form: Analytic) -> Summary {
    match form {
        Analytic::FairRamp => poseidon::fair_ramp(),
        Analytic::TargetCurve => poseidon::target_curve(),
        Analytic::ReactionBySlope => powertcp::reaction_by_slope(),
        Analytic::ReactionByQueue => powertcp::reaction_by_queue(),
        Analytic::PhaseVoltage => powertcp::phase_voltage(),
        Analytic::PhaseGradient => powertcp::phase_gradient(),
        Analytic::PhasePower => powertcp::phase_power(),
        Analytic::SamplingDecrease => vai_sf::sampling_decrease(),
        Analytic::ReverseStability => rpm::reverse_stability(),
    }
}

fn summary(values: BTreeMap<String, f64>, series: BTreeMap<String, Vec<(f64, f64)>>) -> Summary {
    let phases = vec![PhaseSummary { name: "all".into(), values, ..PhaseSummary::default() }];
    Summary { phases, series, ..Summary::default() }
}
