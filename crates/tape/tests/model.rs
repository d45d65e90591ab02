//! A drive against a simple model: a list of blocks, each with its bytes, and filemarks.

use std::sync::Arc;

use hakaru_tape::{
    Alert, Condition, Drive, Generation, Header, Library, LibraryConfig, Medium, Piece, Placed,
    RUNS_MAX, Ratio, Recovered, Tail, Transfer,
};
use proptest::prelude::*;

const SLOT: u16 = 0x0400;
const DRIVE: u16 = 0x0100;

/// A library with one loaded cartridge, and the bytes of its region.
struct Scene {
    library: Library,
    region: Vec<u8>,
}

impl Scene {
    fn new(capacity_bytes: u64, early_warning_bytes: u64) -> Scene {
        let mut library = Library::new(&LibraryConfig {
            drives: vec![Generation::Lto5],
            timed: false,
            slots: 1,
            import_export: 0,
            cartridges: vec![Placed {
                barcode: "HAK001L5".to_owned(),
                slot: 1,
                write_protected: false,
                generation: None,
                recovered: None,
            }],
            capacity_bytes,
            early_warning_bytes,
            ratio: Ratio::ONE,
        });
        library.move_medium(SLOT, DRIVE).unwrap();
        Scene {
            library,
            region: vec![0; capacity_bytes as usize],
        }
    }

    fn drive(&mut self) -> &mut Drive {
        let drive = self.library.drive_mut(0).unwrap();
        drive.settle();
        drive
    }

    fn places(pieces: &[Piece]) -> Vec<(usize, usize)> {
        let places = pieces.iter().flat_map(|piece| {
            (0..u64::from(piece.blocks)).map(|block| {
                let at = piece.offset_bytes + block * piece.stride_bytes();
                (at as usize, piece.block_bytes as usize)
            })
        });
        places.collect()
    }

    fn write(&mut self, fixed: bool, length: u32, data: &[u8]) -> Result<Transfer, Condition> {
        let transfer = self.drive().write(fixed, length)?;
        let mut rest = data;
        for (at, length) in Scene::places(&transfer.pieces) {
            let (block, after) = rest.split_at(length);
            self.region[at..at + length].copy_from_slice(block);
            rest = after;
        }
        transfer.ticket.done();
        Ok(transfer)
    }

    fn read(
        &mut self,
        fixed: bool,
        suppress: bool,
        length: u32,
    ) -> Result<(Vec<u8>, Option<Condition>), Condition> {
        let transfer = self.drive().read(fixed, suppress, length)?;
        let mut data = Vec::new();
        for (at, length) in Scene::places(&transfer.pieces) {
            data.extend_from_slice(&self.region[at..at + length]);
        }
        data.truncate(transfer.bytes as usize);
        Ok((data, transfer.end))
    }
}

/// Contents of a tape as a list; `None` is a filemark.
#[derive(Default)]
struct Model {
    objects: Vec<Option<Vec<u8>>>,
    position: usize,
}

impl Model {
    fn push(&mut self, object: Option<Vec<u8>>) {
        self.objects.truncate(self.position);
        self.objects.push(object);
        self.position += 1;
    }

    /// Passes one object forward or backward; `None` at either end.
    fn pass(&mut self, forward: bool) -> Option<bool> {
        let at = if forward {
            self.position
        } else {
            self.position.checked_sub(1)?
        };
        let mark = self.objects.get(at)?.is_none();
        self.position = if forward { at + 1 } else { at };
        Some(mark)
    }

    fn space(&mut self, marks: bool, count: i64) -> Result<(), Condition> {
        let forward = count > 0;
        let mut undone = count.unsigned_abs();
        while undone > 0 {
            match self.pass(forward) {
                None if forward => {
                    let undone = Some(undone);
                    return Err(Condition::EndOfData { undone });
                }
                None => return Err(Condition::Beginning { undone }),
                Some(true) if !marks => return Err(Condition::Filemark { undone }),
                Some(mark) => undone -= u64::from(mark == marks),
            }
        }
        Ok(())
    }

