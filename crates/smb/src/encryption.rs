//! Encryption of frames with dialect 3.1.1 (MS-SMB2 sections 2.2.41 and 3.1.4.3).
//!
//! A frame that is encrypted has a header of its own, [`TRANSFORM_LENGTH`] bytes long, before the
//! message or compound. Its tag takes the place of signatures.
use aes::Aes128;
use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes128Gcm, aead};
use ccm::Ccm;
use ccm::consts::{U11, U16};

use crate::signing::PreauthHash;
use crate::wire::EncryptionCipher;

/// Length of the header of an encrypted frame, bytes.
pub(crate) const TRANSFORM_LENGTH: usize = 52;
const PROTOCOL: [u8; 4] = [0xfd, b'S', b'M', b'B'];
const TAG_AT: usize = 4;
/// Begin of what the tag covers besides the message: nonce, length, flags, session.
const NONCE_AT: usize = 20;
const LENGTH_AT: usize = 36;
const FLAGS_AT: usize = 42;
const SESSION_AT: usize = 44;
const ENCRYPTED: u16 = 1;

type Aes128Ccm = Ccm<Aes128, U16, U11>;

/// Encrypts the frames of one session, and decrypts those of the server.
pub(crate) struct Sealer {
    cipher: EncryptionCipher,
    session_id: u64,
    own: Key,
    server: Key,
    /// Number of frames encrypted so far. No nonce is used twice with a key.
    sealed: u64,
}

enum Key {
    Gcm(Box<Aes128Gcm>),
    Ccm(Box<Aes128Ccm>),
}

impl Sealer {
    /// Derives the keys of a session from its session key. `preauth` is the hash up to the last
    /// request of the login.
    pub(crate) fn new(
        cipher: EncryptionCipher,
        session_id: u64,
        session_key: &[u8; 16],
        preauth: &PreauthHash,
    ) -> Sealer {
        let key = |label: &[u8]| Key::new(cipher, &preauth.derive(session_key, label));
        Sealer {
            cipher,
            session_id,
            own: key(b"SMBC2SCipherKey\0"),
            server: key(b"SMBS2CCipherKey\0"),
            sealed: 0,
        }
    }

    pub(crate) fn cipher(&self) -> EncryptionCipher {
        self.cipher
    }

    /// Encrypts a frame in place. It begins with [`TRANSFORM_LENGTH`] bytes for its header.
    pub(crate) fn seal(&mut self, frame: &mut [u8]) {
        let (header, message) = frame.split_at_mut(TRANSFORM_LENGTH);
        header.fill(0);
        header[..4].copy_from_slice(&PROTOCOL);
        header[NONCE_AT..NONCE_AT + 8].copy_from_slice(&self.sealed.to_le_bytes());
        header[LENGTH_AT..LENGTH_AT + 4].copy_from_slice(&(message.len() as u32).to_le_bytes());
        header[FLAGS_AT..FLAGS_AT + 2].copy_from_slice(&ENCRYPTED.to_le_bytes());
        header[SESSION_AT..].copy_from_slice(&self.session_id.to_le_bytes());
        self.sealed += 1;
        let tag = self.own.encrypt(&header[NONCE_AT..], message);
        header[TAG_AT..NONCE_AT].copy_from_slice(&tag);
    }

    /// Decrypts the message behind the header of a frame in place. Returns false if the frame was
    /// not encrypted with the keys of this session, or was changed.
    pub(crate) fn open(&self, frame: &mut [u8]) -> bool {
        if frame.len() <= TRANSFORM_LENGTH {
            return false;
        }
        let (header, message) = frame.split_at_mut(TRANSFORM_LENGTH);
        let has = |at: usize, bytes: &[u8]| header[at..at + bytes.len()] == *bytes;
        has(LENGTH_AT, &(message.len() as u32).to_le_bytes())
            && has(FLAGS_AT, &ENCRYPTED.to_le_bytes())
            && has(SESSION_AT, &self.session_id.to_le_bytes())
            && self.server.decrypt(header, message)
    }
}

/// Returns whether a frame is encrypted.
pub(crate) fn is_sealed(frame: &[u8]) -> bool {
    frame.starts_with(&PROTOCOL)
}

impl Key {
    fn new(cipher: EncryptionCipher, key: &[u8; 16]) -> Key {
        match cipher {
            EncryptionCipher::Aes128Gcm => Key::Gcm(Box::new(Aes128Gcm::new(key.into()))),
            EncryptionCipher::Aes128Ccm => Key::Ccm(Box::new(Aes128Ccm::new(key.into()))),
        }
    }

    /// `covered`: the part of the header that the tag covers, which begins with the nonce.
    fn encrypt(&self, covered: &[u8], message: &mut [u8]) -> [u8; 16] {
        fn tag<T: Into<[u8; 16]>>(tag: Result<T, aead::Error>) -> [u8; 16] {
            tag.expect("a frame is shorter than the limits of both ciphers")
                .into()
        }
        match self {
            Key::Gcm(key) => tag(key.encrypt_inout_detached(
                &first::<12>(covered).into(),
                covered,
                message.into(),
            )),
            Key::Ccm(key) => tag(key.encrypt_inout_detached(
                &first::<11>(covered).into(),
                covered,
                message.into(),
            )),
        }
    }

