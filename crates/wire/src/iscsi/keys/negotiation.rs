//! The exchange of keys, as either side sees it (RFC 7143 section 6.2).
//!
//! A received key is the answer to an open offer of this side if there is one, else an offer or a
//! declaration of the peer. A reply has at most one line per key of the table and at most
//! [`UNKNOWN_KEYS_MAX`] lines for unknown keys: a peer cannot make it grow (CVE-2013-2850).
use super::value::{boolean_name, parse_boolean};
use super::{
    Agreed, AuthMethod, Declared, Key, KeySet, Kind, Offer, Rule, Sender, SessionType, Use,
    is_iscsi_name, parse_number,
};
use crate::iscsi::Stage;
use crate::iscsi::chap;
use crate::iscsi::text::{TextError, emit_pair, parse_pairs};

/// Maximum number of pairs in one text, more than twice the size of the table.
pub const PAIRS_MAX: usize = 128;
/// Maximum number of keys per login that are answered with NotUnderstood.
pub const UNKNOWN_KEYS_MAX: u32 = 16;
/// Longest simple value, bytes (section 6.1).
const SIMPLE_VALUE_LENGTH_MAX: usize = 255;

const REJECT: &str = "Reject";
const IRRELEVANT: &str = "Irrelevant";
const NOT_UNDERSTOOD: &str = "NotUnderstood";

/// Side of the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The initiator.
    Initiator,
    /// The target.
    Target,
}

/// Errors that end a negotiation. A target refuses the login (0200h), an initiator abandons it
/// (section 7.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NegotiationError {
    /// The text is malformed.
    #[error(transparent)]
    Text(#[from] TextError),
    /// More than [`PAIRS_MAX`] pairs, or more than [`UNKNOWN_KEYS_MAX`] keys that are not
    /// understood.
    #[error("too many keys")]
    TooManyKeys,
    /// A key was negotiated or declared again (section 6.3).
    #[error("{0:?} was sent twice")]
    Duplicate(Key),
    /// Only the other side may send the key.
    #[error("{0:?} was sent by the wrong side")]
    WrongSender(Key),
    /// Invalid value of a declaration, or of the answer to an offer of this side.
    #[error("{0:?} has an invalid value")]
    Value(Key),
    /// The peer answered an offer of this side with Reject.
    #[error("{0:?} was rejected")]
    Rejected(Key),
}

/// The keys of one session, from login to the end of the session.
#[derive(Clone, Debug)]
pub struct Negotiation {
    role: Role,
    own: Offer,
    agreed: Agreed,
    declared: Declared,
    /// Keys received from the peer, as offer or declaration.
    received: KeySet,
    /// Keys offered by this side and not yet answered.
    open: KeySet,
    /// Keys offered or declared by this side.
    sent: KeySet,
    unknown_keys: u32,
    send_targets: Option<String>,
    /// CHAP keys of the last text.
    authentication: Vec<(Key, String)>,
}

impl Negotiation {
    /// Creates the state before the first text. A `first_burst_length` above `max_burst_length` is
    /// reduced to `max_burst_length`.
    pub fn new(role: Role, mut own: Offer) -> Negotiation {
        own.first_burst_length = own.first_burst_length.min(own.max_burst_length);
        Negotiation {
            role,
            own,
            agreed: Agreed::default(),
            declared: Declared::default(),
            received: KeySet::default(),
            open: KeySet::default(),
            sent: KeySet::default(),
            unknown_keys: 0,
            send_targets: None,
            authentication: Vec::new(),
        }
    }

    /// Returns the values in effect so far. FirstBurstLength is never above MaxBurstLength.
    pub fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// Returns the names declared so far.
    pub fn declared(&self) -> &Declared {
        &self.declared
    }

    /// Returns the value of SendTargets in the last text: a target's name, `All`, or empty
    /// for the session's own target.
    pub fn take_send_targets(&mut self) -> Option<String> {
        self.send_targets.take()
    }

    /// Returns the CHAP keys of the last text, in order. Each appears at most once per login and
    /// has at most [`chap::VALUE_LENGTH_MAX`] bytes. A caller that agreed on CHAP must call this
    /// after every text.
    pub fn take_authentication(&mut self) -> Vec<(Key, String)> {
        std::mem::take(&mut self.authentication)
    }

