//! The checked configuration: names are resolved to indices.
use std::collections::BTreeSet;

use hakaru_contract::packets::{PacketStream, PacketsConfig};
use hakaru_contract::{ConfigError, TrialOrder, refuse};

use crate::frame::{Addresses, FCS_BYTES, Frames, Mac};
use crate::pattern::FRAME_BYTES_MAX;
use crate::sizes::SizeOrder;
use crate::trial::Trial;

/// Maximum number of ports.
const PORTS_MAX: usize = 16;
/// Maximum number of streams.
const STREAMS_MAX: usize = 64;
/// Maximum number of sizes of a stream.
const SIZES_MAX: usize = 16;
/// Maximum number of flows of a stream.
const FLOWS_MAX: u16 = 16_384;
/// Length of an Ethernet header, bytes.
const ETHERNET_BYTES: u16 = 14;

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Plan {
    streams: Vec<StreamPlan>,
}

/// A checked stream.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// Index of the sending port.
    pub from: usize,
    /// Index of the receiving port.
    pub to: usize,
    /// Number of flows.
    pub flows: u16,
    source_mac: Option<Mac>,
    destination_mac: Option<Mac>,
    order: SizeOrder,
    config: PacketStream,
}

impl Plan {
    /// Checks a configuration.
    ///
    /// # Errors
    /// Returns an error for the first field that is out of bounds, or names what does not exist.
    pub fn new(config: &PacketsConfig) -> Result<Plan, ConfigError> {
        if !(1..=PORTS_MAX).contains(&config.ports.len()) {
            let hint = format!("configure 1 to {PORTS_MAX} ports");
            return refuse("ports", format!("there are {}", config.ports.len()), hint);
        }
        let (mut names, mut interfaces) = (BTreeSet::new(), BTreeSet::new());
        for (index, port) in config.ports.iter().enumerate() {
            check_name(&format!("ports[{index}].name"), &port.name, &mut names)?;
            if !interfaces.insert(&port.interface) {
                return refuse(
                    format!("ports[{index}].interface"),
                    format!("{} is the interface of another port", port.interface),
                    "use an interface once; streams can share a port",
                );
            }
        }
        if !(1..=STREAMS_MAX).contains(&config.streams.len()) {
            let hint = format!("configure 1 to {STREAMS_MAX} streams");
            let problem = format!("there are {}", config.streams.len());
            return refuse("streams", problem, hint);
        }
        let mut names = BTreeSet::new();
        let mut streams = Vec::new();
        for (index, stream) in config.streams.iter().enumerate() {
            let field = |name: &str| format!("streams[{index}].{name}");
            check_name(&field("name"), &stream.name, &mut names)?;
            let port = |name: &str, wanted: &str| {
                let found = config.ports.iter().position(|port| port.name == wanted);
                let hint = "name one of `ports`";
                let problem = format!("there is no port {wanted}");
                found.map_or_else(|| refuse(field(name), problem, hint), Ok)
            };
            let (from, to) = (port("from", &stream.from)?, port("to", &stream.to)?);
            if from == to {
                let problem = format!("{} is also the sending port", stream.to);
                return refuse(field("to"), problem, "name another port");
            }
            streams.push(StreamPlan::new(stream, from, to, &field)?);
        }
        Ok(Plan { streams })
    }

    /// Returns the streams in the order of the configuration.
    #[must_use]
    pub fn streams(&self) -> &[StreamPlan] {
        &self.streams
    }

    /// Returns the indices of the streams that leave a port.
    #[must_use]
    pub fn leaving(&self, port: usize) -> Vec<usize> {
        let all = self.streams.iter().enumerate();
        all.filter(|(_, stream)| stream.from == port)
            .map(|(index, _)| index)
            .collect()
    }

    /// Returns whether any stream arrives at a port.
    #[must_use]
    pub fn arrives_at(&self, port: usize) -> bool {
        self.streams.iter().any(|stream| stream.to == port)
    }

