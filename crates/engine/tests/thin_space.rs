//! Thin LUs of the real engine over real iSCSI: commands that a full pool, or a volume at its
//! quota, refuses, and commands that still succeed.
mod support;

use serde_json::json;
use support::array::{Array, MIB, Scratch, check, config, group, pool, thin};
use support::client::{BLOCK, Client, NO_SPACE, outgoing, sense, write_16};

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
fn a_full_pool_refuses_only_writes_that_need_space_and_accepts_them_after_unmap_or_growth() {
    let scratch = Scratch::new("full");
    let directory = scratch.join("pool");
    let config = config(
        json!([thin(0, "v", 64 * MIB)]),
        json!([pool(&directory, 16)]),
    );
    let mut array = Array::start(&config);
    let mut client = Client::login(array.portal(), 1);
    for page in 0..16 {
        client
            .write(0, page * PAGE_BLOCKS, &blocks(page, 1))
            .unwrap();
    }
    // P-02: the write is refused and changes no block, even if a part of it has a page.
    assert_eq!(
        sense(client.write(0, 16 * PAGE_BLOCKS, &blocks(1, 1))),
        NO_SPACE
    );
    let across = 16 * PAGE_BLOCKS - 4;
    assert_eq!(sense(client.write(0, across, &blocks(1, 8))), NO_SPACE);
    assert_eq!(client.read(0, across, 8).unwrap(), vec![0; 8 * BLOCK]);
    // P-03: writes to allocated pages succeed.
    client.write(0, 3 * PAGE_BLOCKS, &blocks(777, 2)).unwrap();
    client
        .write_fua(0, 4 * PAGE_BLOCKS, &blocks(778, 1))
        .unwrap();
    assert!(client.read(0, 3 * PAGE_BLOCKS, 2).unwrap() == blocks(777, 2));
    client.flush(0).unwrap();
    // P-04: one unmapped page allows one page to be written, without a flush.
    client
        .unmap(0, 7 * PAGE_BLOCKS, PAGE_BLOCKS as u32)
        .unwrap();
    client.write(0, 20 * PAGE_BLOCKS, &blocks(20, 1)).unwrap();
    assert_eq!(
        sense(client.write(0, 21 * PAGE_BLOCKS, &blocks(21, 1))),
        NO_SPACE
    );
    assert_eq!(client.read(0, 7 * PAGE_BLOCKS, 1).unwrap(), vec![0; BLOCK]);
    let figures = array.pool();
    assert_eq!(
        (&figures["free_bytes"], &figures["used_bytes"]),
        (&json!(0), &json!(16 * PAGE))
    );
    // The pool grows while the array serves.
    let grow = json!({"kind": "grow", "pool": "pool", "group": group("b", 4)});
    assert_eq!(array.manage(grow).unwrap()["pool"]["free_bytes"], 4 * PAGE);
    for page in 21..25 {
        client
            .write(0, page * PAGE_BLOCKS, &blocks(page, 1))
            .unwrap();
    }
    assert_eq!(
        sense(client.write(0, 25 * PAGE_BLOCKS, &blocks(25, 1))),
        NO_SPACE
    );
    assert_eq!(array.stop(), Some(0));
    // The group added while the array served is found again without configuration.
    let mut array = Array::start(&config);
    let mut client = Client::login(array.portal(), 1);
    assert!(client.read(0, 24 * PAGE_BLOCKS, 1).unwrap() == blocks(24, 1));
    assert!(client.read(0, 3 * PAGE_BLOCKS, 2).unwrap() == blocks(777, 2));
    assert_eq!(array.pool()["used_bytes"], 20 * PAGE);
    assert_eq!(array.stop(), Some(0));
    let (report, code) = check(&directory);
    assert_eq!((code, &report["findings"]), (Some(0), &json!([])));
    assert_eq!(report["mapped_pages"], 20);
}

#[test]
fn a_volume_at_its_quota_does_not_starve_another() {
    let scratch = Scratch::new("quota");
    let mut lus = json!([thin(0, "a", 64 * MIB), thin(1, "b", 64 * MIB)]);
    lus[0]["store"]["quota_bytes"] = json!(2 * PAGE);
    let mut array = Array::start(&config(lus, json!([pool(&scratch.join("pool"), 16)])));
    let mut client = Client::login(array.portal(), 1);
    for page in 0..2 {
        client
            .write(0, page * PAGE_BLOCKS, &blocks(page, 1))
            .unwrap();
    }
    for page in 0..14 {
        assert_eq!(
            sense(client.write(0, 9 * PAGE_BLOCKS, &blocks(9, 1))),
            NO_SPACE
        );
        client
            .write(1, page * PAGE_BLOCKS, &blocks(page, 1))
            .unwrap();
    }
    client.write(0, PAGE_BLOCKS, &blocks(5, 1)).unwrap();
    let set = json!({"kind": "set_quota", "pool": "pool", "volume": "a", "quota_bytes": 3 * PAGE});
    array.manage(set).unwrap();
    // The quota has room now, but the pool is full.
    assert_eq!(
        sense(client.write(0, 9 * PAGE_BLOCKS, &blocks(9, 1))),
        NO_SPACE
    );
    client.unmap(1, 0, PAGE_BLOCKS as u32).unwrap();
    client.write(0, 9 * PAGE_BLOCKS, &blocks(9, 1)).unwrap();
}

