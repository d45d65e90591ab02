//! Thin LUs of the real engine over real iSCSI, as initiators and operators see them.
mod support;

use serde_json::json;
use support::array::{Array, MIB, Scratch, check, config, pool, thin};
use support::client::{BLOCK, Client, sense};

/// Bytes of a page.
const PAGE: u64 = 64 << 10;
/// Blocks of a page.
const PAGE_BLOCKS: u64 = PAGE / BLOCK as u64;

/// Returns `count` blocks from block `first` on, each filled with its number.
fn blocks(first: u64, count: usize) -> Vec<u8> {
    (first..first + count as u64)
        .flat_map(|n| n.to_be_bytes().repeat(BLOCK / 8))
        .collect()
}

#[test]
fn written_data_is_read_and_the_rest_is_zeros_even_after_a_restart_and_a_crash() {
    let scratch = Scratch::new("restart");
    for direct in [false, true] {
        let mut pools = json!([pool(&scratch.join(&format!("pool-{direct}")), 64)]);
        pools[0]["direct"] = json!(direct);
        let config = config(json!([thin(3, "v", 1 << 40)]), pools);
        let array = Array::start(&config);
        let mut client = Client::login(array.portal(), 1);
        // In the middle, across the border of two pages, at the end of the TiB, over several pages.
        let ranges = [
            (77, 8),
            (PAGE_BLOCKS * 9 - 3, 7),
            ((1 << 31) - 1, 1),
            (PAGE_BLOCKS * 40, 512),
        ];
        for (lba, count) in ranges {
            client.write(3, lba, &blocks(lba, count)).unwrap();
        }
        client.flush(3).unwrap();
        client.write_fua(3, 5000, &blocks(5000, 1)).unwrap();
        client.write(3, 9000, &blocks(9000, 1)).unwrap();
        let verify = |client: &mut Client, stage: &str| {
            for (lba, count) in ranges {
                let read = client.read(3, lba, count as u32).unwrap();
                assert!(read == blocks(lba, count), "{stage}: at {lba}");
                assert_eq!(
                    client.read(3, lba - 1, 1).unwrap(),
                    vec![0; BLOCK],
                    "{stage}: before {lba}"
                );
            }
            let read = client.read(3, 5000, 1).unwrap();
            assert!(read == blocks(5000, 1), "{stage}: FUA");
        };
        verify(&mut client, "at once");
        array.kill();
        let array = Array::start(&config);
        let mut client = Client::login(array.portal(), 1);
        verify(&mut client, "after a crash");
        client.write(3, 9000, &blocks(9000, 1)).unwrap();
        assert_eq!(array.stop(), Some(0));
        let array = Array::start(&config);
        let mut client = Client::login(array.portal(), 1);
        verify(&mut client, "after a restart");
        let read = client.read(3, 9000, 1).unwrap();
        assert!(
            read == blocks(9000, 1),
            "a clean stop loses no data, flushed or not"
        );
        drop(array);
    }
}

#[test]
fn the_soft_threshold_is_reported_once_to_each_initiator_and_the_log_page_agrees() {
    let scratch = Scratch::new("threshold");
    let mut array = Array::start(&config(
        json!([thin(0, "a", 64 * MIB)]),
        json!([pool(&scratch.join("pool"), 20)]),
    ));
    let mut clients = [1, 2, 3].map(|number| Client::login(array.portal(), number));
    for client in &mut clients {
        // The unit attention condition that follows a login.
        while client.attention(0) != (0, 0, 0) {}
    }
    for page in 0..13 {
        clients[0]
            .write(0, page * PAGE_BLOCKS, &blocks(page, 1))
            .unwrap();
        assert_eq!(clients[0].attention(0), (0, 0, 0), "page {page}");
    }
    // 14 of 20 pages are 70 %.
    clients[0]
        .write(0, 13 * PAGE_BLOCKS, &blocks(13, 1))
        .unwrap();
    for client in &mut clients {
        assert_eq!(client.attention(0), (0x6, 0x38, 0x07));
        assert_eq!(client.attention(0), (0, 0, 0));
    }
    clients[0]
        .write(0, 14 * PAGE_BLOCKS, &blocks(14, 1))
        .unwrap();
    for client in &mut clients {
        assert_eq!(client.attention(0), (0, 0, 0));
    }
    // The log page counts threshold sets, whose size VPD page B2h reports. The ratio does not
    // depend on the size.
    let log = clients[1].log_provisioning(0);
    let (available, used) = (log[&1], log[&2]);
    let figures = array.pool();
    assert_eq!(figures["used_bytes"], 15 * PAGE);
    assert_eq!(
        u64::from(available) * 15 * PAGE,
        u64::from(used) * figures["free_bytes"].as_u64().unwrap()
    );
}

