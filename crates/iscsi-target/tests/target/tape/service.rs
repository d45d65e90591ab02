//! Commands that serve the drive: VERIFY, diagnostics, buffers, LOG SELECT, ALLOW OVERWRITE.

use super::*;

impl Scene {
    fn cdb(&mut self, cdb: &[u8]) -> Answer {
        let initiator = &mut self.initiator;
        initiator.run(&mut self.pair, DRIVES[0], cdb, 0)
    }

    fn cdb_in(&mut self, cdb: &[u8]) -> Answer {
        let initiator = &mut self.initiator;
        initiator.run(&mut self.pair, DRIVES[0], cdb, 255)
    }

    /// Checks that a field of the CDB is refused.
    fn refuses(&mut self, cdb: &[u8], byte: u16, bit: Option<u8>) {
        let refused = self.cdb(cdb).sense;
        let expected = hakaru_wire::scsi::CdbError::InvalidField { byte, bit };
        assert_eq!(refused, Some(expected.sense()), "{cdb:02x?}");
    }
}

#[test]
fn verify_reads_as_read_does_and_returns_nothing() {
    let mut scene = Scene::new(&[]);
    for fill in 1..=3 {
        scene.write(false, 700, &[fill; 700]).good();
    }
    scene.marks(1).good();
    scene.rewind();
    // One block of 700 bytes, which are 2BCh.
    assert!(scene.cdb(&[0x13, 0, 0, 2, 0xbc, 0]).good().is_empty());
    assert_eq!(scene.position(), 1);
    let shorter = scene.cdb(&[0x13, 0, 0, 0, 100, 0]);
    assert_eq!(shorter.sense, Some(incorrect_length(-600)));
    assert_eq!((shorter.residual, scene.position()), (Residual::None, 2));
    assert_eq!(scene.read(false, 700, 700).good(), [3; 700]);
    assert_eq!(
        scene.cdb(&[0x13, 0, 0, 0, 100, 0]).sense,
        Some(filemark(100))
    );
    let end = scene.cdb(&[0x13, 0, 0, 0, 100, 0]);
    assert_eq!(
        end.sense,
        Some(Sense::END_OF_DATA_DETECTED.with_information(100))
    );
    // Fixed blocks, with IMMED.
    scene.set_block(700).good();
    scene.rewind();
    scene.cdb(&[0x13, 0x05, 0, 0, 2, 0]).good();
    assert_eq!(scene.position(), 2);
    let mark = scene.cdb(&[0x13, 0x01, 0, 0, 9, 0]);
    assert_eq!(mark.sense, Some(filemark(8)));
    // BYTCMP.
    scene.refuses(&[0x13, 0x02, 0, 0, 1, 0], 1, Some(1));
}

#[test]
fn verify_reports_what_the_storage_cannot_read() {
    let mut scene = Scene::new(&[]);
    scene.write(false, 700, &[1; 700]).good();
    scene.rewind();
    scene.pair.stalled = true;
    let cdb = [0x13, 0, 0, 2, 0xbc, 0];
    let command = scene.initiator.command(DRIVES[0], &cdb, false, false, 0);
    scene.initiator.send_command(&mut scene.pair, &command, &[]);
    let io = scene.pair.held.remove(0);
    let failed = hakaru_iscsi_target::IoResult::Failed(hakaru_iscsi_target::IoFailure::Read);
    let now = scene.pair.time;
    scene.pair.target.handle_io_done(now, io.id, failed);
    scene.pair.release();
    let answer = Answer::of(scene.initiator.receive(&mut scene.pair), command.itt);
    assert_eq!(answer.sense(), Sense::UNRECOVERED_READ_ERROR);
}

#[test]
fn default_self_test_succeeds_and_other_diagnostics_are_refused() {
    let mut scene = Scene::new(&[]);
    scene.cdb(&[0x1d, 0x04, 0, 0, 0, 0]).good();
    scene.cdb(&[0x1d, 0, 0, 0, 0, 0]).good();
    // A background self-test, and a page.
    scene.refuses(&[0x1d, 0x20, 0, 0, 0, 0], 1, Some(7));
    scene.refuses(&[0x1d, 0x10, 0, 0, 8, 0], 3, None);
    let pages = scene.cdb_in(&[0x1c, 0x01, 0, 0, 255, 0]).good();
    assert_eq!(pages, [0, 0, 0, 1, 0]);
    scene.refuses(&[0x1c, 0x01, 0x40, 0, 255, 0], 2, None);
    scene.refuses(&[0x1c, 0, 0, 0, 255, 0], 1, Some(0));
}

