//! The papers' own analytic models, each one equation system with the place where the paper prints it, so that a law or a
//! simulation can be held against it and a figure be drawn from it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`powertcp_fluid`] | PowerTCP's fluid model of four control laws at one bottleneck (fig. 2, theorems) |
//! | [`powertcp_phase`] | its phase plots (fig. 3) |
//! | [`rpm_fluid`] | the loop of reverse path marking, its Lemma 1 and the stable gain |
//! | [`delay_line`] | integrates an equation with two delays, for the above |
//! | [`sampling_fluid`] | Sampling Frequency against one decrease per RTT (VAI+SF fig. 4) |

pub mod delay_line;
pub mod powertcp_fluid;
pub mod powertcp_phase;
pub mod rpm_fluid;
pub mod sampling_fluid;
