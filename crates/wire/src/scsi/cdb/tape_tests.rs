//! Commands of tape drives and medium changers.
use super::*;
use proptest::prelude::*;

fn stream() -> impl Strategy<Value = StreamCommand> {
    let partition = proptest::option::of(any::<u8>());
    let code = prop_oneof![
        Just(SpaceCode::Blocks),
        Just(SpaceCode::Filemarks),
        Just(SpaceCode::EndOfData)
    ];
    let count = prop_oneof![any::<i64>(), -(1_i64 << 23)..1 << 23];
    let form = prop_oneof![
        Just(PositionForm::Short),
        Just(PositionForm::ShortVendor),
        Just(PositionForm::Long),
        Just(PositionForm::Extended)
    ];
    prop_oneof![
        any::<bool>().prop_map(|immediate| StreamCommand::Rewind { immediate }),
        Just(StreamCommand::ReadBlockLimits),
        (any::<(bool, bool)>(), 0_u32..1 << 24).prop_map(
            |((fixed, suppress_incorrect_length), length)| StreamCommand::Read {
                fixed,
                suppress_incorrect_length,
                length
            }
        ),
        (any::<bool>(), 0_u32..1 << 24)
            .prop_map(|(fixed, length)| StreamCommand::Write { fixed, length }),
        (any::<bool>(), 0_u32..1 << 24)
            .prop_map(|(immediate, count)| StreamCommand::WriteFilemarks { immediate, count }),
        (any::<(bool, bool)>(), 0_u32..1 << 24).prop_map(|((fixed, immediate), length)| {
            StreamCommand::Verify {
                fixed,
                immediate,
                length,
            }
        }),
        (code, count).prop_map(|(code, count)| StreamCommand::Space { code, count }),
        any::<(bool, bool)>()
            .prop_map(|(long, immediate)| StreamCommand::Erase { long, immediate }),
        any::<[bool; 4]>().prop_map(|[immediate, load, retension, end_of_tape]| {
            StreamCommand::LoadUnload {
                immediate,
                load,
                retension,
                end_of_tape,
            }
        }),
        (any::<(bool, bool, u64)>(), partition).prop_map(
            |((immediate, file, identifier), partition)| if file {
                StreamCommand::LocateFile {
                    immediate,
                    partition,
                    file: identifier,
                }
            } else {
                StreamCommand::Locate {
                    immediate,
                    partition,
                    object: identifier >> (identifier % 64),
                }
            }
        ),
        (form, any::<u16>()).prop_map(|(form, allocation_length)| StreamCommand::ReadPosition {
            form,
            allocation_length
        }),
        any::<(bool, bool, u16)>().prop_map(|(medium, medium_types, allocation_length)| {
            StreamCommand::ReportDensity {
                medium_types,
                medium,
                allocation_length,
            }
        }),
    ]
}

fn attributes() -> impl Strategy<Value = StreamCommand> {
    let form = prop_oneof![
        Just(AttributeForm::Values),
        Just(AttributeForm::List),
        Just(AttributeForm::Supported)
    ];
    (form, any::<(u8, u16, u32)>()).prop_map(|(form, (partition, first, allocation_length))| {
        StreamCommand::ReadAttribute {
            form,
            partition,
            first,
            allocation_length,
        }
    })
}

