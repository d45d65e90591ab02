//! Login phase (RFC 7143 sections 6.2, 6.3, 11.12, 11.13): who the initiator is, what is agreed, and the way into full feature phase.
//!
//! What proves who the initiator is, is in `authentication`; what that one may then do, in `access`. Neither session nor name of a target is confirmed to
//! an initiator that the access list does not let in.

use hakaru_scsi_device::{Nexus, Rights};
use hakaru_units::Time;
use hakaru_wire::iscsi::keys::{
    AuthMethod, Digest, Key, Negotiation, NegotiationError, Offer, Role, SessionType,
};
use hakaru_wire::iscsi::text::{TextBuffer, parse_pairs};
use hakaru_wire::iscsi::{Bhs, Isid, LoginRequest, LoginResponse, LoginStatus, Stage};
use hakaru_wire::scsi::Sense;

use crate::authentication::Authentication;
use crate::config::TargetConfig;
use crate::connection::{Digests, LOGIN_DATA_SEGMENT_BYTES, Phase, ReceiveSettings};
use crate::id::ConnectionId;
use crate::login_budget::Origin;
use crate::management::Then;
use crate::refusal::{LoginRefusal, reason_of};
use crate::session::{Session, SessionName};
use crate::target::Target;

/// RFC 7143's protocol version.
const VERSION: u8 = 0;

/// A login under way.
#[derive(Debug, Default)]
pub(crate) struct Login {
    negotiation: Option<Negotiation>,
    /// The first request: later ones must agree with it.
    first: LoginRequest,
    stage: Stage,
    authentication: Authentication,
    /// What it may see, once that is known.
    rights: Option<Rights>,
    /// Names were checked.
    identified: bool,
    text: TextBuffer,
    /// Bytes of `text` and `reply`, as [`crate::login_budget`] counts them.
    pub(crate) held_bytes: usize,
    /// Answer that was not sent yet, when it does not fit one PDU.
    reply: Vec<u8>,
    /// The final request, while an older session of the same name is being ended.
    pub(crate) held: Option<LoginRequest>,
}

/// Returns the target's part in the negotiation.
fn offer(config: &TargetConfig) -> Offer {
    let keys = &config.limits.keys;
    let digests = |taken: bool| -> &'static [Digest] {
        if taken {
            &[Digest::Crc32c, Digest::None]
        } else {
            &[Digest::None]
        }
    };
    Offer {
        auth_methods: config.access.methods(),
        header_digests: digests(keys.header_digest),
        data_digests: digests(keys.data_digest),
        initial_r2t: keys.initial_r2t,
        immediate_data: keys.immediate_data,
        max_recv_data_segment_length: keys.max_recv_data_segment_length,
        max_burst_length: keys.max_burst_length,
        first_burst_length: keys.first_burst_length,
        // At error recovery level 0 nothing is kept that a reconnecting initiator would have to wait for.
        default_time2wait: 0,
        default_time2retain: 0,
        max_outstanding_r2t: keys.max_outstanding_r2t,
        ..Offer::default()
    }
}

impl Target {
    /// A Login Request came whole.
    pub(crate) fn handle_login_request(
        &mut self,
        now: Time,
        connection: ConnectionId,
        bhs: &Bhs,
        text: &[u8],
    ) {
        let result = match LoginRequest::parse(bhs) {
            Ok(request) => self
                .log_in(now, connection, &request, text)
                .and_then(|()| self.hold_text(connection)),
            Err(_) => Err(LoginStatus::INITIATOR_ERROR),
        };
        if let Err(status) = result {
            self.refuse_login(now, connection, status);
        }
    }

    /// A PDU other than Login Request came before full feature phase. The first PDU of a connection gets no answer at all: who does not
    /// speak iSCSI learns nothing, and sends nothing through us.
    #[cold]
    pub(crate) fn refuse_before_login(&mut self, now: Time, connection: ConnectionId) {
        let begun = match self.connections.get(connection.0).map(|conn| &conn.phase) {
            Some(Phase::Login(login)) => login.negotiation.is_some(),
            _ => return,
        };
        if begun {
            self.refuse_login(now, connection, LoginStatus::INVALID_DURING_LOGIN);
        } else {
            self.counters.sessions.protocol_errors += 1;
            self.end(now, connection);
        }
    }

