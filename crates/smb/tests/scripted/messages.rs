//! Every message is the same after `emit` and `parse`.
use hakaru_smb::wire::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Emits a body behind an empty header.
fn message(emit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![0; HEADER_LENGTH];
    emit(&mut out);
    out
}

fn path() -> impl Strategy<Value = Path> {
    "[a-z夏.]{1,20}(/[a-z]{1,9}x){0,3}".prop_filter_map("no path", |text| Path::new(&text).ok())
}

fn facts() -> impl Strategy<Value = FileFacts> {
    (any::<[u64; 6]>(), any::<u32>()).prop_map(|(n, attributes)| FileFacts {
        created: n[0],
        accessed: n[1],
        written: n[2],
        changed: n[3],
        allocated_bytes: n[4],
        length_bytes: n[5],
        attributes,
    })
}

fn signing() -> impl Strategy<Value = SigningAlgorithm> {
    prop_oneof![
        Just(SigningAlgorithm::HmacSha256),
        Just(SigningAlgorithm::AesCmac),
        Just(SigningAlgorithm::AesGmac)
    ]
}

proptest! {
    #[test]
    fn negotiations(
        mut dialects in proptest::sample::subsequence(Dialect::ALL.to_vec(), 1..=4),
        (security_mode, capabilities) in (any::<u16>(), any::<u32>()),
        client_guid in any::<[u8; 16]>(),
        salt in any::<[u8; 32]>(),
        signing in vec(signing(), 1..4),
        ciphers in proptest::sample::subsequence(EncryptionCipher::ALL.to_vec(), 0..=2),
        sizes in any::<[u32; 3]>(),
        token in vec(any::<u8>(), 0..300),
    ) {
        dialects.reverse();
        let contexts = dialects.contains(&Dialect::Smb311);
        let request = NegotiateRequest {
            dialects: dialects.clone(), security_mode, capabilities, client_guid,
            salt: if contexts { salt } else { [0; 32] },
            signing: if contexts { signing.clone() } else { Vec::new() },
            ciphers: if contexts { ciphers.clone() } else { Vec::new() },
        };
        prop_assert_eq!(NegotiateRequest::parse(&message(|out| request.emit(out))), Ok(request));
        let response = NegotiateResponse {
            security_mode, dialect: dialects[0], server_guid: client_guid, capabilities,
            transact_bytes_max: sizes[0], read_bytes_max: sizes[1], write_bytes_max: sizes[2],
            signing: contexts.then_some(signing[0]),
            cipher: ciphers.first().copied().filter(|_| contexts),
            token,
        };
        prop_assert_eq!(NegotiateResponse::parse(&message(|out| response.emit(out))), Ok(response));
    }

    #[test]
    fn logins(
        (security_mode, flags) in any::<(u8, u16)>(),
        token in vec(any::<u8>(), 0..600),
        name in "[a-z]{1,20}",
        (share_type, share_flags, access_max) in any::<(u8, u32, u32)>(),
    ) {
        let request = SessionSetupRequest { security_mode, token: token.clone() };
        prop_assert_eq!(SessionSetupRequest::parse(&message(|out| request.emit(out))), Ok(request));
        let response = SessionSetupResponse { flags, token };
        prop_assert_eq!(SessionSetupResponse::parse(&message(|out| response.emit(out))), Ok(response));
        let request = TreeConnectRequest { path: format!("\\\\server\\{name}") };
        prop_assert_eq!(TreeConnectRequest::parse(&message(|out| request.emit(out))), Ok(request));
        let response = TreeConnectResponse { share_type, share_flags, access_max };
        prop_assert_eq!(TreeConnectResponse::parse(&message(|out| response.emit(out))), Ok(response));
    }

    #[test]
    fn files(
        path in path(),
        (access, sharing, options, action) in any::<(u32, u32, u32, u32)>(),
        disposition in prop_oneof![
            Just(Disposition::Supersede), Just(Disposition::Open), Just(Disposition::Create),
            Just(Disposition::OpenIf), Just(Disposition::Overwrite), Just(Disposition::OverwriteIf),
        ],
        facts in facts(),
        (file, offset, length) in (any::<[u8; 16]>().prop_map(FileId), any::<u64>(), any::<u32>()),
        data in vec(any::<u8>(), 0..200),
    ) {
        let request = CreateRequest {
            path, access: Access(access), sharing: Sharing(sharing), disposition, options,
        };
        prop_assert_eq!(CreateRequest::parse(&message(|out| request.emit(out))), Ok(request));
        let response = CreateResponse { action, facts, file };
        prop_assert_eq!(CreateResponse::parse(&message(|out| response.emit(out))), Ok(response));
        let request = ReadRequest { file, offset, length };
        prop_assert_eq!(ReadRequest::parse(&message(|out| request.emit(out))), Ok(request));
        let bytes = message(|out| emit_read_response(&data, out));
        prop_assert_eq!(&bytes[parse_read_response(&bytes, bytes.len()).unwrap()], &data[..]);
        let request = WriteRequest { file, offset, length: data.len() as u32 };
        let bytes = message(|out| { request.emit(out); out.extend(&data) });
        prop_assert_eq!(WriteRequest::parse(&bytes), Ok((request, &data[..])));
        let bytes = message(|out| emit_write_response(length, out));
        prop_assert_eq!(parse_write_response(&bytes), Ok(length));
        prop_assert_eq!(parse_file(&message(|out| emit_close(file, out))), Ok(file));
        prop_assert_eq!(parse_file(&message(|out| emit_flush(file, out))), Ok(file));
        prop_assert_eq!(parse_close_response(&message(emit_close_response)), Ok(()));
    }

    #[test]
    fn information(
        file in any::<[u8; 16]>().prop_map(FileId),
        (pattern, restart, length_max) in ("[a-z*?]{0,9}", any::<bool>(), any::<u32>()),
        entries in vec(("[a-z夏]{1,30}", facts()), 0..9),
        facts in facts(),
        (to, replace, length) in (path(), any::<bool>(), any::<u64>()),
    ) {
        let request = QueryDirectoryRequest { file, pattern, restart, length_max };
        prop_assert_eq!(QueryDirectoryRequest::parse(&message(|out| request.emit(out))), Ok(request));
        let entries: Vec<_> =
            entries.into_iter().map(|(name, facts)| DirectoryEntry { name, facts }).collect();
        let mut buffer = Vec::new();
        emit_entries(&entries, &mut buffer);
        let bytes = message(|out| emit_buffer_response(&buffer, out));
        prop_assert_eq!(parse_entries(parse_buffer_response(&bytes).unwrap()), Ok(entries));
        for query in [Query::File, Query::Space] {
            let bytes = message(|out| emit_query_info(file, query, out));
            prop_assert_eq!(parse_query_info(&bytes), Ok((file, query)));
        }
        let mut buffer = Vec::new();
        emit_facts(&facts, &mut buffer);
        prop_assert_eq!(parse_facts(&buffer), Ok(facts));
        for change in [Change::Rename { to, replace }, Change::Delete, Change::Length { bytes: length }] {
            let bytes = message(|out| emit_set_info(file, &change, out));
            prop_assert_eq!(parse_set_info(&bytes), Ok((file, change)));
        }
    }
}

