//! Which command needs which access (SPC-4 table 66, SBC-3 table 13).

use crate::reservations::Need;
use hakaru_wire::scsi::{Cdb, StartStopUnit};

/// Commands that are not named here change something, or are of those that the tables allow nobody else.
pub(crate) fn need(cdb: &Cdb) -> Need {
    match cdb {
        // PERSISTENT RESERVE IN and OUT, RESERVE and RELEASE look for themselves.
        Cdb::Inquiry { .. }
        | Cdb::ReportLuns { .. }
        | Cdb::RequestSense { .. }
        | Cdb::TestUnitReady
        | Cdb::ReadCapacity10
        | Cdb::ReadCapacity16 { .. }
        | Cdb::LogSense(_)
        | Cdb::PreventAllowMediumRemoval { prevent: 0 }
        | Cdb::ReportTargetPortGroups { .. }
        | Cdb::StartStopUnit(StartStopUnit {
            start: true,
            power_condition: 0,
            ..
        })
        | Cdb::PersistentReserveIn { .. }
        | Cdb::PersistentReserveOut(_)
        | Cdb::Reserve
        | Cdb::Release => Need::Nothing,
        Cdb::Read(_)
        | Cdb::Verify(_)
        | Cdb::PreFetch { .. }
        | Cdb::GetLbaStatus { .. }
        | Cdb::ReadDefectData(_) => Need::Read,
        _ => Need::Write,
    }
}
