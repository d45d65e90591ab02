//! A port and a guest in this process: QEMU's side of the protocol, and a driver in shared memory.
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use vhost::vhost_user::message::VhostUserProtocolFeatures;
use vhost::vhost_user::{Frontend, VhostUserFrontend as _};
use vhost::{VhostBackend as _, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::mmap::MmapRegion;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::*;
use crate::packet::{BATCH, Cut, Offload};
use crate::vhost_user::driver::{Driver, RING_BYTES, SIZE, WRITE};
use crate::wait::{Events, clock};

const MEMORY_BYTES: u64 = 0x2_0000;
/// Address of the guest's memory in QEMU's process.
const USER: u64 = 0x7f00_0000_0000;
const DATA: u64 = 0x1_0000;
const TOKEN: Token = Token(5);
const CHECKSUM_AND_TCP: u64 = 1 << 1 | 1 << 7 | 1 << 8;
const MERGEABLE_1_0: u64 = 1 << 15 | 1 << 32;
const SEVERAL_PAIRS: u64 = 1 << 22;
const PROTOCOL: u64 = 1 << 30;
/// Rings of a guest with two pairs.
const RINGS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(10);

/// The file of a guest's memory.
fn memory_file(bytes: u64, seals: SealFlags) -> File {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("guest", flags).unwrap();
    ftruncate(&file, bytes).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file.into()
}

/// A file of huge pages. `None` if this kernel has none.
fn huge_file() -> Option<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
    let file = memfd_create("guest", flags).ok()?;
    ftruncate(&file, 2 << 20).unwrap();
    fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    Some(file.into())
}

/// The guest's own mapping of its memory.
fn mapped(file: &File) -> GuestMemoryMmap {
    let offset = FileOffset::new(file.try_clone().unwrap(), 0);
    let region = MmapRegion::from_file(offset, MEMORY_BYTES as usize).unwrap();
    let region = GuestRegionMmap::new(region, GuestAddress(0)).unwrap();
    GuestMemoryMmap::from_regions(vec![region]).unwrap()
}

/// QEMU's side of a connection.
struct Peer {
    frontend: Frontend,
    kicks: [EventFd; RINGS],
    calls: [EventFd; RINGS],
}

impl Peer {
    /// Connects, and passes the memory.
    fn connect(socket: &str, features: u64, file: &File) -> Peer {
        let stream = match socket.strip_prefix('@') {
            Some(name) => {
                UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
            }
            None => UnixStream::connect(socket).unwrap(),
        };
        Peer::over(stream, features, file)
    }

    /// Uses a connection, and passes the memory.
    fn over(stream: UnixStream, features: u64, file: &File) -> Peer {
        let frontend = Frontend::from_stream(stream, RINGS as u64);
        let offered = frontend.get_features().unwrap();
        assert_eq!(offered & features, features);
        frontend.set_owner().unwrap();
        frontend.set_features(features).unwrap();
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: MEMORY_BYTES,
            userspace_addr: USER,
            mmap_offset: 0,
            mmap_handle: file.as_raw_fd(),
        };
        frontend.set_mem_table(&[region]).unwrap();
        let events = || [(); RINGS].map(|()| EventFd::new(EFD_NONBLOCK).unwrap());
        Peer {
            frontend,
            kicks: events(),
            calls: events(),
        }
    }

    /// Enables rings, as a peer must that acknowledged the features of the protocol.
    fn enable(&mut self, rings: std::ops::Range<usize>) {
        for ring in rings {
            self.frontend.set_vring_enable(ring, true).unwrap();
        }
        // An answer shows that the requests before it were carried out.
        self.frontend.get_features().unwrap();
    }

    /// Starts a ring, whose driver has its memory at `index * RING_BYTES`.
    fn start(&self, index: usize, driver: &Driver<'_>) {
        let places = driver.places().map(|place| USER + place.0);
        let config = VringConfigData {
            queue_max_size: SIZE,
            queue_size: SIZE,
            flags: 0,
            desc_table_addr: places[0],
            used_ring_addr: places[2],
            avail_ring_addr: places[1],
            log_addr: None,
        };
        self.frontend.set_vring_num(index, SIZE).unwrap();
        self.frontend.set_vring_addr(index, &config).unwrap();
        self.frontend.set_vring_base(index, 0).unwrap();
        self.frontend
            .set_vring_call(index, &self.calls[index])
            .unwrap();
        self.frontend
            .set_vring_kick(index, &self.kicks[index])
            .unwrap();
    }
}

