//! An initiator with one session, which sends commands given as CDBs, one or several at a time.
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hakaru_contract::LoginKeys;
use hakaru_iscsi_session::{
    Done, Event, Purpose, Session, SessionConfig, SessionTimers, Task, TaskData, TaskError,
};
use hakaru_units::Time;
use hakaru_wire::iscsi::{Isid, Lun};
use hakaru_wire::scsi::Sense;

use super::array::TARGET;

/// Bytes of a block.
pub const BLOCK: usize = 512;

/// A session over a socket.
pub struct Client {
    stream: TcpStream,
    session: Session,
    began: Instant,
    buffer: Vec<u8>,
    next_tag: u32,
    done: HashMap<u32, Done>,
}

/// Error of a login that failed, or of a connection that was lost.
#[derive(Debug)]
pub struct Disconnected;

impl Client {
    /// Logs in. Panics if the login fails.
    pub fn login(portal: &str, number: u32) -> Client {
        Client::try_login(portal, number).expect("the array answers")
    }

    /// Logs in, or returns an error if the array refuses the login or the connection is lost.
    pub fn try_login(portal: &str, number: u32) -> Result<Client, Disconnected> {
        let stream = TcpStream::connect(portal).map_err(|_| Disconnected)?;
        stream.set_nodelay(true).unwrap();
        let config = SessionConfig {
            initiator_name: format!("iqn.2026-01.org.hakaru:initiator-{number}"),
            isid: Isid([
                0x80,
                0,
                0,
                (number >> 16) as u8,
                (number >> 8) as u8,
                number as u8,
            ]),
            purpose: Purpose::Normal {
                target_name: TARGET.to_owned(),
            },
            keys: LoginKeys::default(),
            chap: None,
            timers: SessionTimers::new(Duration::from_secs(60)),
        };
        let mut client = Client {
            stream,
            session: Session::new(config),
            began: Instant::now(),
            buffer: vec![0; 256 << 10],
            next_tag: 0,
            done: HashMap::new(),
        };
        let now = client.now();
        client.session.handle_connected(now);
        loop {
            match client.session.poll_event() {
                Some(Event::LoggedIn) => return Ok(client),
                Some(_) => return Err(Disconnected),
                None => client.pump()?,
            }
        }
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed().as_nanos() as u64)
    }

    fn send(&mut self) -> Result<(), Disconnected> {
        let now = self.now();
        let transmit = self.session.transmit();
        while !transmit.is_empty() {
            let first = transmit.slices().next();
            let sent = self.stream.write(first.unwrap_or_default());
            transmit.advance(now, sent.map_err(|_| Disconnected)?);
        }
        Ok(())
    }

    /// Sends all queued bytes, and waits for received bytes and processes them.
    fn pump(&mut self) -> Result<(), Disconnected> {
        self.send()?;
        match self.stream.read(&mut self.buffer) {
            Ok(0) | Err(_) => return Err(Disconnected),
            Ok(n) => {
                let now = self.now();
                self.session.handle_received(now, &self.buffer[..n]);
            }
        }
        while let Some(done) = self.session.poll_done() {
            self.done.insert(done.tag, done);
        }
        Ok(())
    }

    /// Waits for received bytes and returns them without consuming them, up to 4 MiB.
    pub fn peek(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 4 << 20];
        let length = self.stream.peek(&mut bytes).expect("the array answers");
        bytes.truncate(length);
        bytes
    }

    /// Sends a command and returns its tag.
    pub fn submit(&mut self, lun: u8, cdb: &[u8], data: TaskData) -> u32 {
        self.next_tag += 1;
        let mut block = [0; 16];
        block[..cdb.len()].copy_from_slice(cdb);
        let task = Task {
            tag: self.next_tag,
            lun: Lun::new(lun.into()),
            cdb: block,
            data,
        };
        let now = self.now();
        self.session.submit(now, task);
        let _ = self.send();
        self.next_tag
    }

    /// Waits for the response to a command.
    pub fn wait(&mut self, tag: u32) -> Result<Done, Disconnected> {
        loop {
            if let Some(done) = self.done.remove(&tag) {
                return Ok(done);
            }
            self.pump()?;
        }
    }

    /// Waits for the response to any command.
    pub fn wait_any(&mut self) -> Result<Done, Disconnected> {
        loop {
            if let Some(tag) = self.done.keys().next().copied() {
                return Ok(self.done.remove(&tag).expect("seen just now"));
            }
            self.pump()?;
        }
    }

    fn command(&mut self, lun: u8, cdb: &[u8], data: TaskData) -> Result<Vec<u8>, TaskError> {
        let tag = self.submit(lun, cdb, data);
        let done = self.wait(tag).expect("the array answers");
        done.result.map(|_| done.data)
    }

    /// Reads `blocks` blocks.
    pub fn read(&mut self, lun: u8, lba: u64, blocks: u32) -> Result<Vec<u8>, TaskError> {
        self.command(
            lun,
            &read_16(lba, blocks),
            incoming(blocks as usize * BLOCK),
        )
    }

    /// Writes whole blocks.
    pub fn write(&mut self, lun: u8, lba: u64, data: &[u8]) -> Result<(), TaskError> {
        let cdb = write_16(lba, (data.len() / BLOCK) as u32, false);
        self.command(lun, &cdb, outgoing(data)).map(drop)
    }

    /// Writes whole blocks to stable storage.
    pub fn write_fua(&mut self, lun: u8, lba: u64, data: &[u8]) -> Result<(), TaskError> {
        let cdb = write_16(lba, (data.len() / BLOCK) as u32, true);
        self.command(lun, &cdb, outgoing(data)).map(drop)
    }

    /// Sends SYNCHRONIZE CACHE for the entire LU.
    pub fn flush(&mut self, lun: u8) -> Result<(), TaskError> {
        self.command(lun, &flush(), TaskData::None).map(drop)
    }

    /// Sends UNMAP of one range.
    pub fn unmap(&mut self, lun: u8, lba: u64, blocks: u32) -> Result<(), TaskError> {
        self.command(lun, &unmap(), unmap_data(lba, blocks))
            .map(drop)
    }

    /// Sends WRITE SAME(16).
    pub fn write_same(
        &mut self,
        lun: u8,
        (lba, blocks): (u64, u32),
        block: &[u8],
        with_unmap: bool,
    ) -> Result<(), TaskError> {
        let mut cdb = transfer(0x93, lba, blocks);
        cdb[1] = if with_unmap { 0x08 } else { 0 };
        self.command(lun, &cdb, outgoing(block)).map(drop)
    }

    /// Sends GET LBA STATUS. Returns each extent as (first block, blocks, provisioning state).
    pub fn lba_status(&mut self, lun: u8, lba: u64) -> Vec<(u64, u32, u8)> {
        let mut cdb = transfer(0x9e, lba, 8 + 16 * 16);
        cdb[1] = 0x12;
        let data = self
            .command(lun, &cdb, incoming(8 + 16 * 16))
            .expect("GET LBA STATUS is answered");
        let length = u32::from_be_bytes(data[..4].try_into().unwrap()) as usize + 4;
        data[8..length.min(data.len())]
            .chunks(16)
            .map(|d| {
                let lba = u64::from_be_bytes(d[..8].try_into().unwrap());
                (
                    lba,
                    u32::from_be_bytes(d[8..12].try_into().unwrap()),
                    d[12] & 0xf,
                )
            })
            .collect()
    }

    /// Sends READ CAPACITY(16). Returns the number of blocks.
    pub fn blocks(&mut self, lun: u8) -> u64 {
        let mut cdb = transfer(0x9e, 0, 32);
        cdb[1] = 0x10;
        let data = self.command(lun, &cdb, incoming(32)).unwrap();
        u64::from_be_bytes(data[..8].try_into().unwrap()) + 1
    }

    /// Sends REQUEST SENSE. Returns the pending unit attention as (key, ASC, ASCQ). The key is 0 if
    /// none is pending.
    pub fn attention(&mut self, lun: u8) -> (u8, u8, u8) {
        let data = self
            .command(lun, &[0x03, 0, 0, 0, 252, 0], incoming(252))
            .unwrap();
        (data[2] & 0xf, data[12], data[13])
    }

    /// Sends LOG SENSE for the logical block provisioning page. Returns the counts of its
    /// parameters by code.
    /// Returns the parameter list of an EXTENDED COPY inside an LU. Each segment is its first block,
    /// the block that it is copied to, and its number of blocks.
    pub fn copy_list(&mut self, lun: u8, segments: &[(u64, u64, u16)]) -> Vec<u8> {
        let name = self.naa(lun);
        let mut list = vec![0; 16];
        list[2..4].copy_from_slice(&32_u16.to_be_bytes());
        list[8..12].copy_from_slice(&(28 * segments.len() as u32).to_be_bytes());
        list.extend([0xe4, 0, 0, 0, 1, 3, 0, name.len() as u8]);
        list.extend(&name);
        list.resize(48, 0);
        for (from, to, blocks) in segments {
            list.extend([2, 0, 0, 24, 0, 0, 0, 0, 0, 0]);
            list.extend(blocks.to_be_bytes());
            list.extend(from.to_be_bytes());
            list.extend(to.to_be_bytes());
        }
        list
    }

    /// Returns the NAA name of an LU, from its device identification page.
    fn naa(&mut self, lun: u8) -> Vec<u8> {
        const NAA: u8 = 3;
        let tag = self.submit(lun, &[0x12, 1, 0x83, 1, 0, 0], incoming(256));
        let page = self.wait(tag).expect("the array answers").data;
        let mut rest = &page[4..];
        while rest[1] & 0xf != NAA {
            rest = &rest[4 + usize::from(rest[3])..];
        }
        rest[4..4 + usize::from(rest[3])].to_vec()
    }

    pub fn log_provisioning(&mut self, lun: u8) -> HashMap<u16, u32> {
        let cdb = [0x4d, 0, 0x40 | 0x0c, 0, 0, 0, 0, 0x10, 0, 0];
        let data = self.command(lun, &cdb, incoming(4096)).unwrap();
        let mut parameters = HashMap::new();
        let mut rest = &data[4..4 + usize::from(u16::from_be_bytes([data[2], data[3]]))];
        while rest.len() >= 8 {
            let code = u16::from_be_bytes([rest[0], rest[1]]);
            let length = usize::from(rest[3]);
            parameters.insert(code, u32::from_be_bytes(rest[4..8].try_into().unwrap()));
            rest = &rest[4 + length..];
        }
        parameters
    }
}

