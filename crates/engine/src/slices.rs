//! Reuse of one allocation for the slices of every `sendmsg`, although the slices of each call
//! borrow from different data.
use std::io::IoSlice;

/// Returns an empty vector with the same allocation for slices of another lifetime. Collecting an
/// emptied vector in place keeps its allocation.
pub fn recycle<'a>(mut slices: Vec<IoSlice<'_>>) -> Vec<IoSlice<'a>> {
    slices.clear();
    slices
        .into_iter()
        .map(|_| unreachable!("the vector is empty"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recycling_keeps_the_allocation() {
        let slices: Vec<IoSlice<'_>> = Vec::with_capacity(1000);
        let before = slices.as_ptr().cast::<u8>();
        let again = recycle(slices);
        assert_eq!(
            (again.capacity(), again.as_ptr().cast::<u8>()),
            (1000, before)
        );
    }
}
