//! The laws, one file each. What they share is in [`crate::parts`]; how they are listed, in [`crate::registry`].

/// The table of laws: one line for each, its file and its type. Everything else follows from it. The leading `$` is a token that a
/// macro made of this one needs.
macro_rules! every_law {
    ($d:tt $then:ident) => {
        $then! { $d
            poseidon::Poseidon,
            swift::Swift,
            hpcc::Hpcc,
            powertcp::PowerTcp,
            theta_powertcp::ThetaPowerTcp,
            timely::Timely,
            dcqcn::Dcqcn,
            dctcp::Dctcp,
            cubic::Cubic,
            bbr::Bbr,
            retcp::Retcp,
            fixed::Fixed,
        }
    };
}

macro_rules! files {
    ($d:tt $( $module:ident :: $law:ident, )*) => { $( pub mod $module; )* };
}

every_law! { $ files }
