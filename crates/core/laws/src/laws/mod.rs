//! The laws, each in its own file or folder.
//!
//! [`crate::registry`] lists them by name. The mechanisms that several laws share are in `crate::parts`.

pub mod bbr;
pub mod cubic;
pub mod dcqcn;
pub mod dctcp;
pub mod fixed;
pub mod hpcc;
pub mod nscc;
pub mod poseidon;
pub mod powertcp;
pub mod retcp;
pub mod swift;
pub mod theta_powertcp;
pub mod timely;
