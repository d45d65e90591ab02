//! Reads of one LU while another initiator sends the longest possible commands to another LU. No
//! read waits longer than [`WAIT_MAX`].
//!
//! A case passes once no read waited too long during a round of its commands. Waits that the array
//! causes recur in every round, unlike waits that a busy machine causes. Time for which a hypervisor
//! withheld the processors of a virtual machine does not count.
//!
//! `cargo test -p hakaru-engine --test other_lus -- --nocapture` prints the figures. `make storms`
//! sends more commands to a larger LU.
mod support;

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::array::{Array, MIB, Scratch, config, pool, thin};
use support::client::{BLOCK, Client, outgoing};

/// Longest time that a read of one LU may take during commands to another.
const WAIT_MAX: Duration = Duration::from_millis(20);
/// Number of rounds with a long wait after which the array is considered the cause.
const ROUNDS: usize = 20;
/// Number of rounds without a long wait that show that the array is not the cause of the others.
const SHORT_MIN: usize = 3;
/// Shortest time for which the commands of a round are repeated.
const ROUND: Duration = Duration::from_millis(250);

/// Maximum number of blocks of a WRITE SAME, as in VPD page B0h.
const WRITE_SAME_BLOCKS: u32 = 0xffff;
/// Maximum number of EXTENDED COPY commands that an array carries out at the same time.
const COPIES: u64 = 32;

/// Unit of the times in /proc/stat, USER_HZ.
const TICK: Duration = Duration::from_millis(10);

/// Held during a measurement, so that only one array is measured at a time.
static MEASURING: Mutex<()> = Mutex::new(());

/// Returns `long` if `HAKARU_LONG` is set (`make storms`), otherwise `short`.
fn by_length(short: u64, long: u64) -> u64 {
    if std::env::var_os("HAKARU_LONG").is_some() {
        long
    } else {
        short
    }
}

/// Returns the size of the LU that receives the long commands, bytes.
fn worked_bytes() -> u64 {
    by_length(256, 512) * MIB
}

/// Returns the number of commands in flight; in the long form, the most that a session may have.
fn commands() -> u64 {
    by_length(32, 127)
}

/// Sends commands to LU 0 at once and returns their tags.
type Load = fn(&mut Client) -> Vec<u32>;

/// Name and function of each load, and whether all blocks still have data after it. Those that
/// leave data come first, so that the LU is filled once for all of them.
const LOADS: [(&str, Load, bool); 8] = [
    ("WRITE SAME", write_same, true),
    ("EXTENDED COPY", extended_copy, true),
    ("VERIFY", verify, true),
    ("SANITIZE, overwrite", sanitize_overwrite, true),
    ("WRITE SAME of zeros", write_same_zeros, false),
    ("WRITE SAME with UNMAP", write_same_unmap, false),
    ("UNMAP", unmap, false),
    ("SANITIZE, block erase", sanitize_erase, false),
];

#[test]
fn an_lu_in_memory_is_served_while_another_is_worked_on() {
    let memory = json!({"kind": "memory"});
    let lus = json!([lu(0, worked_bytes(), &memory), lu(1, MIB, &memory)]);
    no_read_waits_long("memory", &config(lus, json!([])));
}

#[test]
fn an_lu_on_modelled_drives_is_served_while_another_is_worked_on() {
    let memory = json!({"kind": "memory"});
    let mut lus = [lu(0, worked_bytes(), &memory), lu(1, MIB, &memory)];
    for (group, lu) in lus.iter_mut().enumerate() {
        lu["placement"] = json!({"group": group, "offset_bytes": 0});
    }
    let mut config = config(json!(lus), json!([]));
    let group = json!({
        "raid": "raid0", "drives": 8, "stripe_unit_bytes": 65_536,
        "drive": {"kind": "preset", "name": "nvme-ssd-2000"},
    });
    config["model"] = json!({
        "kind": "array",
        "controller": {"command_us": 5.0, "data_us_per_mib": 0.0},
        "groups": [group, group],
    });
    no_read_waits_long("modelled", &config);
}

