//! NEGOTIATE (MS-SMB2 sections 2.2.3 and 2.2.4).
use super::fields::{Emit, Fields, WireError};
use super::header::HEADER_LENGTH;

/// Signing is supported.
pub const SIGNING_ENABLED: u16 = 1;
/// Signing is required.
pub const SIGNING_REQUIRED: u16 = 2;
/// Requests of more than 64 KiB are supported.
pub const CAPABILITY_LARGE_MTU: u32 = 0x4;
/// Encryption is supported. Samba chooses a cipher of 3.1.1 only for clients that set it.
pub const CAPABILITY_ENCRYPTION: u32 = 0x40;

/// Offset of the dialects of a request, bytes.
const DIALECTS_AT: usize = HEADER_LENGTH + 36;
/// Offset of the security buffer of a response, bytes.
const TOKEN_AT: usize = HEADER_LENGTH + 64;
const CONTEXT_PREAUTH: u16 = 1;
const CONTEXT_ENCRYPTION: u16 = 2;
const CONTEXT_SIGNING: u16 = 8;
const SHA512: u16 = 1;

/// A dialect that this crate implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum Dialect {
    /// SMB 2.1 (Windows 7).
    Smb21 = 0x0210,
    /// SMB 3.0 (Windows 8).
    Smb30 = 0x0300,
    /// SMB 3.0.2 (Windows 8.1).
    Smb302 = 0x0302,
    /// SMB 3.1.1 (Windows 10).
    Smb311 = 0x0311,
}

impl Dialect {
    /// All dialects, ascending.
    pub const ALL: [Dialect; 4] = [
        Dialect::Smb21,
        Dialect::Smb30,
        Dialect::Smb302,
        Dialect::Smb311,
    ];

    fn parse(code: u16) -> Result<Dialect, WireError> {
        let known = Dialect::ALL
            .into_iter()
            .find(|&dialect| dialect as u16 == code);
        known.ok_or(WireError::Invalid("unsupported dialect"))
    }
}

/// Algorithm of signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum SigningAlgorithm {
    /// HMAC-SHA256, of dialect 2.1.
    HmacSha256 = 0,
    /// AES-128-CMAC, the default of 3.x.
    AesCmac = 1,
    /// AES-128-GMAC, of 3.1.1 if both sides support it.
    AesGmac = 2,
}

impl SigningAlgorithm {
    fn parse(code: u16) -> Result<SigningAlgorithm, WireError> {
        match code {
            0 => Ok(SigningAlgorithm::HmacSha256),
            1 => Ok(SigningAlgorithm::AesCmac),
            2 => Ok(SigningAlgorithm::AesGmac),
            _ => Err(WireError::Invalid("unsupported signing algorithm")),
        }
    }
}

/// Cipher of encrypted frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum EncryptionCipher {
    /// AES-128-CCM.
    Aes128Ccm = 1,
    /// AES-128-GCM.
    Aes128Gcm = 2,
}

impl EncryptionCipher {
    /// All ciphers, the faster one first.
    pub const ALL: [EncryptionCipher; 2] =
        [EncryptionCipher::Aes128Gcm, EncryptionCipher::Aes128Ccm];

    fn find(code: u16) -> Option<EncryptionCipher> {
        EncryptionCipher::ALL
            .into_iter()
            .find(|&cipher| cipher as u16 == code)
    }
}

/// A NEGOTIATE request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NegotiateRequest {
    /// Dialects offered.
    pub dialects: Vec<Dialect>,
    /// [`SIGNING_ENABLED`], [`SIGNING_REQUIRED`].
    pub security_mode: u16,
    /// `CAPABILITY_*`.
    pub capabilities: u32,
    /// GUID of the client.
    pub client_guid: [u8; 16],
    /// Salt of the preauthentication hash. Sent with dialect 3.1.1 only.
    pub salt: [u8; 32],
    /// Signing algorithms offered, in order of preference. Sent with dialect 3.1.1 only.
    pub signing: Vec<SigningAlgorithm>,
    /// Ciphers offered, in order of preference. Sent with dialect 3.1.1 only.
    pub ciphers: Vec<EncryptionCipher>,
}

