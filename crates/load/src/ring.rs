//! The ring between a guest and its disk: descriptors and requests in flight.
use hakaru_contract::initiator::GuestQueue;

/// The ring of one guest disk. The contract's [`GuestQueue`] documents its limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    queue: GuestQueue,
    /// Descriptors that no request uses.
    free: u32,
    /// Requests that may be added before the limit of requests in flight is reached.
    room: u32,
}

impl Ring {
    pub(crate) fn new(queue: GuestQueue) -> Ring {
        Ring {
            queue,
            free: queue.ring_descriptors,
            room: queue.in_flight_max.unwrap_or(u32::MAX),
        }
    }

    /// Returns the length of the longest request, bytes.
    pub(crate) fn request_bytes_max(&self) -> u32 {
        self.queue.request_bytes_max()
    }

    /// Adds a request of `bytes`. Returns false if the ring cannot hold it now.
    #[inline]
    pub(crate) fn add(&mut self, bytes: u32) -> bool {
        let descriptors = self.queue.descriptors(bytes);
        let fits = self.room > 0 && descriptors <= self.free;
        if fits {
            self.free -= descriptors;
            self.room -= 1;
        }
        fits
    }

    /// Removes a request of `bytes` that was added.
    #[inline]
    pub(crate) fn remove(&mut self, bytes: u32) {
        self.free += self.queue.descriptors(bytes);
        self.room += 1;
        debug_assert!(self.free <= self.queue.ring_descriptors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(indirect: bool, in_flight_max: Option<u32>) -> Ring {
        Ring::new(GuestQueue {
            ring_descriptors: 128,
            segments_max: 126,
            indirect,
            in_flight_max,
        })
    }

    /// Adds requests of `bytes` until the ring is full and returns their number.
    fn fill(ring: &mut Ring, bytes: u32) -> u32 {
        let mut count = 0;
        while ring.add(bytes) {
            count += 1;
        }
        count
    }

    #[test]
    fn ring_of_128_descriptors_holds_12_requests_of_32_kib_and_one_of_504_kib() {
        for (bytes, count) in [
            (512, 42),
            (4 << 10, 42),
            (32 << 10, 12),
            (64 << 10, 7),
            (504 << 10, 1),
        ] {
            assert_eq!(fill(&mut ring(false, None), bytes), count, "{bytes}");
        }
        assert_eq!(ring(false, None).request_bytes_max(), 504 << 10);
    }

    #[test]
    fn indirect_descriptors_and_the_limit_of_requests_in_flight_hold_for_any_length() {
        assert_eq!(fill(&mut ring(true, None), 504 << 10), 128);
        assert_eq!(fill(&mut ring(true, Some(64)), 504 << 10), 64);
        assert_eq!(fill(&mut ring(false, Some(5)), 512), 5);
    }

    #[test]
    fn removed_requests_leave_room_for_others_of_any_length() {
        let mut ring = ring(false, None);
        assert_eq!(fill(&mut ring, 32 << 10), 12);
        assert!(!ring.add(504 << 10), "8 descriptors are free");
        (0..12).for_each(|_| ring.remove(32 << 10));
        assert!(ring.add(504 << 10));
    }
}