#[test]
fn an_lu_in_a_file_is_served_while_another_is_worked_on() {
    let scratch = Scratch::new("other-lus-files");
    let file = |name: &str| json!({"kind": "file", "path": scratch.join(name)});
    let lus = json!([
        lu(0, worked_bytes(), &file("worked")),
        lu(1, MIB, &file("read"))
    ]);
    no_read_waits_long("file", &config(lus, json!([])));
}

#[test]
fn a_volume_of_a_pool_is_served_while_another_is_worked_on() {
    let scratch = Scratch::new("other-lus-pool");
    let mut worked = thin(0, "worked", worked_bytes());
    worked["sanitize"] = json!(true);
    let pages = (worked_bytes() + 64 * MIB) / 65_536;
    let pools = json!([pool(&scratch.join("pool"), pages)]);
    let lus = json!([worked, thin(1, "read", MIB)]);
    no_read_waits_long("pool", &config(lus, pools));
}

fn lu(lun: u8, size_bytes: u64, store: &Value) -> Value {
    json!({"lun": lun, "size_bytes": size_bytes, "store": store, "thin": true, "sanitize": true})
}

fn no_read_waits_long(store: &str, config: &Value) {
    let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    let array = Array::start(config);
    let mut client = Client::login(array.portal(), 1);
    client.write(1, 0, &[0x5a; BLOCK]).unwrap();
    let mut slow = Vec::new();
    let mut filled = false;
    for (name, load, leaves_data) in LOADS {
        let mut waits = Vec::new();
        while waits.len() < ROUNDS && short(&waits) < SHORT_MIN {
            // All blocks of the LU have data before every round.
            if !filled {
                fill(&mut client);
            }
            waits.push(longest_wait(array.portal(), || work(&mut client, load)));
            filled = leaves_data;
        }
        println!("{store}: {name}: a read waited {waits:.1?} at most");
        if short(&waits) < SHORT_MIN {
            slow.push((name, waits));
        }
    }
    assert!(slow.is_empty(), "{store}: {slow:.1?}");
    drop(client);
    assert_eq!(array.stop(), Some(0));
}

/// Returns the number of rounds without a long wait.
fn short(waits: &[Duration]) -> usize {
    waits.iter().filter(|wait| **wait <= WAIT_MAX).count()
}

/// Returns the longest time that a read of LU 1 takes during `work`.
fn longest_wait(portal: &str, work: impl FnOnce()) -> Duration {
    let over = AtomicBool::new(false);
    let mut reader = Client::login(portal, 2);
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !over.load(Ordering::Relaxed) {
                let (withheld, sent) = (withheld(), Instant::now());
                let read = reader.read(1, 0, 1).expect("LU 1 is read");
                longest = longest.max(waited(sent.elapsed(), &withheld));
                assert!(read == [0x5a; BLOCK], "LU 1 holds other data");
            }
            longest
        });
        work();
        over.store(true, Ordering::Relaxed);
        reading.join().expect("the reader ends")
    })
}

/// Returns the time of a read without the time for which a processor was withheld meanwhile.
/// `before`: [`withheld`] before the read.
fn waited(elapsed: Duration, before: &[Duration]) -> Duration {
    if elapsed <= WAIT_MAX {
        return elapsed;
    }
    // The kernel adds to its counters at the next timer interrupt, at most 10 ms later.
    thread::sleep(TICK);
    let after = withheld();
    let longest = after
        .iter()
        .zip(before)
        .map(|(now, then)| now.saturating_sub(*then));
    let net = elapsed.saturating_sub(longest.max().unwrap_or_default());
    println!("a read took {elapsed:.1?}, {net:.1?} of it with all processors");
    net
}

