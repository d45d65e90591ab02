//! An array engine as a process: configuration, orders and end.
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

pub const TARGET: &str = "iqn.2026-01.org.hakaru:tested";
pub const MIB: u64 = 1 << 20;

/// Returns the path of the engine under test: `$HAKARU_ENGINE`, or the engine built with this test.
pub fn engine() -> PathBuf {
    let path = std::env::var_os("HAKARU_ENGINE");
    path.map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_hakaru-engine")),
        PathBuf::from,
    )
}

/// A running array.
pub struct Array {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    orders: u64,
    /// Facts of the `ready` event.
    pub found: Value,
}

impl Array {
    /// Starts an array. If it refuses to start, returns its error event and exit code.
    pub fn try_start(config: &Value) -> Result<Array, (Value, Option<i32>)> {
        Array::try_start_inside(&[], config)
    }

    /// Like [`Array::try_start`], with the prefix `inside`: a command that runs the command given
    /// as its last arguments.
    pub fn try_start_inside(
        inside: &[String],
        config: &Value,
    ) -> Result<Array, (Value, Option<i32>)> {
        let engine = engine();
        let mut command = match inside {
            [] => Command::new(&engine),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(&engine);
                command
            }
        };
        let mut child = command
            .arg("run")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut array = Array {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            orders: 0,
            found: Value::Null,
        };
        assert_eq!(array.receive()["type"], "hello");
        array.send(&json!({"type": "configure", "contract": 1, "config": config}));
        let ready = array.receive();
        if ready["type"] == "ready" {
            array.found = ready["found"].clone();
            Ok(array)
        } else {
            let code = array.child.wait().unwrap().code();
            Err((ready, code))
        }
    }

    /// Starts an array.
    pub fn start(config: &Value) -> Array {
        Array::try_start(config).unwrap_or_else(|(error, code)| panic!("exit {code:?}: {error}"))
    }

    /// Starts an array with the command prefix `inside`; see [`Array::try_start_inside`].
    pub fn start_inside(inside: &[String], config: &Value) -> Array {
        Array::try_start_inside(inside, config)
            .unwrap_or_else(|(error, code)| panic!("exit {code:?}: {error}"))
    }

    /// Returns the address of the first portal.
    pub fn portal(&self) -> &str {
        self.found["portals"][0].as_str().unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn send(&mut self, command: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{command}").unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// Sends an order and waits for its reply. Returns the value or the error of the reply.
    pub fn manage(&mut self, action: Value) -> Result<Value, Value> {
        self.orders += 1;
        let id = self.orders;
        self.send(&json!({"type": "manage", "id": id, "action": action}));
        loop {
            let event = self.receive();
            if event["type"] == "reply" {
                assert_eq!(event["id"], id, "{event}");
                return match event.get("error") {
                    None => Ok(event["value"].clone()),
                    Some(error) => Err(error.clone()),
                };
            }
            assert_ne!(event["fatal"], json!(true), "{event}");
        }
    }

    /// Sends an order and does not wait for the reply.
    pub fn order(&mut self, action: &Value) {
        self.orders += 1;
        let id = self.orders;
        self.send(&json!({"type": "manage", "id": id, "action": action}));
    }

    /// Waits for the next `count` replies and returns them in order of arrival.
    pub fn replies(&mut self, count: usize) -> Vec<Result<Value, Value>> {
        let mut replies = Vec::new();
        while replies.len() < count {
            let event = self.receive();
            if event["type"] == "reply" {
                let error = event.get("error").cloned();
                replies.push(error.map_or_else(|| Ok(event["value"].clone()), Err));
            }
        }
        replies
    }

    /// Returns the figures of the only pool.
    pub fn pool(&mut self) -> Value {
        self.manage(json!({"kind": "status"})).unwrap()["pools"][0].clone()
    }

    /// Requests a sample and returns its counters.
    pub fn sample(&mut self) -> Value {
        self.send(&json!({"type": "start", "at_ns": 0}));
        loop {
            let event = self.receive();
            if event["type"] == "sample" {
                return event["counters"].clone();
            }
        }
    }

    /// Stops the array cleanly and returns its exit code.
    pub fn stop(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().unwrap().code()
    }

    /// Kills the array, like a crash.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory of the test, removed at its end.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let base = std::env::var_os("HAKARU_TEST_DIRECTORY")
            .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
        let path = base.join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the configuration of an array with these LUs and pools, without a timing model.
pub fn config(lus: Value, pools: Value) -> Value {
    json!({
        "engine": "array",
        "target_name": TARGET,
        "portals": ["127.0.0.1:0"],
        "lus": lus,
        "pools": pools,
        "model": {"kind": "none"},
        "sample_interval_ms": 60_000,
    })
}

/// Returns the configuration of a pool of one group with `pages` data pages of 64 KiB.
pub fn pool(directory: &Path, pages: u64) -> Value {
    json!({
        "name": "pool",
        "directory": directory,
        "page_bytes": 65_536,
        "groups": [group("a", pages)],
    })
}

/// Returns the configuration of a group with `pages` data pages of 64 KiB.
pub fn group(name: &str, pages: u64) -> Value {
    json!({"name": name, "size_bytes": (pages + 1) * 65_536})
}

/// Returns the configuration of a thin LU.
pub fn thin(lun: u8, volume: &str, size_bytes: u64) -> Value {
    json!({
        "lun": lun,
        "size_bytes": size_bytes,
        "store": {"kind": "thin", "pool": "pool", "volume": volume},
    })
}

/// Runs `hakaru-engine check`. Returns its report (null if it prints none) and its exit code.
pub fn check(directory: &Path) -> (Value, Option<i32>) {
    let done = Command::new(engine())
        .arg("check")
        .arg(directory)
        .output()
        .unwrap();
    let report = serde_json::from_slice(&done.stdout).unwrap_or(Value::Null);
    (report, done.status.code())
}

/// Returns a command that runs another command with a limit of the size of files that it writes.
pub fn file_size_limit(bytes: u64) -> Vec<String> {
    // The engine inherits the ignored signal, so its writes fail with an error instead.
    let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", bytes / 512);
    ["sh", "-c", &script, "sh"].map(str::to_owned).to_vec()
}
