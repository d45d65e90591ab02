//! A folder of cartridges across arrays.
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::drive::{self, DRIVE, SLOT};
use crate::support::array::{Array, Scratch, config};
use crate::support::client::{Client, incoming};

fn library(folder: &Path, cartridges: Value) -> Value {
    let mut config = config(json!([]), json!([]));
    config["tape_library"] = json!({
        "lun": 0,
        "drives": [{"lun": 1, "generation": "lto5"}],
        "slots": 3,
        "folder": folder,
        "cartridges": cartridges,
        "capacity_bytes": 4 << 20,
        "early_warning_bytes": 64 << 10,
    });
    config
}

fn named(barcode: &str) -> Value {
    json!([{"barcode": barcode, "slot": 1}])
}

fn refusal(config: &Value) -> (String, String) {
    let (event, code) = Array::try_start(config).err().expect("it is refused");
    assert!(matches!(code, Some(2 | 3)), "{code:?} {event}");
    let text = |name: &str| event[name].as_str().expect("a text").to_owned();
    (text("message"), text("hint"))
}

/// Returns the barcode in each slot.
fn barcodes(client: &mut Client) -> Vec<String> {
    // READ ELEMENT STATUS of the slots, with volume tags.
    let cdb = [0xb8, 0x12, 4, 0, 0, 3, 0, 0, 4, 0, 0, 0];
    let data = drive::run(client, 0, &cdb, || incoming(1024)).good();
    let length = usize::from(u16::from_be_bytes([data[10], data[11]]));
    let elements = data[16..].chunks(length).take(3);
    elements
        .map(|element| {
            let tag = String::from_utf8_lossy(&element[12..44]);
            tag.trim_matches([' ', '\0']).to_owned()
        })
        .collect()
}

#[test]
fn cartridges_are_found_again_with_contents_barcodes_and_write_protection() {
    let scratch = Scratch::new("tape folder");
    let folder = scratch.join("tapes");
    let array = Array::start(&library(&folder, named("HAK001L5")));
    let mut client = Client::login(array.portal(), 1);
    drive::move_medium(&mut client, SLOT, DRIVE).good();
    drive::write(&mut client, 1, &[7; 3000]).good();
    drive::filemarks(&mut client, 1, 1, true).good();
    drive::write(&mut client, 1, &[8; 5]).good();
    // Nothing was synchronised; the end of the array does it.
    drop(client);
    assert_eq!(array.stop(), Some(0));

    // Another library names another cartridge, and protects none. The first one is found.
    let other = json!([{"barcode": "OTHER1", "slot": 1, "write_protected": true}]);
    let array = Array::start(&library(&folder, other));
    let mut client = Client::login(array.portal(), 1);
    assert_eq!(barcodes(&mut client), ["OTHER1", "HAK001L5", ""]);
    drive::move_medium(&mut client, SLOT + 1, DRIVE).good();
    let expected = [Some(vec![7; 3000]), None, Some(vec![8; 5])];
    assert_eq!(drive::read_all(&mut client, 1), expected);
    drop(client);
    assert_eq!(array.stop(), Some(0));

    // The tab of a cartridge stays set.
    let array = Array::start(&library(&folder, json!([])));
    let mut client = Client::login(array.portal(), 1);
    assert_eq!(barcodes(&mut client), ["HAK001L5", "OTHER1", ""]);
    drive::move_medium(&mut client, SLOT + 1, DRIVE).good();
    let refused = drive::write(&mut client, 1, &[1; 10]).sense();
    assert_eq!(refused, hakaru_wire::scsi::Sense::WRITE_PROTECTED);
    drop(client);
    assert_eq!(array.stop(), Some(0));
}

#[test]
fn generation_of_a_cartridge_is_kept_and_cannot_change() {
    let scratch = Scratch::new("tape generation");
    let folder = scratch.join("tapes");
    let of = |generation| {
        let cartridge = json!({"barcode": "HAK001L4", "slot": 1, "generation": generation});
        library(&folder, json!([cartridge]))
    };
    assert_eq!(Array::start(&of("lto4")).stop(), Some(0));
    let (message, hint) = refusal(&of("lto5"));
    let expected = "HAK001L4 is an LTO-4 cartridge, not one of LTO-5";
    assert!(message.contains(expected), "{message}");
    assert!(hint.contains("correct its `generation`"), "{hint}");

    // An array that does not name the cartridge finds it, and its LTO-6 drive only reads it.
    let mut config = library(&folder, json!([]));
    config["tape_library"]["drives"][0]["generation"] = json!("lto6");
    let array = Array::start(&config);
    let mut client = Client::login(array.portal(), 1);
    drive::move_medium(&mut client, SLOT, DRIVE).good();
    let refused = drive::write(&mut client, 1, &[1; 10]).sense();
    let read_only = hakaru_wire::scsi::Sense::CANNOT_WRITE_MEDIUM_INCOMPATIBLE_FORMAT;
    assert_eq!(refused, read_only);
    drop(client);
    assert_eq!(array.stop(), Some(0));
}

