//! of docs/reference/faults.md: storms, slow clients and races against the real engine
//! on sockets.
//!
//! A bystander reads throughout. Each of its reads must succeed, and its latency is printed.
//! Absolute speeds are not asserted, because they depend on the machine.
//!
//! `cargo test -p hakaru-engine --test storms -- --nocapture` prints the table. `make storms` runs
//! the cases with the duration and size of the catalogue (`HAKARU_LONG`), which takes minutes.

mod array;
mod client;

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use array::{Array, until};
use client::{Bystander, Client};

/// Identifier, description, and function of a case. The function returns the number of attempts.
type Case = (&'static str, &'static str, fn() -> u64);

const CASES: &[Case] = &[
    ("R-01", "ten thousand connections per second", connect_storm),
    ("R-02", "logins that arrive byte by byte", slow_logins),
    ("R-04", "initiators that read nothing", unread),
    (
        "R-06",
        "connect, log in, read, close and reset from 16 threads",
        races,
    ),
    (
        "R-07",
        "a stop while initiators are silent",
        stop_with_silent_initiators,
    ),
];

/// Returns `full` if `HAKARU_LONG` is set (`make storms`), otherwise `brief`.
fn scale<T>(brief: T, full: T) -> T {
    if std::env::var_os("HAKARU_LONG").is_some() {
        full
    } else {
        brief
    }
}

#[test]
fn every_storm_passes_and_leaves_nothing() {
    println!("{:<6} {:>8}  description", "case", "attempts");
    for (id, description, case) in CASES {
        let attempts = case();
        assert!(attempts > 0, "{id} made no attempt");
        println!("{id:<6} {attempts:>8}  {description}");
    }
}

/// Connections opened per second by the storm of R-01.
const STORM_PER_S: u32 = 10_000;

fn connect_storm() -> u64 {
    const LIMIT: u64 = 300;
    let array = Array::start(LIMIT as u32);
    let mut bystander = Bystander::start(&array.portal, "quiet");
    let base = array.descriptors();
    let lasts = scale(Duration::from_secs(2), Duration::from_secs(60));
    let reads = bystander.reads();
    let quiet_until = Instant::now() + scale(Duration::from_secs(1), Duration::from_secs(10));
    until("the bystander reads", || {
        bystander.reads() > reads + 100 && Instant::now() >= quiet_until
    });
    // A storm on another listener shows the cost to the machine: the work of the kernel and of the
    // storm itself, on CPUs that the bystander needs too.
    bystander.enter("a storm on another listener");
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = other.local_addr().expect("bound").to_string();
    let over = Arc::new(AtomicBool::new(false));
    let closing = {
        let over = Arc::clone(&over);
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                drop(other.accept());
            }
        })
    };
    storm(&address, lasts, || {});
    over.store(true, Ordering::Relaxed);
    drop(TcpStream::connect(&address));
    closing.join().expect("the thread only closes connections");
    bystander.enter("the storm");
    let mut most = 0;
    let opened = storm(&array.portal, lasts, || {
        most = most.max(array.descriptors());
    });
    bystander.enter("after the storm");
    assert!(opened > LIMIT, "{opened} connections reach the limit");
    assert!(
        most <= base + LIMIT as usize + 16,
        "{most} descriptors, {base} before"
    );
    until("descriptors are closed", || array.descriptors() <= base + 1);
    let reads = bystander.reads();
    until("the bystander reads again", || {
        bystander.reads() > reads + 100
    });
    bystander.stop("R-01");
    opened
}

/// Opens silent connections at [`STORM_PER_S`] or as fast as possible, and keeps up to a thousand
/// open. Returns the number of connections opened.
fn storm(address: &str, lasts: Duration, mut each_thousand: impl FnMut()) -> u64 {
    let began = Instant::now();
    let (mut opened, mut tried, mut held) = (0_u64, 0_u32, Vec::new());
    while began.elapsed() < lasts {
        let due = Duration::from_secs(1) * tried / STORM_PER_S;
        if let Some(early) = due.checked_sub(began.elapsed()) {
            thread::park_timeout(early);
            continue;
        }
        tried += 1;
        if let Ok(socket) = TcpStream::connect(address) {
            opened += 1;
            held.push(socket);
        }
        if held.len() >= 1000 {
            each_thousand();
            held.drain(..500);
        }
    }
    let per_s = opened as f64 / began.elapsed().as_secs_f64();
    println!("       {per_s:.0} connections/s");
    opened
}