#[test]
fn a_snapshot_does_not_change_and_a_clone_changes_independently() {
    let scratch = Scratch::new("snapshot");
    let directory = scratch.join("pool");
    let config = config(
        json!([thin(0, "v", 8 * MIB)]),
        json!([pool(&directory, 64)]),
    );
    let mut array = Array::start(&config);
    let mut client = Client::login(array.portal(), 1);
    for page in 0..4 {
        client
            .write(0, page * PAGE_BLOCKS, &blocks(page * 1000, 128))
            .unwrap();
    }
    let order =
        |kind, volume, name| json!({"kind": kind, "pool": "pool", "volume": volume, "name": name});
    array.manage(order("snapshot", "v", "s")).unwrap();
    client.write(0, 5, &blocks(5555, 1)).unwrap();
    array.manage(order("clone", "s", "c")).unwrap();
    let refused = array.manage(order("clone", "s", "c")).unwrap_err();
    assert_eq!(refused["class"], "usage");
    for (lun, volume) in [(1, "s"), (2, "c")] {
        let lu = thin(lun, volume, 8 * MIB);
        array.manage(json!({"kind": "create", "lu": lu})).unwrap();
        for page in 0..4 {
            let read = client.read(lun, page * PAGE_BLOCKS, 128).unwrap();
            assert!(read == blocks(page * 1000, 128), "{volume}: page {page}");
        }
    }
    assert_eq!(sense(client.write(1, 0, &blocks(1, 1))), (0x7, 0x27, 0x00));
    client
        .write(2, 3 * PAGE_BLOCKS + 1, &blocks(9999, 2))
        .unwrap();
    assert!(client.read(2, 3 * PAGE_BLOCKS + 1, 2).unwrap() == blocks(9999, 2));
    assert!(client.read(2, 3 * PAGE_BLOCKS, 1).unwrap() == blocks(3000, 1));
    assert!(client.read(1, 3 * PAGE_BLOCKS, 128).unwrap() == blocks(3000, 128));
    assert!(client.read(0, 3 * PAGE_BLOCKS, 128).unwrap() == blocks(3000, 128));
    assert!(client.read(0, 5, 1).unwrap() == blocks(5555, 1));
    assert!(client.read(1, 5, 1).unwrap() == blocks(5, 1));
    // Each of v, s and c maps 4 pages. In total, 4 pages, v's copy of page 0 and c's copy of page 3
    // are in use.
    assert_eq!(array.pool()["used_bytes"], 6 * PAGE);
    array
        .manage(json!({"kind": "delete", "pool": "pool", "volume": "s"}))
        .unwrap();
    assert_eq!(sense(client.read(1, 0, 1)), (0x5, 0x25, 0x00));
    assert!(client.read(2, PAGE_BLOCKS, 128).unwrap() == blocks(1000, 128));
    assert_eq!(array.stop(), Some(0));
    let (report, code) = check(&directory);
    assert_eq!((code, &report["findings"]), (Some(0), &json!([])));
}

