//! The `fabric` engine: switches and links between interfaces of the network namespace it runs in.
//!
//! One thread, one loop: take what the interfaces received, let the fabric's time pass, write what has arrived, sleep until the next
//! frame or the next instant at which something happens inside.
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use hakaru_contract::FabricEngineConfig;
use hakaru_fabric::{Fabric, Packet};
use hakaru_runtime::packet::{Offload, PACKET_BYTES_MAX, PacketSocket};
use hakaru_runtime::{Events, Interest, Reactor, Token, clock};
use hakaru_units::Time;
use serde_json::json;

use crate::control::{Control, Counters, Order};
use crate::failure::{Failure, OrEnvironment};
use crate::sampling::Schedule;

/// Packets that one interface gives before the others have their turn.
const RECEIVES_PER_TURN: usize = 32;

/// Runs the engine until `stop`.
///
/// # Errors
/// The configuration cannot be; an interface is not there, or may not be opened.
pub fn run(
    config: &FabricEngineConfig,
    reactor: &Reactor,
    control: &mut Control,
) -> Result<(), Failure> {
    if config.spin_us > 1_000_000 {
        let message = format!("spin_us is {}; it must be 0 to 1000000", config.spin_us);
        return Err(Failure::usage(message, "correct the configuration"));
    }
    let mut shell = Shell::new(config, reactor)?;
    let names: Vec<&str> = shell
        .interfaces
        .iter()
        .map(|interface| interface.name.as_str())
        .collect();
    control.ready(BTreeMap::from([("interfaces".to_owned(), json!(names))]));
    shell.serve(control)
}

struct Shell<'r> {
    reactor: &'r Reactor,
    fabric: Fabric,
    interfaces: Vec<Interface>,
    buffer: Vec<u8>,
    out: Vec<u8>,
    samples: Schedule,
    spin: Duration,
}

/// An interface, which the fabric knows by its place in the list.
struct Interface {
    name: String,
    socket: PacketSocket,
    /// Packets may wait that no further event will tell of.
    unread: bool,
    lost: Lost,
}

/// Packets that were lost outside of the model: any of them makes the numbers doubtful.
#[derive(Clone, Copy, Default)]
struct Lost {
    /// No room in the socket while the engine did something else.
    overrun: u64,
    /// Cut in a way that is not known here, or too long.
    unknown: u64,
    /// The interface did not take it.
    refused: u64,
}

