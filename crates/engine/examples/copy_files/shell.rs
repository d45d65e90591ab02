//! One thread, one reactor, many connections: the loop that a shell has around the core.
use std::collections::VecDeque;
use std::fs;
use std::io::{ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::path::PathBuf;

use hakaru_runtime::net::Socket;
use hakaru_runtime::process::entropy;
use hakaru_runtime::{Events, Interest, Reactor, Token, clock};
use hakaru_smb::wire::{
    Access, CreateRequest, DirectoryEntry, Disposition, FileId, OPTION_DIRECTORY, OPTION_FILE,
    Path, Sharing,
};
use hakaru_smb::{Config, Connection, Done, Entropy, Event, Op, Output, WriteData};

const RECEIVE_BYTES: usize = 256 << 10;
const SLICES: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Get,
    Put,
}

/// Files that one connection copies: all files of a folder.
pub struct Job {
    pub direction: Direction,
    /// Whether open, transfer and close are one compound.
    pub compound: bool,
    pub remote: String,
    pub local: PathBuf,
}

/// A connection and its progress.
struct Worker {
    connection: Connection,
    socket: Socket,
    connected: bool,
    full: bool,
    job: Job,
    /// Folder that is being listed.
    folder: Option<FileId>,
    /// Names and sizes of the files that are left.
    files: VecDeque<(String, u32)>,
    current: Option<Current>,
    finished: bool,
}

/// A file that is being copied.
struct Current {
    name: String,
    size: u32,
    content: Vec<u8>,
}

/// Runs all jobs, one connection each, until all sessions have ended.
pub fn run(address: SocketAddr, config: &Config, jobs: Vec<Job>) {
    let reactor = Reactor::new().unwrap();
    let mut events = Events::with_capacity(64);
    let mut buffer = vec![0; RECEIVE_BYTES];
    let mut workers: Vec<Worker> = jobs
        .into_iter()
        .enumerate()
        .map(|(n, job)| Worker::begin(&reactor, n, address, config, job))
        .collect();
    while workers.iter().any(|worker| !worker.finished) {
        let timeouts = workers
            .iter()
            .filter_map(|worker| worker.connection.poll_timeout());
        reactor.wait(&mut events, timeouts.min()).unwrap();
        for event in events.iter() {
            let worker = &mut workers[event.token.0 as usize];
            if event.writable {
                worker.full = false;
                if !worker.connected {
                    worker.socket.take_error().unwrap();
                    worker.connected = true;
                    worker.connection.handle_connected(clock::now());
                }
            }
            if event.readable {
                worker.receive(&mut buffer);
            }
            worker.settle();
        }
        let now = clock::now();
        workers
            .iter_mut()
            .for_each(|worker| worker.connection.handle_timeout(now));
    }
}

