//! Copies many small files from and to a private smbd, once with processes of `smbclient` (`mget`,
//! `mput`) and once with as many connections of `hakaru-smb` in one thread, and prints files per
//! second and CPU time of both.
//!
//! `cargo run --release -p hakaru-engine --example copy_files -- [FILES [BYTES [CONNECTIONS]]]`
//!
//! Needs root, and the Debian packages samba and smbclient. FILES are per connection.
#[path = "../../../smb/tests/smbd/server.rs"]
mod server;
mod shell;

use std::fs;
use std::path::Path as FilePath;
use std::time::Instant;

use hakaru_smb::{Config, Credentials, Password, Signing};
use server::{PASSWORD, Smbd, USER};
use shell::{Direction, Job};

/// Rounds of each measurement. The order of the clients alternates.
const ROUNDS: usize = 9;
const TICKS_PER_SECOND: f64 = 100.0;

/// Duration of a run, and CPU time of the client, seconds.
#[derive(Clone, Copy)]
struct Cost {
    wall_s: f64,
    cpu_s: f64,
}

fn main() {
    let numbers: Vec<usize> = std::env::args()
        .skip(1)
        .map(|text| text.parse().expect("a number"))
        .collect();
    let at = |n: usize, default| numbers.get(n).copied().unwrap_or(default);
    let (files, bytes, connections) = (at(0, 1000), at(1, 50 << 10), at(2, 4));
    let Some(server) = Smbd::start("server signing = auto\nlog level = 0") else {
        std::process::exit(3);
    };
    prepare(&server, files, bytes, connections);
    println!("{connections} connections, {files} files of {bytes} bytes each, {ROUNDS} rounds");
    println!(
        "Ratios are those to smbclient: the median of the rounds, and CPU time of all rounds."
    );
    println!(
        "| direction | client | files/s (median; min–max) | ratio | CPU, us per file | ratio |"
    );
    println!("|---|---|---|---|---|---|");
    for direction in [Direction::Get, Direction::Put] {
        let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); 4];
        for round in 0..ROUNDS {
            for turn in 0..costs.len() {
                let kind = (turn + round) % costs.len();
                let cost = match kind {
                    0 => smbclient(&server, direction, connections),
                    kind => ours(&server, direction, connections, kind),
                };
                check(&server, direction, files * connections);
                costs[kind].push(cost);
            }
        }
        let names = [
            "smbclient",
            "compounds",
            "requests apart",
            "compounds, signed",
        ];
        for (name, cost) in names.iter().zip(&costs) {
            report(direction, name, cost, &costs[0], files * connections);
        }
    }
}

/// Writes the files of both directions.
fn prepare(server: &Smbd, files: usize, bytes: usize, connections: usize) {
    for connection in 0..connections {
        for root in ["get", "../local/put"] {
            let folder = server.path(root).join(connection.to_string());
            fs::create_dir_all(&folder).unwrap();
            for file in 0..files {
                let content: Vec<u8> = (0..bytes).map(|n| (n * 31 + file * 7) as u8).collect();
                fs::write(folder.join(format!("file {file}")), content).unwrap();
            }
        }
    }
}

/// Removes the copies of the last run.
fn clean(server: &Smbd, direction: Direction, connections: usize) {
    let root = server.path(destination(direction));
    let _ = fs::remove_dir_all(&root);
    for connection in 0..connections {
        fs::create_dir_all(root.join(connection.to_string())).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(root.join(connection.to_string()), mode).unwrap();
    }
}

fn destination(direction: Direction) -> &'static str {
    match direction {
        Direction::Get => "../local/get",
        Direction::Put => "put",
    }
}

/// Compares all copies with their sources.
fn check(server: &Smbd, direction: Direction, count: usize) {
    let source = match direction {
        Direction::Get => "get",
        Direction::Put => "../local/put",
    };
    let mut copies = 0;
    for folder in fs::read_dir(server.path(destination(direction))).unwrap() {
        let folder = folder.unwrap();
        for copy in fs::read_dir(folder.path()).unwrap() {
            let copy = copy.unwrap();
            let source = server
                .path(source)
                .join(folder.file_name())
                .join(copy.file_name());
            assert!(fs::read(copy.path()).unwrap() == fs::read(source).unwrap());
            copies += 1;
        }
    }
    assert_eq!(copies, count);
}

