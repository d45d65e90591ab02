//! Frames on their way out of the `fabric` engine, written by the shell or by the writer's thread.
use hakaru_fabric::OutFrame;
use hakaru_runtime::packet::{BATCH, Cut, Offload, Outgoing, Packets};
use hakaru_runtime::vhost_user::Accepts;
use hakaru_units::Time;

/// A batch of frames that one call writes to one interface.
pub(super) struct Leaving {
    frames: Vec<OutFrame>,
    /// Rewritten headers, one slot per frame of a full batch.
    heads: Vec<Vec<u8>>,
    dues: Vec<Time>,
    /// Frames that were segmented, and whose checksums were filled in, for a guest.
    finished: Vec<Vec<u8>>,
}

impl Default for Leaving {
    fn default() -> Leaving {
        Leaving {
            frames: Vec::with_capacity(BATCH),
            heads: vec![Vec::new(); BATCH],
            dues: Vec::with_capacity(BATCH),
            finished: Vec::new(),
        }
    }
}

impl Leaving {
    /// Least number of packets worth handing to the writer's thread. The thread that read them
    /// writes smaller batches itself, super-frames included. Writing a super-frame is mostly
    /// copying, which is faster on the processor that has the bytes in its cache. On two
    /// processors, the hosts need the other processor for their own copying.
    const HANDED_OVER_MIN: usize = 16;

    pub(super) fn push(&mut self, frame: OutFrame) {
        self.dues.push(frame.due());
        self.frames.push(frame);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.frames.len() >= BATCH
    }

    /// Returns whether the batch is large enough to wake the writer's thread for it.
    pub(super) fn is_large(&self) -> bool {
        self.frames.len() >= Self::HANDED_OVER_MIN
    }

    /// Returns the due instants of the frames. They are kept until the batch is cleared, even after
    /// the frames were released.
    pub(super) fn dues(&self) -> &[Time] {
        &self.dues
    }

    /// Returns the packets in order, with no work left that the receiving guest does not accept.
    pub(super) fn finished(&mut self, accepts: Accepts) -> Vec<Outgoing<'_>> {
        let mut count = 0;
        for frame in self.frames.iter().filter(|f| is_unfinished(f, accepts)) {
            for single in frame.singles() {
                if count == self.finished.len() {
                    self.finished.push(Vec::new());
                }
                single.emit_finished(&mut self.finished[count]);
                count += 1;
            }
        }
        let mut finished = self.finished[..count].iter();
        let mut packets = Vec::with_capacity(self.frames.len());
        for (frame, head) in self.frames.iter().zip(&mut self.heads) {
            if is_unfinished(frame, accepts) {
                let singles = finished.by_ref().take(frame.singles().count());
                packets.extend(singles.map(|body| Outgoing {
                    head: &[],
                    body,
                    offload: Offload::default(),
                }));
            } else {
                packets.push(outgoing(frame, head));
            }
        }
        packets
    }

    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.dues.clear();
    }
}

impl Packets for Leaving {
    fn outgoing(&mut self) -> Vec<Outgoing<'_>> {
        let all = self.frames.iter().zip(&mut self.heads);
        all.map(|(frame, head)| outgoing(frame, head)).collect()
    }

    fn release(&mut self) {
        self.frames.clear();
    }
}

/// Returns whether work is left to the receiver that it does not accept.
fn is_unfinished(frame: &OutFrame, accepts: Accepts) -> bool {
    let is_super_frame = frame.segmentation().is_some();
    is_super_frame && (!accepts.super_frames || frame.is_udp())
        || frame.checksum().is_some() && !accepts.checksum
}

fn outgoing<'a>(frame: &'a OutFrame, head: &'a mut Vec<u8>) -> Outgoing<'a> {
    let body = frame.emit(head);
    Outgoing {
        head,
        body,
        offload: offload_of(frame),
    }
}

fn offload_of(frame: &OutFrame) -> Offload {
    let segmentation = frame.segmentation().map(|cut| Cut {
        udp: frame.is_udp(),
        header_bytes: cut.header_bytes,
        payload_bytes: cut.payload_bytes,
    });
    Offload {
        checksum: frame.checksum(),
        segmentation,
    }
}
