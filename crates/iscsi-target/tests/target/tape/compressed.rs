//! Compression: the bytes on the tape count against the capacity and the early warning.

use super::*;

const BLOCK: u32 = 32 << 10;

/// Returns the contents of a block.
fn block(number: u64) -> Vec<u8> {
    pattern(BLOCK as usize, number as u8)
}

impl Scene {
    /// Writes blocks from the beginning until a command does not end with GOOD. Returns their
    /// number without the last one, and the answer to it.
    fn write_blocks(&mut self) -> (u64, Answer) {
        for blocks in 0.. {
            let answer = self.write(false, BLOCK, &block(blocks));
            if answer.status != 0 {
                return (blocks, answer);
            }
        }
        unreachable!("the cartridge is full at last")
    }

    /// Returns the values of a log page of the first drive by code.
    fn values(&mut self, page: u8) -> std::collections::BTreeMap<u16, u64> {
        let data = self.run_in(&[0x4d, 0, 0x40 | page, 0, 0, 0, 0, 0x10, 0, 0]);
        let page = hakaru_wire::scsi::LogPage::parse(&data.good());
        let Ok(hakaru_wire::scsi::LogPage::Parameters { parameters, .. }) = page else {
            panic!("a page of parameters");
        };
        let number = |value: &[u8]| {
            value
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
        };
        let short = parameters.into_iter().filter(|each| each.value.len() <= 8);
        short.map(|each| (each.code, number(&each.value))).collect()
    }
}

/// A library whose cartridges have 4 MiB, with early warning at the last 64 KiB of them.
fn library(ratio: f64) -> Scene {
    let config = with_capacity(with_library(false), 4 << 20);
    Scene::loaded(with_ratio(config, ratio), &[])
}

#[test]
fn cartridge_takes_as_many_times_its_capacity_as_the_ratio_says() {
    for (ratio, early, all) in [(1.0, 126, 128), (2.0, 252, 256), (2.5, 315, 320)] {
        let mut scene = library(ratio);
        // The block that reaches early warning is the first one that ends with it.
        let (blocks, warned) = scene.write_blocks();
        assert_eq!(warned.sense(), early_warning());
        assert_eq!(blocks + 1, early, "{ratio}");
        let mut written = blocks + 1;
        loop {
            let answer = scene.write(false, BLOCK, &block(written));
            if answer.sense().key == hakaru_wire::scsi::SenseKey::VolumeOverflow {
                break;
            }
            assert_eq!(answer.sense(), early_warning());
            written += 1;
        }
        assert_eq!(written, all, "{ratio}");
        scene.rewind();
        for number in 0..written {
            let data = scene.read(false, BLOCK, BLOCK).good();
            assert_eq!(data, block(number), "{ratio}: block {number}");
        }
    }
}

#[test]
fn capacities_and_bytes_of_the_tape_are_those_after_compression() {
    let mut scene = library(2.0);
    let capacity = |scene: &mut Scene| {
        let page = scene.values(0x31);
        (page[&1], page[&3])
    };
    assert_eq!(capacity(&mut scene), (4, 4));
    for seed in 0..4 {
        let data = pattern(1 << 20, seed);
        scene.write(false, 1 << 20, &data).good();
    }
    assert_eq!(capacity(&mut scene), (2, 4));
    // From initiators, to the tape, from the tape, to initiators; MB to the end of data.
    let access = scene.values(0x0c);
    let (taken, stored) = (4 << 20, 2 << 20);
    assert_eq!(
        [0, 1, 2, 3].map(|code| access[&code]),
        [taken, stored, 0, 0]
    );
    assert_eq!([4, 5, 7].map(|code| access[&code]), [2, 4, 2]);
    scene.rewind();
    scene.read(false, 1 << 20, 1 << 20).good();
    let access = scene.values(0x0c);
    assert_eq!([2, 3].map(|code| access[&code]), [1 << 19, 1 << 20]);
    // Ratios in percent; MB and bytes to initiators, from the tape, from initiators, to the tape.
    let pages = scene.values(0x1b);
    assert_eq!([0, 1].map(|code| pages[&code]), [200, 200]);
    let megabytes = [2, 4, 6, 8].map(|code| pages[&code] * 1_000_000 + pages[&(code + 1)]);
    assert_eq!(megabytes, [1 << 20, 1 << 19, taken, stored]);
    let volume = scene.values(0x17);
    let [written, read, written_ratio, length, used] =
        [0x0e, 0x0f, 0x12, 0x16, 0x17].map(|code| volume[&code]);
    assert_eq!((written, read, written_ratio), (2, 0, 200));
    assert_eq!((length, used), (4, 2));
    // The memory of the cartridge: MiB left, and in all.
    let memory = scene.run_in(&[0x8c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 30, 0, 0]);
    let memory = memory.good();
    assert_eq!((memory[4 + 5 + 7], memory[4 + 13 + 5 + 7]), (2, 4));
}

#[test]
fn zone_before_early_warning_has_its_size_on_the_tape() {
    let mut scene = library(2.0);
    // PEWS: 1 MB, of 4 MiB with early warning at the last 64 KiB.
    let mut list = vec![0, 0, 0x10, 0, 0x50, 0x01, 0, 0x1c, 0, 0x02, 0, 1];
    list.resize(4 + 32, 0);
    scene.run_list(&[0x15, 0x10, 0, 0, 36, 0], &list).good();
    let (blocks, warned) = scene.write_blocks();
    let additional = warned.sense().additional;
    assert_eq!((additional.code, additional.qualifier), (0x00, 0x07));
    let stored = (blocks + 1) * u64::from(BLOCK) / 2;
    let (before, zone) = (64 << 10, 1_000_000);
    let begins = (4 << 20) - before - zone;
    assert!(
        (begins..begins + u64::from(BLOCK)).contains(&stored),
        "{stored}"
    );
}

fn early_warning() -> Sense {
    Sense::END_OF_PARTITION_DETECTED.with_stream(StreamConditions {
        end_of_medium: true,
        ..StreamConditions::default()
    })
}
