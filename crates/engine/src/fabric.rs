//! The `fabric` engine: switches and links between interfaces of its network namespace and guests.
//!
//! One thread runs one loop. It receives packets from the interfaces, advances the fabric's time,
//! writes the frames that are due, and sleeps until the next frame arrives or the fabric's next
//! event is due.
use std::collections::BTreeMap;
use std::time::Duration;

use hakaru_contract::{FabricEngineConfig, NamedHistogram};
use hakaru_fabric::{Bin, Fabric, Packet};
use hakaru_runtime::packet::{
    BATCH, Inbox, LossCause, Outbox, PacketWriter, Packets as _, Received, Written,
};
use hakaru_runtime::wait::WakeAhead;
use hakaru_runtime::{Reactor, Token, WaitPolicy, Waiter, clock, process};
use hakaru_stats::{Histogram, Latency};
use hakaru_units::Time;
use hakaru_watch::net::parse_net_dev;
use serde_json::json;

use crate::control::{Control, Counters, LinkOrder, Order};
use crate::failure::{Failure, OrEnvironment};
use crate::sampling::Schedule;

mod interface;
mod leaving;
mod timing;
use interface::{Interface, Medium};
use leaving::Leaving;

/// Runs the engine until `stop`.
///
/// # Errors
/// The configuration is invalid, or an interface does not exist or may not be opened.
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
    // Applies to this thread only. The writer's thread, started before, keeps ordinary time slices.
    process::request_time_slices(TURN);
    let names: Vec<&str> = shell
        .interfaces
        .iter()
        .map(|interface| interface.name.as_str())
        .collect();
    control.accept_count_orders();
    control.accept_link_orders();
    control.ready(BTreeMap::from([("interfaces".to_owned(), json!(names))]));
    shell.serve(control)
}

/// Maximum number of batches of one interface that are pending in the writer. Further frames wait
/// in the fabric.
const PENDING_MAX: u32 = 4;
/// Number of bytes that wait to be written to one interface from which on no more packets are read.
const WAITING_BYTES_MAX: u64 = 64 << 20;
/// Mean lateness (of the last 64 packets) above which the engine counts as behind. It then forwards
/// packets in trains of length [`TRAIN`].
const BEHIND_NS: u64 = 100_000;
/// Pause in which the packets of a train accumulate.
const TRAIN: Duration = Duration::from_micros(50);
/// Time slice of the loop's thread: the shortest that Linux grants.
const TURN: Duration = Duration::from_micros(100);

struct Shell<'r> {
    reactor: &'r Reactor,
    fabric: Fabric,
    interfaces: Vec<Interface>,
    inbox: Inbox,
    outbox: Outbox,
    /// The writer's thread, on a machine with more than one processor.
    writer: Option<PacketWriter<Leaving>>,
    /// Buffers of packets that were forwarded or dropped, for reuse.
    bin: Bin,
    /// Frames of the next batch to be written.
    leaving: Leaving,
    spare: Vec<Leaving>,
    /// Delay of each packet's write after its modelled instant.
    lateness: Latency,
    samples: Schedule,
    waiter: Waiter,
    wake_ahead: WakeAhead,
}

