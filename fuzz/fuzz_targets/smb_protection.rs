//! Frames and messages of a server that has no key of the session. Input: a byte that chooses the
//! algorithms and the kind, then a frame, or changes of one that the client itself protected.
//!
//! Checks, in addition to the absence of panics: nothing is decrypted or verified, apart from what
//! was not changed; and a connection without encryption ends with such a frame.
#![no_main]
#[allow(dead_code)]
#[path = "../../crates/smb/src/encryption.rs"]
mod encryption;
#[allow(dead_code)]
#[path = "../../crates/smb/tests/scripted/server.rs"]
mod server;
#[allow(dead_code)]
#[path = "../../crates/smb/src/signing.rs"]
mod signing;
/// Formats, under the name that the modules above use.
mod wire {
    pub use hakaru_smb::wire::*;
}

use encryption::{Sealer, TRANSFORM_LENGTH, is_sealed};
use libfuzzer_sys::fuzz_target;
use server::{Server, config};
use signing::{PreauthHash, Signer};
use wire::{Dialect, EncryptionCipher, HEADER_LENGTH, Header, SigningAlgorithm};

const SESSION: u64 = 0x1122;
const ALGORITHMS: [SigningAlgorithm; 3] = [
    SigningAlgorithm::HmacSha256,
    SigningAlgorithm::AesCmac,
    SigningAlgorithm::AesGmac,
];

fn sealer(choice: u8) -> Sealer {
    let cipher = EncryptionCipher::ALL[usize::from(choice) % EncryptionCipher::ALL.len()];
    Sealer::new(cipher, SESSION, &[7; 16], &PreauthHash::new())
}

fn signer(choice: u8) -> Signer {
    let algorithm = ALGORITHMS[usize::from(choice) % ALGORITHMS.len()];
    let dialect = match algorithm {
        SigningAlgorithm::HmacSha256 => Dialect::Smb21,
        _ => Dialect::Smb311,
    };
    Signer::new(dialect, Some(algorithm), &[7; 16], &PreauthHash::new())
}

/// Applies changes: a place of two bytes, and a mask.
fn change(frame: &mut [u8], changes: &[u8]) {
    for change in changes.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]]));
        if let Some(byte) = frame.get_mut(place) {
            *byte ^= change[2];
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, rest)) = input.split_first() else {
        return;
    };
    let (kind, choice) = (choice & 3, choice >> 2);
    match kind {
        0 => {
            let mut frame = rest.to_vec();
            assert!(!sealer(choice).open(&mut frame), "garbage was decrypted");
        }
        1 => {
            // Frames of the client, which a server might send back, with or without changes.
            let (length, changes) = rest.split_first().unwrap_or((&0, &[]));
            let mut frame = vec![3; TRANSFORM_LENGTH + usize::from(*length)];
            let mut client = sealer(choice);
            client.seal(&mut frame);
            assert!(is_sealed(&frame));
            change(&mut frame, changes);
            assert!(!client.open(&mut frame), "a reflected frame was decrypted");
        }
        2 => {
            // Only messages with a whole header are verified.
            if let Ok(header) = Header::parse(rest) {
                let right =
                    signer(choice).verify_response(header.message_id, &header.signature, rest);
                assert!(!right || rest.len() < HEADER_LENGTH, "garbage was verified");
            }
        }
        _ => {
            let mut server = Server::logged_in(config(), 5);
            let mut frame = vec![0xfd, b'S', b'M', b'B'];
            frame.extend_from_slice(rest);
            server.send(&frame);
            assert!(
                server.connection.is_ended(),
                "a session without keys goes on"
            );
        }
    }
});
