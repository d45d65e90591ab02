//! Orders of the operator to a running array. An order takes effect completely or not at all.
mod support;

use std::fs::OpenOptions;
use std::path::Path;

use hakaru_iscsi_session::{TaskData, TaskError};
use hakaru_wire::scsi::Status;
use serde_json::{Value, json};
use support::array::{Array, MIB, Scratch, config, file_size_limit, pool, thin};
use support::client::{BLOCK, Client, incoming, outgoing, read_16, unmap, unmap_data};

const KEY: u64 = 0x0123_4567_89ab_cdef;

fn order(kind: &str, volume: &str) -> Value {
    json!({"kind": kind, "pool": "pool", "volume": volume})
}

fn create(lun: u8, volume: &str) -> Value {
    json!({"kind": "create", "lu": thin(lun, volume, MIB)})
}

fn message(error: &Value) -> &str {
    error["message"].as_str().unwrap()
}

/// Makes every later commit of the pool fail.
fn break_metadata(directory: &Path) {
    let metadata = OpenOptions::new()
        .write(true)
        .open(directory.join("metadata"));
    metadata.unwrap().set_len(0).unwrap();
}

#[test]
fn a_refused_delete_leaves_the_lu_and_its_data() {
    for read_only_before in [false, true] {
        let scratch = Scratch::new("refused-delete");
        let directory = scratch.join("pool");
        let lus = json!([thin(0, "v", MIB)]);
        let mut array = Array::start(&config(lus, json!([pool(&directory, 8)])));
        let mut client = Client::login(array.portal(), 1);
        client.write_fua(0, 0, &[7; BLOCK]).unwrap();
        break_metadata(&directory);
        if read_only_before {
            client.write_fua(0, 1000, &[8; BLOCK]).unwrap_err();
            assert_eq!(array.pool()["read_only"], true);
        }
        let refused = array.manage(order("delete", "v")).unwrap_err();
        assert_eq!(refused["class"], "environment", "{refused}");
        assert_eq!(client.read(0, 0, 1).unwrap(), [7; BLOCK]);
        assert_eq!(array.pool()["volumes"][0]["luns"], json!([0]));
    }
}

#[test]
fn deleting_a_volume_withdraws_its_lu() {
    let scratch = Scratch::new("delete");
    let lus = json!([thin(0, "v", MIB), thin(1, "w", MIB)]);
    let mut array = Array::start(&config(lus, json!([pool(&scratch.join("pool"), 8)])));
    let mut client = Client::login(array.portal(), 1);
    client.write(0, 0, &[7; BLOCK]).unwrap();
    array.manage(order("delete", "v")).unwrap();
    assert!(client.read(0, 0, 1).is_err());
    assert_eq!(client.read(1, 0, 1).unwrap(), [0; BLOCK]);
    assert_eq!(array.pool()["volumes"].as_array().unwrap().len(), 1);
}

#[test]
fn two_creates_of_one_lun_at_once_leave_no_stray_volume() {
    let scratch = Scratch::new("two-creates");
    let mut array = Array::start(&config(json!([]), json!([pool(&scratch.join("pool"), 8)])));
    array.order(&create(3, "first"));
    array.order(&create(3, "second"));
    let replies = array.replies(2);
    let refused: Vec<&Value> = replies
        .iter()
        .filter_map(|reply| reply.as_ref().err())
        .collect();
    assert!(
        refused.len() == 1 && message(refused[0]).contains("LUN 3"),
        "{refused:?}"
    );
    let volumes = array.pool()["volumes"].clone();
    assert_eq!(volumes.as_array().unwrap().len(), 1, "{volumes}");
    assert_eq!(volumes[0]["luns"], json!([3]));
    // The LUN is free again once its LU is withdrawn.
    array.manage(order("delete", "first")).unwrap();
    array.manage(create(3, "third")).unwrap();
}

#[test]
fn a_refused_create_frees_its_lun() {
    let scratch = Scratch::new("refused-create");
    let lus = json!([thin(0, "v", MIB)]);
    let mut array = Array::start(&config(lus, json!([pool(&scratch.join("pool"), 8)])));
    array.manage(create(3, "no name")).unwrap_err();
    array.manage(create(3, "name")).unwrap();
}

