//! Reports of a drive about the store of its cartridges: failures, and the state after a power cut.

use hakaru_iscsi_target::{IoFailure, IoResult};

use super::*;
use crate::tape::durable;

pub(super) const ROWS: &[Row] = &[
    row("READ, and the file or the pool cannot be read", || {
        let mut scene = durable::scene();
        scene.write(false, 512, &[1; 512]).good();
        scene.rewind();
        let read = StreamCommand::Read {
            fixed: false,
            suppress_incorrect_length: false,
            length: 512,
        };
        failing(&mut scene, read, 512, &[], IoFailure::Read)
    }),
    row(
        "WRITE, and the file or the pool cannot be written or is full",
        || {
            let full = write(IoFailure::Space);
            let answer = write(IoFailure::Write);
            assert_eq!(answer.sense, full.sense);
            answer
        },
    ),
    row(
        "WRITE FILEMARKS, and the blocks before cannot be made durable",
        || {
            let mut scene = durable::scene();
            scene.write(false, 4, b"lost").good();
            let marks = StreamCommand::WriteFilemarks {
                immediate: false,
                count: 1,
            };
            failing(&mut scene, marks, 0, &[], IoFailure::Write)
        },
    ),
    row("WRITE after such a failure", || write(IoFailure::Protected)),
    row(
        "a power cut: first command to a drive; all cartridges are in slots",
        || {
            let mut scene = durable::after_power_cut(&durable::scene());
            scene.run(DRIVES[0], Cdb::TestUnitReady, 0)
        },
    ),
    row(
        "a power cut: READ of 512 bytes after what was durable",
        || {
            let mut scene = durable::scene();
            scene.write(false, 4, b"kept").good();
            scene.marks(1).good();
            scene.write(false, 4, b"lost").good();
            let mut scene = durable::after_power_cut(&scene);
            scene.move_medium(SLOT, DRIVE).good();
            clear(&mut scene.pair, &mut scene.initiator, DRIVES[0]);
            assert_eq!(scene.read(false, 4, 4).good(), b"kept");
            scene.space(SpaceCode::Filemarks, 1).good();
            scene.read(false, 512, 512)
        },
    ),
];

fn write(failure: IoFailure) -> Answer {
    let mut scene = durable::scene();
    let write = StreamCommand::Write {
        fixed: false,
        length: 4,
    };
    let answer = failing(&mut scene, write, 0, b"data", failure);
    assert_eq!(scene.position(), 0, "nothing of the block is on the tape");
    answer
}

/// Executes a command that reads `expected` bytes or writes `data`, and whose first access to the
/// store fails.
fn failing(
    scene: &mut Scene,
    command: StreamCommand,
    expected: u32,
    data: &[u8],
    failure: IoFailure,
) -> Answer {
    scene.pair.stalled = true;
    let Scene { pair, initiator } = scene;
    let cdb = Cdb::Stream(command).emit();
    let bytes = expected.max(data.len() as u32);
    let (reads, writes) = (expected > 0, !data.is_empty());
    let command = initiator.command(DRIVES[0], &cdb[..6], reads, writes, bytes);
    initiator.send_command(pair, &command, data);
    let io = pair.held.remove(0);
    pair.stalled = false;
    let now = pair.time;
    pair.target
        .handle_io_done(now, io.id, IoResult::Failed(failure));
    pair.run();
    Answer::of(initiator.receive(pair), command.itt)
}
