//! A server that damages its responses never causes a panic, and every operation ends once.
use std::collections::HashSet;

use hakaru_smb::wire::{
    Command, CreateResponse, DirectoryEntry, FileFacts, FileId, Query, Status,
    emit_buffer_response, emit_close_response, emit_empty, emit_entries, emit_facts,
    emit_read_response, emit_write_response,
};
use hakaru_smb::{Event, Op, OpId};
use hakaru_units::Time;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::server::{Request, Server, config, response};

const FILE: FileId = FileId([9; 16]);

/// Change of a response: kind, place and value.
type Damage = (u8, u16, u8);

fn answer(request: &Request) -> Vec<u8> {
    let facts = FileFacts::default();
    response(&request.header, Status::SUCCESS, 3, |out| {
        match request.header.command {
            Command::Create => CreateResponse {
                action: 1,
                facts,
                file: FILE,
            }
            .emit(out),
            Command::Read => emit_read_response(&[7; 50], out),
            Command::Write => emit_write_response(50, out),
            Command::Close => emit_close_response(out),
            Command::QueryDirectory => {
                let names = ["a", "bc", "def"].map(|name| DirectoryEntry {
                    name: name.into(),
                    facts,
                });
                let mut buffer = Vec::new();
                emit_entries(&names, &mut buffer);
                emit_buffer_response(&buffer, out);
            }
            Command::QueryInfo => {
                let mut buffer = Vec::new();
                emit_facts(&facts, &mut buffer);
                emit_buffer_response(&buffer, out);
            }
            _ => emit_empty(out),
        }
    })
}

fn damage(message: &mut Vec<u8>, (kind, place, value): Damage) {
    let at = usize::from(place) % message.len().max(1);
    match kind % 8 {
        0 | 1 if !message.is_empty() => message[at] = value,
        2 => message.truncate(at),
        3 if message.len() > 64 => {
            // The fields behind the header have the offsets and the lengths.
            let at = 64 + at % (message.len() - 64);
            message[at] ^= value;
        }
        4 => message.extend(vec![value; at]),
        5 if message.len() >= 24 => message[20..22].copy_from_slice(&place.to_le_bytes()),
        6 if message.len() >= 12 => message[8..12].fill(value),
        _ => {}
    }
}

fn operation(kind: u8) -> Op {
    match kind % 7 {
        0 => Op::Read {
            file: FILE,
            offset: 0,
            length: 50,
            keep: true,
        },
        1 => Op::Write {
            file: FILE,
            offset: 0,
            data: vec![1; 50].into(),
        },
        2 => Op::List {
            file: FILE,
            pattern: "*".into(),
            restart: false,
        },
        3 => Op::Query {
            file: FILE,
            query: Query::File,
        },
        4 => Op::Query {
            file: FILE,
            query: Query::Space,
        },
        5 => Op::Close { file: FILE },
        _ => Op::Echo,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn damaged_responses_never_panic_and_every_operation_ends_once(
        operations in vec(any::<u8>(), 1..12),
        damages in vec(proptest::option::weighted(0.4, any::<Damage>()), 1..12),
        cut in 1usize..200,
    ) {
        let mut server = Server::logged_in(config(), 50);
        let mut open = HashSet::new();
        for &kind in &operations {
            open.insert(server.connection.submit(Time(0), operation(kind)));
        }
        let mut damages = damages.into_iter().cycle();
        let mut ended = false;
        while let Some(request) = server.try_take() {
            let mut message = answer(&request);
            if let Some(Some(change)) = damages.next() {
                damage(&mut message, change);
            }
            let mut bytes = (message.len() as u32).to_be_bytes().to_vec();
            bytes.extend(message);
            for piece in bytes.chunks(cut) {
                server.connection.handle_received(Time(1), piece);
            }
        }
        server.connection.handle_closed(Time(2), "(test)");
        while let Some(event) = server.connection.poll_event() {
            prop_assert!(!ended, "an event after the end");
            match event {
                Event::Done(done) => prop_assert!(open.remove(&done.id), "{:?} ended twice", done.id),
                Event::Lost(_) => ended = true,
                other => prop_assert!(false, "{:?}", other),
            }
        }
        prop_assert!(ended && open.is_empty(), "{:?} did not end", open);
        prop_assert_eq!(server.connection.submit(Time(3), Op::Echo), OpId(operations.len() as u64));
    }

    #[test]
    fn damaged_logins_never_panic(damages in vec(any::<Damage>(), 4), which in 0usize..4) {
        let mut server = Server::accept(config());
        for (n, change) in damages.into_iter().enumerate() {
            let Some(request) = server.try_take() else { break };
            let mut message = match n {
                0 => response(&request.header, Status::SUCCESS, 1, |out| crate::server::negotiated().emit(out)),
                1 | 2 => {
                    let status = if n == 1 { Status::MORE_PROCESSING_REQUIRED } else { Status::SUCCESS };
                    let token = crate::server::challenge();
                    let setup = hakaru_smb::wire::SessionSetupResponse { flags: 1, token };
                    response(&request.header, status, 1, |out| setup.emit(out))
                }
                _ => response(&request.header, Status::SUCCESS, 1, |out| crate::server::tree().emit(out)),
            };
            if n >= which {
                damage(&mut message, change);
            }
            server.send(&message);
        }
        server.connection.handle_closed(Time(1), "(test)");
        prop_assert!(server.connection.is_ended());
    }
}
