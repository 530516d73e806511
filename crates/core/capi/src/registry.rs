//! The functions that describe the laws: names, parameters, presets, required signals.

#![allow(unsafe_code, reason = "these functions take pointers from C")]

use crate::border::{self, Output, status};
use crate::error::{Failure, Report, poseidon_status};
use crate::message::Message;
use crate::parameters;
use crate::structs::{
    bits_from_signals, poseidon_error, poseidon_law_info, poseidon_param_info, poseidon_preset_info,
    poseidon_text,
};
use core::ffi::c_char;
use poseidon_laws::params::PAPER;
use poseidon_laws::{AnyParams, LAWS};

/// Returns the number of laws.
#[unsafe(no_mangle)]
pub extern "C" fn poseidon_law_count() -> u32 {
    count(LAWS.len())
}

/// Describes the law with this index, below poseidon_law_count().
///
/// # Safety
///
/// info must be null or point to a poseidon_law_info.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_law_info_get(index: u32, info: *mut poseidon_law_info) -> poseidon_status {
    // SAFETY: the caller guarantees the struct.
    let output = unsafe { Output::new(info) };
    status(output.and_then(|output| {
        output.write(&law_info(index).ok_or(Failure::UnknownName)?);
        Ok(())
    }))
}

fn law_info(index: u32) -> Option<poseidon_law_info> {
    let law = LAWS.get(usize::try_from(index).ok()?)?;
    let params = AnyParams::for_law(law.name)?;
    // The preset `paper` always exists.
    let mut presets = 1;
    params.for_each_preset(&mut |_, _| presets += 1);
    Some(poseidon_law_info {
        param_count: count(law.params.len()),
        preset_count: presets,
        needs: bits_from_signals(params.needs()),
        state_bytes: law.state_bytes as u64,
        name: poseidon_text::new(law.name),
        source: poseidon_text::new(law.source),
        ..poseidon_law_info::ZERO
    })
}

/// Describes a law's parameter with this index, below param_count of the law.
///
/// # Safety
///
/// law must be null or a text that ends with a zero byte; info must be null or point to a poseidon_param_info.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_param_info_get(
    law: *const c_char,
    index: u32,
    info: *mut poseidon_param_info,
) -> poseidon_status {
    // SAFETY: the caller guarantees the struct.
    let output = unsafe { Output::new(info) };
    status(output.and_then(|output| {
        // SAFETY: the caller guarantees the text.
        let law = unsafe { border::text(law) }?;
        output.write(&param_info(law, index).ok_or(Failure::UnknownName)?);
        Ok(())
    }))
}

fn param_info(law: &str, index: u32) -> Option<poseidon_param_info> {
    let params = AnyParams::for_law(law)?;
    let mut found = None;
    let mut next = 0;
    params.for_each(&mut |param, value| {
        if next == index {
            let mut info = poseidon_param_info {
                name: poseidon_text::new(param.name),
                description: poseidon_text::new(param.description),
                ..poseidon_param_info::ZERO
            };
            // The last byte stays zero.
            let text = Message::<63>::format(format_args!("{value}"));
            for (slot, byte) in info.default_value.iter_mut().zip(text.as_bytes()) {
                *slot = byte.cast_signed() as c_char;
            }
            found = Some(info);
        }
        next += 1;
    });
    found
}

/// Describes a law's preset with this index, below preset_count of the law. Index 0 is "paper", the default values.
///
/// # Safety
///
/// law must be null or a text that ends with a zero byte; info must be null or point to a poseidon_preset_info.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_preset_info_get(
    law: *const c_char,
    index: u32,
    info: *mut poseidon_preset_info,
) -> poseidon_status {
    // SAFETY: the caller guarantees the struct.
    let output = unsafe { Output::new(info) };
    status(output.and_then(|output| {
        // SAFETY: the caller guarantees the text.
        let law = unsafe { border::text(law) }?;
        output.write(&preset_info(law, index).ok_or(Failure::UnknownName)?);
        Ok(())
    }))
}

fn preset_info(law: &str, index: u32) -> Option<poseidon_preset_info> {
    let params = AnyParams::for_law(law)?;
    let mut found = None;
    let mut next = 0;
    let mut visit = |name, description| {
        if next == index {
            found = Some(poseidon_preset_info {
                name: poseidon_text::new(name),
                description: poseidon_text::new(description),
                ..poseidon_preset_info::ZERO
            });
        }
        next += 1;
    };
    visit(PAPER, "the default values");
    params.for_each_preset(&mut visit);
    found
}

/// Writes the signals that a law needs with these parameters, as POSEIDON_SIGNAL_... bits.
///
/// name and params: as for poseidon_law_init. error: null, or where to write what is wrong.
///
/// # Safety
///
/// The pointers must be null or valid. The texts must end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poseidon_law_needs(
    name: *const c_char,
    params: *const c_char,
    signals: *mut u32,
    error: *mut poseidon_error,
) -> poseidon_status {
    // SAFETY: the caller guarantees the pointer.
    if let Err(failure) = unsafe { border::check_error(error) } {
        return failure.code();
    }
    // SAFETY: the caller guarantees the texts.
    let needs = unsafe { needs(name, params) };
    // SAFETY: the caller guarantees the pointer.
    match needs.and_then(|needs| unsafe { border::write_plain(signals, needs) }.map_err(Report::from)) {
        Ok(()) => 0,
        // SAFETY: the caller guarantees the pointer.
        Err(report) => unsafe { border::fail(&report, error) },
    }
}

/// Returns the bits of the signals that a law needs.
///
/// # Safety
///
/// As for [`poseidon_law_needs`].
unsafe fn needs(name: *const c_char, params: *const c_char) -> Result<u32, Report> {
    // SAFETY: the caller guarantees the text.
    let name = unsafe { border::text(name) }?;
    // SAFETY: the caller guarantees the text.
    let params = unsafe { border::optional_text(params) }?;
    Ok(bits_from_signals(parameters::parse(name, params)?.needs()))
}

/// Converts the length of a table.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
