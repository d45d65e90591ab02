//! damaged and foreign pools are refused with the object and the reason, and never
//! repaired; a check changes no byte.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use crate::support::{Disks, Driver, PAGE, scale};
use hakaru_pool::disk::{Disk, MemoryDisk};
use hakaru_pool::header::GroupHeader;
use hakaru_pool::metadata::{RecordError, StoreError};
use hakaru_pool::{Fault, Finding, GroupId, Object, OpenError, PoolConfig, VolumeId, VolumeStatus};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

/// Returns the disks of a pool with a volume, a snapshot of it and a second group: metadata, `g0`,
/// `g1`.
fn healthy() -> Vec<Arc<MemoryDisk>> {
    let memory: Vec<Arc<MemoryDisk>> = (0..3).map(|_| Arc::new(MemoryDisk::new(0))).collect();
    let disks = Disks {
        metadata: memory[0].clone(),
        groups: BTreeMap::new(),
    };
    let mut driver = Driver::create(PoolConfig::default(), disks).unwrap();
    driver.grow("g0", memory[1].clone(), 9 * PAGE).unwrap();
    driver.grow("g1", memory[2].clone(), 9 * PAGE).unwrap();
    let volume = driver.create_volume("v", 1 << 30, Some(1 << 30)).unwrap();
    driver
        .write(volume, 0, &vec![1; 3 * PAGE as usize], false)
        .unwrap();
    driver.copy_volume(volume, "s", true).unwrap();
    driver.write(volume, 0, &[2; 512], true).unwrap();
    drop(driver);
    memory
}

fn copies(disks: &[Arc<MemoryDisk>]) -> Vec<Arc<MemoryDisk>> {
    disks
        .iter()
        .map(|disk| Arc::new((**disk).clone()))
        .collect()
}

fn as_disks(disks: &[Arc<MemoryDisk>]) -> Disks {
    Disks {
        metadata: disks[0].clone(),
        groups: ["g0", "g1"]
            .iter()
            .zip(&disks[1..])
            .map(|(name, disk)| ((*name).into(), disk.clone() as _))
            .collect(),
    }
}

fn bytes(disk: &MemoryDisk) -> Vec<u8> {
    let mut bytes = vec![0; disk.len().unwrap() as usize];
    disk.read_at(0, &mut bytes).unwrap();
    bytes
}

fn check(disks: &[Arc<MemoryDisk>]) -> Result<Vec<Finding>, StoreError> {
    let all = as_disks(disks);
    let checked = hakaru_pool::check(all.metadata, &mut |_, name| {
        all.groups
            .get(name)
            .cloned()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    })?;
    Ok(checked.findings)
}

/// Asserts that opening and the check both refuse the pool with exactly this fault, and that
/// neither changes a byte.
#[track_caller]
fn assert_refused(disks: &[Arc<MemoryDisk>], object: Object, fault: &Fault) {
    let before: Vec<_> = disks.iter().map(|disk| bytes(disk)).collect();
    let findings = match check(disks) {
        Ok(findings) => findings,
        Err(StoreError::Record(finding)) => vec![finding],
        Err(other) => panic!("{other}"),
    };
    assert!(
        findings
            .iter()
            .any(|finding| finding.object == object && finding.fault == *fault),
        "findings: {findings:?}"
    );
    assert!(
        before == disks.iter().map(|disk| bytes(disk)).collect::<Vec<_>>(),
        "the check changed the pool"
    );
    match Driver::open(PoolConfig::default(), as_disks(disks)) {
        Err(OpenError::Damaged(same)) => assert_eq!(same, findings),
        Err(OpenError::Store(StoreError::Record(same))) => assert_eq!([same][..], findings[..]),
        other => panic!("{:?}", other.map(|_| "opened")),
    }
}

#[derive(Debug)]
struct Raw(Arc<MemoryDisk>);

impl StorageBackend for Raw {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.0.flush()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, data)
    }
}

