//! Signatures of messages (MS-SMB2 section 3.1.4.1) and the derivation of their keys (section
//! 3.1.4.2).
use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit as _};
use cmac::Cmac;
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256, Sha512};
use subtle::ConstantTimeEq;

use crate::wire::{Dialect, SIGNATURE_AT, SigningAlgorithm};

/// Hash over all messages of a login with dialect 3.1.1 (MS-SMB2 section 3.2.5.2).
#[derive(Clone, Debug)]
pub(crate) struct PreauthHash([u8; 64]);

impl PreauthHash {
    pub(crate) fn new() -> PreauthHash {
        PreauthHash([0; 64])
    }

    pub(crate) fn update(&mut self, message: &[u8]) {
        let hash = Sha512::new().chain_update(self.0).chain_update(message);
        self.0.copy_from_slice(&hash.finalize());
    }
}

/// Derives a key in counter mode with HMAC-SHA256 (NIST SP 800-108). `label` and `context` include
/// their terminating zeros.
fn derive(key: &[u8; 16], label: &[u8], context: &[u8]) -> [u8; 16] {
    let mut mac = keyed_hmac(key);
    mac.update(&1u32.to_be_bytes());
    mac.update(label);
    mac.update(&[0]);
    mac.update(context);
    mac.update(&128u32.to_be_bytes());
    first_16(&mac.finalize().into_bytes())
}

fn keyed_hmac(key: &[u8; 16]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

fn first_16(bytes: &[u8]) -> [u8; 16] {
    let mut first = [0; 16];
    first.copy_from_slice(&bytes[..16]);
    first
}

/// Signs messages of one session, and checks the signatures of the server.
#[derive(Clone)]
pub(crate) struct Signer {
    algorithm: SigningAlgorithm,
    key: Key,
}

#[derive(Clone)]
enum Key {
    Hmac(Box<Hmac<Sha256>>),
    Cmac(Box<Cmac<Aes128>>),
    Gmac(Box<Gmac>),
}

/// Cipher and hash key of GMAC: AES-GCM without a plaintext (NIST SP 800-38D). `aes-gcm` takes the
/// whole message as one slice, which would copy the data of each WRITE.
#[derive(Clone)]
struct Gmac {
    cipher: Aes128,
    hash: GHash,
}

impl Signer {
    /// Derives the signing key of a session from its session key. `algorithm` is the one chosen by
    /// the server of dialect 3.1.1; `preauth` is the hash up to the last request of the login.
    pub(crate) fn new(
        dialect: Dialect,
        algorithm: Option<SigningAlgorithm>,
        session_key: &[u8; 16],
        preauth: &PreauthHash,
    ) -> Signer {
        let (algorithm, key) = match dialect {
            Dialect::Smb21 => (SigningAlgorithm::HmacSha256, *session_key),
            Dialect::Smb30 | Dialect::Smb302 => (
                SigningAlgorithm::AesCmac,
                derive(session_key, b"SMB2AESCMAC\0", b"SmbSign\0"),
            ),
            Dialect::Smb311 => (
                algorithm.unwrap_or(SigningAlgorithm::AesCmac),
                derive(session_key, b"SMBSigningKey\0", &preauth.0),
            ),
        };
        Signer::with_key(algorithm, &key)
    }

    fn with_key(algorithm: SigningAlgorithm, key: &[u8; 16]) -> Signer {
        let key = match algorithm {
            SigningAlgorithm::HmacSha256 => Key::Hmac(Box::new(keyed_hmac(key))),
            SigningAlgorithm::AesCmac => Key::Cmac(Box::new(Cmac::new(key.into()))),
            SigningAlgorithm::AesGmac => {
                let cipher = Aes128::new(key.into());
                let mut hash_key = [0; 16].into();
                cipher.encrypt_block(&mut hash_key);
                let hash = GHash::new(&hash_key);
                Key::Gmac(Box::new(Gmac { cipher, hash }))
            }
        };
        Signer { algorithm, key }
    }

    pub(crate) fn algorithm(&self) -> SigningAlgorithm {
        self.algorithm
    }

    /// Computes the signature of a request. `head` begins with its header, whose signature field
    /// counts as zeros; the other parts follow it.
    pub(crate) fn sign_request(&self, message_id: u64, head: &[u8], rest: &[&[u8]]) -> [u8; 16] {
        self.compute(message_id, 0, head, rest)
    }

    /// Returns whether a response has the right signature.
    pub(crate) fn verify_response(
        &self,
        message_id: u64,
        signature: &[u8; 16],
        message: &[u8],
    ) -> bool {
        let computed = self.compute(message_id, 1, message, &[]);
        computed.ct_eq(signature).into()
    }

    fn compute(&self, message_id: u64, from_server: u32, head: &[u8], rest: &[&[u8]]) -> [u8; 16] {
        let (begin, end) = head.split_at(SIGNATURE_AT);
        let parts = [begin, &[0; 16], &end[16..]];
        let parts = parts.iter().chain(rest).copied();
        match &self.key {
            Key::Hmac(keyed) => authenticate(Hmac::clone(keyed), parts),
            Key::Cmac(keyed) => authenticate(Cmac::clone(keyed), parts),
            Key::Gmac(gmac) => {
                let mut nonce = [0; 12];
                nonce[..8].copy_from_slice(&message_id.to_le_bytes());
                nonce[8..].copy_from_slice(&from_server.to_le_bytes());
                gmac.compute(nonce, parts)
            }
        }
    }
}

fn authenticate<'a>(mut mac: impl Mac, parts: impl Iterator<Item = &'a [u8]>) -> [u8; 16] {
    parts.for_each(|part| mac.update(part));
    first_16(&mac.finalize().into_bytes())
}

impl Gmac {
    fn compute<'a>(&self, nonce: [u8; 12], parts: impl Iterator<Item = &'a [u8]>) -> [u8; 16] {
        let mut hash = self.hash.clone();
        let (mut partial, mut filled, mut length) = ([0; 16], 0, 0u64);
        for mut part in parts {
            length += part.len() as u64;
            if filled > 0 {
                let (first, rest) = part.split_at(part.len().min(16 - filled));
                partial[filled..filled + first.len()].copy_from_slice(first);
                filled += first.len();
                part = rest;
                if filled < 16 {
                    continue;
                }
                hash.update(&[partial.into()]);
            }
            let (blocks, rest) = part.split_at(part.len() / 16 * 16);
            hash.update_padded(blocks);
            partial[..rest.len()].copy_from_slice(rest);
            filled = rest.len();
        }
        hash.update_padded(&partial[..filled]);
        let mut lengths = [0; 16];
        lengths[..8].copy_from_slice(&(length * 8).to_be_bytes());
        hash.update(&[lengths.into()]);
        let mut counter = [0; 16];
        counter[..12].copy_from_slice(&nonce);
        counter[15] = 1;
        let mut mask = counter.into();
        self.cipher.encrypt_block(&mut mask);
        let mut tag = first_16(&hash.finalize());
        tag.iter_mut()
            .zip(mask)
            .for_each(|(byte, mask)| *byte ^= mask);
        tag
    }
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Signer").field(&self.algorithm).finish()
    }
}
