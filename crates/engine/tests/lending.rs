//! Zero-copy sends of large reads: data in flight to one initiator does not change while another
//! initiator overwrites the LU.
mod support;

use std::thread;

use serde_json::json;
use support::array::{Array, MIB, config};
use support::client::{BLOCK, Client, incoming, read_16};

const BLOCKS: u32 = (MIB / BLOCK as u64) as u32;
/// Number of concurrent reads, all of the same MiB.
const READS: usize = 4;

fn array() -> Array {
    let lu = json!({"lun": 0, "size_bytes": 64 * MIB, "block_bytes": BLOCK, "store": {"kind": "memory"}});
    Array::start(&config(json!([lu]), json!([])))
}

fn lent_bytes(array: &mut Array) -> f64 {
    array.sample()["port/0"]["tx_lent_bytes"]
        .as_f64()
        .expect("the counter exists")
}

/// The reader's socket holds unread data while the writer overwrites the LU. Over loopback, that
/// data lies in the LU's own pages.
#[test]
fn sent_data_does_not_change_while_it_is_overwritten() {
    let mut array = array();
    let mut writer = Client::login(array.portal(), 1);
    let mut reader = Client::login(array.portal(), 2);
    for round in 0..20 {
        let (old, new) = (round, round + 1);
        writer.write(0, 0, &vec![old; MIB as usize]).unwrap();
        let reads: Vec<u32> = (0..READS)
            .map(|_| reader.submit(0, &read_16(0, BLOCKS), incoming(MIB as usize)))
            .collect();
        let sent = reader.peek();
        for lba in (0..u64::from(BLOCKS)).step_by(128) {
            writer.write(0, lba, &vec![new; 128 * BLOCK]).unwrap();
        }
        assert!(
            reader.peek()[..sent.len()] == sent,
            "data in flight has changed"
        );
        for read in reads {
            let data = reader.wait(read).unwrap().data;
            assert_eq!(data.len(), MIB as usize);
            for block in data.chunks(BLOCK) {
                let whole = block.iter().all(|byte| *byte == block[0]);
                assert!(whole && (block[0] == old || block[0] == new), "{block:?}");
            }
        }
        let now = reader.read(0, 0, BLOCKS).unwrap();
        assert!(now.iter().all(|byte| *byte == new));
    }
    assert!(lent_bytes(&mut array) > 0.0, "nothing was lent");
}

#[test]
fn readers_that_disconnect_do_not_affect_the_array() {
    let mut array = array();
    let mut writer = Client::login(array.portal(), 1);
    writer.write(0, 0, &vec![1; MIB as usize]).unwrap();
    for number in 2..40 {
        let mut reader = Client::login(array.portal(), number);
        for _ in 0..READS {
            reader.submit(0, &read_16(0, BLOCKS), incoming(MIB as usize));
        }
        reader.peek();
        drop(reader);
        writer.write(0, 8, &vec![number as u8; BLOCK]).unwrap();
        let now = writer.read(0, 0, BLOCKS).unwrap();
        let expected = |lba: usize| if lba == 8 { number as u8 } else { 1 };
        for (lba, block) in now.chunks(BLOCK).enumerate() {
            assert!(
                block.iter().all(|byte| *byte == expected(lba)),
                "block {lba}"
            );
        }
    }
    assert!(lent_bytes(&mut array) > 0.0, "nothing was lent");
}

#[test]
fn readers_and_writers_of_the_same_blocks_never_see_half_a_block() {
    let array = array();
    let mut writer = Client::login(array.portal(), 1);
    writer.write(0, 0, &vec![0; 4 * MIB as usize]).unwrap();
    let portal = array.portal().to_owned();
    let readers: Vec<_> = (2..5)
        .map(|number| {
            let mut reader = Client::login(&portal, number);
            thread::spawn(move || {
                for _ in 0..60 {
                    let data = reader.read(0, 0, 4 * BLOCKS).unwrap();
                    for (lba, block) in data.chunks(BLOCK).enumerate() {
                        assert!(block.iter().all(|byte| *byte == block[0]), "block {lba}");
                    }
                }
            })
        })
        .collect();
    let mut turn = 0;
    while readers.iter().any(|reader| !reader.is_finished()) {
        turn += 1;
        let lba = u64::from(turn * 37 % (4 * BLOCKS - 16));
        writer.write(0, lba, &vec![turn as u8; 16 * BLOCK]).unwrap();
    }
    for reader in readers {
        reader.join().unwrap();
    }
}