/// Replaces a record, or removes it if `change` returns `None`. The store stays intact for redb.
fn forge<K>(
    disk: &Arc<MemoryDisk>,
    table: &str,
    key: K,
    change: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>,
) where
    K: redb::Key + Copy + 'static + for<'a> std::borrow::Borrow<K::SelfType<'a>>,
{
    let database = Database::builder()
        .create_with_backend(Raw(disk.clone()))
        .unwrap();
    let write = database.begin_write().unwrap();
    {
        let mut table = write
            .open_table(TableDefinition::<K, &[u8]>::new(table))
            .unwrap();
        let record = table.get(key).unwrap().unwrap().value().to_vec();
        match change(record) {
            Some(record) => {
                table.insert(key, record.as_slice()).unwrap();
            }
            None => {
                table.remove(key).unwrap();
            }
        }
    }
    write.commit().unwrap();
}

/// Sets a byte and corrects the checksum.
fn forged(mut record: Vec<u8>, at: usize, value: u8) -> Vec<u8> {
    assert_ne!(record[at], value, "nothing would be changed");
    record[at] = value;
    let body = record.len() - 4;
    let sum = crc_fast::crc32_iscsi(&record[..body]);
    record[body..].copy_from_slice(&sum.to_be_bytes());
    record
}

const LEAF_OF_V: u64 = 0;
const V: VolumeId = VolumeId(0);

#[test]
fn a_healthy_pool_is_the_same_to_the_byte_after_a_check() {
    let disks = healthy();
    let before: Vec<_> = disks.iter().map(|disk| bytes(disk)).collect();
    assert_eq!(check(&disks).unwrap(), []);
    assert!(before == disks.iter().map(|disk| bytes(disk)).collect::<Vec<_>>());
}

#[test]
fn every_damaged_byte_of_every_record_is_reported_with_its_object() {
    let disks = healthy();
    let records: Vec<(&str, u64, usize)> = {
        let database = Database::builder()
            .create_with_backend(Raw(disks[0].clone()))
            .unwrap();
        let read = database.begin_read().unwrap();
        let length = |record: redb::AccessGuard<'_, &[u8]>| record.value().len();
        let superblock = read
            .open_table(TableDefinition::<u8, &[u8]>::new("superblock"))
            .unwrap();
        let group = read
            .open_table(TableDefinition::<u16, &[u8]>::new("groups"))
            .unwrap();
        let volume = read
            .open_table(TableDefinition::<u32, &[u8]>::new("volumes"))
            .unwrap();
        let leaf = read
            .open_table(TableDefinition::<u64, &[u8]>::new("leaves"))
            .unwrap();
        vec![
            ("superblock", 0, length(superblock.get(0).unwrap().unwrap())),
            ("groups", 1, length(group.get(1).unwrap().unwrap())),
            ("volumes", 0, length(volume.get(0).unwrap().unwrap())),
            (
                "leaves",
                LEAF_OF_V,
                length(leaf.get(LEAF_OF_V).unwrap().unwrap()),
            ),
        ]
    };
    let mut tried = 0;
    for (table, key, length) in records {
        for at in 0..length {
            let damaged = copies(&disks);
            let flip = |mut record: Vec<u8>| {
                record[at] ^= 0x10;
                Some(record)
            };
            let object = match table {
                "superblock" => {
                    forge(&damaged[0], table, key as u8, flip);
                    Object::Superblock
                }
                "groups" => {
                    forge(&damaged[0], table, key as u16, flip);
                    Object::Group(GroupId(key as u16))
                }
                "volumes" => {
                    forge(&damaged[0], table, key as u32, flip);
                    Object::Volume(V)
                }
                _ => {
                    forge(&damaged[0], table, key, flip);
                    Object::Leaf { volume: V, leaf: 0 }
                }
            };
            assert_refused(&damaged, object, &Fault::Record(RecordError::Checksum));
            tried += 1;
        }
    }
    println!("{tried} damaged bytes, each reported");
}

