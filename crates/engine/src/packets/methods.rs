//! Choice of the methods by which a port sends and receives.
use std::io;

use hakaru_contract::{PacketsConfig, ReceiveMethod, TransmitMethod};
use hakaru_packets::{FCS_BYTES, FRAME_BYTES_MAX, MARK_AT};
use hakaru_runtime::packet::Interface;
use hakaru_runtime::packet::frames::{
    FrameReceiver, FrameSender, MarkedFrames, RingFrames, SendmmsgFrames, xdp,
};

use crate::failure::Failure;

/// Size of a receive ring, bytes: about 400 000 of the shortest frames.
const RING_BYTES: usize = 64 << 20;
/// Names in the contract.
const AF_XDP: &str = "af_xdp";
const SENDMMSG: &str = "sendmmsg";
const TPACKET_V3: &str = "tpacket_v3";

/// Lengths of the longest frames of a port, bytes without FCS. `None` if there are no such frames.
#[derive(Clone, Copy)]
pub(super) struct Lengths {
    pub(super) sent: Option<usize>,
    pub(super) received: Option<usize>,
}

/// A sender, its name, and the reason why it is not the preferred one.
type NamedSender = (Box<dyn FrameSender>, &'static str, String);
/// A receiver and its name.
type NamedReceiver = (Box<dyn FrameReceiver>, &'static str);

/// The sender and the receiver of a port, as far as it has streams.
pub(super) struct Methods {
    pub(super) sender: Option<NamedSender>,
    pub(super) receiver: Option<NamedReceiver>,
}

impl Methods {
    /// Opens an interface by the configured methods, or by the fastest that work.
    ///
    /// # Errors
    /// A configured method is not available. The interface may not be opened.
    pub(super) fn open(
        config: &PacketsConfig,
        name: &str,
        interface: &Interface,
        lengths: Lengths,
        mark: u32,
    ) -> Result<Methods, Failure> {
        let frames = MarkedFrames {
            at: MARK_AT,
            value: mark,
        };
        let xdp_sends = config.transmit != TransmitMethod::Sendmmsg;
        let (sender, receiver) = match (lengths.sent, lengths.received) {
            (sent, Some(received)) if config.receive == ReceiveMethod::AfXdp => {
                let refused = |error| no_xdp_reception(name, &error);
                if let Some(sent) = sent.filter(|_| xdp_sends) {
                    let opened = xdp::open_both(interface, sent, received, frames);
                    let (sender, receiver) = opened.map_err(refused)?;
                    (Some(by_xdp(sender)), Some(named(receiver, AF_XDP)))
                } else {
                    let receiver =
                        xdp::open_receiver(interface, received, frames).map_err(refused)?;
                    let sender = sent.map(|sent| by_sendmmsg(name, interface, sent, String::new()));
                    (sender.transpose()?, Some(named(receiver, AF_XDP)))
                }
            }
            (sent, received) => {
                let receiver = received.map(|_| by_ring(name, frames)).transpose()?;
                let sender = sent.map(|sent| sender(config.transmit, name, interface, sent));
                (sender.transpose()?, receiver)
            }
        };
        Ok(Methods { sender, receiver })
    }
}

fn sender(
    method: TransmitMethod,
    name: &str,
    interface: &Interface,
    frame_bytes: usize,
) -> Result<NamedSender, Failure> {
    let mut reason = String::new();
    if method != TransmitMethod::Sendmmsg {
        match xdp::open_sender(interface, frame_bytes) {
            Ok(sender) => return Ok(by_xdp(sender)),
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
    by_sendmmsg(name, interface, frame_bytes, reason)
}

fn by_xdp(sender: xdp::XdpFrames) -> NamedSender {
    (Box::new(sender), AF_XDP, String::new())
}

fn by_sendmmsg(
    name: &str,
    interface: &Interface,
    frame_bytes: usize,
    reason: String,
) -> Result<NamedSender, Failure> {
    let sender =
        SendmmsgFrames::open(interface, frame_bytes).map_err(|error| cannot_open(name, &error))?;
    Ok((Box::new(sender), SENDMMSG, reason))
}

fn by_ring(name: &str, frames: MarkedFrames) -> Result<NamedReceiver, Failure> {
    // Frames that are longer than those of the plan are counted as damaged.
    let frame_bytes = usize::from(FRAME_BYTES_MAX - FCS_BYTES);
    let receiver = RingFrames::open(name, frame_bytes, frames, RING_BYTES)
        .map_err(|error| cannot_open(name, &error))?;
    Ok(named(receiver, TPACKET_V3))
}

fn named(receiver: impl FrameReceiver + 'static, name: &'static str) -> NamedReceiver {
    (Box::new(receiver), name)
}

fn no_xdp_reception(name: &str, error: &io::Error) -> Failure {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "run as root, who may load an XDP program outside a user namespace; or use \
             `receive: auto`"
        }
        io::ErrorKind::ResourceBusy => {
            "remove the XDP program of the interface (`ip link set dev INTERFACE xdp off`), or end \
             the program that uses AF_XDP; or use `receive: auto`"
        }
        _ => {
            "use `receive: auto`: AF_XDP receives frames of at most 3844 bytes, and needs Linux \
             5.10"
        }
    };
    Failure::environment(
        format_args!("cannot receive through AF_XDP on {name}: {error}"),
        hint,
    )
}

/// Returns the failure to open an interface.
pub(super) fn cannot_open(interface: &str, error: &io::Error) -> Failure {
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
