//! Reads: locate the data. A read never waits.

use crate::access::in_flight::{AccessKind, InFlight};
use crate::access::pieces::pieces;
use crate::access::request::{Access, Failure, Outcome, RequestId};
use crate::pool::Pool;
use crate::volume::VolumeId;

impl Pool {
    pub(crate) fn start_read(
        &mut self,
        id: RequestId,
        volume_id: VolumeId,
        offset_bytes: u64,
        length_bytes: u32,
    ) {
        let (volume, epoch_open) = match self.volumes.get(&volume_id) {
            Some(volume) => (volume, None),
            None => match self.rounds.volume_being_deleted(volume_id) {
                Some((volume, epoch)) => (volume, Some(epoch)),
                None => return self.fail(id, Failure::NoVolume),
            },
        };
        if !volume.contains(offset_bytes, length_bytes.into()) {
            return self.fail(id, Failure::OutOfRange);
        }
        let pieces = pieces(volume, self.page_bytes, offset_bytes, length_bytes);
        let epoch = match epoch_open {
            None => self.alloc.epochs.enter(),
            Some(epoch) => {
                self.alloc.epochs.join(epoch);
                epoch
            }
        };
        let access = Access(self.accesses.insert(InFlight {
            id,
            epoch,
            volume: volume_id,
            kind: AccessKind::Read,
        }));
        self.reply(id, Outcome::Ready { access, pieces });
    }
}