#[test]
fn a_failed_grow_leaves_no_file_and_does_not_use_a_foreign_one() {
    let scratch = Scratch::new("failed-grow");
    let directory = scratch.join("pool");
    let inside = file_size_limit(64 * MIB);
    let config = config(json!([]), json!([pool(&directory, 8)]));
    let mut array = Array::start_inside(&inside, &config);
    let grow = |name: &str, size_bytes: u64| json!({"kind": "grow", "pool": "pool", "group": {"name": name, "size_bytes": size_bytes}});
    let refused = array.manage(grow("large", 65 * MIB)).unwrap_err();
    assert!(message(&refused).contains("File too large"), "{refused}");
    assert!(
        refused["hint"].as_str().unwrap().contains("smaller"),
        "{refused}"
    );
    assert!(!directory.join("large.group").exists(), "{refused}");
    array.manage(grow("large", 2 * MIB)).unwrap();
    let notes = directory.join("notes.group");
    std::fs::write(&notes, "not a group").unwrap();
    let refused = array.manage(grow("notes", MIB)).unwrap_err();
    assert!(message(&refused).contains("notes.group"), "{refused}");
    assert_eq!(std::fs::read(&notes).unwrap(), b"not a group");
    std::fs::write(directory.join("empty.group"), "").unwrap();
    array.manage(grow("empty", MIB)).unwrap();
}

/// Sends PERSISTENT RESERVE OUT: REGISTER with APTPL, then RESERVE (write exclusive).
fn reserve(client: &mut Client, lun: u8) {
    for (action, kind, key, new_key) in [(0, 0, 0, KEY), (1, 1, KEY, 0)] {
        let mut list = [0; 24];
        list[..8].copy_from_slice(&key.to_be_bytes());
        list[8..16].copy_from_slice(&new_key.to_be_bytes());
        list[20] = 1;
        let cdb = [0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0];
        let tag = client.submit(lun, &cdb, outgoing(&list));
        client.wait(tag).unwrap().result.unwrap();
    }
}

fn is_reserved(array: &Array, lun: u8) -> bool {
    let mut other = Client::login(array.portal(), 2);
    match other.write(lun, 0, &[1; BLOCK]) {
        Ok(()) => false,
        Err(TaskError::Status(Status(0x18))) => true,
        Err(error) => panic!("{error:?}"),
    }
}

fn with_state(scratch: &Scratch, lus: Value) -> Value {
    let mut config = config(lus, json!([pool(&scratch.join("pool"), 64)]));
    config["state_directory"] = json!(scratch.join("reservations"));
    config
}

#[test]
fn reservations_survive_a_restart_with_their_volume_and_do_not_apply_to_another_volume() {
    let scratch = Scratch::new("reservations");
    let with_x = with_state(&scratch, json!([thin(7, "x", MIB)]));
    let array = Array::start(&with_x);
    reserve(&mut Client::login(array.portal(), 1), 7);
    assert!(is_reserved(&array, 7));
    array.stop();
    let array = Array::start(&with_x);
    assert!(is_reserved(&array, 7));
    array.stop();
    let array = Array::start(&with_state(&scratch, json!([thin(7, "y", MIB)])));
    assert!(!is_reserved(&array, 7), "y inherited the reservation of x");
    array.stop();
}

#[test]
fn reservations_of_a_file_do_not_apply_to_another_file_under_the_same_lun() {
    let scratch = Scratch::new("file-reservations");
    let in_file = |name: &str| {
        let store = json!({"kind": "file", "path": scratch.join(name)});
        with_state(
            &scratch,
            json!([{"lun": 7, "size_bytes": MIB, "store": store}]),
        )
    };
    let array = Array::start(&in_file("x"));
    reserve(&mut Client::login(array.portal(), 1), 7);
    array.stop();
    let array = Array::start(&in_file("x"));
    assert!(is_reserved(&array, 7));
    array.stop();
    let array = Array::start(&in_file("y"));
    assert!(!is_reserved(&array, 7), "y inherited the reservation of x");
}

#[test]
fn reservations_end_when_their_lu_is_withdrawn_or_deleted() {
    let scratch = Scratch::new("withdrawn");
    let config = with_state(&scratch, json!([]));
    let mut array = Array::start(&config);
    for (kind, next) in [("withdraw", "v"), ("delete", "v")] {
        array.manage(create(7, "v")).unwrap();
        reserve(&mut Client::login(array.portal(), 1), 7);
        let end = match kind {
            "withdraw" => json!({"kind": "withdraw", "lun": 7}),
            _ => order("delete", "v"),
        };
        array.manage(end).unwrap();
        array.manage(create(7, next)).unwrap();
        assert!(!is_reserved(&array, 7), "after {kind}");
        array.manage(json!({"kind": "withdraw", "lun": 7})).unwrap();
    }
    array.stop();
    let lus = json!([thin(7, "v", MIB)]);
    let array = Array::start(&with_state(&scratch, lus));
    assert!(!is_reserved(&array, 7), "after a restart");
}

