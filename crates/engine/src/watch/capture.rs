//! A capture beside the counters: a thread that moves packets from the kernel's ring to files, so that neither a slow disk nor much traffic delays a sample.
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hakaru_contract::Capture as CaptureConfig;
use hakaru_runtime::clock;
use hakaru_runtime::packet::capture::{CaptureRing, RingOptions};
use serde_json::{Value, json};

use super::capture_files::CaptureFiles;
use crate::failure::{Failure, OrEnvironment};

/// How soon the thread sees that it is to stop; packets are not later for it.
const STOP_SEEN: Duration = Duration::from_millis(50);
/// The kernel hands the last packets on well within this.
const DRAINED_BY: Duration = Duration::from_secs(1);

/// A running capture.
pub struct Capture {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), Failure>>>,
    found: Value,
    began: (u64, u64),
    cut_short: bool,
}

/// What the thread tells while it runs.
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
    /// Opens the ring and the first file. Packets are captured from now on.
    ///
    /// # Errors
    /// A setting is out of bounds; the interface or the file cannot be opened.
    pub fn begin(config: &CaptureConfig) -> Result<Capture, Failure> {
        check(config)?;
        let options = RingOptions {
            ring_bytes: config.ring_bytes as usize,
            snap_bytes: config.snap_bytes,
            ports: config.ports.clone(),
        };
        // Before the file, which would replace another for nothing.
        let ring = CaptureRing::open(&config.interface, &options)
            .map_err(|error| not_opened(&config.interface, &error))?;
        let (monotonic, realtime) = clock::now_and_realtime_ns();
        let files = CaptureFiles::create(config, monotonic, realtime)?;
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || capture(ring, files, &of_thread))
            .or_environment("start a thread", "raise the limit of threads")?;
        Ok(Capture {
            shared,
            thread: Some(thread),
            found: json!({
                "interface": config.interface,
                "file": config.file,
                "monotonic_ns": monotonic.0,
                "realtime_ns": realtime,
            }),
            began: (monotonic.0, realtime),
            cut_short: false,
        })
    }

    /// For `ready`. The two clocks were read together: they place the packets, which carry real time, among the samples.
    pub fn found(&self) -> Value {
        self.found.clone()
    }

    /// What it came to so far.
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

    /// Why it ended although nobody asked, once.
    pub fn poll_failure(&mut self) -> Option<Failure> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            return self.join().err();
        }
        None
    }

    /// Ends it; what it came to is then final, whether it could be written to the end or not.
    ///
    /// # Errors
    /// It could not.
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.join()
    }

    /// By how much the real-time clock was set while it ran, ns: packets before and after that are this much too far apart.
    pub fn clock_set_ns(&self) -> f64 {
        let (monotonic, realtime) = clock::now_and_realtime_ns();
        let passed = monotonic.0 as i128 - i128::from(self.began.0);
        (i128::from(realtime) - i128::from(self.began.1) - passed) as f64
    }

    /// It ended before it was told to, or could not be written to the end.
    pub fn is_cut_short(&self) -> bool {
        self.cut_short
    }

    fn join(&mut self) -> Result<(), Failure> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        // A panic there has ended the process already (`contain`).
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
            format_args!("{least} to {most}"),
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
            "capture.files_max without rotate_bytes",
            "say at which size a file is followed by another",
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
            "capturing wants CAP_NET_RAW: be root, or in a network namespace that this user made"
                .to_owned()
        }
        io::ErrorKind::NetworkDown => "bring the interface up before".to_owned(),
        io::ErrorKind::OutOfMemory => "make capture.ring_bytes smaller".to_owned(),
        _ => "name another interface".to_owned(),
    };
    Failure::environment(
        format_args!("cannot capture on the interface {interface}: {error}"),
        hint,
    )
}

/// Their names, for the one who named another.
fn interfaces() -> String {
    let table = std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let names = table
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0.trim()));
    names.collect::<Vec<_>>().join(", ")
}

/// The thread.
fn capture(mut ring: CaptureRing, mut files: CaptureFiles, shared: &Shared) -> Result<(), Failure> {
    while !shared.stop.load(Ordering::Relaxed) {
        take(&mut ring, &mut files, shared)?;
        ring.wait(STOP_SEEN).or_environment(
            "go on capturing",
            "the interface was removed; what was captured until then is in the file",
        )?;
    }
    let counted = "look at what the kernel says of packet sockets";
    ring.stop().or_environment("end the capture", counted)?;
    let began = Instant::now();
    // What had come when the stop did lies in blocks that the kernel still has.
    while take(&mut ring, &mut files, shared)? > 0 && began.elapsed() < DRAINED_BY {
        ring.wait(CaptureRing::SETTLES_IN)
            .or_environment("end the capture", counted)?;
    }
    files.finish()?;
    tell(&files, shared);
    Ok(())
}

/// Writes what is ready; packets that are in the ring and were not.
fn take(ring: &mut CaptureRing, files: &mut CaptureFiles, shared: &Shared) -> Result<u64, Failure> {
    let written = ring.take(&mut |packet| files.write(&packet));
    // A killed capture has all but what came last.
    let written = written.and_then(|()| files.flush());
    let (received, dropped) = ring
        .counts()
        .or_environment("count what was captured", "look at the kernel's log")?;
    files.note_dropped(dropped);
    tell(files, shared);
    written?;
    Ok(received.saturating_sub(dropped + files.packets()))
}

fn tell(files: &CaptureFiles, shared: &Shared) {
    shared.packets.store(files.packets(), Ordering::Relaxed);
    shared.dropped.store(files.dropped(), Ordering::Relaxed);
    shared.written_bytes.store(files.bytes(), Ordering::Relaxed);
    shared.files.store(files.files(), Ordering::Relaxed);
    shared
        .cpu_ns
        .store(clock::thread_cpu_ns(), Ordering::Relaxed);
}
