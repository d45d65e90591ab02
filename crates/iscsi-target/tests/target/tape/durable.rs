//! Cartridges whose index is on the store: what synchronises, and what an initiator learns if data
//! is lost.

use std::sync::Arc;

use hakaru_iscsi_target::{Io, IoFailure, IoOp, IoResult};
use hakaru_tape::{Header, Medium, Recovered, index_of, recover};

use super::*;

fn header(number: usize) -> Header {
    Header {
        area_bytes: 64 << 10,
        ..Header::new(format!("HAK00{}L5", number + 1), false, CAPACITY)
    }
}

/// A library of cartridges that are on a store with these bytes, one behind the other.
fn with_kept_cartridges(count: usize, bytes: &[u8]) -> TargetConfig {
    let mut config = with_library(false);
    for lu in &mut config.lus {
        if let hakaru_iscsi_target::DeviceKind::Changer(library) = &mut lu.kind {
            library.library.cartridges.truncate(count);
            let parts = bytes.chunks(bytes.len() / count);
            for (placed, part) in library.library.cartridges.iter_mut().zip(parts) {
                placed.recovered = Some(Arc::new(read(part)));
            }
            lu.size_bytes = library.library.store_bytes();
        }
    }
    config
}

/// Writes an empty cartridge.
fn place(header: &Header, bytes: &mut [u8]) {
    bytes[..512].copy_from_slice(&header.emit());
    let (offset, index) = index_of(header, &Medium::default());
    bytes[offset as usize..][..index.len()].copy_from_slice(&index);
}

fn read(bytes: &[u8]) -> Recovered {
    recover(&mut |offset, buffer| {
        buffer.copy_from_slice(&bytes[offset as usize..][..buffer.len()]);
        Ok(())
    })
    .expect("a sound cartridge")
}

/// A session with a library that keeps its only cartridge, which is in the first drive.
pub(super) fn scene() -> Scene {
    scene_with(1)
}

/// A session with a library that keeps its cartridges, each in a drive.
fn scene_with(count: usize) -> Scene {
    let mut bytes = Vec::new();
    for number in 0..count {
        let header = header(number);
        let mut part = vec![0; header.total_bytes() as usize];
        place(&header, &mut part);
        bytes.extend(part);
    }
    let mut scene = Scene::empty(with_kept_cartridges(count, &bytes), &[]);
    scene.pair.lus.insert(CHANGER, bytes);
    for at in 0..count as u16 {
        scene.move_medium(SLOT + at, DRIVE + at).good();
        let attention = scene.run(DRIVES[usize::from(at)], Cdb::TestUnitReady, 0);
        assert_eq!(attention.sense(), Sense::MEDIUM_MAY_HAVE_CHANGED);
    }
    scene
}

/// A session with the same library after the array has lost its power.
pub(super) fn after_power_cut(scene: &Scene) -> Scene {
    let bytes = scene.pair.lus[&CHANGER].clone();
    let mut pair = Pair::with(with_kept_cartridges(1, &bytes));
    pair.lus.insert(CHANGER, bytes);
    let initiator = pair.log_in(&[]);
    Scene { pair, initiator }
}

/// Number of objects that a crash of the array now would leave.
pub fn kept(scene: &Scene) -> u64 {
    kept_of(scene, 0, 1)
}

/// The same of a cartridge among `count`.
fn kept_of(scene: &Scene, number: usize, count: usize) -> u64 {
    let store = &scene.pair.lus[&CHANGER];
    let part = &store[number * (store.len() / count)..];
    read(part).medium.end()
}

#[test]
fn commands_that_synchronise_write_the_index() {
    let mut scene = scene();
    let immediate = StreamCommand::WriteFilemarks {
        immediate: true,
        count: 1,
    };
    scene.write(false, 700, &[1; 700]).good();
    scene.stream(immediate, 0).good();
    assert_eq!(kept(&scene), 0);
    scene.marks(0).good();
    assert_eq!(kept(&scene), 2);
    scene.write(false, 700, &[1; 700]).good();
    scene.marks(1).good();
    assert_eq!(kept(&scene), 4);
    scene.write(false, 700, &[1; 700]).good();
    scene.rewind();
    assert_eq!(kept(&scene), 5);
    scene.space(SpaceCode::EndOfData, 0).good();
    scene.write(false, 700, &[1; 700]).good();
    scene.space(SpaceCode::Blocks, -1).good();
    assert_eq!(kept(&scene), 6);
    // A write at a position in between removes the rest before its bytes take the place.
    scene.write(false, 700, &[1; 700]).good();
    assert_eq!(kept(&scene), 5);
    scene.move_medium(DRIVE, SLOT).good();
    assert_eq!(kept(&scene), 6);
}

#[test]
fn unbuffered_write_is_durable_when_it_ends() {
    let mut scene = scene();
    // BUFFERED MODE 0, in the mode parameter header.
    let list = [0, 0, 0, 0];
    let cdb = [0x15, 0x10, 0, 0, 4, 0];
    let initiator = &mut scene.initiator;
    let answer = initiator.run_out(&mut scene.pair, DRIVES[0], &cdb, &list);
    answer.good();
    scene.write(false, 700, &[1; 700]).good();
    assert_eq!(kept(&scene), 1);
}

