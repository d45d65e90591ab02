//! `hakaru-engine`: the parts of hakaru that must be fast or exact. One process runs one engine,
//! which the control plane selects.
//!
//! The pipeline: set up the process, enter the network namespace, receive the configuration, run
//! one shell, and exit with a code of `docs/reference/contract.md`.
mod accept;
mod address;
mod analyse;
mod array;
mod backup;
mod contain;
mod control;
mod description;
mod fabric;
mod failure;
mod files;
mod initiator;
mod nexus_failure;
mod packets;
mod probe;
mod sampling;
mod schema;
mod secret;
mod slices;
mod sockets;
mod stamps;
mod tcp;
mod watch;

use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hakaru_contract::EngineConfig;
use hakaru_runtime::process::{self, TerminationSignal};
use hakaru_runtime::{Reactor, clock};

use crate::control::Control;
use crate::failure::{Failure, OrEnvironment};

/// The engines of hakaru: storage array, block load, image backup, load of files, switches and
/// links, node counters, path probe, and generator of packets.
#[derive(Parser)]
#[command(name = "hakaru-engine", version)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run one engine, which reads orders from stdin and writes events to stdout, both as JSON
    /// lines.
    Run {
        /// Enter this network namespace first (/proc/PID/ns/net, or a bind mount of one).
        #[arg(long, value_name = "PATH")]
        netns: Option<PathBuf>,
    },
    /// Check a thin pool that is not in use, without changing it. Prints figures and damage as
    /// JSON. The exit code is 1 if the pool is damaged.
    Check {
        /// Directory of the pool.
        directory: PathBuf,
    },
    /// Write the contents of a tape cartridge that is not in use to a new file in the format of
    /// SIMH. Prints figures as JSON.
    ExportTape {
        /// File of the cartridge.
        cartridge: PathBuf,
        /// The new file.
        tap: PathBuf,
    },
    /// Create a tape cartridge with the contents of a file in the format of SIMH. Prints figures as
    /// JSON.
    ImportTape {
        /// The file.
        tap: PathBuf,
        /// File of the new cartridge, BARCODE.tape.
        cartridge: PathBuf,
        /// Capacity of the cartridge, bytes; default: the space that the contents need.
        #[arg(long, value_name = "BYTES")]
        capacity: Option<u64>,
    },
    /// Analyse the iSCSI traffic in a capture and print a report as JSON. Several files are read as
    /// the parts of one capture.
    Analyse {
        /// Capture files, pcap or pcapng.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// TCP port that targets listen on; may be given several times. iSCSI on other ports is
        /// detected by its content.
        #[arg(long = "port", default_values_t = [3260])]
        ports: Vec<u16>,
        /// Print the progress on stderr.
        #[arg(long)]
        progress: bool,
    },
    /// Count the files below a directory by size and depth, without reading their contents, and
    /// print the counts as JSON.
    Survey {
        /// Directory.
        directory: PathBuf,
        /// End after this number of files.
        #[arg(long, default_value_t = 1_000_000)]
        files_max: u64,
    },
    /// Read a clock for another machine: answer every line of stdin by the line, a space and
    /// `CLOCK_MONOTONIC` in nanoseconds.
    Clock,
    /// Print the JSON Schema of the orders and events.
    Schema,
}