impl Worker {
    fn begin(
        reactor: &Reactor,
        number: usize,
        address: SocketAddr,
        config: &Config,
        job: Job,
    ) -> Worker {
        let socket = Socket::connect(address).unwrap();
        reactor
            .register(&socket, Token(number as u64), Interest::Edge)
            .unwrap();
        let mut random = [0; 56];
        entropy::fill(&mut random);
        let entropy = Entropy {
            client_guid: random[..16].try_into().unwrap(),
            salt: random[16..48].try_into().unwrap(),
            client_challenge: random[48..].try_into().unwrap(),
            wall_clock: 0,
        };
        Worker {
            connection: Connection::new(config.clone(), entropy),
            socket,
            connected: false,
            full: false,
            job,
            folder: None,
            files: VecDeque::new(),
            current: None,
            finished: false,
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) {
        while !self.connection.is_ended() {
            match self.socket.receive(buffer) {
                Ok(0) => self
                    .connection
                    .handle_closed(clock::now(), "(closed by the server)"),
                Ok(n) => {
                    self.connection.handle_received(clock::now(), &buffer[..n]);
                    if n < buffer.len() {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Handles all events, then sends all that is queued.
    fn settle(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            match event {
                Event::Ready(_) => self.start(),
                Event::Done(done) => self.handle_done(done),
                Event::LoggedOff => self.finished = true,
                Event::Lost(error) => panic!("{error}"),
            }
        }
        while !self.full && self.connection.has_transmit() {
            let slices = self.connection.poll_transmit().take(SLICES);
            let slices: Vec<IoSlice<'_>> = slices.map(IoSlice::new).collect();
            let now = clock::now();
            match self.socket.send_vectored(&slices) {
                Ok(n) => self.connection.handle_sent(now, n),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.full = true,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn submit(&mut self, op: Op) {
        self.connection.submit(clock::now(), op);
    }

    fn start(&mut self) {
        match self.job.direction {
            Direction::Get => self.submit(create(
                &self.job.remote,
                Access::READ,
                Disposition::Open,
                OPTION_DIRECTORY,
            )),
            Direction::Put => {
                for entry in fs::read_dir(&self.job.local).unwrap() {
                    let entry = entry.unwrap();
                    let name = entry.file_name().into_string().unwrap();
                    self.files.push_back((name, 0));
                }
                self.next_file();
            }
        }
    }

    fn handle_done(&mut self, done: Done) {
        let output = done.result.unwrap();
        match (self.folder, self.current.is_some(), output) {
            (None, false, Output::Created(response)) => {
                self.folder = Some(response.file);
                self.list(response.file);
            }
            (Some(file), false, Output::Entries { end: true, .. }) => {
                self.submit(Op::Close { file });
            }
            (Some(file), false, Output::Entries { entries, .. }) => {
                let files = entries
                    .into_iter()
                    .filter(|entry| !entry.facts.is_directory());
                self.files.extend(files.map(name_and_size));
                self.list(file);
            }
            (Some(_), false, _) => {
                self.folder = None;
                self.next_file();
            }
            (_, true, output) => self.handle_file(output),
            (_, _, output) => panic!("{output:?}"),
        }
    }

    fn list(&mut self, file: FileId) {
        self.submit(Op::List {
            file,
            pattern: "*".into(),
            restart: false,
        });
    }

    /// Begins to copy the next file, or ends the session.
    fn next_file(&mut self) {
        let Some((name, size)) = self.files.pop_front() else {
            return self.connection.log_off(clock::now());
        };
        let path = format!("{}/{name}", self.job.remote);
        let (open, content) = match self.job.direction {
            Direction::Get => {
                let open = create(&path, Access::READ, Disposition::Open, OPTION_FILE);
                (open, Vec::new())
            }
            Direction::Put => {
                let kind = Disposition::OverwriteIf;
                let open = create(&path, Access::WRITE, kind, OPTION_FILE);
                (open, fs::read(self.job.local.join(&name)).unwrap())
            }
        };
        self.current = Some(Current {
            name,
            size,
            content,
        });
        if self.job.compound {
            let transfer = self.transfer(FileId::RELATED);
            let file = FileId::RELATED;
            let ops = [open, transfer, Op::Close { file }];
            self.connection.submit_related(clock::now(), ops);
        } else {
            self.submit(open);
        }
    }

    /// Returns the read or the write of the current file.
    fn transfer(&mut self, file: FileId) -> Op {
        let current = self.current.as_mut().expect("a file is being copied");
        match self.job.direction {
            Direction::Get => Op::Read {
                file,
                offset: 0,
                length: current.size,
                keep: true,
            },
            Direction::Put => Op::Write {
                file,
                offset: 0,
                data: WriteData::from(std::mem::take(&mut current.content)),
            },
        }
    }

    fn handle_file(&mut self, output: Output) {
        match output {
            Output::Created(response) => {
                self.folder = Some(response.file);
                if !self.job.compound {
                    let transfer = self.transfer(response.file);
                    self.submit(transfer);
                }
            }
            Output::Read { data, .. } => {
                let current = self.current.as_ref().expect("a file is being copied");
                fs::write(self.job.local.join(&current.name), &data[..]).unwrap();
                self.close();
            }
            Output::Written(_) => self.close(),
            Output::Nothing => {
                self.current = None;
                self.folder = None;
                self.next_file();
            }
            output => panic!("{output:?}"),
        }
    }

    fn close(&mut self) {
        if let Some(file) = self.folder.filter(|_| !self.job.compound) {
            self.submit(Op::Close { file });
        }
    }
}

fn name_and_size(entry: DirectoryEntry) -> (String, u32) {
    // One READ reads a file, so a file is at most as long as one may be.
    let size = u32::try_from(entry.facts.length_bytes).expect("a small file");
    (entry.name, size)
}

fn create(path: &str, access: Access, disposition: Disposition, options: u32) -> Op {
    Op::Create(CreateRequest {
        path: Path::new(path).expect("a valid path"),
        access,
        sharing: Sharing::ALL,
        disposition,
        options,
    })
}
