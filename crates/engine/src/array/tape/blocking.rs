//! Accesses of the shell itself, before the array serves and after it has ended.
use hakaru_iscsi_target::{Io, IoId, IoOp, IoResult};
use hakaru_runtime::{Events, Reactor, Token, clock};

use crate::array::pools::POOLS_MAX;
use crate::array::storage::Storage;
use crate::array::tokens::{FILES, STORES};
use crate::failure::{Failure, OrEnvironment};

/// Performs an access and waits for its result. Results of other accesses are dropped: no initiator
/// waits for them.
///
/// # Errors
/// The reactor cannot wait.
pub fn perform(
    lun: u8,
    op: IoOp,
    storage: &mut Storage,
    reactor: &Reactor,
) -> Result<IoResult, Failure> {
    let id = IoId::SHELL;
    let mut take_buffer = Vec::<u8>::with_capacity;
    let io = Io {
        id,
        lun,
        op,
        received_bytes: None,
    };
    storage.core.submit(clock::now(), io, &mut take_buffer);
    let mut events = Events::with_capacity(16);
    loop {
        storage.core.handle_timeout(clock::now(), &mut take_buffer);
        storage.flush_files(clock::now());
        while let Some((done, result)) = storage.poll_done() {
            if done == id {
                return Ok(result);
            }
        }
        reactor
            .wait(&mut events, storage.poll_timeout())
            .or_environment("wait for the files of the cartridges", "see dmesg")?;
        for event in events.iter() {
            match event.token {
                FILES => storage.handle_file_event(clock::now()),
                Token(token) if (STORES..STORES + POOLS_MAX as u64).contains(&token) => {
                    storage.handle_store_event(clock::now(), (token - STORES) as usize);
                }
                // The serving loop's wait reports other events again.
                _ => {}
            }
        }
    }
}