/// Returns the time for which a hypervisor withheld each processor since the machine started
/// (`steal`, proc_stat(5)).
fn withheld() -> Vec<Duration> {
    let stat = fs::read_to_string("/proc/stat").expect("/proc/stat can be read");
    let processors = stat.lines().filter(|line| {
        line.strip_prefix("cpu")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    processors
        .map(|line| {
            TICK * line
                .split(' ')
                .nth(8)
                .map_or(0, |ticks| ticks.parse().unwrap_or(0))
        })
        .collect()
}

fn work(client: &mut Client, load: Load) {
    let began = Instant::now();
    while began.elapsed() < ROUND {
        for tag in load(client) {
            let done = client.wait(tag).expect("the array answers");
            done.result.expect("the command is carried out");
        }
    }
}

/// Writes every block of LU 0.
fn fill(client: &mut Client) {
    let mut left = (worked_bytes() / BLOCK as u64) as u32;
    while left > 0 {
        let count = left.min(WRITE_SAME_BLOCKS);
        left -= count;
        let range = (left.into(), count);
        client.write_same(0, range, &[0x77; BLOCK], false).unwrap();
    }
}

/// Returns the first blocks of consecutive WRITE SAME commands of maximum length, repeatedly over
/// the LU.
fn first_blocks() -> impl Iterator<Item = u64> {
    let count = worked_bytes() / BLOCK as u64 / u64::from(WRITE_SAME_BLOCKS);
    (0..commands()).map(move |number| number % count * u64::from(WRITE_SAME_BLOCKS))
}

fn submit_write_same(client: &mut Client, block: [u8; BLOCK], flags: u8) -> Vec<u32> {
    let submit = |lba: u64| {
        let mut cdb = [0; 16];
        cdb[..2].copy_from_slice(&[0x93, flags]);
        cdb[2..10].copy_from_slice(&lba.to_be_bytes());
        cdb[10..14].copy_from_slice(&WRITE_SAME_BLOCKS.to_be_bytes());
        client.submit(0, &cdb, outgoing(&block))
    };
    first_blocks().map(submit).collect()
}

fn write_same(client: &mut Client) -> Vec<u32> {
    submit_write_same(client, [0x77; BLOCK], 0)
}

fn write_same_zeros(client: &mut Client) -> Vec<u32> {
    submit_write_same(client, [0; BLOCK], 0)
}

fn write_same_unmap(client: &mut Client) -> Vec<u32> {
    submit_write_same(client, [0; BLOCK], 0x08)
}

/// Sends VERIFY(16) commands without data, each for the entire LU.
fn verify(client: &mut Client) -> Vec<u32> {
    let blocks = (worked_bytes() / BLOCK as u64) as u32;
    let mut cdb = [0; 16];
    cdb[0] = 0x8f;
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    (0..4)
        .map(|_| client.submit(0, &cdb, outgoing(&[])))
        .collect()
}

/// Sends an UNMAP of the entire LU.
fn unmap(client: &mut Client) -> Vec<u32> {
    let blocks = (worked_bytes() / BLOCK as u64) as u32;
    let data = support::client::unmap_data(0, blocks);
    vec![client.submit(0, &support::client::unmap(), data)]
}

fn sanitize_overwrite(client: &mut Client) -> Vec<u32> {
    let list = [1, 0, 0, 1, 0x33];
    let cdb = [0x48, 0x01, 0, 0, 0, 0, 0, 0, list.len() as u8, 0];
    vec![client.submit(0, &cdb, outgoing(&list))]
}

fn sanitize_erase(client: &mut Client) -> Vec<u32> {
    let cdb = [0x48, 0x02, 0, 0, 0, 0, 0, 0, 0, 0];
    vec![client.submit(0, &cdb, outgoing(&[]))]
}

/// Sends EXTENDED COPY commands from one half of the LU to the other, with segments of maximum
/// length.
fn extended_copy(client: &mut Client) -> Vec<u32> {
    let half = worked_bytes() / BLOCK as u64 / 2;
    let segments = [0, 0xffff].map(|from| (from, from + half, 0xffff));
    let list = client.copy_list(0, &segments);
    let cdb = support::client::extended_copy(&list);
    (0..COPIES)
        .map(|_| client.submit(0, &cdb, outgoing(&list)))
        .collect()
}
