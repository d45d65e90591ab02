//! Measures the cost of the target's own code per command: one session, 32 commands at a time, in
//! one thread, without a socket.
//!
//! ```text
//! cargo run --release -p hakaru-iscsi-target --example cost
//! ```
//! The target does all of its work for a command (bytes in, access to the LU, pieces out, bytes
//! taken). Reads do not touch the LU's bytes, and written data is dropped.

use std::time::Instant;

use hakaru_iscsi_target::{IoOp, IoResult, Limits, LuDescription, Segment, Target, TargetConfig};
use hakaru_units::Time;
use hakaru_wire::iscsi::text::emit_pair;
use hakaru_wire::iscsi::{
    CmdSn, Itt, LoginRequest, Lun, ScsiCommand, Stage, StatSn, TaskAttribute,
};
use hakaru_wire::scsi::{Cdb, Transfer};

const DEPTH: u32 = 32;
const COMMANDS: u32 = 2_000_000;

fn main() {
    println!("{:<24} {:>10} {:>14}", "command", "ns", "commands/s");
    for (name, write, bytes) in [
        ("read 4 KiB", false, 4096),
        ("write 4 KiB", true, 4096),
        ("read 1 MiB", false, 1 << 20),
    ] {
        let ns = cost(write, bytes);
        println!("{name:<24} {ns:>10.0} {:>14.0}", 1e9 / ns);
    }
}

/// Returns the mean time per command, nanoseconds.
fn cost(write: bool, bytes: u32) -> f64 {
    let portal = "127.0.0.1:3260".parse().expect("an address");
    let mut target = Target::new(TargetConfig {
        target_name: "iqn.2026-01.net.example:cost".to_owned(),
        portals: vec![portal],
        port_groups: Vec::new(),
        lus: vec![LuDescription::new(0, 1 << 30)],
        access: hakaru_iscsi_target::Access::default(),
        limits: Limits::default(),
    });
    let now = Time::ZERO;
    let connection = target
        .handle_connected(now, 0, portal, portal)
        .expect("room for one connection");
    target.handle_received(now, connection, &login());
    let mut sink = 0;
    drain(&mut target, now, &mut sink);

    let data = vec![7; if write { bytes as usize } else { 0 }];
    let mut cmd_sn = 1;
    let mut batch = Vec::new();
    let begin = Instant::now();
    let rounds = if bytes > 4096 {
        COMMANDS / 10
    } else {
        COMMANDS
    } / DEPTH;
    for _ in 0..rounds {
        batch.clear();
        for slot in 0..DEPTH {
            emit_command(&mut batch, cmd_sn, slot, write, bytes);
            batch.extend_from_slice(&data);
            cmd_sn += 1;
        }
        target.handle_received(now, connection, &batch);
        drain(&mut target, now, &mut sink);
    }
    let elapsed = begin.elapsed();
    assert!(
        sink > u64::from(rounds) * u64::from(DEPTH) * 48,
        "every command was answered"
    );
    elapsed.as_nanos() as f64 / f64::from(rounds * DEPTH)
}

fn drain(target: &mut Target, now: Time, sink: &mut u64) {
    while let Some(io) = target.poll_io() {
        let result = match io.op {
            IoOp::Read { .. } => IoResult::ReadInPlace,
            IoOp::Write { data, .. } => IoResult::Written(data),
            IoOp::Flush => IoResult::Flushed,
            _ => IoResult::Failed(hakaru_iscsi_target::IoFailure::Internal),
        };
        target.handle_io_done(now, io.id, result);
    }
    while let Some(connection) = target.poll_transmit() {
        let mut sent = 0;
        for segment in target.transmit(connection).segments() {
            sent += match segment {
                Segment::Bytes(bytes) => bytes.len(),
                Segment::Lu { length_bytes, .. } => length_bytes as usize,
            };
        }
        *sink += sent as u64;
        target.handle_transmitted(now, connection, sent, &mut |_, _, out| out.fill(0));
    }
}

fn emit_command(out: &mut Vec<u8>, cmd_sn: u32, slot: u32, write: bool, bytes: u32) {
    let transfer = Transfer {
        lba: u64::from(slot) * 8,
        blocks: bytes / 512,
        ..Transfer::default()
    };
    let mut header = [0; 48];
    ScsiCommand {
        immediate: false,
        is_final: true,
        read: !write,
        write,
        attribute: TaskAttribute::Simple,
        lun: Lun::new(0),
        itt: Itt(cmd_sn),
        expected_data_transfer_length: bytes,
        cmd_sn: CmdSn(cmd_sn),
        exp_stat_sn: StatSn(0),
        cdb: if write {
            Cdb::Write(transfer)
        } else {
            Cdb::Read(transfer)
        }
        .emit(),
        data_segment_length: if write { bytes } else { 0 },
    }
    .emit(&mut header);
    out.extend_from_slice(&header);
}

fn login() -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in [
        ("InitiatorName", "iqn.2026-01.net.example:vm"),
        ("SessionType", "Normal"),
        ("TargetName", "iqn.2026-01.net.example:cost"),
        ("MaxRecvDataSegmentLength", "262144"),
        ("MaxBurstLength", "1048576"),
    ] {
        emit_pair(&mut text, key, value);
    }
    let request = LoginRequest {
        current_stage: Stage::OperationalNegotiation,
        next_stage: Some(Stage::FullFeaturePhase),
        itt: Itt(1),
        cmd_sn: CmdSn(1),
        data_segment_length: text.len() as u32,
        ..LoginRequest::default()
    };
    let mut header = [0; 48];
    request.emit(&mut header);
    text.resize(text.len().next_multiple_of(4), 0);
    [&header[..], &text].concat()
}
