//! Pointers of C: checks, reads and writes. Every function here refuses what can be recognised as misuse.

#![allow(unsafe_code, reason = "this module reads and writes memory that C owns")]

use crate::error::{Failure, Report, poseidon_status};
use crate::structs::{
    POSEIDON_MAX_TEXT, poseidon_ack, poseidon_decision, poseidon_delay_signal, poseidon_error,
    poseidon_law_info, poseidon_loss, poseidon_param_info, poseidon_path, poseidon_preset_info,
    poseidon_timeout, poseidon_trim,
};
use core::ffi::c_char;
use core::mem::offset_of;
use core::ptr::NonNull;

/// A struct of C that begins with its size in bytes.
///
/// # Safety
///
/// The type must be `repr(C)`, begin with a `u32` that holds the size, and be valid for all bit patterns.
pub(crate) unsafe trait Versioned: Copy {
    /// The size of the struct's first version. It stays the same when fields are added.
    const FIRST_SIZE: usize;
    /// The struct with all bytes zero.
    const ZERO: Self;
}

/// Implements [`Versioned`] for structs that still have their first version.
macro_rules! first_version {
    ($($name:ty),* $(,)?) => {$(
        // SAFETY: the struct is repr(C), begins with the u32 `struct_size` and contains only integers and raw pointers.
        unsafe impl $crate::border::Versioned for $name {
            const FIRST_SIZE: usize = size_of::<Self>();
            const ZERO: Self = <$name>::ZERO;
        }
    )*};
}
pub(crate) use first_version;

// SAFETY: the struct is repr(C), begins with the u32 `struct_size` and contains only integers and raw pointers.
unsafe impl Versioned for poseidon_ack {
    // Version 2 of the interface added `in_flight_bytes`.
    const FIRST_SIZE: usize = offset_of!(Self, in_flight_bytes);
    const ZERO: Self = Self::ZERO;
}

first_version!(
    poseidon_decision,
    poseidon_delay_signal,
    poseidon_error,
    poseidon_law_info,
    poseidon_loss,
    poseidon_param_info,
    poseidon_path,
    poseidon_preset_info,
    poseidon_timeout,
    poseidon_trim,
);

/// The largest struct_size that is believed. It limits how much of the caller's memory a wrong size can make us read.
const MAX_STRUCT_SIZE: usize = 4096;

/// Returns the code of a result without a value.
#[inline]
pub(crate) const fn status(result: Result<(), Failure>) -> poseidon_status {
    match result {
        Ok(()) => 0,
        Err(failure) => failure.code(),
    }
}

/// Returns 1 for yes and 0 for no.
#[inline]
pub(crate) const fn yes_or_no(result: Result<bool, Failure>) -> poseidon_status {
    match result {
        Ok(true) => 1,
        Ok(false) => 0,
        Err(failure) => failure.code(),
    }
}

/// Checks that a pointer is not null and is aligned.
#[inline]
pub(crate) fn check_pointer<T>(pointer: *const T) -> Result<NonNull<T>, Failure> {
    let Some(pointer) = NonNull::new(pointer.cast_mut()) else { return Err(Failure::NullPointer) };
    if !pointer.is_aligned() {
        return Err(Failure::Misaligned);
    }
    Ok(pointer)
}

/// Reads a struct of any version. Fields that the caller's version lacks are zero.
///
/// # Safety
///
/// `pointer` must be null or point to a struct of C that is as large as its first field says.
pub(crate) unsafe fn read<T: Versioned>(pointer: *const T) -> Result<T, Failure> {
    let pointer = check_pointer(pointer)?;
    // SAFETY: the struct begins with a u32, and the pointer is aligned for the struct.
    let size = unsafe { pointer.cast::<u32>().read() } as usize;
    check_size::<T>(size)?;
    let known = size.min(size_of::<T>());
    let mut value = T::ZERO;
    // SAFETY: `known` bytes are readable and fit in `value`, every bit pattern is valid, and `value` is a local variable.
    unsafe { core::ptr::copy_nonoverlapping(pointer.as_ptr().cast::<u8>(), (&raw mut value).cast(), known) };
    for offset in known..size {
        // SAFETY: the offset is below the struct's size.
        let byte = unsafe { pointer.cast::<u8>().add(offset) };
        // SAFETY: the byte is within the struct.
        if unsafe { byte.read() } != 0 {
            return Err(Failure::StructTooNew);
        }
    }
    Ok(value)
}

