//! Mechanisms that several laws share, one per file.
//!
//! | module | purpose | users |
//! |---|---|---|
//! | [`ewma`] | moving averages, by weight or by elapsed time | most laws |
//! | [`float`] | conversions between integer units and `f64` | all laws except poseidon and fixed |
//! | [`hop_delta`] | the change in each hop's counters between two ACKs | hpcc, powertcp |
//! | [`hystart`] | leaving slow start before the queue overflows | cubic |
//! | [`probabilistic`] | probabilistic feedback | hpcc, swift |
//! | [`prr`] | a cut that takes effect over one round trip | cubic |
//! | [`reno`] | slow start and congestion avoidance | dctcp, cubic, retcp |
//! | [`round_trip`] | limits actions to once per round trip, by time or by sequence number | most laws |
//! | [`sampling`] | sampling frequency (SF) | hpcc, swift, powertcp |
//! | [`variable_ai`] | variable additive increase (VAI) | hpcc, swift, powertcp |
//! | [`window_history`] | the window one round trip ago | powertcp, theta-powertcp |

pub(crate) mod ewma;
pub(crate) mod float;
pub(crate) mod hop_delta;
pub(crate) mod hystart;
pub(crate) mod probabilistic;
pub(crate) mod prr;
pub(crate) mod reno;
pub(crate) mod round_trip;
pub(crate) mod sampling;
pub(crate) mod variable_ai;
pub(crate) mod window_history;