#[test]
fn contradictions_are_reported_even_if_every_checksum_is_right() {
    let disks = healthy();
    let assert_reported = |change: &dyn Fn(&[Arc<MemoryDisk>]), object: Object, fault: Fault| {
        let damaged = copies(&disks);
        change(&damaged);
        assert_refused(&damaged, object, &fault);
    };
    // A leaf: 3 bytes of frame, volume, number, 64 bytes of bitmap, then 6 bytes per entry.
    let entry = |n: usize| 3 + 8 + 64 + 6 * n;
    let entry_of_v = |page| Object::Entry { volume: V, page };
    assert_reported(
        &|disks| {
            forge(&disks[0], "leaves", LEAF_OF_V, |record| {
                Some(forged(record, entry(1) + 1, 7))
            })
        },
        entry_of_v(1),
        Fault::OutOfRange,
    );
    assert_reported(
        &|disks| {
            forge(&disks[0], "leaves", LEAF_OF_V, |record| {
                Some(forged(record, entry(1) + 2, 1))
            })
        },
        entry_of_v(1),
        Fault::OutOfRange,
    );
    // Entry 2 of the volume references the page of entry 1.
    let damaged = copies(&disks);
    let mut pages = (0, 0);
    forge(&damaged[0], "leaves", LEAF_OF_V, |mut record| {
        let (first, second) = (entry(1), entry(2));
        pages = (record[first + 1], record[first + 5]);
        record.copy_within(first..first + 6, second);
        let last = record[second + 5];
        record[second + 5] ^= 1;
        Some(forged(record, second + 5, last))
    });
    let findings = check(&damaged).unwrap();
    let twice = |finding: &Finding| {
        finding.object == entry_of_v(2) && matches!(finding.fault, Fault::UsedTwice { .. })
    };
    assert!(findings.iter().any(twice), "{findings:?} {pages:?}");
    assert_reported(
        &|disks| forge(&disks[0], "leaves", LEAF_OF_V, |_| None),
        Object::Volume(V),
        Fault::Count {
            name: "pages",
            stored: 3,
            counted: 0,
        },
    );
    assert_reported(
        &|disks| forge(&disks[0], "volumes", 0_u32, |_| None),
        Object::Superblock,
        Fault::Count {
            name: "volumes",
            stored: 2,
            counted: 1,
        },
    );
    assert_reported(
        &|disks| forge(&disks[0], "groups", 0_u16, |_| None),
        Object::Group(GroupId(0)),
        Fault::Missing,
    );
    // A volume: frame, number, length of the name, name.
    assert_reported(
        &|disks| {
            forge(&disks[0], "volumes", 1_u32, |record| {
                Some(forged(record, 3 + 4 + 1, b'v'))
            })
        },
        Object::Volume(VolumeId(1)),
        Fault::NameTaken,
    );
    assert_reported(
        &|disks| forge(&disks[0], "superblock", 0_u8, |_| None),
        Object::Superblock,
        Fault::Missing,
    );
}

#[test]
fn a_newer_format_is_refused_with_its_number() {
    let disks = healthy();
    forge(&disks[0], "superblock", 0_u8, |record| {
        Some(forged(record, 1, 9))
    });
    assert_refused(
        &disks,
        Object::Superblock,
        &Fault::Record(RecordError::Format { format: 9 }),
    );
    let error = Driver::open(PoolConfig::default(), as_disks(&disks)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "superblock: it has format 9; this version reads format 1"
    );
}

#[test]
fn foreign_group_files_are_reported() {
    let disks = healthy();
    let swapped = vec![disks[0].clone(), disks[2].clone(), disks[1].clone()];
    assert_refused(&swapped, Object::GroupFile(GroupId(0)), &Fault::Foreign);
    let missing = copies(&disks[..2]);
    assert_refused(&missing, Object::GroupFile(GroupId(1)), &Fault::Missing);
    let short = copies(&disks);
    short[1].set_len(8 * PAGE).unwrap();
    let fault = Fault::Short {
        length_bytes: 8 * PAGE,
        needed_bytes: 9 * PAGE,
    };
    assert_refused(&short, Object::GroupFile(GroupId(0)), &fault);
    let wiped = copies(&disks);
    wiped[2].discard(0, PAGE).unwrap();
    assert_refused(
        &wiped,
        Object::GroupFile(GroupId(1)),
        &Fault::Record(RecordError::Checksum),
    );
}

