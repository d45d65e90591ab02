//! Functions that the cases share: commands on separate blocks, management functions, and a storage
//! that delays its answers.

use hakaru_wire::iscsi::{
    CmdSn, Itt, Lun, Opcode, ScsiCommand, TaskManagementFunction as Function,
    TaskManagementRequest, TaskManagementResponse, TaskManagementResult as Outcome,
};
use hakaru_wire::scsi::{Cdb, Transfer};

use crate::pair::{Initiator, Pair, Pdu};

/// Duration of an access to the storage, seconds.
pub const ACCESS_S: f64 = 0.001;
pub const BLOCK_BYTES: usize = 512;

/// An xorshift64* generator. Its fixed seed makes a failure reproducible.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

fn one_block(lba: u64) -> Transfer {
    Transfer {
        lba,
        blocks: 1,
        ..Transfer::default()
    }
}

/// Sends a write of one block of LU 0 with its data.
pub fn write(initiator: &mut Initiator, pair: &mut Pair, lba: u64, fill: u8) -> ScsiCommand {
    let cdb = Cdb::Write(one_block(lba)).emit();
    let command = initiator.command(0, &cdb, false, true, BLOCK_BYTES as u32);
    initiator.send_command(pair, &command, &[fill; BLOCK_BYTES]);
    command
}

/// Sends a write of one block of LU 0 without data. The data waits for an R2T, because the session
/// has ImmediateData=No and InitialR2T=Yes.
pub fn write_unsent(initiator: &mut Initiator, pair: &mut Pair, lba: u64) -> ScsiCommand {
    let cdb = Cdb::Write(one_block(lba)).emit();
    let command = initiator.command(0, &cdb, false, true, BLOCK_BYTES as u32);
    initiator.send_command(pair, &command, &[]);
    command
}

/// Sends a read of one block.
pub fn read(initiator: &mut Initiator, pair: &mut Pair, lun: u8, lba: u64) -> ScsiCommand {
    let bytes = if lun == 5 { 4096 } else { 512 };
    let cdb = Cdb::Read(one_block(lba)).emit();
    let command = initiator.command(lun, &cdb, true, false, bytes);
    initiator.send_command(pair, &command, &[]);
    command
}

/// Sends a task management function and returns its tag.
pub fn manage(
    initiator: &mut Initiator,
    pair: &mut Pair,
    function: Function,
    lun: u8,
    referenced: Option<&ScsiCommand>,
) -> Itt {
    initiator.itt += 1;
    let request = TaskManagementRequest {
        immediate: true,
        function,
        lun: Lun::new(lun.into()),
        itt: Itt(initiator.itt),
        referenced_task_tag: referenced.map_or(Itt::RESERVED, |command| command.itt),
        cmd_sn: CmdSn(initiator.cmd_sn),
        exp_stat_sn: initiator.exp_stat_sn,
        ref_cmd_sn: referenced.map_or(CmdSn(0), |command| command.cmd_sn),
        exp_data_sn: 0,
    };
    let mut header = [0; 48];
    request.emit(&mut header);
    initiator.send(pair, &header, &[]);
    request.itt
}

/// Returns the result of a function, if the PDU is its response.
pub fn outcome(pdu: &Pdu) -> Option<Outcome> {
    (pdu.opcode() == Opcode::TaskManagementResponse).then(|| {
        TaskManagementResponse::parse(&pdu.bhs)
            .expect("a task management response")
            .result
    })
}

/// Ends a random access of the storage after the duration of an access. Returns false if the
/// storage has none.
pub fn serve_one(pair: &mut Pair, random: &mut Random) -> bool {
    if pair.held.is_empty() {
        return false;
    }
    let last = pair.held.len() - 1;
    let chosen = random.below(last + 1);
    pair.held.swap(0, chosen);
    pair.advance(ACCESS_S);
    pair.release_one();
    true
}

/// Returns the contents of a block of LU 0.
pub fn block(pair: &Pair, lba: u64) -> Vec<u8> {
    pair.lus[&0][lba as usize * BLOCK_BYTES..][..BLOCK_BYTES].to_vec()
}
