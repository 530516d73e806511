//! Applies a function to many items on all cores.

use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

/// With fewer items, threads cost more than they gain.
const MIN_ITEMS: usize = 64;

/// The most items that a thread takes at once. A thread whose core has other work takes fewer of them.
const MAX_BLOCK: usize = 256;

/// Returns the results in the order of the items.
pub(crate) fn parallel_map<I: Sync, T: Send>(items: &[I], map: impl Fn(&I) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, core::num::NonZero::get);
    if items.len() < MIN_ITEMS || threads == 1 {
        return items.iter().map(map).collect();
    }
    let blocks = Mutex::new(items.chunks(items.len().div_ceil(threads).min(MAX_BLOCK)).enumerate());
    let next_block = || blocks.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        let mut results: Vec<(usize, Vec<T>)> = Vec::new();
        while let Some((number, items)) = next_block() {
            results.push((number, items.iter().map(&map).collect()));
        }
        results
    };
    let mut results: Vec<(usize, Vec<T>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |thread: ScopedJoinHandle<'_, _>| thread.join().expect("the function does not panic");
        threads.into_iter().flat_map(join).collect()
    });
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().flat_map(|(_, results)| results).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_items() {
        for count in [0, 1, 63, 64, 1_001] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(
                parallel_map(&items, |item| item * 2),
                (0..count).map(|item| item * 2).collect::<Vec<_>>()
            );
        }
    }
}
