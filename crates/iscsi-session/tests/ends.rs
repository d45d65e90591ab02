//! How sessions end: by a logout, by their target, or with their connection.
mod peer;

use hakaru_iscsi_session::Event;
use hakaru_wire::iscsi::{
    AsyncEvent, AsyncMessage, LogoutRequest, LogoutResponse, LogoutResult, Lun,
};
use peer::{Peer, TIMEOUT, logged_in, lost};

fn send_async(peer: &mut Peer, event: AsyncEvent) {
    let numbers = peer.next_numbers();
    let message = AsyncMessage {
        event,
        vendor_code: 0,
        lun: Lun(0),
        numbers,
        parameters: [0; 3],
        data_segment_length: 0,
    };
    peer.send(|out| message.emit(out), &[]);
}

#[test]
fn logout_is_answered_and_ends_the_session() {
    let mut peer = logged_in();
    peer.session.log_out(peer.time);
    let request = LogoutRequest::parse(&peer.take().bhs).unwrap();
    let numbers = peer.next_numbers();
    let response = LogoutResponse {
        result: LogoutResult::Success,
        itt: request.itt,
        numbers,
        time2wait: 0,
        time2retain: 0,
    };
    peer.send(|out| response.emit(out), &[]);
    assert_eq!(peer.session.poll_event(), Some(Event::LoggedOut));
    assert!(peer.session.is_ended());
}

#[test]
fn closed_connection_is_an_error_before_the_logout_but_not_after_it() {
    let mut peer = logged_in();
    peer.session.log_out(peer.time);
    peer.session.handle_closed("(closed by the target)");
    assert_eq!(peer.session.poll_event(), Some(Event::LoggedOut));
    let mut peer = logged_in();
    peer.session.handle_closed("(closed by the target)");
    assert_eq!(
        lost(&mut peer).to_string(),
        "connection lost (closed by the target)"
    );
}

#[test]
fn nothing_that_the_target_does_during_the_logout_is_an_error() {
    let mut silent = logged_in();
    silent.session.log_out(silent.time);
    silent.pass(TIMEOUT);
    assert_eq!(silent.session.poll_event(), Some(Event::LoggedOut));
    let mut leaving = logged_in();
    leaving.session.log_out(leaving.time);
    send_async(&mut leaving, AsyncEvent::ConnectionDropped);
    assert_eq!(leaving.session.poll_event(), Some(Event::LoggedOut));
}

#[test]
fn asynchronous_messages_that_end_the_session_lose_it_and_others_do_not() {
    for (event, ends) in [
        (AsyncEvent::ScsiEvent, false),
        (AsyncEvent::LogoutRequested, true),
        (AsyncEvent::ConnectionDropped, true),
        (AsyncEvent::SessionDropped, true),
        (AsyncEvent::NegotiationRequested, false),
        (AsyncEvent::Vendor, false),
    ] {
        let mut peer = logged_in();
        send_async(&mut peer, event);
        assert_eq!(peer.session.is_ended(), ends, "{event:?}");
    }
}
