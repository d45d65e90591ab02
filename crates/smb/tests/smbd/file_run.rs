//! Files that are copied ahead of the ends of their requests, against a real server.
use std::fs;

use hakaru_smb::wire::{Dialect, Path, Status};
use hakaru_smb::{Encryption, Event, FileRun, OpError, Signing, Step, StepDone, StepError};

use crate::client::Client;
use crate::server::Smbd;
use crate::{config, content};

/// Runs steps that are begun together. Returns them in the order of their begin.
fn run(client: &mut Client, run: &mut FileRun, steps: Vec<Step>) -> Vec<StepDone> {
    let count = steps.len();
    let first = run
        .begin(client.now(), &mut client.connection, steps)
        .unwrap();
    let mut ended = Vec::new();
    while ended.len() < count {
        let Event::Done(done) = client.next_event() else {
            panic!("the connection ended");
        };
        assert!(run.owns(done.id));
        let (id, now) = (done.id, client.now());
        let step = run.handle_done(now, &mut client.connection, done);
        ended.extend(step.map(|step| (id.0 - first.0, step)));
    }
    ended.sort_by_key(|(place, _)| *place);
    ended.into_iter().map(|(_, step)| step).collect()
}

fn write(bytes: &[u8], offset: usize, length: usize) -> Step {
    Step::Write {
        offset: offset as u64,
        data: bytes[offset..offset + length].to_vec().into(),
    }
}

fn read(offset: u64, length: u32) -> Step {
    Step::Read {
        offset,
        length,
        keep: true,
    }
}

#[test]
fn files_are_written_and_read_in_compounds_and_in_parts() {
    let Some(server) = Smbd::start("") else {
        return;
    };
    const BLOCK: usize = 256 << 10;
    let bytes = &content()[..4 * BLOCK];
    let mut signed = config(Dialect::Smb302);
    signed.signing = Signing::Required;
    let mut encrypted = config(Dialect::Smb311);
    encrypted.encryption = Encryption::Required;
    let plain = [Dialect::Smb21, Dialect::Smb311].map(config);
    for (number, config) in plain.into_iter().chain([signed, encrypted]).enumerate() {
        let (mut client, _) = Client::connect(server.address, config).unwrap();
        let mut file = FileRun::new();
        let path = |name: &str| Path::new(&format!("{name} {number}")).unwrap();
        let on_disk = |name: &str| fs::read(server.path(&format!("{name} {number}"))).unwrap();
        let mut ok = |steps: Vec<Step>| {
            let ended = run(&mut client, &mut file, steps);
            assert!(ended.iter().all(|step| step.begun <= step.ended));
            let bytes = ended.iter().map(|step| step.result.unwrap());
            let bytes: Vec<u64> = bytes.collect();
            (bytes, ended)
        };
        let open = |name| Step::OpenWrite { path: path(name) };
        let whole = vec![
            open("small"),
            write(bytes, 0, BLOCK),
            Step::Flush,
            Step::Close,
        ];
        assert_eq!(ok(whole).0, [0, BLOCK as u64, 0, 0]);
        assert!(on_disk("small") == bytes[..BLOCK]);
        // An existing file is truncated.
        let whole = vec![open("small"), write(bytes, 0, 5), Step::Close];
        assert_eq!(ok(whole).0, [0, 5, 0]);
        assert_eq!(on_disk("small"), bytes[..5]);

        ok(vec![open("large"), write(bytes, 0, BLOCK)]);
        ok((1..3).map(|n| write(bytes, n * BLOCK, BLOCK)).collect());
        ok(vec![write(bytes, 3 * BLOCK, BLOCK), Step::Close]);
        assert!(on_disk("large") == bytes);
        let open = Step::OpenRead {
            path: path("large"),
        };
        let (lengths, parts) = ok(vec![open, read(0, BLOCK as u32)]);
        assert_eq!(lengths, [4 * BLOCK as u64, BLOCK as u64]);
        assert!(parts[1].data[..] == bytes[..BLOCK]);
        let parts = (1..4).map(|n| read((n * BLOCK) as u64, BLOCK as u32));
        for (n, part) in (1..).zip(ok(parts.collect()).1) {
            assert!(part.data[..] == bytes[n * BLOCK..][..BLOCK]);
        }
        ok(vec![Step::Close]);

        // Every step of a compound names the reason of the first.
        let open = Step::OpenRead { path: path("none") };
        let failed = run(&mut client, &mut file, vec![open, read(0, 5), Step::Close]);
        let missing = StepError::Op(OpError::Status(Status::OBJECT_NAME_NOT_FOUND));
        assert!(failed.iter().all(|step| step.result == Err(missing)));
        client.log_off();
    }
}