/// Waits until `is_met` holds for the counters.
fn wait_for(port: &VhostUserPort, is_met: impl Fn(PortCounters) -> bool) -> PortCounters {
    let until = clock::now() + PATIENCE;
    loop {
        let counters = port.counters();
        if is_met(counters) {
            return counters;
        }
        assert!(clock::now() < until, "{counters:?}");
        std::thread::yield_now();
    }
}

fn outgoing<'a>(head: &'a [u8], body: &'a [u8], offload: Offload) -> Outgoing<'a> {
    Outgoing {
        head,
        body,
        offload,
    }
}

fn socket_of(name: &str) -> String {
    let path = std::env::temp_dir().join(format!("hakaru-vhost-{}-{name}", std::process::id()));
    path.to_string_lossy().into_owned()
}

#[test]
fn frames_pass_both_ways_and_a_second_guest_connects_after_the_first() {
    let reactor = Reactor::new().unwrap();
    let name = format!("@hakaru-vhost-{}-both", std::process::id());
    let port = VhostUserPort::listen(&name, &reactor, TOKEN).unwrap();
    let mut inbox = Inbox::default();
    let mut no_buffer = 0;
    for turn in 1..=2 {
        let file = memory_file(MEMORY_BYTES, SealFlags::SHRINK);
        let memory = mapped(&file);
        let mut drivers = [0, RING_BYTES].map(|base| Driver::new(&memory, base));
        let features = MERGEABLE_1_0 | if turn == 1 { CHECKSUM_AND_TCP } else { 0 };
        let peer = Peer::connect(&name, features, &file);
        for (index, driver) in drivers.iter().enumerate() {
            peer.start(index, driver);
        }
        let counters = wait_for(&port, |counters| counters.is_up);
        assert_eq!(counters.connections, turn);
        let accepts = port.accepts();
        assert_eq!(
            (accepts.checksum, accepts.super_frames),
            (turn == 1, turn == 1)
        );

        // From the guest: a frame whose checksum is missing.
        let frame = vec![turn as u8; 60];
        let header = [1, 0, 0, 0, 0, 0, 34, 0, 6, 0, 0, 0];
        drivers[1].write(DATA, &[&header[..], &frame].concat());
        drivers[1].describe(0, [DATA, 72], 0, 0);
        while port.receive(&mut inbox).is_some() {}
        drivers[1].offer(0);
        peer.kicks[1].write(1).unwrap();
        let mut events = Events::with_capacity(8);
        reactor
            .wait(&mut events, Some(clock::now() + PATIENCE))
            .unwrap();
        assert!(
            events
                .iter()
                .any(|event| event.token == TOKEN && event.readable)
        );
        let received = port.receive(&mut inbox).unwrap().unwrap();
        assert_eq!(received.bytes, frame);
        assert_eq!(received.offload.checksum, Some((34, 6)));
        assert!(port.receive(&mut inbox).is_none());
        port.finish_receiving();
        assert_eq!(drivers[1].used(), [(0, 0)]);
        assert_eq!(peer.calls[1].read().unwrap(), 1);

        // To the guest: no room, then a super-frame.
        let offload = Offload {
            checksum: Some((34, 16)),
            segmentation: Some(Cut {
                udp: false,
                header_bytes: 54,
                payload_bytes: 100,
            }),
        };
        let mut head = vec![0; 54];
        head[12] = 8;
        port.send(&[outgoing(&head, &[3; 400], offload)]);
        drivers[0].describe(0, [DATA, 4096], WRITE, 0);
        drivers[0].offer(0);
        port.send(&[outgoing(&head, &[3; 400], offload)]);
        assert_eq!(drivers[0].used(), [(0, 12 + 454)]);
        assert_eq!(peer.calls[0].read().unwrap(), 1);
        assert_eq!(
            drivers[0].read(DATA, 12),
            [1, 1, 54, 0, 100, 0, 34, 0, 16, 0, 1, 0]
        );
        assert_eq!(drivers[0].read(DATA + 12 + 54, 400), [3; 400]);
        let counters = port.counters();
        assert_eq!([counters.packets_in, counters.packets_out], [turn; 2]);
        assert_eq!(counters.dropped_no_buffer, no_buffer + 1);
        assert_eq!(
            [counters.bytes_in, counters.bytes_out],
            [60 * turn, 454 * turn]
        );
        assert_eq!(
            [counters.super_frames_in, counters.super_frames_out],
            [0, turn]
        );

        // A stopped ring is not used, and keeps its place.
        assert_eq!(peer.frontend.get_vring_base(1).unwrap(), 1);
        drivers[1].offer(0);
        assert!(port.receive(&mut inbox).is_none());
        drop(peer);
        let mut dropped = port.counters();
        let before = dropped.dropped_no_buffer;
        while dropped.dropped_down < turn {
            port.send(&[outgoing(&head, &[], Offload::default())]);
            dropped = wait_for(&port, |_| true);
        }
        no_buffer += dropped.dropped_no_buffer - before + 1;
    }
    let counters = port.counters();
    assert_eq!(
        [
            counters.damaged,
            counters.broken_rings,
            counters.refused_requests
        ],
        [0; 3]
    );
}