#[test]
fn write_same_allocates_or_deallocates_pages_and_get_lba_status_reports_them() {
    let scratch = Scratch::new("same");
    let mut array = Array::start(&config(
        json!([thin(0, "v", 64 * MIB)]),
        json!([pool(&scratch.join("pool"), 64)]),
    ));
    let mut client = Client::login(array.portal(), 1);
    // 40 pages and a part of one more at each end, written in several steps.
    let (lba, count) = (PAGE_BLOCKS - 5, 40 * PAGE_BLOCKS as u32 + 10);
    client
        .write_same(0, (lba, count), &[9; BLOCK], false)
        .unwrap();
    assert_eq!(array.pool()["used_bytes"], 42 * PAGE);
    for (at, byte) in [
        (lba - 1, 0),
        (lba, 9),
        (lba + 3000, 9),
        (lba + u64::from(count) - 1, 9),
        (lba + u64::from(count), 0),
    ] {
        assert_eq!(client.read(0, at, 1).unwrap(), [byte; BLOCK], "block {at}");
    }
    client
        .write_same(
            0,
            (2 * PAGE_BLOCKS, 10 * PAGE_BLOCKS as u32),
            &[0; BLOCK],
            true,
        )
        .unwrap();
    assert_eq!(array.pool()["used_bytes"], 32 * PAGE);
    assert_eq!(client.read(0, 5 * PAGE_BLOCKS, 1).unwrap(), [0; BLOCK]);
    let status = client.lba_status(0, 0);
    let pages: Vec<_> = status
        .iter()
        .map(|(lba, blocks, state)| (lba / PAGE_BLOCKS, u64::from(*blocks) / PAGE_BLOCKS, *state))
        .collect();
    assert_eq!(pages[..3], [(0, 2, 0), (2, 10, 1), (12, 30, 0)]);
    // More pages than the pool has: refused after the pages that fit were written.
    assert_eq!(
        sense(client.write_same(
            0,
            (42 * PAGE_BLOCKS, 60 * PAGE_BLOCKS as u32),
            &[7; BLOCK],
            false
        )),
        NO_SPACE
    );
    client.flush(0).unwrap();
}

#[test]
fn a_full_pool_resumes_held_writes_and_ends_them_with_their_session() {
    let scratch = Scratch::new("held");
    let mut pools = json!([pool(&scratch.join("pool"), 2)]);
    pools[0]["hold_when_full_s"] = json!(3600);
    let mut array = Array::start(&config(json!([thin(0, "v", 64 * MIB)]), pools));
    let mut client = Client::login(array.portal(), 1);
    let mut other = Client::login(array.portal(), 2);
    for page in 0..2 {
        client
            .write(0, page * PAGE_BLOCKS, &blocks(page, 1))
            .unwrap();
    }
    let held = client.submit(
        0,
        &write_16(9 * PAGE_BLOCKS, 1, false),
        outgoing(&blocks(9, 1)),
    );
    // P-03 holds meanwhile, in the same session and in others.
    client.write(0, 0, &blocks(7, 1)).unwrap();
    assert!(other.read(0, 0, 1).unwrap() == blocks(7, 1));
    other.unmap(0, PAGE_BLOCKS, PAGE_BLOCKS as u32).unwrap();
    assert!(client.wait(held).unwrap().result.is_ok());
    assert!(other.read(0, 9 * PAGE_BLOCKS, 1).unwrap() == blocks(9, 1));
    // Two more writes wait, one of them in a session that is reinstated. The new session cannot
    // start before all commands of the old one have ended.
    let lost = client.submit(
        0,
        &write_16(11 * PAGE_BLOCKS, 1, false),
        outgoing(&blocks(11, 1)),
    );
    let resumed = other.submit(
        0,
        &write_16(12 * PAGE_BLOCKS, 1, false),
        outgoing(&blocks(12, 1)),
    );
    let mut again = Client::login(array.portal(), 1);
    assert!(
        client.wait(lost).is_err(),
        "the session of the write has ended"
    );
    let grow = json!({"kind": "grow", "pool": "pool", "group": group("b", 4)});
    array.manage(grow).unwrap();
    assert!(other.wait(resumed).unwrap().result.is_ok());
    assert!(again.read(0, 12 * PAGE_BLOCKS, 1).unwrap() == blocks(12, 1));
    assert_eq!(again.read(0, 11 * PAGE_BLOCKS, 1).unwrap(), vec![0; BLOCK]);
    // A stop does not wait for held writes.
    for page in 20..23 {
        again
            .write(0, page * PAGE_BLOCKS, &blocks(page, 1))
            .unwrap();
    }
    again.submit(
        0,
        &write_16(30 * PAGE_BLOCKS, 1, false),
        outgoing(&blocks(30, 1)),
    );
    assert_eq!(array.stop(), Some(0));
}