#[test]
fn a_cartridge_is_used_by_one_array() {
    let scratch = Scratch::new("tape lock");
    let config = library(&scratch.join("tapes"), named("HAK001L5"));
    let first = Array::start(&config);
    let (message, hint) = refusal(&config);
    assert!(message.contains("HAK001L5.tape"), "{message}");
    assert!(hint.contains("stop the array that uses it"), "{hint}");
    assert_eq!(first.stop(), Some(0));
    assert_eq!(Array::start(&config).stop(), Some(0));
}

#[test]
fn damaged_and_foreign_files_are_refused_and_not_changed() {
    let scratch = Scratch::new("tape damage");
    let folder = scratch.join("tapes");
    let path = folder.join("HAK001L5.tape");
    let config = library(&folder, named("HAK001L5"));
    let array = Array::start(&config);
    let mut client = Client::login(array.portal(), 1);
    drive::move_medium(&mut client, SLOT, DRIVE).good();
    drive::write(&mut client, 1, &[7; 3000]).good();
    drop(client);
    assert_eq!(array.stop(), Some(0));

    let sound = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let damage = |offset: u64| {
        let mut byte = [0];
        fs::File::open(&path)
            .unwrap()
            .read_exact_at(&mut byte, offset)
            .unwrap();
        sound.write_all_at(&[byte[0] ^ 1], offset).unwrap();
    };
    for (offset, fault) in [
        (3, "not a cartridge"),
        (20, "checksum of its header"),
        (4096 + 30, "a record of its index is damaged (at byte 4096)"),
        (
            4096 + 512 + 60,
            "a record of its index is damaged (at byte 4608)",
        ),
    ] {
        damage(offset);
        let (message, hint) = refusal(&config);
        assert!(message.contains(fault), "{message}");
        assert!(hint.contains("nothing was changed"), "{hint}");
        damage(offset);
    }
    let length = fs::metadata(&path).unwrap().len();
    sound.set_len(length - 512).unwrap();
    let (message, _) = refusal(&config);
    assert!(message.contains("its end is missing"), "{message}");
    sound.set_len(length).unwrap();

    fs::rename(&path, folder.join("RENAMED.tape")).unwrap();
    let (message, hint) = refusal(&library(&folder, json!([])));
    assert!(message.contains("has the barcode HAK001L5"), "{message}");
    assert!(hint.contains("rename"), "{hint}");
    fs::rename(folder.join("RENAMED.tape"), &path).unwrap();

    fs::write(folder.join("A.tape"), b"a text").unwrap();
    let (message, _) = refusal(&config);
    assert!(message.contains("A.tape: it is"), "{message}");
    fs::remove_file(folder.join("A.tape")).unwrap();
    for number in 0..3 {
        fs::write(folder.join(format!("B{number}.tape")), b"").unwrap();
    }
    let (message, hint) = refusal(&config);
    assert!(message.contains("there is no slot for B2"), "{message}");
    assert!(hint.contains("raise `slots`"), "{hint}");
}

/// The creation of a cartridge that was interrupted is begun again.
#[test]
fn an_interrupted_creation_is_repeated() {
    let scratch = Scratch::new("tape creation");
    let folder = scratch.join("tapes");
    fs::create_dir(&folder).unwrap();
    let path = folder.join("HAK001L5.tape");
    let config = library(&folder, named("HAK001L5"));
    assert_eq!(Array::start(&config).stop(), Some(0));
    let whole = fs::read(&path).unwrap();
    for kept in [0, 100, 4096 + 512] {
        let mut partly = vec![0; 512];
        partly.extend_from_slice(&whole[512..]);
        partly.truncate(kept);
        fs::write(&path, &partly).unwrap();
        assert_eq!(Array::start(&config).stop(), Some(0));
        assert!(fs::read(&path).unwrap() == whole);
    }
}
