//! A login in progress.

use hakaru_scsi_device::{Nexus, Rights};
use hakaru_wire::iscsi::keys::{Negotiation, Offer, Role, SessionType};
use hakaru_wire::iscsi::text::TextBuffer;
use hakaru_wire::iscsi::{LoginRequest, Stage};

use crate::config::{TargetConfig, port_number};
use crate::connection::session::SessionName;
use crate::login::authentication::Authentication;

/// A login in progress.
#[derive(Debug)]
pub(crate) struct Login {
    pub(super) negotiation: Negotiation,
    /// The first request. Later requests must agree with it.
    pub(super) first: LoginRequest,
    pub(super) stage: Stage,
    pub(super) authentication: Authentication,
    /// LUs that the initiator may see, once it is authorized.
    pub(super) rights: Option<Rights>,
    /// The names of initiator and target were checked.
    pub(super) identified: bool,
    pub(super) text: TextBuffer,
    /// Bytes of `text` and `reply`, as [`crate::login::budget`] counts them.
    pub(crate) held_bytes: usize,
    /// Part of the answer that does not fit the PDUs sent so far.
    pub(super) reply: Vec<u8>,
    /// The final request, while an older session of the same name is being ended.
    pub(super) held: Option<LoginRequest>,
}

impl Login {
    /// Begins a login with its first request.
    pub(super) fn new(config: &TargetConfig, first: LoginRequest) -> Self {
        let offer = Offer {
            auth_methods: config.access.methods(),
            // At error recovery level 0 an initiator that reconnects waits for nothing.
            default_time2wait: 0,
            ..config.limits.keys.offer()
        };
        Self {
            negotiation: Negotiation::new(Role::Target, offer),
            first,
            stage: first.current_stage,
            authentication: Authentication::default(),
            rights: None,
            identified: false,
            text: TextBuffer::default(),
            held_bytes: 0,
            reply: Vec::new(),
            held: None,
        }
    }

    /// Whether the login waits for the end of an older session.
    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Ends the negotiation.
    pub(crate) fn conclude(&mut self) {
        self.negotiation.conclude();
    }

    /// Returns the name of the session that is about to begin on a portal.
    pub(crate) fn session_name(&self, portal: usize) -> SessionName {
        let declared = self.negotiation.declared();
        SessionName {
            nexus: Nexus {
                initiator_name: declared.initiator_name.clone().unwrap_or_default(),
                isid: self.first.isid,
                port: port_number(portal),
            },
            discovery: declared.session_type == SessionType::Discovery,
        }
    }
}