fn main() -> ExitCode {
    match Arguments::parse().verb {
        Verb::Schema => print(&schema::contract().to_string(), ExitCode::SUCCESS),
        Verb::Analyse {
            files,
            ports,
            progress,
        } => match analyse::analyse(&files, &ports, progress) {
            Ok(report) => print(&report, ExitCode::SUCCESS),
            Err(failure) => print_failure(&failure),
        },
        Verb::Check { directory } => match array::check_pool(&directory) {
            Ok((report, sound)) => print(&report.to_string(), ExitCode::from(u8::from(!sound))),
            Err(failure) => print_failure(&failure),
        },
        Verb::ExportTape { cartridge, tap } => match array::export_tape(&cartridge, &tap) {
            Ok(report) => print(&report.to_string(), ExitCode::SUCCESS),
            Err(failure) => print_failure(&failure),
        },
        Verb::ImportTape {
            tap,
            cartridge,
            capacity,
        } => match array::import_tape(&tap, &cartridge, capacity) {
            Ok(report) => print(&report.to_string(), ExitCode::SUCCESS),
            Err(failure) => print_failure(&failure),
        },
        Verb::Survey {
            directory,
            files_max,
        } => match files::survey(&directory, files_max) {
            Ok(report) => print(&report, ExitCode::SUCCESS),
            Err(failure) => print_failure(&failure),
        },
        Verb::Clock => match answer_with_clock() {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => print_failure(&failure),
        },
        Verb::Run { netns } => match run(netns.as_deref()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => print_failure(&failure),
        },
    }
}

/// Prints data on stdout and returns the status. A pipe closed by its reader, such as `head`, is
/// not an error.
fn print(data: &str, status: ExitCode) -> ExitCode {
    let mut out = io::stdout().lock();
    match writeln!(out, "{data}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            print_failure(&Failure::environment(
                format_args!("cannot write to stdout: {error}"),
                "check the file or pipe that stdout is connected to",
            ))
        }
        _ => status,
    }
}

/// Prints the failure on stderr and returns its exit code. A closed stderr is ignored.
fn print_failure(failure: &Failure) -> ExitCode {
    let (message, hint) = (&failure.message, &failure.hint);
    let _ = writeln!(io::stderr(), "error: {message}\nhint: {hint}");
    failure.exit_code()
}

/// Answers until stdin or its peer ends.
fn answer_with_clock() -> Result<(), Failure> {
    process::die_with_parent();
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line.or_environment("read stdin", "send lines of text")?;
        let now = clock::now().as_ns();
        if writeln!(out, "{line} {now}")
            .and_then(|()| out.flush())
            .is_err()
        {
            break;
        }
    }
    Ok(())
}

fn run(netns: Option<&Path>) -> Result<(), Failure> {
    contain::abort_elsewhere();
    process::die_with_parent();
    // Done before any thread is started, because blocked signals and the namespace are properties
    // of threads.
    let signal = TerminationSignal::take()
        .or_environment("watch for SIGTERM", "raise the limit of open files")?;
    let entered = netns.map_or(Ok(()), |path| {
        process::enter_network_namespace(path).or_environment(
            format_args!("enter the network namespace {}", path.display()),
            "the path must name a network namespace that this user may enter",
        )
    });
    let reactor = Reactor::new()
        .or_environment("create an epoll instance", "raise the limit of open files")?;
    let mut control = Control::open(&reactor, signal)?;
    let done = entered.and_then(|()| run_engine(&reactor, &mut control));
    if let Err(failure) = &done {
        control.error(failure, true);
    }
    control.finish();
    done
}

/// Runs the engine from `configure` to the end of its work.
fn run_engine(reactor: &Reactor, control: &mut Control) -> Result<(), Failure> {
    match control.configure(reactor)? {
        None => Ok(()),
        Some(EngineConfig::Array(config)) => array::run(&config, reactor, control),
        Some(EngineConfig::Initiator(config)) => initiator::run(&config, reactor, control),
        Some(EngineConfig::Watch(config)) => watch::run(&config, reactor, control),
        Some(EngineConfig::Probe(config)) => probe::run(&config, reactor, control),
        Some(EngineConfig::Fabric(config)) => fabric::run(&config, reactor, control),
        Some(EngineConfig::Backup(config)) => backup::run(&config, reactor, control),
        Some(EngineConfig::Packets(config)) => packets::run(&config, reactor, control),
        Some(EngineConfig::Files(config)) => files::run(&config, reactor, control),
    }
}
