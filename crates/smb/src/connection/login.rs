//! Login: NEGOTIATE, two rounds of SESSION_SETUP, TREE_CONNECT.
use super::link::Link;
use crate::config::{Config, Credentials, Encryption, Entropy, Signing};
use crate::encryption::Sealer;
use crate::error::ConnectionError;
use crate::ntlm::{self, Challenge, Nonces, Password, Side};
use crate::signing::{PreauthHash, Signer};
use crate::spnego;
use crate::wire::{
    CAPABILITY_ENCRYPTION, CAPABILITY_LARGE_MTU, Command, Dialect, EncryptionCipher, FLAG_SIGNED,
    Header, NegotiateRequest, NegotiateResponse, SESSION_ANONYMOUS, SESSION_ENCRYPT, SESSION_GUEST,
    SHARE_ENCRYPT, SHARE_TYPE_DISK, SIGNING_ENABLED, SIGNING_REQUIRED, SessionSetupRequest,
    SessionSetupResponse, SigningAlgorithm, Status, TreeConnectRequest, TreeConnectResponse,
};

/// Limit of a request of a server without large requests, bytes.
const SMALL_MTU_BYTES: u32 = 64 << 10;

/// Facts about a session that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionFacts {
    /// Dialect in use.
    pub dialect: Dialect,
    /// Algorithm with which all messages are signed, if they are.
    pub signing: Option<SigningAlgorithm>,
    /// Cipher with which all frames are encrypted, if they are. They are not signed then.
    pub encryption: Option<EncryptionCipher>,
    /// Whether the session is a guest's or anonymous.
    pub guest: bool,
    /// Limit of a READ, bytes.
    pub read_bytes_max: u32,
    /// Limit of a WRITE, bytes.
    pub write_bytes_max: u32,
    /// Limit of a listing, bytes.
    pub list_bytes_max: u32,
    /// Access that the share allows at most.
    pub access_max: u32,
}

enum Stage {
    Negotiate,
    Challenge,
    Authenticate { session_key: [u8; 16] },
    Tree,
}

/// Step after a response.
pub(super) enum Step {
    Send(LoginRequest),
    Ready(SessionFacts),
}

/// A request of a login.
pub(super) struct LoginRequest {
    pub command: Command,
    pub body: Vec<u8>,
    /// Whether it is signed even if most messages are not.
    pub sign: bool,
}

/// State of a login.
pub(super) struct Login {
    config: Config,
    entropy: Entropy,
    stage: Stage,
    preauth: PreauthHash,
    server: Option<NegotiateResponse>,
    ntlm_negotiate: Vec<u8>,
    guest: bool,
}

impl Login {
    pub(super) fn new(config: Config, entropy: Entropy) -> Login {
        Login {
            config,
            entropy,
            stage: Stage::Negotiate,
            preauth: PreauthHash::new(),
            server: None,
            ntlm_negotiate: ntlm::negotiate(),
            guest: false,
        }
    }

    pub(super) fn begin(&self) -> LoginRequest {
        let encrypts =
            self.config.dialects.contains(&Dialect::Smb311) && !self.config.ciphers.is_empty();
        let request = NegotiateRequest {
            dialects: self.config.dialects.clone(),
            security_mode: self.security_mode(),
            capabilities: match encrypts {
                true => CAPABILITY_LARGE_MTU | CAPABILITY_ENCRYPTION,
                false => CAPABILITY_LARGE_MTU,
            },
            client_guid: self.entropy.client_guid,
            salt: self.entropy.salt,
            signing: self.config.signing_algorithms.clone(),
            ciphers: self.config.ciphers.clone(),
        };
        request_of(Command::Negotiate, |out| request.emit(out))
    }

    fn security_mode(&self) -> u16 {
        match self.config.signing {
            Signing::IfRequired => SIGNING_ENABLED,
            Signing::Required => SIGNING_ENABLED | SIGNING_REQUIRED,
        }
    }

    /// Adds a request to the preauthentication hash.
    pub(super) fn record_request(&mut self, message: &[u8]) {
        self.preauth.update(message);
    }

