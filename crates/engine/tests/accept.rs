//! Limits of descriptors: the array serves its sessions, answers every login, and recovers without
//! a restart.
mod support;

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};
use serde_json::json;
use support::array::{Array, MIB, Scratch, config, group, pool, thin};
use support::client::{Client, incoming, read_16};

fn set_limit(pid: u32, files: usize) {
    let status = Command::new("prlimit")
        .args(["--pid", &pid.to_string(), &format!("--nofile={files}:")])
        .status()
        .expect("prlimit of util-linux");
    assert!(status.success());
}

/// Returns whether a login succeeds within `patience`. Logs in on another thread, so that an array
/// that does not answer fails the test instead of blocking it.
fn logs_in_within(portal: &str, number: u32, patience: Duration) -> bool {
    let (done, waiting) = mpsc::channel();
    let portal = portal.to_owned();
    thread::spawn(move || {
        let client = Client::try_login(&portal, number);
        let _ = done.send(client.is_ok());
    });
    waiting.recv_timeout(patience) == Ok(true)
}

#[test]
fn an_array_without_descriptors_accepts_logins_again_once_some_are_available() {
    let lu =
        json!({"lun": 0, "size_bytes": 1 << 20, "block_bytes": 512, "store": {"kind": "memory"}});
    let array = Array::start(&config(json!([lu]), json!([])));
    let descriptors = format!("/proc/{}/fd", array.pid());
    let open = std::fs::read_dir(&descriptors).unwrap().count();
    set_limit(array.pid(), open);
    let waiting = TcpStream::connect(array.portal()).expect("the kernel queues the connection");
    assert!(!logs_in_within(
        array.portal(),
        1,
        Duration::from_millis(500)
    ));
    set_limit(array.pid(), open + 64);
    assert!(
        logs_in_within(array.portal(), 2, Duration::from_secs(60)),
        "the array accepts no login"
    );
    drop(waiting);
    assert_eq!(array.stop(), Some(0));
}

/// Returns a command that runs another command with a limit of open files.
fn descriptor_limit(files: u32) -> Vec<String> {
    let script = format!("ulimit -n {files}; exec \"$@\"");
    ["sh", "-c", &script, "sh"].map(str::to_owned).to_vec()
}

/// Logs in with different initiators in sequence until the array refuses a login. Panics if a login
/// is not answered within a minute.
fn log_in_until_refused(portal: &str) -> Vec<Client> {
    let mut clients = Vec::new();
    loop {
        let (done, answer) = mpsc::channel();
        let (portal, number) = (portal.to_owned(), clients.len() as u32);
        thread::spawn(move || {
            let _ = done.send(Client::try_login(&portal, number));
        });
        match answer.recv_timeout(Duration::from_secs(60)) {
            Ok(Ok(client)) => clients.push(client),
            Ok(Err(_)) => return clients,
            Err(_) => panic!("login {} was not answered", clients.len()),
        }
    }
}

#[test]
fn groups_added_while_serving_leave_descriptors_for_logins_and_orders() {
    let scratch = Scratch::new("descriptors");
    let lus = json!([thin(0, "v", MIB)]);
    let pools = json!([pool(&scratch.join("pool"), 8)]);
    let mut array = Array::start_inside(&descriptor_limit(128), &config(lus, pools));
    let sessions_max = array.found["sessions_max"].as_u64().unwrap() as usize;
    let grow = |name: &str| json!({"kind": "grow", "pool": "pool", "group": group(name, 1)});
    for number in 0..48 {
        array.manage(grow(&format!("g{number}"))).unwrap();
    }
    let clients = log_in_until_refused(array.portal());
    assert!(
        !clients.is_empty() && clients.len() < sessions_max,
        "{} sessions beside 48 groups, {sessions_max} without",
        clients.len()
    );
    let refused = array.manage(grow("one-too-many")).unwrap_err();
    assert_eq!(refused["class"], "environment", "{refused}");
    let groups = array.pool()["groups"].as_array().unwrap().len();
    assert_eq!(groups, 49);
    drop(clients);
    assert_eq!(array.stop(), Some(0));
}

#[test]
fn an_array_without_descriptors_for_a_session_refuses_to_start() {
    let lus =
        json!([{"lun": 0, "size_bytes": MIB, "block_bytes": 512, "store": {"kind": "memory"}}]);
    let started = Array::try_start_inside(&descriptor_limit(64), &config(lus, json!([])));
    let Err((error, code)) = started else {
        panic!("the array accepted no login");
    };
    assert_eq!(
        (&error["class"], code),
        (&json!("environment"), Some(3)),
        "{error}"
    );
    assert!(
        error["hint"].as_str().unwrap().contains("ulimit -n"),
        "{error}"
    );
}

/// Connects from a local source address.
fn connect_from(source: &str, portal: &str) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    let source: SocketAddr = format!("{source}:0").parse().unwrap();
    rustix::net::bind(&socket, &source)?;
    let portal: SocketAddr = portal.parse().unwrap();
    rustix::net::connect(&socket, &portal)?;
    Ok(socket)
}

#[test]
fn half_open_logins_of_one_address_leave_descriptors_for_sessions_of_others() {
    let lu = json!({"lun": 0, "size_bytes": MIB, "block_bytes": 512, "store": {"kind": "memory"}});
    let config = config(json!([lu]), json!([]));
    let mut array = Array::start_inside(&descriptor_limit(128), &config);
    let half_open: Vec<OwnedFd> = (0..200)
        .map(|_| connect_from("127.0.0.2", array.portal()).expect("the backlog has room"))
        .collect();
    let clients = log_in_until_refused(array.portal());
    assert!(!clients.is_empty());
    let sessions = array.sample()["sessions"].clone();
    assert_eq!(sessions["sessions_now"], json!(clients.len() as f64));
    drop((half_open, clients));
    assert_eq!(array.stop(), Some(0));
}

#[test]
fn pipes_of_zero_copy_reads_leave_descriptors_for_logins() {
    let lu = json!({"lun": 0, "size_bytes": MIB, "block_bytes": 512, "store": {"kind": "memory"}});
    let config = config(json!([lu]), json!([]));
    let mut array = Array::start_inside(&descriptor_limit(128), &config);
    // Each reader leaves more data unread than its socket buffers hold, so the array keeps the
    // pipe of its current piece.
    let readers: Vec<Client> = (0..30)
        .map(|number| {
            let mut reader = Client::login(array.portal(), 1000 + number);
            for _ in 0..16 {
                reader.submit(0, &read_16(0, 2048), incoming(MIB as usize));
            }
            reader.peek();
            reader
        })
        .collect();
    let clients = log_in_until_refused(array.portal());
    assert!(array.sample()["port/0"]["tx_lent_bytes"].as_f64().unwrap() > 0.0);
    let sessions_max = array.found["sessions_max"].as_u64().unwrap() as usize;
    assert_eq!(readers.len() + clients.len(), sessions_max);
    drop((readers, clients));
    assert_eq!(array.stop(), Some(0));
}
