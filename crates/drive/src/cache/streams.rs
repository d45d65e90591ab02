//! Detection of sequential reads, and the ranges to read ahead of them.
use std::ops::Range;

/// Maximum number of streams tracked, over all groups. A new stream replaces the least recently
/// used one.
const STREAMS_MAX: usize = 64;
/// Maximum distance of a read from its stream's position, in multiples of its length. It is above 0
/// because outstanding reads arrive out of order.
const SLACK: u64 = 4;

/// A sequence of reads.
#[derive(Clone, Debug)]
struct Stream {
    group: u32,
    /// Sector after the last one read.
    next: u64,
    /// Number of consecutive reads.
    run: u32,
    /// Sector up to which data has been read ahead.
    ahead_until: u64,
    /// Value of [`Streams::reads`] at the last read.
    last_used: u64,
}

/// The streams that are tracked.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    /// Number of sectors read ahead at a time; 0 disables read-ahead.
    chunk: u64,
    /// Number of consecutive reads after which read-ahead starts.
    after: u32,
    streams: Vec<Stream>,
    /// Number of reads observed.
    reads: u64,
}

impl Streams {
    pub(super) fn new(chunk_sectors: u64, after: u32) -> Streams {
        Streams {
            chunk: chunk_sectors,
            after,
            streams: Vec::new(),
            reads: 0,
        }
    }

    /// Observes a read of a group. Returns the range to read ahead, if any, which keeps the data
    /// read ahead of a stream between one and two chunks.
    pub(super) fn observe(&mut self, group: u32, read: &Range<u64>) -> Option<Range<u64>> {
        if self.chunk == 0 {
            return None;
        }
        self.reads += 1;
        let slack = SLACK * (read.end - read.start);
        let stream = self
            .streams
            .iter_mut()
            .find(|s| s.group == group && s.next.abs_diff(read.start) <= slack);
        let Some(stream) = stream else {
            self.track(group, read);
            return None;
        };
        stream.last_used = self.reads;
        if read.end <= stream.next {
            return None;
        }
        stream.next = read.end;
        stream.run = stream.run.saturating_add(1);
        let from = stream.ahead_until.max(stream.next);
        if stream.run < self.after || from >= stream.next + self.chunk {
            return None;
        }
        stream.ahead_until = from + self.chunk;
        Some(from..stream.ahead_until)
    }

    fn track(&mut self, group: u32, read: &Range<u64>) {
        let stream = Stream {
            group,
            next: read.end,
            run: 1,
            ahead_until: 0,
            last_used: self.reads,
        };
        if self.streams.len() < STREAMS_MAX {
            self.streams.push(stream);
        } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|s| s.last_used) {
            *oldest = stream;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams() -> Streams {
        Streams::new(100, 3)
    }

    #[test]
    fn read_ahead_starts_at_the_third_read_and_stays_one_to_two_chunks_ahead() {
        let mut streams = streams();
        assert_eq!(streams.observe(0, &(0..10)), None);
        assert_eq!(streams.observe(0, &(10..20)), None);
        let mut until = 20;
        for i in 2..100 {
            if let Some(ahead) = streams.observe(0, &(10 * i..10 * i + 10)) {
                assert_eq!(ahead, until.max(10 * i + 10)..ahead.end);
                until = ahead.end;
            }
            let distance = until - (10 * i + 10);
            assert!((100..=200).contains(&distance), "{distance} after read {i}");
        }
    }

    #[test]
    fn two_streams_of_one_group_are_distinguished_despite_slightly_shuffled_reads() {
        let mut streams = streams();
        let mut ahead = 0;
        for i in 0..50 {
            let i = i ^ 1;
            ahead += usize::from(streams.observe(0, &(10 * i..10 * i + 10)).is_some());
            ahead += usize::from(
                streams
                    .observe(0, &(9000 + 10 * i..9010 + 10 * i))
                    .is_some(),
            );
        }
        assert!(ahead >= 8, "{ahead}");
    }

    #[test]
    fn random_reads_are_no_stream() {
        let mut streams = streams();
        for i in 0..1000_u64 {
            let at = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
            assert_eq!(streams.observe(0, &(at..at + 8)), None);
        }
    }
}
