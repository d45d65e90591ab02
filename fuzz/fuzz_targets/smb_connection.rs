//! A file server that answers one connection of the SMB client with anything. Input: a program of
//! steps. A step submits an operation, answers the oldest request with bytes of the input behind a
//! valid header, sends raw bytes, or lets time pass.
//!
//! Checks, in addition to the absence of panics: each operation ends exactly once, at the latest
//! with the connection, and nothing happens after that.
#![no_main]
#[allow(dead_code)]
#[path = "../../crates/smb/tests/scripted/server.rs"]
mod server;

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use hakaru_smb::wire::{
    Access, Change, CreateRequest, Disposition, FileId, OPTION_FILE, Path, Query, Sharing, Status,
};
use hakaru_smb::{Event, Op, OpId};
use libfuzzer_sys::fuzz_target;
use server::{Request, Server, config, response};

const FILE: FileId = FileId([9; 16]);

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

fn operation(kind: u8) -> Op {
    let file = if kind & 0x80 == 0 {
        FILE
    } else {
        FileId::RELATED
    };
    let path = Path::new("a/b").expect("a valid path");
    match kind % 10 {
        0 => Op::Create(CreateRequest {
            path,
            access: Access::READ,
            sharing: Sharing::ALL,
            disposition: Disposition::Open,
            options: OPTION_FILE,
        }),
        1 => Op::Read {
            file,
            offset: 0,
            length: u32::from(kind) * 700,
            keep: kind & 1 == 0,
        },
        2 => Op::Write {
            file,
            offset: 0,
            data: vec![1; usize::from(kind) * 300].into(),
        },
        3 => Op::List {
            file,
            pattern: "*".into(),
            restart: false,
        },
        4 => Op::Query {
            file,
            query: Query::File,
        },
        5 => Op::Query {
            file,
            query: Query::Space,
        },
        6 => Op::Set {
            file,
            change: Change::Rename {
                to: path,
                replace: false,
            },
        },
        7 => Op::Flush { file },
        8 => Op::Close { file },
        _ => Op::Echo,
    }
}

/// Statuses that the client treats specially.
const STATUSES: [Status; 8] = [
    Status::SUCCESS,
    Status::SUCCESS,
    Status::MORE_PROCESSING_REQUIRED,
    Status::NO_MORE_FILES,
    Status::END_OF_FILE,
    Status::BUFFER_OVERFLOW,
    Status::ACCESS_DENIED,
    Status::USER_SESSION_DELETED,
];

struct Scene {
    server: Server,
    requests: VecDeque<Request>,
    open: HashSet<OpId>,
    ended: bool,
}

impl Scene {
    fn submit(&mut self, kinds: &[u8]) {
        if kinds.is_empty() {
            return;
        }
        let ops = kinds.iter().map(|&kind| operation(kind));
        let OpId(first) = self.server.connection.submit_related(self.server.now, ops);
        self.open.extend((first..).take(kinds.len()).map(OpId));
        self.check();
    }

    fn answer(&mut self, input: &mut Input<'_>) {
        while let Some(request) = self.server.try_take() {
            self.requests.push_back(request);
        }
        let Some(request) = self.requests.pop_front() else {
            return;
        };
        let (kind, length) = (input.byte(), usize::from(input.byte()));
        let body = input.take(length);
        let status = STATUSES[usize::from(kind & 7)];
        if kind & 0x18 == 0x18 {
            self.server.postpone(&request, kind.into());
            self.requests.push_back(request);
        } else {
            let message = response(&request.header, status, (kind >> 3).into(), |out| {
                out.extend_from_slice(body);
            });
            self.server.send(&message);
        }
        self.check();
    }

    fn check(&mut self) {
        while let Some(event) = self.server.connection.poll_event() {
            match event {
                Event::Done(done) => {
                    assert!(self.open.remove(&done.id), "{:?} ended twice", done.id)
                }
                Event::Ready(_) => assert!(!self.ended, "ready after the end"),
                Event::LoggedOff | Event::Lost(_) => {
                    assert!(!self.ended, "a connection ended twice");
                    self.ended = true;
                }
            }
        }
        assert_eq!(self.ended, self.server.connection.is_ended());
        assert!(
            !self.ended || self.open.is_empty(),
            "{:?} did not end",
            self.open
        );
    }
}

fuzz_target!(|input: &[u8]| {
    let mut input = Input(input);
    let first = input.byte();
    // Some programs begin before the login, which they then answer themselves.
    let server = match first & 3 {
        0 => Server::accept(config()),
        _ => Server::logged_in(config(), u16::from(first)),
    };
    let mut scene = Scene {
        server,
        requests: VecDeque::new(),
        open: HashSet::new(),
        ended: false,
    };
    while !input.0.is_empty() {
        let step = input.byte();
        match step & 7 {
            0 => {
                let length = usize::from(step >> 3) % 5;
                scene.submit(input.take(length));
            }
            1 => scene.submit(&[step >> 3]),
            2 => {
                let length = usize::from(input.byte());
                let (bytes, now) = (input.take(length), scene.server.now);
                scene.server.connection.handle_received(now, bytes);
                scene.check();
            }
            3 => {
                let length = usize::from(input.byte());
                let frame = input.take(length);
                scene.server.send(frame);
                scene.check();
            }
            4 => {
                scene.server.now += Duration::from_secs(u64::from(step >> 3));
                scene.server.connection.handle_timeout(scene.server.now);
                scene.check();
            }
            5 if step >> 3 == 31 => {
                scene.server.connection.log_off(scene.server.now);
                scene.check();
            }
            _ => scene.answer(&mut input),
        }
    }
    scene
        .server
        .connection
        .handle_closed(scene.server.now, "(end of the input)");
    scene.check();
    assert!(scene.ended);
});
