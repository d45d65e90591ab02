//! Text requests in full feature phase: SendTargets, and keys that may change (RFC 7143 sections
//! 4.3, 11.10, 11.11 and 13.3).

use core::net::{IpAddr, SocketAddr};

use hakaru_wire::iscsi::keys::SessionType;
use hakaru_wire::iscsi::text::emit_pair;
use hakaru_wire::iscsi::{Bhs, Lun, RejectReason, Stage, TextRequest, TextResponse, Ttt};

use crate::config::TargetConfig;
use crate::connection::Active;
use crate::connection::session::TextExchange;

/// Target Transfer Tag of the only exchange that a session may have.
const EXCHANGE: Ttt = Ttt(1);

/// Serves a Text Request.
pub(crate) fn text_request(
    conn: &mut Active<'_>,
    config: &TargetConfig,
    bhs: &Bhs,
    data: &[u8],
) -> Result<(), RejectReason> {
    let request = TextRequest::parse(bhs).map_err(|_| RejectReason::InvalidPduField)?;
    // A request that continues no exchange begins a new exchange and abandons an exchange in
    // progress (section 11.10.4).
    let previous = conn.session.text.take();
    let mut exchange = match request.ttt {
        Ttt::RESERVED => TextExchange {
            itt: request.itt,
            ..TextExchange::default()
        },
        EXCHANGE => previous
            .filter(|previous| previous.itt == request.itt)
            .ok_or(RejectReason::ProtocolError)?,
        _ => return Err(RejectReason::ProtocolError),
    };
    let collected = exchange
        .text
        .begin_pdu()
        .and_then(|()| exchange.text.extend(data));
    collected.map_err(|_| RejectReason::ProtocolError)?;
    if request.more {
        answer_text(conn, &request, exchange, &[], false);
        return Ok(());
    }
    let text = exchange.text.take();
    if exchange.reply.is_empty() {
        take_text(conn, config, &text, &mut exchange.reply)?;
    }
    let limit = conn.session.parameters.peer_max_recv_data_segment_length as usize;
    let rest = exchange.reply.split_off(exchange.reply.len().min(limit));
    let part = core::mem::replace(&mut exchange.reply, rest);
    let more = !exchange.reply.is_empty();
    answer_text(conn, &request, exchange, &part, more);
    Ok(())
}

/// Receives keys and answers them.
fn take_text(
    conn: &mut Active<'_>,
    config: &TargetConfig,
    text: &[u8],
    reply: &mut Vec<u8>,
) -> Result<(), RejectReason> {
    let local = conn.link.local;
    let session = &mut conn.session;
    let received = session
        .negotiation
        .receive(Stage::FullFeaturePhase, text, reply);
    received.map_err(|_| RejectReason::ProtocolError)?;
    let agreed = session.negotiation.agreed();
    session.parameters.peer_max_recv_data_segment_length = agreed.peer_max_recv_data_segment_length;
    let discovery = session.negotiation.declared().session_type == SessionType::Discovery;
    let Some(wanted) = session.negotiation.take_send_targets() else {
        return Ok(());
    };
    match wanted.as_str() {
        // Discovery sessions request All, other sessions an empty value (section 4.3).
        "All" if discovery => emit_target(config, local, reply),
        "" if !discovery => emit_target(config, local, reply),
        name if name == config.target_name => emit_target(config, local, reply),
        "All" | "" => emit_pair(reply, "SendTargets", "Reject"),
        // An unknown target name is answered with an empty list.
        _ => {}
    }
    Ok(())
}

/// Emits the name and every address of the target.
fn emit_target(config: &TargetConfig, local: SocketAddr, reply: &mut Vec<u8>) {
    emit_pair(reply, "TargetName", &config.target_name);
    for (portal, tag) in config.portals.iter().zip(1..) {
        let reachable = reachable_address(*portal, local);
        emit_pair(reply, "TargetAddress", &format!("{reachable},{tag}"));
    }
}

fn answer_text(
    conn: &mut Active<'_>,
    request: &TextRequest,
    exchange: TextExchange,
    text: &[u8],
    more: bool,
) {
    let is_final = request.is_final && !more;
    let response = TextResponse {
        is_final,
        more,
        lun: Lun::default(),
        itt: request.itt,
        ttt: if is_final { Ttt::RESERVED } else { EXCHANGE },
        numbers: conn.link.status_numbers(),
        data_segment_length: text.len() as u32,
    };
    let mut header = [0; 48];
    response.emit(&mut header);
    conn.link.send(&header, text);
    if !is_final {
        conn.session.text = Some(exchange);
    }
}

/// Returns the address at which an initiator reaches a portal. For an unspecified portal address
/// this is the address that the initiator has connected to.
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
