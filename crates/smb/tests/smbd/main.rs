//! The client against a real server: smbd of Samba.
mod client;
mod file_run;
mod peer;
mod server;
mod steps;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use client::Client;
use hakaru_smb::wire::{
    Access, Change, CreateRequest, Dialect, DirectoryEntry, Disposition, EncryptionCipher, FileId,
    OPTION_DIRECTORY, OPTION_FILE, Path, Query, Sharing, SigningAlgorithm, Status,
};
use hakaru_smb::{
    Config, ConnectionError, Credentials, Encryption, Event, Op, OpError, Output, Password,
    ReadData, Signing, WriteData,
};
use server::{PASSWORD, Smbd, USER};

fn user(password: &str) -> Credentials {
    Credentials::Password(Password {
        domain: String::new(),
        user: USER.to_owned(),
        password: password.to_owned(),
    })
}

fn config(dialect: Dialect) -> Config {
    let mut config = Config::new("127.0.0.1", "data", user(PASSWORD));
    config.dialects = vec![dialect];
    config
}

fn open(path: &str, access: Access, disposition: Disposition) -> Op {
    Op::Create(CreateRequest {
        path: Path::new(path).unwrap(),
        access,
        sharing: Sharing::ALL,
        disposition,
        options: OPTION_FILE,
    })
}

fn created(output: Output) -> FileId {
    match output {
        Output::Created(response) => response.file,
        other => panic!("{other:?}"),
    }
}

fn folder(path: &str, disposition: Disposition) -> Op {
    Op::Create(CreateRequest {
        path: Path::new(path).unwrap(),
        access: Access::READ,
        sharing: Sharing::ALL,
        disposition,
        options: OPTION_DIRECTORY,
    })
}

