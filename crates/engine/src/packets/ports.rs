//! Opening of the interfaces.
use std::io;

use hakaru_contract::{PacketsConfig, TransmitMethod};
use hakaru_packets::{FCS_BYTES, FRAME_BYTES_MAX, MARK_AT, Mac, Plan, Receiver};
use hakaru_runtime::packet::Interface;
use hakaru_runtime::packet::capture::{CaptureRing, RingOptions, Selection};
use hakaru_runtime::packet::frames::{FrameSender, SendmmsgFrames, XdpFrames};
use serde_json::{Value, json};

use super::receive::Reception;
use super::report::Reporter;
use super::transmit::Transmitter;
use crate::failure::Failure;

/// Size of a receive ring, bytes: about 400 000 of the shortest frames.
const RING_BYTES: usize = 64 << 20;

/// An open port.
pub(super) struct Port {
    pub(super) name: String,
    pub(super) interface: String,
    /// Thread that sends, if a stream leaves the port.
    pub(super) transmitter: Option<Transmitter>,
    /// Thread that receives, if a stream arrives at the port.
    pub(super) reception: Option<Reception>,
    mac: Mac,
    mtu_bytes: u32,
    /// Whether its interface hands frames to the queue of another one.
    pub(super) hands_over: bool,
    transmit: Option<&'static str>,
    transmit_reason: String,
}

impl Port {
    /// Returns the description in `ready`.
    pub(super) fn describe(&self) -> Value {
        json!({
            "name": self.name,
            "interface": self.interface,
            "mac": self.mac.to_string(),
            "mtu_bytes": self.mtu_bytes,
            "transmit": self.transmit,
            "transmit_reason": self.transmit_reason,
            "receive": self.reception.as_ref().map(|_| "tpacket_v3"),
        })
    }
}

/// Checks and opens all interfaces, and starts their threads.
///
/// # Errors
/// An interface does not exist, is down, may not be opened, or has too small an MTU.
pub(super) fn open(
    config: &PacketsConfig,
    plan: &Plan,
    mark: u32,
    reporter: &Reporter,
) -> Result<Vec<Port>, Failure> {
    let names = config.ports.iter().map(|port| port.interface.as_str());
    let facts = names.map(find).collect::<Result<Vec<_>, _>>()?;
    for stream in plan.streams() {
        for port in [stream.from, stream.to] {
            let (needed, mtu) = (stream.mtu_needed(), facts[port].mtu_bytes);
            if needed > mtu {
                let interface = &config.ports[port].interface;
                let (name, bytes) = (stream.name(), stream.frame_bytes_max());
                return Err(Failure::usage(
                    format_args!(
                        "stream {name}: frames of {bytes} bytes need an MTU of {needed}, but {interface} has {mtu}"
                    ),
                    format_args!(
                        "use shorter frames, or `ip link set {interface} mtu {needed}` on the entire path"
                    ),
                ));
            }
        }
    }
    let macs: Vec<Mac> = facts.iter().map(|facts| Mac(facts.mac)).collect();
    let mut ports = Vec::new();
    for (index, port) in config.ports.iter().enumerate() {
        let mut opened = Port {
            name: port.name.clone(),
            interface: port.interface.clone(),
            transmitter: None,
            reception: None,
            mac: macs[index],
            mtu_bytes: facts[index].mtu_bytes,
            hands_over: facts[index].hands_over,
            transmit: None,
            transmit_reason: String::new(),
        };
        if plan.arrives_at(index) {
            let ring = open_ring(&port.interface, mark)?;
            let receiver = Receiver::new(plan, index, mark);
            let reception = Reception::spawn(index, ring, receiver, reporter.clone())?;
            opened.reception = Some(reception);
        }
        let leaving = plan.leaving(index);
        if !leaving.is_empty() {
            let frames = leaving
                .iter()
                .map(|stream| (*stream, plan.frames(*stream, &macs, mark)));
            let frames: Vec<_> = frames.collect();
            let longest = frames.iter().map(|(_, frames)| frames.longest()).max();
            let (out, method, reason) = open_sender(
                config.transmit,
                &port.interface,
                &facts[index],
                longest.unwrap_or(0),
            )?;
            let transmitter = Transmitter::spawn(index, out, frames, reporter.clone())?;
            opened.transmitter = Some(transmitter);
            (opened.transmit, opened.transmit_reason) = (Some(method), reason);
        }
        ports.push(opened);
    }
    Ok(ports)
}

fn find(name: &str) -> Result<Interface, Failure> {
    let interface = Interface::find(name).map_err(|error| cannot_open(name, &error))?;
    if !interface.is_up {
        return Err(Failure::environment(
            format_args!("the interface {name} is down"),
            format_args!("`ip link set {name} up` in the engine's network namespace"),
        ));
    }
    Ok(interface)
}

fn open_ring(interface: &str, mark: u32) -> Result<CaptureRing, Failure> {
    let options = RingOptions {
        ring_bytes: RING_BYTES,
        snap_bytes: u32::from(FRAME_BYTES_MAX - FCS_BYTES),
        selection: Selection::Word {
            at: MARK_AT,
            value: mark,
        },
        receives_all: true,
    };
    CaptureRing::open(interface, &options).map_err(|error| cannot_open(interface, &error))
}

/// A sender, its name, and the reason why it is not the preferred one.
type OpenedSender = (Box<dyn FrameSender>, &'static str, String);

/// Opens an interface for transmission by the configured method, or by the fastest that works.
fn open_sender(
    method: TransmitMethod,
    name: &str,
    interface: &Interface,
    frame_bytes: usize,
) -> Result<OpenedSender, Failure> {
    let mut reason = String::new();
    if method != TransmitMethod::Sendmmsg {
        match XdpFrames::open(interface, frame_bytes) {
            Ok(out) => return Ok((Box::new(out), "af_xdp", reason)),
            Err(error) if method == TransmitMethod::AfXdp => {
                return Err(Failure::environment(
                    format_args!("cannot send through AF_XDP on {name}: {error}"),
                    "use `transmit: auto`, frames of at most 4096 bytes, or a higher limit of \
                     locked memory (ulimit -l)",
                ));
            }
            Err(error) => reason = format!("AF_XDP refused: {error}"),
        }
    }
    let out =
        SendmmsgFrames::open(interface, frame_bytes).map_err(|error| cannot_open(name, &error))?;
    Ok((Box::new(out), "sendmmsg", reason))
}

fn cannot_open(interface: &str, error: &io::Error) -> Failure {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "name an interface of the engine's network namespace (ip link)",
        io::ErrorKind::PermissionDenied => {
            "the engine needs CAP_NET_RAW in its network namespace: create the namespace with \
             `unshare --user --map-root-user --net`, or run as root"
        }
        io::ErrorKind::OutOfMemory => "use fewer ports, each of which needs a ring of 64 MiB",
        _ => "use an Ethernet interface that is up",
    };
    Failure::environment(
        format_args!("cannot open the interface {interface}: {error}"),
        hint,
    )
}
