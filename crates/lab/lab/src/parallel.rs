//! Applies a function to many items on all cores.

/// With fewer items, threads cost more than they gain.
const MIN_ITEMS: usize = 64;

/// Returns the results in the order of the items.
pub(crate) fn parallel_map<I: Sync, T: Send>(items: &[I], map: impl Fn(&I) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, core::num::NonZero::get);
    if items.len() < MIN_ITEMS || threads == 1 {
        return items.iter().map(map).collect();
    }
    std::thread::scope(|scope| {
        let map = &map;
        let spawn = |items| scope.spawn(move || Iterator::map(<[I]>::iter(items), map).collect::<Vec<T>>());
        let handles: Vec<_> = items.chunks(items.len().div_ceil(threads)).map(spawn).collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("the function does not panic")).collect()
    })
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
