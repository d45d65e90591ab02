//! Power cuts: a drive writes to a disk that loses any part of what was not flushed. What is read
//! afterwards is a prefix of what was written that has everything synchronised.

use std::sync::Arc;

use hakaru_pool::disk::{Disk, MemoryDisk, Recorder, RecordingDisk};
use hakaru_tape::{
    Damage, Drive, FRAME_BYTES, Generation, HEADER_BYTES, Header, Library, LibraryConfig, Medium,
    Object, Placed, Ratio, ReadError, Record, Recovered, recover,
};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const CAPACITY: u64 = 256 << 10;
const SLOT: u16 = 0x0400;
const DRIVE: u16 = 0x0100;

/// `None` is a filemark.
type Objects = Vec<Option<Vec<u8>>>;

fn cases() -> ProptestConfig {
    let long = std::env::var_os("HAKARU_LONG").is_some();
    ProptestConfig::with_cases(if long { 20_000 } else { 500 })
}

/// A cartridge of so short areas that a few records fill one.
fn header() -> Header {
    Header {
        area_bytes: 16 * FRAME_BYTES as u64,
        ..Header::new("HAK001L5".to_owned(), false, CAPACITY)
    }
}

fn read_from(disk: &dyn Disk) -> Result<Recovered, ReadError> {
    recover(&mut |offset, bytes| disk.read_at(offset, bytes))
}

/// Returns the objects of a cartridge with their bytes.
fn objects_of(disk: &dyn Disk, header: &Header, medium: &Medium) -> Objects {
    let mut objects = Vec::new();
    for position in 0..medium.end() {
        objects.push(match medium.after(position) {
            Object::Blocks {
                block_bytes,
                offset_bytes,
                ..
            } => {
                let mut bytes = vec![0; block_bytes as usize];
                disk.read_at(header.data_bytes() + offset_bytes, &mut bytes)
                    .unwrap();
                Some(bytes)
            }
            Object::Filemarks { .. } => None,
            Object::EndOfData => unreachable!("before the end"),
        });
    }
    objects
}

/// A new cartridge.
fn blank() -> MemoryDisk {
    let disk = MemoryDisk::new(header().total_bytes());
    disk.write_at(0, &header().emit()).unwrap();
    let first = hakaru_tape::index_of(&header(), &Medium::default());
    disk.write_at(first.0, &first.1).unwrap();
    disk
}