const fn check_size<T: Versioned>(size: usize) -> Result<(), Failure> {
    if size < T::FIRST_SIZE {
        return Err(Failure::StructTooSmall);
    }
    if size > MAX_STRUCT_SIZE {
        return Err(Failure::StructTooNew);
    }
    Ok(())
}

/// A struct that a function fills for its caller, already checked.
pub(crate) struct Output<T> {
    pointer: NonNull<T>,
    size: usize,
}

impl<T: Versioned> Output<T> {
    /// Checks the pointer and the size.
    ///
    /// # Safety
    ///
    /// `pointer` must be null or point to a struct of C that is writable and as large as its first field says.
    #[inline]
    pub(crate) unsafe fn new(pointer: *mut T) -> Result<Self, Failure> {
        let pointer = check_pointer(pointer)?;
        // SAFETY: the struct begins with a u32, and the pointer is aligned for the struct.
        let size = unsafe { pointer.cast::<u32>().read() } as usize;
        check_size::<T>(size)?;
        Ok(Self { pointer, size })
    }

    /// Writes the fields that the caller's version has. Keeps `struct_size`, and sets unknown fields to zero.
    #[inline]
    pub(crate) fn write(self, value: &T) {
        if self.size == size_of::<T>() {
            self.copy_fields(value, size_of::<T>());
        } else {
            self.write_resized(value);
        }
    }

    /// Copies the fields after `struct_size`, up to byte `end`, which is within both structs.
    #[inline]
    fn copy_fields(&self, value: &T, end: usize) {
        let header = size_of::<u32>();
        // SAFETY: the first version is larger than its first field.
        let source = unsafe { core::ptr::from_ref(value).cast::<u8>().add(header) };
        // SAFETY: as above.
        let target = unsafe { self.pointer.as_ptr().cast::<u8>().add(header) };
        // SAFETY: both structs have `end` bytes, and `value` refers to our own memory.
        unsafe { core::ptr::copy_nonoverlapping(source, target, end - header) };
    }

    #[cold]
    fn write_resized(&self, value: &T) {
        let known = self.size.min(size_of::<T>());
        self.copy_fields(value, known);
        // SAFETY: `known` is at most the size of the caller's struct.
        let rest = unsafe { self.pointer.as_ptr().cast::<u8>().add(known) };
        // SAFETY: the struct has `size` bytes.
        unsafe { core::ptr::write_bytes(rest, 0, self.size - known) };
    }
}

/// Writes a report if the caller wants one, and returns the code.
///
/// # Safety
///
/// `error` must be null or as for [`Output::new`].
pub(crate) unsafe fn fail(report: &Report, error: *mut poseidon_error) -> poseidon_status {
    if error.is_null() {
        return report.failure.code();
    }
    // SAFETY: the caller guarantees the pointer.
    match unsafe { Output::new(error) } {
        Ok(output) => {
            output.write(&poseidon_error::from_report(report));
            report.failure.code()
        }
        Err(failure) => failure.code(),
    }
}

/// Checks the pointer and the size of an optional error struct before a function does anything.
///
/// # Safety
///
/// `error` must be null or as for [`Output::new`].
pub(crate) unsafe fn check_error(error: *mut poseidon_error) -> Result<(), Failure> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the caller guarantees the pointer.
    unsafe { Output::new(error) }.map(|_| ())
}

