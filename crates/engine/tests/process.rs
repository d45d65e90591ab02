//! Start, end and failures of the engine's process.
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// An engine and its streams.
struct Engine {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Engine {
    fn start() -> Engine {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hakaru-engine"))
            .arg("run")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Engine {
            child,
            stdin,
            stdout,
        }
    }

    /// Starts and configures an engine. Returns it with its `ready` event.
    fn configured(config: &Value) -> (Engine, Value) {
        let mut engine = Engine::start();
        assert_eq!(engine.receive()["type"], "hello");
        engine.send(&json!({"type": "configure", "contract": 1, "config": config}));
        let ready = engine.receive();
        assert_eq!(ready["type"], "ready", "{ready}");
        (engine, ready)
    }

    fn send(&mut self, command: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{command}").unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    fn receive_until(&mut self, kind: &str) -> Value {
        loop {
            let event = self.receive();
            if event["type"] == kind {
                return event;
            }
            assert_eq!(event["type"], "sample", "{event}");
        }
    }

    /// Waits for the end of the engine. Returns its exit code.
    fn status(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    fn signal(&self, number: i32) {
        let done = Command::new("kill")
            .arg(format!("-{number}"))
            .arg(self.child.id().to_string())
            .status();
        assert!(done.unwrap().success());
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn array() -> Value {
    json!({
        "engine": "array",
        "target_name": "iqn.2026-01.org.hakaru:process",
        "portals": ["127.0.0.1:0"],
        "lus": [{"lun": 0, "size_bytes": 1 << 20, "store": {"kind": "memory"}}],
        "model": {"kind": "none"},
        "sample_interval_ms": 100,
    })
}

/// Returns the error event and the exit code of an engine that refuses the configuration.
fn refusal(config: &Value) -> (Value, Option<i32>) {
    let mut engine = Engine::start();
    engine.receive();
    engine.send(&json!({"type": "configure", "contract": 1, "config": config}));
    let error = engine.receive();
    assert_eq!(
        (&error["type"], &error["fatal"]),
        (&json!("error"), &json!(true)),
        "{error}"
    );
    (error, engine.status())
}

#[test]
fn the_end_of_stdin_means_stop() {
    let (mut engine, _) = Engine::configured(&array());
    drop(engine.stdin.take());
    assert_eq!(engine.receive_until("result")["type"], "result");
    assert_eq!(engine.status(), Some(0));
}

#[test]
fn sigterm_ends_an_engine_cleanly_and_sigint_has_no_effect() {
    let (mut engine, _) = Engine::configured(&array());
    engine.signal(2);
    engine.send(&json!({"type": "start", "at_ns": 0}));
    assert_eq!(engine.receive()["type"], "sample");
    engine.signal(15);
    assert_eq!(engine.receive_until("result")["type"], "result");
    assert_eq!(engine.status(), Some(0));
}

#[test]
fn an_engine_ends_when_the_reader_of_its_stdout_is_gone() {
    let (mut engine, _) = Engine::configured(&array());
    engine.send(&json!({"type": "start", "at_ns": 0}));
    let (read, _) = std::io::pipe().unwrap();
    drop(std::mem::replace(
        &mut engine.stdout,
        BufReader::new(child_stdout(read)),
    ));
    assert_eq!(engine.status(), Some(0));
}

fn child_stdout(pipe: std::io::PipeReader) -> ChildStdout {
    ChildStdout::from(std::os::fd::OwnedFd::from(pipe))
}

#[test]
fn clients_that_stay_connected_do_not_hold_up_the_stop() {
    let (mut engine, ready) = Engine::configured(&array());
    let portal = ready["found"]["portals"][0].as_str().unwrap();
    let silent: Vec<TcpStream> = (0..20)
        .map(|_| TcpStream::connect(portal).unwrap())
        .collect();
    engine.send(&json!({"type": "stop"}));
    assert_eq!(engine.receive_until("result")["type"], "result");
    assert_eq!(engine.status(), Some(0));
    drop(silent);
}

#[test]
fn an_invalid_order_is_a_usage_error_that_names_the_place() {
    for (line, part) in [
        ("{", "line 1 column"),
        (r#"{"type":"dance"}"#, "dance"),
        (r#"{"type":"start","at_ns":0}"#, "before `configure`"),
        (
            r#"{"type":"configure","contract":99,"config":{"engine":"watch"}}"#,
            "contract version 99",
        ),
        (
            r#"{"type":"configure","contract":1,"config":{"engine":"watch","colour":1}}"#,
            "colour",
        ),
    ] {
        let mut engine = Engine::start();
        engine.receive();
        writeln!(engine.stdin.as_mut().unwrap(), "{line}").unwrap();
        let error = engine.receive();
        assert_eq!(error["class"], "usage", "{line}: {error}");
        assert!(
            error["message"].as_str().unwrap().contains(part),
            "{line}: {error}"
        );
        assert_eq!(engine.status(), Some(2));
    }
}

#[test]
fn an_array_with_an_invalid_setting_names_it_and_exits_with_the_code_of_the_class() {
    let with = |field: &str, value: Value| {
        let mut config = array();
        *config.pointer_mut(field).unwrap() = value;
        config
    };
    let usage = [
        (
            "/portals/0",
            json!("0.0.0.0:0"),
            "0.0.0.0:0 is reachable from other machines",
        ),
        ("/portals", json!([]), "portals"),
        ("/portals/0", json!("storage:3260"), "storage:3260"),
        ("/target_name", json!("storage"), "target_name"),
        ("/lus", json!([]), "lus"),
        ("/lus/0/size_bytes", json!(1000), "1000"),
        ("/model", json!({"kind": "preset", "name": "tape"}), "tape"),
        (
            "/model",
            json!({"kind": "preset", "name": "jdsf-2011"}),
            "placement",
        ),
        ("/sample_interval_ms", json!(1), "sample_interval_ms"),
    ];
    for (field, value, part) in usage {
        let (error, status) = refusal(&with(field, value));
        assert_eq!(
            (error["class"].as_str(), status),
            (Some("usage"), Some(2)),
            "{error}"
        );
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
    }
    let environment = [
        (
            "/lus/0/store",
            json!({"kind": "file", "path": "/nowhere/lu"}),
            "/nowhere/lu",
        ),
        ("/lus/0/size_bytes", json!(1_u64 << 62), "bytes of memory"),
    ];
    let mut elsewhere = with("/portals/0", json!("192.0.2.1:3260"));
    elsewhere["isolated_network"] = json!(true);
    let environment = environment.map(|(field, value, part)| (with(field, value), part));
    for (config, part) in environment
        .into_iter()
        .chain([(elsewhere, "192.0.2.1:3260")])
    {
        let (error, status) = refusal(&config);
        assert_eq!(
            (error["class"].as_str(), status),
            (Some("environment"), Some(3)),
            "{error}"
        );
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
    }
}

#[test]
fn two_arrays_do_not_share_a_port_or_a_file() {
    let path = std::env::temp_dir().join(format!("hakaru-shared-{}", std::process::id()));
    let mut config = array();
    config["lus"][0]["store"] = json!({"kind": "file", "path": path});
    let (_first, ready) = Engine::configured(&config);
    let (error, status) = refusal(&config);
    assert_eq!(
        (error["class"].as_str(), status),
        (Some("environment"), Some(3)),
        "{error}"
    );
    let mut same_port = array();
    same_port["portals"] = ready["found"]["portals"].clone();
    let (error, status) = refusal(&same_port);
    assert_eq!(
        (error["class"].as_str(), status),
        (Some("environment"), Some(3)),
        "{error}"
    );
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_path_that_is_not_a_namespace_is_refused() {
    let done = Command::new(env!("CARGO_BIN_EXE_hakaru-engine"))
        .args(["run", "--netns", "/etc/hostname"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&done.stderr).contains("hint: "));
}

#[test]
fn a_capture_may_have_more_parts_than_files_may_be_open() {
    let part = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/capture/data/open-iscsi-tgt.pcapng"
    );
    let limited = r#"ulimit -n 20 && exec "$0" analyse "$@""#;
    let done = Command::new("sh")
        .args(["-c", limited, env!("CARGO_BIN_EXE_hakaru-engine")])
        .args([part; 40])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["files"].as_array().unwrap().len(), 40);
}

#[test]
fn a_closed_reader_of_stdout_or_stderr_causes_no_panic() {
    let capture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/capture/data/open-iscsi-tgt.pcapng"
    );
    let cases: [(&[&str], i32); 3] = [
        (&["schema"], 0),
        (&["analyse", "--progress", capture], 0),
        (&["analyse", "/nowhere.pcapng"], 3),
    ];
    for (arguments, status) in cases {
        let closed_pipe = || {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            writer
        };
        let mut engine = Command::new(env!("CARGO_BIN_EXE_hakaru-engine"));
        engine
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(closed_pipe());
        let ended = engine.stderr(Stdio::piped()).output().unwrap();
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(status), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
        assert_eq!(stderr.starts_with("error: "), status != 0, "{stderr}");
        engine.stderr(closed_pipe()).stdout(closed_pipe());
        let ended = engine.status().unwrap();
        assert_eq!(
            ended.code(),
            Some(status),
            "{arguments:?}, with stdout closed"
        );
    }
    // A write of the data that fails is an error.
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut engine = Command::new(env!("CARGO_BIN_EXE_hakaru-engine"));
    let ended = engine.arg("schema").stdout(full).output().unwrap();
    assert_eq!(ended.status.code(), Some(3));
    assert!(
        String::from_utf8(ended.stderr)
            .unwrap()
            .contains("cannot write to stdout")
    );
}
