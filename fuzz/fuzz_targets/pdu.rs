//! A byte stream from a peer: framing, headers and additional headers. Input: two bytes that select
//! digests, limit and length of the pieces, then the stream.
//!
//! Checks, in addition to the absence of panics: the stream yields the same PDUs in pieces as at
//! once, and a parsed PDU, emitted and parsed again, is unchanged.
#![no_main]
use hakaru_wire::iscsi::frame::{Frame, FrameError, Framer};
use hakaru_wire::iscsi::*;
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Default, PartialEq)]
struct Parsed {
    headers: Vec<(Bhs, Vec<u8>)>,
    data: Vec<u8>,
    ends: Vec<bool>,
    error: Option<FrameError>,
}

fn read<'a>(flags: u8, pieces: impl Iterator<Item = &'a [u8]>) -> Parsed {
    let limit = if flags & 4 == 0 {
        8192
    } else {
        DATA_SEGMENT_LENGTH_MAX
    };
    let mut framer = Framer::new(limit);
    framer.set_digests(flags & 1 != 0, flags & 2 != 0);
    let mut parsed = Parsed::default();
    for mut piece in pieces {
        loop {
            match framer.next(&mut piece) {
                Ok(Some(Frame::Header { bhs, ahs })) => parsed.headers.push((*bhs, ahs.to_vec())),
                Ok(Some(Frame::Data { bytes, .. })) => parsed.data.extend_from_slice(bytes),
                Ok(Some(Frame::End { data_digest_ok })) => parsed.ends.push(data_digest_ok),
                Ok(None) => break,
                Err(error) => {
                    parsed.error = Some(error);
                    return parsed;
                }
            }
        }
        assert!(piece.is_empty());
        assert!(framer.buffered() <= 48 + 1020 + 4);
    }
    parsed
}

/// Asserts that a PDU, emitted and parsed again, is unchanged.
fn assert_round_trip(bhs: &Bhs) {
    macro_rules! round_trip {
        ($($opcode:ident => $kind:ty,)*) => {
            match bhs.opcode() {
                $(Some(Opcode::$opcode) => if let Ok(pdu) = <$kind>::parse(bhs) {
                    let mut bytes = [0; BHS_LENGTH];
                    pdu.emit(&mut bytes);
                    assert_eq!(<$kind>::parse(&Bhs::new(bytes)), Ok(pdu));
                },)*
                None => {}
            }
        };
    }
    round_trip! {
        NopOut => NopOut,
        ScsiCommand => ScsiCommand,
        TaskManagementRequest => TaskManagementRequest,
        LoginRequest => LoginRequest,
        TextRequest => TextRequest,
        DataOut => DataOut,
        LogoutRequest => LogoutRequest,
        Snack => Snack,
        NopIn => NopIn,
        ScsiResponse => ScsiResponse,
        TaskManagementResponse => TaskManagementResponse,
        LoginResponse => LoginResponse,
        TextResponse => TextResponse,
        DataIn => DataIn,
        LogoutResponse => LogoutResponse,
        R2t => R2t,
        AsyncMessage => AsyncMessage,
        Reject => Reject,
    }
}

fuzz_target!(|input: &[u8]| {
    let [flags, cut, stream @ ..] = input else {
        return;
    };
    let whole = read(*flags, std::iter::once(stream));
    let pieces = read(*flags, stream.chunks(usize::from(*cut).max(1)));
    assert_eq!(whole, pieces);
    for (bhs, ahs) in &whole.headers {
        assert_round_trip(bhs);
        let _ = bhs.lun().number();
        let parsed = ahs::parse_all(ahs).collect::<Result<Vec<_>, _>>();
        if let Ok(segments) = parsed {
            let mut emitted = Vec::new();
            segments
                .iter()
                .for_each(|segment| segment.emit(&mut emitted));
            assert_eq!(
                ahs::parse_all(&emitted).collect::<Result<Vec<_>, _>>(),
                Ok(segments)
            );
        }
    }
});
