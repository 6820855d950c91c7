//! Work on several threads where the feature `parallel` is on, on one where it is not. What is done
//! is the same: results never depend on it.

/// Does both, at once if there are threads to spare.
pub fn both<A: Send, B: Send>(
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B + Send,
) -> (A, B) {
    #[cfg(feature = "parallel")]
    return rayon::join(first, second);
    #[cfg(not(feature = "parallel"))]
    (first(), second())
}

/// Does the same with each of these.
pub fn for_each<T: Send>(items: &mut [T], work: impl Fn(&mut T) + Send + Sync) {
    #[cfg(feature = "parallel")]
    rayon::iter::ParallelIterator::for_each(
        rayon::iter::IntoParallelRefMutIterator::par_iter_mut(items),
        work,
    );
    #[cfg(not(feature = "parallel"))]
    items.iter_mut().for_each(work);
}

/// What each of these becomes, in their order.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Send + Sync) -> Vec<R> {
    #[cfg(feature = "parallel")]
    return rayon::iter::ParallelIterator::collect(rayon::iter::ParallelIterator::map(
        rayon::iter::IntoParallelRefIterator::par_iter(items),
        work,
    ));
    #[cfg(not(feature = "parallel"))]
    items.iter().map(work).collect()
}