/// A frame of UDP over IPv4 with a source port.
fn datagram(port: u8) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[12] = 8;
    frame[14] = 0x45;
    frame[23] = 17;
    frame[35] = port;
    frame
}

#[test]
fn frames_pass_through_all_pairs_and_each_flow_keeps_its_pair() {
    const FLOWS: u8 = 16;
    let reactor = Reactor::new().unwrap();
    let name = format!("@hakaru-vhost-{}-pairs", std::process::id());
    let port = VhostUserPort::listen(&name, &reactor, TOKEN).unwrap();
    let file = memory_file(MEMORY_BYTES, SealFlags::SHRINK);
    let memory = mapped(&file);
    let mut drivers = [0, 1, 2, 3].map(|ring| Driver::new(&memory, ring * RING_BYTES));
    let mut peer = Peer::connect(&name, MERGEABLE_1_0 | PROTOCOL | SEVERAL_PAIRS, &file);
    let offered = peer.frontend.get_protocol_features().unwrap();
    assert!(offered.contains(VhostUserProtocolFeatures::MQ));
    peer.frontend.set_protocol_features(offered).unwrap();
    assert_eq!(peer.frontend.get_queue_num().unwrap(), 64);
    for (index, driver) in drivers.iter().enumerate() {
        peer.start(index, driver);
    }
    peer.frontend.get_features().unwrap();
    assert!(!port.counters().is_up);
    peer.enable(0..RINGS);
    assert!(port.counters().is_up);

    // The guest's notification of a frame in the second pair wakes this side.
    let mut events = Events::with_capacity(8);
    let mut inbox = Inbox::default();
    loop {
        reactor.wait(&mut events, Some(clock::now())).unwrap();
        if events.iter().next().is_none() {
            break;
        }
    }
    assert!(port.receive(&mut inbox).is_none());
    peer.kicks[3].write(1).unwrap();
    let patience = Some(clock::now() + PATIENCE);
    reactor.wait(&mut events, patience).unwrap();
    assert!(
        events
            .iter()
            .any(|event| event.token == TOKEN && event.readable)
    );

    // From the guest: two frames in each of the rings 1 and 3.
    for (ring, mark) in [(1, 10), (3, 30)] {
        for number in 0..2 {
            let at = DATA + 0x1000 * ring as u64 + 0x100 * number;
            let frame = [&[0; 12][..], &[mark + number as u8; 60]].concat();
            drivers[ring].write(at, &frame);
            drivers[ring].describe(number as u16, [at, 72], 0, 0);
            drivers[ring].offer(number as u16);
        }
    }
    let mut marks = Vec::new();
    while let Some(received) = port.receive(&mut inbox) {
        marks.push(received.unwrap().bytes[0]);
    }
    marks.sort_unstable();
    assert_eq!(marks, [10, 11, 30, 31]);
    port.finish_receiving();
    for ring in [1, 3] {
        assert_eq!(peer.calls[ring].read().unwrap(), 1);
    }

    // To the guest: each flow twice, with room for one frame at a time in each ring.
    for ring in [0, 2] {
        drivers[ring].describe(0, [DATA + 0x1000 * ring as u64, 256], WRITE, 0);
        drivers[ring].offer(0);
    }
    let mut rings = Vec::new();
    for flow in (0..FLOWS).chain(0..FLOWS) {
        port.send(&[outgoing(&datagram(flow), &[], Offload::default())]);
        let used = [0, 2].map(|ring| drivers[ring].used().len());
        assert!(used == [1, 0] || used == [0, 1], "{used:?}");
        let ring = 2 * used[1];
        drivers[ring].offer(0);
        rings.push(ring);
    }
    let (first, again) = rings.split_at(FLOWS.into());
    assert_eq!(first, again);
    assert!(first.contains(&0) && first.contains(&2), "{first:?}");

    assert_eq!(port.counters().packets_out, 2 * u64::from(FLOWS));
    assert_eq!(
        peer.calls[2].read().unwrap(),
        rings.iter().filter(|ring| **ring == 2).count() as u64
    );

    // Without one of the pairs, the guest gets all frames through the other one.
    for (stopped, other) in [(2, 0), (0, 2)] {
        peer.frontend.set_vring_enable(stopped, false).unwrap();
        peer.frontend.set_vring_enable(other, true).unwrap();
        peer.frontend.get_features().unwrap();
        port.send(&[outgoing(&datagram(1), &[], Offload::default())]);
        assert_eq!(
            [drivers[stopped].used().len(), drivers[other].used().len()],
            [0, 1]
        );
        drivers[other].offer(0);
    }
    assert_eq!(port.counters().dropped_down, 0);
}