    /// Says why, and closes the connection (RFC 7143 section 11.13.5).
    pub(crate) fn refuse_login(
        &mut self,
        now: Time,
        connection: ConnectionId,
        status: LoginStatus,
    ) {
        self.counters.sessions.logins_refused += 1;
        if [
            LoginStatus::AUTHENTICATION_FAILURE,
            LoginStatus::AUTHORIZATION_FAILURE,
        ]
        .contains(&status)
        {
            self.counters.sessions.logins_denied += 1;
        }
        if let Some(conn) = self.connections.get_mut(connection.0)
            && let Phase::Login(login) = &conn.phase
        {
            let named = login
                .negotiation
                .as_ref()
                .and_then(|negotiation| negotiation.declared().initiator_name.clone());
            let (peer, reason) = (conn.peer, login.authentication.refusal());
            self.refusals.push(|| LoginRefusal {
                peer,
                initiator_name: named,
                status,
                reason: reason.unwrap_or_else(|| reason_of(status).to_owned()),
            });
            let response = LoginResponse {
                current_stage: login.stage,
                version_max: VERSION,
                version_active: VERSION,
                isid: login.first.isid,
                tsih: login.first.tsih,
                itt: login.first.itt,
                numbers: conn.status_numbers(),
                status,
                ..LoginResponse::default()
            };
            let mut header = [0; 48];
            response.emit(&mut header);
            conn.send(&header, &[]);
        }
        self.end(now, connection);
    }