fn smbclient(server: &Smbd, direction: Direction, connections: usize) -> Cost {
    clean(server, direction, connections);
    let begin = (Instant::now(), cpu_s(true));
    let mut processes = Vec::new();
    for connection in 0..connections {
        let (remote, local, verb) = match direction {
            Direction::Get => ("get", "../local/get", "mget"),
            Direction::Put => ("put", "../local/put", "mput"),
        };
        let local = server.path(local).join(connection.to_string());
        let commands = format!(
            "prompt off; cd {remote}/{connection}; lcd {}; {verb} *",
            local.display()
        );
        let mut command = server.smbclient_command(&commands);
        command.stdout(std::process::Stdio::null());
        command.stderr(std::process::Stdio::null());
        processes.push(command.spawn().unwrap());
    }
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    Cost {
        wall_s: begin.0.elapsed().as_secs_f64(),
        cpu_s: cpu_s(true) - begin.1,
    }
}

fn ours(server: &Smbd, direction: Direction, connections: usize, kind: usize) -> Cost {
    clean(server, direction, connections);
    let credentials = Credentials::Password(Password {
        domain: String::new(),
        user: USER.into(),
        password: PASSWORD.into(),
    });
    let mut config = Config::new("127.0.0.1", "data", credentials);
    if kind == 3 {
        config.signing = Signing::Required;
    }
    let begin = (Instant::now(), cpu_s(false));
    let jobs = (0..connections).map(|connection| {
        let local = match direction {
            Direction::Get => server.path("../local/get"),
            Direction::Put => server.path("../local/put"),
        };
        Job {
            direction,
            compound: kind != 2,
            remote: match direction {
                Direction::Get => format!("get/{connection}"),
                Direction::Put => format!("put/{connection}"),
            },
            local: local.join(connection.to_string()),
        }
    });
    shell::run(server.address, &config, jobs.collect());
    Cost {
        wall_s: begin.0.elapsed().as_secs_f64(),
        cpu_s: cpu_s(false) - begin.1,
    }
}

/// Returns the CPU time of this process, or of its children that have ended, seconds.
fn cpu_s(children: bool) -> f64 {
    let stat = fs::read_to_string(FilePath::new("/proc/self/stat")).unwrap();
    // The second field, in parentheses, may have spaces. utime is field 14, cutime field 16.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let first = if children { 13 } else { 11 };
    let ticks = |n: usize| fields[n].parse::<f64>().unwrap();
    (ticks(first) + ticks(first + 1)) / TICKS_PER_SECOND
}

fn report(direction: Direction, name: &str, costs: &[Cost], peer: &[Cost], files: usize) {
    let files = files as f64;
    let sorted = |values: Vec<f64>| {
        let mut values = values;
        values.sort_by(f64::total_cmp);
        values
    };
    let rates = sorted(costs.iter().map(|cost| files / cost.wall_s).collect());
    let pairs = costs.iter().zip(peer);
    let ratios = sorted(
        pairs
            .map(|(cost, peer)| peer.wall_s / cost.wall_s)
            .collect(),
    );
    // The kernel counts in ticks of 10 ms, which is too coarse for one round.
    let cpu_s = |costs: &[Cost]| costs.iter().map(|cost| cost.cpu_s).sum::<f64>();
    let cpu_us = cpu_s(costs) / (files * costs.len() as f64) * 1e6;
    let middle = costs.len() / 2;
    println!(
        "| {direction:?} | {name} | {:.0} ({:.0}–{:.0}) | {:.2} | {cpu_us:.0} | {:.2} |",
        rates[middle],
        rates[0],
        rates[rates.len() - 1],
        ratios[middle],
        cpu_s(costs) / cpu_s(peer),
    );
}