    fn read_block(&mut self, length: u32) -> (Vec<u8>, Option<Condition>) {
        let undone = u64::from(length);
        let Some(object) = self.objects.get(self.position).cloned() else {
            let undone = Some(undone);
            return (Vec::new(), Some(Condition::EndOfData { undone }));
        };
        self.position += 1;
        let Some(mut data) = object else {
            return (Vec::new(), Some(Condition::Filemark { undone }));
        };
        let difference = i64::from(length) - data.len() as i64;
        data.truncate(length as usize);
        let end = (difference != 0).then_some(Condition::IncorrectLength { difference });
        (data, end)
    }

    fn read_fixed(&mut self, size: usize, blocks: u32) -> (Vec<u8>, Option<Condition>) {
        let mut data = Vec::new();
        for done in 0..blocks {
            let undone = u64::from(blocks - done);
            let Some(object) = self.objects.get(self.position).cloned() else {
                let undone = Some(undone);
                return (data, Some(Condition::EndOfData { undone }));
            };
            self.position += 1;
            match object {
                None => return (data, Some(Condition::Filemark { undone })),
                Some(block) if block.len() != size => {
                    let difference = undone as i64;
                    return (data, Some(Condition::IncorrectLength { difference }));
                }
                Some(block) => data.extend_from_slice(&block),
            }
        }
        (data, None)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(u32),
    WriteFixed(u32),
    Marks(u32),
    Read(u32),
    ReadFixed(u32),
    Blocks(i64),
    Filemarks(i64),
    End,
    Rewind,
    Locate(u64),
    File(u64),
    Erase,
}

const FIXED: u32 = 600;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let lengths = prop_oneof![Just(FIXED), 1_u32..1500];
    let step = prop_oneof![
        4 => lengths.clone().prop_map(Step::Write),
        2 => (1_u32..5).prop_map(Step::WriteFixed),
        2 => (0_u32..3).prop_map(Step::Marks),
        3 => lengths.prop_map(Step::Read),
        3 => (1_u32..5).prop_map(Step::ReadFixed),
        2 => (-6_i64..6).prop_map(Step::Blocks),
        2 => (-4_i64..4).prop_map(Step::Filemarks),
        1 => Just(Step::End),
        1 => Just(Step::Rewind),
        2 => (0_u64..20).prop_map(Step::Locate),
        1 => (0_u64..6).prop_map(Step::File),
        1 => Just(Step::Erase),
    ];
    proptest::collection::vec(step, 1..50)
}

fn locate(model: &mut Model, object: Option<usize>) -> Result<(), Condition> {
    model.position = object.unwrap_or(model.objects.len());
    object
        .map(|_| ())
        .ok_or(Condition::EndOfData { undone: None })
}

proptest! {
    #[test]
    fn a_drive_equals_a_list_of_blocks_and_filemarks(steps in steps()) {
        let mut scene = Scene::new(1 << 20, 0);
        scene.drive().block_bytes = FIXED;
        let mut model = Model::default();
        for (number, step) in steps.into_iter().enumerate() {
            let fill = number as u8 + 1;
            match step {
                Step::Write(length) => {
                    let data = vec![fill; length as usize];
                    prop_assert_eq!(scene.write(false, length, &data).unwrap().end, None);
                    model.push(Some(data));
                }
                Step::WriteFixed(blocks) => {
                    let data: Vec<u8> = (0..blocks * FIXED).map(|at| fill ^ (at / FIXED) as u8).collect();
                    prop_assert_eq!(scene.write(true, blocks, &data).unwrap().end, None);
                    data.chunks(FIXED as usize).for_each(|block| model.push(Some(block.to_vec())));
                }
                Step::Marks(count) => {
                    prop_assert_eq!(scene.drive().write_filemarks(count), Ok(None));
                    (0..count).for_each(|_| model.push(None));
                }
                Step::Read(length) => {
                    prop_assert_eq!(scene.read(false, false, length).unwrap(), model.read_block(length));
                }
                Step::ReadFixed(blocks) => {
                    let expected = model.read_fixed(FIXED as usize, blocks);
                    prop_assert_eq!(scene.read(true, false, blocks).unwrap(), expected);
                }
                Step::Blocks(count) => {
                    prop_assert_eq!(scene.drive().space_blocks(count), model.space(false, count));
                }
                Step::Filemarks(count) => {
                    prop_assert_eq!(scene.drive().space_filemarks(count), model.space(true, count));
                }
                Step::End => {
                    scene.drive().space_to_end().unwrap();
                    model.position = model.objects.len();
                }
                Step::Rewind => {
                    scene.drive().rewind().unwrap();
                    model.position = 0;
                }
                Step::Locate(object) => {
                    let target = Some(object as usize).filter(|at| *at <= model.objects.len());
                    prop_assert_eq!(scene.drive().locate(object), locate(&mut model, target));
                }
                Step::File(file) => {
                    let marks: Vec<usize> = (0..model.objects.len()).filter(|at| model.objects[*at].is_none()).collect();
                    let target = if file == 0 { Some(0) } else { marks.get(file as usize - 1).map(|at| at + 1) };
                    prop_assert_eq!(scene.drive().locate_file(file), locate(&mut model, target));
                }
                Step::Erase => {
                    scene.drive().erase().unwrap();
                    model.objects.truncate(model.position);
                }
            }
            prop_assert_eq!(scene.drive().position(), model.position as u64);
            let end = scene.drive().loaded().unwrap().medium.end();
            prop_assert_eq!(end, model.objects.len() as u64);
        }
    }
}

