use super::*;
use proptest::prelude::*;

fn transfers() -> impl Strategy<Value = Transfer> {
    let lba = prop_oneof![any::<u64>(), 0u64..1 << 33];
    let blocks = prop_oneof![any::<u32>(), 0u32..70_000];
    (lba, blocks, any::<bool>(), any::<bool>(), 0u8..8).prop_map(
        |(lba, blocks, fua, dpo, protect)| Transfer {
            lba,
            blocks,
            fua,
            dpo,
            protect,
        },
    )
}

fn controls() -> impl Strategy<Value = Cdb> {
    let reported = prop_oneof![
        Just(ReportedCommands::All),
        any::<u8>().prop_map(ReportedCommands::Opcode),
        any::<(u8, u16)>().prop_map(|(code, action)| ReportedCommands::ServiceAction(code, action)),
        any::<(u8, u16)>().prop_map(|(code, action)| ReportedCommands::Either(code, action)),
    ];
    prop_oneof![
        (0u8..4).prop_map(|prevent| Cdb::PreventAllowMediumRemoval { prevent }),
        Just(Cdb::Reserve),
        Just(Cdb::Release),
        (0u8..32, any::<u16>()).prop_map(|(service_action, allocation_length)| {
            Cdb::PersistentReserveIn {
                service_action,
                allocation_length,
            }
        }),
        (0u8..32, 0u8..16, 0u8..16, any::<u32>()).prop_map(
            |(service_action, scope, kind, parameter_list_length)| {
                Cdb::PersistentReserveOut(PersistentReserveOut {
                    service_action,
                    scope,
                    kind,
                    parameter_list_length,
                })
            }
        ),
        any::<([bool; 3], u16)>().prop_map(|([ten, page_format, save_pages], length)| {
            Cdb::ModeSelect(ModeSelect {
                ten,
                page_format,
                save_pages,
                parameter_list_length: if ten { length } else { length & 0xff },
            })
        }),
        (any::<(bool, u8, u16, u16)>(), 0u8..64, 0u8..4).prop_map(
            |((save, subpage, parameter_pointer, allocation_length), page, control)| {
                Cdb::LogSense(LogSense {
                    save,
                    control: PageControl::from_code(control),
                    page,
                    subpage,
                    parameter_pointer,
                    allocation_length,
                })
            }
        ),
        (reported, any::<(bool, u32)>()).prop_map(|(commands, (timeouts, allocation_length))| {
            Cdb::ReportSupportedOpcodes {
                commands,
                timeouts,
                allocation_length,
            }
        }),
        any::<(bool, u32)>().prop_map(|(extended, allocation_length)| {
            Cdb::ReportSupportedTaskManagement {
                extended,
                allocation_length,
            }
        }),
        (0u8..128, any::<u32>()).prop_map(|(information_type, allocation_length)| {
            Cdb::ReportIdentifyingInformation {
                information_type,
                allocation_length,
            }
        }),
        (0u8..128, any::<u32>()).prop_map(|(information_type, parameter_list_length)| {
            Cdb::SetIdentifyingInformation {
                information_type,
                parameter_list_length,
            }
        }),
        any::<u32>().prop_map(|parameter_list_length| Cdb::SetTargetPortGroups {
            parameter_list_length,
        }),
        any::<(bool, u32)>().prop_map(|(extended_header, allocation_length)| {
            Cdb::ReportTargetPortGroups {
                extended_header,
                allocation_length,
            }
        }),
    ]
}

fn verifies() -> impl Strategy<Value = Verify> {
    (transfers(), any::<bool>()).prop_map(|(transfer, whole)| Verify {
        lba: transfer.lba,
        blocks: transfer.blocks,
        dpo: transfer.dpo,
        protect: transfer.protect,
        check: if whole {
            ByteCheck::Whole
        } else {
            ByteCheck::Medium
        },
    })
}

fn fills() -> impl Strategy<Value = Cdb> {
    (transfers(), any::<[bool; 4]>()).prop_map(
        |(transfer, [unmap, anchor, sixteen, no_data_out])| {
            Cdb::WriteSame(WriteSame {
                lba: if sixteen {
                    transfer.lba
                } else {
                    transfer.lba & 0xffff_ffff
                },
                blocks: if sixteen {
                    transfer.blocks
                } else {
                    transfer.blocks & 0xffff
                },
                unmap,
                anchor,
                no_data_out: sixteen && no_data_out,
                protect: transfer.protect,
                sixteen,
            })
        },
    )
}

