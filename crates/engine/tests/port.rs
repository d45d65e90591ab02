//! Data that crosses the modelled port of an array: that of the commands, and not that of the accesses
//! which the array makes for them itself.
mod support;

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use support::array::{Array, MIB, Scratch, config, pool, thin};
use support::client::{BLOCK, Client, extended_copy, outgoing};

/// Blocks of a command, more than two accesses of the array.
const BLOCKS: u32 = 1024;
const BYTES: u64 = BLOCKS as u64 * BLOCK as u64;

/// Number of directories that the tests have made.
static DIRECTORIES: AtomicU32 = AtomicU32::new(0);

/// A command of 16 bytes for the first blocks of an LU.
fn cdb(opcode: u8, flags: u8, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[..2].copy_from_slice(&[opcode, flags]);
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

/// Sends a command and its data to an LU, whose first blocks were written before: 0 in memory, 1 in a
/// pool. Returns the bytes that the array sent and received over the port for it.
fn crossed(lun: u8, send: impl Fn(&mut Client) -> (Vec<u8>, Vec<u8>)) -> (u64, u64) {
    let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
    let scratch = Scratch::new(&format!("port-{number}"));
    let lus = [
        json!({"lun": 0, "size_bytes": MIB, "store": {"kind": "memory"}, "placement": {"group": 0, "offset_bytes": 0}}),
        thin(1, "volume", 4 * MIB),
    ];
    let mut pool = pool(scratch.path(), 256);
    pool["groups"][0]["placement"] = json!({"group": 0, "offset_bytes": MIB});
    let mut config = config(json!(lus), json!([pool]));
    config["model"] = json!({
        "kind": "array",
        "controller": {"command_us": 5.0, "data_us_per_mib": 0.0},
        "port": {"rate_bytes_per_s": 1e9, "shared": false, "command_us": 0.0},
        "groups": [{
            "raid": "raid0", "drives": 1, "stripe_unit_bytes": 65_536,
            "drive": {"kind": "preset", "name": "nvme-ssd-2000"},
        }],
    });
    let mut array = Array::start(&config);
    let mut client = Client::login(array.portal(), 1);
    client
        .write(lun, 0, &[0x5a; BYTES as usize])
        .expect("the blocks are written");
    let (cdb, data) = send(&mut client);
    let tag = client.submit(lun, &cdb, outgoing(&data));
    let done = client.wait(tag).expect("the array answers");
    done.result.expect("the command is carried out");
    drop(client);
    let port = array.sample()["port/0"].clone();
    let bytes = |name: &str| port[name].as_f64().expect("the port has the counter") as u64;
    (bytes("read_bytes"), bytes("write_bytes") - BYTES)
}

fn command(opcode: u8, flags: u8, blocks: u32, data_bytes: u64) -> [(u64, u64); 2] {
    [0, 1].map(|lun| {
        crossed(lun, |_| {
            let data = vec![0x5a; data_bytes as usize];
            (cdb(opcode, flags, blocks).to_vec(), data)
        })
    })
}

#[test]
fn verify_and_pre_fetch_send_nothing() {
    assert_eq!(command(0x8f, 0, BLOCKS, 0), [(0, 0); 2]);
    assert_eq!(command(0x90, 0, BLOCKS, 0), [(0, 0); 2]);
}

#[test]
fn data_that_is_compared_or_combined_with_blocks_is_received_once() {
    // VERIFY with BYTCHK, WRITE AND VERIFY, ORWRITE.
    assert_eq!(command(0x8f, 0x02, BLOCKS, BYTES), [(0, BYTES); 2]);
    assert_eq!(command(0x8e, 0x02, BLOCKS, BYTES), [(0, BYTES); 2]);
    assert_eq!(command(0x8b, 0, BLOCKS, BYTES), [(0, BYTES); 2]);
}

#[test]
fn compare_and_write_receives_both_instances() {
    let both = 2 * 8 * BLOCK as u64;
    let found = [0, 1].map(|lun| {
        crossed(lun, |_| {
            let mut cdb = cdb(0x89, 0, 0);
            cdb[13] = 8;
            (cdb.to_vec(), vec![0x5a; both as usize])
        })
    });
    assert_eq!(found, [(0, both); 2]);
}

#[test]
fn write_same_receives_one_block() {
    let block = BLOCK as u64;
    assert_eq!(command(0x93, 0, BLOCKS, block), [(0, block); 2]);
}

#[test]
fn a_copy_inside_the_array_receives_its_list() {
    let half = BLOCKS / 2;
    let segment = (0, u64::from(half), half as u16);
    for lun in [0, 1] {
        let (sent, received) = crossed(lun, |client| {
            let list = client.copy_list(lun, &[segment]);
            (extended_copy(&list).to_vec(), list)
        });
        assert_eq!((sent, received), (0, 0), "LU {lun}");
    }
}