#[derive(Clone, Debug)]
enum Step {
    Write(u32),
    /// A write whose bytes were lost, but for the first `kept` of its record and itself.
    LostWrite(u32, u8),
    Marks {
        count: u32,
        immediate: bool,
    },
    /// A synchronisation that was aborted, after its record was written if `written`, or that the
    /// store has refused.
    LostSync {
        written: bool,
        end: SyncEnd,
    },
    Locate(u16),
    Erase,
    Move,
    /// The cartridge changes places with another one, and back.
    Exchange,
    Unbuffered(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncEnd {
    Aborted,
    Failed,
    /// The store has refused it after it was aborted.
    Lost,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let lengths = prop_oneof![Just(600_u32), 1_u32..1500];
    let ends = [SyncEnd::Aborted, SyncEnd::Failed, SyncEnd::Lost];
    let sync_end = proptest::sample::select(ends.to_vec());
    let step = prop_oneof![
        6 => lengths.clone().prop_map(Step::Write),
        1 => (lengths.clone(), 0_u8..4).prop_map(|(length, kept)| Step::LostWrite(length, kept)),
        4 => (0_u32..4, any::<bool>()).prop_map(|(count, immediate)| Step::Marks { count, immediate }),
        1 => (any::<bool>(), sync_end).prop_map(|(written, end)| Step::LostSync { written, end }),
        4 => any::<u16>().prop_map(Step::Locate),
        1 => Just(Step::Erase),
        1 => Just(Step::Move),
        1 => Just(Step::Exchange),
        1 => lengths.prop_map(Step::Unbuffered),
    ];
    proptest::collection::vec(step, 1..30)
}

/// The tape after a step.
#[derive(Clone, Debug)]
struct State {
    /// Position in the log of the disk.
    log: usize,
    objects: Objects,
    /// Objects at the beginning that survive a crash before the end of this step.
    floor: usize,
    /// Whether every object survives a crash after this step.
    synchronised: bool,
}

struct Scene {
    library: Library,
    recorder: Recorder,
    disk: RecordingDisk,
    objects: Objects,
    floor: usize,
    states: Vec<State>,
    /// Whether the step has made everything durable.
    synchronised: bool,
    serial: u8,
}

impl Scene {
    fn open(base: &MemoryDisk) -> Scene {
        let recovered = read_from(base).expect("a crash leaves a sound cartridge");
        let objects = objects_of(base, &recovered.header, &recovered.medium);
        let mut library = Library::new(&LibraryConfig {
            drives: vec![Generation::Lto5],
            timed: false,
            slots: 2,
            import_export: 0,
            cartridges: vec![
                Placed {
                    barcode: recovered.header.barcode.clone(),
                    slot: 1,
                    write_protected: false,
                    generation: None,
                    recovered: Some(Arc::new(recovered)),
                },
                Placed {
                    barcode: "OTHER".to_owned(),
                    slot: 2,
                    write_protected: false,
                    generation: None,
                    recovered: None,
                },
            ],
            capacity_bytes: CAPACITY,
            early_warning_bytes: 0,
            ratio: Ratio::ONE,
        });
        library.move_medium(SLOT, DRIVE).unwrap();
        let recorder = Recorder::new();
        let disk = recorder.disk(base);
        let first = State {
            log: 0,
            objects: objects.clone(),
            floor: objects.len(),
            synchronised: true,
        };
        Scene {
            library,
            recorder,
            disk,
            floor: objects.len(),
            objects,
            states: vec![first],
            synchronised: false,
            serial: 0,
        }
    }

    fn drive(&mut self) -> &mut Drive {
        let drive = self.library.drive_mut(0).unwrap();
        drive.settle();
        drive
    }

    fn position(&mut self) -> usize {
        self.drive().position() as usize
    }

    fn store(&self, record: Record) {
        if record.flush {
            self.disk.flush().unwrap();
        }
        self.disk
            .write_at(record.offset_bytes, &record.bytes)
            .unwrap();
        self.disk.flush().unwrap();
        record.ticket.done();
        if let Some(unused) = record.unused {
            let length = unused.end - unused.start;
            self.disk.discard(unused.start, length).unwrap();
        }
    }

    fn synchronise(&mut self) {
        if let Some(record) = self.drive().synchronise() {
            self.store(record);
        }
    }

    /// Removes the objects after the position from the model.
    fn cut(&mut self, position: usize) {
        self.objects.truncate(position);
        self.floor = self.floor.min(position);
    }

    fn write(&mut self, length: u32, kept: Option<u8>) {
        let position = self.position();
        let transfer = self.drive().write(false, length).unwrap();
        let Some(piece) = transfer.pieces.first() else {
            return self.cut(position);
        };
        self.serial = self.serial.wrapping_add(1);
        let data = vec![self.serial; length as usize];
        let at = header().data_bytes() + piece.offset_bytes;
        self.cut(position);
        match kept {
            None => {
                transfer
                    .before
                    .into_iter()
                    .for_each(|record| self.store(record));
                self.disk.write_at(at, &data).unwrap();
                transfer.ticket.done();
                self.synchronised = transfer.after.is_some();
                transfer
                    .after
                    .into_iter()
                    .for_each(|record| self.store(record));
                self.objects.push(Some(data));
            }
            // The command ends at any of its accesses.
            Some(kept) => {
                let mut before_is_stored = true;
                if let Some(record) = transfer.before {
                    match kept {
                        0 => before_is_stored = false,
                        1 => {
                            let (offset, bytes) = (record.offset_bytes, &record.bytes);
                            self.disk.write_at(offset, bytes).unwrap();
                            before_is_stored = false;
                        }
                        _ => self.store(record),
                    }
                }
                if before_is_stored && kept == 3 {
                    self.disk.write_at(at, &data).unwrap();
                }
                if !before_is_stored {
                    // The objects that the record would have removed may be there after a crash,
                    // but they no longer stand.
                    let end = self.drive().position() as usize;
                    self.cut(end);
                }
            }
        }
    }

    fn run(&mut self, step: &Step) {
        let floor = self.floor;
        self.synchronised = false;
        match *step {
            Step::Write(length) => self.write(length, None),
            Step::LostWrite(length, kept) => self.write(length, Some(kept)),
            Step::Unbuffered(length) => {
                self.drive().buffered = false;
                self.write(length, None);
                self.drive().buffered = true;
            }
            Step::Marks { count, immediate } => {
                let position = self.position();
                let written = self.drive().write_filemarks(count);
                if count > 0 {
                    self.cut(position);
                }
                if written.is_ok() {
                    self.objects.extend((0..count).map(|_| None));
                }
                if !immediate {
                    self.synchronise();
                    self.synchronised = true;
                }
            }
            Step::LostSync { written, end } => {
                let record = self.drive().synchronise();
                if let Some(record) = record {
                    if written {
                        self.disk.flush().unwrap();
                        self.disk
                            .write_at(record.offset_bytes, &record.bytes)
                            .unwrap();
                    }
                    match end {
                        SyncEnd::Aborted => {}
                        SyncEnd::Failed => record.ticket.fail(),
                        SyncEnd::Lost => record.ticket.lose(),
                    }
                    drop(record);
                    let drive = self.drive();
                    let stand = drive.loaded().unwrap().medium.end() as usize;
                    let unreported = drive.take_loss();
                    assert!(stand >= self.floor, "what was synchronised stands");
                    let lost = stand < self.objects.len();
                    assert!(!lost || end != SyncEnd::Aborted, "nothing is lost");
                    if end == SyncEnd::Lost {
                        assert_eq!(unreported, lost);
                    } else {
                        assert!(!unreported);
                    }
                    self.objects.truncate(stand);
                }
            }
            Step::Locate(to) => {
                let to = u64::from(to) % (self.objects.len() as u64 + 1);
                self.drive().locate(to).unwrap();
            }
            Step::Erase => {
                let position = self.position();
                self.drive().erase().unwrap();
                self.cut(position);
            }
            Step::Move => {
                let moved = self.library.move_medium(DRIVE, SLOT).unwrap();
                let records = moved.records.into_iter();
                records.for_each(|record| self.store(record));
                self.library.move_medium(SLOT, DRIVE).unwrap();
                self.synchronised = true;
            }
            Step::Exchange => {
                let exchange = |library: &mut Library, source, second| {
                    library.exchange_medium(source, DRIVE, second).unwrap()
                };
                let moved = exchange(&mut self.library, SLOT + 1, SLOT);
                let records = moved.records.into_iter();
                records.for_each(|record| self.store(record));
                exchange(&mut self.library, SLOT, SLOT + 1);
                self.synchronised = true;
            }
        }
        let low = self.floor.min(floor);
        if self.synchronised {
            self.floor = self.objects.len();
        }
        let medium = &self.drive().loaded().unwrap().medium;
        assert_eq!(medium.end() as usize, self.objects.len(), "{step:?}");
        self.states.push(State {
            log: self.recorder.position(),
            objects: self.objects.clone(),
            floor: low,
            synchronised: self.synchronised,
        });
    }

    /// Checks the tape after a crash at a position in the log.
    fn check(&self, log: usize, image: &MemoryDisk) {
        let recovered = read_from(image).expect("a crash leaves a sound cartridge");
        let found = objects_of(image, &recovered.header, &recovered.medium);
        let running = self.states.iter().position(|state| state.log > log);
        let running = running.unwrap_or(self.states.len() - 1);
        let ended = &self.states[..=running];
        let from = ended
            .iter()
            .rposition(|state| state.synchronised && state.log <= log)
            .expect("the tape was synchronised when it was opened");
        let allowed = |(number, state): (usize, &State)| {
            let floor = if number == from {
                state.objects.len()
            } else {
                state.floor
            };
            found.len() >= floor && state.objects.starts_with(&found)
        };
        let lengths = |objects: &Objects| -> Vec<Option<(usize, u8)>> {
            let of = |block: &Vec<u8>| (block.len(), block[0]);
            objects
                .iter()
                .map(|object| object.as_ref().map(of))
                .collect()
        };
        assert!(
            ended.iter().enumerate().skip(from).any(allowed),
            "found {:?} at {log}; states {:?}",
            lengths(&found),
            ended[from..]
                .iter()
                .map(|state| (state.floor, lengths(&state.objects)))
                .collect::<Vec<_>>()
        );
    }
}

proptest! {
    #![proptest_config(cases())]
    #[test]
    fn what_was_synchronised_survives_every_power_cut(
        rounds in proptest::collection::vec(steps(), 1..4),
        seed in any::<u64>(),
    ) {
        let mut random = Pcg64::seed_from_u64(seed);
        let mut base = blank();
        for steps in rounds {
            let mut scene = Scene::open(&base);
            steps.iter().for_each(|step| scene.run(step));
            let mut images = Vec::new();
            for log in scene.recorder.crash_points(0) {
                let crash = scene.recorder.crash(log);
                for mut disks in crash.images(3, 6, &mut || random.random()) {
                    let image = disks.remove(0);
                    scene.check(log, &image);
                    images.push(image);
                }
            }
            base = images.swap_remove(random.random_range(0..images.len()));
        }
    }

    /// A byte of header or index is changed: the cartridge is refused, or it is the same. (A change
    /// of a place that was never written, or not since, has no effect.)
    #[test]
    fn a_damaged_index_is_refused(steps in steps(), at in any::<u64>(), bit in 0_u8..8) {
        let mut scene = Scene::open(&blank());
        steps.iter().for_each(|step| scene.run(step));
        let log = scene.recorder.position();
        let image = scene.recorder.crash(log).image(&mut |_| true).remove(0);
        let whole = read_from(&image).unwrap();
        let at = at % whole.header.data_bytes();
        let mut byte = [0];
        image.read_at(at, &mut byte).unwrap();
        byte[0] ^= 1 << bit;
        image.write_at(at, &byte).unwrap();
        match read_from(&image) {
            Err(ReadError::Damaged(Damage { offset_bytes, .. })) => {
                let damaged = offset_bytes / FRAME_BYTES as u64 == at / FRAME_BYTES as u64;
                prop_assert!(damaged, "{} is reported at {}", at, offset_bytes);
            }
            Err(ReadError::Io(error)) => panic!("{error}"),
            Ok(read) => prop_assert_eq!((read.medium, read.header), (whole.medium, whole.header)),
        }
    }
}

#[test]
fn records_that_are_missing_or_torn_out_are_noticed() {
    let mut scene = Scene::open(&blank());
    for length in 1..6 {
        scene.run(&Step::Write(length * 100));
        scene.run(&Step::Marks {
            count: 0,
            immediate: false,
        });
    }
    let log = scene.recorder.position();
    let image = scene.recorder.crash(log).image(&mut |_| true).remove(0);
    let fault = |image: &MemoryDisk| match read_from(image) {
        Err(ReadError::Damaged(damage)) => damage.to_string(),
        other => panic!("{other:?}"),
    };
    // The record at frame 2 is lost, but not those after it.
    let lost = image.clone();
    lost.write_at(HEADER_BYTES + 2 * FRAME_BYTES as u64, &[0; FRAME_BYTES])
        .unwrap();
    assert!(fault(&lost).starts_with("a record of its index is missing"));
    // Two records changed places.
    let moved = image.clone();
    let mut frame = [0; FRAME_BYTES];
    image
        .read_at(HEADER_BYTES + FRAME_BYTES as u64, &mut frame)
        .unwrap();
    moved
        .write_at(HEADER_BYTES + 2 * FRAME_BYTES as u64, &frame)
        .unwrap();
    assert!(fault(&moved).starts_with("a record of its index is in a wrong place"));
    let empty = MemoryDisk::new(header().total_bytes());
    assert!(fault(&empty).starts_with("it is not a cartridge of hakaru"));
    empty.write_at(0, &header().emit()).unwrap();
    assert!(fault(&empty).starts_with("it has no index"));
    let short = image.clone();
    short.set_len(HEADER_BYTES + 100).unwrap();
    assert!(fault(&short).starts_with("its end is missing"));
}
