//! Packet capture. A dedicated thread moves packets from the kernel's ring to files, so that
//! neither a slow disk nor heavy traffic delays a sample.
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hakaru_contract::Capture as CaptureConfig;
use hakaru_runtime::packet::capture::{CaptureRing, RingOptions, Selection};
use hakaru_runtime::{clock, process};
use serde_json::{Value, json};

use super::capture_files::CaptureFiles;
use crate::failure::{Failure, OrEnvironment};

/// Interval at which the thread checks for a stop request. It does not delay packets.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Longest time for draining the ring after the stop. The kernel needs far less.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A running capture.
pub struct Capture {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), Failure>>>,
    facts: Value,
    /// Start of the capture on the monotonic and the real-time clock, ns.
    began: (u64, u64),
    cut_short: bool,
}

/// State that the capturing thread shares with the engine.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    packets: AtomicU64,
    dropped: AtomicU64,
    written_bytes: AtomicU64,
    files: AtomicU64,
    cpu_ns: AtomicU64,
}

impl Capture {
    /// Opens the ring and the first file, and starts capturing.
    ///
    /// # Errors
    /// A setting is out of bounds; the interface or the file cannot be opened.
    pub fn begin(config: &CaptureConfig) -> Result<Capture, Failure> {
        check(config)?;
        let options = RingOptions {
            ring_bytes: config.ring_bytes as usize,
            snap_bytes: config.snap_bytes,
            selection: Selection::TcpPorts(config.ports.clone()),
            receives_all: false,
        };
        // Opened before the file is created, because a failure must not overwrite an existing file.
        let ring = CaptureRing::open(&config.interface, &options)
            .map_err(|error| not_opened(&config.interface, &error))?;
        let (monotonic, realtime) = clock::now_and_realtime_ns();
        let files = CaptureFiles::create(config, monotonic, realtime)?;
        let shared = Arc::new(Shared::default());
        let thread_shared = shared.clone();
        let thread = std::thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || capture(ring, files, &thread_shared))
            .or_environment("start a thread", "raise the limit of threads")?;
        Ok(Capture {
            shared,
            thread: Some(thread),
            facts: json!({
                "interface": config.interface,
                "file": config.file,
                "monotonic_ns": monotonic.0,
                "realtime_ns": realtime,
            }),
            began: (monotonic.0, realtime),
            cut_short: false,
        })
    }

    /// Returns the facts for `ready`. The two clocks in them were read together. They relate the
    /// packets' real time to the samples' monotonic time.
    pub fn facts(&self) -> Value {
        self.facts.clone()
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> BTreeMap<String, f64> {
        let shared = &self.shared;
        let values = [
            ("packets", &shared.packets),
            ("dropped", &shared.dropped),
            ("written_bytes", &shared.written_bytes),
            ("files", &shared.files),
            ("cpu_ns", &shared.cpu_ns),
        ];
        let values =
            values.map(|(name, value)| (name.to_owned(), value.load(Ordering::Relaxed) as f64));
        BTreeMap::from(values)
    }

    /// Returns the failure that ended the capture early, once.
    pub fn poll_failure(&mut self) -> Option<Failure> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            return self.join().err();
        }
        None
    }

    /// Ends the capture. The counters are then final, even after an error.
    ///
    /// # Errors
    /// The capture could not be written completely.
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.join()
    }

    /// Returns the step of the real-time clock during the capture, ns. Time stamps before and after
    /// the step differ by this amount in addition to the time that passed.
    pub fn clock_set_ns(&self) -> f64 {
        let (monotonic, realtime) = clock::now_and_realtime_ns();
        let passed = monotonic.0 as i128 - i128::from(self.began.0);
        (i128::from(realtime) - i128::from(self.began.1) - passed) as f64
    }

    /// Returns whether the capture ended before its stop, or could not be written completely.
    pub fn is_cut_short(&self) -> bool {
        self.cut_short
    }

    fn join(&mut self) -> Result<(), Failure> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        // A panic in the thread has already ended the process (`contain`).
        let done = thread.join().expect("the capture thread does not panic");
        self.cut_short = done.is_err();
        done
    }
}