#[test]
fn entries_that_do_not_lead_to_later_ones_and_names_with_separators_are_refused() {
    let entry = |name: &str| DirectoryEntry {
        name: name.into(),
        facts: FileFacts::default(),
    };
    let mut buffer = Vec::new();
    emit_entries(&[entry("."), entry("a"), entry("..")], &mut buffer);
    assert_eq!(parse_entries(&buffer), Ok(vec![entry("a")]));
    for next in [1u32, 63, 10_000, u32::MAX] {
        buffer[..4].copy_from_slice(&next.to_le_bytes());
        assert!(parse_entries(&buffer).is_err(), "{next}");
    }
    let mut buffer = Vec::new();
    emit_entries(&[entry("a"), entry("b")], &mut buffer);
    let second = u32::from_le_bytes(buffer[..4].try_into().unwrap()) as usize;
    for (length, is_valid) in [(second - 64, true), (second - 62, false)] {
        buffer[60..64].copy_from_slice(&(length as u32).to_le_bytes());
        let is_refused_for_overlap = parse_entries(&buffer)
            == Err(WireError::Invalid(
                "a name in a listing reaches into the next entry",
            ));
        assert_eq!(is_refused_for_overlap, !is_valid);
    }
    for name in ["../a", "..\\a", "a\0"] {
        let mut buffer = Vec::new();
        emit_entries(&[entry(name)], &mut buffer);
        assert!(parse_entries(&buffer).is_err(), "{name:?}");
    }
}

#[test]
fn spaces_saturate() {
    let mut buffer = [0xff; 32];
    let space = parse_space(&buffer).unwrap();
    assert_eq!(space.total_bytes, u64::MAX);
    buffer[..24].copy_from_slice(
        &[
            [100, 0, 0, 0, 0, 0, 0, 0],
            [60, 0, 0, 0, 0, 0, 0, 0],
            [0; 8],
        ]
        .concat(),
    );
    buffer[24..].copy_from_slice(&[8, 0, 0, 0, 0, 2, 0, 0]);
    let expected = Space {
        total_bytes: 100 * 4096,
        available_bytes: 60 * 4096,
    };
    assert_eq!(parse_space(&buffer), Ok(expected));
}
