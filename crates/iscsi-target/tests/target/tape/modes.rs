//! Mode pages, and the programmable early warning that one of them sets.

use hakaru_wire::scsi::{FieldPointer, ModePage};

use super::*;

impl Scene {
    /// Reads mode pages without a block descriptor, and returns them without the header.
    fn mode(&mut self, page: u8, subpage: u8) -> Vec<u8> {
        let data = self.run_in(&[0x1a, 0x08, page, subpage, 255, 0]).good();
        assert_eq!(usize::from(data[0]), data.len() - 1);
        data[4..].to_vec()
    }

    /// Writes mode pages with MODE SELECT(6), in buffered mode.
    fn select(&mut self, pages: &[u8]) -> Answer {
        let list = [&[0, 0, 0x10, 0], pages].concat();
        self.run_list(&[0x15, 0x10, 0, 0, list.len() as u8, 0], &list)
    }
}

/// Returns page code with SPF, and subpage code, of each page.
fn codes(mut pages: &[u8]) -> Vec<(u8, Option<u8>)> {
    let mut codes = Vec::new();
    while let Some((page, rest)) = ModePage::parse(pages) {
        let subpage = match &page {
            ModePage::Unknown { subpage, .. } => *subpage,
            _ => None,
        };
        codes.push((page.code(), subpage));
        pages = rest;
    }
    assert!(pages.is_empty());
    codes
}

/// Returns the extension of the device configuration page with a size of the zone.
fn extension(megabytes: u8) -> [u8; 32] {
    let mut page = [0; 32];
    page[..8].copy_from_slice(&[0x50, 0x01, 0, 0x1c, 0, 0x02, 0, megabytes]);
    page
}

#[test]
fn all_pages_and_subpages_are_listed() {
    let mut scene = Scene::new(&[]);
    let plain = [0x01, 0x02, 0x0a, 0x0f, 0x10, 0x11, 0x1a, 0x1c].map(|code| (code, None));
    assert_eq!(codes(&scene.mode(0x3f, 0)), plain);
    let mut all = plain.to_vec();
    all.insert(5, (0x10, Some(0x01)));
    assert_eq!(codes(&scene.mode(0x3f, 0xff)), all);
    assert_eq!(codes(&scene.mode(0x10, 0xff)), all[4..6]);
    assert_eq!(scene.mode(0x10, 0x01), extension(0));
    assert_eq!(scene.mode(0x02, 0), [&[0x02, 0x0e][..], &[0; 14]].concat());
    assert_eq!(scene.mode(0x1a, 0), [&[0x1a, 0x26][..], &[0; 38]].concat());
    let changeable = scene.mode(0x40 | 0x10, 0x01);
    let mut expected = [0; 32];
    expected[..8].copy_from_slice(&[0x50, 0x01, 0, 0x1c, 0, 0, 0xff, 0xff]);
    assert_eq!(changeable, expected);
    // Subpages that do not exist.
    for (page, subpage) in [(0x3f, 0x01), (0x0a, 0x01), (0x10, 0x02), (0x00, 0x01)] {
        let refused = scene.run_in(&[0x1a, 0x08, page, subpage, 255, 0]);
        let field = FieldPointer {
            in_cdb: true,
            byte: 3,
            bit: None,
        };
        let sense = Sense::INVALID_FIELD_IN_CDB.with_field(field);
        assert_eq!(refused.sense, Some(sense), "{page:02x} {subpage:02x}");
    }
}

#[test]
fn device_configuration_page_may_be_longer_than_in_ssc_2() {
    let mut scene = Scene::new(&[]);
    assert_eq!(scene.mode(0x0f, 0)[2], 0xc0);
    for (length, compression) in [(0x0e, 0), (0x1e, 1), (0x1e, 0), (0x0e, 1)] {
        let mut page = vec![0x10, length];
        page.resize(2 + usize::from(length), 0);
        page[14] = compression;
        scene.select(&page).good();
        assert_eq!(scene.mode(0x0f, 0)[2], 0x40 | compression << 7);
        // The drive reports the length that it knows.
        let reported = scene.mode(0x10, 0);
        assert_eq!((reported[1], reported[14]), (0x0e, compression));
    }
}

#[test]
fn fields_that_cannot_be_changed_keep_their_values() {
    let mut scene = Scene::new(&[]);
    scene.select(&extension(0)).good();
    let (power, reconnect) = (scene.mode(0x1a, 0), scene.mode(0x02, 0));
    for page in [&power, &reconnect] {
        scene.select(page).good();
    }
    let changed = |page: &[u8], at: usize, value| {
        let mut page = page.to_vec();
        page[at] = value;
        page
    };
    let short = [0x50, 0x01, 0, 0x02, 0, 0x02].to_vec();
    for (page, byte) in [
        // TAPLSD, SHORT ERASE MODE, the length.
        (changed(&extension(0), 4, 0x01), 8),
        (changed(&extension(0), 5, 0x01), 9),
        (short, 6),
        // STANDBY_Z, and the buffer full ratio.
        (changed(&power, 3, 0x01), 7),
        (changed(&reconnect, 2, 0x80), 6),
    ] {
        let field = FieldPointer {
            in_cdb: false,
            byte,
            bit: None,
        };
        let sense = Sense::INVALID_FIELD_IN_PARAMETER_LIST.with_field(field);
        assert_eq!(scene.select(&page).sense, Some(sense), "{page:02x?}");
    }
    assert_eq!(scene.mode(0x10, 0x01), extension(0));
}

fn warned(sense: Sense) -> Option<Sense> {
    let stream = StreamConditions {
        end_of_medium: true,
        ..StreamConditions::default()
    };
    Some(sense.with_stream(stream).with_information(0))
}

#[test]
fn programmable_early_warning_is_given_once_before_early_warning() {
    let mut scene = Scene::loaded(with_capacity(with_library(false), 8 << 20), &[]);
    scene.select(&extension(2)).good();
    assert_eq!(scene.mode(0x10, 0x01), extension(2));
    let data = pattern(1_000_000, 1);
    let programmable = warned(Sense::PROGRAMMABLE_EARLY_WARNING_DETECTED);
    let early = warned(Sense::END_OF_PARTITION_DETECTED);
    // Again after the position has left the zone.
    for _ in 0..2 {
        for block in 1..=8 {
            let answer = scene.write(false, 1_000_000, &data);
            let expected = programmable.filter(|_| block == 7);
            assert_eq!(answer.sense, expected, "block {block}");
        }
        scene.rewind();
    }
    scene.space(SpaceCode::EndOfData, 0).good();
    assert_eq!(scene.write(false, 380_000, &data[..380_000]).sense, early);
    assert_eq!(scene.marks(1).sense, early);
    // A zone that is set when the position is in it is reported before early warning.
    scene.move_medium(DRIVE, SLOT).good();
    scene.move_medium(SLOT, DRIVE).good();
    scene.run(DRIVES[0], Cdb::TestUnitReady, 0);
    scene.space(SpaceCode::EndOfData, 0).good();
    assert_eq!(scene.marks(1).sense, programmable);
    assert_eq!(scene.marks(1).sense, early);
}