/// Returns the sense data of a CHECK CONDITION as (key, ASC, ASCQ).
pub fn sense<T: std::fmt::Debug>(result: Result<T, TaskError>) -> (u8, u8, u8) {
    match result {
        Err(TaskError::Check(Sense {
            key, additional, ..
        })) => (key as u8, additional.code, additional.qualifier),
        other => panic!("expected a CHECK CONDITION, got {other:?}"),
    }
}

/// Sense data DATA PROTECT, SPACE ALLOCATION FAILED WRITE PROTECT.
pub const NO_SPACE: (u8, u8, u8) = (0x7, 0x27, 0x07);

pub fn incoming(length: usize) -> TaskData {
    TaskData::In {
        length: length as u32,
        keep: true,
    }
}

pub fn outgoing(data: &[u8]) -> TaskData {
    TaskData::Out {
        buffer: Arc::new(data.to_vec()),
        begin: 0,
        length: data.len() as u32,
    }
}

fn transfer(opcode: u8, lba: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

pub fn read_16(lba: u64, blocks: u32) -> [u8; 16] {
    transfer(0x88, lba, blocks)
}

pub fn write_16(lba: u64, blocks: u32, fua: bool) -> [u8; 16] {
    let mut cdb = transfer(0x8a, lba, blocks);
    cdb[1] = u8::from(fua) << 3;
    cdb
}

/// Returns an EXTENDED COPY command with this parameter list.
pub fn extended_copy(list: &[u8]) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
    cdb
}

pub fn flush() -> [u8; 16] {
    transfer(0x91, 0, 0)
}

pub fn unmap() -> [u8; 10] {
    [0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0]
}

pub fn unmap_data(lba: u64, blocks: u32) -> TaskData {
    let mut list = [0; 24];
    list[1] = 22;
    list[3] = 16;
    list[8..16].copy_from_slice(&lba.to_be_bytes());
    list[16..20].copy_from_slice(&blocks.to_be_bytes());
    outgoing(&list)
}
