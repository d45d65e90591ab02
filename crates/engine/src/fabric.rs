//! The `fabric` engine: switches and links between interfaces of the network namespace it runs in.
//!
//! One thread, one loop: take what the interfaces received, let the fabric's time pass, write what has arrived, sleep until the next
//! frame or the next instant at which something happens inside.
use std::collections::BTreeMap;
use std::time::Duration;

use hakaru_contract::{FabricEngineConfig, NamedHistogram};
use hakaru_fabric::{Bin, Fabric, OutFrame, Packet};
use hakaru_runtime::packet::{Cut, Offload, Outgoing, PacketSocket, Received};
use hakaru_runtime::{Events, Inbox, Interest, Outbox, PACKET_BATCH, Reactor, Token, clock};
use hakaru_stats::{Histogram, Latency};
use hakaru_units::Time;
use hakaru_watch::net::parse_net_dev;
use serde_json::json;

use crate::control::{Control, Counters, Order};
use crate::failure::{Failure, OrEnvironment};
use crate::sampling::Schedule;

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
    inbox: Inbox,
    outbox: Outbox,
    /// Memory of packets that are gone.
    bin: Bin,
    /// What goes out in one call, and the headers that were written anew.
    leaving: Vec<OutFrame>,
    heads: Vec<Vec<u8>>,
    /// How much later than modelled each packet was written.
    lateness: Latency,
    samples: Schedule,
    spin: Duration,
    sleep: Sleep,
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
    /// Packets that it had taken and dropped before the engine began.
    dropped_before: f64,
}

/// How long before an instant to wake up, so that it is met: a kernel wakes a sleeper some 20 to 100 µs late.
///
/// Awake before its time the engine spins, so it does this only after a sleep of at least [`Sleep::LONG`] times that: it costs a tenth of
/// a core at most.
#[derive(Clone, Copy, Debug, Default)]
struct Sleep {
    /// About the 90th percentile of how late it woke, ns.
    early_ns: u64,
    /// When it wanted to wake up.
    wanted: Option<Time>,
}

impl Sleep {
    const EARLY_NS_MAX: u64 = 100_000;
    const LONG: u64 = 10;

    /// When to wake up so as to be ready at `deadline`.
    fn wake_for(&mut self, now: Time, deadline: Time) -> Time {
        let ahead = deadline.ns_since(now);
        self.wanted = None;
        if ahead > Self::LONG * self.early_ns {
            let wake = Time(deadline.as_ns() - self.early_ns);
            self.wanted = Some(wake);
            return wake;
        }
        if ahead <= self.early_ns {
            now
        } else {
            deadline
        }
    }

    /// It woke up with nothing else to do.
    fn woke(&mut self, now: Time) {
        if let Some(wanted) = self.wanted.take().filter(|wanted| *wanted <= now) {
            let late = now.ns_since(wanted);
            // A step up nine times as long as the step down settles where one in ten is later.
            let step = if late > self.early_ns { 1800 } else { -200_i64 };
            self.early_ns = self
                .early_ns
                .saturating_add_signed(step)
                .min(Self::EARLY_NS_MAX);
        }
    }
}