/// 3 MiB and 5 bytes without a short period.
fn content() -> Vec<u8> {
    (0..(3u64 << 20) + 5)
        .map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

const CHUNK: usize = 1 << 20;

/// Runs operations as one compound, or one after another. `file` opens with the first one.
fn run_all(client: &mut Client, compound: bool, ops: Vec<Op>) -> Vec<Result<Output, OpError>> {
    if compound {
        return client.run_all(ops);
    }
    let mut file = FileId::RELATED;
    let mut results = Vec::new();
    for mut op in ops {
        match &mut op {
            Op::Close { file: of }
            | Op::Read { file: of, .. }
            | Op::Write { file: of, .. }
            | Op::Flush { file: of }
            | Op::List { file: of, .. }
            | Op::Query { file: of, .. }
            | Op::Set { file: of, .. } => *of = file,
            Op::Create(_) | Op::Echo => {}
        }
        let result = client.run(op);
        if let Ok(Output::Created(response)) = &result {
            file = response.file;
        }
        results.push(result);
    }
    results
}

#[track_caller]
fn all_ok(results: Vec<Result<Output, OpError>>) -> Vec<Output> {
    let all: Result<_, _> = results.iter().cloned().collect();
    all.unwrap_or_else(|error| panic!("{error}: {results:?}"))
}

const FILE: FileId = FileId::RELATED;

fn write_file(client: &mut Client, compound: bool, path: &str, bytes: &[u8]) {
    let mut ops = vec![open(path, Access::WRITE, Disposition::OverwriteIf)];
    let buffer = std::sync::Arc::new(bytes.to_vec());
    for begin in (0..bytes.len()).step_by(CHUNK) {
        let range = begin..bytes.len().min(begin + CHUNK);
        let data = WriteData {
            buffer: buffer.clone(),
            range,
        };
        ops.push(Op::Write {
            file: FILE,
            offset: begin as u64,
            data,
        });
    }
    ops.extend([Op::Flush { file: FILE }, Op::Close { file: FILE }]);
    let outputs = all_ok(run_all(client, compound, ops));
    let written = outputs.iter().map(|output| match output {
        Output::Written(count) => *count as usize,
        _ => 0,
    });
    assert_eq!(written.sum::<usize>(), bytes.len());
}

fn read_file(client: &mut Client, compound: bool, path: &str, length: usize) -> Vec<u8> {
    let mut ops = vec![open(path, Access::READ, Disposition::Open)];
    for begin in (0..length).step_by(CHUNK) {
        ops.push(Op::Read {
            file: FILE,
            offset: begin as u64,
            length: length.min(begin + CHUNK) as u32 - begin as u32,
            keep: true,
        });
    }
    // Reads at the end of a file have no data; others may be counted only.
    for (offset, keep) in [(length as u64, true), (0, false)] {
        ops.push(Op::Read {
            file: FILE,
            offset,
            length: 4096,
            keep,
        });
    }
    ops.push(Op::Close { file: FILE });
    let outputs = all_ok(run_all(client, compound, ops));
    let count = outputs.len();
    let empty = ReadData::default();
    assert_eq!(
        outputs[count - 3],
        Output::Read {
            length: 0,
            data: empty.clone()
        }
    );
    assert_eq!(
        outputs[count - 2],
        Output::Read {
            length: 4096,
            data: empty
        }
    );
    let pieces = outputs.iter().map(|output| match output {
        Output::Read { data, .. } => &data[..],
        _ => &[],
    });
    pieces.collect::<Vec<_>>().concat()
}

fn list(client: &mut Client, path: &str) -> Vec<DirectoryEntry> {
    let file = created(client.run(folder(path, Disposition::Open)).unwrap());
    let mut all = Vec::new();
    loop {
        let op = Op::List {
            file,
            pattern: "*".into(),
            restart: false,
        };
        match client.run(op).unwrap() {
            Output::Entries { end: true, .. } => break,
            Output::Entries { entries, .. } => all.extend(entries),
            other => panic!("{other:?}"),
        }
    }
    client.run(Op::Close { file }).unwrap();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn change(client: &mut Client, compound: bool, path: &str, change: Change) -> Result<(), OpError> {
    let access = Access::DELETE.and(Access::WRITE);
    let ops = vec![
        open(path, access, Disposition::Open),
        Op::Set { file: FILE, change },
        Op::Close { file: FILE },
    ];
    run_all(client, compound, ops)
        .into_iter()
        .try_for_each(|result| result.map(drop))
}

/// Does everything with files that the client can do, and compares with the server's file system.
fn exercise(server: &Smbd, client: &mut Client, compound: bool, name: &str) {
    let bytes = content();
    client
        .run(folder(name, Disposition::Create))
        .map(created)
        .unwrap();
    let path = |file: &str| format!("{name}/{file}");
    write_file(client, compound, &path("夏.bin"), &bytes);
    assert!(fs::read(server.path(&path("夏.bin"))).unwrap() == bytes);
    let read = read_file(client, compound, &path("夏.bin"), bytes.len());
    assert!(read == bytes);

    write_file(
        client,
        compound,
        &path("b"),
        b"small, but more than nothing: a page"
            .repeat(200)
            .as_slice(),
    );
    let entries = list(client, name);
    let names: Vec<&str> = entries.iter().map(|entry| &entry.name[..]).collect();
    assert_eq!(names, ["b", "夏.bin"]);
    assert_eq!(entries[1].facts.length_bytes, bytes.len() as u64);
    assert!(!entries[1].facts.is_directory());

    let to = Path::new(&path("c")).unwrap();
    let rename = |replace| Change::Rename {
        to: to.clone(),
        replace,
    };
    change(client, compound, &path("b"), rename(false)).unwrap();
    assert!(!server.path(&path("b")).exists() && server.path(&path("c")).exists());
    let collision = change(client, compound, &path("夏.bin"), rename(false));
    assert_eq!(
        collision,
        Err(OpError::Status(Status::OBJECT_NAME_COLLISION))
    );
    change(
        client,
        compound,
        &path("c"),
        Change::Length { bytes: 70_000 },
    )
    .unwrap();
    assert_eq!(fs::metadata(server.path(&path("c"))).unwrap().len(), 70_000);
    let ops = vec![
        open(&path("c"), Access::ATTRIBUTES, Disposition::Open),
        Op::Query {
            file: FILE,
            query: Query::File,
        },
        Op::Query {
            file: FILE,
            query: Query::Space,
        },
        Op::Close { file: FILE },
    ];
    let outputs = all_ok(run_all(client, compound, ops));
    assert!(matches!(&outputs[1], Output::Facts(facts) if facts.length_bytes == 70_000));
    assert!(matches!(&outputs[2], Output::Space(space)
        if space.total_bytes > space.available_bytes && space.available_bytes > 0));
    change(client, compound, &path("c"), Change::Delete).unwrap();
    assert!(!server.path(&path("c")).exists());
    let missing = change(client, compound, &path("c"), Change::Delete);
    assert_eq!(missing, Err(OpError::Status(Status::OBJECT_NAME_NOT_FOUND)));
    assert_eq!(client.run(Op::Echo), Ok(Output::Nothing));
    assert_eq!(list(client, name).len(), 1);
}

#[test]
fn files_are_the_same_at_both_ends_in_every_mode() {
    let Some(server) = Smbd::start("map to guest = bad user") else {
        return;
    };
    let mut number = 0;
    let mut run = |config: Config, compound: bool, signing: Option<SigningAlgorithm>| {
        let guest = !matches!(config.credentials, Credentials::Password(_));
        let (mut client, facts) = Client::connect(server.address, config.clone()).unwrap();
        assert_eq!(facts.dialect, config.dialects[0]);
        assert_eq!((facts.guest, facts.signing), (guest, signing), "{config:?}");
        number += 1;
        exercise(&server, &mut client, compound, &format!("folder {number}"));
        client.log_off();
    };
    use SigningAlgorithm::{AesCmac, AesGmac, HmacSha256};
    for (dialect, algorithms) in [
        (Dialect::Smb21, &[HmacSha256][..]),
        (Dialect::Smb30, &[AesCmac]),
        (Dialect::Smb302, &[AesCmac]),
        (Dialect::Smb311, &[AesCmac, AesGmac, HmacSha256]),
    ] {
        for compound in [false, true] {
            run(config(dialect), compound, None);
            for &algorithm in algorithms {
                let mut signed = config(dialect);
                signed.signing = Signing::Required;
                signed.signing_algorithms = vec![algorithm];
                run(signed, compound, Some(algorithm));
            }
            for credentials in [Credentials::Guest, Credentials::Anonymous] {
                let mut guest = config(dialect);
                guest.credentials = credentials;
                run(guest, compound, None);
            }
        }
    }
}

#[test]
fn a_server_that_requires_signing_gets_signed_messages() {
    let Some(server) = Smbd::start("server signing = mandatory") else {
        return;
    };
    for dialect in Dialect::ALL {
        let (mut client, facts) = Client::connect(server.address, config(dialect)).unwrap();
        assert!(facts.signing.is_some());
        exercise(&server, &mut client, true, &format!("{dialect:?}"));
        client.log_off();
    }
}

#[test]
fn encrypted_files_are_the_same_at_both_ends() {
    // Required by the client, by the share, and by the server for all sessions.
    for (global, share, encryption) in [
        ("", "data", Encryption::Required),
        ("", "sealed", Encryption::IfRequired),
        (
            "server smb encrypt = required",
            "data",
            Encryption::IfRequired,
        ),
    ] {
        let Some(server) = Smbd::start(global) else {
            return;
        };
        for cipher in EncryptionCipher::ALL {
            for compound in [false, true] {
                let mut sealed = config(Dialect::Smb311);
                sealed.share = share.into();
                sealed.encryption = encryption;
                sealed.ciphers = vec![cipher];
                let (mut client, facts) = Client::connect(server.address, sealed).unwrap();
                assert_eq!((facts.encryption, facts.signing), (Some(cipher), None));
                let folder = format!("{cipher:?} {compound}");
                exercise(&server, &mut client, compound, &folder);
                client.log_off();
            }
        }
    }
}

#[test]
fn an_encrypted_response_that_was_changed_on_the_way_ends_the_connection() {
    let Some(server) = Smbd::start("") else {
        return;
    };
    for cipher in EncryptionCipher::ALL {
        let mut sealed = config(Dialect::Smb311);
        sealed.encryption = Encryption::Required;
        sealed.ciphers = vec![cipher];
        let (mut client, _) = Client::connect(server.address, sealed).unwrap();
        client.damage = true;
        match client.run(Op::Echo) {
            Err(OpError::Lost(error @ ConnectionError::Encryption(_))) => {
                assert_eq!(client.next_event(), Event::Lost(error));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_response_that_was_changed_on_the_way_ends_a_signed_connection() {
    let Some(server) = Smbd::start("") else {
        return;
    };
    fs::write(server.path("a"), b"hello").unwrap();
    for dialect in Dialect::ALL {
        let mut signed = config(dialect);
        signed.signing = Signing::Required;
        let (mut client, _) = Client::connect(server.address, signed).unwrap();
        let file = created(
            client
                .run(open("a", Access::READ, Disposition::Open))
                .unwrap(),
        );
        client.damage = true;
        let read = client.run(Op::Read {
            file,
            offset: 0,
            length: 5,
            keep: true,
        });
        let wrong = ConnectionError::Signature("wrong");
        assert_eq!(read, Err(OpError::Lost(wrong)));
        assert_eq!(client.next_event(), Event::Lost(wrong));
    }
}

#[test]
fn smbclient_and_this_client_see_the_same_files() {
    let Some(server) = Smbd::start("") else {
        return;
    };
    let bytes = content();
    let (mut client, _) = Client::connect(server.address, config(Dialect::Smb311)).unwrap();
    write_file(&mut client, true, "ours", &bytes);
    let local = server.path("../local");
    let local = local.display();
    let smbclient = |commands: String| {
        let output = server.smbclient_command(&commands).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{commands}: {text}");
    };
    smbclient(format!("get ours {local}"));
    assert!(fs::read(server.path("../local")).unwrap() == bytes);
    smbclient(format!("put {local} theirs"));
    assert!(read_file(&mut client, true, "theirs", bytes.len()) == bytes);
    client.log_off();
}

#[test]
fn refusals_are_named() {
    let Some(server) = Smbd::start("") else {
        return;
    };
    let connect = |config: Config| Client::connect(server.address, config).map(|_| ());
    for dialect in Dialect::ALL {
        let with = |change: &dyn Fn(&mut Config)| {
            let mut config = config(dialect);
            change(&mut config);
            connect(config)
        };
        let refused = Err(ConnectionError::LoginRefused(Status::LOGON_FAILURE));
        assert_eq!(with(&|config| config.credentials = user("wrong")), refused);
        let share = |name: &'static str| with(&|config| config.share = name.into());
        let missing = ConnectionError::ShareRefused(Status::BAD_NETWORK_NAME);
        assert_eq!(share("missing"), Err(missing));
        let denied = ConnectionError::ShareRefused(Status::ACCESS_DENIED);
        assert_eq!(share("private"), Err(denied));
        assert_eq!(share("IPC$"), Err(ConnectionError::NotADisk));

        // The session continues after refused operations.
        let (mut client, _) = Client::connect(server.address, config(dialect)).unwrap();
        let status = |result: Result<Output, OpError>| match result {
            Err(OpError::Status(status)) => status,
            other => panic!("{other:?}"),
        };
        let mut open_status =
            |path: &str, access, disposition| status(client.run(open(path, access, disposition)));
        fs::write(server.path("secret"), b"x").unwrap();
        fs::set_permissions(server.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
        let open = Disposition::Open;
        assert_eq!(
            open_status("secret", Access::READ, open),
            Status::ACCESS_DENIED
        );
        assert_eq!(
            open_status("a", Access::READ, open),
            Status::OBJECT_NAME_NOT_FOUND
        );
        assert_eq!(
            open_status("a/b", Access::READ, open),
            Status::OBJECT_PATH_NOT_FOUND
        );
        assert_eq!(
            open_status("", Access::READ, open),
            Status::FILE_IS_A_DIRECTORY
        );
        let file = FileId([7; 16]);
        assert_eq!(status(client.run(Op::Close { file })), Status::FILE_CLOSED);
        // A compound whose first request fails ends all of its operations.
        let ops = vec![
            self::open("a", Access::READ, Disposition::Open),
            Op::Read {
                file: FILE,
                offset: 0,
                length: 9,
                keep: true,
            },
            Op::Close { file: FILE },
        ];
        let results = client.run_all(ops);
        let failed = Err(OpError::Status(Status::OBJECT_NAME_NOT_FOUND));
        assert_eq!(results, [failed.clone(), failed.clone(), failed]);
        assert_eq!(client.run(Op::Echo), Ok(Output::Nothing));
        let mut locked = config(dialect);
        locked.share = "locked".into();
        let (mut client, _) = Client::connect(server.address, locked).unwrap();
        let create = self::open("new", Access::WRITE, Disposition::Create);
        assert_eq!(status(client.run(create)), Status::ACCESS_DENIED);
    }
}

#[test]
fn encryption_and_unsigned_guests_are_named() {
    let Some(server) = Smbd::start("map to guest = bad user") else {
        return;
    };
    for dialect in Dialect::ALL {
        let mut sealed = config(dialect);
        sealed.share = "sealed".into();
        if dialect == Dialect::Smb311 {
            sealed.ciphers.clear();
        }
        let error = Client::connect(server.address, sealed)
            .map(|_| ())
            .unwrap_err();
        assert_eq!(error, ConnectionError::ShareRefused(Status::ACCESS_DENIED));
        assert!(error.to_string().contains("requires encryption"));
        let mut required = config(dialect);
        required.encryption = Encryption::Required;
        required.ciphers.clear();
        let error = Client::connect(server.address, required.clone())
            .map(|_| ())
            .unwrap_err();
        assert!(matches!(error, ConnectionError::Encryption(_)), "{error}");
        required.credentials = Credentials::Guest;
        let error = Client::connect(server.address, required)
            .map(|_| ())
            .unwrap_err();
        assert!(error.to_string().contains("guests have no key"), "{error}");
        let mut unknown = config(dialect);
        unknown.credentials = Credentials::Password(Password {
            domain: String::new(),
            user: "unknown".into(),
            password: String::new(),
        });
        let error = Client::connect(server.address, unknown)
            .map(|_| ())
            .unwrap_err();
        assert_eq!(error, ConnectionError::GuestSession);
        let mut signed = config(dialect);
        signed.credentials = Credentials::Guest;
        signed.signing = Signing::Required;
        let error = Client::connect(server.address, signed)
            .map(|_| ())
            .unwrap_err();
        assert_eq!(error, ConnectionError::GuestSigning);
    }
}