    /// Handles the response to the last request. Sets session, tree and keys of `link`.
    pub(super) fn handle_response(
        &mut self,
        header: &Header,
        message: &[u8],
        link: &mut Link,
    ) -> Result<Step, ConnectionError> {
        match self.stage {
            Stage::Negotiate => self.handle_negotiate(header, message),
            Stage::Challenge => self.handle_challenge(header, message, link),
            Stage::Authenticate { session_key } => {
                self.handle_authenticated(header, message, link, &session_key)
            }
            Stage::Tree => self.handle_tree(header, message, link),
        }
    }

    fn handle_negotiate(
        &mut self,
        header: &Header,
        message: &[u8],
    ) -> Result<Step, ConnectionError> {
        if header.status != Status::SUCCESS {
            return Err(ConnectionError::Dialects(header.status));
        }
        let server = NegotiateResponse::parse(message)?;
        if !self.config.dialects.contains(&server.dialect) {
            return Err(ConnectionError::NotOffered(server.dialect));
        }
        if let Some(algorithm) = server.signing
            && !self.config.signing_algorithms.contains(&algorithm)
        {
            return Err(ConnectionError::Protocol(
                "the server chose a signing algorithm that was not offered",
            ));
        }
        if let Some(cipher) = server.cipher
            && !self.config.ciphers.contains(&cipher)
        {
            return Err(ConnectionError::Protocol(
                "the server chose a cipher that was not offered",
            ));
        }
        let sizes = [
            server.read_bytes_max,
            server.write_bytes_max,
            server.transact_bytes_max,
        ];
        if sizes.iter().any(|&bytes| bytes < 4096) {
            return Err(ConnectionError::Protocol(
                "the server allows requests of less than 4 KiB only",
            ));
        }
        self.preauth.update(message);
        self.server = Some(server);
        self.stage = Stage::Challenge;
        Ok(self.session_setup(spnego::init(&self.ntlm_negotiate)))
    }

    fn handle_challenge(
        &mut self,
        header: &Header,
        message: &[u8],
        link: &mut Link,
    ) -> Result<Step, ConnectionError> {
        if header.status != Status::MORE_PROCESSING_REQUIRED {
            return Err(ConnectionError::LoginRefused(header.status));
        }
        link.session_id = header.session_id;
        self.preauth.update(message);
        let response = SessionSetupResponse::parse(message)?;
        let token = spnego::parse_response(&response.token)?.ntlm;
        let challenge = Challenge::parse(token)?;
        let user = match &self.config.credentials {
            Credentials::Password(user) => Some(user.clone()),
            Credentials::Guest => Some(Password {
                domain: String::new(),
                user: "guest".into(),
                password: String::new(),
            }),
            Credentials::Anonymous => None,
        };
        let (answer, session_key, mic) = match user {
            None => (ntlm::authenticate_anonymous(&challenge), [0; 16], None),
            Some(user) => {
                let nonces = Nonces {
                    client_challenge: self.entropy.client_challenge,
                    wall_clock: self.entropy.wall_clock,
                };
                let target = format!("cifs/{}", self.config.server);
                let challenge = (&challenge, token);
                let sent =
                    ntlm::authenticate(&user, &target, nonces, &self.ntlm_negotiate, challenge)?;
                let sign = || ntlm::sign(&sent.session_key, Side::Client, &spnego::mechanisms());
                let mic = sent.has_mic.then(sign);
                (sent.message, sent.session_key, mic)
            }
        };
        self.stage = Stage::Authenticate { session_key };
        Ok(self.session_setup(spnego::response(&answer, mic.as_ref().map(|mic| &mic[..]))))
    }

    fn session_setup(&self, token: Vec<u8>) -> Step {
        let request = SessionSetupRequest {
            security_mode: self.security_mode() as u8,
            token,
        };
        Step::Send(request_of(Command::SessionSetup, |out| request.emit(out)))
    }

