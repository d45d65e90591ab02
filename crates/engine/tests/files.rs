//! LUs in files, and pools on full file systems, over real iSCSI.
mod support;

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::array::{Array, MIB, Scratch, check, config, file_size_limit, pool, thin};
use support::client::{BLOCK, Client, NO_SPACE, sense};

const KIB: usize = 1 << 10;

fn in_file(lun: u8, path: &std::path::Path, size_bytes: u64, direct: bool) -> Value {
    json!({
        "lun": lun,
        "size_bytes": size_bytes,
        "thin": true,
        "store": {"kind": "file", "path": path, "direct": direct},
    })
}

#[test]
fn a_file_keeps_written_data_and_frees_unmapped_space_with_and_without_the_page_cache() {
    let scratch = Scratch::new("files");
    for direct in [false, true] {
        let path = scratch.join(&format!("file-{direct}"));
        let config = config(json!([in_file(0, &path, 1 << 30, direct)]), json!([]));
        let mut array = Array::start(&config);
        let mut client = Client::login(array.portal(), 1);
        let data: Vec<u8> = (0..256 * KIB).map(|at| (at / BLOCK) as u8 | 1).collect();
        client.write(0, 2048, &data).unwrap();
        client.write_fua(0, 2048 + 512, &data[..3 * BLOCK]).unwrap();
        client.flush(0).unwrap();
        assert!(
            client.read(0, 2048, 512).unwrap() == data,
            "direct: {direct}"
        );
        let mapped =
            |array: &mut Array| array.sample()["lu/0"]["mapped_bytes_now"].as_f64().unwrap();
        let before = mapped(&mut array);
        assert!(before >= 256.0 * 1024.0);
        // 64 KiB, and a part of a block of the file system at each end.
        client.unmap(0, 2048 + 128 - 1, 128 + 2).unwrap();
        assert!(
            mapped(&mut array) <= before - 64.0 * 1024.0,
            "direct: {direct}"
        );
        let read = client.read(0, 2048, 512).unwrap();
        for (at, block) in read.chunks(BLOCK).enumerate() {
            let unmapped = (127..257).contains(&at);
            let written = &data[at * BLOCK..][..BLOCK];
            assert!(
                block == if unmapped { &[0; BLOCK] } else { written },
                "block {at}, direct: {direct}"
            );
        }
        let status = client.lba_status(0, 2048);
        assert_eq!((status[0].0, status[0].2), (2048, 0), "mapped");
        assert_eq!(status[1].2, 1, "deallocated");
        client
            .write_same(0, (4096, 3000), &[9; BLOCK], false)
            .unwrap();
        client
            .write_same(0, (4100, 100), &[0; BLOCK], false)
            .unwrap();
        let read = client.read(0, 4095, 200).unwrap();
        for (at, block) in read.chunks(BLOCK).enumerate() {
            let byte = if at == 0 || (5..105).contains(&at) {
                0
            } else {
                9
            };
            assert!(
                block.iter().all(|b| *b == byte),
                "block {at}, direct: {direct}"
            );
        }
        drop(client);
        assert_eq!(array.stop(), Some(0));
        let array = Array::start(&config);
        let mut client = Client::login(array.portal(), 1);
        assert!(client.read(0, 2048 + 512, 3).unwrap() == data[..3 * BLOCK]);
        assert_eq!(client.read(0, 4096 + 2999, 1).unwrap(), [9; BLOCK]);
        drop(array);
    }
}

#[test]
fn an_lu_may_have_more_blocks_than_32_bits_count() {
    let scratch = Scratch::new("large");
    let lus = json!([
        in_file(0, &scratch.join("file"), 8 << 40, false),
        {"lun": 1, "size_bytes": 64_u64 << 40, "store": {"kind": "memory"}, "thin": true},
    ]);
    let array = Array::start(&config(lus, json!([])));
    let mut client = Client::login(array.portal(), 1);
    for (lun, size) in [(0, 8_u64 << 40), (1, 64 << 40)] {
        let last = size / BLOCK as u64 - 1;
        assert_eq!(client.blocks(lun), last + 1);
        client.write(lun, last, &[7; BLOCK]).unwrap();
        client.write(lun, last & 0xffff_ffff, &[8; BLOCK]).unwrap();
        assert_eq!(client.read(lun, last, 1).unwrap(), [7; BLOCK]);
        assert_eq!(client.read(lun, last & 0xffff_ffff, 1).unwrap(), [8; BLOCK]);
    }
}