/// Returns a text that ends with a zero byte, without that byte.
///
/// # Safety
///
/// `pointer` must be null or point to bytes that end with a zero byte and are valid for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char) -> Result<&'a str, Failure> {
    let pointer = check_pointer(pointer.cast::<u8>())?;
    let mut length = 0;
    loop {
        // SAFETY: no byte before this one is zero, so this byte belongs to the text.
        let byte = unsafe { pointer.add(length) };
        // SAFETY: as above.
        if unsafe { byte.read() } == 0 {
            break;
        }
        length += 1;
        if length > POSEIDON_MAX_TEXT {
            return Err(Failure::Text);
        }
    }
    // SAFETY: the text has `length` bytes.
    let bytes = unsafe { core::slice::from_raw_parts(pointer.as_ptr(), length) };
    core::str::from_utf8(bytes).map_err(|_| Failure::Text)
}

/// Returns a text that may be missing. A null pointer is an empty text.
///
/// # Safety
///
/// As for [`text`].
pub(crate) unsafe fn optional_text<'a>(pointer: *const c_char) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Ok("");
    }
    // SAFETY: the caller guarantees the pointer.
    unsafe { text(pointer) }
}

/// Checks a buffer's pointer and size.
fn check_buffer(pointer: *const u8, size: usize) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(Failure::NullPointer);
    }
    // No object is larger than half of the address space, so a larger size is a negative number.
    if isize::try_from(size).is_err() {
        return Err(Failure::Truncated);
    }
    Ok(())
}

/// Returns a buffer.
///
/// # Safety
///
/// `pointer` must be null or point to `size` readable bytes that nobody changes during `'a`.
pub(crate) unsafe fn bytes<'a>(pointer: *const u8, size: usize) -> Result<&'a [u8], Failure> {
    check_buffer(pointer, size)?;
    // SAFETY: the caller guarantees `size` bytes.
    Ok(unsafe { core::slice::from_raw_parts(pointer, size) })
}

/// Returns a buffer that can be changed.
///
/// # Safety
///
/// `pointer` must be null or point to `size` writable bytes that nobody else uses during `'a`.
pub(crate) unsafe fn bytes_mut<'a>(pointer: *mut u8, size: usize) -> Result<&'a mut [u8], Failure> {
    check_buffer(pointer, size)?;
    // SAFETY: the caller guarantees `size` bytes.
    Ok(unsafe { core::slice::from_raw_parts_mut(pointer, size) })
}

/// Reads a value of a type that is valid for all bit patterns.
///
/// # Safety
///
/// `pointer` must be null or point to a value, and all bit patterns must be valid for `T`.
pub(crate) unsafe fn read_plain<T: Copy>(pointer: *const T) -> Result<T, Failure> {
    let pointer = check_pointer(pointer)?;
    // SAFETY: the caller guarantees the value.
    Ok(unsafe { pointer.read() })
}

/// Writes a value.
///
/// # Safety
///
/// `pointer` must be null or point to writable memory for a value.
pub(crate) unsafe fn write_plain<T: Copy>(pointer: *mut T, value: T) -> Result<(), Failure> {
    let pointer = check_pointer(pointer)?;
    // SAFETY: the caller guarantees the memory.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Returns a table of values that are valid for all bit patterns.
///
/// # Safety
///
/// `pointer` must be null or point to `count` values that nobody changes during `'a`, and all bit patterns must be valid
/// for `T`.
pub(crate) unsafe fn table<'a, T: Copy>(pointer: *const T, count: usize) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    let pointer = check_pointer(pointer)?;
    // No object is larger than half of the address space.
    let fits = count.checked_mul(size_of::<T>()).is_some_and(|size| isize::try_from(size).is_ok());
    if !fits {
        return Err(Failure::Truncated);
    }
    // SAFETY: the caller guarantees `count` values.
    Ok(unsafe { core::slice::from_raw_parts(pointer.as_ptr(), count) })
}