    /// Declares names and session type, in the first text of an initiator. A `target_name` of
    /// `None` selects a discovery session.
    pub fn declare_session(
        &mut self,
        initiator_name: &str,
        target_name: Option<&str>,
        out: &mut Vec<u8>,
    ) {
        let kind = if target_name.is_some() {
            SessionType::Normal
        } else {
            SessionType::Discovery
        };
        self.declared.session_type = kind;
        self.declare(Key::InitiatorName, initiator_name, out);
        if let Some(target_name) = target_name {
            self.declare(Key::TargetName, target_name, out);
        }
        self.declare(Key::SessionType, kind.name(), out);
    }

    /// Declares a text key of this side: names, aliases, TargetAddress, TargetPortalGroupTag.
    ///
    /// # Panics
    /// Panics if `value` contains NUL.
    pub fn declare(&mut self, key: Key, value: &str, out: &mut Vec<u8>) {
        debug_assert!(
            matches!(key.rule().kind, Kind::Text | Kind::Number { .. }),
            "{key:?} is negotiated"
        );
        if let Some(field) = self.declared.text_mut(key) {
            *field = Some(value.to_owned());
        }
        self.sent.insert(key);
        emit_pair(out, key.name(), value);
    }

    /// Declares MaxRecvDataSegmentLength, once. For a target, [`Negotiation::receive`] does this in
    /// the operational stage.
    pub fn declare_max_recv_data_segment_length(&mut self, out: &mut Vec<u8>) {
        if !self.sent.contains(Key::MaxRecvDataSegmentLength) {
            self.agreed.max_recv_data_segment_length = self.own.max_recv_data_segment_length;
            let value = self.own.max_recv_data_segment_length.to_string();
            self.declare(Key::MaxRecvDataSegmentLength, &value, out);
        }
    }

    /// Offers AuthMethod, in the security stage of an initiator.
    pub fn offer_security(&mut self, out: &mut Vec<u8>) {
        self.offer(Key::AuthMethod, out);
    }

    /// Offers every operational key that applies to the session type, in the operational stage of
    /// an initiator. TaskReporting and iSCSIProtocolLevel keep their defaults, which are
    /// implemented here; targets of RFC 3720 do not support these keys.
    pub fn offer_operational(&mut self, out: &mut Vec<u8>) {
        self.declare_max_recv_data_segment_length(out);
        let discovery = self.declared.session_type == SessionType::Discovery;
        for &key in Key::ALL {
            let irrelevant = discovery && key.rule().normal_sessions_only;
            let keeps_default = matches!(
                key,
                Key::AuthMethod | Key::TaskReporting | Key::IscsiProtocolLevel
            );
            if !irrelevant && !keeps_default {
                self.offer(key, out);
            }
        }
    }

    /// Offers this side's preference for a negotiated key. Other keys are ignored.
    fn offer(&mut self, key: Key, out: &mut Vec<u8>) {
        let value = match key.rule().kind {
            Kind::List => self.own.words(key).join(","),
            Kind::And | Kind::Or => self
                .own
                .boolean(key)
                .map(boolean_name)
                .unwrap_or_default()
                .to_owned(),
            Kind::Minimum { .. } | Kind::Maximum { .. } => {
                self.own.number(key).unwrap_or_default().to_string()
            }
            _ => return,
        };
        self.open.insert(key);
        self.sent.insert(key);
        emit_pair(out, key.name(), &value);
    }

