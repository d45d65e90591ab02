//! Time limits of commands, as REPORT SUPPORTED OPERATION CODES states them.

use super::*;

/// Returns the nominal and the recommended time limit of a command, s.
fn limits(scene: &mut Scene, lun: u8, opcode: u8) -> (u32, u32) {
    let report = Cdb::ReportSupportedOpcodes {
        commands: ReportedCommands::Opcode(opcode),
        timeouts: true,
        allocation_length: 255,
    };
    let data = scene.run(lun, report, 255).good();
    // CTDP, and that the command is supported as the standard has it.
    assert_eq!(data[1], 0x83, "{opcode:#04x}");
    let at = 4 + usize::from(data[3]);
    assert_eq!(data[at..at + 2], [0, 10]);
    let number = |at| u32::from_be_bytes(data[at..at + 4].try_into().unwrap());
    (number(at + 4), number(at + 8))
}

#[test]
fn commands_that_move_the_tape_state_the_time_that_they_may_take() {
    let mut scene = Scene::new(&[]);
    for opcode in [0x01, 0x11, 0x19, 0x1b, 0x2b, 0x91, 0x92] {
        let limit = limits(&mut scene, DRIVES[0], opcode);
        assert_eq!(limit, (180, 1800), "{opcode:#04x}");
    }
    for opcode in [0x08, 0x0a, 0x10] {
        let limit = limits(&mut scene, DRIVES[0], opcode);
        assert_eq!(limit, (60, 900), "{opcode:#04x}");
    }
    for opcode in [0x00, 0x12, 0x34, 0x4d] {
        let limit = limits(&mut scene, DRIVES[0], opcode);
        assert_eq!(limit, (1, 30), "{opcode:#04x}");
    }
    assert_eq!(limits(&mut scene, CHANGER, 0xa5), (240, 1800));
    assert_eq!(limits(&mut scene, CHANGER, 0x07), (1, 30));
}