fn slow_logins() -> u64 {
    let many = scale(500, 2000);
    let array = Array::start(2500);
    let bystander = Bystander::start(&array.portal, "throughout");
    let began = Instant::now();
    let mut slow: Vec<TcpStream> = (0..many)
        .map(|_| TcpStream::connect(&array.portal).expect("the array accepts"))
        .collect();
    let mut next = began;
    while began.elapsed() < Duration::from_secs(14) {
        // Each connection sends one byte of a Login Request every five seconds.
        for socket in &mut slow {
            socket
                .write_all(&[0x43])
                .expect("the login timeout has not passed");
        }
        next += Duration::from_secs(5);
        while Instant::now() < next && began.elapsed() < Duration::from_secs(14) {
            let sent_at = Instant::now();
            let client = Client::log_in(&array.portal, 900, &[]);
            let took = sent_at.elapsed();
            assert!(
                took < Duration::from_secs(5),
                "a complete login took {took:?}"
            );
            client.log_out();
            thread::park_timeout(Duration::from_millis(200));
        }
    }
    for socket in &mut slow {
        let timeout = Duration::from_secs(29).saturating_sub(began.elapsed());
        socket
            .set_read_timeout(Some(timeout.max(Duration::from_millis(1))))
            .expect("a timeout");
        let cut = socket.read(&mut [0; 64]);
        assert!(
            matches!(cut, Ok(0))
                || cut.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset),
            "each slow login is closed, without a response"
        );
    }
    until("only the bystander is left", || {
        array.sample("connections_now") == 1.0
    });
    bystander.stop("R-02");
    many
}

fn unread() -> u64 {
    const MIB: u64 = 1 << 20;
    let clients = scale(20, 100);
    let array = Array::start(2000);
    let bystander = Bystander::start(&array.portal, "throughout");
    let base = array.resident_bytes();
    // With data digests, responses are copied and occupy memory until they are read.
    let greedy: Vec<Client> = (0..clients)
        .map(|number| {
            let mut client =
                Client::log_in(&array.portal, 1000 + number, &[("DataDigest", "CRC32C")]);
            (0..64).for_each(|_| client.send_read(0, 2048));
            client
        })
        .collect();
    until("all sessions are counted", || {
        array.sample("sessions_now") == f64::from(clients + 1)
    });
    let reads = bystander.reads();
    until("the bystander reads again", || {
        bystander.reads() > reads + 500
    });
    let grown = array.resident_bytes().saturating_sub(base);
    let limit = u64::from(clients) * (8 + 2) * MIB + 64 * MIB;
    assert!(
        grown < limit,
        "{} MiB for {clients} initiators that read nothing",
        grown / MIB
    );
    drop(greedy);
    until("their sessions have ended", || {
        array.sample("sessions_now") == 1.0
    });
    bystander.stop("R-04");
    u64::from(clients)
}

fn races() -> u64 {
    const THREADS: u32 = 16;
    let array = Array::start(2000);
    let bystander = Bystander::start(&array.portal, "throughout");
    until("the bystander reads", || bystander.reads() > 10);
    let base = array.descriptors();
    let cycles = Arc::new(AtomicU64::new(0));
    let lasts = scale(Duration::from_secs(3), Duration::from_secs(60));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let (portal, cycles) = (array.portal.clone(), Arc::clone(&cycles));
            thread::spawn(move || {
                let began = Instant::now();
                let mut turn = number;
                while began.elapsed() < lasts {
                    turn = turn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    cycle(&portal, turn >> 16, 2000 + number % 4);
                    cycles.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no client fails");
    }
    until("all other sessions have ended", || {
        array.sample("sessions_now") == 1.0 && array.sample("connections_now") == 1.0
    });
    until("descriptors are closed", || array.descriptors() <= base + 1);
    assert_eq!(array.sample("panics"), 0.0);
    bystander.stop("R-06");
    cycles.load(Ordering::Relaxed)
}

/// Opens a connection and closes it soon after. All threads share four session names, so that
/// sessions replace each other.
fn cycle(portal: &str, kind: u32, isid: u32) {
    let Ok(mut socket) = TcpStream::connect(portal) else {
        return;
    };
    match kind % 6 {
        0 => {}
        1 => {
            let _ = socket.write_all(&[0x43; 20]);
        }
        2 => {
            let _ = socket.write_all(&[0xff; 48]);
            let _ = socket.shutdown(Shutdown::Write);
            let _ = socket.read(&mut [0; 16]);
        }
        _ => {
            // Another thread may reinstate the session at any time, so every step may fail.
            let Some(mut client) = Client::try_log_in(socket, isid, &[]) else {
                return;
            };
            for _ in 0..kind % 5 {
                client.send_read(0, 64);
            }
            if kind % 6 == 4 {
                let _ = client.receive_opcode();
            }
            // If data is unread when the socket is closed, the kernel sends a reset.
        }
    }
}

fn stop_with_silent_initiators() -> u64 {
    const CLIENTS: u32 = 8;
    let mut array = Array::start(2000);
    let silent: Vec<Client> = (0..CLIENTS)
        .map(|number| {
            let mut client = Client::log_in(&array.portal, 3000 + number, &[]);
            (0..125).for_each(|_| client.send_read(0, 2048));
            client
        })
        .collect();
    until("all sessions are counted", || {
        array.sample("sessions_now") == f64::from(CLIENTS)
    });
    let stopped_at = Instant::now();
    array.stop();
    let took = stopped_at.elapsed();
    assert!(
        took < Duration::from_secs(5),
        "the array took {took:?} to end"
    );
    drop(silent);
    u64::from(CLIENTS) * 125
}

#[test]
fn every_storm_is_listed_in_the_reference() {
    let reference = include_str!("../../../../docs/reference/faults.md");
    let ids: HashSet<_> = CASES.iter().map(|(id, ..)| *id).collect();
    assert_eq!(ids.len(), CASES.len());
    assert!(
        ids.iter()
            .all(|id| reference.contains(&format!("| {id} |")))
    );
}