    fn handle_authenticated(
        &mut self,
        header: &Header,
        message: &[u8],
        link: &mut Link,
        session_key: &[u8; 16],
    ) -> Result<Step, ConnectionError> {
        if header.status != Status::SUCCESS {
            return Err(ConnectionError::LoginRefused(header.status));
        }
        let SessionSetupResponse { flags, token } = SessionSetupResponse::parse(message)?;
        if !token.is_empty()
            && let Some(mic) = spnego::parse_response(&token)?.mic
            && mic != ntlm::sign(session_key, Side::Server, &spnego::mechanisms())
        {
            return Err(ConnectionError::Signature("of the mechanisms wrong"));
        }
        let seal = flags & SESSION_ENCRYPT != 0 || self.config.encryption == Encryption::Required;
        // Samba 4.17 does not set the flag of anonymous sessions.
        self.guest = flags & (SESSION_GUEST | SESSION_ANONYMOUS) != 0
            || self.config.credentials == Credentials::Anonymous;
        if self.guest && matches!(self.config.credentials, Credentials::Password(_)) {
            return Err(ConnectionError::GuestSession);
        }
        let server = self.server.as_ref().ok_or(OUT_OF_ORDER)?;
        if self.guest {
            if self.config.signing == Signing::Required {
                return Err(ConnectionError::GuestSigning);
            }
            if seal {
                return Err(ConnectionError::Encryption(
                    "is required, but sessions of guests have no key",
                ));
            }
        } else {
            let signer = Signer::new(server.dialect, server.signing, session_key, &self.preauth);
            // The client verifies this response in any case (MS-SMB2 section 3.2.5.3.1). Servers
            // of 2.1 sign it only if they sign everything.
            let signed = header.has(FLAG_SIGNED);
            if !signed && server.dialect == Dialect::Smb311 {
                return Err(ConnectionError::Signature("missing"));
            }
            if signed && !signer.verify_response(header.message_id, &header.signature, message) {
                return Err(ConnectionError::Signature("wrong"));
            }
            link.signer = Some(signer);
            link.sign_all = self.config.signing == Signing::Required
                || server.security_mode & SIGNING_REQUIRED != 0;
            link.sealer = server
                .cipher
                .map(|cipher| Sealer::new(cipher, link.session_id, session_key, &self.preauth));
            link.seal_all = seal;
            if seal && link.sealer.is_none() {
                return Err(NO_CIPHER);
            }
        }
        self.stage = Stage::Tree;
        let request = TreeConnectRequest {
            path: format!("\\\\{}\\{}", self.config.server, self.config.share),
        };
        let mut request = request_of(Command::TreeConnect, |out| request.emit(out));
        // Servers of 3.1.1 close the connection otherwise (MS-SMB2 section 3.3.5.7).
        request.sign = server.dialect == Dialect::Smb311;
        Ok(Step::Send(request))
    }

    fn handle_tree(
        &mut self,
        header: &Header,
        message: &[u8],
        link: &mut Link,
    ) -> Result<Step, ConnectionError> {
        if header.status != Status::SUCCESS {
            return Err(ConnectionError::ShareRefused(header.status));
        }
        let tree = TreeConnectResponse::parse(message)?;
        if tree.share_flags & SHARE_ENCRYPT != 0 {
            if link.sealer.is_none() {
                return Err(NO_CIPHER);
            }
            link.seal_all = true;
        }
        if tree.share_type != SHARE_TYPE_DISK {
            return Err(ConnectionError::NotADisk);
        }
        link.tree_id = (header.tree_or_async >> 32) as u32;
        let server = self.server.as_ref().ok_or(OUT_OF_ORDER)?;
        let own = match server.capabilities & CAPABILITY_LARGE_MTU {
            0 => self.config.io_bytes_max.min(SMALL_MTU_BYTES),
            _ => self.config.io_bytes_max,
        };
        let signer = link.signer.as_ref();
        let signer = signer.filter(|_| link.sign_all && !link.seal_all);
        let sealer = link.sealer.as_ref().filter(|_| link.seal_all);
        Ok(Step::Ready(SessionFacts {
            dialect: server.dialect,
            signing: signer.map(Signer::algorithm),
            encryption: sealer.map(Sealer::cipher),
            guest: self.guest,
            read_bytes_max: own.min(server.read_bytes_max),
            write_bytes_max: own.min(server.write_bytes_max),
            list_bytes_max: SMALL_MTU_BYTES.min(own).min(server.transact_bytes_max),
            access_max: tree.access_max,
        }))
    }
}

const NO_CIPHER: ConnectionError =
    ConnectionError::Encryption("is required, and client and server have no cipher in common");

/// Unreachable: the negotiated values are stored before the stages that need them.
const OUT_OF_ORDER: ConnectionError = ConnectionError::Protocol("a login is out of order");

fn request_of(command: Command, emit: impl FnOnce(&mut Vec<u8>)) -> LoginRequest {
    let mut body = Vec::new();
    emit(&mut body);
    LoginRequest {
        command,
        body,
        sign: false,
    }
}
