//! accept(2) that fails: the array serves on and takes logins again by itself.
mod support;

use std::net::TcpStream;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::json;
use support::array::{Array, config};
use support::client::Client;

fn set_limit(pid: u32, files: usize) {
    let status = Command::new("prlimit")
        .args(["--pid", &pid.to_string(), &format!("--nofile={files}:")])
        .status()
        .expect("prlimit of util-linux");
    assert!(status.success());
}

/// Logs in on another thread, so that an array that is deaf fails the test instead of stopping it.
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
fn an_array_without_descriptors_takes_logins_again_once_there_are_some() {
    let lu =
        json!({"lun": 0, "size_bytes": 1 << 20, "block_bytes": 512, "store": {"kind": "memory"}});
    let array = Array::start(&config(json!([lu]), json!([])));
    let descriptors = format!("/proc/{}/fd", array.pid());
    let open = std::fs::read_dir(&descriptors).unwrap().count();
    set_limit(array.pid(), open);
    let waiting = TcpStream::connect(array.portal()).expect("the kernel takes it");
    assert!(!logs_in_within(
        array.portal(),
        1,
        Duration::from_millis(500)
    ));
    set_limit(array.pid(), open + 64);
    assert!(
        logs_in_within(array.portal(), 2, Duration::from_secs(10)),
        "the array is deaf"
    );
    drop(waiting);
    assert_eq!(array.stop(), Some(0));
}
