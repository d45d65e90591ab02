//! What a session may do to an LU that the access list shows it read-only: look, and nothing that anyone else would notice.

use hakaru_wire::scsi::Cdb;

use super::reservation::need;
use crate::reservations::Need;

/// Whether a command changes the medium, or what others find or may do. Commands that are not named here and not harmless to a reservation do.
pub(super) fn changes(cdb: &Cdb) -> bool {
    match cdb {
        Cdb::PersistentReserveOut(_)
        | Cdb::Reserve
        | Cdb::StartStopUnit(_)
        | Cdb::PreventAllowMediumRemoval { .. } => true,
        Cdb::ModeSense(_)
        | Cdb::SynchronizeCache { .. }
        | Cdb::ReportSupportedOpcodes { .. }
        | Cdb::ReportSupportedTaskManagement { .. }
        | Cdb::ReceiveCopyResults { .. } => false,
        _ => need(cdb) == Need::Write,
    }
}