fn changer() -> impl Strategy<Value = ChangerCommand> {
    prop_oneof![
        any::<Option<(u16, u16)>>()
            .prop_map(|range| ChangerCommand::InitializeElementStatus { range }),
        any::<[u16; 2]>().prop_map(
            |[transport, destination]| ChangerCommand::PositionToElement {
                transport,
                destination
            }
        ),
        any::<[u16; 3]>().prop_map(|[transport, source, destination]| {
            ChangerCommand::MoveMedium {
                transport,
                source,
                destination,
            }
        }),
        any::<[u16; 4]>().prop_map(
            |[transport, source, first_destination, second_destination]| {
                ChangerCommand::ExchangeMedium {
                    transport,
                    source,
                    first_destination,
                    second_destination,
                }
            }
        ),
        any::<(u16, bool)>()
            .prop_map(|(address, open)| ChangerCommand::OpenCloseImportExport { address, open }),
        (0_u8..32, 0_u8..5, any::<(u16, u16)>()).prop_map(
            |(action, element_type, (start, parameter_list_length))| {
                ChangerCommand::SendVolumeTag {
                    action,
                    element_type,
                    start,
                    parameter_list_length,
                }
            }
        ),
        (any::<(bool, u16, u16)>(), 0_u8..5, 0_u32..1 << 24).prop_map(
            |((volume_tags, start, count), element_type, allocation_length)| {
                ChangerCommand::RequestVolumeElementAddress {
                    volume_tags,
                    element_type,
                    start,
                    count,
                    allocation_length,
                }
            }
        ),
        (any::<([bool; 3], u16, u16)>(), 0_u8..5, 0_u32..1 << 24).prop_map(
            |((flags, start, count), element_type, allocation_length)| {
                ChangerCommand::ReadElementStatus {
                    volume_tags: flags[0],
                    element_type,
                    start,
                    count,
                    current_data: flags[1],
                    device_identifiers: flags[2],
                    allocation_length,
                }
            }
        ),
    ]
}

fn service() -> impl Strategy<Value = TapeService> {
    let control = any::<u8>().prop_map(PageControl::from_code);
    let list = any::<(bool, bool, u8, u16)>();
    prop_oneof![
        (any::<Option<u8>>(), any::<u16>()).prop_map(|(page, allocation_length)| {
            TapeService::ReceiveDiagnostic {
                page,
                allocation_length,
            }
        }),
        (any::<(bool, u16)>(), 0_u8..8).prop_map(|((self_test, parameter_list_length), code)| {
            TapeService::SendDiagnostic {
                self_test,
                code,
                parameter_list_length,
            }
        }),
        (0_u8..32, any::<u8>(), 0_u32..1 << 24, 0_u32..1 << 24).prop_map(
            |(mode, buffer, offset, allocation_length)| TapeService::ReadBuffer {
                mode,
                buffer,
                offset,
                allocation_length,
            }
        ),
        (control, list, 0_u8..64).prop_map(
            |(control, (reset, save, subpage, parameter_list_length), page)| {
                TapeService::LogSelect {
                    reset,
                    save,
                    control,
                    page,
                    subpage,
                    parameter_list_length,
                }
            }
        ),
        (0_u8..16, any::<(u8, u64)>()).prop_map(|(allowed, (partition, object))| {
            TapeService::AllowOverwrite {
                allowed,
                partition,
                object,
            }
        }),
        any::<(u8, u32)>().prop_map(|(partition, parameter_list_length)| {
            TapeService::WriteAttribute {
                partition,
                parameter_list_length,
            }
        }),
    ]
}

proptest! {
    #[test]
    fn services_of_tape_drives_survive(command in service()) {
        let cdb = Cdb::TapeService(command);
        prop_assert_eq!(Cdb::parse_for(DeviceType::Tape, &cdb.emit()), Ok(cdb));
    }

    #[test]
    fn commands_of_tape_drives_survive(command in prop_oneof![10 => stream(), 1 => attributes()]) {
        let cdb = Cdb::Stream(command);
        prop_assert_eq!(Cdb::parse_for(DeviceType::Tape, &cdb.emit()), Ok(cdb));
    }

    #[test]
    fn commands_of_changers_survive(command in changer()) {
        let cdb = Cdb::Changer(command);
        prop_assert_eq!(Cdb::parse_for(DeviceType::Changer, &cdb.emit()), Ok(cdb));
    }

    #[test]
    fn no_command_of_a_tape_library_panics(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
        let _ = Cdb::parse_for(DeviceType::Tape, &bytes);
        let _ = Cdb::parse_for(DeviceType::Changer, &bytes);
    }
}