#[test]
fn a_volume_is_made_and_grown_while_the_array_serves() {
    let scratch = Scratch::new("resize");
    let config = config(json!([]), json!([pool(&scratch.join("pool"), 64)]));
    let mut array = Array::start(&config);
    let created = array
        .manage(json!({"kind": "create", "lu": thin(7, "v", 3 * MIB)}))
        .unwrap();
    assert_eq!(created["volume"]["luns"], json!([7]));
    let mut client = Client::login(array.portal(), 1);
    assert_eq!(client.blocks(7), 6144);
    client.write(7, 6143, &blocks(6143, 1)).unwrap();
    let resize =
        |size| json!({"kind": "resize", "pool": "pool", "volume": "v", "size_bytes": size});
    assert_eq!(array.manage(resize(MIB)).unwrap_err()["class"], "usage");
    array.manage(resize(3 << 40)).unwrap();
    assert_eq!(client.blocks(7), (3 << 40) / 512);
    client.write(7, (3 << 40) / 512 - 1, &blocks(1, 1)).unwrap();
    assert!(client.read(7, 6143, 1).unwrap() == blocks(6143, 1));
    let counters = array.sample();
    assert_eq!(counters["lu/7"]["mapped_bytes_now"], 2.0 * PAGE as f64);
    let of_pool = &counters["pool/pool"];
    assert_eq!(of_pool["used_bytes_now"], 2.0 * PAGE as f64);
    assert_eq!(of_pool["mapped_bytes_now"], 2.0 * PAGE as f64);
    assert_eq!(
        of_pool["runs_now"], 2.0,
        "the pages are far apart in the volume"
    );
    let unknown = json!({"kind": "resize", "pool": "pool", "volume": "w", "size_bytes": MIB});
    assert_eq!(array.manage(unknown).unwrap_err()["class"], "usage");
    let withdraw = json!({"kind": "withdraw", "lun": 7});
    array.manage(withdraw.clone()).unwrap();
    assert_eq!(array.manage(withdraw).unwrap_err()["class"], "usage");
    assert_eq!(array.pool()["volumes"][0]["luns"], json!([]));
}

#[test]
fn an_open_pool_is_refused_to_a_second_array_and_to_the_check_with_the_pid_of_the_owner() {
    let scratch = Scratch::new("second");
    let directory = scratch.join("pool");
    let config = config(json!([thin(0, "v", MIB)]), json!([pool(&directory, 8)]));
    let array = Array::start(&config);
    let (error, code) = Array::try_start(&config).err().unwrap();
    let owner = format!("process {}", array.pid());
    assert!(
        error["message"].as_str().unwrap().contains(&owner),
        "{error}"
    );
    assert_eq!(
        (error["class"].as_str(), code),
        (Some("environment"), Some(3))
    );
    assert_eq!(check(&directory).1, Some(3));
    drop(array);
    assert_eq!(check(&directory).1, Some(0));
}

#[test]
fn a_damaged_pool_is_refused_with_the_reason_and_not_changed() {
    let scratch = Scratch::new("damaged");
    let directory = scratch.join("pool");
    let config = config(json!([thin(0, "v", MIB)]), json!([pool(&directory, 8)]));
    assert_eq!(Array::start(&config).stop(), Some(0));
    let file = directory.join("a.group");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[10] ^= 1;
    bytes[4096 + 10] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let (error, code) = Array::try_start(&config).err().unwrap();
    assert_eq!(code, Some(3));
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("file of group 0"),
        "{error}"
    );
    let (report, code) = check(&directory);
    assert_eq!(code, Some(1));
    assert_eq!(report["findings"][0]["object"], "file of group 0");
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
}

#[test]
fn a_pool_without_its_metadata_is_not_created_again_over_its_data() {
    let scratch = Scratch::new("lost");
    let directory = scratch.join("pool");
    let config = config(json!([thin(0, "v", MIB)]), json!([pool(&directory, 8)]));
    let mut array = Array::start(&config);
    let small = json!({"kind": "grow", "pool": "pool", "group": {"name": "b", "size_bytes": PAGE}});
    assert_eq!(array.manage(small).unwrap_err()["class"], "usage");
    assert!(!directory.join("b.group").exists());
    assert_eq!(array.stop(), Some(0));
    let before = std::fs::read(directory.join("a.group")).unwrap();
    std::fs::rename(directory.join("metadata"), scratch.join("metadata")).unwrap();
    let (error, code) = Array::try_start(&config).err().unwrap();
    assert_eq!(code, Some(3), "{error}");
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("lost its metadata")
    );
    assert_eq!(check(&directory).1, Some(3));
    assert!(std::fs::read(directory.join("a.group")).unwrap() == before);
    std::fs::rename(scratch.join("metadata"), directory.join("metadata")).unwrap();
    assert_eq!(Array::start(&config).stop(), Some(0));
}