impl<'r> Shell<'r> {
    fn new(config: &FabricEngineConfig, reactor: &'r Reactor) -> Result<Shell<'r>, Failure> {
        let fabric = Fabric::new(&config.fabric).map_err(|e| {
            Failure::usage(format_args!("fabric: {e}"), "correct the configuration")
        })?;
        let dropped = dropped_by_interfaces();
        let ends = config.fabric.ports().enumerate();
        let interfaces = ends
            .map(|(index, end)| Interface::open(end, reactor, Token(index as u64), &dropped))
            .collect::<Result<Vec<_>, _>>()?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let writer = (processors > 1)
            .then(|| {
                let token = Token(interfaces.len() as u64);
                PacketWriter::new(reactor, token, interfaces.len())
            })
            .transpose()
            .or_environment("start a thread", "raise the limit of processes")?;
        let policy = if config.spin_us > 0 {
            let awake = Duration::from_micros(config.spin_us.into());
            WaitPolicy::Spin { awake }
        } else {
            WaitPolicy::Sleep
        };
        let waiter = Waiter::new(policy, 0, interfaces.len().max(4));
        Ok(Shell {
            reactor,
            fabric,
            writer,
            interfaces,
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            bin: Bin::default(),
            leaving: Leaving::default(),
            spare: Vec::new(),
            lateness: Latency::new(),
            samples: Schedule::new(config.sample_interval_ms)?,
            waiter,
            wake_ahead: WakeAhead::default(),
        })
    }

    fn serve(&mut self, control: &mut Control) -> Result<(), Failure> {
        let mut moved = false;
        loop {
            let mut deadline = self.deadline();
            // Fewer turns with more packets each let an engine that is behind catch up. Received
            // packets keep their time stamps, so they need no wake-up.
            let is_behind = self.lateness.recent_ns() > BEHIND_NS;
            if is_behind && moved && deadline != Some(Time::ZERO) {
                clock::sleep_until(clock::now() + TRAIN);
                deadline = Some(Time::ZERO);
            }
            control.wait(self.reactor, &mut self.waiter, deadline)?;
            // Read before the interfaces, so that every packet that arrived until now is received.
            let now = clock::now();
            let mut has_events = false;
            for event in self.waiter.events() {
                has_events = true;
                if control.handle_event(event)? {
                    continue;
                }
                match self.interfaces.get_mut(event.token.0 as usize) {
                    Some(interface) => interface.unread |= event.readable,
                    None => self.writer.iter().for_each(PacketWriter::acknowledge),
                }
            }
            if !has_events {
                self.wake_ahead.woke(now);
            }
            moved = self.turn(now);
            if moved {
                self.waiter.stay_awake(clock::now());
            }
            while let Some(order) = control.poll_order() {
                match order {
                    Order::Start(at) => self.samples.start(at.max(now)),
                    Order::Stop => return self.finish(control),
                }
            }
            while let Some(LinkOrder { id, link, up }) = control.poll_link_order() {
                let outcome = if self.fabric.set_link(&link, up) {
                    Ok(BTreeMap::new())
                } else {
                    let message = format!("there is no link {link:?}");
                    Err(Failure::usage(message, "name a link of the configuration"))
                };
                control.reply(id, outcome);
            }
            while let Some(id) = control.poll_count_order() {
                control.counted(id, self.counters(now)?);
            }
            if self.samples.due(now) {
                self.sample(now, control)?;
            }
        }
    }

    /// Returns the instant at which the loop must run again even if nothing arrives.
    fn deadline(&mut self) -> Option<Time> {
        let pending = |(index, interface): (usize, &Interface)| {
            interface.unread && self.fabric.wants_frame(index)
        };
        if !self.is_backed_up() && self.interfaces.iter().enumerate().any(pending) {
            return Some(Time::ZERO);
        }
        if self.waiter.is_awake() {
            return Some(Time::ZERO);
        }
        let now = clock::now();
        let mut any_held = false;
        let writes = (0..self.interfaces.len()).filter_map(|index| {
            let at = self.next_write(index)?;
            let is_held = self.pending(index) >= PENDING_MAX;
            any_held |= is_held;
            (!is_held).then_some(at)
        });
        let next_write = writes.min();
        if any_held && !self.writer.as_ref().is_none_or(PacketWriter::await_written) {
            return Some(Time::ZERO);
        }
        let events = next_write.into_iter().chain(self.fabric.poll_timeout());
        let wake_at = events.min().map(|at| self.wake_ahead.wake_for(now, at));
        [wake_at, self.samples.next()].into_iter().flatten().min()
    }

    /// Returns whether so many frames wait to be written that no more are read, because the writer
    /// is slower. The interfaces then drop packets and count them.
    fn is_backed_up(&self) -> bool {
        let mut interfaces = 0..self.interfaces.len();
        interfaces.any(|index| self.fabric.waiting_bytes(index) > WAITING_BYTES_MAX)
    }

    /// Returns the instant at which to begin writing the next frame of an interface.
    fn next_write(&self, index: usize) -> Option<Time> {
        let lead = &self.interfaces[index].lead;
        self.fabric.frame_due(index).map(|due| lead.begin(due))
    }

    /// Receives packets, advances the fabric to `now` and writes the frames that are due. Returns
    /// whether any packet moved.
    fn turn(&mut self, now: Time) -> bool {
        let mut moved = false;
        if !self.is_backed_up() {
            for index in 0..self.interfaces.len() {
                moved |= self.receive(index);
            }
        }
        self.fabric.handle_timeout(now);
        self.collect();
        for index in 0..self.interfaces.len() {
            moved |= self.send(index, now);
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
        self.inbox.refresh_clocks();
        let mut received_count = 0;
        while received_count < BATCH {
            let Some(received) = interface.medium.receive(&mut self.inbox) else {
                interface.unread = false;
                break;
            };
            received_count += 1;
            match received {
                Ok(Received { bytes, offload, at }) => {
                    let packet = match offload.segmentation {
                        Some(cut) => {
                            Packet::super_frame(bytes, cut.payload_bytes, offload.checksum)
                        }
                        None => Packet::new(bytes, None, offload.checksum),
                    };
                    match packet {
                        Ok(packet) => self.fabric.handle_frame(at, index, packet.reuse(&self.bin)),
                        Err(_) => interface.lost.unknown += 1,
                    }
                }
                Err(LossCause::Unknown) => interface.lost.unknown += 1,
                Err(LossCause::NoRoom) => interface.lost.overrun += 1,
            }
        }
        if let Medium::Guest(port) = &interface.medium {
            port.finish_receiving();
        }
        received_count > 0
    }

    /// Writes the frames of an interface that are due at `now`. Returns whether there were any.
    fn send(&mut self, index: usize, now: Time) -> bool {
        let mut moved = false;
        loop {
            if self.pending(index) >= PENDING_MAX {
                return moved;
            }
            while !self.leaving.is_full() && self.next_write(index).is_some_and(|at| at <= now) {
                if let Some(frame) = self.fabric.poll_frame(index, now) {
                    self.leaving.push(frame);
                }
            }
            if self.leaving.is_empty() {
                return moved;
            }
            moved = true;
            self.write(index, now);
        }
    }

    /// Returns the number of batches of an interface that are pending in the writer's thread.
    fn pending(&self, index: usize) -> u32 {
        let writer = self.writer.as_ref();
        writer.map_or(0, |writer| writer.pending(index))
    }

    /// Writes the batch, or hands it to the writer's thread if the batch is large or others are
    /// pending.
    fn write(&mut self, index: usize, now: Time) {
        let hand_over = self.pending(index) > 0 || self.leaving.is_large();
        let interface = &mut self.interfaces[index];
        let socket = match &interface.medium {
            Medium::Interface(socket) => socket,
            // Copying into the guest's memory is as short as handing over would be.
            Medium::Guest(port) => {
                let at = clock::now();
                port.send(&self.leaving.finished(port.accepts()));
                return self.record_lateness(at);
            }
        };
        let after_pause = interface.lead.after_pause(now);
        interface.lead.record_write(now);
        if let Some(writer) = self.writer.as_mut().filter(|_| hand_over) {
            let next = self.spare.pop().unwrap_or_default();
            let leaving = std::mem::replace(&mut self.leaving, next);
            return writer.submit(index, socket, leaving);
        }
        let mut at = clock::now();
        let packets = self.leaving.outgoing();
        interface.lost.refused += match packets.as_slice() {
            [packet] if after_pause => {
                let (refused, stamp) = socket.send_stamped(packet, &mut self.outbox);
                if let Some(stamp) = stamp {
                    interface.lead.record_duration(stamp.ns_since(now));
                    at = stamp;
                }
                refused
            }
            packets => socket.send(packets, &mut self.outbox),
        };
        drop(packets);
        let interfaces = self.interfaces.iter();
        let leads = interfaces.map(|interface| interface.lead.duration());
        self.fabric.report_ahead(leads.max().unwrap_or_default());
        self.record_lateness(at);
    }

    /// Records the delay of the batch, which was written at `at`, and clears it.
    fn record_lateness(&mut self, at: Time) {
        for due in self.leaving.dues() {
            self.lateness.record_ns(at.ns_since(*due));
        }
        self.leaving.clear();
    }

    /// Collects the batches that the writer's thread has written.
    fn collect(&mut self) {
        while let Some(written) = self.writer.as_mut().and_then(PacketWriter::poll_written) {
            self.handle_written(written);
        }
    }

    fn handle_written(&mut self, mut written: Written<Leaving>) {
        self.interfaces[written.interface].lost.refused += written.refused;
        for due in written.packets.dues() {
            self.lateness.record_ns(written.at.ns_since(*due));
        }
        written.packets.clear();
        self.spare.push(written.packets);
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
            let entity = counters.entry(name.to_owned()).or_default();
            channel.visit(&mut |name, value| {
                entity.insert(name.to_owned(), value);
            });
        }
        for (name, switch) in self.fabric.switch_counters() {
            let entity = counters.entry(name.to_owned()).or_default();
            switch.visit(&mut |name, value| {
                entity.insert(name.to_owned(), value);
            });
        }
        let dropped = dropped_by_interfaces();
        for interface in &mut self.interfaces {
            let dropped = dropped.get(&interface.name).copied();
            counters.insert(
                format!("interface/{}", interface.name),
                interface.counters(dropped.unwrap_or(0.0))?,
            );
        }
        let writer = self.writer.as_ref().and_then(PacketWriter::cpu_ns);
        let threads = [("loop", Some(process::thread_cpu_ns())), ("writer", writer)];
        for (name, cpu_ns) in threads {
            if let Some(cpu_ns) = cpu_ns {
                let all = BTreeMap::from([("cpu_ns".to_owned(), cpu_ns as f64)]);
                counters.insert(format!("thread/{name}"), all);
            }
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

    /// Reports the totals of all links and the histograms of the entire run.
    fn finish(&mut self, control: &Control) -> Result<(), Failure> {
        while let Some(written) = self.writer.as_mut().and_then(PacketWriter::wait_written) {
            self.handle_written(written);
        }
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

/// Returns, by interface, the number of packets that the interface accepted and then dropped,
/// because its peer is down or the kernel's queue behind it is full.
fn dropped_by_interfaces() -> BTreeMap<String, f64> {
    let mut dropped = BTreeMap::new();
    // Without procfs the counts are unknown.
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
