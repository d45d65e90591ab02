//! Login phase (RFC 7143 sections 6.2, 6.3, 11.12, 11.13): identification, negotiation, and the
//! transition to full feature phase.
//!
//! `authentication` proves the identity of an initiator; `access` decides what that initiator may
//! do. An initiator that the access list refuses learns nothing about sessions or the target's
//! name.

pub(crate) mod access;
pub(crate) mod authentication;
pub(crate) mod begin;
pub(crate) mod budget;
pub(crate) mod refusal;
pub(crate) mod state;

use hakaru_wire::iscsi::keys::{AuthMethod, Key, NegotiationError, SessionType};
use hakaru_wire::iscsi::text::parse_pairs;
use hakaru_wire::iscsi::{Bhs, LoginRequest, LoginResponse, LoginStatus, Stage};

use self::budget::Origin;
use self::refusal::{LoginRefusal, reason_of};
use self::state::Login;
use crate::config::{LOGIN_DATA_SEGMENT_BYTES, port_number};
use crate::connection::link::Link;
use crate::shared::Core;
use crate::shared::outbox::Effect;

/// Protocol version of RFC 7143.
const VERSION: u8 = 0;

/// Serves a Login Request. On an error the login is refused with that status.
pub(crate) fn handle_request(
    link: &mut Link,
    login: &mut Option<Box<Login>>,
    core: &mut Core,
    bhs: &Bhs,
    text: &[u8],
) -> Result<(), LoginStatus> {
    let request = LoginRequest::parse(bhs).map_err(|_| LoginStatus::INITIATOR_ERROR)?;
    let is_first = login.is_none();
    let login = login.get_or_insert_with(|| Box::new(Login::new(&core.config, request)));
    if is_first {
        link.window.expected = request.cmd_sn;
        if request.version_min > VERSION {
            return Err(LoginStatus::UNSUPPORTED_VERSION);
        }
    }
    take_request(link, login, core, &request, text)?;
    if login.is_held() {
        // The text is counted if the login turns out to wait.
        return Ok(());
    }
    hold_text(link, login, core)
}

/// Collects the text of one request and, once the text is complete, answers it.
fn take_request(
    link: &mut Link,
    login: &mut Login,
    core: &mut Core,
    request: &LoginRequest,
    text: &[u8],
) -> Result<(), LoginStatus> {
    let first = &login.first;
    let same = (request.isid, request.tsih, request.itt, request.cid)
        == (first.isid, first.tsih, first.itt, first.cid);
    if !same || request.current_stage != login.stage || login.is_held() {
        return Err(LoginStatus::INITIATOR_ERROR);
    }
    let collected = login
        .text
        .begin_pdu()
        .and_then(|()| login.text.extend(text));
    collected.map_err(|_| LoginStatus::INITIATOR_ERROR)?;
    hold_text(link, login, core)?;
    if request.more {
        // An empty answer requests the remaining keys (RFC 7143 section 6.2).
        answer(link, request, request.tsih, &[], Answer::Plain);
        return Ok(());
    }
    let text = login.text.take();
    let continues = !login.reply.is_empty() && text.is_empty();
    if !continues {
        take_keys(link, login, core, &text)?;
        authenticate(login, core)?;
    }
    authorize(link, login, core, request)?;
    reply(link, login, core, request);
    Ok(())
}

/// Counts the text that a login holds now.
pub(crate) fn hold_text(
    link: &Link,
    login: &mut Login,
    core: &mut Core,
) -> Result<(), LoginStatus> {
    let held_bytes = login.text.held_bytes() + login.reply.len();
    let origin = Origin::of(link.peer.ip());
    if !core.logins.hold(origin, login.held_bytes, held_bytes) {
        return Err(LoginStatus::OUT_OF_RESOURCES);
    }
    login.held_bytes = held_bytes;
    Ok(())
}

/// Processes the keys of a complete text and appends the answers to `login.reply`.
fn take_keys(link: &Link, login: &mut Login, core: &Core, text: &[u8]) -> Result<(), LoginStatus> {
    let negotiation = &mut login.negotiation;
    negotiation
        .receive(login.stage, text, &mut login.reply)
        .map_err(|error| match error {
            NegotiationError::Value(Key::SessionType) => LoginStatus::SESSION_TYPE_NOT_SUPPORTED,
            _ => LoginStatus::INITIATOR_ERROR,
        })?;
    if parse_pairs(&login.reply).any(|pair| pair == Ok(("AuthMethod", "Reject"))) {
        return Err(LoginStatus::AUTHENTICATION_FAILURE);
    }
    if login.identified {
        return Ok(());
    }
    login.identified = true;
    let declared = negotiation.declared();
    if declared.initiator_name.is_none() {
        return Err(LoginStatus::MISSING_PARAMETER);
    }
    if declared.session_type == SessionType::Normal {
        if declared.target_name.is_none() {
            return Err(LoginStatus::MISSING_PARAMETER);
        }
        let tag = port_number(link.portal).to_string();
        negotiation.declare(Key::TargetPortalGroupTag, &tag, &mut login.reply);
    }
    // MaxConnections is 1: no session takes a second connection.
    match login.first.tsih {
        0 => Ok(()),
        tsih if core.sessions.by_tsih.contains_key(&tsih) => Err(LoginStatus::TOO_MANY_CONNECTIONS),
        _ => Err(LoginStatus::SESSION_DOES_NOT_EXIST),
    }
}

