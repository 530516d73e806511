//! The state of a flow in memory of C: a law behind a word that shows whether it is initialised.

#![allow(unsafe_code, reason = "this module reads and writes memory that C owns")]

use crate::border::check_pointer;
use crate::error::Failure;
use poseidon_laws::registry::Poseidon;
use poseidon_laws::{AnyLaw, Law};

/// A law that can be a flow's state.
pub(crate) trait Stored: Law {
    /// The word before an initialised law. It depends on the law's size, so that the state of another build is
    /// recognised in most cases.
    const MAGIC: u64;
    /// The word before Poseidon if it follows the paper: one comparison then finds the most frequent case.
    const PAPER_MAGIC: u64 = Self::MAGIC ^ 1;
    /// Whether the law may read hop records. If not, the pointer to them is not checked.
    const READS_HOPS: bool;

    /// Returns the law if it is Poseidon and follows the paper.
    fn as_paper(&mut self) -> Option<&mut Poseidon>;
}

impl Stored for AnyLaw {
    const MAGIC: u64 = u64::from_be_bytes(*b"psdnlaw1") ^ size_of::<Self>() as u64;
    const READS_HOPS: bool = true;

    #[inline(always)]
    fn as_paper(&mut self) -> Option<&mut Poseidon> {
        match self {
            Self::Poseidon(poseidon) => poseidon.as_paper(),
            _ => None,
        }
    }
}

impl Stored for Poseidon {
    const MAGIC: u64 = u64::from_be_bytes(*b"psdnflo1") ^ size_of::<Self>() as u64;
    const READS_HOPS: bool = false;

    #[inline(always)]
    fn as_paper(&mut self) -> Option<&mut Poseidon> {
        self.follows_paper().then_some(self)
    }
}

// The sizes are even, so the last bit distinguishes the two words.
const _: () = assert!(size_of::<AnyLaw>().is_multiple_of(2) && size_of::<Poseidon>().is_multiple_of(2));

/// A flow's state. C may copy its bytes, so it must not own anything.
#[repr(C)]
pub(crate) struct State<L> {
    magic: u64,
    law: L,
}

// A state that needs no destructor owns nothing, so its bytes may be copied and forgotten.
const _: () = assert!(!core::mem::needs_drop::<State<AnyLaw>>());
const _: () = assert!(!core::mem::needs_drop::<State<Poseidon>>());
// The constants of the header leave room for the states.
const _: () = assert!(size_of::<State<AnyLaw>>() <= crate::structs::POSEIDON_LAW_SIZE);
const _: () = assert!(size_of::<State<Poseidon>>() <= crate::structs::POSEIDON_FLOW_SIZE);
const _: () = assert!(align_of::<State<AnyLaw>>() <= crate::structs::POSEIDON_LAW_ALIGN);
const _: () = assert!(align_of::<State<Poseidon>>() <= crate::structs::POSEIDON_LAW_ALIGN);

/// Checks memory for a new state.
pub(crate) fn check_memory<L: Stored>(memory: *const u8, size: usize) -> Result<(), Failure> {
    check_pointer(memory.cast::<State<L>>())?;
    if size < size_of::<State<L>>() { Err(Failure::StateTooSmall) } else { Ok(()) }
}

/// Stores a law.
///
/// # Safety
///
/// `memory` must be null or point to `size` writable bytes that nobody else uses during the call.
pub(crate) unsafe fn store<L: Stored>(memory: *mut u8, size: usize, mut law: L) -> Result<(), Failure> {
    check_memory::<L>(memory, size)?;
    let magic = if law.as_paper().is_some() { L::PAPER_MAGIC } else { L::MAGIC };
    // SAFETY: the memory is large enough and aligned, and the caller guarantees that it is writable.
    unsafe { memory.cast::<State<L>>().write(State { magic, law }) };
    Ok(())
}

/// Checks that memory holds a state of type `L`.
///
/// # Safety
///
/// `memory` must be null or point to readable memory of the size of the state.
#[inline]
unsafe fn check_state<L: Stored>(memory: *const u8) -> Result<*const State<L>, Failure> {
    let state = check_pointer(memory.cast::<State<L>>())?;
    // SAFETY: the magic word is the first field of the struct, and all bit patterns are valid for it.
    let magic = unsafe { state.cast::<u64>().read() };
    if magic != L::MAGIC && magic != L::PAPER_MAGIC {
        return Err(Failure::NotInitialised);
    }
    Ok(state.as_ptr())
}

/// Returns a flow's law.
///
/// # Safety
///
/// `memory` must be null or point to memory of the size of the state. Nobody may write to it during `'a`. If it begins
/// with the magic word, [`store`] has written it, or it is a copy of what [`store`] has written.
#[inline]
pub(crate) unsafe fn law<'a, L: Stored>(memory: *const u8) -> Result<&'a L, Failure> {
    // SAFETY: the caller guarantees the memory.
    let state = unsafe { check_state::<L>(memory) }?;
    // SAFETY: the magic word shows that the memory holds a state.
    Ok(unsafe { &(*state).law })
}

/// Returns a flow's law, to change it.
///
/// # Safety
///
/// As for [`law`], and nobody else may use the memory during `'a`.
#[inline]
pub(crate) unsafe fn law_mut<'a, L: Stored>(memory: *mut u8) -> Result<&'a mut L, Failure> {
    // SAFETY: the caller guarantees the memory.
    let state = unsafe { check_state::<L>(memory) }?.cast_mut();
    // SAFETY: the magic word shows that the memory holds a state, and the caller guarantees exclusive use.
    Ok(unsafe { &mut (*state).law })
}

/// Returns a flow's law if it is Poseidon and follows the paper, which one comparison shows.
///
/// # Safety
///
/// `memory` must be aligned and not null. As for [`law_mut`] otherwise.
#[inline(always)]
pub(crate) unsafe fn paper_mut<'a, L: Stored + 'a>(memory: *mut u8) -> Option<&'a mut Poseidon> {
    let state = memory.cast::<State<L>>();
    // SAFETY: the magic word is the first field of the struct, and all bit patterns are valid for it.
    if unsafe { state.cast::<u64>().read() } != L::PAPER_MAGIC {
        return None;
    }
    // SAFETY: the magic word shows that the memory holds a state, and the caller guarantees exclusive use.
    let law = unsafe { &mut (*state).law };
    match law.as_paper() {
        Some(poseidon) => Some(poseidon),
        // SAFETY: `store` wrote this word because the law was Poseidon and followed the paper, which never changes.
        None => unsafe { core::hint::unreachable_unchecked() },
    }
}

/// Marks a state as not initialised.
///
/// # Safety
///
/// As for [`law_mut`].
pub(crate) unsafe fn destroy<L: Stored>(memory: *mut u8) -> Result<(), Failure> {
    // SAFETY: the caller guarantees the memory.
    let state = unsafe { check_state::<L>(memory) }?.cast_mut();
    // SAFETY: the magic word is the first field of the struct.
    unsafe { state.cast::<u64>().write(0) };
    Ok(())
}