/// Strategy of commands that address blocks, other than READ and WRITE.
fn block_commands() -> impl Strategy<Value = Cdb> {
    let actions = prop_oneof![
        Just(SanitizeAction::Overwrite),
        Just(SanitizeAction::BlockErase),
        Just(SanitizeAction::CryptographicErase),
        Just(SanitizeAction::ExitFailureMode)
    ];
    let results = prop_oneof![
        Just(CopyResults::Status),
        Just(CopyResults::OperatingParameters),
        Just(CopyResults::FailedSegmentDetails)
    ];
    prop_oneof![
        verifies().prop_map(Cdb::Verify),
        verifies().prop_map(|verify| Cdb::Verify(Verify {
            check: ByteCheck::OneBlock,
            ..verify
        })),
        verifies().prop_map(Cdb::WriteAndVerify),
        transfers().prop_map(|transfer| Cdb::CompareAndWrite(Transfer {
            blocks: transfer.blocks & 0xff,
            ..transfer
        })),
        transfers().prop_map(Cdb::OrWrite),
        (transfers(), any::<u16>()).prop_map(|(transfer, boundary)| Cdb::WriteAtomic(
            WriteAtomic {
                lba: transfer.lba,
                blocks: transfer.blocks as u16,
                boundary,
                fua: transfer.fua,
                dpo: transfer.dpo,
                protect: transfer.protect
            }
        )),
        fills(),
        any::<(bool, u16)>().prop_map(|(anchor, parameter_list_length)| Cdb::Unmap {
            anchor,
            parameter_list_length
        }),
        any::<(u64, u32)>().prop_map(|(lba, allocation_length)| Cdb::GetLbaStatus {
            lba,
            allocation_length
        }),
        (transfers(), any::<bool>()).prop_map(|(transfer, immediate)| Cdb::PreFetch {
            lba: transfer.lba,
            blocks: transfer.blocks,
            immediate
        }),
        (actions, any::<(bool, bool, u16)>()).prop_map(
            |(action, (immediate, unrestricted_exit, parameter_list_length))| Cdb::Sanitize(
                Sanitize {
                    action,
                    immediate,
                    unrestricted_exit,
                    parameter_list_length
                }
            )
        ),
        (any::<[bool; 3]>(), 0u8..8, any::<u16>()).prop_map(
            |([twelve, primary, grown], format, length)| Cdb::ReadDefectData(ReadDefectData {
                twelve,
                primary,
                grown,
                format,
                allocation_length: length.into()
            })
        ),
        any::<u32>().prop_map(|parameter_list_length| Cdb::ExtendedCopy {
            parameter_list_length
        }),
        (results, any::<(u8, u32)>()).prop_map(|(results, (list, allocation_length))| {
            Cdb::ReceiveCopyResults {
                results,
                list,
                allocation_length,
            }
        }),
    ]
}

fn commands() -> impl Strategy<Value = Cdb> {
    prop_oneof![
        block_commands(),
        transfers().prop_map(Cdb::Read),
        transfers().prop_map(Cdb::Write),
        any::<(u64, u32, bool)>().prop_map(|(lba, blocks, immediate)| Cdb::SynchronizeCache {
            lba,
            blocks,
            immediate
        }),
        Just(Cdb::TestUnitReady),
        controls(),
        Just(Cdb::ReadCapacity10),
        any::<(bool, u8)>().prop_map(|(descriptor_format, allocation_length)| {
            Cdb::RequestSense {
                descriptor_format,
                allocation_length,
            }
        }),
        any::<(Option<u8>, u16)>().prop_map(|(page, allocation_length)| Cdb::Inquiry {
            page,
            allocation_length
        }),
        any::<u32>().prop_map(|allocation_length| Cdb::ReadCapacity16 { allocation_length }),
        (0u8..3, any::<u32>()).prop_map(|(select_report, allocation_length)| Cdb::ReportLuns {
            select_report,
            allocation_length
        }),
        (any::<[bool; 4]>(), 0u8..16).prop_map(
            |([immediate, no_flush, load_eject, start], power_condition)| Cdb::StartStopUnit(
                StartStopUnit {
                    immediate,
                    power_condition,
                    no_flush,
                    load_eject,
                    start
                }
            )
        ),
        (any::<[bool; 3]>(), 0u8..4, 0u8..64, any::<(u8, u16)>()).prop_map(
            |([ten, disable, long], control, page, (subpage, length))| {
                Cdb::ModeSense(ModeSense {
                    ten,
                    disable_block_descriptors: disable,
                    long_lba: ten && long,
                    control: [
                        PageControl::Current,
                        PageControl::Changeable,
                        PageControl::Default,
                        PageControl::Saved,
                    ][usize::from(control)],
                    page,
                    subpage,
                    allocation_length: if ten { length } else { length & 0xff },
                })
            }
        ),
    ]
}