impl NegotiateRequest {
    /// Appends the body.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let contexts = self.dialects.contains(&Dialect::Smb311);
        let end = DIALECTS_AT + 2 * self.dialects.len();
        let (offset, count) = match contexts {
            true => (
                end.next_multiple_of(8) as u32,
                contexts_count(&self.ciphers, &self.signing),
            ),
            false => (0, 0),
        };
        let mut emit = Emit(out);
        emit.u16(36)
            .u16(self.dialects.len() as u16)
            .u16(self.security_mode)
            .u16(0)
            .u32(self.capabilities)
            .bytes(&self.client_guid)
            .u32(offset)
            .u16(count)
            .u16(0);
        for &dialect in &self.dialects {
            emit.u16(dialect as u16);
        }
        if contexts {
            emit.zeros(end.next_multiple_of(8) - end);
            emit_contexts(&mut emit, &self.salt, &self.ciphers, &self.signing);
        }
    }

    /// Parses a message with its header.
    ///
    /// # Errors
    /// A field is outside the message, or a dialect or a signing algorithm is unknown.
    pub fn parse(message: &[u8]) -> Result<NegotiateRequest, WireError> {
        let fields = Fields(message);
        fields.structure(36)?;
        let count = usize::from(fields.u16(66)?);
        let dialects = (0..count).map(|n| Dialect::parse(fields.u16(DIALECTS_AT + 2 * n)?));
        let mut request = NegotiateRequest {
            dialects: dialects.collect::<Result<_, _>>()?,
            security_mode: fields.u16(68)?,
            capabilities: fields.u32(72)?,
            client_guid: fields.array(76)?,
            salt: [0; 32],
            signing: Vec::new(),
            ciphers: Vec::new(),
        };
        if request.dialects.contains(&Dialect::Smb311) {
            visit_contexts(
                fields,
                fields.u32(92)? as usize,
                fields.u16(96)?,
                |kind, data| {
                    match kind {
                        CONTEXT_PREAUTH => request.salt = data.array(6)?,
                        CONTEXT_ENCRYPTION => {
                            let codes = parse_codes(data)?.into_iter();
                            request.ciphers = codes.filter_map(EncryptionCipher::find).collect();
                        }
                        CONTEXT_SIGNING => request.signing = parse_signing(data)?,
                        _ => {}
                    }
                    Ok(())
                },
            )?;
        }
        Ok(request)
    }
}

/// A NEGOTIATE response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NegotiateResponse {
    /// [`SIGNING_ENABLED`], [`SIGNING_REQUIRED`].
    pub security_mode: u16,
    /// Dialect chosen.
    pub dialect: Dialect,
    /// GUID of the server.
    pub server_guid: [u8; 16],
    /// `CAPABILITY_*`.
    pub capabilities: u32,
    /// Limit of the data of other requests, bytes.
    pub transact_bytes_max: u32,
    /// Limit of a READ, bytes.
    pub read_bytes_max: u32,
    /// Limit of a WRITE, bytes.
    pub write_bytes_max: u32,
    /// Signing algorithm chosen, if the server has chosen one (3.1.1).
    pub signing: Option<SigningAlgorithm>,
    /// Cipher chosen, if the server has chosen one (3.1.1).
    pub cipher: Option<EncryptionCipher>,
    /// SPNEGO token that lists the server's mechanisms.
    pub token: Vec<u8>,
}

