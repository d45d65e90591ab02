//! Tests that PDUs survive a round trip, are laid out as in the RFC, and that no 48 bytes cause a
//! panic.
use super::*;
use crate::iscsi::{Isid, Itt, Lun, Ttt, WireError};
use proptest::prelude::*;

/// Asserts that `parse` is the inverse of `emit`.
macro_rules! survives {
    ($pdu:expr, $kind:ty) => {{
        let pdu: $kind = $pdu;
        let mut bytes = [0xee; BHS_LENGTH];
        pdu.emit(&mut bytes);
        prop_assert_eq!(<$kind>::parse(&Bhs::new(bytes)), Ok(pdu));
        prop_assert_eq!(Bhs::new(bytes).ahs_length(), 0);
    }};
}

fn numbers() -> impl Strategy<Value = TargetNumbers> {
    any::<(u32, u32, u32)>().prop_map(|(stat, exp, max)| TargetNumbers {
        stat_sn: StatSn(stat),
        exp_cmd_sn: CmdSn(exp),
        max_cmd_sn: CmdSn(max),
    })
}

fn residual() -> impl Strategy<Value = Residual> {
    prop_oneof![
        Just(Residual::None),
        any::<u32>().prop_map(Residual::Overflow),
        any::<u32>().prop_map(Residual::Underflow)
    ]
}

/// Strategy of eight numbers for the fields of a repr, which uses as many as it needs.
fn fields() -> impl Strategy<Value = [u32; 8]> {
    any::<[u32; 8]>()
}

const LENGTH: std::ops::Range<u32> = 1..1 << 24;

proptest! {
    #[test]
    fn initiator_pdus_survive_a_round_trip(f in fields(), lun: u64, (immediate, is_final, read) in any::<(bool, bool, bool)>(), code: u8, cdb: [u8; 16], length in LENGTH) {
        let (itt, cmd_sn, exp_stat_sn, lun) = (Itt(f[0]), CmdSn(f[1]), StatSn(f[2]), Lun(lun));
        survives!(NopOut { immediate, lun, itt, ttt: Ttt(f[3]), cmd_sn, exp_stat_sn, data_segment_length: length }, NopOut);
        let command = ScsiCommand {
            immediate, is_final, read, write: true, attribute: TaskAttribute::from_code(code & 7), lun, itt,
            expected_data_transfer_length: f[3], cmd_sn, exp_stat_sn, cdb, data_segment_length: length,
        };
        survives!(command, ScsiCommand);
        survives!(ScsiCommand { write: false, is_final: true, data_segment_length: 0, ..command }, ScsiCommand);
        survives!(TaskManagementRequest {
            immediate, function: TaskManagementFunction::from_code(code & 0x7f), lun, itt, referenced_task_tag: Itt(f[3]),
            cmd_sn, exp_stat_sn, ref_cmd_sn: CmdSn(f[4]), exp_data_sn: f[5],
        }, TaskManagementRequest);
        let text = TextRequest { immediate, is_final, more: !is_final, lun, itt, ttt: Ttt(f[3]), cmd_sn, exp_stat_sn, data_segment_length: length };
        survives!(text, TextRequest);
        let data_out = DataOut { is_final, lun, itt, ttt: Ttt(f[3]), exp_stat_sn, data_sn: f[4], buffer_offset: f[5] >> 1, data_segment_length: length };
        survives!(data_out, DataOut);
        let logout = LogoutRequest { immediate, reason: LogoutReason::from_code(code & 0x7f), itt, cid: f[3] as u16, cmd_sn, exp_stat_sn };
        survives!(logout, LogoutRequest);
        survives!(Snack { kind: SnackKind::from_code(code & 15), lun, itt, tag: f[3], exp_stat_sn, beg_run: f[4], run_length: f[5] }, Snack);
    }

    #[test]
    fn target_pdus_survive_a_round_trip(
        f in fields(), lun: u64, (is_final, acknowledge) in any::<(bool, bool)>(), code: u8, status: u8,
        (residual, other) in (residual(), residual()), numbers in numbers(), length in LENGTH,
    ) {
        let (itt, lun) = (Itt(f[0]), Lun(lun));
        survives!(NopIn { lun, itt, ttt: Ttt(f[1]), numbers, data_segment_length: length }, NopIn);
        survives!(ScsiResponse {
            residual, bidirectional_read_residual: other, response: ScsiResponseCode::from_code(code), status, itt, snack_tag: f[1], numbers,
            exp_data_sn: f[2], data_segment_length: length,
        }, ScsiResponse);
        survives!(TaskManagementResponse { result: TaskManagementResult::from_code(code), itt, numbers }, TaskManagementResponse);
        survives!(TextResponse { is_final, more: !is_final, lun, itt, ttt: Ttt(f[1]), numbers, data_segment_length: length }, TextResponse);
        survives!(DataIn {
            is_final, acknowledge, status: is_final.then_some(DataInStatus { status, residual }), lun, itt, ttt: Ttt(f[1]), numbers, data_sn: f[2],
            buffer_offset: f[3] >> 1, data_segment_length: length,
        }, DataIn);
        survives!(R2t {
            lun, itt, ttt: Ttt(f[1] >> 1), numbers, r2t_sn: f[2], buffer_offset: f[3] >> 1, desired_data_transfer_length: length,
        }, R2t);
        survives!(AsyncMessage {
            event: AsyncEvent::from_code(code), vendor_code: status, lun, numbers, parameters: [f[1] as u16, f[2] as u16, f[3] as u16],
            data_segment_length: length,
        }, AsyncMessage);
        survives!(LogoutResponse {
            result: LogoutResult::from_code(code), itt, numbers, time2wait: f[1] as u16, time2retain: f[2] as u16,
        }, LogoutResponse);
        survives!(Reject { reason: RejectReason::from_code(code), numbers, data_sn: f[1], data_segment_length: length }, Reject);
    }

    #[test]
    fn login_pdus_survive_a_round_trip(f in fields(), isid: [u8; 6], stages in 0usize..5, (min, max) in any::<(u8, u8)>(), numbers in numbers(), length in LENGTH) {
        use Stage::*;
        let (current_stage, next_stage) = [
            (SecurityNegotiation, None),
            (OperationalNegotiation, None),
            (SecurityNegotiation, Some(OperationalNegotiation)),
            (SecurityNegotiation, Some(FullFeaturePhase)),
            (OperationalNegotiation, Some(FullFeaturePhase)),
        ][stages];
        let (more, isid, tsih, itt) = (next_stage.is_none(), Isid(isid), f[0] as u16, Itt(f[1]));
        survives!(LoginRequest {
            more, current_stage, next_stage, version_max: max, version_min: min, isid, tsih, itt, cid: f[2] as u16, cmd_sn: CmdSn(f[3]),
            exp_stat_sn: StatSn(f[4]), data_segment_length: length,
        }, LoginRequest);
        survives!(LoginResponse {
            more, current_stage, next_stage, version_max: max, version_active: min, isid, tsih, itt, numbers, status: LoginStatus(f[2] as u16),
            data_segment_length: length,
        }, LoginResponse);
    }

    #[test]
    fn no_header_panics_and_parsed_pdus_can_be_emitted(mut bytes in prop::array::uniform32(any::<u8>()), rest: [u8; 16], opcode in 0usize..18) {
        bytes[0] = bytes[0] & 0x40 | Opcode::ALL[opcode].code();
        let mut header = [0; BHS_LENGTH];
        header[..32].copy_from_slice(&bytes);
        header[32..].copy_from_slice(&rest);
        parses_again(&Bhs::new(header));
    }
}

