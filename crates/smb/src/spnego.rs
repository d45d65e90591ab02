//! The tokens of SPNEGO (RFC 4178) that a login with NTLM alone needs, in DER.
use crate::wire::WireError;

/// `1.3.6.1.5.5.2`, SPNEGO.
const SPNEGO: &[u8] = &[0x06, 0x06, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x02];
/// `1.3.6.1.4.1.311.2.2.10`, NTLMSSP.
const NTLMSSP: &[u8] = &[
    0x06, 0x0a, 0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x02, 0x0a,
];

const SEQUENCE: u8 = 0x30;
const OCTET_STRING: u8 = 0x04;
const ENUMERATED: u8 = 0x0a;
const APPLICATION_0: u8 = 0x60;
/// Tag of field `n` of a sequence.
const fn field(n: u8) -> u8 {
    0xa0 | n
}
/// Value of negState: the server refuses the login.
const REJECT: u8 = 2;

/// Returns the first token: NTLM as the only mechanism, with its first message.
pub(crate) fn init(ntlm: &[u8]) -> Vec<u8> {
    let mechanisms = element(field(0), &mechanisms());
    let token = element(field(2), &element(OCTET_STRING, ntlm));
    let body = element(SEQUENCE, &[mechanisms, token].concat());
    element(APPLICATION_0, &[SPNEGO, &element(field(0), &body)].concat())
}

/// Returns the list of mechanisms as both sides sign it (mechListMIC).
pub(crate) fn mechanisms() -> Vec<u8> {
    element(SEQUENCE, NTLMSSP)
}

/// Returns a following token with a message of NTLM, and a signature of the mechanisms.
pub(crate) fn response(ntlm: &[u8], mic: Option<&[u8]>) -> Vec<u8> {
    let mut fields = element(field(2), &element(OCTET_STRING, ntlm));
    if let Some(mic) = mic {
        fields.extend(element(field(3), &element(OCTET_STRING, mic)));
    }
    element(field(1), &element(SEQUENCE, &fields))
}

/// A token of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Response<'a> {
    /// Message of NTLM; empty if there is none.
    pub ntlm: &'a [u8],
    /// Signature of the mechanisms.
    pub mic: Option<&'a [u8]>,
}

/// Parses a token of the server.
///
/// # Errors
/// The token is not valid, or the server refuses the login.
pub(crate) fn parse_response(token: &[u8]) -> Result<Response<'_>, WireError> {
    let sequence = only(field(1), token).and_then(|body| only(SEQUENCE, body));
    let mut rest = sequence.ok_or(WireError::Invalid("not a NegTokenResp of SPNEGO"))?;
    let mut response = Response::default();
    while !rest.is_empty() {
        let (tag, value, behind) =
            next(rest).ok_or(WireError::Invalid("a NegTokenResp is not valid DER"))?;
        rest = behind;
        if tag == field(0) && only(ENUMERATED, value) == Some(&[REJECT]) {
            return Err(WireError::Invalid("the server refuses NTLM"));
        }
        let octets = || {
            only(OCTET_STRING, value).ok_or(WireError::Invalid("a NegTokenResp is not valid DER"))
        };
        if tag == field(2) {
            response.ntlm = octets()?;
        } else if tag == field(3) {
            response.mic = Some(octets()?);
        }
    }
    Ok(response)
}

/// Encodes one element.
fn element(tag: u8, value: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match value.len() {
        length @ 0..=0x7f => out.push(length as u8),
        length @ 0x80..=0xff => out.extend([0x81, length as u8]),
        length => {
            // A token is shorter than 64 KiB, because its length in SMB has 16 bits.
            out.push(0x82);
            out.extend((length as u16).to_be_bytes());
        }
    }
    out.extend_from_slice(value);
    out
}

/// Splits the first element off: its tag, its value and the bytes behind it.
fn next(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => {
            let (&length, rest) = rest.split_first()?;
            (length.into(), rest)
        }
        0x82 => {
            let (&length, rest) = rest.split_first_chunk()?;
            (u16::from_be_bytes(length).into(), rest)
        }
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(length)?;
    Some((tag, value, rest))
}

/// Returns the value of `bytes` if they are one element with this tag.
fn only(tag: u8, bytes: &[u8]) -> Option<&[u8]> {
    match next(bytes)? {
        (found, value, []) if found == tag => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_token_names_ntlm() {
        let expected = [
            &[0x60, 0x21][..],
            SPNEGO,
            &[0xa0, 0x17, 0x30, 0x15, 0xa0, 0x0e, 0x30, 0x0c],
            NTLMSSP,
            &[0xa2, 0x03, 0x04, 0x01, 0x55],
        ];
        assert_eq!(init(&[0x55]), expected.concat());
    }

    #[test]
    fn messages_of_all_lengths_round_trip() {
        for length in [0, 1, 100, 120, 127, 128, 200, 255, 256, 300, 5000] {
            let ntlm = vec![0x5a; length];
            for mic in [None, Some(&[9; 16][..])] {
                let token = response(&ntlm, mic);
                let ntlm = &ntlm[..];
                assert_eq!(
                    parse_response(&token),
                    Ok(Response { ntlm, mic }),
                    "{length}"
                );
            }
        }
    }

    #[test]
    fn a_refusal_and_damaged_tokens_are_errors() {
        let state = |state| {
            let value = element(field(0), &element(ENUMERATED, &[state]));
            element(field(1), &element(SEQUENCE, &value))
        };
        assert_eq!(parse_response(&state(0)), Ok(Response::default()));
        let refused = Err(WireError::Invalid("the server refuses NTLM"));
        assert_eq!(parse_response(&state(REJECT)), refused);
        let token = response(&[7; 300], Some(&[8; 16]));
        for length in 0..token.len() {
            assert!(parse_response(&token[..length]).is_err(), "{length}");
        }
        assert!(parse_response(&init(&[1])).is_err());
    }
}