#[test]
fn sili_hides_short_blocks_and_long_ones_only_with_variable_blocks() {
    let mut scene = Scene::new(1 << 20, 0);
    scene.write(false, 1000, &[7; 1000]).unwrap();
    for (mode, length, silent) in [
        (0, 1200, true),
        (512, 1200, true),
        (0, 800, true),
        (512, 800, false),
    ] {
        scene.drive().block_bytes = mode;
        scene.drive().rewind().unwrap();
        let (data, end) = scene.read(false, true, length).unwrap();
        assert_eq!(data.len(), 1000.min(length as usize));
        assert_eq!(end.is_none(), silent, "{mode} {length}");
    }
    let refused = scene.read(true, true, 1).unwrap_err();
    let bit = Some(1);
    assert_eq!(refused, Condition::InvalidField { byte: 1, bit });
}

#[test]
fn early_warning_lets_writes_through_and_the_end_refuses_them() {
    let mut scene = Scene::new(8 * 1024, 2 * 1024);
    for block in 0..8 {
        let end = scene.write(false, 1000, &[block; 1000]).unwrap().end;
        let warned = (block >= 5).then_some(Condition::EarlyWarning);
        assert_eq!(end, warned, "{block}");
    }
    let overflow = Some(Condition::Overflow { undone: 1000 });
    assert_eq!(scene.write(false, 1000, &[9; 1000]).unwrap().end, overflow);
    // A filemark needs no space.
    let warned = Ok(Some(Condition::EarlyWarning));
    assert_eq!(scene.drive().write_filemarks(1), warned);
    scene.drive().rewind().unwrap();
    for block in 0..8 {
        assert_eq!(
            scene.read(false, false, 1000).unwrap(),
            (vec![block; 1000], None)
        );
    }
    scene.drive().block_bytes = 1024;
    scene.drive().locate(6).unwrap();
    let transfer = scene.write(true, 5, &[1; 5 * 1024]).unwrap();
    assert_eq!(
        (transfer.bytes, transfer.end),
        (2048, Some(Condition::Overflow { undone: 3 }))
    );
}

#[test]
fn a_write_whose_bytes_were_lost_is_taken_back() {
    let mut scene = Scene::new(1 << 20, 0);
    scene.write(false, 100, &[1; 100]).unwrap();
    let lost = scene.drive().write(false, 100).unwrap();
    assert!(scene.library.drive(0).unwrap().is_busy());
    drop(lost);
    assert!(!scene.library.drive(0).unwrap().is_busy());
    let drive = scene.drive();
    assert_eq!(
        (drive.position(), drive.loaded().unwrap().medium.end()),
        (1, 1)
    );
    let end = Some(Condition::EndOfData { undone: Some(100) });
    assert_eq!(scene.read(false, false, 100).unwrap(), (Vec::new(), end));
}

