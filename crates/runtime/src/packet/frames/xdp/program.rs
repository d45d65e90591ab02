//! The XDP program of a receiver: it hands frames with a mark to the sockets, each with the time of
//! its arrival in front, and leaves all others to the network stack.
//!
//! The kernel removes the program when the process ends, because a link (`BPF_LINK_CREATE`, Linux
//! 5.9) holds it. Loading needs CAP_BPF and CAP_NET_ADMIN outside any user namespace.
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use crate::packet::frames::MarkedFrames;
use crate::packet::interface::Interface;

/// Bytes in front of each frame that have its time: nanoseconds of `CLOCK_MONOTONIC`, in the byte
/// order of the machine.
pub(super) const TIME_BYTES: usize = size_of::<u64>();

/// A program at work, until it is dropped.
pub(super) struct Program {
    _link: OwnedFd,
    /// Two counts of frames that reached no socket; see [`Missed`].
    counts: MmapRaw,
}

/// Counts of marked frames that reached no socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missed {
    /// Frames of a receive queue that has no socket.
    pub(super) no_socket: u64,
    /// Frames without room for their time, which the driver must leave.
    pub(super) no_room: u64,
}

/// A program that is loaded and not at work yet.
pub(super) struct LoadedProgram {
    program: OwnedFd,
    sockets: OwnedFd,
    counts: MmapRaw,
}

impl LoadedProgram {
    /// Loads the program for an interface with this number of receive queues.
    pub(super) fn new(queues: u32, frames: MarkedFrames) -> io::Result<LoadedProgram> {
        let sockets = create_map(MAP_TYPE_XSKMAP, 4, queues, 0)?;
        let count_map = create_map(MAP_TYPE_ARRAY, 16, 1, MAP_MMAPABLE)?;
        let counts = MmapOptions::new()
            .len(2 * size_of::<u64>())
            .map_raw(&count_map)?;
        let program = load(&instructions(&sockets, &count_map, frames))?;
        Ok(LoadedProgram {
            program,
            sockets,
            counts,
        })
    }

    /// Attaches the program to an interface. `sockets` are those of its receive queues, in order.
    /// Interfaces that hand frames to another one run it behind the driver (generic XDP), because a
    /// veth pair passed fewer frames with a program in its driver; others within the driver, if it
    /// can.
    pub(super) fn attach(self, interface: &Interface, sockets: &[&OwnedFd]) -> io::Result<Program> {
        for (queue, socket) in sockets.iter().enumerate() {
            update(&self.sockets, queue as u32, socket.as_raw_fd())?;
        }
        let modes: &[u32] = if interface.hands_over {
            &[MODE_GENERIC]
        } else {
            &[MODE_DRIVER, MODE_GENERIC]
        };
        let mut link = Err(io::ErrorKind::Unsupported.into());
        for mode in modes {
            link = attach(&self.program, interface.index, *mode);
            // Another program is no reason to try the other mode.
            if link.is_ok() || matches!(&link, Err(error) if is_busy(error)) {
                break;
            }
        }
        Ok(Program {
            _link: link?,
            counts: self.counts,
        })
    }
}

impl Program {
    /// Returns the counts so far.
    pub(super) fn missed(&self) -> Missed {
        let count = |index: usize| {
            let place = self.counts.as_mut_ptr().cast::<u64>().wrapping_add(index);
            // SAFETY: the two words lie in the map and are aligned. The program adds to them
            // atomically.
            unsafe { AtomicU64::from_ptr(place) }.load(Ordering::Relaxed)
        };
        Missed {
            no_socket: count(NO_SOCKET),
            no_room: count(NO_ROOM),
        }
    }
}

fn is_busy(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy
}

/// Places of the counts.
const NO_SOCKET: usize = 0;
const NO_ROOM: usize = 1;

// linux/bpf.h, linux/if_link.h
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_XSKMAP: u32 = 17;
const MAP_MMAPABLE: u32 = 1 << 10;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const MODE_GENERIC: u32 = 1 << 1;
const MODE_DRIVER: u32 = 1 << 2;
const CALL_KTIME_GET_NS: i32 = 5;
const CALL_REDIRECT_MAP: i32 = 51;
const CALL_ADJUST_META: i32 = 54;
const XDP_DROP: i32 = 1;
const XDP_PASS: i32 = 2;
const XDP_REDIRECT: i32 = 4;
/// Members of `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const DATA_META: i16 = 8;
const RX_QUEUE_INDEX: i16 = 16;

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u8,
    /// Destination in the lower half, source in the upper.
    registers: u8,
    offset: i16,
    immediate: i32,
}

