//! A server whose every response the test chooses. It exchanges bytes with one connection, and the
//! time is a variable. The fuzz target `smb_connection` uses it, too.
use std::collections::VecDeque;

use hakaru_smb::wire::{
    CAPABILITY_LARGE_MTU, Command, Dialect, FLAG_ASYNC, FLAG_RESPONSE, Header, NegotiateResponse,
    SESSION_GUEST, SHARE_TYPE_DISK, SIGNING_ENABLED, SessionSetupResponse, Status,
    TreeConnectResponse, emit_error, split_compound,
};
use hakaru_smb::{Config, Connection, Credentials, Entropy, Event};
use hakaru_units::Time;

pub const SESSION: u64 = 0x1234;
pub const TREE: u32 = 0x77;
pub const IO_BYTES_MAX: u32 = 8 << 20;

/// A request that was received, with its header.
#[derive(Clone, Debug)]
pub struct Request {
    pub header: Header,
    pub message: Vec<u8>,
}

pub struct Server {
    pub connection: Connection,
    pub now: Time,
    requests: VecDeque<Request>,
    /// Number of frames received.
    pub frames: usize,
}

/// Returns the configuration of a guest with SMB 2.1, without signatures.
pub fn config() -> Config {
    let mut config = Config::new("server", "share", Credentials::Guest);
    config.dialects = vec![Dialect::Smb21];
    config
}

pub fn entropy() -> Entropy {
    Entropy {
        client_guid: [1; 16],
        salt: [2; 32],
        client_challenge: [3; 8],
        wall_clock: 4,
    }
}

/// A CHALLENGE of NTLM without attributes, in a NegTokenResp.
pub fn challenge() -> Vec<u8> {
    let mut ntlm = b"NTLMSSP\0\x02\0\0\0".to_vec();
    ntlm.extend([0; 8]);
    ntlm.extend(0x0080_0001u32.to_le_bytes());
    ntlm.extend([9; 8]);
    ntlm.extend([0; 8]);
    // Target information: 4 bytes at 48.
    ntlm.extend([4, 0, 4, 0, 48, 0, 0, 0]);
    ntlm.extend([0; 4]);
    let length = ntlm.len() as u8;
    let mut token = vec![
        0xa1,
        length + 6,
        0x30,
        length + 4,
        0xa2,
        length + 2,
        0x04,
        length,
    ];
    token.extend(ntlm);
    token
}

pub fn negotiated() -> NegotiateResponse {
    NegotiateResponse {
        security_mode: SIGNING_ENABLED,
        dialect: Dialect::Smb21,
        server_guid: [5; 16],
        capabilities: CAPABILITY_LARGE_MTU,
        transact_bytes_max: IO_BYTES_MAX,
        read_bytes_max: IO_BYTES_MAX,
        write_bytes_max: IO_BYTES_MAX,
        signing: None,
        cipher: None,
        token: Vec::new(),
    }
}

impl Server {
    /// Accepts a connection, which begins its login.
    pub fn accept(config: Config) -> Server {
        let mut connection = Connection::new(config, entropy());
        connection.handle_connected(Time(0));
        Server {
            connection,
            now: Time(0),
            requests: VecDeque::new(),
            frames: 0,
        }
    }

    /// Accepts a connection and its login, and grants `credits` with the last response.
    pub fn logged_in(config: Config, credits: u16) -> Server {
        let mut server = Server::accept(config);
        server.log_in(&negotiated(), credits);
        server
    }

    pub fn log_in(&mut self, negotiated: &NegotiateResponse, credits: u16) {
        let request = self.take();
        assert_eq!(request.header.command, Command::Negotiate);
        self.respond(&request, Status::SUCCESS, 1, |out| negotiated.emit(out));
        let request = self.take();
        let first = SessionSetupResponse {
            flags: 0,
            token: challenge(),
        };
        let more = Status::MORE_PROCESSING_REQUIRED;
        self.respond(&request, more, 1, |out| first.emit(out));
        let request = self.take();
        let second = SessionSetupResponse {
            flags: SESSION_GUEST,
            token: Vec::new(),
        };
        self.respond(&request, Status::SUCCESS, 1, |out| second.emit(out));
        let request = self.take();
        assert_eq!(request.header.command, Command::TreeConnect);
        self.respond(&request, Status::SUCCESS, credits, |out| tree().emit(out));
        assert!(matches!(
            self.connection.poll_event(),
            Some(Event::Ready(_))
        ));
    }

    /// Returns the next request.
    pub fn take(&mut self) -> Request {
        self.try_take().expect("a request was sent")
    }

    pub fn try_take(&mut self) -> Option<Request> {
        let stream: Vec<u8> = self.connection.poll_transmit().flatten().copied().collect();
        self.connection.handle_sent(self.now, stream.len());
        let mut rest = &stream[..];
        while let Some((prefix, behind)) = rest.split_first_chunk::<4>() {
            let length = u32::from_be_bytes(*prefix) as usize;
            let (frame, behind) = behind.split_at(length);
            rest = behind;
            self.frames += 1;
            for message in split_compound(frame) {
                let (header, message) = message.expect("a valid request");
                let message = message.to_vec();
                self.requests.push_back(Request { header, message });
            }
        }
        self.requests.pop_front()
    }

    /// Sends the final response to a request.
    pub fn respond(
        &mut self,
        request: &Request,
        status: Status,
        credits: u16,
        emit: impl FnOnce(&mut Vec<u8>),
    ) {
        let message = response(&request.header, status, credits, emit);
        self.send(&message);
    }

    /// Refuses a request.
    pub fn refuse(&mut self, request: &Request, status: Status) {
        self.respond(request, status, 1, emit_error);
    }

    /// Announces that the response to a request follows later.
    pub fn postpone(&mut self, request: &Request, credits: u16) {
        let mut message = response(&request.header, Status::PENDING, credits, emit_error);
        message[16] |= FLAG_ASYNC as u8;
        self.send(&message);
    }

    /// Sends a frame.
    pub fn send(&mut self, frame: &[u8]) {
        let mut bytes = (frame.len() as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(frame);
        self.connection.handle_received(self.now, &bytes);
    }
}

pub fn tree() -> TreeConnectResponse {
    TreeConnectResponse {
        share_type: SHARE_TYPE_DISK,
        share_flags: 0,
        access_max: 0x1f_01ff,
    }
}

/// Returns a response with its header.
pub fn response(
    request: &Header,
    status: Status,
    credits: u16,
    emit: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let header = Header {
        status,
        credits,
        flags: FLAG_RESPONSE,
        next_command: 0,
        tree_or_async: u64::from(TREE) << 32,
        session_id: SESSION,
        signature: [0; 16],
        ..*request
    };
    let mut message = Vec::new();
    header.emit(&mut message);
    emit(&mut message);
    message
}
