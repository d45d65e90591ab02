//! A minimal initiator: blocking, with one operation at a time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hakaru_wire::iscsi::text::emit_pair;
use hakaru_wire::iscsi::{
    Bhs, CmdSn, Isid, Itt, LoginRequest, LoginResponse, LogoutReason, LogoutRequest, Lun, Opcode,
    ScsiCommand, Stage, StatSn, TaskAttribute,
};
use hakaru_wire::scsi::{Cdb, Transfer};

pub const TARGET: &str = "iqn.2026-01.net.example:storm";

/// A session.
pub struct Client {
    socket: TcpStream,
    cmd_sn: u32,
    data_digest: bool,
}

impl Client {
    pub fn log_in(portal: &str, isid: u32, keys: &[(&str, &str)]) -> Client {
        let socket = TcpStream::connect(portal).expect("the array listens");
        Client::try_log_in(socket, isid, keys).expect("logged in")
    }

    /// Logs in. Returns `None` if the login is refused or the connection is closed.
    pub fn try_log_in(socket: TcpStream, isid: u32, keys: &[(&str, &str)]) -> Option<Client> {
        socket
            .set_read_timeout(Some(Duration::from_secs(30)))
            .ok()?;
        socket.set_nodelay(true).ok()?;
        let mut text = Vec::new();
        emit_pair(&mut text, "InitiatorName", "iqn.2026-01.net.example:client");
        emit_pair(&mut text, "TargetName", TARGET);
        keys.iter()
            .for_each(|(key, value)| emit_pair(&mut text, key, value));
        let mut header = [0; 48];
        LoginRequest {
            current_stage: Stage::OperationalNegotiation,
            next_stage: Some(Stage::FullFeaturePhase),
            isid: Isid::random(isid, 0),
            itt: Itt(1),
            cid: 1,
            cmd_sn: CmdSn(1),
            data_segment_length: text.len() as u32,
            ..LoginRequest::default()
        }
        .emit(&mut header);
        text.resize(text.len().next_multiple_of(4), 0);
        let mut client = Client {
            socket,
            cmd_sn: 1,
            data_digest: false,
        };
        client
            .socket
            .write_all(&[&header[..], &text].concat())
            .ok()?;
        let (bhs, _) = client.receive()?;
        let response = LoginResponse::parse(&bhs).ok()?;
        client.data_digest = keys.contains(&("DataDigest", "CRC32C"));
        (response.status.0 == 0).then_some(client)
    }

    /// Sends a READ of blocks without receiving the response.
    pub fn send_read(&mut self, lba: u64, blocks: u32) {
        let mut cdb = [0; 16];
        let emitted = Cdb::Read(Transfer {
            lba,
            blocks,
            ..Transfer::default()
        })
        .emit();
        cdb[..emitted.len()].copy_from_slice(&emitted);
        let mut header = [0; 48];
        ScsiCommand {
            immediate: false,
            is_final: true,
            read: true,
            write: false,
            attribute: TaskAttribute::Simple,
            lun: Lun::new(0),
            itt: Itt(self.cmd_sn + 100),
            expected_data_transfer_length: blocks * 512,
            cmd_sn: CmdSn(self.cmd_sn),
            exp_stat_sn: StatSn(0),
            cdb,
            data_segment_length: 0,
        }
        .emit(&mut header);
        self.cmd_sn += 1;
        // The array may have ended this session.
        let _ = self.socket.write_all(&header);
    }

    /// Receives the next PDU. Returns `None` at the end of the connection.
    fn receive(&mut self) -> Option<(Bhs, Vec<u8>)> {
        let mut header = [0; 48];
        self.socket.read_exact(&mut header).ok()?;
        let bhs = Bhs::new(header);
        let length = bhs.data_segment_length() as usize;
        let trailer = if self.data_digest && length > 0 { 4 } else { 0 };
        let mut data = vec![0; length.next_multiple_of(4) + trailer];
        self.socket.read_exact(&mut data).ok()?;
        data.truncate(length);
        Some((bhs, data))
    }

