//! Reports of a drive about its tape.

use super::*;

pub(super) const ROWS: &[Row] = &[
    row(
        "READ of 512 bytes meets a filemark; the position is after it",
        || {
            let mut scene = Scene::new(&[]);
            scene.marks(1).good();
            scene.rewind();
            let answer = scene.read(false, 512, 512);
            assert_eq!(scene.position(), 1);
            answer
        },
    ),
    row(
        "READ of 4096 bytes, and the block has 1000, which are returned",
        || {
            let mut scene = with_block(1000);
            let answer = scene.read(false, 4096, 4096);
            assert_eq!((answer.data.len(), scene.position()), (1000, 1));
            answer
        },
    ),
    row(
        "READ of 600 bytes, and the block has 1000; 600 are returned, and the position is after the block",
        || {
            let mut scene = with_block(1000);
            let answer = scene.read(false, 600, 600);
            assert_eq!((answer.data.len(), scene.position()), (600, 1));
            answer
        },
    ),
    row(
        "READ of 4 fixed blocks, and the next block has another length; the position is after it",
        || {
            let mut scene = with_block(1000);
            scene.set_block(512).good();
            let answer = scene.read(true, 4, 2048);
            assert_eq!((answer.data.len(), scene.position()), (0, 1));
            answer
        },
    ),
    row("READ of 512 bytes at the end of data", || {
        Scene::new(&[]).read(false, 512, 512)
    }),
    row(
        "SPACE over 9 blocks meets a filemark after 1; the position is after it",
        || {
            let mut scene = with_block(1000);
            scene.space(SpaceCode::EndOfData, 0).good();
            scene.marks(1).good();
            scene.rewind();
            let answer = scene.space(SpaceCode::Blocks, 9);
            assert_eq!(scene.position(), 2);
            answer
        },
    ),
    row(
        "SPACE over 9 blocks or filemarks meets the end of data after 1",
        || {
            let mut scene = with_block(1000);
            let blocks = scene.space(SpaceCode::Blocks, 9);
            scene.marks(1).good();
            scene.rewind();
            let answer = scene.space(SpaceCode::Filemarks, 9);
            assert_eq!((answer.sense, scene.position()), (blocks.sense, 2));
            answer
        },
    ),
    row(
        "SPACE over -9 blocks or filemarks meets the beginning of the tape after 1",
        || {
            let mut scene = with_block(1000);
            scene.space(SpaceCode::EndOfData, 0).good();
            let blocks = scene.space(SpaceCode::Blocks, -9);
            scene.marks(1).good();
            let answer = scene.space(SpaceCode::Filemarks, -9);
            assert_eq!((answer.sense, scene.position()), (blocks.sense, 0));
            answer
        },
    ),
    row(
        "LOCATE of a block or a file behind the end of data; the position is there",
        || {
            let mut scene = with_block(1000);
            let immediate = false;
            let partition = None;
            let block = StreamCommand::Locate {
                immediate,
                partition,
                object: 2,
            };
            let block = scene.stream(block, 0);
            let file = StreamCommand::LocateFile {
                immediate,
                partition,
                file: 1,
            };
            let answer = scene.stream(file, 0);
            assert_eq!((answer.sense, scene.position()), (block.sense, 1));
            answer
        },
    ),
    row(
        "first WRITE in the zone of the programmable early warning; the block is on the tape",
        || {
            let mut scene = Scene::new(&[]);
            // The device configuration extension, with a zone of 10^6 bytes.
            let mut list = vec![0, 0, 0x10, 0, 0x50, 0x01, 0, 0x1c, 0, 0x02, 0, 1];
            list.resize(4 + 32, 0);
            scene.run_list(&[0x15, 0x10, 0, 0, 36, 0], &list).good();
            let answer = scene.write(false, BLOCK, &[1; BLOCK as usize]);
            assert_eq!(scene.position(), 1);
            answer
        },
    ),
    row("WRITE past early warning; the block is on the tape", || {
        let mut scene = until_early_warning();
        let answer = scene.write(false, BLOCK, &[1; BLOCK as usize]);
        scene.rewind();
        scene.space(SpaceCode::Blocks, WHOLE_BLOCKS.into()).good();
        answer
    }),
    row(
        "WRITE FILEMARKS past early warning; the filemark is on the tape",
        || {
            let mut scene = until_early_warning();
            scene.write(false, BLOCK, &[1; BLOCK as usize]);
            let answer = scene.marks(1);
            scene.rewind();
            scene.space(SpaceCode::Filemarks, 1).good();
            answer
        },
    ),
    row(
        "WRITE of 32 768 bytes for which the tape has no space; none of them is on it",
        || {
            let mut scene = until_full();
            let answer = scene.write(false, BLOCK, &[1; BLOCK as usize]);
            assert_eq!(scene.position(), BLOCKS_MAX);
            answer
        },
    ),
    row(
        "WRITE of 4 fixed blocks, and the tape has space for 1, which is on it",
        || {
            let mut scene = until_full();
            scene.set_block(512).good();
            scene.space(SpaceCode::Blocks, -1).good();
            let short = BLOCK - 512;
            scene.write(false, short, &[1; BLOCK as usize - 512]);
            let answer = scene.write(true, 4, &[1; 2048]);
            assert_eq!(scene.position(), BLOCKS_MAX + 1);
            answer
        },
    ),
    row(
        "WRITE, WRITE FILEMARKS or ERASE of a write-protected cartridge",
        || {
            let mut scene = Scene::empty(with_library(true), &[]);
            scene.move_medium(SLOT, DRIVE).good();
            clear(&mut scene.pair, &mut scene.initiator, DRIVES[0]);
            let written = scene.write(false, 4, b"data");
            let marked = scene.marks(1);
            let answer = scene.stream(ERASE, 0);
            assert_eq!([written.sense, marked.sense], [answer.sense; 2]);
            answer
        },
    ),
];

const ERASE: StreamCommand = StreamCommand::Erase {
    long: false,
    immediate: false,
};

/// Length of the blocks with which a cartridge is filled, bytes.
const BLOCK: u32 = 32 << 10;
const BLOCKS_MAX: u32 = (CAPACITY / BLOCK as u64) as u32;
/// Number of blocks of which the last is past early warning.
const WHOLE_BLOCKS: u32 = BLOCKS_MAX - (EARLY_WARNING / BLOCK as u64) as u32;

/// A cartridge with one block, and the position before it.
fn with_block(bytes: u32) -> Scene {
    let mut scene = Scene::new(&[]);
    let data = pattern(bytes as usize, 1);
    scene.write(false, bytes, &data).good();
    scene.rewind();
    scene
}

/// A cartridge whose next block is past early warning.
fn until_early_warning() -> Scene {
    let mut scene = Scene::new(&[]);
    for _ in 1..WHOLE_BLOCKS {
        scene.write(false, BLOCK, &[1; BLOCK as usize]).good();
    }
    scene
}

/// A cartridge without space.
fn until_full() -> Scene {
    let mut scene = until_early_warning();
    while scene.position() < BLOCKS_MAX {
        scene.write(false, BLOCK, &[1; BLOCK as usize]);
    }
    scene
}
