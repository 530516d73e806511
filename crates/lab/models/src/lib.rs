//! The papers' analytic models. The lab compares control laws and simulations with these models and plots the papers'
//! figures.
//!
//! Each module implements one system of equations and cites the part of the paper that defines it. Start with
//! [`powertcp_fluid`].
//!
//! | module | contents |
//! |---|---|
//! | [`powertcp_fluid`] | PowerTCP's fluid model of four control laws at one bottleneck (fig. 2, theorems 1 to 3) |
//! | [`powertcp_phase`] | PowerTCP's phase plots (fig. 3) |
//! | [`rpm_fluid`] | RPM's control loop, its Lemma 1 and the stable marking gain |
//! | [`delay_equation`] | integration of a differential equation with two delays, for [`rpm_fluid`] |
//! | [`sampling_fluid`] | Sampling Frequency compared with one decrease per RTT (VAI+SF fig. 4) |

pub mod delay_equation;
pub mod powertcp_fluid;
pub mod powertcp_phase;
pub mod rpm_fluid;
pub mod sampling_fluid;
