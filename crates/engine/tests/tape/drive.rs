//! Commands of a tape drive and a changer, as an initiator sends them.
use hakaru_iscsi_session::{Done, TaskData, TaskError};
use hakaru_wire::scsi::{Sense, SenseKey};

use crate::support::client::{Client, Disconnected, incoming, outgoing};

/// Longest block of the tests, bytes.
pub const BLOCK_MAX: u32 = 64 << 10;
/// First addresses of slots and drives.
pub const SLOT: u16 = 0x0400;
pub const DRIVE: u16 = 0x0100;
/// LUN of the changer.
pub const CHANGER: u8 = 0;

/// The end of a command.
#[derive(Debug)]
pub enum End {
    Good(Vec<u8>),
    Check(Sense),
    Lost,
}

impl End {
    /// Whether the command was executed: with GOOD, or written past early warning.
    pub fn done(&self) -> bool {
        match self {
            End::Good(_) => true,
            End::Check(sense) => sense.key == SenseKey::NoSense && sense.stream.end_of_medium,
            End::Lost => false,
        }
    }

    pub fn sense(self) -> Sense {
        match self {
            End::Check(sense) => sense,
            other => panic!("expected CHECK CONDITION, not {other:?}"),
        }
    }

    #[track_caller]
    pub fn good(self) -> Vec<u8> {
        match self {
            End::Good(data) => data,
            other => panic!("expected GOOD, not {other:?}"),
        }
    }
}

/// Sends a command, and again after a unit attention condition.
pub fn run(client: &mut Client, lun: u8, cdb: &[u8], data: impl Fn() -> TaskData) -> End {
    loop {
        let tag = client.submit(lun, cdb, data());
        match end(client.wait(tag)) {
            End::Check(sense) if sense.key == SenseKey::UnitAttention => {}
            other => return other,
        }
    }
}

fn end(done: Result<Done, Disconnected>) -> End {
    match done {
        Ok(done) => match done.result {
            // A short block is not an error (SILI).
            Ok(_) | Err(TaskError::Short { .. }) => End::Good(done.data),
            Err(TaskError::Check(sense)) => End::Check(sense),
            Err(other) => panic!("{other}"),
        },
        Err(Disconnected) => End::Lost,
    }
}

fn six(opcode: u8, flags: u8, count: u32) -> [u8; 6] {
    let count = count.to_be_bytes();
    [opcode, flags, count[1], count[2], count[3], 0]
}

/// Sends a command without data.
pub fn plain(client: &mut Client, lun: u8, cdb: &[u8]) -> End {
    run(client, lun, cdb, || TaskData::None)
}

pub fn write(client: &mut Client, lun: u8, block: &[u8]) -> End {
    let cdb = six(0x0a, 0, block.len() as u32);
    run(client, lun, &cdb, || outgoing(block))
}

/// Writes filemarks; `immediate` leaves them in the buffer.
pub fn filemarks(client: &mut Client, lun: u8, count: u32, immediate: bool) -> End {
    plain(client, lun, &six(0x10, u8::from(immediate), count))
}

pub fn rewind(client: &mut Client, lun: u8) -> End {
    plain(client, lun, &six(0x01, 0, 0))
}

pub fn erase(client: &mut Client, lun: u8) -> End {
    plain(client, lun, &six(0x19, 0, 0))
}

pub fn unload(client: &mut Client, lun: u8) -> End {
    plain(client, lun, &[0x1b, 0, 0, 0, 0, 0])
}

pub fn load(client: &mut Client, lun: u8) -> End {
    plain(client, lun, &[0x1b, 0, 0, 0, 1, 0])
}

pub fn locate(client: &mut Client, lun: u8, object: u32) -> End {
    let mut cdb = [0x2b, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    cdb[3..7].copy_from_slice(&object.to_be_bytes());
    plain(client, lun, &cdb)
}

pub fn move_medium(client: &mut Client, source: u16, destination: u16) -> End {
    let mut cdb = [0xa5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    cdb[4..6].copy_from_slice(&source.to_be_bytes());
    cdb[6..8].copy_from_slice(&destination.to_be_bytes());
    plain(client, CHANGER, &cdb)
}

/// Rewinds, and reads all objects; `None` is a filemark.
pub fn read_all(client: &mut Client, lun: u8) -> Vec<Option<Vec<u8>>> {
    rewind(client, lun).good();
    let mut objects = Vec::new();
    loop {
        // With SILI, a shorter block is read without a condition.
        let read = run(client, lun, &six(0x08, 0x02, BLOCK_MAX), || {
            incoming(BLOCK_MAX as usize)
        });
        match read {
            End::Good(block) => objects.push(Some(block)),
            End::Check(sense) if sense.stream.filemark => objects.push(None),
            End::Check(sense) if sense.key == SenseKey::BlankCheck => return objects,
            other => panic!("{other:?}"),
        }
    }
}
