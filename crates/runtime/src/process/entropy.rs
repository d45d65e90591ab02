//! Unpredictable random bytes from the kernel's generator.
use rustix::rand::{GetRandomFlags, getrandom};

/// Fills `out` with random bytes.
///
/// # Panics
/// If the kernel lacks the generator (before Linux 3.17), because secrets would be predictable.
pub fn fill(out: &mut [u8]) {
    let mut rest = out;
    while !rest.is_empty() {
        // The call returns early only if a signal arrives before the generator is seeded.
        match getrandom(&mut *rest, GetRandomFlags::empty()) {
            Ok(filled) => rest = &mut rest[filled..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the kernel returned no random bytes: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn a_million_challenges_are_all_different() {
        let mut seen = HashSet::with_capacity(1_000_000);
        for _ in 0..1_000_000 {
            let mut bytes = [0; 16];
            super::fill(&mut bytes);
            assert!(seen.insert(bytes), "{bytes:?} was returned twice");
        }
    }

    #[test]
    fn a_long_slice_is_filled_to_its_end() {
        let mut bytes = vec![0; 100_000];
        super::fill(&mut bytes);
        assert!(
            bytes
                .chunks(100)
                .all(|part| part.iter().any(|byte| *byte != 0))
        );
    }
}
