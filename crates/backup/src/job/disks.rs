//! Jobs on disks: the shell opens the disks, and executes the requests.
use hakaru_iscsi_session::{Done, Phases, Volume};
use hakaru_stats::Latencies;
use hakaru_units::Time;

use super::{Job, Leg};
use crate::disk::DiskRequest;

impl Job {
    /// Accepts the size of a leg's disk, which is open now.
    pub fn handle_opened(&mut self, leg: Leg, volume: Volume) {
        self.volumes[leg.side() as usize] = Some(volume);
        self.join();
    }

    /// Returns the next request to a disk, and its leg.
    pub fn poll_disk(&mut self) -> Option<(Leg, DiskRequest)> {
        self.legs.all().find_map(|leg| {
            let request = self.legs.disk(leg)?.poll_request()?;
            Some((leg, request))
        })
    }

    /// Handles a request that the disk of a leg has executed: `moved` bytes were read or written.
    /// `data` are those of a read.
    pub fn handle_disk_done(
        &mut self,
        now: Time,
        leg: Leg,
        tag: u32,
        moved: u32,
        data: &[u8],
        latencies: &mut Latencies,
    ) {
        let Some(disk) = self.legs.disk(leg) else {
            return;
        };
        let done = Done {
            tag,
            result: Ok(moved),
            ended: now,
            phases: Phases::default(),
            busies: 0,
            data: disk.copy_of(data),
        };
        self.handle_done(now, leg, done, latencies);
    }
}
