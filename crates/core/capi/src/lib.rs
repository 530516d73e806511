//! The C interface of the congestion-control laws and the telemetry formats: `libposeidon_laws`.
//!
//! `include/poseidon_laws.h` is the header, which cbindgen generates from this crate, and `docs/howto/c.md` explains it.
//! Rust programs use `poseidon-laws` and `poseidon-wire` instead.
//!
//! | module | functions | contents |
//! |---|---|---|
//! | [`law`] | `poseidon_law_...` | any law of the registry, by name, with parameters as text |
//! | [`registry`] | `poseidon_..._get`, `poseidon_law_needs` | the laws, their parameters, presets and signals |
//! | [`flow`] | `poseidon_flow_...` | the law Poseidon alone, with numeric parameters, for firmware |
//! | [`telemetry`] | `poseidon_shim_...` and others | formats with a maximum hop delay |
//! | [`records`] | `poseidon_hpcc_...`, `poseidon_int_md_...` | formats with a record per hop |
//! | [`structs`], [`error`] | `poseidon_error_text` | structs, constants and error codes |
//!
//! The crate uses no `std` and no heap, and it does not panic. It is the only crate of the workspace with unsafe code: the
//! modules that take pointers allow it, and `border` and `state` hold the checks. Misuse is refused where the library can
//! recognise it: null and misaligned pointers, memory that is too small, a state that is not initialised, unknown names,
//! invalid text, structs of a newer version with fields that this library does not know.
#![no_std]

#[cfg(test)]
extern crate std;

mod ack;
mod border;
pub mod error;
pub mod flow;
pub mod law;
mod message;
mod parameters;
pub mod records;
pub mod registry;
mod state;
pub mod structs;
pub mod telemetry;

#[cfg(all(feature = "capi", not(test)))]
mod panic {
    //! What a library without std does if it panics.

    #![allow(unsafe_code, reason = "abort is a function of the C library")]

    #[link(name = "c")]
    unsafe extern "C" {
        fn abort() -> !;
    }

    /// Ends the process, because unwinding must not cross the border to C. The functions do not panic, as far as `.ci/capi`
    /// and `purity/check` prove: code that can panic refers to `abort`.
    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        // SAFETY: abort may be called at any time.
        unsafe { abort() }
    }
}
