//! Signatures and encryption of responses.
use super::flight::{Expected, Flights, Purpose};
use super::link::Link;
use crate::error::ConnectionError;
use crate::wire::{Command, FLAG_SIGNED, Header, Status, UNSOLICITED};

/// Checks that a response is protected as it must be. One that was decrypted needs no signature
/// (MS-SMB2 section 3.2.5.1.3).
pub(super) fn check(
    link: &Link,
    header: &Header,
    message: &[u8],
    sealed: bool,
) -> Result<(), ConnectionError> {
    if sealed {
        return Ok(());
    }
    verify(link, header, message)?;
    match link.seal_all && !is_exempt(header) {
        true => Err(ConnectionError::Encryption("of a response is missing")),
        false => Ok(()),
    }
}

/// Checks the signature of a response.
fn verify(link: &Link, header: &Header, message: &[u8]) -> Result<(), ConnectionError> {
    let Some(signer) = &link.signer else {
        return Ok(());
    };
    if header.has(FLAG_SIGNED) {
        let right = signer.verify_response(header.message_id, &header.signature, message);
        return match right {
            true => Ok(()),
            false => Err(ConnectionError::Signature("wrong")),
        };
    }
    match link.sign_all && !is_exempt(header) {
        true => Err(ConnectionError::Signature("missing")),
        false => Ok(()),
    }
}

/// Returns whether a response is never signed: an interim one, or one of a session that has ended
/// (MS-SMB2 section 3.2.5.1.3).
fn is_exempt(header: &Header) -> bool {
    header.message_id == UNSOLICITED
        || header.status == Status::PENDING
        || header.status == Status::USER_SESSION_DELETED
        || header.status == Status::NETWORK_SESSION_EXPIRED
}

/// Returns whether a frame is the data of a read that is not to be kept. A signed one is needed to
/// verify it.
pub(super) fn is_unwanted(head: &[u8], link: &Link, flights: &Flights) -> bool {
    let Ok(header) = Header::parse(head) else {
        return false;
    };
    let verified = link.signer.is_some() && (link.sign_all || header.has(FLAG_SIGNED));
    let purpose = flights.get(header.message_id).map(|flight| &flight.purpose);
    header.command == Command::Read
        && header.status == Status::SUCCESS
        && header.next_command == 0
        && !verified
        && matches!(
            purpose,
            Some(Purpose::Op(_, Expected::Read { keep: false, .. }))
        )
}
