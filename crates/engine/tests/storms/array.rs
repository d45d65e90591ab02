//! The engine as an array, observed from outside.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longest wait for a condition, far longer than any takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
pub fn until(condition: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(
            began.elapsed() < PATIENCE,
            "{condition}: not within {PATIENCE:?}"
        );
        thread::park_timeout(Duration::from_millis(20));
    }
}

/// A running array with one LU of 64 MiB in memory, which samples ten times a second.
pub struct Array {
    child: Child,
    stdin: ChildStdin,
    pub portal: String,
    /// The counters of `sessions` in the newest sample.
    newest: Arc<Mutex<Value>>,
}

impl Array {
    pub fn start(sessions_max: u32) -> Array {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hakaru-engine"))
            .arg("run")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the engine starts");
        let mut stdin = child.stdin.take().expect("piped");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut receive = move || -> Option<Value> {
            let line = lines.next()?.ok()?;
            Some(serde_json::from_str(&line).expect("JSON"))
        };
        assert_eq!(receive().expect("hello")["type"], "hello");
        let config = json!({
            "engine": "array",
            "target_name": crate::client::TARGET,
            "portals": ["127.0.0.1:0"],
            "lus": [{"lun": 0, "size_bytes": 64 << 20, "store": {"kind": "memory"}}],
            "model": {"kind": "none"},
            "sample_interval_ms": 100,
            "sessions_max": sessions_max,
        });
        let configure = json!({"type": "configure", "contract": 1, "config": config});
        writeln!(stdin, "{configure}").expect("the engine reads orders");
        let ready = receive().expect("ready");
        assert_eq!(ready["type"], "ready", "{ready}");
        let start = json!({"type": "start", "at_ns": 0});
        writeln!(stdin, "{start}").expect("the engine reads orders");
        let newest = Arc::new(Mutex::new(Value::Null));
        let stored = Arc::clone(&newest);
        thread::spawn(move || {
            while let Some(mut event) = receive() {
                assert_ne!(event["type"], "error", "{event}");
                if event["type"] == "sample" {
                    *stored.lock().expect("not poisoned") = event["counters"]["sessions"].take();
                }
            }
        });
        Array {
            portal: ready["found"]["portals"][0]
                .as_str()
                .expect("a portal")
                .to_owned(),
            child,
            stdin,
            newest,
        }
    }

    /// Returns a counter of `sessions` in the newest sample; NaN before the first sample.
    pub fn sample(&self, name: &str) -> f64 {
        self.newest.lock().expect("not poisoned")[name]
            .as_f64()
            .unwrap_or(f64::NAN)
    }

    /// Returns the number of open descriptors.
    pub fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.child.id());
        std::fs::read_dir(folder).expect("the engine runs").count()
    }

    /// Returns the resident memory, bytes.
    pub fn resident_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("the engine runs");
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .expect("a size");
        let kib = line
            .split_whitespace()
            .nth(1)
            .and_then(|kib| kib.parse::<u64>().ok());
        kib.expect("a number") * 1024
    }

    /// Stops the array and waits for its end.
    pub fn stop(&mut self) {
        writeln!(self.stdin, "{}", json!({"type": "stop"})).expect("the engine reads orders");
        let status = self.child.wait().expect("the engine ends");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