#[test]
fn one_torn_copy_of_a_header_is_harmless() {
    let disks = healthy();
    for at in [0, 4096] {
        let torn = copies(&disks);
        torn[1].write_at(at, &[0xFF; 512]).unwrap();
        drop(Driver::open(PoolConfig::default(), as_disks(&torn)).unwrap());
        let renewed = GroupHeader::read(torn[1].as_ref()).unwrap().unwrap();
        assert_eq!(renewed.group, GroupId(0));
        torn[1].write_at(4096 - at, &[0xFF; 512]).unwrap();
        drop(
            Driver::open(PoolConfig::default(), as_disks(&torn))
                .expect("the torn copy was written anew"),
        );
    }
}

/// A-04, as far as it is detectable: a disk that acknowledged commits and lost them.
#[test]
fn metadata_older_than_at_the_last_opening_is_refused() {
    let disks = healthy();
    let old = copies(&disks);
    let mut driver = Driver::open(PoolConfig::default(), as_disks(&disks)).unwrap();
    let generation = driver.pool.status().generation;
    driver.create_volume("w", PAGE, None).unwrap();
    drop(driver);
    drop(Driver::open(PoolConfig::default(), as_disks(&disks)).unwrap());
    let lost = vec![old[0].clone(), disks[1].clone(), disks[2].clone()];
    let fault = Fault::Older {
        generation,
        header: generation + 1,
    };
    assert_refused(&lost, Object::GroupFile(GroupId(0)), &fault);
}

/// Volumes and data of a pool, or the reason why it is refused.
type Report = Result<(Vec<VolumeStatus>, Vec<u8>), String>;

fn report(disks: &[Arc<MemoryDisk>]) -> Report {
    let mut driver =
        Driver::open(PoolConfig::default(), as_disks(disks)).map_err(|error| error.to_string())?;
    let volumes = driver.pool.volumes().collect();
    let data = driver
        .read(V, 0, 4 * PAGE as usize)
        .map_err(|error| error.to_string())?;
    Ok((volumes, data))
}

/// A pool with a damaged byte in the store's file is refused, or has the same volumes and data as
/// before.
#[test]
fn a_damaged_byte_anywhere_in_the_metadata_file_is_refused_or_harmless() {
    let disks = healthy();
    let length = disks[0].len().unwrap();
    let (mut refused, mut harmless) = (0, 0);
    let right = report(&copies(&disks));
    let before = bytes(&disks[0]);
    // Every byte that is not zero, and some of the zeros.
    for at in (0..length).filter(|at| before[*at as usize] != 0 || at % 4096 == 17) {
        let damaged = copies(&disks);
        damaged[0]
            .write_at(at, &[before[at as usize] ^ 0x21])
            .unwrap();
        match report(&damaged) {
            Err(_) => refused += 1,
            same => {
                assert!(
                    same == right,
                    "byte {at} changed the data read without being detected"
                );
                harmless += 1;
            }
        }
    }
    println!("{refused} damaged bytes refused, {harmless} harmless");
    assert!(refused > 200);
}

