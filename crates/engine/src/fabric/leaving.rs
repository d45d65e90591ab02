//! Frames on their way out of the `fabric` engine, written by the shell or by the writer's thread.
use hakaru_fabric::OutFrame;
use hakaru_runtime::packet::{BATCH, Cut, Offload, Outgoing, Packets};
use hakaru_units::Time;

/// A batch of frames that one call writes to one interface.
pub(super) struct Leaving {
    frames: Vec<OutFrame>,
    /// Rewritten headers, one slot per frame of a full batch.
    heads: Vec<Vec<u8>>,
    dues: Vec<Time>,
}

impl Default for Leaving {
    fn default() -> Leaving {
        Leaving {
            frames: Vec::with_capacity(BATCH),
            heads: vec![Vec::new(); BATCH],
            dues: Vec::with_capacity(BATCH),
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

    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.dues.clear();
    }
}

impl Packets for Leaving {
    fn outgoing(&mut self) -> Vec<Outgoing<'_>> {
        let all = self.frames.iter().zip(&mut self.heads);
        all.map(|(frame, head)| {
            let body = frame.emit(head);
            Outgoing {
                head,
                body,
                offload: offload_of(frame),
            }
        })
        .collect()
    }

    fn release(&mut self) {
        self.frames.clear();
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
