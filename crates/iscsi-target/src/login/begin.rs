//! The end of a login: full feature phase begins.

use hakaru_units::Time;
use hakaru_wire::iscsi::LoginStatus;
use hakaru_wire::iscsi::frame::Framer;
use hakaru_wire::iscsi::keys::Digest;
use hakaru_wire::scsi::Sense;

use crate::connection::link::Digests;
use crate::connection::session::{Session, SessionName};
use crate::connection::{Connection, Phase};
use crate::login::answer_final;
use crate::login::budget::Origin;
use crate::shared::Core;

/// Begins the session of a login that no longer waits. The digests apply from the next PDU on, in
/// both directions.
pub(crate) fn begin_session(
    conn: &mut Connection,
    framer: &mut Framer,
    core: &mut Core,
    now: Time,
    name: SessionName,
) -> Result<(), LoginStatus> {
    if core.sessions.by_name.len() >= core.config.limits.sessions_max as usize {
        return Err(LoginStatus::OUT_OF_RESOURCES);
    }
    let Phase::Login(login) = &mut conn.phase else {
        return Ok(());
    };
    // `authorize` has set the rights of every login that gets here.
    let rights = login.as_ref().and_then(|login| login.rights);
    let rights = rights.ok_or(LoginStatus::AUTHORIZATION_FAILURE)?;
    let Some(login) = login.take() else {
        return Ok(());
    };
    let request = login.held.unwrap_or(login.first);
    let agreed = *login.negotiation.agreed();
    let digests = Digests {
        header: agreed.header_digest == Digest::Crc32c,
        data: agreed.data_digest == Digest::Crc32c,
    };
    let tsih = core.sessions.insert(name.clone(), conn.link.id);
    let owed = core.sessions.take_owed_attention(&name);
    let cid = login.first.cid;
    let mut session = Session::new(name, tsih, cid, agreed, rights, login.negotiation);
    if owed {
        let units = core.device.units.numbers();
        units.for_each(|lu| session.device.attend(lu, Sense::POWER_ON));
    }
    let origin = Origin::of(conn.link.peer.ip());
    core.logins.end(origin, login.held_bytes);
    core.counters.sessions.logins += 1;
    conn.phase = Phase::FullFeature(Box::new(session));
    let link = &mut conn.link;
    link.clocks.received = now;
    let limits = &core.config.limits;
    core.outbox.check_by(now + limits.keepalive_after);
    answer_final(link, &request, tsih, &login.reply);
    link.digests = digests;
    framer.set_digests(digests.header, digests.data);
    framer.set_data_segment_length_max(agreed.max_recv_data_segment_length);
    link.announce(&mut core.outbox);
    Ok(())
}