impl NegotiateResponse {
    /// Appends the body. For servers in tests.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let end = TOKEN_AT + self.token.len();
        let contexts = self.dialect == Dialect::Smb311;
        let count = if contexts {
            contexts_count(self.cipher.as_slice(), self.signing.as_slice())
        } else {
            0
        };
        let mut emit = Emit(out);
        emit.u16(65)
            .u16(self.security_mode)
            .u16(self.dialect as u16)
            .u16(count)
            .bytes(&self.server_guid)
            .u32(self.capabilities)
            .u32(self.transact_bytes_max)
            .u32(self.read_bytes_max)
            .u32(self.write_bytes_max)
            .zeros(16)
            .u16(TOKEN_AT as u16)
            .u16(self.token.len() as u16)
            .u32(if contexts {
                end.next_multiple_of(8) as u32
            } else {
                0
            })
            .bytes(&self.token);
        if contexts {
            emit.zeros(end.next_multiple_of(8) - end);
            emit_contexts(
                &mut emit,
                &[0; 32],
                self.cipher.as_slice(),
                self.signing.as_slice(),
            );
        }
    }

    /// Parses a message with its header.
    ///
    /// # Errors
    /// A field is outside the message, or the server has chosen something unknown.
    pub fn parse(message: &[u8]) -> Result<NegotiateResponse, WireError> {
        let fields = Fields(message);
        fields.structure(65)?;
        let dialect = Dialect::parse(fields.u16(68)?)?;
        let (at, length) = (fields.u16(120)?, fields.u16(122)?);
        let mut response = NegotiateResponse {
            security_mode: fields.u16(66)?,
            dialect,
            server_guid: fields.array(72)?,
            capabilities: fields.u32(88)?,
            transact_bytes_max: fields.u32(92)?,
            read_bytes_max: fields.u32(96)?,
            write_bytes_max: fields.u32(100)?,
            signing: None,
            cipher: None,
            token: fields.buffer(at.into(), length.into())?.to_vec(),
        };
        if dialect == Dialect::Smb311 {
            let mut preauth = false;
            visit_contexts(
                fields,
                fields.u32(124)? as usize,
                fields.u16(70)?,
                |kind, data| {
                    match kind {
                        CONTEXT_PREAUTH => {
                            preauth = true;
                            if data.u16(0)? != 1 || data.u16(4)? != SHA512 {
                                return Err(WireError::Invalid(
                                    "unsupported preauthentication hash",
                                ));
                            }
                        }
                        CONTEXT_ENCRYPTION => match parse_codes(data)?[..] {
                            // The server has none of the ciphers offered.
                            [0] => {}
                            [code] => {
                                let cipher = EncryptionCipher::find(code);
                                let unknown = WireError::Invalid("unsupported cipher");
                                response.cipher = Some(cipher.ok_or(unknown)?);
                            }
                            _ => return Err(WireError::Invalid("not one cipher")),
                        },
                        CONTEXT_SIGNING => match parse_signing(data)?[..] {
                            [algorithm] => response.signing = Some(algorithm),
                            _ => return Err(WireError::Invalid("not one signing algorithm")),
                        },
                        _ => {}
                    }
                    Ok(())
                },
            )?;
            if !preauth {
                return Err(WireError::Invalid("no preauthentication context"));
            }
        }
        Ok(response)
    }
}

fn contexts_count(ciphers: &[EncryptionCipher], signing: &[SigningAlgorithm]) -> u16 {
    1 + u16::from(!ciphers.is_empty()) + u16::from(!signing.is_empty())
}

fn emit_contexts(
    emit: &mut Emit<'_>,
    salt: &[u8; 32],
    ciphers: &[EncryptionCipher],
    signing: &[SigningAlgorithm],
) {
    emit.u16(CONTEXT_PREAUTH).u16(38).u32(0);
    emit.u16(1).u16(32).u16(SHA512).bytes(salt);
    let ciphers: Vec<u16> = ciphers.iter().map(|&cipher| cipher as u16).collect();
    let signing: Vec<u16> = signing.iter().map(|&algorithm| algorithm as u16).collect();
    // Each context begins at a multiple of 8; the first one has 46 bytes.
    let mut end: usize = 46;
    for (kind, codes) in [(CONTEXT_ENCRYPTION, ciphers), (CONTEXT_SIGNING, signing)] {
        if codes.is_empty() {
            continue;
        }
        emit.zeros(end.next_multiple_of(8) - end);
        let length = 2 + 2 * codes.len();
        emit.u16(kind)
            .u16(length as u16)
            .u32(0)
            .u16(codes.len() as u16);
        for code in codes {
            emit.u16(code);
        }
        end = 8 + length;
    }
}

fn parse_codes(data: Fields<'_>) -> Result<Vec<u16>, WireError> {
    let count = usize::from(data.u16(0)?);
    (0..count).map(|n| data.u16(2 + 2 * n)).collect()
}

fn parse_signing(data: Fields<'_>) -> Result<Vec<SigningAlgorithm>, WireError> {
    let codes = parse_codes(data)?.into_iter();
    codes.map(SigningAlgorithm::parse).collect()
}

/// Calls `visit` with the type and the data of each negotiate context.
fn visit_contexts<'a>(
    fields: Fields<'a>,
    mut at: usize,
    count: u16,
    mut visit: impl FnMut(u16, Fields<'a>) -> Result<(), WireError>,
) -> Result<(), WireError> {
    for _ in 0..count {
        let length = usize::from(fields.u16(at.saturating_add(2))?);
        let data = fields.slice(at.saturating_add(8), length)?;
        visit(fields.u16(at)?, Fields(data))?;
        at = at.saturating_add(8 + length).next_multiple_of(8);
    }
    Ok(())
}