    /// Builds the frames of a stream. `macs` are the addresses of the ports' interfaces, `mark` is
    /// that of the process.
    ///
    /// # Panics
    /// If there is no such stream, or `macs` lacks a port.
    #[must_use]
    pub fn frames(&self, stream: usize, macs: &[Mac], mark: u32) -> Frames {
        let plan = &self.streams[stream];
        let addresses = Addresses {
            source_mac: plan.source_mac.unwrap_or(macs[plan.from]),
            destination_mac: plan.destination_mac.unwrap_or(macs[plan.to]),
            source: plan.config.source_address,
            destination: plan.config.destination_address,
            source_port: plan.config.source_port,
            destination_port: plan.config.destination_port,
        };
        Frames::new(
            &addresses,
            mark,
            stream as u16,
            plan.flows,
            plan.order.clone(),
        )
    }

    /// Checks an order for the `number`th trial, modulo 2^16.
    ///
    /// # Errors
    /// Returns an error for the first field that is out of bounds.
    pub fn trial(&self, order: &TrialOrder, number: u16) -> Result<Trial, ConfigError> {
        let ports = self.streams.iter().map(|stream| stream.from);
        Trial::new(order, number, &ports.collect::<Vec<_>>())
    }
}

impl StreamPlan {
    fn new(
        config: &PacketStream,
        from: usize,
        to: usize,
        field: &dyn Fn(&str) -> String,
    ) -> Result<StreamPlan, ConfigError> {
        if !(1..=FLOWS_MAX).contains(&config.flows) {
            let hint = format!("use 1 to {FLOWS_MAX}");
            return refuse(field("flows"), config.flows.to_string(), hint);
        }
        if config.source_port.checked_add(config.flows - 1).is_none() {
            return refuse(
                field("source_port"),
                format!("{} flows from {} on", config.flows, config.source_port),
                "the port of the last flow must be at most 65535",
            );
        }
        if !(1..=SIZES_MAX).contains(&config.sizes.len()) {
            let hint = format!("use 1 to {SIZES_MAX} sizes");
            let problem = format!("there are {}", config.sizes.len());
            return refuse(field("sizes"), problem, hint);
        }
        for (index, size) in config.sizes.iter().enumerate() {
            if !(64..=FRAME_BYTES_MAX).contains(&size.bytes) {
                let hint = format!("use 64 to {FRAME_BYTES_MAX}, which includes the FCS");
                let field = field(&format!("sizes[{index}].bytes"));
                return refuse(field, size.bytes.to_string(), hint);
            }
            if !(1..=1000).contains(&size.weight) {
                let field = field(&format!("sizes[{index}].weight"));
                return refuse(field, size.weight.to_string(), "use 1 to 1000");
            }
        }
        let mac = |name: &str, text: &Option<String>| {
            let Some(text) = text else { return Ok(None) };
            text.parse().map(Some).or_else(|()| {
                let hint = "write it as 02:00:00:00:00:01";
                refuse(field(name), format!("{text} is not a MAC address"), hint)
            })
        };
        Ok(StreamPlan {
            from,
            to,
            flows: config.flows,
            source_mac: mac("source_mac", &config.source_mac)?,
            destination_mac: mac("destination_mac", &config.destination_mac)?,
            order: SizeOrder::new(&config.sizes, config.flows),
            config: config.clone(),
        })
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Returns the size of the longest frame with FCS, bytes.
    #[must_use]
    pub fn frame_bytes_max(&self) -> u16 {
        self.order.sizes().iter().copied().max().unwrap_or(0)
    }

    /// Returns the MTU that an interface needs for the longest frame, bytes.
    #[must_use]
    pub fn mtu_needed(&self) -> u32 {
        u32::from(self.frame_bytes_max() - FCS_BYTES - ETHERNET_BYTES)
    }
}

/// Refuses empty and repeated names, and characters that would make counters ambiguous.
fn check_name<'a>(
    field: &str,
    name: &'a str,
    names: &mut BTreeSet<&'a str>,
) -> Result<(), ConfigError> {
    if name.is_empty() || name.contains(['/', '\n']) {
        return refuse(field, format!("{name:?}"), "use a name without slashes");
    }
    if !names.insert(name) {
        return refuse(field, format!("{name} occurs twice"), "use each name once");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use hakaru_contract::packets::{FrameSize, PacketPort};

    use super::*;

    fn config() -> PacketsConfig {
        let port = |name: &str| PacketPort {
            name: name.to_owned(),
            interface: format!("eth-{name}"),
        };
        let size = FrameSize {
            bytes: 64,
            weight: 1,
        };
        PacketsConfig {
            ports: vec![port("left"), port("right")],
            streams: vec![PacketStream {
                name: "a".to_owned(),
                from: "left".to_owned(),
                to: "right".to_owned(),
                source_mac: None,
                destination_mac: Some("02:00:00:00:00:09".to_owned()),
                source_address: Ipv4Addr::new(198, 18, 0, 2),
                destination_address: Ipv4Addr::new(198, 19, 0, 2),
                source_port: 49_152,
                destination_port: 9,
                flows: 4,
                sizes: vec![size],
            }],
            transmit: hakaru_contract::TransmitMethod::Auto,
            receive: hakaru_contract::ReceiveMethod::Auto,
            sample_interval_ms: 1000,
            avoid_processors: Vec::new(),
        }
    }

    #[test]
    fn names_are_resolved_and_missing_addresses_are_those_of_the_interfaces() {
        let plan = Plan::new(&config()).unwrap();
        assert_eq!((plan.streams()[0].from, plan.streams()[0].to), (0, 1));
        assert_eq!((plan.leaving(0), plan.leaving(1)), (vec![0], vec![]));
        assert_eq!((plan.arrives_at(0), plan.arrives_at(1)), (false, true));
        assert_eq!(plan.streams()[0].mtu_needed(), 46);
        let macs = [Mac([2; 6]), Mac([4; 6])];
        let mut frame = [0; 60];
        plan.frames(0, &macs, 1)
            .emit(0, hakaru_units::Time(0), &mut frame);
        assert_eq!(frame[..12], [2, 0, 0, 0, 0, 9, 2, 2, 2, 2, 2, 2]);
    }

    /// One change to the configuration and the field that the refusal must name.
    type Case = (fn(&mut PacketsConfig), &'static str);

    #[test]
    fn every_refusal_names_its_field() {
        let cases: [Case; 17] = [
            (|c| c.ports.clear(), "ports"),
            (|c| c.ports[1].name = "left".into(), "ports[1].name"),
            (|c| c.ports[0].name = "a/b".into(), "ports[0].name"),
            (
                |c| c.ports[1].interface = "eth-left".into(),
                "ports[1].interface",
            ),
            (|c| c.streams.clear(), "streams"),
            (|c| c.streams[0].name = String::new(), "streams[0].name"),
            (|c| c.streams[0].from = "up".into(), "streams[0].from"),
            (|c| c.streams[0].to = "left".into(), "streams[0].to"),
            (|c| c.streams[0].flows = 0, "streams[0].flows"),
            (|c| c.streams[0].flows = 16_385, "streams[0].flows"),
            (
                |c| c.streams[0].source_port = 65_533,
                "streams[0].source_port",
            ),
            (|c| c.streams[0].sizes.clear(), "streams[0].sizes"),
            (
                |c| c.streams[0].sizes[0].bytes = 63,
                "streams[0].sizes[0].bytes",
            ),
            (
                |c| c.streams[0].sizes[0].bytes = 9217,
                "streams[0].sizes[0].bytes",
            ),
            (
                |c| c.streams[0].sizes[0].weight = 0,
                "streams[0].sizes[0].weight",
            ),
            (
                |c| c.streams[0].source_mac = Some("x".into()),
                "streams[0].source_mac",
            ),
            (|c| c.streams.push(c.streams[0].clone()), "streams[1].name"),
        ];
        for (change, field) in cases {
            let mut config = config();
            change(&mut config);
            assert_eq!(Plan::new(&config).unwrap_err().field, field);
        }
    }
}
