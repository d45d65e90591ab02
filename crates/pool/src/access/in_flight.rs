//! Accesses in flight, and the reasons why requests wait.

use crate::access::pieces::{Piece, Pieces};
use crate::access::request::RequestId;
use crate::action::ActionFailure;
use crate::map::PageId;
use crate::place::Place;
use crate::volume::VolumeId;

/// An access with resolved pages.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) id: RequestId,
    pub(crate) epoch: u64,
    pub(crate) volume: VolumeId,
    pub(crate) kind: AccessKind,
}

#[derive(Debug)]
pub(crate) enum AccessKind {
    Read,
    Write(Writing),
    Unmap(Zeroing),
}

/// A set of groups.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Groups([u64; 4]);

impl Groups {
    pub(crate) fn of(pieces: &Pieces) -> Groups {
        let mut groups = Groups::default();
        for piece in pieces {
            if let Piece::Data { place, .. } = piece {
                groups.0[place.group.index() / 64] |= 1 << (place.group.index() % 64);
            }
        }
        groups
    }

    pub(crate) fn contains(self, index: usize) -> bool {
        self.0[index / 64] & (1 << (index % 64)) != 0
    }
}

/// A page that is copied because other volumes share it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copying {
    /// Page of the volume.
    pub(crate) page: u64,
    /// Destination of the copy.
    pub(crate) to: PageId,
}

/// Copies in progress for one access. Until all are done, the pages of the access are busy.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    pub(crate) all: Vec<Copying>,
    /// Number of copies that have not ended.
    pub(crate) left: usize,
    pub(crate) failure: Option<ActionFailure>,
    /// Busy pages of the volume, as (first, last).
    pub(crate) busy: Vec<(u64, u64)>,
}

/// A write in flight.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) offset_bytes: u64,
    pub(crate) length_bytes: u32,
    pub(crate) fua: bool,
    pub(crate) copies: Copies,
    pub(crate) groups: Groups,
}

/// A part of a page to zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Page of the volume.
    pub(crate) page: u64,
    pub(crate) within_bytes: u32,
    pub(crate) length_bytes: u32,
}

/// An unmapping in flight: copies of shared pages, followed by zeroing of parts.
#[derive(Debug)]
pub(crate) struct Zeroing {
    pub(crate) fua: bool,
    pub(crate) copies: Copies,
    pub(crate) parts: Vec<Part>,
    /// Places being zeroed. Empty until zeroing starts.
    pub(crate) places: Vec<Place>,
    pub(crate) zeroes_left: usize,
    pub(crate) failure: Option<ActionFailure>,
}

/// Outcome of an attempt to start a request.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// The request has started, and may be complete.
    Started,
    /// The request must wait, and is retried later.
    Wait(WaitFor),
}

/// Event for which a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// A page has been copied, or the writes to a volume have ended.
    Others,
    /// Pages that are being freed become available.
    Space,
    /// Pages are deallocated or added.
    Room,
}