/// Parses with the repr of the header's opcode, emits the result and parses it again: both must be
/// equal.
fn parses_again(bhs: &Bhs) {
    macro_rules! again {
        ($($opcode:ident => $kind:ty,)*) => {
            match bhs.opcode().expect("a known opcode") {
                $(Opcode::$opcode => if let Ok(pdu) = <$kind>::parse(bhs) {
                    let mut bytes = [0; BHS_LENGTH];
                    pdu.emit(&mut bytes);
                    assert_eq!(<$kind>::parse(&Bhs::new(bytes)), Ok(pdu));
                },)*
            }
        };
    }
    again! {
        NopOut => NopOut, ScsiCommand => ScsiCommand, TaskManagementRequest => TaskManagementRequest, LoginRequest => LoginRequest,
        TextRequest => TextRequest, DataOut => DataOut, LogoutRequest => LogoutRequest, Snack => Snack, NopIn => NopIn, ScsiResponse => ScsiResponse,
        TaskManagementResponse => TaskManagementResponse, LoginResponse => LoginResponse, TextResponse => TextResponse, DataIn => DataIn,
        LogoutResponse => LogoutResponse, R2t => R2t, AsyncMessage => AsyncMessage, Reject => Reject,
    }
}

#[test]
fn parse_refuses_headers_of_other_opcodes() {
    for code in 0..64u8 {
        let mut bytes = [0; BHS_LENGTH];
        bytes[0] = code;
        bytes[1] = FINAL;
        let refused = Err(WireError::Opcode {
            expected: Opcode::NopOut,
            found: code,
        });
        assert_eq!(
            NopOut::parse(&Bhs::new(bytes)) == refused,
            code != 0,
            "{code:#x}"
        );
    }
}

