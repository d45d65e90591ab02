//! The login phase of an initiator (RFC 7143 section 6): security stage (CHAP or none), operational
//! stage, then full feature phase.
use hakaru_wire::iscsi::keys::{Agreed, AuthMethod, Key, Negotiation, Offer, Role};
use hakaru_wire::iscsi::text::{TextBuffer, parse_pairs};
use hakaru_wire::iscsi::{Isid, LoginRequest, LoginResponse, LoginStatus, Stage};

use super::authentication::ChapExchange;
use super::config::{Purpose, SessionConfig};
use super::link::Link;
use super::task::LOGIN;
use crate::error::SessionError;

/// Longest data segment during login (RFC 7143 section 13.12: the default of
/// MaxRecvDataSegmentLength), bytes.
pub(super) const LOGIN_SEGMENT_MAX: u32 = 8192;
/// Maximum number of Login Responses of one login. Two are usual.
const RESPONSES_MAX: u32 = 32;

/// Result of a Login Response.
#[derive(Debug)]
pub(super) enum Progress {
    /// Another request was queued.
    Underway,
    /// The login is complete.
    LoggedIn {
        agreed: Agreed,
        /// TargetPortalGroupTag.
        portal_group: Option<u16>,
    },
}

/// A login in progress.
#[derive(Debug)]
pub(super) struct Login {
    negotiation: Negotiation,
    chap: Option<ChapExchange>,
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
            chap: config.chap.clone().map(ChapExchange::new),
            stage,
            outgoing,
            incoming: TextBuffer::default(),
            responses: 0,
        }
    }

    /// Returns whether the first request may ask for the next stage, which requires that CHAP is
    /// not used.
    pub(super) fn may_transit(&self) -> bool {
        self.chap.is_none()
    }

    /// Returns the stage that follows the current stage.
    fn next_stage(&self) -> Stage {
        match self.stage {
            Stage::SecurityNegotiation => Stage::OperationalNegotiation,
            _ => Stage::FullFeaturePhase,
        }
    }

    /// Queues the next Login Request, which asks for the next stage if `transit` is set.
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

    /// Handles a successful response and queues the next request, if any.
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
        let next = self.process(pdu, text)?;
        link.take_stat_sn(pdu.numbers.stat_sn)?;
        link.take_window(&pdu.numbers);
        match next {
            Some(transit) => {
                self.send(transit, isid, link);
                Ok(Progress::Underway)
            }
            None if pdu.tsih == 0 => Err(SessionError::Protocol("Login Response without TSIH")),
            None => Ok(Progress::LoggedIn {
                agreed: *self.negotiation.agreed(),
                portal_group: self.negotiation.declared().target_portal_group_tag,
            }),
        }
    }

    /// Processes a response. Returns `None` if the login is complete. `Some` means that another
    /// request follows, which asks for the next stage if the value is true.
    fn process(&mut self, pdu: &LoginResponse, text: &[u8]) -> Result<Option<bool>, SessionError> {
        self.responses += 1;
        if self.responses > RESPONSES_MAX {
            return Err(SessionError::Protocol("login exceeds 32 Login Responses"));
        }
        if pdu.current_stage != self.stage
            || pdu.next_stage.is_some_and(|next| next != self.next_stage())
        {
            return Err(SessionError::Protocol("Login Response for the wrong stage"));
        }
        let negotiation_error =
            |e: &dyn std::fmt::Display| SessionError::Negotiation(e.to_string());
        self.incoming
            .begin_pdu()
            .and_then(|()| self.incoming.extend(text))
            .map_err(|e| negotiation_error(&e))?;
        if pdu.more {
            // An empty request without T requests the rest of the list (RFC 7143 section 6.2).
            return Ok(Some(false));
        }
        let text = self.incoming.take();
        self.negotiation
            .receive(self.stage, &text, &mut self.outgoing)
            .map_err(|e| negotiation_error(&e))?;
        let transit = self.continue_chap(pdu.next_stage.is_some())?;
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

    /// Continues CHAP, if the login uses it. `target_transits` is whether the target agrees to the
    /// next stage. Returns whether the next request may ask for it.
    fn continue_chap(&mut self, target_transits: bool) -> Result<bool, SessionError> {
        let Some(chap) = &mut self.chap else {
            return Ok(true);
        };
        if self.stage != Stage::SecurityNegotiation {
            return Ok(true);
        }
        let keys = self.negotiation.take_authentication();
        let method = self.negotiation.agreed().auth_method;
        let last = chap.handle_keys(method, &keys, &mut self.outgoing)?;
        if target_transits && !chap.is_done() {
            return Err(SessionError::Authentication(
                "the target ended the security stage before CHAP was complete",
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
/// section 13.8). `None` if there is no such key or the address is empty.
pub(super) fn redirect_address(text: &[u8]) -> Option<String> {
    parse_pairs(text)
        .map_while(Result::ok)
        .find(|(key, _)| *key == Key::TargetAddress.name())
        .and_then(|(_, address)| address.split(',').next())
        .filter(|address| !address.is_empty())
        .map(str::to_owned)
}