#[test]
fn a_pair_gives_a_batch_of_frames_before_it_is_the_turn_of_the_next_one() {
    let reactor = Reactor::new().unwrap();
    let name = format!("@hakaru-vhost-{}-turns", std::process::id());
    let port = VhostUserPort::listen(&name, &reactor, TOKEN).unwrap();
    let file = memory_file(MEMORY_BYTES, SealFlags::SHRINK);
    let memory = mapped(&file);
    let mut drivers = [0, 1, 2, 3].map(|ring| Driver::new(&memory, ring * RING_BYTES));
    let peer = Peer::connect(&name, MERGEABLE_1_0 | SEVERAL_PAIRS, &file);
    for (index, driver) in drivers.iter().enumerate() {
        peer.start(index, driver);
    }
    peer.frontend.get_features().unwrap();
    for (ring, mark) in [(1, 1), (3, 3)] {
        let at = DATA + 0x1000 * ring as u64;
        drivers[ring].write(at, &[&[0; 12][..], &[mark; 60]].concat());
        drivers[ring].describe(0, [at, 72], 0, 0);
        drivers[ring].offer(0);
    }
    let mut inbox = Inbox::default();
    let mut marks = Vec::new();
    while marks.len() < 3 * BATCH {
        let mark = port.receive(&mut inbox).unwrap().unwrap().bytes[0];
        // The driver sends the same frame again.
        drivers[usize::from(mark)].offer(0);
        marks.push(mark);
    }
    let first = marks[0];
    assert_eq!(marks.iter().position(|mark| *mark != first), Some(BATCH));
    assert_eq!(
        marks.iter().rposition(|mark| *mark != first),
        Some(2 * BATCH - 1)
    );
}