    /// Processes a complete text of the peer and appends the answers to `reply`, always at most 8
    /// KiB.
    ///
    /// The order of keys has no meaning in the RFC. FirstBurstLength depends on MaxBurstLength,
    /// InitialR2T and ImmediateData and is processed last. All keys depend on SessionType, which is
    /// processed first.
    ///
    /// # Errors
    /// See [`NegotiationError`]. Keys processed before the error keep their effect; `reply` must
    /// not be sent.
    pub fn receive(
        &mut self,
        stage: Stage,
        text: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<(), NegotiationError> {
        let mut pairs = Vec::new();
        for pair in parse_pairs(text) {
            let (name, value) = pair?;
            if pairs.len() == PAIRS_MAX {
                return Err(NegotiationError::TooManyKeys);
            }
            pairs.push((Key::from_name(name), name, value));
        }
        pairs.sort_by_key(|(key, ..)| match key {
            Some(Key::SessionType) => 0,
            Some(Key::FirstBurstLength) => 2,
            _ => 1,
        });
        for (key, name, value) in pairs {
            match key {
                Some(key) => self.receive_known(stage, key, value, reply)?,
                None => self.receive_unknown(name, value, reply)?,
            }
        }
        if self.role == Role::Target && stage == Stage::OperationalNegotiation {
            self.declare_max_recv_data_segment_length(reply);
        }
        Ok(())
    }

    /// Ends the login. Offers without an answer keep their default, except booleans that the offer
    /// alone decides: these may stay unanswered (section 6.2.2).
    pub fn conclude(&mut self) {
        for key in self.open.iter() {
            let own = self.own.boolean(key);
            match key.rule().kind {
                Kind::And if own == Some(false) => self.agreed.set_boolean(key, false),
                Kind::Or if own == Some(true) => self.agreed.set_boolean(key, true),
                _ => {}
            }
        }
        self.open = KeySet::default();
    }

    /// Answers an unknown key with NotUnderstood, unless its value is such an answer itself.
    /// Otherwise two sides without the key would exchange it endlessly.
    fn receive_unknown(
        &mut self,
        name: &str,
        value: &str,
        reply: &mut Vec<u8>,
    ) -> Result<(), NegotiationError> {
        if [NOT_UNDERSTOOD, REJECT, IRRELEVANT].contains(&value) {
            return Ok(());
        }
        self.unknown_keys += 1;
        if self.unknown_keys > UNKNOWN_KEYS_MAX {
            return Err(NegotiationError::TooManyKeys);
        }
        emit_pair(reply, name, NOT_UNDERSTOOD);
        Ok(())
    }

    fn receive_known(
        &mut self,
        stage: Stage,
        key: Key,
        value: &str,
        reply: &mut Vec<u8>,
    ) -> Result<(), NegotiationError> {
        let rule = key.rule();
        if self.open.contains(key) {
            self.open.remove(key);
            self.received.insert(key);
            return self.receive_answer(key, &rule, value);
        }
        let peer = if self.role == Role::Target {
            Sender::Initiator
        } else {
            Sender::Target
        };
        if rule.sender != Sender::Both && rule.sender != peer {
            return Err(NegotiationError::WrongSender(key));
        }
        if self.is_repeated(stage, key, &rule, value)? {
            return Ok(());
        }
        self.received.insert(key);
        match rule.kind {
            Kind::Text | Kind::Number { .. } => self.receive_declaration(key, &rule, value),
            Kind::Query if stage == Stage::FullFeaturePhase => {
                self.send_targets = Some(value.to_owned());
                Ok(())
            }
            Kind::Authentication if self.expects_authentication(stage, key) => {
                if value.len() > chap::VALUE_LENGTH_MAX {
                    return Err(NegotiationError::Value(key));
                }
                self.authentication.push((key, value.to_owned()));
                Ok(())
            }
            _ => {
                emit_pair(reply, key.name(), &self.answer(stage, key, &rule, value));
                Ok(())
            }
        }
    }

    /// Returns whether `key` belongs to the agreed method and to this stage.
    fn expects_authentication(&self, stage: Stage, key: Key) -> bool {
        stage == Stage::SecurityNegotiation
            && self.agreed.auth_method == Some(AuthMethod::Chap)
            && matches!(
                key,
                Key::ChapA | Key::ChapI | Key::ChapC | Key::ChapN | Key::ChapR
            )
    }

    /// Returns whether a declaration repeats its value. Such a repetition is accepted, because
    /// libiscsi declares its name both in the security and in the operational stage. Any other
    /// repetition during login is an error (section 6.3). In full feature phase, keys of use ALL
    /// may change.
    fn is_repeated(
        &self,
        stage: Stage,
        key: Key,
        rule: &Rule,
        value: &str,
    ) -> Result<bool, NegotiationError> {
        let may_change = stage == Stage::FullFeaturePhase
            && matches!(rule.usage, Use::Always | Use::FullFeature);
        if !self.received.contains(key) || may_change {
            return Ok(false);
        }
        let same = self.declared.text(key) == Some(value);
        if same {
            Ok(true)
        } else {
            Err(NegotiationError::Duplicate(key))
        }
    }

    fn receive_declaration(
        &mut self,
        key: Key,
        rule: &Rule,
        value: &str,
    ) -> Result<(), NegotiationError> {
        let wrong = NegotiationError::Value(key);
        if value.is_empty() || value.len() > SIMPLE_VALUE_LENGTH_MAX {
            return Err(wrong);
        }
        if let Kind::Number { min, max } = rule.kind {
            let number = number_in(value, min, max).ok_or(wrong)?;
            match key {
                Key::MaxRecvDataSegmentLength => {
                    self.agreed.peer_max_recv_data_segment_length = number
                }
                _ => self.declared.target_portal_group_tag = u16::try_from(number).ok(),
            }
            return Ok(());
        }
        match key {
            Key::SessionType => {
                self.declared.session_type = SessionType::from_name(value).ok_or(wrong)?
            }
            Key::InitiatorName | Key::TargetName if !is_iscsi_name(value) => return Err(wrong),
            _ => {
                if let Some(text) = self.declared.text_mut(key) {
                    *text = Some(value.to_owned());
                }
            }
        }
        Ok(())
    }

    /// Answers an offer and records the result.
    fn answer(&mut self, stage: Stage, key: Key, rule: &Rule, value: &str) -> String {
        if stage == Stage::FullFeaturePhase && matches!(rule.usage, Use::Login | Use::LeadingLogin)
        {
            return REJECT.to_owned();
        }
        if self.is_irrelevant(key, rule) {
            return IRRELEVANT.to_owned();
        }
        self.result(key, rule, value)
            .unwrap_or_else(|| REJECT.to_owned())
    }

    /// Returns whether the key is irrelevant ("Irrelevant when" of section 13). Offers that depend
    /// on keys of the same text are processed last, see `receive`.
    fn is_irrelevant(&self, key: Key, rule: &Rule) -> bool {
        let discovery = self.declared.session_type == SessionType::Discovery;
        let unsolicited = self.agreed.immediate_data || !self.agreed.initial_r2t;
        (discovery && rule.normal_sessions_only) || (key == Key::FirstBurstLength && !unsolicited)
    }

    /// Applies the result function of the key. Returns `None` if the offer is invalid or none of
    /// its values is acceptable.
    fn result(&mut self, key: Key, rule: &Rule, offer: &str) -> Option<String> {
        match rule.kind {
            Kind::Minimum { min, max } => {
                let mut number = number_in(offer, min, max)?.min(self.own.number(key)?);
                if key == Key::FirstBurstLength {
                    number = number.min(self.agreed.max_burst_length);
                }
                self.agreed.set_number(key, number);
                Some(number.to_string())
            }
            Kind::Maximum { min, max } => {
                let number = number_in(offer, min, max)?.max(self.own.number(key)?);
                self.agreed.set_number(key, number);
                Some(number.to_string())
            }
            Kind::And | Kind::Or => {
                let (offer, own) = (parse_boolean(offer)?, self.own.boolean(key)?);
                let result = if rule.kind == Kind::And {
                    offer && own
                } else {
                    offer || own
                };
                self.agreed.set_boolean(key, result);
                Some(boolean_name(result).to_owned())
            }
            Kind::List => {
                let own = self.own.words(key);
                let word = offer.split(',').find(|word| own.contains(word))?;
                self.agreed.set_word(key, word)?;
                Some(word.to_owned())
            }
            Kind::Text
            | Kind::Number { .. }
            | Kind::Query
            | Kind::Authentication
            | Kind::Obsolete => None,
        }
    }

    /// Processes the answer to an offer of this side, which must be a possible value of the result
    /// function. NotUnderstood and Irrelevant keep the default.
    fn receive_answer(
        &mut self,
        key: Key,
        rule: &Rule,
        answer: &str,
    ) -> Result<(), NegotiationError> {
        match answer {
            REJECT => return Err(NegotiationError::Rejected(key)),
            IRRELEVANT | NOT_UNDERSTOOD => return Ok(()),
            _ => {}
        }
        self.accept(key, rule, answer)
            .ok_or(NegotiationError::Value(key))
    }

    fn accept(&mut self, key: Key, rule: &Rule, answer: &str) -> Option<()> {
        match rule.kind {
            Kind::Minimum { min, max } => {
                let number = number_in(answer, min, max.min(self.own.number(key)?))?;
                self.agreed.set_number(key, number);
            }
            Kind::Maximum { min, max } => {
                let number = number_in(answer, min.max(self.own.number(key)?), max)?;
                self.agreed.set_number(key, number);
            }
            Kind::And | Kind::Or => {
                let (answer, own) = (parse_boolean(answer)?, self.own.boolean(key)?);
                let decided_by_offer = own == (rule.kind == Kind::Or);
                if decided_by_offer && answer != own {
                    return None;
                }
                self.agreed.set_boolean(key, answer);
            }
            Kind::List => {
                let word = self
                    .own
                    .words(key)
                    .into_iter()
                    .find(|word| *word == answer)?;
                self.agreed.set_word(key, word)?;
            }
            _ => return None,
        }
        Some(())
    }
}

fn number_in(text: &str, min: u32, max: u32) -> Option<u32> {
    let number = u32::try_from(parse_number(text)?).ok()?;
    (min..=max).contains(&number).then_some(number)
}
