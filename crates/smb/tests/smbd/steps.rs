//! Steps by path against a real server.
use std::fs;

use hakaru_smb::wire::{Dialect, Path, Status};
use hakaru_smb::{Event, FileSteps, OpError, ReadData, Step, StepError};

use crate::client::Client;
use crate::server::Smbd;
use crate::{config, content};

/// Runs one step. Returns its number of bytes and its data.
fn run(
    client: &mut Client,
    steps: &mut FileSteps,
    step: Step,
) -> Result<(u64, ReadData), StepError> {
    steps.begin(client.now(), &mut client.connection, step)?;
    loop {
        let Event::Done(done) = client.next_event() else {
            panic!("the connection ended");
        };
        assert!(steps.owns(done.id));
        let now = client.now();
        if let Some(end) = steps.handle_done(now, &mut client.connection, done) {
            assert!(end.begun <= end.ended && end.ended <= now);
            return end.result.map(|bytes| (bytes, end.data));
        }
    }
}

fn path(text: &str) -> Path {
    Path::new(text).unwrap()
}

#[test]
fn a_program_walks_writes_reads_renames_and_deletes() {
    let Some(server) = Smbd::start("") else {
        return;
    };
    let bytes = &content()[..1 << 20];
    for (dialect, compound) in [
        (Dialect::Smb21, false),
        (Dialect::Smb21, true),
        (Dialect::Smb311, false),
        (Dialect::Smb311, true),
    ] {
        let (mut client, _) = Client::connect(server.address, config(dialect)).unwrap();
        let mut steps = FileSteps::new(compound);
        let mut ok = |step| run(&mut client, &mut steps, step).unwrap();
        let root = format!("tree {dialect:?} {compound}");
        let at = |name: &str| path(&format!("{root}/{name}"));
        let on_disk = |name: &str| server.path(&format!("{root}/{name}"));
        ok(Step::CreateFolder { path: path(&root) });
        ok(Step::Lookup { path: path(&root) });
        ok(Step::OpenWrite { path: at("a") });
        let data = bytes.to_vec().into();
        let written = ok(Step::Write { offset: 0, data });
        assert_eq!(written.0, 1 << 20);
        ok(Step::Flush);
        ok(Step::Close);
        assert!(fs::read(on_disk("a")).unwrap() == bytes);
        let opened = ok(Step::OpenRead { path: at("a") });
        assert_eq!(opened.0, 1 << 20);
        let length = 1 << 20;
        let read = |keep| Step::Read {
            offset: 0,
            length,
            keep,
        };
        let (count, data) = ok(read(true));
        assert!(count == 1 << 20 && data[..] == *bytes);
        let (count, data) = ok(read(false));
        assert_eq!((count, data.len()), (1 << 20, 0));
        ok(Step::Close);
        ok(Step::Create { path: at("b") });
        assert_eq!(ok(Step::List { path: path(&root) }).0, 2);
        assert_eq!(ok(Step::Stat { path: at("b") }).0, 0);
        assert_eq!(ok(Step::Stat { path: at("a") }).0, 1 << 20);
        let to = at("c");
        ok(Step::Rename {
            path: at("b"),
            to: to.clone(),
        });
        assert!(on_disk("c").exists() && !on_disk("b").exists());

        // Steps that fail name the reason, and the next one works.
        let mut error = |step| run(&mut client, &mut steps, step).unwrap_err();
        let status = |status| StepError::Op(OpError::Status(status));
        let missing = status(Status::OBJECT_NAME_NOT_FOUND);
        assert_eq!(error(Step::Lookup { path: at("d") }), missing);
        assert_eq!(error(Step::OpenRead { path: at("d") }), missing);
        assert_eq!(error(Step::Delete { path: at("d") }), missing);
        let exists = status(Status::OBJECT_NAME_COLLISION);
        assert_eq!(error(Step::Create { path: at("a") }), exists);
        let path = at("a");
        assert_eq!(error(Step::Rename { path, to }), exists);
        let file = error(Step::Lookup { path: at("a") });
        assert_eq!(file, status(Status::NOT_A_DIRECTORY));
        assert_eq!(error(read(true)), StepError::NotOpen);
        let folder = || Path::new(&root).unwrap();
        let full = error(Step::DeleteFolder { path: folder() });
        assert_eq!(full, status(Status::DIRECTORY_NOT_EMPTY));
        let mut ok = |step| run(&mut client, &mut steps, step).unwrap();
        for name in ["a", "c"] {
            ok(Step::Delete { path: at(name) });
            assert!(!on_disk(name).exists());
        }
        ok(Step::DeleteFolder { path: folder() });
        assert!(!server.path(&root).exists());
        client.log_off();
    }
}
