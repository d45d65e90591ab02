//! Cartridges in a pool: contents, space, and what is refused.
use hakaru_wire::scsi::Sense;
use serde_json::{Value, json};

use crate::drive::{self, DRIVE, SLOT};
use crate::support::array::{Array, MIB, Scratch, config, group, pool, thin};
use crate::support::client::Client;

/// Length of a page, and of the blocks of these tests, bytes.
const PAGE: usize = 64 << 10;
const TAPE: &str = "tape-HAK001L5";
/// LUNs of the changer and the drive.
const DRIVE_LUN: u8 = 1;

fn library(scratch: &Scratch, pages: u64) -> Value {
    let mut config = config(json!([]), json!([pool(&scratch.join("pool"), pages)]));
    config["tape_library"] = json!({
        "lun": 0,
        "drives": [{"lun": DRIVE_LUN, "generation": "lto5"}],
        "slots": 2,
        "pool": "pool",
        "cartridges": [{"barcode": "HAK001L5", "slot": 1}],
        "capacity_bytes": 16 * MIB,
        "early_warning_bytes": 64 << 10,
    });
    config
}

/// Starts an array, and loads its first cartridge.
fn loaded(config: &Value) -> (Array, Client) {
    let array = Array::start(config);
    let mut client = Client::login(array.portal(), 1);
    drive::move_medium(&mut client, SLOT, DRIVE).good();
    (array, client)
}

fn block(number: usize) -> Vec<u8> {
    (0..PAGE).map(|at| (at * 7 + number) as u8).collect()
}

/// Pages that a cartridge occupies.
fn pages(array: &mut Array, volume: &str) -> u64 {
    let figures = array.pool();
    let volumes = figures["volumes"].as_array().unwrap();
    let found = volumes.iter().find(|each| each["name"] == volume);
    let mapped = found.expect("the cartridge is a volume")["mapped_bytes"].as_u64();
    mapped.unwrap() / PAGE as u64
}

#[test]
fn pages_are_allocated_by_writes_and_given_back_by_overwriting_and_erasing() {
    let scratch = Scratch::new("tape pool");
    let config = library(&scratch, 256);
    let (mut array, mut client) = loaded(&config);
    assert_eq!(pages(&mut array, TAPE), 1, "header and index");
    let written: Vec<_> = (0..40).map(|number| Some(block(number))).collect();
    for block in written.iter().flatten() {
        drive::write(&mut client, DRIVE_LUN, block).good();
    }
    drive::filemarks(&mut client, DRIVE_LUN, 0, false).good();
    // The data begins behind the index, inside a page.
    assert_eq!(pages(&mut array, TAPE), 1 + 41);
    drop(client);
    assert_eq!(array.stop(), Some(0));

    // Another library names another cartridge. The first one is found.
    let mut other = config.clone();
    other["tape_library"]["cartridges"] = json!([{"barcode": "OTHER1", "slot": 1}]);
    let array = Array::start(&other);
    let mut client = Client::login(array.portal(), 1);
    drive::move_medium(&mut client, SLOT + 1, DRIVE).good();
    assert!(drive::read_all(&mut client, DRIVE_LUN) == written);
    drop(client);
    assert_eq!(array.stop(), Some(0));

    let (mut array, mut client) = loaded(&config);
    drive::write(&mut client, DRIVE_LUN, &[7; 1000]).good();
    assert_eq!(
        pages(&mut array, TAPE),
        2,
        "a write at the beginning loses the rest"
    );
    for number in 0..8 {
        drive::write(&mut client, DRIVE_LUN, &block(number)).good();
    }
    drive::locate(&mut client, DRIVE_LUN, 1).good();
    assert_eq!(pages(&mut array, TAPE), 1 + 9);
    drive::erase(&mut client, DRIVE_LUN).good();
    assert_eq!(pages(&mut array, TAPE), 2);
    assert_eq!(
        drive::read_all(&mut client, DRIVE_LUN),
        [Some(vec![7; 1000])]
    );

    // Blocks that were not synchronised occupy nothing after a crash.
    for number in 0..8 {
        drive::write(&mut client, DRIVE_LUN, &block(number)).good();
    }
    array.kill();
    let (mut array, mut client) = loaded(&config);
    assert_eq!(
        drive::read_all(&mut client, DRIVE_LUN),
        [Some(vec![7; 1000])]
    );
    assert_eq!(pages(&mut array, TAPE), 2);
    drop(client);
    assert_eq!(array.stop(), Some(0));
}