    fn log_in(
        &mut self,
        now: Time,
        connection: ConnectionId,
        request: &LoginRequest,
        text: &[u8],
    ) -> Result<(), LoginStatus> {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return Ok(());
        };
        let Phase::Login(login) = &mut conn.phase else {
            return Ok(());
        };
        if login.negotiation.is_none() {
            login.negotiation = Some(Negotiation::new(Role::Target, offer(&self.config)));
            login.first = *request;
            login.stage = request.current_stage;
            conn.window.expected = request.cmd_sn;
            if request.version_min > VERSION {
                return Err(LoginStatus::UNSUPPORTED_VERSION);
            }
        }
        let Phase::Login(login) = &mut conn.phase else {
            return Ok(());
        };
        let first = &login.first;
        let same = (request.isid, request.tsih, request.itt, request.cid)
            == (first.isid, first.tsih, first.itt, first.cid);
        if !same || request.current_stage != login.stage || login.held.is_some() {
            return Err(LoginStatus::INITIATOR_ERROR);
        }
        let collected = login
            .text
            .begin_pdu()
            .and_then(|()| login.text.extend(text));
        collected.map_err(|_| LoginStatus::INITIATOR_ERROR)?;
        self.hold_text(connection)?;
        if request.more {
            // The rest of its keys is still to come: an empty answer asks for it (RFC 7143 section 6.2).
            self.answer_login(connection, request, &[], None, false);
            return Ok(());
        }
        let Some(Phase::Login(login)) = self
            .connections
            .get_mut(connection.0)
            .map(|conn| &mut conn.phase)
        else {
            return Ok(());
        };
        let text = login.text.take();
        let goes_on = !login.reply.is_empty() && text.is_empty();
        if !goes_on {
            self.take_keys(connection, &text)?;
            self.authenticate(connection)?;
        }
        self.authorize(connection, request)?;
        self.go_on_with_login(now, connection, request)
    }

    /// Counts the text that a login holds now.
    fn hold_text(&mut self, connection: ConnectionId) -> Result<(), LoginStatus> {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return Ok(());
        };
        let Phase::Login(login) = &mut conn.phase else {
            return Ok(());
        };
        let held_bytes = login.text.held_bytes() + login.reply.len();
        let origin = Origin::of(conn.peer.ip());
        if !self.logins.hold(origin, login.held_bytes, held_bytes) {
            return Err(LoginStatus::OUT_OF_RESOURCES);
        }
        login.held_bytes = held_bytes;
        Ok(())
    }

    /// Takes the keys of a whole text; the answers to them are left in `reply`.
    fn take_keys(&mut self, connection: ConnectionId, text: &[u8]) -> Result<(), LoginStatus> {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return Ok(());
        };
        let Phase::Login(login) = &mut conn.phase else {
            return Ok(());
        };
        let Some(negotiation) = &mut login.negotiation else {
            return Ok(());
        };
        let port = port_number(conn.portal);
        negotiation
            .receive(login.stage, text, &mut login.reply)
            .map_err(|error| match error {
                NegotiationError::Value(Key::SessionType) => {
                    LoginStatus::SESSION_TYPE_NOT_SUPPORTED
                }
                _ => LoginStatus::INITIATOR_ERROR,
            })?;
        if parse_pairs(&login.reply).any(|pair| pair == Ok(("AuthMethod", "Reject"))) {
            return Err(LoginStatus::AUTHENTICATION_FAILURE);
        }
        if login.identified {
            return Ok(());
        }
        login.identified = true;
        let parameters = negotiation.declared();
        if parameters.initiator_name.is_none() {
            return Err(LoginStatus::MISSING_PARAMETER);
        }
        if parameters.session_type == SessionType::Normal {
            if parameters.target_name.is_none() {
                return Err(LoginStatus::MISSING_PARAMETER);
            }
            negotiation.declare(
                Key::TargetPortalGroupTag,
                &port.to_string(),
                &mut login.reply,
            );
        }
        // MaxConnections is 1, so that no session takes a second connection.
        match login.first.tsih {
            0 => Ok(()),
            tsih if self.sessions.by_tsih.contains_key(&tsih) => {
                Err(LoginStatus::TOO_MANY_CONNECTIONS)
            }
            _ => Err(LoginStatus::SESSION_DOES_NOT_EXIST),
        }
    }

    /// Takes the CHAP keys that came, if CHAP was agreed on.
    fn authenticate(&mut self, connection: ConnectionId) -> Result<(), LoginStatus> {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return Ok(());
        };
        let Phase::Login(login) = &mut conn.phase else {
            return Ok(());
        };
        let Some(negotiation) = &mut login.negotiation else {
            return Ok(());
        };
        let agreed = negotiation.agreed().auth_method;
        if login.stage != Stage::SecurityNegotiation || agreed != Some(AuthMethod::Chap) {
            return Ok(());
        }
        let keys = negotiation.take_authentication();
        login.authentication.take(
            &keys,
            &self.config.access,
            &mut self.entropy.0,
            &mut login.reply,
        )
    }

    /// Before the security stage is left, or was passed by: whether this initiator may come in at all, and to this target.
    fn authorize(
        &mut self,
        connection: ConnectionId,
        request: &LoginRequest,
    ) -> Result<(), LoginStatus> {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return Ok(());
        };
        let peer = conn.peer.ip();
        let Phase::Login(login) = &mut conn.phase else {
            return Ok(());
        };
        let leaves = login.stage != Stage::SecurityNegotiation || request.next_stage.is_some();
        if login.rights.is_some() || login.authentication.is_open() || !leaves {
            return Ok(());
        }
        let Some(negotiation) = &login.negotiation else {
            return Ok(());
        };
        let parameters = negotiation.declared();
        let name = parameters.initiator_name.as_deref().unwrap_or_default();
        let user = login.authentication.user();
        login.rights = Some(self.config.access.authorize(name, peer, user)?);
        let target = parameters.target_name.as_deref();
        let normal = parameters.session_type == SessionType::Normal;
        if normal && target != Some(&self.config.target_name) {
            return Err(LoginStatus::NOT_FOUND);
        }
        Ok(())
    }

    /// Sends what is to be answered, as much as fits; with the last of it goes the consent to the next stage.
    fn go_on_with_login(
        &mut self,
        now: Time,
        connection: ConnectionId,
        request: &LoginRequest,
    ) -> Result<(), LoginStatus> {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return Ok(());
        };
        let Phase::Login(login) = &mut conn.phase else {
            return Ok(());
        };
        if login.reply.len() > LOGIN_DATA_SEGMENT_BYTES as usize {
            let rest = login.reply.split_off(LOGIN_DATA_SEGMENT_BYTES as usize);
            let part = core::mem::replace(&mut login.reply, rest);
            self.answer_login(connection, request, &part, None, true);
            return Ok(());
        }
        let next_stage = request
            .next_stage
            .filter(|_| !login.authentication.is_open());
        match next_stage {
            Some(Stage::FullFeaturePhase) => {
                login.held = Some(*request);
                self.begin_session(now, connection)
            }
            next => {
                let reply = core::mem::take(&mut login.reply);
                login.stage = next.unwrap_or(login.stage);
                self.answer_login(connection, request, &reply, next, false);
                Ok(())
            }
        }
    }

    fn answer_login(
        &mut self,
        connection: ConnectionId,
        request: &LoginRequest,
        text: &[u8],
        next_stage: Option<Stage>,
        more: bool,
    ) {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return;
        };
        let tsih = conn.session().map_or(request.tsih, |session| session.tsih);
        let response = LoginResponse {
            more,
            current_stage: request.current_stage,
            next_stage,
            version_max: VERSION,
            version_active: VERSION,
            isid: request.isid,
            tsih,
            itt: request.itt,
            numbers: conn.status_numbers(),
            status: LoginStatus::SUCCESS,
            data_segment_length: text.len() as u32,
        };
        let mut header = [0; 48];
        response.emit(&mut header);
        conn.send(&header, text);
    }

    /// The initiator wants to go to full feature phase, and `held` has its request. An older session of the same initiator port is ended
    /// first (session reinstatement, RFC 7143 section 6.3.5), and whatever any session of it has left with the storage: none of
    /// those writes may have its effect after the new session begins. Called again when that is done.
    pub(crate) fn begin_session(
        &mut self,
        now: Time,
        connection: ConnectionId,
    ) -> Result<(), LoginStatus> {
        if self.shutting_down {
            return Err(LoginStatus::SERVICE_UNAVAILABLE);
        }
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return Ok(());
        };
        let Phase::Login(login) = &mut conn.phase else {
            return Ok(());
        };
        let Some(negotiation) = &mut login.negotiation else {
            return Ok(());
        };
        negotiation.conclude();
        let name = name_of(negotiation, login.first.isid, conn.portal);
        let address = conn.peer.ip();
        if let Some(old) = self.sessions.by_name.get(&name).copied() {
            let before = self.connections.get(old.0).map(|conn| conn.peer.ip());
            self.counters.sessions.reinstatements += 1;
            self.counters.sessions.reinstatements_elsewhere += u64::from(before != Some(address));
            self.end(now, old);
            self.discard_transmit(old);
        }
        let left = self.remains.of(&name);
        if left.is_empty() {
            return self.complete_login(now, connection, name);
        }
        self.wait_for(left, Then::BeginSession { connection });
        Ok(())
    }

    /// Nothing of an older session is left: the new one begins.
    fn complete_login(
        &mut self,
        now: Time,
        connection: ConnectionId,
        name: SessionName,
    ) -> Result<(), LoginStatus> {
        if self.sessions.by_name.len() >= self.config.limits.sessions_max as usize {
            return Err(LoginStatus::OUT_OF_RESOURCES);
        }
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return Ok(());
        };
        let Phase::Login(login) = &mut conn.phase else {
            return Ok(());
        };
        let (Some(request), Some(negotiation)) = (login.held.take(), login.negotiation.take())
        else {
            return Ok(());
        };
        // Nobody gets here whom `authorize` has not let in.
        let rights = login.rights.ok_or(LoginStatus::AUTHORIZATION_FAILURE)?;
        let reply = core::mem::take(&mut login.reply);
        let agreed = negotiation.agreed();
        let digests = Digests {
            header: agreed.header_digest == Digest::Crc32c,
            data: agreed.data_digest == Digest::Crc32c,
        };
        let settings = ReceiveSettings {
            digests,
            data_segment_bytes_max: agreed.max_recv_data_segment_length,
        };
        let tsih = self.sessions.insert(name.clone(), connection);
        let mut session = Session::new(
            name.clone(),
            tsih,
            login.first.cid,
            *agreed,
            rights,
            negotiation,
        );
        if self.sessions.take_owed_attention(&name) {
            let power_on = Sense::POWER_ON;
            self.lus
                .numbers()
                .for_each(|lu| session.device.attend(lu, power_on));
        }
        self.logins
            .end(Origin::of(conn.peer.ip()), login.held_bytes);
        conn.phase = Phase::FullFeature(Box::new(session));
        conn.clocks.received = now;
        self.check_by(now + self.config.limits.keepalive_after);
        self.counters.sessions.logins += 1;
        self.answer_login(connection, &request, &reply, request.next_stage, false);
        // Digests hold from the PDU after this answer on, in both directions.
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return Ok(());
        };
        conn.digests = digests;
        match &mut conn.framer {
            Some(framer) => settings.apply(framer),
            None => conn.receive_settings = Some(settings),
        }
        self.announce(connection);
        Ok(())
    }
}

/// Portal group tag and relative target port identifier of a portal.
pub(crate) fn port_number(portal: usize) -> u16 {
    u16::try_from(portal + 1).expect("Target::new takes fewer portals")
}

fn name_of(negotiation: &Negotiation, isid: Isid, portal: usize) -> SessionName {
    let parameters = negotiation.declared();
    SessionName {
        nexus: Nexus {
            initiator_name: parameters.initiator_name.clone().unwrap_or_default(),
            isid,
            port: port_number(portal),
        },
        discovery: parameters.session_type == SessionType::Discovery,
    }
}
