//! Refusals of a drive or a changer: for lack of a cartridge, because of its state, or for ever.

use super::*;

pub(super) const ROWS: &[Row] = &[
    row("the drive has no cartridge, or has unloaded it", || {
        let mut scene = Scene::empty(with_library(false), &[]);
        let empty = scene.run(DRIVES[0], Cdb::TestUnitReady, 0);
        scene.move_medium(SLOT, DRIVE).good();
        clear(&mut scene.pair, &mut scene.initiator, DRIVES[0]);
        scene.stream(UNLOAD, 0).good();
        let unloaded = scene.read(false, 512, 512);
        assert_eq!(empty.sense, unloaded.sense);
        unloaded
    }),
    row(
        "the cartridge is newer than the drive, or more than two generations older",
        || {
            let [newer, older] =
                [(Generation::Lto6, 0), (Generation::Lto3, 1)].map(|(other, drive)| {
                    let config = with_generation(with_library(false), other);
                    let mut scene = Scene::empty(config, &[]);
                    scene.move_medium(SLOT, DRIVE + drive).good();
                    let lun = DRIVES[usize::from(drive)];
                    clear(&mut scene.pair, &mut scene.initiator, lun);
                    scene.run(lun, Cdb::TestUnitReady, 0)
                });
            assert_eq!(newer, older);
            older
        },
    ),
    row(
        "WRITE, WRITE FILEMARKS or ERASE of a cartridge that is two generations older",
        || {
            let config = with_generation(with_library(false), Generation::Lto3);
            let mut scene = Scene::empty(config, &[]);
            scene.move_medium(SLOT, DRIVE).good();
            clear(&mut scene.pair, &mut scene.initiator, DRIVES[0]);
            let marks = scene.marks(1);
            let erase = scene.run_in(&[0x19, 0, 0, 0, 0, 0]);
            let answer = scene.write(false, 4, b"data");
            assert_eq!((&marks.sense, &erase.sense), (&answer.sense, &answer.sense));
            answer
        },
    ),
    row("the drive moves data for another command", || {
        let mut scene = moving_data();
        scene.run(DRIVES[0], Cdb::TestUnitReady, 0)
    }),
    row("MOVE MEDIUM out of a drive that moves data", || {
        moving_data().move_medium(DRIVE, SLOT)
    }),
    row(
        "UNLOAD, or MOVE MEDIUM out of the drive, after PREVENT",
        || {
            let mut scene = Scene::new(&[]);
            scene.run(DRIVES[0], PREVENT, 0).good();
            let moved = scene.move_medium(DRIVE, SLOT);
            let answer = scene.stream(UNLOAD, 0);
            assert_eq!(answer.sense, moved.sense);
            answer
        },
    ),
    row("MOVE MEDIUM after PREVENT to the changer", || {
        let mut scene = Scene::new(&[]);
        scene.run(CHANGER, PREVENT, 0).good();
        scene.move_medium(DRIVE, SLOT)
    }),
    row("MOVE MEDIUM from an address without an element", || {
        Scene::new(&[]).move_medium(SLOT + 3, SLOT)
    }),
    row("MOVE MEDIUM to an address without an element", || {
        Scene::new(&[]).move_medium(DRIVE, DRIVE + 2)
    }),
    row("MOVE MEDIUM from an element without a cartridge", || {
        Scene::new(&[]).move_medium(SLOT, SLOT + 1)
    }),
    row("MOVE MEDIUM to an element with a cartridge", || {
        Scene::new(&[]).move_medium(DRIVE, DRIVE + 1)
    }),
    row(
        "READ or WRITE with FIXED, and the block length is 0",
        || {
            let mut scene = Scene::new(&[]);
            let written = scene.write(true, 1, &[1; 512]);
            let read = scene.read(true, 1, 512);
            assert_eq!(read.sense, written.sense);
            read
        },
    ),
    row("LOCATE to another partition than 0", || {
        let locate = StreamCommand::Locate {
            immediate: false,
            partition: Some(1),
            object: 0,
        };
        Scene::new(&[]).stream(locate, 0)
    }),
    row("MODE SELECT of MEDIUM TYPE 01h (WORM) or another", || {
        select(&[0, 0x01, 0x10, 0])
    }),
    row("MODE SENSE of page 1Dh (WORM)", || {
        Scene::new(&[]).run_in(&[0x1a, 0x08, 0x1d, 0, 255, 0])
    }),
    row("MODE SELECT of page 1Dh (WORM)", || {
        let mut list = vec![0, 0, 0x10, 0, 0x1d, 0x1e, 0x01];
        list.resize(4 + 32, 0);
        select(&list)
    }),
    row("SECURITY PROTOCOL IN or OUT (encryption)", || {
        let mut scene = Scene::new(&[]);
        let asked = scene.run_in(&[0xa2, 0x20, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0]);
        let set = [0xb5, 0x20, 0, 0x10, 0, 0, 0, 0, 0, 20, 0, 0];
        let answer = scene.run_list(&set, &[0; 20]);
        assert_eq!(answer.sense, asked.sense);
        answer
    }),
    row(
        "REPORT or SET IDENTIFYING INFORMATION of a type that is not supported",
        || {
            let mut scene = Scene::new(&[]);
            let set = scene.run_list(&[0xa4, 0x06, 0, 0, 0, 0, 0, 0, 0, 4, 0x08, 0], b"name");
            let answer = scene.run_in(&[0xa3, 0x05, 0, 0, 0, 0, 0, 0, 0, 255, 0x08, 0]);
            assert_eq!(answer.sense, set.sense);
            answer
        },
    ),
    row(
        "SET IDENTIFYING INFORMATION of more than 512 bytes, or 256 of text",
        || {
            let mut scene = Scene::new(&[]);
            let text = scene.run_list(&[0xa4, 0x06, 0, 0, 0, 0, 0, 0, 1, 1, 0x04, 0], &[0; 257]);
            let answer = scene.run_list(&[0xa4, 0x06, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0], &[0; 513]);
            assert_eq!(answer.sense, text.sense);
            answer
        },
    ),
    row(
        "SET IDENTIFYING INFORMATION of a text without a null byte at its end",
        || {
            let cdb = [0xa4, 0x06, 0, 0, 0, 0, 0, 0, 0, 4, 0x04, 0];
            Scene::new(&[]).run_list(&cdb, b"name")
        },
    ),
];

const PREVENT: Cdb = Cdb::PreventAllowMediumRemoval { prevent: 1 };

const UNLOAD: StreamCommand = StreamCommand::LoadUnload {
    immediate: false,
    load: false,
    retension: false,
    end_of_tape: false,
};

/// A library whose first drive writes a block that the storage holds.
fn moving_data() -> Scene {
    let mut scene = Scene::new(&[]);
    scene.pair.stalled = true;
    let initiator = &mut scene.initiator;
    let command = initiator.command(DRIVES[0], &[0x0a, 0, 0, 0, 4, 0], false, true, 4);
    initiator.send_command(&mut scene.pair, &command, b"data");
    assert_eq!(scene.pair.held.len(), 1);
    scene
}

/// Sends a parameter list with MODE SELECT (6).
fn select(list: &[u8]) -> Answer {
    let cdb = [0x15, 0x10, 0, 0, list.len() as u8, 0];
    Scene::new(&[]).run_list(&cdb, list)
}