/// Prepares a file system of `size_bytes` at `small`, visible only in a private namespace. Returns
/// the command that runs another command in the namespace, or `None` if this machine does not
/// permit the mount.
fn small_file_system(scratch: &Scratch, size_bytes: u64) -> Option<Vec<String>> {
    let mount_point = scratch.join("small");
    std::fs::create_dir_all(&mount_point).unwrap();
    let script = format!(
        "mount -t tmpfs -o size={size_bytes} tmpfs {} && exec \"$@\"",
        mount_point.display()
    );
    let inside: Vec<String> = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        &script,
        "sh",
    ]
    .map(str::to_owned)
    .to_vec();
    let tried = Command::new(&inside[0])
        .args(&inside[1..])
        .arg("true")
        .output();
    if tried.is_ok_and(|tried| tried.status.success()) {
        return Some(inside);
    }
    eprintln!(
        "skipped: mounting a file system in a private namespace is not permitted on this machine"
    );
    None
}

#[test]
fn a_full_file_system_under_an_lu_is_reported_as_missing_space_not_as_a_medium_error() {
    let scratch = Scratch::new("enospc");
    let Some(inside) = small_file_system(&scratch, 16 * MIB) else {
        return;
    };
    let small = scratch.join("small");
    let lus = json!([
        in_file(0, &small.join("file"), 64 * MIB, false),
        thin(1, "v", 64 * MIB)
    ]);
    // The pool has a capacity of 60 pages, but the file system has room for fewer.
    let pools = json!([pool(&small.join("pool"), 60)]);
    let array = Array::start_inside(&inside, &config(lus, pools));
    let mut client = Client::login(array.portal(), 1);
    let page = vec![7; 64 * KIB];
    // The thin LU is written first, so that it has space. The file then uses the rest.
    for at in 0..8 {
        client.write(1, at * 128, &page).unwrap();
    }
    client.flush(1).unwrap();
    let mut written = 0;
    // Even a write that fits in part is answered at once, not only when another event wakes the
    // array.
    let mut longest = Duration::ZERO;
    let mut timed = |lun, at| {
        let began = Instant::now();
        let answer = client.write(lun, at, &page);
        longest = longest.max(began.elapsed());
        answer
    };
    while timed(0, written * 128).is_ok() {
        written += 1;
        assert!(written < 256, "16 MiB hold at most 256 pages of 64 KiB");
    }
    assert_eq!(sense(timed(0, written * 128)), NO_SPACE);
    assert_eq!(sense(timed(1, 40 * 128)), NO_SPACE);
    // The array wakes up by itself every 5 s.
    assert!(longest < Duration::from_secs(4), "{longest:?}");
    // Writes to allocated space succeed, and no acknowledged write is lost.
    client.write(1, 0, &page).unwrap();
    client.write(0, 0, &page).unwrap();
    for at in 0..8 {
        assert!(client.read(1, at * 128, 128).unwrap() == page);
    }
    for at in 0..written {
        assert!(client.read(0, at * 128, 128).unwrap() == page);
    }
    // With space free again, the thin LU can allocate.
    client.unmap(0, 0, 512).unwrap();
    client.write(1, 40 * 128, &page).unwrap();
    client.flush(1).unwrap();
    assert!(client.read(1, 40 * 128, 128).unwrap() == page);
}

#[test]
fn pieces_of_a_thin_lu_are_charged_to_the_drives_of_their_groups() {
    let scratch = Scratch::new("modelled");
    let directory = scratch.join("pool");
    let mut pools = json!([pool(&directory, 16)]);
    pools[0]["groups"] = json!([
        {"name": "a", "size_bytes": MIB, "placement": {"group": 0, "offset_bytes": 0}},
        {"name": "b", "size_bytes": MIB, "placement": {"group": 1, "offset_bytes": MIB}},
    ]);
    let group = json!({
        "raid": "raid0", "drives": 1, "stripe_unit_bytes": 65_536,
        "drive": {"kind": "preset", "name": "sas-15k-146"},
    });
    let mut config = config(json!([thin(0, "v", 64 * MIB)]), pools);
    config["model"] = json!({
        "kind": "array",
        "controller": {"command_us": 10.0, "data_us_per_mib": 0.0},
        "groups": [group, group],
    });
    let mut array = Array::start(&config);
    let mut client = Client::login(array.portal(), 1);
    client.write(0, 0, &vec![7; 256 * KIB]).unwrap();
    assert_eq!(client.read(0, 0, 512).unwrap(), vec![7; 256 * KIB]);
    client.flush(0).unwrap();
    let order = json!({"kind": "snapshot", "pool": "pool", "volume": "v", "name": "s"});
    array.manage(order).unwrap();
    client.write(0, 0, &[9; BLOCK]).unwrap();
    assert_eq!(client.read(0, 0, 2).unwrap()[..BLOCK], [9; BLOCK]);
    assert_eq!(client.read(0, 100_000, 8).unwrap(), vec![0; 8 * BLOCK]);
    let counters = array.sample();
    let sum =
        |name: &str| ["group/0", "group/1"].map(|group| counters[group][name].as_f64().unwrap());
    // 256 KiB written and read, one page copied, one block written to it, two blocks read.
    let [a, b] = sum("write_bytes");
    assert_eq!(a + b, (256.0 + 64.0 + 0.5) * 1024.0);
    assert!(a > 0.0 && b > 0.0, "both groups carry load: {a}, {b}");
    let [a, b] = sum("read_bytes");
    assert_eq!(a + b, (256.0 + 64.0 + 1.0) * 1024.0);
    drop(client);
    assert_eq!(array.stop(), Some(0));
    assert_eq!(check(&directory).1, Some(0));
}

