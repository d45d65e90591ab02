//! Opening of the interfaces.
use hakaru_contract::PacketsConfig;
use hakaru_packets::{FCS_BYTES, Mac, Plan, Receiver};
use hakaru_runtime::packet::Interface;
use serde_json::{Value, json};

use super::methods::{Lengths, Methods, cannot_open};
use super::receive::Reception;
use super::report::Reporter;
use super::transmit::Transmitter;
use crate::failure::Failure;

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
    receive: Option<&'static str>,
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
            "receive": self.receive,
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
            receive: None,
        };
        let leaving = plan.leaving(index);
        let leaving = leaving
            .iter()
            .map(|stream| (*stream, plan.frames(*stream, &macs, mark)));
        let leaving: Vec<_> = leaving.collect();
        let arriving = plan.streams().iter().filter(|stream| stream.to == index);
        let arriving = arriving.map(|stream| stream.frame_bytes_max() - FCS_BYTES);
        let lengths = Lengths {
            sent: leaving.iter().map(|(_, frames)| frames.longest()).max(),
            received: arriving.max().map(usize::from),
        };
        let methods = Methods::open(config, &port.interface, &facts[index], lengths, mark)?;
        if let Some((frames, method)) = methods.receiver {
            let receiver = Receiver::new(plan, index, mark);
            let reception = Reception::spawn(index, frames, receiver, reporter.clone())?;
            (opened.reception, opened.receive) = (Some(reception), Some(method));
        }
        if let Some((out, method, reason)) = methods.sender {
            let transmitter = Transmitter::spawn(index, out, leaving, reporter.clone())?;
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
