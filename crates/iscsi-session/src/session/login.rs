//! The login phase (RFC 7143 section 6), seen from the initiator: security stage (CHAP or none),
//! operational stage, full feature.
use hakaru_wire::iscsi::keys::{Agreed, AuthMethod, Key, Negotiation, Offer, Role};
use hakaru_wire::iscsi::text::{TextBuffer, parse_pairs};
use hakaru_wire::iscsi::{Isid, LoginRequest, LoginResponse, LoginStatus, Stage};

use super::authentication::Proving;
use super::config::{Purpose, SessionConfig};
use super::link::Link;
use super::task::LOGIN;
use crate::error::SessionError;

/// Longest data segment during login (RFC 7143 section 13.12: the default of
/// MaxRecvDataSegmentLength), bytes.
pub(super) const LOGIN_SEGMENT_MAX: u32 = 8192;
/// Login Responses that one login may take. Two are usual.
const RESPONSES_MAX: u32 = 32;

/// Result of a Login Response.
#[derive(Debug)]
pub(super) enum Progress {
    /// Another request was queued.
    Underway,
    /// The login is over, with these keys.
    LoggedIn(Agreed),
}

/// A login in progress.
#[derive(Debug)]
pub(super) struct Login {
    negotiation: Negotiation,
    proving: Option<Proving>,
    stage: Stage,
    /// Text of the next request.
    outgoing: Vec<u8>,
    incoming: TextBuffer,
    responses: u32,
}

impl Login {
    pub(super) fn new(config: &SessionConfig) -> Login {
        let mut negotiation = Negotiation::new(Role::Initiator, offer(config));
        let mut outgoing = Vec::new();
        let target_name = match &config.purpose {
            Purpose::Discovery => None,
            Purpose::Normal { target_name } => Some(target_name.as_str()),
        };
        negotiation.declare_session(&config.initiator_name, target_name, &mut outgoing);
        negotiation.offer_security(&mut outgoing);
        let stage = Stage::SecurityNegotiation;
        Login {
            negotiation,
            proving: config.chap.clone().map(Proving::new),
            stage,
            outgoing,
            incoming: TextBuffer::default(),
            responses: 0,
        }
    }

    /// The first request may ask for the next stage: nothing is to be proved.
    pub(super) fn may_transit(&self) -> bool {
        self.proving.is_none()
    }

    /// The stage that a request asks to go to.
    fn next_stage(&self) -> Stage {
        match self.stage {
            Stage::SecurityNegotiation => Stage::OperationalNegotiation,
            _ => Stage::FullFeaturePhase,
        }
    }

    /// Queues the next Login Request; with `transit` it asks for the next stage.
    pub(super) fn send(&mut self, transit: bool, isid: Isid, link: &mut Link) {
        let text = std::mem::take(&mut self.outgoing);
        let header = LoginRequest {
            more: false,
            current_stage: self.stage,
            next_stage: transit.then(|| self.next_stage()),
            version_max: 0,
            version_min: 0,
            isid,
            tsih: 0,
            itt: LOGIN,
            cid: 0,
            cmd_sn: link.cmd_sn(),
            exp_stat_sn: link.exp_stat_sn(),
            data_segment_length: text.len() as u32,
        };
        link.push_control(|out| header.emit(out), &text);
    }

    /// Takes a successful response and queues the next request, if one follows.
    pub(super) fn handle_response(
        &mut self,
        pdu: &LoginResponse,
        text: &[u8],
        isid: Isid,
        link: &mut Link,
    ) -> Result<Progress, SessionError> {
        if pdu.status != LoginStatus::SUCCESS || pdu.version_active != 0 || pdu.itt != LOGIN {
            return Err(SessionError::Protocol(
                "Login Response with a wrong status, version or tag",
            ));
        }
        if self.responses == 0 {
            link.begin_numbers(&pdu.numbers);
        }
        let next = self.take(pdu, text)?;
        link.take_stat_sn(pdu.numbers.stat_sn)?;
        link.take_window(&pdu.numbers);
        match next {
            Some(transit) => {
                self.send(transit, isid, link);
                Ok(Progress::Underway)
            }
            None if pdu.tsih == 0 => Err(SessionError::Protocol("Login Response without TSIH")),
            None => Ok(Progress::LoggedIn(*self.negotiation.agreed())),
        }
    }

    /// Takes a response. `Some`: continue with another request, `true` to ask for the next stage;
    /// `None`: logged in.
    fn take(&mut self, pdu: &LoginResponse, text: &[u8]) -> Result<Option<bool>, SessionError> {
        self.responses += 1;
        if self.responses > RESPONSES_MAX {
            return Err(SessionError::Protocol("login without end"));
        }
        if pdu.current_stage != self.stage
            || pdu.next_stage.is_some_and(|next| next != self.next_stage())
        {
            return Err(SessionError::Protocol("Login Response of another stage"));
        }
        let negotiation_error =
            |e: &dyn std::fmt::Display| SessionError::Negotiation(e.to_string());
        self.incoming
            .begin_pdu()
            .and_then(|()| self.incoming.extend(text))
            .map_err(|e| negotiation_error(&e))?;
        if pdu.more {
            // The rest of the list comes after an empty request without T (RFC 7143 section 6.2).
            return Ok(Some(false));
        }
        let text = self.incoming.take();
        self.negotiation
            .receive(self.stage, &text, &mut self.outgoing)
            .map_err(|e| negotiation_error(&e))?;
        let transit = self.prove(pdu.next_stage.is_some())?;
        match pdu.next_stage {
            None => Ok(Some(transit)),
            Some(Stage::FullFeaturePhase) => {
                self.negotiation.conclude();
                Ok(None)
            }
            Some(stage) => {
                self.stage = stage;
                self.outgoing.clear();
                self.negotiation.offer_operational(&mut self.outgoing);
                Ok(Some(true))
            }
        }
    }

    /// Continues CHAP, if the login uses it. `leaves`: the target permits the next stage.
    fn prove(&mut self, leaves: bool) -> Result<bool, SessionError> {
        let Some(proving) = &mut self.proving else {
            return Ok(true);
        };
        if self.stage != Stage::SecurityNegotiation {
            return Ok(true);
        }
        let keys = self.negotiation.take_authentication();
        let method = self.negotiation.agreed().auth_method;
        let last = proving.take(method, &keys, &mut self.outgoing)?;
        if leaves && !proving.is_done() {
            return Err(SessionError::Authentication(
                "the target passes over what it was to ask and to prove",
            ));
        }
        Ok(last)
    }
}

/// Returns the keys to offer.
fn offer(config: &SessionConfig) -> Offer {
    Offer {
        auth_methods: match config.chap {
            Some(_) => &[AuthMethod::Chap],
            None => &[AuthMethod::None],
        },
        ..config.keys.offer()
    }
}

/// Returns the address of a redirect: the part of TargetAddress before the portal group (RFC 7143
/// section 13.8).
pub(super) fn redirect_address(text: &[u8]) -> Option<String> {
    parse_pairs(text)
        .map_while(Result::ok)
        .find(|(key, _)| *key == Key::TargetAddress.name())
        .and_then(|(_, address)| address.split(',').next())
        .map(str::to_owned)
}