    /// Receives one PDU of any type and returns its opcode.
    pub fn receive_opcode(&mut self) -> Option<Opcode> {
        self.receive()?.0.opcode()
    }

    /// Reads one block. Returns `None` if the read fails or the connection is closed.
    pub fn read(&mut self) -> Option<Vec<u8>> {
        self.send_read(8, 1);
        let mut read = Vec::new();
        loop {
            let (bhs, data) = self.receive()?;
            match bhs.opcode()? {
                Opcode::DataIn => {
                    read.extend_from_slice(&data);
                    let status = bhs.flags() & 1 != 0;
                    if status {
                        return (bhs.as_bytes()[3] == 0).then_some(read);
                    }
                }
                Opcode::NopIn => {}
                _ => return None,
            }
        }
    }

    pub fn log_out(mut self) {
        let mut header = [0; 48];
        LogoutRequest {
            immediate: true,
            reason: LogoutReason::CloseSession,
            itt: Itt(7),
            cid: 0,
            cmd_sn: CmdSn(self.cmd_sn),
            exp_stat_sn: StatSn(0),
        }
        .emit(&mut header);
        self.socket
            .write_all(&header)
            .expect("the array reads the request");
        assert_eq!(self.receive_opcode(), Some(Opcode::LogoutResponse));
    }
}

/// A session on a separate thread that reads single blocks in sequence.
pub struct Bystander {
    reads: Arc<AtomicU64>,
    /// Index of the period to which reads are counted, or [`ENDING`] to end the session.
    period: Arc<AtomicUsize>,
    periods: Vec<&'static str>,
    thread: JoinHandle<Vec<(usize, Duration)>>,
}

const ENDING: usize = usize::MAX;

impl Bystander {
    /// Logs in and starts reading. Reads are counted to `period` until another period begins.
    pub fn start(portal: &str, period: &'static str) -> Bystander {
        let mut client = Client::log_in(portal, 1, &[]);
        let reads = Arc::new(AtomicU64::new(0));
        let now = Arc::new(AtomicUsize::new(0));
        let (counted, current) = (Arc::clone(&reads), Arc::clone(&now));
        let thread = thread::spawn(move || {
            let mut latencies = Vec::new();
            loop {
                let period = current.load(Ordering::Relaxed);
                if period == ENDING {
                    break;
                }
                let sent_at = Instant::now();
                let data = client.read().expect("the bystander is served");
                assert_eq!(data.len(), 512);
                latencies.push((period, sent_at.elapsed()));
                counted.fetch_add(1, Ordering::Relaxed);
            }
            client.log_out();
            latencies
        });
        Bystander {
            reads,
            period: now,
            periods: vec![period],
            thread,
        }
    }

    /// Returns the number of reads so far.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Counts reads to `period` from now on.
    pub fn enter(&mut self, period: &'static str) {
        self.periods.push(period);
        self.period.store(self.periods.len() - 1, Ordering::Relaxed);
    }

    /// Ends the session, checks that every read succeeded, and prints the latencies.
    pub fn stop(self, id: &str) {
        self.period.store(ENDING, Ordering::Relaxed);
        let all = self
            .thread
            .join()
            .expect("the bystander was served to the end");
        for (number, period) in self.periods.iter().enumerate() {
            let mut latencies: Vec<Duration> = all
                .iter()
                .filter(|(period, _)| *period == number)
                .map(|(_, latency)| *latency)
                .collect();
            assert!(!latencies.is_empty(), "{id}: no read in {period:?}");
            latencies.sort();
            let at = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
            let worst = at(100);
            println!(
                "       bystander in {id}, {period}: {} reads, p50 {:?}, p99 {:?}, longest {worst:?}",
                latencies.len(),
                at(50),
                at(99)
            );
            assert!(worst < Duration::from_secs(5), "a read took {worst:?}");
        }
    }
}