impl<'r> Shell<'r> {
    fn new(config: &FabricEngineConfig, reactor: &'r Reactor) -> Result<Shell<'r>, Failure> {
        let fabric = Fabric::new(&config.fabric).map_err(|e| {
            Failure::usage(format_args!("fabric: {e}"), "correct the configuration")
        })?;
        let mut interfaces = Vec::new();
        let dropped = dropped_by_interfaces();
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
                lost: Lost {
                    dropped_before: dropped.get(name).copied().unwrap_or(0.0),
                    ..Lost::default()
                },
            });
        }
        Ok(Shell {
            reactor,
            fabric,
            interfaces,
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            bin: Bin::default(),
            leaving: Vec::with_capacity(PACKET_BATCH),
            heads: vec![Vec::new(); PACKET_BATCH],
            lateness: Latency::new(),
            samples: Schedule::new(config.sample_interval_ms)?,
            spin: Duration::from_micros(config.spin_us.into()),
            sleep: Sleep::default(),
        })
    }

    fn serve(&mut self, control: &mut Control) -> Result<(), Failure> {
        let mut events = Events::with_capacity(self.interfaces.len().max(4));
        let mut awake_until = Time::ZERO;
        loop {
            let deadline = self.deadline(awake_until);
            control.wait(self.reactor, &mut events, deadline)?;
            // Before the interfaces are read: what came until now is found there.
            let now = clock::now();
            let mut told = false;
            for event in events.iter() {
                told = true;
                if !control.handle_event(event)? && event.readable {
                    self.interfaces[event.token.0 as usize].unread = true;
                }
            }
            if !told {
                self.sleep.woke(now);
            }
            if self.turn(now) && !self.spin.is_zero() {
                awake_until = clock::now() + self.spin;
            }
            while let Some(order) = control.poll_order() {
                match order {
                    Order::Start(at) => self.samples.start(at.max(now)),
                    Order::Stop => return self.finish(control),
                }
            }
            if self.samples.due(now) {
                self.sample(now, control)?;
            }
        }
    }

    /// When the loop must run again even if nothing comes in.
    fn deadline(&mut self, awake_until: Time) -> Option<Time> {
        let pending = |(index, interface): (usize, &Interface)| {
            interface.unread && self.fabric.wants_frame(index)
        };
        if self.interfaces.iter().enumerate().any(pending) {
            return Some(Time::ZERO);
        }
        let now = clock::now();
        if now < awake_until {
            return Some(Time::ZERO);
        }
        let happens = self.fabric.poll_timeout();
        let happens = happens.map(|at| self.sleep.wake_for(now, at));
        [happens, self.samples.next()].into_iter().flatten().min()
    }

    /// Takes what came in, lets time pass until `now`, writes what arrived; whether anything moved.
    fn turn(&mut self, now: Time) -> bool {
        let mut moved = false;
        for index in 0..self.interfaces.len() {
            moved |= self.receive(index);
        }
        self.fabric.handle_timeout(now);
        for index in 0..self.interfaces.len() {
            moved |= self.send(index);
        }
        while let Some(buffer) = self.bin.take() {
            self.inbox.give_back(buffer);
        }
        moved
    }

    fn receive(&mut self, index: usize) -> bool {
        let interface = &mut self.interfaces[index];
        if !interface.unread || !self.fabric.wants_frame(index) {
            return false;
        }
        // An error: also an interface that went down; it tells when it is up again.
        let got = interface.socket.receive(&mut self.inbox).unwrap_or(0);
        interface.unread = got == PACKET_BATCH;
        while let Some(received) = self.inbox.take() {
            let packet = received.ok().and_then(|Received { bytes, offload, at }| {
                let packet = match offload.segmentation {
                    Some(cut) => Packet::super_frame(bytes, cut.payload_bytes, offload.checksum),
                    None => Packet::new(bytes, None, offload.checksum),
                };
                Some((at, packet.ok()?.reuse(&self.bin)))
            });
            match packet {
                Some((at, packet)) => self.fabric.handle_frame(at, index, packet),
                None => interface.lost.unknown += 1,
            }
        }
        got > 0
    }

    fn send(&mut self, index: usize) -> bool {
        let interface = &mut self.interfaces[index];
        let mut moved = false;
        loop {
            let fabric = &mut self.fabric;
            let next = std::iter::from_fn(|| fabric.poll_frame(index));
            self.leaving.extend(next.take(PACKET_BATCH));
            if self.leaving.is_empty() {
                return moved;
            }
            moved = true;
            let all = self.leaving.iter().zip(&mut self.heads);
            let packets: Vec<_> = all
                .map(|(frame, head)| {
                    let body = frame.emit(head);
                    Outgoing {
                        head,
                        body,
                        offload: offload_of(frame),
                    }
                })
                .collect();
            let now = clock::now();
            for frame in &self.leaving {
                self.lateness.record_ns(now.ns_since(frame.due()));
            }
            interface.lost.refused += interface.socket.send(&packets, &mut self.outbox);
            drop(packets);
            self.leaving.clear();
        }
    }

    fn sample(&mut self, now: Time, control: &Control) -> Result<(), Failure> {
        let counters = self.counters(now)?;
        let lateness = self.lateness.take_interval(true, Histogram::clone);
        let depths = self.fabric.take_queue_depths();
        let depths: Vec<_> = depths
            .map(|(name, depths)| (name.to_owned(), depths))
            .collect();
        control.sample_later(now, move || {
            let depths = depths.iter().map(|(name, depths)| (name.as_str(), depths));
            (counters.clone(), histograms(&lateness, depths))
        });
        Ok(())
    }

    fn counters(&mut self, now: Time) -> Result<Counters, Failure> {
        let mut counters = Counters::new();
        for (name, channel) in self.fabric.counters(now) {
            let of = counters.entry(name.to_owned()).or_default();
            channel.visit(&mut |name, value| {
                of.insert(name.to_owned(), value);
            });
        }
        for (name, switch) in self.fabric.switch_counters() {
            let of = counters.entry(name.to_owned()).or_default();
            switch.visit(&mut |name, value| {
                of.insert(name.to_owned(), value);
            });
        }
        let dropped = dropped_by_interfaces();
        for interface in &mut self.interfaces {
            interface.lost.overrun += interface
                .socket
                .take_lost()
                .or_environment("ask an interface what it lost", "")?;
            let Lost {
                overrun,
                unknown,
                refused,
                dropped_before,
            } = interface.lost;
            let dropped = dropped.get(&interface.name).copied().unwrap_or(0.0);
            let all = [
                ("lost_overrun", overrun as f64),
                ("lost_unknown", unknown as f64),
                ("lost_refused", refused as f64),
                ("lost_after", dropped - dropped_before),
            ];
            counters.insert(
                format!("interface/{}", interface.name),
                all.map(|(name, value)| (name.to_owned(), value)).into(),
            );
        }
        let late = self.fabric.lateness();
        let all = [("entered_late", late.packets), ("entered_late_ns", late.ns)];
        counters.insert(
            "fabric".to_owned(),
            all.map(|(name, value)| (name.to_owned(), value as f64))
                .into(),
        );
        Ok(counters)
    }

    /// The totals of all links, and the histograms since the start.
    fn finish(&mut self, control: &Control) -> Result<(), Failure> {
        let now = clock::now();
        self.sample(now, control)?;
        let mut values = BTreeMap::new();
        for (name, value) in self
            .counters(now)?
            .into_values()
            .flatten()
            .filter(|(name, _)| !name.ends_with("_now"))
        {
            *values.entry(name).or_insert(0.0) += value;
        }
        let histograms = histograms(self.lateness.total(), self.fabric.queue_depths());
        control.result(now, values, histograms);
        Ok(())
    }
}