#[test]
fn requests_without_a_loaded_cartridge_or_on_a_protected_one_are_refused() {
    let mut scene = Scene::new(1 << 20, 0);
    assert_eq!(scene.drive().load_or_unload(false), Ok(false));
    assert_eq!(scene.drive().rewind(), Err(Condition::NoMedium));
    assert_eq!(scene.drive().write_filemarks(0), Err(Condition::NoMedium));
    assert_eq!(scene.drive().load_or_unload(true), Ok(true));
    assert_eq!(scene.drive().load_or_unload(true), Ok(false));
    scene.library.move_medium(DRIVE, SLOT).unwrap();
    assert_eq!(scene.drive().load_or_unload(true), Err(Condition::NoMedium));
    let mut drive = Drive::new(Generation::Lto6);
    let region = hakaru_tape::Region {
        offset_bytes: 0,
        length_bytes: 1024,
        early_warning_bytes: 0,
    };
    let medium = hakaru_tape::Medium::default();
    let cartridge = hakaru_tape::Cartridge::new("P".to_owned(), true, region, medium, None);
    drive.insert(cartridge);
    assert_eq!(
        drive.write(false, 10).unwrap_err(),
        Condition::WriteProtected
    );
    assert_eq!(drive.alerts.report(), Alert::WriteProtect.flag());
    assert_eq!(drive.write_filemarks(1), Err(Condition::WriteProtected));
    assert_eq!(drive.write_filemarks(0), Ok(None));
    assert_eq!(drive.erase(), Err(Condition::WriteProtected));
    assert_eq!((drive.alerts.events(), drive.life()), (3, None));
    drive.remove();
    assert_eq!(drive.alerts.report(), 0);
}

#[test]
fn totals_count_what_was_moved_and_follow_the_cartridge() {
    let mut scene = Scene::new(1 << 20, 0);
    for (length, end) in [(600, Some(true)), (700, Some(false)), (800, None)] {
        let ticket = scene.drive().write(false, length).unwrap().ticket;
        match end {
            Some(true) => {
                ticket.done();
                // A later access of the command, which gives back space.
                ticket.fail();
            }
            Some(false) => ticket.fail(),
            None => {}
        }
    }
    scene.drive().write_filemarks(2).unwrap();
    let totals = scene.drive().counters();
    assert_eq!((totals.written_blocks, totals.written_bytes), (1, 600));
    assert_eq!((totals.written_filemarks, totals.write_errors), (2, 1));
    let lost = Alert::HardError.flag() | Alert::WriteFailure.flag();
    assert_eq!(scene.drive().alerts.after(0), lost);
    for moved in [false, true] {
        scene.drive().rewind().unwrap();
        let ticket = scene.drive().read(false, false, 600).unwrap().ticket;
        if moved {
            ticket.done()
        } else {
            ticket.fail()
        }
        drop(ticket);
        let totals = scene.drive().counters();
        assert_eq!(totals.read_bytes, if moved { 600 } else { 0 });
        assert_eq!(totals.read_errors, 1);
    }
    let drive = scene.drive();
    assert_eq!(drive.alerts.after(0), lost | Alert::ReadFailure.flag());
    assert_eq!(drive.life(), Some(drive.mount()));
    let used = drive.mount();
    scene.library.move_medium(DRIVE, SLOT).unwrap();
    assert_eq!(
        (scene.drive().alerts.after(0), scene.drive().life()),
        (0, None)
    );
    scene.library.move_medium(SLOT, DRIVE).unwrap();
    let drive = scene.drive();
    assert_eq!(
        (drive.mount(), drive.life()),
        (Default::default(), Some(used))
    );
    assert_eq!(drive.cartridge().unwrap().drives, [0, 0]);
    assert_eq!((drive.counters().loads, used.read_blocks), (2, 1));
}

#[test]
fn life_of_a_cartridge_that_was_in_use_before_is_unknown() {
    for (loads, blocks, known) in [(0, 0, true), (3, 0, false), (0, 1, false)] {
        let mut medium = Medium::default();
        for _ in 0..blocks {
            medium.append_blocks(512, 1);
        }
        let recovered = Recovered {
            header: Header::new("HAK001L5".to_owned(), false, 1 << 20),
            medium,
            loads,
            tail: Tail::default(),
            attributes: hakaru_tape::HostAttributes::default(),
            memory_tail: hakaru_tape::MemoryTail::default(),
        };
        let mut library = Library::new(&LibraryConfig {
            drives: vec![Generation::Lto5],
            timed: false,
            slots: 1,
            import_export: 0,
            cartridges: vec![Placed {
                barcode: "HAK001L5".to_owned(),
                slot: 1,
                write_protected: false,
                generation: None,
                recovered: Some(Arc::new(recovered)),
            }],
            capacity_bytes: 1 << 20,
            early_warning_bytes: 0,
            ratio: Ratio::ONE,
        });
        library.move_medium(SLOT, DRIVE).unwrap();
        let drive = library.drive(0).unwrap();
        assert_eq!(drive.life().is_some(), known, "{loads} {blocks}");
    }
}