impl<'r> Shell<'r> {
    fn new(config: &FabricEngineConfig, reactor: &'r Reactor) -> Result<Shell<'r>, Failure> {
        let fabric = Fabric::new(&config.fabric).map_err(|e| {
            Failure::usage(format_args!("fabric: {e}"), "correct the configuration")
        })?;
        let mut interfaces = Vec::new();
        for (index, name) in fabric.interfaces().enumerate() {
            let socket = PacketSocket::open(name).or_environment(
                format_args!("open the interface {name}"),
                "it must be one of the engine's network namespace, and the engine needs CAP_NET_RAW there",
            )?;
            reactor
                .register(&socket, Token(index as u64), Interest::Edge)
                .or_environment("watch an interface", "raise the limit of open files")?;
            interfaces.push(Interface {
                name: name.to_owned(),
                socket,
                unread: true,
                lost: Lost::default(),
            });
        }
        Ok(Shell {
            reactor,
            fabric,
            interfaces,
            buffer: vec![0; PACKET_BYTES_MAX],
            out: Vec::new(),
            samples: Schedule::new(config.sample_interval_ms)?,
            spin: Duration::from_micros(config.spin_us.into()),
        })
    }

    fn serve(&mut self, control: &mut Control) -> Result<(), Failure> {
        let mut events = Events::with_capacity(self.interfaces.len().max(4));
        let mut awake_until = Time::ZERO;
        loop {
            control.wait(self.reactor, &mut events, self.deadline(awake_until))?;
            for event in events.iter() {
                if !control.handle_event(event)? && event.readable {
                    self.interfaces[event.token.0 as usize].unread = true;
                }
            }
            if self.turn() {
                awake_until = clock::now() + self.spin;
            }
            let now = clock::now();
            while let Some(order) = control.poll_order() {
                match order {
                    Order::Start(at) => self.samples.start(at.max(now)),
                    Order::Stop => return self.finish(control),
                }
            }
            if self.samples.due(now) {
                let counters = self.counters(now)?;
                control.sample(now, counters, Vec::new());
            }
        }
    }

    /// When the loop must run again even if nothing comes in.
    fn deadline(&self, awake_until: Time) -> Option<Time> {
        let pending = |(index, interface): (usize, &Interface)| {
            interface.unread && self.fabric.wants_frame(index)
        };
        if self.interfaces.iter().enumerate().any(pending)
            || !self.spin.is_zero() && clock::now() < awake_until
        {
            return Some(Time::ZERO);
        }
        [self.fabric.poll_timeout(), self.samples.next()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Takes what came in, lets time pass, writes what arrived; whether anything moved.
    fn turn(&mut self) -> bool {
        let mut moved = false;
        for index in 0..self.interfaces.len() {
            moved |= self.receive(index);
        }
        self.fabric.handle_timeout(clock::now());
        for index in 0..self.interfaces.len() {
            moved |= self.send(index);
        }
        moved
    }

    fn receive(&mut self, index: usize) -> bool {
        let interface = &mut self.interfaces[index];
        let mut moved = false;
        for _ in 0..RECEIVES_PER_TURN {
            if !interface.unread || !self.fabric.wants_frame(index) {
                break;
            }
            match interface.socket.receive(&mut self.buffer) {
                Ok((length, offload)) => {
                    moved = true;
                    let bytes = self.buffer[..length].to_vec();
                    let packet = match offload.segmentation {
                        Some((_, payload_bytes)) => {
                            Packet::tcp_super_frame(bytes, payload_bytes, offload.checksum)
                        }
                        None => Packet::new(bytes, None, offload.checksum),
                    };
                    match packet {
                        Ok(packet) => self.fabric.handle_frame(clock::now(), index, packet),
                        Err(_) => interface.lost.unknown += 1,
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::InvalidData => interface.lost.unknown += 1,
                // Also an interface that went down: it tells when it is up again.
                Err(_) => interface.unread = false,
            }
        }
        moved
    }

    fn send(&mut self, index: usize) -> bool {
        let interface = &mut self.interfaces[index];
        let mut moved = false;
        while let Some(frame) = self.fabric.poll_frame(index) {
            moved = true;
            let cut = frame
                .segmentation()
                .map(|cut| (cut.header_bytes, cut.payload_bytes));
            let offload = Offload {
                checksum: frame.checksum(),
                segmentation: cut,
            };
            let sent = match frame.untouched() {
                Some(bytes) => interface.socket.send(bytes, &offload),
                None => {
                    self.out.clear();
                    frame.emit(&mut self.out);
                    interface.socket.send(&self.out, &offload)
                }
            };
            interface.lost.refused += u64::from(sent.is_err());
        }
        moved
    }

    fn counters(&mut self, now: Time) -> Result<Counters, Failure> {
        let mut counters = Counters::new();
        for (name, channel) in self.fabric.counters(now) {
            let of = counters.entry(name.to_owned()).or_default();
            channel.visit(&mut |name, value| {
                of.insert(name.to_owned(), value);
            });
        }
        for interface in &mut self.interfaces {
            interface.lost.overrun += interface
                .socket
                .take_lost()
                .or_environment("ask an interface what it lost", "")?;
            let Lost {
                overrun,
                unknown,
                refused,
            } = interface.lost;
            let all = [
                ("lost_overrun", overrun),
                ("lost_unknown", unknown),
                ("lost_refused", refused),
            ];
            counters.insert(
                format!("interface/{}", interface.name),
                all.map(|(name, value)| (name.to_owned(), value as f64))
                    .into(),
            );
        }
        Ok(counters)
    }

    /// The totals of all links.
    fn finish(&mut self, control: &Control) -> Result<(), Failure> {
        let now = clock::now();
        let counters = self.counters(now)?;
        control.sample(now, counters.clone(), Vec::new());
        let mut values = BTreeMap::new();
        for (name, value) in counters
            .into_values()
            .flatten()
            .filter(|(name, _)| !name.ends_with("_now"))
        {
            *values.entry(name).or_insert(0.0) += value;
        }
        control.result(now, values, Vec::new());
        Ok(())
    }
}