fn offload_of(frame: &OutFrame) -> Offload {
    let segmentation = frame.segmentation().map(|cut| Cut {
        udp: frame.is_udp(),
        header_bytes: cut.header_bytes,
        payload_bytes: cut.payload_bytes,
    });
    Offload {
        checksum: frame.checksum(),
        segmentation,
    }
}

/// Packets that an interface took and dropped (its peer is down, or the kernel's queue behind it is full), by its name.
fn dropped_by_interfaces() -> BTreeMap<String, f64> {
    let mut dropped = BTreeMap::new();
    // Where there is no procfs nothing can be told.
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    parse_net_dev(&text, &mut |entity, name, value| {
        if name == "tx_dropped"
            && let Some(interface) = entity.strip_prefix("nic/")
        {
            dropped.insert(interface.to_owned(), value);
        }
    });
    dropped
}

fn histograms<'a>(
    lateness: &Histogram,
    depths: impl Iterator<Item = (&'a str, &'a Histogram)>,
) -> Vec<NamedHistogram> {
    let named = |entity: &str, name: &str, histogram: &Histogram| NamedHistogram {
        entity: entity.to_owned(),
        name: name.to_owned(),
        hdr: histogram.encode(),
    };
    let lateness = named("fabric", "lateness_ns", lateness);
    let depths = depths.map(|(entity, depths)| named(entity, "queue_bytes", depths));
    std::iter::once(lateness).chain(depths).collect()
}