/// Begins a command, and answers its accesses with `answer` until it ends.
fn run_with(
    scene: &mut Scene,
    lun: u8,
    cdb: Cdb,
    mut answer: impl FnMut(&Io) -> Option<IoResult>,
) -> Answer {
    scene.pair.stalled = true;
    let initiator = &mut scene.initiator;
    let command = initiator.command(lun, &cdb.emit(), false, false, 0);
    initiator.send_command(&mut scene.pair, &command, &[]);
    while !scene.pair.held.is_empty() {
        match answer(&scene.pair.held[0]) {
            None => scene.pair.release_one(),
            Some(result) => {
                let io = scene.pair.held.remove(0);
                let now = scene.pair.time;
                scene.pair.target.handle_io_done(now, io.id, result);
                scene.pair.run();
            }
        }
    }
    scene.pair.stalled = false;
    Answer::of(scene.initiator.receive(&mut scene.pair), command.itt)
}

#[test]
fn lost_data_is_a_deferred_error_and_the_tape_ends_at_the_last_consistent_position() {
    let marks = Cdb::Stream(StreamCommand::WriteFilemarks {
        immediate: false,
        count: 1,
    });
    // Either the flush of the blocks fails, or the write of the record, also for lack of space.
    for (failing, failure) in [
        (0, IoFailure::Write),
        (1, IoFailure::Write),
        (1, IoFailure::Space),
    ] {
        let mut scene = scene();
        scene.write(false, 4, b"kept").good();
        scene.marks(1).good();
        scene.write(false, 4, b"lost").good();
        let mut seen = Vec::new();
        let answer = run_with(&mut scene, DRIVES[0], marks, |io| {
            seen.push(match io.op {
                IoOp::FlushPart { .. } => 'f',
                IoOp::Write { fua: true, .. } => 'w',
                _ => '?',
            });
            (seen.len() == failing + 1).then_some(IoResult::Failed(failure))
        });
        assert_eq!(seen, ['f', 'w'][..=failing]);
        assert_eq!(answer.sense(), Sense::WRITE_ERROR.as_deferred());
        assert_eq!(scene.position(), 2);
        let end = scene.read(false, 4, 4);
        assert_eq!(end.sense(), Sense::END_OF_DATA_DETECTED);
        // Later blocks are kept, in a new area of the index.
        scene.write(false, 4, b"next").good();
        scene.marks(0).good();
        assert_eq!(kept(&scene), 3);
        scene.rewind();
        assert_eq!(scene.read(false, 4, 4).good(), b"kept");
        scene.space(SpaceCode::Filemarks, 1).good();
        assert_eq!(scene.read(false, 4, 4).good(), b"next");
    }
}

/// Writes a block of 4 bytes to each of two drives, which no command has synchronised.
fn write_both(scene: &mut Scene, data: &[u8; 4]) {
    let cdb = Cdb::Stream(StreamCommand::Write {
        fixed: false,
        length: 4,
    });
    for lun in DRIVES {
        let initiator = &mut scene.initiator;
        let answer = initiator.run_out(&mut scene.pair, lun, &cdb.emit()[..6], data);
        answer.good();
    }
}

fn exchange() -> Cdb {
    Cdb::Changer(ChangerCommand::ExchangeMedium {
        transport: 0,
        source: DRIVE,
        first_destination: DRIVE + 1,
        second_destination: DRIVE,
    })
}

#[test]
fn an_exchange_makes_both_cartridges_durable() {
    let mut scene = scene_with(2);
    let both = |scene: &Scene| [0, 1].map(|number| kept_of(scene, number, 2));
    write_both(&mut scene, b"data");
    assert_eq!(both(&scene), [0, 0]);
    scene.run(CHANGER, exchange(), 0).good();
    assert_eq!(both(&scene), [1, 1]);
}

#[test]
fn an_exchange_without_its_records_leaves_tapes_that_end_at_their_last_durable_object() {
    // Accesses: flush and record of the first destination, then of the source.
    for (failing, expected) in [(0, [0, 0]), (1, [0, 0]), (2, [0, 1]), (3, [0, 1])] {
        let mut scene = scene_with(2);
        write_both(&mut scene, b"lost");
        let mut accesses = 0;
        let answer = run_with(&mut scene, CHANGER, exchange(), |_| {
            accesses += 1;
            (accesses == failing + 1).then_some(IoResult::Failed(IoFailure::Write))
        });
        assert_eq!(answer.sense(), Sense::WRITE_ERROR.as_deferred());
        assert_eq!(accesses, failing + 1);
        let kept = [0, 1].map(|number| kept_of(&scene, number, 2));
        assert_eq!(kept, expected, "failed access {failing}");
        // The cartridges are exchanged, and later data is kept.
        for lun in DRIVES {
            let attention = scene.run(lun, Cdb::TestUnitReady, 0);
            assert_eq!(attention.sense(), Sense::MEDIUM_MAY_HAVE_CHANGED);
        }
        write_both(&mut scene, b"next");
        scene.run(CHANGER, exchange(), 0).good();
        let kept = [0, 1].map(|number| kept_of(&scene, number, 2));
        assert_eq!(kept, [1, 1]);
    }
}