/// Processes the CHAP keys received, if CHAP was agreed on.
fn authenticate(login: &mut Login, core: &mut Core) -> Result<(), LoginStatus> {
    let agreed = login.negotiation.agreed().auth_method;
    if login.stage != Stage::SecurityNegotiation || agreed != Some(AuthMethod::Chap) {
        return Ok(());
    }
    let keys = login.negotiation.take_authentication();
    login.authentication.take(
        &keys,
        &core.config.access,
        &mut core.entropy.0,
        &mut login.reply,
    )
}

/// Checks, before the security stage is left or skipped, that this initiator may log in to this
/// target.
fn authorize(
    link: &Link,
    login: &mut Login,
    core: &Core,
    request: &LoginRequest,
) -> Result<(), LoginStatus> {
    let leaves = login.stage != Stage::SecurityNegotiation || request.next_stage.is_some();
    if login.rights.is_some() || login.authentication.is_open() || !leaves {
        return Ok(());
    }
    let declared = login.negotiation.declared();
    let name = declared.initiator_name.as_deref().unwrap_or_default();
    let user = login.authentication.user();
    let peer = link.peer.ip();
    login.rights = Some(core.config.access.authorize(name, peer, user)?);
    let target = declared.target_name.as_deref();
    let normal = declared.session_type == SessionType::Normal;
    if normal && target != Some(&core.config.target_name) {
        return Err(LoginStatus::NOT_FOUND);
    }
    Ok(())
}

/// Sends as much of the answer as fits; the last part carries the consent to the next stage.
fn reply(link: &mut Link, login: &mut Login, core: &mut Core, request: &LoginRequest) {
    let tsih = request.tsih;
    if login.reply.len() > LOGIN_DATA_SEGMENT_BYTES as usize {
        let rest = login.reply.split_off(LOGIN_DATA_SEGMENT_BYTES as usize);
        let part = core::mem::replace(&mut login.reply, rest);
        return answer(link, request, tsih, &part, Answer::More);
    }
    let next_stage = request
        .next_stage
        .filter(|_| !login.authentication.is_open());
    if next_stage == Some(Stage::FullFeaturePhase) {
        login.held = Some(*request);
        let connection = link.id;
        core.outbox
            .effects
            .push_back(Effect::BeginSession { connection });
        return;
    }
    let text = core::mem::take(&mut login.reply);
    login.stage = next_stage.unwrap_or(login.stage);
    answer(link, request, tsih, &text, Answer::Stage(next_stage));
}

/// Flags of an answer.
enum Answer {
    /// No flag.
    Plain,
    /// More of the text follows.
    More,
    /// The stage that begins.
    Stage(Option<Stage>),
}

fn answer(link: &mut Link, request: &LoginRequest, tsih: u16, text: &[u8], flags: Answer) {
    let response = LoginResponse {
        more: matches!(flags, Answer::More),
        current_stage: request.current_stage,
        next_stage: match flags {
            Answer::Stage(next) => next,
            _ => None,
        },
        version_max: VERSION,
        version_active: VERSION,
        isid: request.isid,
        tsih,
        itt: request.itt,
        numbers: link.status_numbers(),
        status: LoginStatus::SUCCESS,
        data_segment_length: text.len() as u32,
    };
    let mut header = [0; 48];
    response.emit(&mut header);
    link.send(&header, text);
}

/// Answers the final request, which begins full feature phase.
fn answer_final(link: &mut Link, request: &LoginRequest, tsih: u16, text: &[u8]) {
    answer(link, request, tsih, text, Answer::Stage(request.next_stage));
}

/// Refuses a PDU other than Login Request before full feature phase. The first PDU of a connection
/// gets no answer at all, so that a peer that does not speak iSCSI learns nothing and cannot make
/// the target send bytes of its choice.
pub(crate) fn refuse_other_pdu(link: &mut Link, login: Option<&Login>, core: &mut Core) {
    if login.is_some() {
        refuse(link, login, core, LoginStatus::INVALID_DURING_LOGIN);
    } else {
        core.counters.sessions.protocol_errors += 1;
    }
}

/// Answers a login with the status that refuses it (RFC 7143 section 11.13.5). The caller ends the
/// connection.
pub(crate) fn refuse(link: &mut Link, login: Option<&Login>, core: &mut Core, status: LoginStatus) {
    let denied = [
        LoginStatus::AUTHENTICATION_FAILURE,
        LoginStatus::AUTHORIZATION_FAILURE,
    ]
    .contains(&status);
    core.counters.sessions.logins_refused += 1;
    core.counters.sessions.logins_denied += u64::from(denied);
    core.refusals.push(|| LoginRefusal {
        peer: link.peer,
        initiator_name: login.and_then(|login| login.negotiation.declared().initiator_name.clone()),
        status,
        reason: login
            .and_then(|login| login.authentication.refusal())
            .unwrap_or_else(|| reason_of(status).to_owned()),
    });
    let first = login.map_or_else(LoginRequest::default, |login| login.first);
    let response = LoginResponse {
        current_stage: login.map_or_else(Stage::default, |login| login.stage),
        version_max: VERSION,
        version_active: VERSION,
        isid: first.isid,
        tsih: first.tsih,
        itt: first.itt,
        numbers: link.status_numbers(),
        status,
        ..LoginResponse::default()
    };
    let mut header = [0; 48];
    response.emit(&mut header);
    link.send(&header, &[]);
}
