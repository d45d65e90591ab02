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

    /// Derives a key of dialect 3.1.1. `label` includes its terminating zero.
    pub(crate) fn derive(&self, session_key: &[u8; 16], label: &[u8]) -> [u8; 16] {
        derive(session_key, label, &self.0)
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
                preauth.derive(session_key, b"SMBSigningKey\0"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use aes_gcm::aead::AeadInOut;
    use proptest::prelude::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex
            .chars()
            .filter_map(|digit| digit.to_digit(16))
            .map(|digit| digit as u8)
            .collect();
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()
    }

    fn array<const N: usize>(hex: &str) -> [u8; N] {
        bytes(hex).try_into().unwrap()
    }

    /// The examples of "SMB 2 and SMB 3 security in Windows 10: the anatomy of signing and
    /// cryptographic keys" (Microsoft, 2017): keys, a hash and a signed message.
    const HASH_311: &str = "0DD13628CC3ED218EF9DF9772D436D0887AB9814BFAE63A80AA845F36909DB79
        28622DDDAD522D9751640A459762C5A9D6BB084CBB3CE6BDADEF5D5BCE3C6C01";
    const SESSION_KEY_311: &str = "270E1BA896585EEB7AF3472D3B4C75A7";
    const SIGNED_311: &str = "FE534D4240000100000000000100800009000000000000000300000000000000
        FFFE0000000000001900000000100000EBE146DA120BA25FC3376A49DFE31BC1
        0900000048001D00A11B3019A0030A0100A3120410010000003B453CDC3524164200000000";

    #[test]
    fn keys_match_the_examples_of_windows() {
        let key = derive(
            &array("7CD451825D0450D235424E44BA6E78CC"),
            b"SMB2AESCMAC\0",
            b"SmbSign\0",
        );
        assert_eq!(key, array("0B7E9C5CAC36C0F6EA9AB275298CEDCE"));
        let hash: [u8; 64] = array(HASH_311);
        let key = derive(&array(SESSION_KEY_311), b"SMBSigningKey\0", &hash);
        assert_eq!(key, array("73FE7A9A77BEF0BDE49C650D8CCB5F76"));
    }

    #[test]
    fn the_preauthentication_hash_matches_the_example_of_windows() {
        let mut hash = PreauthHash(array(
            "E267AB1AA0403082AA2A9FEB0224AF3EA92E53CAA50A893A9635F0659F93591F
             81391737E68DB0C9AD878C56449C36A6895EBCF435A7D97072C7B596B8AF3817",
        ));
        hash.update(&bytes(
            "FE534D4240000100000000000100800008000000000000000200000000000000
             FFFE000000000000190000000010000068BD0C58F613CE1334B1EB51C68D39EA
             19000101010000000000000058004A000000000000000000604806062B060105
             0502A03E303CA00E300C060A2B06010401823702020AA22A04284E544C4D5353
             500001000000978208E200000000000000000000000000000000060380250000
             000F",
        ));
        assert_eq!(
            hash.0.to_vec(),
            bytes(
                "8346469934A59E951A3F2DA7FA4C2C29F0F6B13A6B0951D4CD5279F8D40FD84F
                 F98157937613C6BE9514582E44344B1710DD5BFCE3BB023D28C6EA512E0ADEBD"
            )
        );
    }

    #[test]
    fn a_message_of_windows_is_verified_and_every_change_of_it_is_found() {
        let preauth = PreauthHash(array(HASH_311));
        let key = array(SESSION_KEY_311);
        let signer = Signer::new(Dialect::Smb311, None, &key, &preauth);
        let mut message = bytes(SIGNED_311);
        let signature = array("EBE146DA120BA25FC3376A49DFE31BC1");
        assert!(signer.verify_response(3, &signature, &message));
        for at in (0..SIGNATURE_AT).chain(64..message.len()) {
            message[at] ^= 1;
            assert!(
                !signer.verify_response(3, &signature, &message),
                "byte {at}"
            );
            message[at] ^= 1;
        }
    }

    #[test]
    fn cmac_matches_rfc_4493_in_pieces_of_any_size() {
        let key: [u8; 16] = array("2b7e151628aed2a6abf7158809cf4f3c");
        let message = bytes(
            "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51
             30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
        );
        for (length, tag) in [
            (0, "bb1d6929e95937287fa37d129b756746"),
            (16, "070a16b46b4d4144f79bdd9dd04a287c"),
            (40, "dfa66747de9ae63030ca32611497c827"),
            (64, "51f0bebf7e3b9d92fc49741779363cfe"),
        ] {
            for size in [1, 7, 16, 64] {
                let cmac = Cmac::<Aes128>::new((&key).into());
                let pieces = message[..length].chunks(size);
                assert_eq!(authenticate(cmac, pieces), array(tag), "{length}");
            }
        }
    }

    #[test]
    fn hmac_matches_rfc_4231() {
        let keyed = Hmac::<Sha256>::new_from_slice(b"Jefe").unwrap();
        let parts = [&b"what do ya want "[..], b"for nothing?"];
        let tag = authenticate(keyed, parts.into_iter());
        assert_eq!(tag, array("5bdcc146bf60754e6a042426089575c7"));
    }

    fn gmac(key: &[u8; 16]) -> Gmac {
        match Signer::with_key(SigningAlgorithm::AesGmac, key).key {
            Key::Gmac(gmac) => *gmac,
            _ => unreachable!(),
        }
    }

    #[test]
    fn gmac_matches_a_vector_of_nist() {
        let gmac = gmac(&array("77be63708971c4e240d1cb79e8d77feb"));
        let data = bytes("7a43ec1d9c0a5a78a0b16533a6213cab");
        let tag = gmac.compute(array("e0e00f19fed7ba0136a797f3"), [&data[..]].into_iter());
        assert_eq!(tag, array("209fcc8d3675ed938e9c7166709dd946"));
    }

    proptest! {
        #[test]
        fn garbage_is_never_verified(
            message in proptest::collection::vec(any::<u8>(), 64..300),
            message_id in any::<u64>(),
            signature in any::<[u8; 16]>(),
        ) {
            use SigningAlgorithm::{AesCmac, AesGmac, HmacSha256};
            for algorithm in [HmacSha256, AesCmac, AesGmac] {
                let signer = Signer::with_key(algorithm, &[7; 16]);
                prop_assert!(!signer.verify_response(message_id, &signature, &message));
            }
        }

        #[test]
        fn gmac_is_aes_gcm_without_a_plaintext(
            key in any::<[u8; 16]>(),
            nonce in any::<[u8; 12]>(),
            message in proptest::collection::vec(any::<u8>(), 0..300),
            cuts in proptest::collection::vec(0usize..70, 1..8),
        ) {
            let (mut parts, mut rest) = (Vec::new(), &message[..]);
            for cut in cuts {
                let (part, behind) = rest.split_at(cut.min(rest.len()));
                parts.push(part);
                rest = behind;
            }
            parts.push(rest);
            let tag = gmac(&key).compute(nonce, parts.into_iter());
            let cipher = aes_gcm::Aes128Gcm::new((&key).into());
            let expected = cipher
                .encrypt_inout_detached(&nonce.into(), &message, (&mut [][..]).into())
                .unwrap();
            prop_assert_eq!(&tag[..], &expected[..]);
        }
    }

    #[test]
    fn gmac_of_a_request_differs_from_that_of_a_response() {
        let signer = Signer::with_key(SigningAlgorithm::AesGmac, &[7; 16]);
        let message = [3; 100];
        let signature = signer.sign_request(5, &message, &[]);
        assert!(!signer.verify_response(5, &signature, &message));
        assert_ne!(signature, signer.sign_request(6, &message, &[]));
        assert_eq!(
            signature,
            signer.sign_request(5, &message[..70], &[&message[70..]])
        );
    }
}