    fn decrypt(&self, header: &[u8], message: &mut [u8]) -> bool {
        let covered = &header[NONCE_AT..];
        let tag = first::<16>(&header[TAG_AT..]).into();
        let opened = match self {
            Key::Gcm(key) => key.decrypt_inout_detached(
                &first::<12>(covered).into(),
                covered,
                message.into(),
                &tag,
            ),
            Key::Ccm(key) => key.decrypt_inout_detached(
                &first::<11>(covered).into(),
                covered,
                message.into(),
                &tag,
            ),
        };
        opened.is_ok()
    }
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut first = [0; N];
    first.copy_from_slice(&bytes[..N]);
    first
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Sealer").field(&self.cipher).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A client, and a server that has its keys the other way round.
    fn pair(cipher: EncryptionCipher) -> (Sealer, Sealer) {
        let new = || Sealer::new(cipher, 0x1122, &[7; 16], &PreauthHash::new());
        let mut server = new();
        std::mem::swap(&mut server.own, &mut server.server);
        (new(), server)
    }

    fn sealed(sealer: &mut Sealer, message: &[u8]) -> Vec<u8> {
        let mut frame = vec![0xaa; TRANSFORM_LENGTH];
        frame.extend_from_slice(message);
        sealer.seal(&mut frame);
        frame
    }

    #[test]
    fn frames_are_opened_by_the_other_side_alone() {
        for cipher in EncryptionCipher::ALL {
            let (mut client, mut server) = pair(cipher);
            for length in [1, 64, 1000] {
                let message: Vec<u8> = (0..length).map(|n| n as u8).collect();
                let mut frame = sealed(&mut client, &message);
                assert!(is_sealed(&frame) && frame[TRANSFORM_LENGTH..] != message[..]);
                assert!(!client.open(&mut frame.clone()));
                assert!(server.open(&mut frame));
                assert_eq!(frame[TRANSFORM_LENGTH..], message[..]);
                let mut answer = sealed(&mut server, &message);
                assert!(client.open(&mut answer));
            }
        }
    }

    #[test]
    fn every_change_of_a_frame_is_found() {
        for cipher in EncryptionCipher::ALL {
            let (mut client, server) = pair(cipher);
            let frame = sealed(&mut client, &[3; 40]);
            // Reserved fields and the rest of the nonce are covered, too.
            for at in TAG_AT..frame.len() {
                let mut changed = frame.clone();
                changed[at] ^= 0x80;
                assert!(!server.open(&mut changed), "{cipher:?}: byte {at}");
            }
            for length in 0..frame.len() {
                assert!(!server.open(&mut frame[..length].to_vec()), "{length}");
            }
        }
    }

    proptest! {
        #[test]
        fn garbage_is_never_decrypted(
            mut frame in vec(any::<u8>(), 0..200),
            begins_right in any::<bool>(),
            has_fields in any::<bool>(),
        ) {
            if begins_right && frame.len() >= 4 {
                frame[..4].copy_from_slice(&PROTOCOL);
            }
            if has_fields && frame.len() > TRANSFORM_LENGTH {
                let length = (frame.len() - TRANSFORM_LENGTH) as u32;
                frame[LENGTH_AT..LENGTH_AT + 4].copy_from_slice(&length.to_le_bytes());
                frame[FLAGS_AT..FLAGS_AT + 2].copy_from_slice(&ENCRYPTED.to_le_bytes());
                frame[SESSION_AT..TRANSFORM_LENGTH].copy_from_slice(&0x1122_u64.to_le_bytes());
            }
            for cipher in EncryptionCipher::ALL {
                let (client, _) = pair(cipher);
                prop_assert!(!client.open(&mut frame.clone()));
            }
        }

        #[test]
        fn damaged_frames_of_the_server_are_never_decrypted(
            length in 1usize..200,
            changes in vec((any::<prop::sample::Index>(), 1u8..), 1..4),
            cut in any::<prop::sample::Index>(),
        ) {
            for cipher in EncryptionCipher::ALL {
                let (client, mut server) = pair(cipher);
                let sent = sealed(&mut server, &vec![3; length]);
                let mut frame = sent.clone();
                for (place, mask) in &changes {
                    // `is_sealed` checks the bytes before the tag.
                    let at = TAG_AT + place.index(frame.len() - TAG_AT);
                    frame[at] ^= mask;
                }
                // Changes of one byte may undo each other.
                prop_assert_eq!(client.open(&mut frame.clone()), frame == sent);
                frame.truncate(cut.index(frame.len()));
                prop_assert!(!client.open(&mut frame));
            }
        }
    }

    #[test]
    fn no_nonce_is_used_twice() {
        let (mut client, _) = pair(EncryptionCipher::Aes128Gcm);
        let (first, second) = (sealed(&mut client, &[0; 8]), sealed(&mut client, &[0; 8]));
        assert_ne!(first[NONCE_AT..LENGTH_AT], second[NONCE_AT..LENGTH_AT]);
        assert_ne!(first[TRANSFORM_LENGTH..], second[TRANSFORM_LENGTH..]);
    }
}