#[test]
fn a_lun_is_reused_only_when_the_commands_of_its_old_lu_have_ended() {
    let scratch = Scratch::new("reused-lun");
    let lus = |lun| json!([thin(lun, "a", MIB), thin(1, "b", MIB)]);
    let pools = json!([pool(&scratch.join("pool"), 64)]);
    let array = Array::start(&config(lus(0), pools.clone()));
    Client::login(array.portal(), 1)
        .write_fua(1, 0, &[7; BLOCK])
        .unwrap();
    array.stop();
    // The controller holds every command for 300 ms and serves one at a time.
    let mut slow = config(lus(7), pools);
    slow["pools"][0]["groups"][0]["placement"] = json!({"group": 0, "offset_bytes": 0});
    slow["model"] = json!({
        "kind": "array",
        "controller": {"command_us": 300_000.0, "data_us_per_mib": 0.0},
        "groups": [{
            "raid": "raid0", "drives": 1, "stripe_unit_bytes": 65_536,
            "drive": {"kind": "preset", "name": "nvme-ssd-2000"},
        }],
    });
    let mut array = Array::start(&slow);
    let mut client = Client::login(array.portal(), 1);
    client.submit(7, &unmap(), unmap_data(0, (MIB / BLOCK as u64) as u32));
    let ready = client.submit(1, &[0; 6], TaskData::None);
    client.wait(ready).unwrap().result.unwrap();
    let later = client.submit(1, &read_16(0, 1), incoming(BLOCK));
    array.order(&json!({"kind": "withdraw", "lun": 7}));
    array.order(&create(7, "b"));
    let replies = array.replies(2);
    replies[0].as_ref().unwrap();
    let refused = replies[1].as_ref().unwrap_err();
    assert!(message(refused).contains("in progress"), "{refused}");
    // The controller serves the read after the UNMAP.
    client.wait(later).unwrap().result.unwrap();
    array.manage(create(7, "b")).unwrap();
    let _ = client.read(7, 0, 1); // reports that the LUNs have changed
    assert_eq!(client.read(7, 0, 1).unwrap(), [7; BLOCK]);
}

#[test]
fn a_modelled_cache_is_emptied_on_order() {
    let scratch = Scratch::new("empty-cache");
    let lus = json!([thin(0, "a", MIB)]);
    let pools = json!([pool(&scratch.join("pool"), 64)]);
    let order = json!({"kind": "empty_cache"});
    let mut plain = Array::start(&config(lus.clone(), pools.clone()));
    let nothing = json!({"dropped_bytes": 0, "write_pending_bytes": 0});
    assert_eq!(json!(plain.manage(order.clone()).unwrap()), nothing);
    plain.stop();
    let mut cached = config(lus, pools);
    cached["pools"][0]["groups"][0]["placement"] = json!({"group": 0, "offset_bytes": 0});
    cached["model"] = json!({
        "kind": "array",
        "controller": {"command_us": 5.0, "data_us_per_mib": 0.0},
        "cache": {
            "size_bytes": 1 << 20, "segment_bytes": 4096, "write": "through",
            "nonvolatile": true, "hit_us": 10.0,
        },
        "groups": [{
            "raid": "raid0", "drives": 1, "stripe_unit_bytes": 65_536,
            "drive": {"kind": "preset", "name": "nvme-ssd-2000"},
        }],
    });
    let mut array = Array::start(&cached);
    let mut client = Client::login(array.portal(), 1);
    client.write(0, 0, &[7; BLOCK]).unwrap();
    let emptied = array.manage(order.clone()).unwrap();
    assert!(
        emptied["dropped_bytes"].as_u64().unwrap() >= BLOCK as u64,
        "{emptied:?}"
    );
    assert_eq!(json!(array.manage(order).unwrap()), nothing);
    assert_eq!(client.read(0, 0, 1).unwrap(), [7; BLOCK]);
}