/// A-05 for the metadata: bits flipped, sectors lost, misplaced or stale, the end truncated.
#[test]
fn damage_at_random_is_refused_or_harmless() {
    let disks = healthy();
    let right = report(&copies(&disks));
    let whole = bytes(&disks[0]);
    let used: Vec<usize> = (0..whole.len() / 512)
        .filter(|at| whole[at * 512..][..512] != [0; 512])
        .collect();
    let mut random = Pcg64::seed_from_u64(5);
    let (mut refused, mut harmless) = (0, 0);
    for turn in 0..scale(2000, 100_000) {
        let mut bytes = whole.clone();
        for _ in 0..random.random_range(1..4) {
            let sector = used[random.random_range(0..used.len())] * 512;
            let other = used[random.random_range(0..used.len())] * 512;
            match random.random_range(0..5) {
                0 => bytes[sector + random.random_range(0..512)] ^= 1 << random.random_range(0..8),
                1 => bytes[sector..sector + 512].fill(0),
                2 => bytes.copy_within(other..other + 512, sector),
                3 => bytes[sector..sector + 512].fill_with(|| random.random_range(0..=255)),
                _ => {
                    let (page, from) = (sector / 4096 * 4096, other / 4096 * 4096);
                    bytes.copy_within(from..from + 4096, page);
                }
            }
        }
        let length = if random.random_range(0..16) == 0 {
            random.random_range(0..bytes.len())
        } else {
            bytes.len()
        };
        let damaged = copies(&disks);
        damaged[0].set_len(length as u64).unwrap();
        damaged[0].write_at(0, &bytes[..length]).unwrap();
        match report(&damaged) {
            Err(_) => refused += 1,
            same => {
                assert!(
                    same == right,
                    "turn {turn} changed the data read without being detected"
                );
                harmless += 1;
            }
        }
    }
    println!("{refused} damaged stores refused, {harmless} harmless");
    assert!(refused > 1000);
}

/// Opens a pool in the first released format. Every later version opens it, or refuses it with the
/// number of the format.
#[test]
fn the_fixture_of_format_1_opens() {
    let stored = include_bytes!("../fixtures/format-1.bin");
    let disks = healthy();
    let mut at = 0;
    for disk in &disks {
        let length = disk.len().unwrap();
        disk.discard(0, length).unwrap();
        disk.set_len(0).unwrap();
        let word = |at: usize| u64::from_be_bytes(stored[at..at + 8].try_into().unwrap());
        disk.set_len(word(at)).unwrap();
        let chunks = word(at + 8);
        at += 16;
        for _ in 0..chunks {
            disk.write_at(word(at), &stored[at + 8..at + 8 + 512])
                .unwrap();
            at += 8 + 512;
        }
    }
    assert_eq!(at, stored.len());
    assert_eq!(check(&disks).unwrap(), []);
    let mut driver = Driver::open(PoolConfig::default(), as_disks(&disks)).unwrap();
    let names: Vec<_> = driver
        .pool
        .volumes()
        .map(|volume| (volume.name, volume.mapped_bytes / PAGE))
        .collect();
    assert_eq!(names, [("v".into(), 3), ("s".into(), 3)]);
    assert_eq!(
        driver.read(V, 0, 1024).unwrap(),
        [[2; 512], [1; 512]].concat()
    );
    assert_eq!(driver.read(VolumeId(1), 0, 512).unwrap(), [1; 512]);
}

/// Writes the fixture of a new format. Change the name of the file first, then run `cargo test -p
/// hakaru-pool --test pool damage -- --ignored`.
#[test]
#[ignore = "writes the fixture of a new format"]
fn write_the_fixture() {
    let disks = healthy();
    let mut stored = Vec::new();
    for (index, disk) in disks.iter().enumerate() {
        let bytes = bytes(disk);
        let kept: Vec<_> = bytes
            .chunks(512)
            .enumerate()
            .filter(|(_, chunk)| chunk.iter().any(|byte| *byte != 0))
            .collect();
        // The blocks of a data page repeat, so its first blocks are enough.
        let kept: Vec<_> = kept
            .into_iter()
            .filter(|(at, _)| index == 0 || at % (PAGE as usize / 512) < 9)
            .collect();
        stored.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        stored.extend_from_slice(&(kept.len() as u64).to_be_bytes());
        for (at, chunk) in kept {
            stored.extend_from_slice(&(at as u64 * 512).to_be_bytes());
            stored.extend_from_slice(chunk);
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/format-1.bin");
    std::fs::write(path, stored).unwrap();
}