#[test]
fn a_ring_that_the_driver_breaks_is_stopped_until_it_is_started_again() {
    let reactor = Reactor::new().unwrap();
    let name = format!("@hakaru-vhost-{}-broken", std::process::id());
    let port = VhostUserPort::listen(&name, &reactor, TOKEN).unwrap();
    let file = memory_file(MEMORY_BYTES, SealFlags::SHRINK);
    let memory = mapped(&file);
    let mut drivers = [0, RING_BYTES].map(|base| Driver::new(&memory, base));
    let mut peer = Peer::connect(&name, MERGEABLE_1_0 | PROTOCOL, &file);
    let mut inbox = Inbox::default();
    for (index, driver) in drivers.iter().enumerate() {
        peer.start(index, driver);
    }
    peer.enable(0..2);
    wait_for(&port, |counters| counters.is_up);
    drivers[1].set_available(SIZE + 1);
    assert!(port.receive(&mut inbox).is_none());
    drivers[0].describe(0, [MEMORY_BYTES, 100], WRITE, 0);
    drivers[0].offer(0);
    port.send(&[outgoing(&[0; 60], &[], Offload::default())]);
    let counters = port.counters();
    assert_eq!((counters.broken_rings, counters.is_up), (2, false));
    // The descriptors beyond the memory were not written to; the driver starts again.
    drivers[1].set_available(0);
    peer.start(1, &drivers[1]);
    drivers[1].write(DATA, &[0; 72]);
    drivers[1].describe(0, [DATA, 72], 0, 0);
    drivers[1].offer(0);
    let until = clock::now() + PATIENCE;
    while port.receive(&mut inbox).is_none() {
        assert!(clock::now() < until);
    }
}

#[test]
fn memory_that_could_vanish_is_refused_and_the_next_guest_connects() {
    let reactor = Reactor::new().unwrap();
    let name = format!("@hakaru-vhost-{}-memory", std::process::id());
    let port = VhostUserPort::listen(&name, &reactor, TOKEN).unwrap();
    let unsealed = memory_file(MEMORY_BYTES, SealFlags::GROW);
    let short = memory_file(MEMORY_BYTES - 1, SealFlags::SHRINK);
    let plain = File::open("/proc/self/exe").unwrap();
    let files = [unsealed, short, plain].into_iter().chain(huge_file());
    for (turn, file) in files.collect::<Vec<_>>().iter().enumerate() {
        let peer = Peer::connect(&name, MERGEABLE_1_0, file);
        // The memory is unknown, so a ring has no place.
        let config = VringConfigData {
            queue_max_size: SIZE,
            queue_size: SIZE,
            flags: 0,
            desc_table_addr: USER,
            used_ring_addr: USER + 0x800,
            avail_ring_addr: USER + 0x400,
            log_addr: None,
        };
        let _ = peer.frontend.set_vring_addr(0, &config);
        wait_for(&port, |counters| {
            counters.refused_requests == turn as u64 + 1
        });
    }
    let file = memory_file(MEMORY_BYTES, SealFlags::SHRINK);
    let memory = mapped(&file);
    let peer = Peer::connect(&name, MERGEABLE_1_0, &file);
    for index in 0..2 {
        peer.start(index, &Driver::new(&memory, index as u64 * RING_BYTES));
    }
    wait_for(&port, |counters| counters.is_up);
}