#[test]
fn fixed_transfers_need_a_block_length_and_are_bounded() {
    let mut scene = Scene::new(1 << 20, 0);
    let field = |byte, bit| Err(Condition::InvalidField { byte, bit });
    assert_eq!(scene.drive().length_bytes(true, 1), field(1, Some(0)));
    scene.drive().block_bytes = 1 << 20;
    assert_eq!(scene.drive().length_bytes(true, 15), Ok(15 << 20));
    assert_eq!(scene.drive().length_bytes(true, 16), field(2, None));
    assert_eq!(
        scene.drive().length_bytes(true, u32::MAX >> 8),
        field(2, None)
    );
    // Short blocks are padded: 65 535 of them occupy 32 MiB less 1024 bytes.
    scene.drive().block_bytes = 1;
    assert_eq!(scene.drive().length_bytes(true, 65_535), Ok(65_535));
    for blocks in [65_536, 1 << 23, (1 << 24) - 1] {
        assert_eq!(scene.drive().length_bytes(true, blocks), field(2, None));
        for refused in [
            scene.drive().write(true, blocks),
            scene.drive().read(true, false, blocks),
        ] {
            let expected = Condition::InvalidField { byte: 2, bit: None };
            assert_eq!(refused.unwrap_err(), expected);
        }
    }
    // A transfer of no blocks does nothing and needs no block.
    assert_eq!(scene.read(true, false, 0).unwrap(), (Vec::new(), None));
}

#[test]
fn longest_transfer_of_short_blocks_is_read_back() {
    let blocks = 65_535;
    let mut scene = Scene::new(32 << 20, 0);
    scene.drive().block_bytes = 1;
    let data: Vec<u8> = (0..blocks).map(|at| (at % 251) as u8).collect();
    assert_eq!(scene.write(true, blocks, &data).unwrap().end, None);
    scene.drive().rewind().unwrap();
    assert_eq!(scene.read(true, false, blocks).unwrap(), (data, None));
    assert_eq!(scene.drive().position(), blocks.into());
}

#[test]
fn index_of_a_cartridge_is_bounded() {
    let runs = |drive: &Drive| drive.loaded().unwrap().medium.runs();
    let mut scene = Scene::new(512 << 20, 0);
    let drive = scene.library.drive_mut(0).unwrap();
    let warned_from = RUNS_MAX - 1024;
    while runs(drive) < RUNS_MAX {
        let end = drive.write(false, 1).unwrap().end;
        let warned = |runs| (runs >= warned_from).then_some(Condition::EarlyWarning);
        assert_eq!(end, warned(runs(drive)));
        assert_eq!(drive.write_filemarks(1), Ok(warned(runs(drive) + 1)));
    }
    let end = drive.position();
    let overflow = Some(Condition::Overflow { undone: 700 });
    let refused = drive.write(false, 700).unwrap();
    assert_eq!((refused.pieces, refused.end), (Vec::new(), overflow));
    assert_eq!((runs(drive), drive.position()), (RUNS_MAX, end));
    // More of what the tape ends with needs no entry.
    let warned = Some(Condition::EarlyWarning);
    assert_eq!(drive.write_filemarks(3), Ok(warned));
    drive.locate(end - 1).unwrap();
    assert_eq!(drive.write(false, 1).unwrap().end, warned);
    drive.write(false, 2).unwrap();
    assert_eq!(runs(drive), RUNS_MAX);
    let overflow = Condition::Overflow { undone: 5 };
    assert_eq!(drive.write_filemarks(5), Err(overflow));
    // Writing from an earlier position removes entries.
    drive.locate(4).unwrap();
    assert_eq!(drive.write_filemarks(5), Ok(None));
    assert_eq!(runs(drive), 4);
}

#[test]
fn reset_restores_the_settings_and_keeps_cartridge_and_position() {
    let mut scene = Scene::new(1 << 20, 0);
    scene.write(false, 100, &[1; 100]).unwrap();
    let drive = scene.drive();
    (drive.block_bytes, drive.compression, drive.buffered) = (512, false, false);
    drive.reset();
    let settings = (drive.block_bytes, drive.compression, drive.buffered);
    assert_eq!((settings, drive.position()), ((0, true, true), 1));
}