/// Returns message and hint with which the engine refuses an LU. The size of files is limited to
/// 64 MiB.
fn refused(lu: Value) -> (String, String) {
    let inside = file_size_limit(64 * MIB);
    let (error, code) = Array::try_start_inside(&inside, &config(json!([lu]), json!([])))
        .err()
        .expect("the LU is refused");
    let text = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
    assert!(matches!(code, Some(2 | 3)), "{code:?} {error}");
    (text("message"), text("hint"))
}

#[test]
fn a_file_of_another_size_than_the_lu_is_used_only_with_adopt() {
    let scratch = Scratch::new("adopt");
    let notes = scratch.join("notes.txt");
    std::fs::write(&notes, "remember the milk").unwrap();
    let mut lu = in_file(0, &notes, MIB, false);
    let (message, hint) = refused(lu.clone());
    assert!(
        message.contains("notes.txt") && message.contains("17 bytes"),
        "{message}"
    );
    assert!(hint.contains("adopt"), "{hint}");
    assert_eq!(std::fs::read(&notes).unwrap(), b"remember the milk");
    lu["size_bytes"] = json!(512);
    std::fs::write(&notes, [7; 4096]).unwrap();
    refused(lu.clone());
    lu["store"]["adopt"] = json!(true);
    Array::start(&config(json!([lu]), json!([]))).stop();
    assert_eq!(
        std::fs::read(&notes).unwrap(),
        [7; 4096],
        "the length of the file is unchanged"
    );
    // The same holds for a changed size of an LU in its file.
    lu["size_bytes"] = json!(MIB);
    lu["store"]["adopt"] = json!(false);
    refused(lu.clone());
    lu["store"]["adopt"] = json!(true);
    Array::start(&config(json!([lu.clone()]), json!([]))).stop();
    assert_eq!(std::fs::metadata(&notes).unwrap().len(), MIB);
    // An image of exactly that size and an empty file do not require `adopt`.
    lu["store"]["adopt"] = json!(false);
    Array::start(&config(json!([lu.clone()]), json!([]))).stop();
    std::fs::write(&notes, "").unwrap();
    Array::start(&config(json!([lu]), json!([]))).stop();
    assert_eq!(std::fs::metadata(&notes).unwrap().len(), MIB);
}

#[test]
fn an_unusable_path_is_refused_with_its_field_and_a_fitting_hint() {
    let scratch = Scratch::new("paths");
    std::fs::create_dir(scratch.join("directory")).unwrap();
    std::fs::write(scratch.join("file"), "").unwrap();
    let cases = [
        (scratch.join("directory"), "directory", "file inside"),
        (
            scratch.join("missing/lu"),
            "No such file",
            "create the directory",
        ),
        (scratch.join("file/lu"), "Not a directory", "folder"),
        (
            "/dev/null".into(),
            "neither a file nor a block device",
            "block device",
        ),
    ];
    for (path, problem, advice) in cases {
        let (message, hint) = refused(in_file(5, &path, MIB, false));
        assert!(message.starts_with("lus[0].store.path: "), "{message}");
        assert!(
            message.contains(problem) && message.contains(path.to_str().unwrap()),
            "{message}"
        );
        assert!(hint.contains(advice), "{message}: {hint}");
    }
    let (message, hint) = refused(in_file(5, &scratch.join("large"), 65 * MIB, false));
    assert!(message.contains("File too large"), "{message}");
    assert!(hint.contains("smaller"), "{hint}");
    assert!(!scratch.join("large").exists(), "the file is removed");
}
