//! Export and import in the format of SIMH.
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::drive::{self, DRIVE, SLOT};
use crate::support::array::{Array, Scratch, config, engine, pool};
use crate::support::client::Client;

fn tape(arguments: &[&Path], verb: &str, more: &[&str]) -> Result<Value, (String, Option<i32>)> {
    let done = Command::new(engine())
        .arg(verb)
        .args(arguments)
        .args(more)
        .output()
        .unwrap();
    if done.status.success() {
        return Ok(serde_json::from_slice(&done.stdout).unwrap());
    }
    let error = String::from_utf8(done.stderr).unwrap();
    Err((error, done.status.code()))
}

fn library(folder: &Path) -> Value {
    let mut config = config(json!([]), json!([]));
    config["tape_library"] = json!({
        "lun": 0,
        "drives": [{"lun": 1, "generation": "lto5"}],
        "slots": 3,
        "folder": folder,
        "cartridges": [{"barcode": "HAK001L5", "slot": 1}],
        "capacity_bytes": 64 << 20,
        "early_warning_bytes": 64 << 10,
    });
    config
}

#[test]
fn a_tape_is_exported_and_imported_byte_for_byte() {
    let scratch = Scratch::new("tape tap");
    let folder = scratch.join("tapes");
    let (first, tap) = (folder.join("HAK001L5.tape"), scratch.join("one.tap"));
    let array = Array::start(&library(&folder));
    let mut client = Client::login(array.portal(), 1);
    drive::move_medium(&mut client, SLOT, DRIVE).good();
    let mut objects = Vec::new();
    for number in 0..40_u32 {
        let block: Vec<u8> = (0..number * 997 % 60_000 + 1)
            .map(|at| (at ^ number) as u8)
            .collect();
        drive::write(&mut client, 1, &block).good();
        objects.push(Some(block));
        if number % 9 == 0 {
            drive::filemarks(&mut client, 1, 2, false).good();
            objects.extend([None, None]);
        }
    }
    let in_use = tape(&[&first, &tap], "export-tape", &[]).unwrap_err();
    assert!(
        in_use.0.contains("stop the array that uses it"),
        "{}",
        in_use.0
    );
    drop(client);
    assert_eq!(array.stop(), Some(0));

    let bytes: usize = objects.iter().flatten().map(Vec::len).sum();
    let figures = tape(&[&first, &tap], "export-tape", &[]).unwrap();
    let expected =
        json!({"blocks": 40, "filemarks": 10, "bytes": bytes, "cartridge": first, "tap": tap});
    assert_eq!(figures, expected);
    // The format, as any other program reads it.
    let written = fs::read(&tap).unwrap();
    assert_eq!(written[..14], [1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(written[written.len() - 4..], [0xff; 4]);

    let second = folder.join("COPY.tape");
    let mut figures = tape(&[&tap, &second], "import-tape", &["--capacity", "67108864"]).unwrap();
    figures["cartridge"] = json!(first);
    assert_eq!(figures, expected);
    let again = tape(&[&tap, &second], "import-tape", &[]).unwrap_err();
    assert!(
        again.0.contains("COPY.tape") && again.0.contains("exists"),
        "{}",
        again.0
    );
    let again = tape(&[&first, &tap], "export-tape", &[]).unwrap_err();
    assert!(
        again.0.contains("one.tap") && again.0.contains("exists"),
        "{}",
        again.0
    );

    let array = Array::start(&library(&folder));
    let mut client = Client::login(array.portal(), 1);
    drive::move_medium(&mut client, SLOT + 1, DRIVE).good();
    assert!(drive::read_all(&mut client, 1) == objects);
    // It can be written as any other one.
    drive::write(&mut client, 1, &[5; 100]).good();
    drive::move_medium(&mut client, DRIVE, SLOT + 1).good();
    drop(client);
    assert_eq!(array.stop(), Some(0));
}

#[test]
fn damaged_files_are_refused_and_leave_nothing() {
    let scratch = Scratch::new("tape tap damage");
    let (tap, cartridge) = (scratch.join("one.tap"), scratch.join("A1.tape"));
    let block = [3, 0, 0, 0, 1, 2, 3, 0, 3, 0, 0, 0];
    let bad = [3, 0, 0, 0x80, 1, 2, 3, 0, 3, 0, 0, 0x80];
    for (bytes, fault) in [
        (&block[..10], "it ends inside the block at byte 0"),
        (&block[..3], "it ends inside the block at byte 0"),
        (
            &[block, [3, 0, 0, 0, 1, 2, 3, 0, 4, 0, 0, 0]].concat(),
            "3 bytes before it, and 4 behind it (at byte 12)",
        ),
        (&bad[..], "was read with an error"),
        (
            &[0, 0, 0, 0x20],
            "the marker 20000000h is not defined (at byte 0)",
        ),
        (&[0, 0, 0, 2], "the block has 33554432 bytes"),
    ] {
        fs::write(&tap, bytes).unwrap();
        let (error, code) = tape(&[&tap, &cartridge], "import-tape", &[]).unwrap_err();
        assert!(error.contains(fault), "{error}");
        assert!(error.contains("no cartridge was created"), "{error}");
        assert_eq!(code, Some(3));
        assert!(!cartridge.exists());
    }
    // Without an end marker, the tape ends with the file.
    fs::write(&tap, [&block[..], &[0; 4]].concat()).unwrap();
    let small = tape(&[&tap, &cartridge], "import-tape", &["--capacity", "4096"]).unwrap_err();
    assert!(
        small.0.contains("the capacity is 4096 bytes"),
        "{}",
        small.0
    );
    let named = tape(&[&tap, &scratch.join("a.tape")], "import-tape", &[]).unwrap_err();
    assert!(
        named.0.contains("not the name of a cartridge"),
        "{}",
        named.0
    );
    let figures = tape(&[&tap, &cartridge], "import-tape", &[]).unwrap();
    assert_eq!(
        (&figures["blocks"], &figures["filemarks"]),
        (&json!(1), &json!(1))
    );
    let absent = tape(
        &[&scratch.join("B.tape"), &scratch.join("b.tap")],
        "export-tape",
        &[],
    );
    assert!(absent.unwrap_err().0.contains("B.tape"));
    assert!(!scratch.join("B.tape").exists());
}

/// The cartridge of a pool is named by its barcode in the directory of the pool.
#[test]
fn cartridges_of_a_pool_are_exported_and_imported() {
    let scratch = Scratch::new("tape tap pool");
    let directory = scratch.join("pool");
    let (first, second) = (
        directory.join("HAK001L5.tape"),
        directory.join("COPY1.tape"),
    );
    let (one, two) = (scratch.join("one.tap"), scratch.join("two.tap"));
    let mut config = config(json!([]), json!([pool(&directory, 256)]));
    config["tape_library"] = json!({
        "lun": 0,
        "drives": [{"lun": 1, "generation": "lto5"}],
        "slots": 3,
        "pool": "pool",
        "cartridges": [{"barcode": "HAK001L5", "slot": 1}],
        "capacity_bytes": 64 << 20,
        "early_warning_bytes": 64 << 10,
    });
    let array = Array::start(&config);
    let mut client = Client::login(array.portal(), 1);
    drive::move_medium(&mut client, SLOT, DRIVE).good();
    let objects = [Some(vec![7; 3001]), None, Some(vec![8; 60_000]), None, None];
    for object in &objects {
        match object {
            Some(block) => drive::write(&mut client, 1, block).good(),
            None => drive::filemarks(&mut client, 1, 1, false).good(),
        };
    }
    let (in_use, code) = tape(&[&first, &one], "export-tape", &[]).unwrap_err();
    assert!(
        in_use.contains("stop the process that uses the pool"),
        "{in_use}"
    );
    assert_eq!(code, Some(3));
    drop(client);
    assert_eq!(array.stop(), Some(0));

    let figures = tape(&[&first, &one], "export-tape", &[]).unwrap();
    assert_eq!(
        (&figures["blocks"], &figures["filemarks"]),
        (&json!(2), &json!(3))
    );
    tape(&[&one, &second], "import-tape", &["--capacity", "67108864"]).unwrap();
    tape(&[&second, &two], "export-tape", &[]).unwrap();
    assert!(fs::read(&one).unwrap() == fs::read(&two).unwrap());
    let (exists, _) = tape(&[&one, &second], "import-tape", &[]).unwrap_err();
    assert!(exists.contains("COPY1 exists"), "{exists}");
    let third = directory.join("THIRD1.tape");
    let (absent, _) = tape(&[&third, &scratch.join("three.tap")], "export-tape", &[]).unwrap_err();
    assert!(absent.contains("no cartridge THIRD1"), "{absent}");

    let array = Array::start(&config);
    let mut client = Client::login(array.portal(), 1);
    drive::move_medium(&mut client, SLOT + 1, DRIVE).good();
    assert_eq!(drive::read_all(&mut client, 1), objects);
    drop(client);
    assert_eq!(array.stop(), Some(0));
}