// Operations, by their names in the kernel's instruction set documentation.
const LOAD_32: u8 = 0x61;
const STORE_64: u8 = 0x7b;
const LOAD_IMMEDIATE_64: u8 = 0x18;
const MOVE: u8 = 0xbf;
const MOVE_IMMEDIATE: u8 = 0xb7;
const ADD_IMMEDIATE: u8 = 0x07;
const ATOMIC_ADD_64: u8 = 0xdb;
const JUMP: u8 = 0x05;
const JUMP_IF_GREATER: u8 = 0x2d;
const JUMP_IF_EQUAL: u8 = 0x15;
const JUMP_UNLESS_EQUAL: u8 = 0x55;
const JUMP_UNLESS_EQUAL_32: u8 = 0x56;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// Kinds of 64-bit immediates: a map, and the address of its first value.
const MAP: u8 = 1;
const MAP_VALUE: u8 = 2;

/// A place in the program to which jumps lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    NoRoom,
    Count,
    Pass,
    Exit,
}

/// A program whose jumps name places.
#[derive(Default)]
struct Assembly {
    instructions: Vec<Instruction>,
    jumps: Vec<(usize, Place)>,
    places: Vec<(Place, usize)>,
}

impl Assembly {
    fn add(&mut self, code: u8, to: u8, from: u8, offset: i16, immediate: i32) {
        self.instructions.push(Instruction {
            code,
            registers: from << 4 | to,
            offset,
            immediate,
        });
    }

    /// Adds an instruction with an immediate of 64 bits, which takes two places.
    fn add_64(&mut self, to: u8, kind: u8, low: i32, high: i32) {
        self.add(LOAD_IMMEDIATE_64, to, kind, 0, low);
        self.add(0, 0, 0, 0, high);
    }

    fn jump(&mut self, code: u8, to: u8, from: u8, immediate: i32, place: Place) {
        self.jumps.push((self.instructions.len(), place));
        self.add(code, to, from, 0, immediate);
    }

    fn place(&mut self, place: Place) {
        self.places.push((place, self.instructions.len()));
    }

    fn finish(mut self) -> Vec<Instruction> {
        for (at, place) in self.jumps {
            let target = self.places.iter().find(|(other, _)| *other == place);
            let (_, target) = target.expect("every place is defined");
            // A jump counts the instructions that it skips.
            self.instructions[at].offset = (target - at - 1) as i16;
        }
        self.instructions
    }
}

/// Returns the program:
///
/// ```text
/// if the frame is too short or has another word: pass
/// make room for the time in front of the frame, or count "no room" and drop
/// store the time there
/// if the frame's queue has a socket: hand it over (without a free slot the kernel drops and counts)
/// count "no socket" and drop
/// ```
fn instructions(sockets: &OwnedFd, counts: &OwnedFd, frames: MarkedFrames) -> Vec<Instruction> {
    let (at, end) = (frames.at as i16, frames.at as i32 + 4);
    let word = i32::from_ne_bytes(frames.value.to_be_bytes());
    let time = TIME_BYTES as i32;
    let (sockets, counts) = (sockets.as_raw_fd(), counts.as_raw_fd());
    let mut code = Assembly::default();
    code.add(MOVE, 6, 1, 0, 0);
    code.add(LOAD_32, 2, 6, DATA, 0);
    code.add(LOAD_32, 3, 6, DATA_END, 0);
    code.add(MOVE, 4, 2, 0, 0);
    code.add(ADD_IMMEDIATE, 4, 0, 0, end);
    code.jump(JUMP_IF_GREATER, 4, 3, 0, Place::Pass);
    code.add(LOAD_32, 5, 2, at, 0);
    code.jump(JUMP_UNLESS_EQUAL_32, 5, 0, word, Place::Pass);
    code.add(MOVE, 1, 6, 0, 0);
    code.add(MOVE_IMMEDIATE, 2, 0, 0, -time);
    code.add(CALL, 0, 0, 0, CALL_ADJUST_META);
    code.jump(JUMP_UNLESS_EQUAL, 0, 0, 0, Place::NoRoom);
    code.add(CALL, 0, 0, 0, CALL_KTIME_GET_NS);
    code.add(LOAD_32, 2, 6, DATA_META, 0);
    code.add(LOAD_32, 3, 6, DATA, 0);
    code.add(MOVE, 4, 2, 0, 0);
    code.add(ADD_IMMEDIATE, 4, 0, 0, time);
    code.jump(JUMP_IF_GREATER, 4, 3, 0, Place::NoRoom);
    code.add(STORE_64, 2, 0, 0, 0);
    code.add_64(1, MAP, sockets, 0);
    code.add(LOAD_32, 2, 6, RX_QUEUE_INDEX, 0);
    code.add(MOVE_IMMEDIATE, 3, 0, 0, 0);
    code.add(CALL, 0, 0, 0, CALL_REDIRECT_MAP);
    code.jump(JUMP_IF_EQUAL, 0, 0, XDP_REDIRECT, Place::Exit);
    code.add_64(1, MAP_VALUE, counts, 8 * NO_SOCKET as i32);
    code.jump(JUMP, 0, 0, 0, Place::Count);
    code.place(Place::NoRoom);
    code.add_64(1, MAP_VALUE, counts, 8 * NO_ROOM as i32);
    code.place(Place::Count);
    code.add(MOVE_IMMEDIATE, 2, 0, 0, 1);
    code.add(ATOMIC_ADD_64, 1, 2, 0, 0);
    code.add(MOVE_IMMEDIATE, 0, 0, 0, XDP_DROP);
    code.jump(JUMP, 0, 0, 0, Place::Exit);
    code.place(Place::Pass);
    code.add(MOVE_IMMEDIATE, 0, 0, 0, XDP_PASS);
    code.place(Place::Exit);
    code.add(EXIT, 0, 0, 0, 0);
    code.finish()
}

