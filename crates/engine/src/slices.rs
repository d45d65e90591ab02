//! Reuse of one allocation for the slices of every `sendmsg`, although each call's slices borrow
//! from other data.
use std::io::IoSlice;

/// Returns the same memory for slices of another lifetime. Collecting an emptied vector in place
/// keeps its allocation.
pub fn recycle<'a>(mut slices: Vec<IoSlice<'_>>) -> Vec<IoSlice<'a>> {
    slices.clear();
    slices
        .into_iter()
        .map(|_| unreachable!("it is empty"))
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