fn check(config: &CaptureConfig) -> Result<(), Failure> {
    let within = |name: &str, value: u64, least: u64, most: u64| {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(Failure::usage(
            format_args!("capture.{name} is {value}"),
            format_args!("it must be {least} to {most}"),
        ))
    };
    within("snap_bytes", config.snap_bytes.into(), 144, 262_144)?;
    within("ring_bytes", config.ring_bytes.into(), 1 << 20, 1 << 30)?;
    within(
        "ports",
        config.ports.len() as u64,
        0,
        RingOptions::PORTS_MAX as u64,
    )?;
    if let Some(bytes) = config.rotate_bytes {
        within("rotate_bytes", bytes, 1 << 20, u64::MAX)?;
    }
    match (config.files_max, config.rotate_bytes) {
        (Some(_), None) => Err(Failure::usage(
            "capture.files_max without rotate_bytes is not valid",
            "set rotate_bytes, the size at which a new file begins",
        )),
        (Some(files), _) => within("files_max", files.into(), 2, 10_000),
        (None, _) => Ok(()),
    }
}

fn not_opened(interface: &str, error: &io::Error) -> Failure {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => {
            format!(
                "name an interface of this network namespace: {}",
                interfaces()
            )
        }
        io::ErrorKind::PermissionDenied => {
            "capturing needs CAP_NET_RAW: run as root, or in a network namespace that this user created"
                .to_owned()
        }
        io::ErrorKind::NetworkDown => "bring the interface up first".to_owned(),
        io::ErrorKind::OutOfMemory => "lower capture.ring_bytes".to_owned(),
        _ => "name another interface".to_owned(),
    };
    Failure::environment(
        format_args!("cannot capture on the interface {interface}: {error}"),
        hint,
    )
}

/// Returns the names of the interfaces of this network namespace, for the hint.
fn interfaces() -> String {
    let table = std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let names = table
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0.trim()));
    names.collect::<Vec<_>>().join(", ")
}

/// Main function of the capturing thread.
fn capture(mut ring: CaptureRing, mut files: CaptureFiles, shared: &Shared) -> Result<(), Failure> {
    while !shared.stop.load(Ordering::Relaxed) {
        take(&mut ring, &mut files, shared)?;
        ring.wait(STOP_CHECK_INTERVAL).or_environment(
            "continue the capture",
            "the interface was removed; the packets captured before that are in the file",
        )?;
    }
    let hint = "see dmesg for messages about packet sockets";
    ring.stop().or_environment("end the capture", hint)?;
    let began = Instant::now();
    // Packets that arrived before the stop may be in blocks that the kernel still owns.
    while take(&mut ring, &mut files, shared)? > 0 && began.elapsed() < DRAIN_TIMEOUT {
        ring.wait(CaptureRing::SETTLE_TIME)
            .or_environment("end the capture", hint)?;
    }
    files.finish()?;
    publish(&files, shared);
    Ok(())
}

/// Writes the packets that are ready. Returns the number of packets still in the ring.
fn take(ring: &mut CaptureRing, files: &mut CaptureFiles, shared: &Shared) -> Result<u64, Failure> {
    let written = ring.take(&mut |packet| files.write(&packet));
    // Flushed, so that only the last packets are missing if the process is killed.
    let written = written.and_then(|()| files.flush());
    let (received, dropped) = ring
        .counts()
        .or_environment("read the counts of captured packets", "see dmesg")?;
    files.note_dropped(dropped);
    publish(files, shared);
    written?;
    Ok(received.saturating_sub(dropped + files.packets()))
}

fn publish(files: &CaptureFiles, shared: &Shared) {
    shared.packets.store(files.packets(), Ordering::Relaxed);
    shared.dropped.store(files.dropped(), Ordering::Relaxed);
    shared.written_bytes.store(files.bytes(), Ordering::Relaxed);
    shared.files.store(files.files(), Ordering::Relaxed);
    shared
        .cpu_ns
        .store(process::thread_cpu_ns(), Ordering::Relaxed);
}
