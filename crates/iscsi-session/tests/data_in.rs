//! Tests of Data-In that arrives in parts: its unwanted bytes, and the acknowledgement of its
//! status.
mod peer;

use hakaru_contract::LoginKeys;
use hakaru_wire::scsi::Status;
use peer::Peer;

const BLOCKS: u32 = 16;
const BYTES: usize = BLOCKS as usize * 512;
const SEGMENT: u32 = BYTES as u32;

/// Returns a peer that has received a read, and the Data-In that answers the read.
fn sent_read(keys: LoginKeys, answers: &[(&str, &str)], keep: bool) -> (Peer, Vec<u8>) {
    let mut peer = Peer::logged_in(keys, answers);
    peer.submit_read(5, BLOCKS, keep);
    let itt = peer.take_command().itt;
    let answer = peer.data_in(itt, 0, 0, &[7; BYTES], Some(Status::GOOD));
    (peer, answer)
}

#[test]
fn a_status_is_acknowledged_after_its_data_has_arrived() {
    let (mut peer, mut answer) = sent_read(LoginKeys::default(), &[], false);
    let (first, last) = answer.split_at_mut(100);
    peer.submit_read(6, BLOCKS, false);
    let before = peer.take_command().exp_stat_sn;
    peer.send_raw(first);
    peer.submit_read(7, BLOCKS, false);
    assert_eq!(peer.take_command().exp_stat_sn, before);
    peer.send_raw(last);
    assert_eq!(peer.session.poll_done().unwrap().tag, 5);
    peer.submit_read(8, BLOCKS, false);
    assert_eq!(peer.take_command().exp_stat_sn, before.plus(1));
}

#[test]
fn unwanted_bytes_may_be_replaced_by_any_bytes() {
    let (mut peer, mut answer) = sent_read(LoginKeys::default(), &[], false);
    assert_eq!(peer.session.unwanted_bytes(SEGMENT), 0);
    peer.send_raw(&mut answer[..20]);
    assert_eq!(peer.session.unwanted_bytes(SEGMENT), 0, "within the header");
    peer.send_raw(&mut answer[20..148]);
    assert_eq!(peer.session.unwanted_bytes(SEGMENT), BYTES - 100);
    assert_eq!(peer.session.unwanted_bytes(SEGMENT + 1), 0, "too short");
    peer.send_raw(&mut vec![0; BYTES - 100]);
    assert_eq!(peer.session.unwanted_bytes(SEGMENT), 0);
    let done = peer.session.poll_done().unwrap();
    assert_eq!((done.tag, done.result), (5, Ok(BYTES as u32)));
}

#[test]
fn data_that_is_kept_or_has_a_digest_is_wanted() {
    let (mut peer, mut answer) = sent_read(LoginKeys::default(), &[], true);
    peer.send_raw(&mut answer[..100]);
    assert_eq!(peer.session.unwanted_bytes(SEGMENT), 0);
    let keys = LoginKeys {
        data_digest: true,
        ..LoginKeys::default()
    };
    let (mut peer, mut answer) = sent_read(keys, &[("DataDigest", "CRC32C")], false);
    peer.send_raw(&mut answer[..100]);
    assert_eq!(peer.session.unwanted_bytes(SEGMENT), 0);
    peer.send_raw(&mut answer[100..]);
    assert_eq!(peer.session.poll_done().unwrap().result, Ok(BYTES as u32));
}