#[test]
fn bytes_that_are_no_requests_end_the_connection_only() {
    let reactor = Reactor::new().unwrap();
    let socket = socket_of("bytes");
    let port = VhostUserPort::listen(&socket, &reactor, TOKEN).unwrap();
    // Nothing, part of a header, a request that does not exist, and one that is too long.
    let requests: [&[u8]; 4] = [
        b"",
        &[1, 0, 0],
        &[200, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        &[5, 0, 0, 0, 1, 0, 0, 0, 255, 255, 255, 255],
    ];
    for (turn, request) in requests.iter().enumerate() {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(request).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        // The port closes its end.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        wait_for(&port, |counters| counters.connections == turn as u64 + 1);
    }
    wait_for(&port, |counters| counters.refused_requests >= 2);
    drop(port);
    assert!(!std::path::Path::new(&socket).exists());
}

/// Returns a request to enable a ring (1) or to disable it (0). `flags`: 1 is the version, 9 also asks
/// for an answer.
fn enable_ring(flags: u32, index: u32, state: u32) -> Vec<u8> {
    [18, flags, 8, index, state].map(u32::to_ne_bytes).concat()
}

#[test]
fn a_ring_may_be_disabled_before_the_features_are_acknowledged() {
    let reactor = Reactor::new().unwrap();
    let socket = socket_of("early");
    let port = VhostUserPort::listen(&socket, &reactor, TOKEN).unwrap();
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&enable_ring(1, 0, 1)).unwrap();
    stream.write_all(&enable_ring(9, 0, 0)).unwrap();
    let mut answer = [0; 20];
    stream.read_exact(&mut answer).unwrap();
    let expected = [18, 5, 8, 0, 0_u32].map(u32::to_ne_bytes).concat();
    assert_eq!(answer.as_slice(), expected);
    // No answer to the first request is left over: the peer reads the one to a request of its own.
    let file = memory_file(MEMORY_BYTES, SealFlags::SHRINK);
    let memory = mapped(&file);
    let mut peer = Peer::over(stream, MERGEABLE_1_0 | PROTOCOL, &file);
    for index in 0..2 {
        peer.start(index, &Driver::new(&memory, index as u64 * RING_BYTES));
    }
    // An answer shows that the requests before it were carried out.
    peer.frontend.get_features().unwrap();
    assert!(!port.counters().is_up);
    peer.enable(0..2);
    assert!(port.counters().is_up);
    assert_eq!(port.counters().refused_requests, 0);
}

#[test]
fn a_ring_that_does_not_exist_and_a_state_that_does_not_end_the_connection() {
    let reactor = Reactor::new().unwrap();
    let socket = socket_of("early-wrong");
    let port = VhostUserPort::listen(&socket, &reactor, TOKEN).unwrap();
    for (refused, (index, state)) in [(128, 1), (127, 2)].into_iter().enumerate() {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&enable_ring(9, index, state)).unwrap();
        assert_eq!(stream.read(&mut [0; 20]).unwrap(), 0);
        wait_for(&port, |counters| {
            counters.refused_requests == refused as u64 + 1
        });
    }
}

#[test]
fn a_socket_on_which_nothing_listens_is_replaced_and_one_in_use_is_not() {
    let reactor = Reactor::new().unwrap();
    let socket = socket_of("dead");
    // A killed process leaves its socket's file.
    drop(UnixListener::bind(&socket).unwrap());
    let port = VhostUserPort::listen(&socket, &reactor, TOKEN).unwrap();
    assert!(VhostUserPort::listen(&socket, &reactor, TOKEN).is_err());
    // Closing ends a connection that is waiting for its peer.
    let mut stream = UnixStream::connect(&socket).unwrap();
    wait_for(&port, |counters| counters.connections >= 1);
    drop(port);
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    assert!(!std::path::Path::new(&socket).exists());
}
