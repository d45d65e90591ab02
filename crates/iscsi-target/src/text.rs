//! Text requests in full feature phase: SendTargets, and keys that may change (RFC 7143 sections 4.3, 11.10, 11.11 and 13.3).

use core::net::{IpAddr, SocketAddr};

use hakaru_wire::iscsi::keys::SessionType;
use hakaru_wire::iscsi::text::{TextBuffer, emit_pair};
use hakaru_wire::iscsi::{Bhs, Itt, Lun, RejectReason, Stage, TextRequest, TextResponse, Ttt};

use crate::connection::Connection;
use crate::id::ConnectionId;
use crate::target::Target;

/// A text exchange of several PDUs, of which a session has one at a time.
#[derive(Debug, Default)]
pub(crate) struct TextExchange {
    itt: Itt,
    /// What the initiator said so far.
    text: TextBuffer,
    /// What is still to be answered.
    reply: Vec<u8>,
}

/// There is only one exchange, so that one tag will do.
const EXCHANGE: Ttt = Ttt(1);

impl Target {
    /// A Text Request.
    pub(crate) fn text_request(
        &mut self,
        connection: ConnectionId,
        bhs: &Bhs,
        data: &[u8],
    ) -> Result<(), RejectReason> {
        let request = TextRequest::parse(bhs).map_err(|_| RejectReason::InvalidPduField)?;
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return Ok(());
        };
        let Some(session) = conn.session_mut() else {
            return Ok(());
        };
        // A request that goes on from nothing begins anew; what was under way is given up (section 11.10.4).
        let before = session.text.take();
        let mut exchange = match request.ttt {
            Ttt::RESERVED => TextExchange {
                itt: request.itt,
                ..TextExchange::default()
            },
            EXCHANGE => before
                .filter(|before| before.itt == request.itt)
                .ok_or(RejectReason::ProtocolError)?,
            _ => return Err(RejectReason::ProtocolError),
        };
        let collected = exchange
            .text
            .begin_pdu()
            .and_then(|()| exchange.text.extend(data));
        collected.map_err(|_| RejectReason::ProtocolError)?;
        if request.more {
            self.answer_text(connection, &request, exchange, &[], false);
            return Ok(());
        }
        let text = exchange.text.take();
        if exchange.reply.is_empty() {
            self.take_text(connection, &text, &mut exchange.reply)?;
        }
        let limit = self
            .connections
            .get(connection.0)
            .and_then(Connection::session);
        let limit = limit.map_or(512, |session| {
            session.parameters.peer_max_recv_data_segment_length as usize
        });
        let rest = exchange.reply.split_off(exchange.reply.len().min(limit));
        let part = core::mem::replace(&mut exchange.reply, rest);
        let more = !exchange.reply.is_empty();
        self.answer_text(connection, &request, exchange, &part, more);
        Ok(())
    }

    /// Answers keys.
    fn take_text(
        &mut self,
        connection: ConnectionId,
        text: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<(), RejectReason> {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return Ok(());
        };
        let local = conn.local;
        let Some(session) = conn.session_mut() else {
            return Ok(());
        };
        let taken = session
            .negotiation
            .receive(Stage::FullFeaturePhase, text, reply);
        taken.map_err(|_| RejectReason::ProtocolError)?;
        let agreed = session.negotiation.agreed();
        session.parameters.peer_max_recv_data_segment_length =
            agreed.peer_max_recv_data_segment_length;
        let discovery = session.negotiation.declared().session_type == SessionType::Discovery;
        let Some(wanted) = session.negotiation.take_send_targets() else {
            return Ok(());
        };
        let own = self.config.target_name.as_str();
        match wanted.as_str() {
            // All is for discovery sessions, an empty value for the others (section 4.3).
            "All" if discovery => self.emit_target(local, reply),
            "" if !discovery => self.emit_target(local, reply),
            name if name == own => self.emit_target(local, reply),
            "All" | "" => emit_pair(reply, "SendTargets", "Reject"),
            // Another target than this: an empty list.
            _ => {}
        }
        Ok(())
    }

    /// Name and every address of the target.
    fn emit_target(&self, local: SocketAddr, reply: &mut Vec<u8>) {
        emit_pair(reply, "TargetName", &self.config.target_name);
        for (portal, tag) in self.config.portals.iter().zip(1..) {
            let reachable = reachable_address(*portal, local);
            emit_pair(reply, "TargetAddress", &format!("{reachable},{tag}"));
        }
    }

    fn answer_text(
        &mut self,
        connection: ConnectionId,
        request: &TextRequest,
        exchange: TextExchange,
        text: &[u8],
        more: bool,
    ) {
        let Some(conn) = self.connections.get_mut(connection.0) else {
            return;
        };
        let is_final = request.is_final && !more;
        let response = TextResponse {
            is_final,
            more,
            lun: Lun::default(),
            itt: request.itt,
            ttt: if is_final { Ttt::RESERVED } else { EXCHANGE },
            numbers: conn.status_numbers(),
            data_segment_length: text.len() as u32,
        };
        let mut header = [0; 48];
        response.emit(&mut header);
        conn.send(&header, text);
        if !is_final && let Some(session) = conn.session_mut() {
            session.text = Some(exchange);
        }
    }
}

/// A portal that listens on every address is reached at the one that this initiator has connected to.
fn reachable_address(portal: SocketAddr, local: SocketAddr) -> SocketAddr {
    if !portal.ip().is_unspecified() {
        return portal;
    }
    let ip = match local.ip() {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4),
        v4 => v4,
    };
    SocketAddr::new(ip, portal.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portal_on_every_address_is_announced_as_the_one_connected_to() {
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        assert_eq!(
            reachable_address(at("0.0.0.0:3260"), at("10.0.0.1:3260")),
            at("10.0.0.1:3260")
        );
        assert_eq!(
            reachable_address(at("[::]:3260"), at("[::ffff:10.0.0.1]:3260")),
            at("10.0.0.1:3260")
        );
        assert_eq!(
            reachable_address(at("10.0.0.2:3260"), at("10.0.0.1:3260")),
            at("10.0.0.2:3260")
        );
        assert_eq!(
            reachable_address(at("[fe80::1]:1"), at("[fe80::2]:1")).to_string(),
            "[fe80::1]:1"
        );
    }
}