#[test]
fn space_backward_is_laid_out_as_in_ssc() {
    let cdb = Cdb::Stream(StreamCommand::Space {
        code: SpaceCode::Filemarks,
        count: -2,
    });
    assert_eq!(cdb.emit()[..6], [0x11, 1, 0xff, 0xff, 0xfe, 0]);
    // Sequential filemarks and setmarks.
    for code in [2, 4] {
        let parsed = Cdb::parse_for(DeviceType::Tape, &[0x11, code, 0, 0, 1, 0]);
        assert_eq!(parsed, Err(invalid(1, 2)));
    }
}

#[test]
fn read_element_status_is_laid_out_as_in_smc() {
    let cdb = Cdb::Changer(ChangerCommand::ReadElementStatus {
        volume_tags: true,
        element_type: 4,
        start: 0x0102,
        count: 3,
        current_data: true,
        device_identifiers: true,
        allocation_length: 0x0004_0506,
    });
    assert_eq!(cdb.emit()[..12], [0xb8, 0x14, 1, 2, 0, 3, 3, 4, 5, 6, 0, 0]);
}

#[test]
fn commands_that_move_cartridges_are_laid_out_as_in_smc() {
    let exchange = Cdb::Changer(ChangerCommand::ExchangeMedium {
        transport: 1,
        source: 0x0402,
        first_destination: 0x0100,
        second_destination: 0x0403,
    });
    let bytes = [0xa6, 0, 0, 1, 4, 2, 1, 0, 4, 3, 0, 0];
    assert_eq!(exchange.emit()[..12], bytes);
    // INV1 and INV2.
    for (flags, bit) in [(1, 0), (2, 1)] {
        let mut bytes = bytes;
        bytes[10] = flags;
        let parsed = Cdb::parse_for(DeviceType::Changer, &bytes);
        assert_eq!(parsed, Err(invalid(10, bit)));
    }
    let close = ChangerCommand::OpenCloseImportExport {
        address: 0x0300,
        open: false,
    };
    assert_eq!(Cdb::Changer(close).emit()[..6], [0x1b, 0, 3, 0, 1, 0]);
    let parsed = Cdb::parse_for(DeviceType::Changer, &[0x1b, 0, 3, 0, 2, 0]);
    assert_eq!(parsed, Err(invalid(4, 4)));
}

#[test]
fn both_codes_initialize_a_range_of_elements() {
    for opcode in [0x37, 0xe7] {
        let parse = |flags| {
            Cdb::parse_for(
                DeviceType::Changer,
                &[opcode, flags, 4, 1, 0, 0, 0, 3, 0, 0],
            )
        };
        let command = |range| {
            Ok(Cdb::Changer(ChangerCommand::InitializeElementStatus {
                range,
            }))
        };
        assert_eq!(parse(1), command(Some((0x0401, 3))));
        assert_eq!(parse(0), command(None));
    }
    for device in [DeviceType::Disk, DeviceType::Tape] {
        let refused = Cdb::parse_for(device, &[0xe7; 10]);
        assert_eq!(refused, Err(CdbError::UnsupportedOpcode(0xe7)));
    }
}

#[test]
fn an_operation_code_means_another_command_on_each_device() {
    let mut bytes = [0; 16];
    bytes[0] = 0x2b;
    let parsed = |device| Cdb::parse_for(device, &bytes);
    assert!(matches!(
        parsed(DeviceType::Tape),
        Ok(Cdb::Stream(StreamCommand::Locate { .. }))
    ));
    assert!(matches!(
        parsed(DeviceType::Changer),
        Ok(Cdb::Changer(ChangerCommand::PositionToElement { .. }))
    ));
    assert_eq!(
        parsed(DeviceType::Disk),
        Err(CdbError::UnsupportedOpcode(0x2b))
    );
}
