//! Bytes kept for another reading, with their arrival times.
use crate::clock::Stamp;

/// Bytes of one direction, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    bytes: Vec<u8>,
    marks: Vec<Mark>,
}

/// Beginning of a run of bytes with one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    at: usize,
    stamp: Stamp,
    /// Whether a packet begins here.
    begins_packet: bool,
}

impl Window {
    /// Creates a window from a part of a packet that is not its beginning.
    pub(crate) fn within_packet(stamp: Stamp, bytes: &[u8]) -> Window {
        let mut window = Window::default();
        window.push(Run {
            stamp,
            bytes,
            begins_packet: false,
        });
        window
    }

    pub(crate) fn push(&mut self, run: Run<'_>) {
        if run.bytes.is_empty() {
            return;
        }
        self.marks.push(Mark {
            at: self.bytes.len(),
            stamp: run.stamp,
            begins_packet: run.begins_packet,
        });
        self.bytes.extend_from_slice(run.bytes);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns whether the bytes of a packet begin at this index.
    pub(crate) fn is_begin_of_packet(&self, at: usize) -> bool {
        let mark = self.marks.binary_search_by_key(&at, |mark| mark.at);
        mark.is_ok_and(|mark| self.marks[mark].begins_packet)
    }

    /// Removes the first `count` bytes.
    pub(crate) fn drop_front(&mut self, count: usize) {
        self.bytes.drain(..count);
        let first = self.marks.partition_point(|mark| mark.at <= count);
        self.marks.drain(..first.saturating_sub(1));
        for mark in &mut self.marks {
            mark.begins_packet &= mark.at >= count;
            mark.at = mark.at.saturating_sub(count);
        }
        if self.bytes.is_empty() {
            self.marks.clear();
        }
    }

    /// Returns the runs of bytes with one time, in order.
    pub(crate) fn runs(&self) -> impl DoubleEndedIterator<Item = Run<'_>> {
        (0..self.marks.len()).map(|number| {
            let mark = self.marks[number];
            let end = self
                .marks
                .get(number + 1)
                .map_or(self.bytes.len(), |next| next.at);
            Run {
                stamp: mark.stamp,
                bytes: &self.bytes[mark.at..end],
                begins_packet: mark.begins_packet,
            }
        })
    }
}

/// Captured bytes with one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    pub(crate) stamp: Stamp,
    pub(crate) bytes: &'a [u8],
    pub(crate) begins_packet: bool,
}
