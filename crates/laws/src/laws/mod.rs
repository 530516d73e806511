//! The laws, one file each. What they share is in [`crate::parts`]; how they are listed, in [`crate::registry`].

pub mod cubic;
pub mod dcqcn;
pub mod dctcp;
pub mod fixed;
pub mod hpcc;
pub mod poseidon;
pub mod powertcp;
pub mod retcp;
pub mod swift;
pub mod theta_powertcp;
pub mod timely;
