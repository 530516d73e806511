//! Mechanisms that several laws share, each in one file: parts, not copies.
//!
//! | part | what it does | used by |
//! |---|---|---|
//! | [`fixed_math`] | log2 and exp2 in integers, by two small tables | poseidon |
//! | [`gate`] | once per round trip, by time or by sequence | most |
//! | [`ewma`] | moving averages, by weight or by elapsed time | hpcc, powertcp, theta-powertcp, swift, timely, dcqcn, dctcp |
//! | [`history`] | the window one round trip ago | powertcp, theta-powertcp |
//! | [`hop_delta`] | what each hop did between two ACKs | hpcc, powertcp |
//! | [`hystart`] | leaving slow start before the queue overflows | cubic |
//! | [`reno`] | slow start and congestion avoidance | dctcp, cubic, retcp |
//! | [`spread_cut`] | a cut that takes a round trip | cubic |
//! | [`variable_ai`] | variable additive increase (VAI) | hpcc, swift, powertcp |
//! | [`sampling`] | sampling frequency (SF) | hpcc, swift, powertcp |
//! | [`probabilistic`] | probabilistic feedback | hpcc, swift |
//! | [`coexistence`] | keeping a share beside flows that fill the buffer | hosts |
//! | [`plb`] | when to change the path (PLB) | hosts |
//! | [`float`] | the border between integers and `f64` | the peers' laws |

pub mod coexistence;
pub mod ewma;
pub mod fixed_math;
pub mod float;
pub mod gate;
pub mod history;
pub mod hop_delta;
pub mod hystart;
pub mod plb;
pub mod probabilistic;
pub mod reno;
pub mod sampling;
pub mod spread_cut;
pub mod variable_ai;