proptest! {
    #[test]
    fn commands_survive_a_round_trip(cdb in commands()) {
        prop_assert_eq!(Cdb::parse(&cdb.emit()), Ok(cdb));
    }

    #[test]
    fn six_byte_forms_survive_a_round_trip(lba in 0u64..1 << 21, blocks in 1u32..=256, write: bool) {
        let transfer = Transfer { lba, blocks, ..Transfer::default() };
        let cdb = if write { Cdb::Write(transfer) } else { Cdb::Read(transfer) };
        prop_assert_eq!(Cdb::parse(&cdb.emit_6().unwrap()[..6]), Ok(cdb));
    }

    #[test]
    fn no_bytes_panic_and_refusals_point_into_the_cdb(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
        if let Err(error) = Cdb::parse(&bytes) {
            if let CdbError::InvalidField { byte, .. } = error { prop_assert!(byte < 16); }
            prop_assert_eq!(error.sense().key, crate::scsi::SenseKey::IllegalRequest);
        }
    }
}

#[test]
fn every_opcode_with_all_zeros_and_all_ones_is_answered() {
    for opcode in 0..=255u8 {
        for fill in [0, 0xff] {
            let mut bytes = [fill; 16];
            bytes[0] = opcode;
            let _ = Cdb::parse(&bytes);
            for cut in 0..16 {
                let _ = Cdb::parse(&bytes[..cut]);
            }
        }
    }
}

#[test]
fn read_16_is_laid_out_as_in_sbc() {
    let cdb = Cdb::Read(Transfer {
        lba: 0x0102_0304_0506_0708,
        blocks: 9,
        fua: true,
        dpo: true,
        protect: 1,
    });
    assert_eq!(
        cdb.emit(),
        [0x88, 0x38, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9, 0, 0]
    );
}

#[test]
fn page_code_without_evpd_is_refused_at_its_byte() {
    assert_eq!(
        Cdb::parse(&[0x12, 0, 0x83, 0, 96, 0]),
        Err(CdbError::InvalidField { byte: 2, bit: None })
    );
}

#[test]
fn naca_is_refused_in_the_control_byte_of_each_length() {
    for (opcode, control) in [
        (opcode::READ_6, 5),
        (opcode::READ_10, 9),
        (opcode::READ_12, 11),
        (opcode::READ_16, 15),
    ] {
        let mut bytes = [0; 16];
        bytes[0] = opcode;
        bytes[control] = 0x04;
        assert_eq!(
            Cdb::parse(&bytes),
            Err(CdbError::InvalidField {
                byte: control as u16,
                bit: Some(2)
            })
        );
    }
}

#[test]
fn write_same_16_and_compare_and_write_are_laid_out_as_in_sbc() {
    let same = Cdb::WriteSame(WriteSame {
        lba: 0x0102_0304_0506_0708,
        blocks: 9,
        unmap: true,
        anchor: true,
        no_data_out: true,
        protect: 1,
        sixteen: true,
    });
    assert_eq!(
        same.emit(),
        [0x93, 0x39, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9, 0, 0]
    );
    let compare = Cdb::CompareAndWrite(Transfer {
        lba: 2,
        blocks: 3,
        fua: true,
        ..Transfer::default()
    });
    assert_eq!(
        compare.emit(),
        [0x89, 8, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0]
    );
}

#[test]
fn reserved_values_of_byte_check_are_refused_at_their_bits() {
    let refused = Err(CdbError::InvalidField {
        byte: 1,
        bit: Some(2),
    });
    for opcode in [opcode::VERIFY_10, opcode::VERIFY_12, opcode::VERIFY_16] {
        let mut bytes = [0; 16];
        (bytes[0], bytes[1]) = (opcode, 2 << 1);
        assert_eq!(Cdb::parse(&bytes), refused);
    }
    let mut bytes = [0; 16];
    (bytes[0], bytes[1]) = (opcode::WRITE_AND_VERIFY_10, 3 << 1);
    assert_eq!(Cdb::parse(&bytes), refused);
}