/// The read command of RFC 3720 appendix B.4, byte by byte.
#[test]
fn scsi_command_is_laid_out_as_in_the_rfc() {
    let mut cdb = [0; 16];
    cdb[..10].copy_from_slice(&[0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0]);
    let command = ScsiCommand {
        immediate: false,
        is_final: true,
        read: true,
        write: false,
        attribute: TaskAttribute::Untagged,
        lun: Lun(0),
        itt: Itt(0x1400_0000),
        expected_data_transfer_length: 0x0400,
        cmd_sn: CmdSn(0x14),
        exp_stat_sn: StatSn(0x18),
        cdb,
        data_segment_length: 0,
    };
    let mut bytes = [0; BHS_LENGTH];
    command.emit(&mut bytes);
    let mut expected = [0; BHS_LENGTH];
    expected[..2].copy_from_slice(&[0x01, 0xc0]);
    expected[16..20].copy_from_slice(&[0x14, 0, 0, 0]);
    expected[20..24].copy_from_slice(&[0, 0, 4, 0]);
    expected[24..32].copy_from_slice(&[0, 0, 0, 0x14, 0, 0, 0, 0x18]);
    expected[32..48].copy_from_slice(&cdb);
    assert_eq!(bytes, expected);
}

#[test]
fn data_in_with_status_is_laid_out_as_in_the_rfc() {
    let data_in = DataIn {
        is_final: true,
        status: Some(DataInStatus {
            status: 0,
            residual: Residual::Underflow(9),
        }),
        itt: Itt(1),
        ttt: Ttt::RESERVED,
        numbers: TargetNumbers {
            stat_sn: StatSn(2),
            exp_cmd_sn: CmdSn(3),
            max_cmd_sn: CmdSn(4),
        },
        data_sn: 5,
        buffer_offset: 6,
        data_segment_length: 0x0001_0203,
        ..DataIn::default()
    };
    let mut bytes = [0; BHS_LENGTH];
    data_in.emit(&mut bytes);
    assert_eq!(bytes[..8], [0x25, 0x83, 0, 0, 0, 1, 2, 3]);
    let words: Vec<u32> = bytes[16..]
        .chunks_exact(4)
        .map(|word| crate::octets::u32_at(word, 0))
        .collect();
    assert_eq!(words, [1, u32::MAX, 2, 3, 4, 5, 6, 9]);
}

#[test]
fn undefined_or_decreasing_login_stages_are_refused() {
    for flags in 0..=255u8 {
        let (transit, more, current, next) = (
            flags & 0x80 != 0,
            flags & 0x40 != 0,
            flags >> 2 & 3,
            flags & 3,
        );
        let mut bytes = [0; BHS_LENGTH];
        bytes[0] = 0x43;
        bytes[1] = flags;
        bytes[7] = 1;
        let legal =
            current < 2 && !(transit && more) && (!transit || (next > current && next != 2));
        assert_eq!(
            LoginRequest::parse(&Bhs::new(bytes)).is_ok(),
            legal,
            "{flags:#010b}"
        );
    }
}

#[test]
fn fields_that_the_rfc_forbids_are_refused() {
    let header = |opcode: u8, flags: u8, length: u8| {
        let mut bytes = [0; BHS_LENGTH];
        (bytes[0], bytes[1], bytes[7]) = (opcode, flags, length);
        bytes
    };
    assert!(
        ScsiCommand::parse(&Bhs::new(header(0x01, 0x40, 0))).is_err(),
        "data to follow a read"
    );
    assert!(
        ScsiCommand::parse(&Bhs::new(header(0x01, 0xc0, 1))).is_err(),
        "immediate data of a read"
    );
    assert!(
        TextRequest::parse(&Bhs::new(header(0x04, 0xc0, 1))).is_err(),
        "C with F"
    );
    assert!(
        TextRequest::parse(&Bhs::new(header(0x04, 0x40, 0))).is_err(),
        "C without text"
    );
    assert!(
        DataIn::parse(&Bhs::new(header(0x25, 0x01, 0))).is_err(),
        "S without F"
    );
    assert!(
        DataIn::parse(&Bhs::new(header(0x25, 0x87, 0))).is_err(),
        "O and U"
    );
    assert!(
        R2t::parse(&Bhs::new(header(0x31, 0x80, 0))).is_err(),
        "R2T of 0 bytes"
    );
    assert!(
        LogoutRequest::parse(&Bhs::new(header(0x06, 0x80, 4))).is_err(),
        "logout with data"
    );
    let mut beyond = header(0x05, 0x80, 2);
    beyond[40..44].copy_from_slice(&u32::MAX.to_be_bytes());
    assert!(
        DataOut::parse(&Bhs::new(beyond)).is_err(),
        "data beyond 2^32"
    );
}

#[test]
fn residual_is_the_difference_from_the_expected_length() {
    assert_eq!(Residual::between(512, 512), Residual::None);
    assert_eq!(Residual::between(512, 0), Residual::Underflow(512));
    assert_eq!(Residual::between(0, 512), Residual::Overflow(512));
    assert_eq!(Residual::between(0, u64::MAX), Residual::Overflow(u32::MAX));
}
