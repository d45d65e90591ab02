//! Accesses that are under way, and the reasons for which they wait.

use crate::access::pieces::{Piece, Pieces};
use crate::access::request::RequestId;
use crate::action::ActionFailure;
use crate::map::PageId;
use crate::place::Place;
use crate::volume::VolumeId;

/// An access that knows its pages.
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
    pub(crate) to: PageId,
}

/// Copies under way for one access. Until all are done the pages of the access are busy.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    pub(crate) all: Vec<Copying>,
    pub(crate) left: usize,
    pub(crate) failure: Option<ActionFailure>,
    /// Pages of the volume that are busy: first and last.
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

/// A part of a page that is to read as zeros.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Page of the volume.
    pub(crate) page: u64,
    pub(crate) within_bytes: u32,
    pub(crate) length_bytes: u32,
}

/// An unmapping in flight: first copies of pages that others share, then zeroes.
#[derive(Debug)]
pub(crate) struct Zeroing {
    pub(crate) fua: bool,
    pub(crate) copies: Copies,
    pub(crate) parts: Vec<Part>,
    /// Where the zeroes go, once they are under way.
    pub(crate) places: Vec<Place>,
    pub(crate) zeroes_left: usize,
    pub(crate) failure: Option<ActionFailure>,
}

/// The outcome of an attempt to begin a request.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// It is under way, or over.
    Begun,
    /// It has to wait, and is tried again.
    Wait(WaitFor),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// A page being copied, or the end of the writes to a volume.
    Others,
    /// Pages that are being freed.
    Space,
    /// Pages that are given back or added.
    Room,
}
