//! The shell around one connection: a blocking socket.
use std::fs::File;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hakaru_smb::{
    Config, Connection, ConnectionError, Entropy, Event, Op, OpError, OpId, Output, SessionFacts,
};
use hakaru_units::Time;

pub struct Client {
    socket: TcpStream,
    begin: Instant,
    /// Whether the last byte of each piece that is received is inverted.
    pub damage: bool,
    pub connection: Connection,
}

impl Client {
    /// Connects to a share.
    pub fn connect(
        address: SocketAddr,
        config: Config,
    ) -> Result<(Client, SessionFacts), ConnectionError> {
        let socket = TcpStream::connect(address).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let mut random = [0; 56];
        let mut source = File::open("/dev/urandom").unwrap();
        source.read_exact(&mut random).unwrap();
        let entropy = Entropy {
            client_guid: random[..16].try_into().unwrap(),
            salt: random[16..48].try_into().unwrap(),
            client_challenge: random[48..].try_into().unwrap(),
            wall_clock: 0,
        };
        let mut client = Client {
            socket,
            begin: Instant::now(),
            damage: false,
            connection: Connection::new(config, entropy),
        };
        let now = client.now();
        client.connection.handle_connected(now);
        match client.next_event() {
            Event::Ready(facts) => Ok((client, facts)),
            Event::Lost(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    pub fn now(&self) -> Time {
        Time(self.begin.elapsed().as_nanos() as u64)
    }

    /// Sends and receives until the connection has an event.
    pub fn next_event(&mut self) -> Event {
        let mut buffer = vec![0; 64 << 10];
        loop {
            while self.connection.has_transmit() {
                let slices: Vec<_> = self.connection.poll_transmit().map(IoSlice::new).collect();
                let n = self
                    .socket
                    .write_vectored(&slices[..slices.len().min(64)])
                    .unwrap();
                let now = self.now();
                self.connection.handle_sent(now, n);
            }
            if let Some(event) = self.connection.poll_event() {
                return event;
            }
            let n = match self.socket.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.unwrap(),
            };
            if self.damage && n > 0 {
                buffer[n - 1] ^= 0xff;
            }
            let now = self.now();
            match n {
                0 => self.connection.handle_closed(now, "(closed by the server)"),
                n => self.connection.handle_received(now, &buffer[..n]),
            }
        }
    }

    /// Runs one operation.
    pub fn run(&mut self, op: Op) -> Result<Output, OpError> {
        let now = self.now();
        let id = self.connection.submit(now, op);
        self.wait(id)
    }

    /// Runs a compound, or the same operations one by one.
    pub fn run_all(&mut self, ops: Vec<Op>) -> Vec<Result<Output, OpError>> {
        let (now, count) = (self.now(), ops.len() as u64);
        let OpId(first) = self.connection.submit_related(now, ops);
        (first..first + count)
            .map(|id| self.wait(OpId(id)))
            .collect()
    }

    fn wait(&mut self, id: OpId) -> Result<Output, OpError> {
        match self.next_event() {
            Event::Done(done) => {
                assert_eq!(done.id, id);
                assert!(done.submitted <= done.sent && done.sent <= done.completed);
                done.result
            }
            other => panic!("{other:?}"),
        }
    }

    pub fn log_off(mut self) {
        let now = self.now();
        self.connection.log_off(now);
        assert_eq!(self.next_event(), Event::LoggedOff);
    }
}
