//! Frames on their way out of the `fabric` engine, written by the shell or by the writer's thread.
use hakaru_fabric::OutFrame;
use hakaru_runtime::packet::{BATCH, Cut, Offload, Outgoing, Packets};
use hakaru_units::Time;

/// What goes out to one interface in one call.
pub(super) struct Leaving {
    frames: Vec<OutFrame>,
    /// Headers that were written anew, one for each frame that may be.
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
    /// So many packets for one interface are worth handing to the writer's thread. Fewer are written where they are, super-frames too: those are little
    /// but copying, which is faster where the bytes were read, and on two processors the hosts' own copying needs the other.
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

    /// Waking up another thread for it pays.
    pub(super) fn is_much(&self) -> bool {
        self.frames.len() >= Self::HANDED_OVER_MIN
    }

    /// When each was due; until it is cleared, also after they were released.
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