#[test]
fn a_full_pool_is_a_write_error_and_the_tape_goes_on_once_the_pool_has_grown() {
    let scratch = Scratch::new("tape full pool");
    let (mut array, mut client) = loaded(&library(&scratch, 16));
    let mut written = Vec::new();
    let refused = loop {
        let next = block(written.len());
        let end = drive::write(&mut client, DRIVE_LUN, &next);
        if !end.done() {
            break end.sense();
        }
        written.push(Some(next));
    };
    // Neither the end of the tape, nor a write protection.
    assert_eq!(refused, Sense::WRITE_ERROR);
    assert_eq!(
        written.len(),
        14,
        "a page is the index, and one is for both ends of the data"
    );
    drive::filemarks(&mut client, DRIVE_LUN, 0, false).good();
    assert!(drive::read_all(&mut client, DRIVE_LUN) == written);

    let grow = json!({"kind": "grow", "pool": "pool", "group": group("b", 16)});
    array.manage(grow).unwrap();
    drive::write(&mut client, DRIVE_LUN, &block(99)).good();
    written.push(Some(block(99)));
    drive::filemarks(&mut client, DRIVE_LUN, 0, false).good();
    assert!(drive::read_all(&mut client, DRIVE_LUN) == written);
    drop(client);
    assert_eq!(array.stop(), Some(0));
}

#[test]
fn disks_of_the_model_are_charged_with_writes_to_tapes() {
    let scratch = Scratch::new("tape modelled pool");
    let mut config = library(&scratch, 256);
    config["pools"][0]["groups"][0]["placement"] = json!({"group": 0, "offset_bytes": 0});
    config["model"] = json!({
        "kind": "array",
        "controller": {"command_us": 5.0, "data_us_per_mib": 0.0},
        "groups": [{
            "raid": "raid0", "drives": 2, "stripe_unit_bytes": 65_536,
            "drive": {"kind": "preset", "name": "nvme-ssd-2000"},
        }],
    });
    let (mut array, mut client) = loaded(&config);
    let written = |array: &mut Array| array.sample()["group/0"]["write_bytes"].as_f64().unwrap();
    let before = written(&mut array);
    for number in 0..4 {
        drive::write(&mut client, DRIVE_LUN, &block(number)).good();
    }
    drive::filemarks(&mut client, DRIVE_LUN, 0, false).good();
    assert!(written(&mut array) - before >= 4.0 * PAGE as f64);
    drop(client);
    assert_eq!(array.stop(), Some(0));
}

fn refusal(config: &Value) -> (String, String) {
    let (event, code) = Array::try_start(config).err().expect("it is refused");
    assert!(matches!(code, Some(2 | 3)), "{code:?} {event}");
    let text = |name: &str| event[name].as_str().expect("a text").to_owned();
    (text("message"), text("hint"))
}

#[test]
fn a_volume_is_a_cartridge_or_a_disk() {
    let scratch = Scratch::new("tape volumes");
    let config = library(&scratch, 16);
    let mut array = Array::start(&config);
    for (action, why) in [
        (
            json!({"kind": "delete", "pool": "pool", "volume": TAPE}),
            "is a cartridge",
        ),
        (
            json!({"kind": "resize", "pool": "pool", "volume": TAPE, "size_bytes": 1_u64 << 40}),
            "is a cartridge",
        ),
        (
            json!({"kind": "create", "lu": thin(9, TAPE, 1 << 40)}),
            "is a cartridge",
        ),
    ] {
        let refused = array.manage(action).unwrap_err();
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains(why), "{message}");
    }
    // A copy of a cartridge is a volume like any other.
    let snapshot = json!({"kind": "snapshot", "pool": "pool", "volume": TAPE, "name": "copy"});
    array.manage(snapshot).unwrap();
    assert_eq!(array.stop(), Some(0));

    let mut disk = config.clone();
    disk["lus"] = json!([thin(9, TAPE, 1 << 40)]);
    let (message, hint) = refusal(&disk);
    assert!(
        message.contains("the volume \"tape-HAK001L5\" of LUN 9 is a cartridge"),
        "{message}"
    );
    assert!(hint.contains("another volume"), "{hint}");
    let mut more = config.clone();
    more["tape_library"]["slots"] = json!(1);
    more["tape_library"]["cartridges"] = json!([{"barcode": "OTHER1", "slot": 1}]);
    let (message, hint) = refusal(&more);
    assert!(
        message.contains("no slot for HAK001L5, which is in pool \"pool\""),
        "{message}"
    );
    assert!(hint.contains("raise `slots`"), "{hint}");
}

#[test]
fn a_pool_without_a_page_for_a_new_cartridge_is_refused() {
    let scratch = Scratch::new("tape small pool");
    let mut config = library(&scratch, 1);
    config["tape_library"]["cartridges"] =
        json!([{"barcode": "HAK001L5", "slot": 1}, {"barcode": "HAK002L5", "slot": 2}]);
    let (message, hint) = refusal(&config);
    assert!(
        message.contains("HAK002L5 in pool \"pool\": the pool is full"),
        "{message}"
    );
    assert!(hint.contains("grow the pool"), "{hint}");
    // The creation that was interrupted is repeated once there is space.
    config["pools"][0]["groups"] = json!([group("a", 1), group("b", 8)]);
    assert_eq!(Array::start(&config).stop(), Some(0));
}