fn create_map(kind: u32, value_bytes: u32, entries: u32, flags: u32) -> io::Result<OwnedFd> {
    let attributes: [u32; 5] = [kind, 4, value_bytes, entries, flags];
    descriptor(bpf(MAP_CREATE, &attributes)?)
}

fn update(map: &OwnedFd, key: u32, value: libc::c_int) -> io::Result<()> {
    #[repr(C)]
    struct Attributes {
        map: u32,
        padding: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let attributes = Attributes {
        map: map.as_raw_fd() as u32,
        padding: 0,
        key: (&raw const key) as u64,
        value: (&raw const value) as u64,
        flags: 0,
    };
    bpf(MAP_UPDATE_ELEM, &attributes).map(drop)
}

fn load(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        kind: u32,
        instructions: u32,
        first: u64,
        license: u64,
        log_level: u32,
        log_bytes: u32,
        log: u64,
    }
    let attributes = Attributes {
        kind: PROG_TYPE_XDP,
        instructions: instructions.len() as u32,
        first: instructions.as_ptr() as u64,
        license: c"Dual MIT/GPL".as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
    };
    descriptor(bpf(PROG_LOAD, &attributes)?)
}

fn attach(program: &OwnedFd, interface: libc::c_uint, mode: u32) -> io::Result<OwnedFd> {
    let attributes: [u32; 4] = [program.as_raw_fd() as u32, interface, ATTACH_XDP, mode];
    descriptor(bpf(LINK_CREATE, &attributes)?)
}

/// Calls bpf(2). The kernel takes members behind the end of `attributes` as 0.
fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of `attributes`, which the callers lay out as
    // `union bpf_attr`. The addresses in it belong to values that outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<T>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    // SAFETY: the call returned a new descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(result as libc::c_int) })
}

const _: () = assert!(size_of::<Instruction>() == 8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_skip_the_instructions_before_their_place() {
        let mut code = Assembly::default();
        code.jump(JUMP, 0, 0, 0, Place::Pass);
        code.add_64(1, MAP, 5, 8);
        code.jump(JUMP_IF_EQUAL, 0, 0, 1, Place::Exit);
        code.place(Place::Pass);
        code.place(Place::Exit);
        code.add(EXIT, 0, 0, 0, 0);
        let found: Vec<_> = code
            .finish()
            .iter()
            .map(|each| (each.code, each.registers, each.offset, each.immediate))
            .collect();
        let expected = [
            (JUMP, 0, 3, 0),
            (LOAD_IMMEDIATE_64, 0x11, 0, 5),
            (0, 0, 0, 8),
            (JUMP_IF_EQUAL, 0, 0, 1),
            (EXIT, 0, 0, 0),
        ];
        assert_eq!(found, expected);
    }
}