#[test]
fn read_buffer_reports_that_there_are_no_buffers() {
    let mut scene = Scene::new(&[]);
    for buffer in [0, 1, 0xff] {
        let cdb = [0x3c, 0x03, buffer, 0, 0, 0, 0, 0, 255, 0];
        assert_eq!(scene.cdb_in(&cdb).good(), [0; 4]);
    }
    let echo = scene.cdb_in(&[0x3c, 0x0b, 0, 0, 0, 0, 0, 0, 255, 0]).good();
    assert_eq!(echo, [0; 4]);
    let history = scene.cdb_in(&[0x3c, 0x1c, 0, 0, 0, 0, 0, 0, 255, 0]);
    let history = history.good();
    assert_eq!((history.len(), &history[..8]), (32, &b"HAKARU  "[..]));
    // DIRECTORY LENGTH.
    assert_eq!(history[30..], [0, 0]);
    scene.refuses(&[0x3c, 0x1c, 0x10, 0, 0, 0, 0, 0, 255, 0], 2, None);
    scene.refuses(&[0x3c, 0x02, 0, 0, 0, 0, 0, 0, 255, 0], 1, Some(4));
}

/// Returns the bytes from initiators and to initiators in log page 0Ch.
fn moved(scene: &mut Scene) -> (u64, u64) {
    let page = scene.cdb_in(&[0x4d, 0, 0x4c, 0, 0, 0, 0, 0, 255, 0]).good();
    let mut moved = [0; 4];
    let mut rest = &page[4..];
    while let [high, low, _, length, after @ ..] = rest {
        let code = usize::from(u16::from_be_bytes([*high, *low]));
        let (value, next) = after.split_at(usize::from(*length));
        if let Some(place) = moved.get_mut(code) {
            *place = value
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        }
        rest = next;
    }
    (moved[0], moved[3])
}

#[test]
fn log_select_resets_the_cumulative_values() {
    let mut scene = Scene::new(&[]);
    for cdb in [
        // PCR, or the cumulative or default cumulative values.
        [0x4c, 0x02, 0, 0, 0, 0, 0, 0, 0, 0],
        [0x4c, 0, 0x40, 0, 0, 0, 0, 0, 0, 0],
        [0x4c, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0],
    ] {
        scene.write(false, 700, &[1; 700]).good();
        scene.rewind();
        scene.read(false, 700, 700).good();
        assert_eq!(moved(&mut scene), (700, 700));
        scene.cdb(&cdb).good();
        assert_eq!(moved(&mut scene), (0, 0));
    }
    scene.write(false, 700, &[1; 700]).good();
    // SP, thresholds, a list, one page, a subpage.
    scene.refuses(&[0x4c, 0x03, 0, 0, 0, 0, 0, 0, 0, 0], 1, Some(0));
    scene.refuses(&[0x4c, 0, 0, 0, 0, 0, 0, 0, 0, 0], 2, Some(7));
    scene.refuses(&[0x4c, 0x02, 0, 0, 0, 0, 0, 0, 8, 0], 7, None);
    scene.refuses(&[0x4c, 0x02, 0x4c, 0, 0, 0, 0, 0, 0, 0], 2, Some(5));
    scene.refuses(&[0x4c, 0x02, 0, 1, 0, 0, 0, 0, 0, 0], 3, None);
    assert_eq!(moved(&mut scene).0, 700);
}

#[test]
fn allow_overwrite_needs_the_position() {
    let mut scene = Scene::new(&[]);
    scene.write(false, 4, b"once").good();
    let at = |object| [0x82, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, object, 0, 0, 0, 0_u8];
    assert_eq!(
        scene.cdb(&at(0)).sense(),
        Sense::SEQUENTIAL_POSITIONING_ERROR
    );
    scene.cdb(&at(1)).good();
    let mut cdb = at(1);
    cdb[3] = 1;
    scene.refuses(&cdb, 3, None);
    for (allowed, good) in [(0, true), (2, true), (3, false)] {
        let cdb = [0x82, 0, allowed, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        if good {
            scene.cdb(&cdb).good();
        } else {
            scene.refuses(&cdb, 2, Some(3));
        }
    }
    scene.move_medium(DRIVE, SLOT).good();
    assert_eq!(scene.cdb(&at(0)).sense(), Sense::MEDIUM_NOT_PRESENT);
}
