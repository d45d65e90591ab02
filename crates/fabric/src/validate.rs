//! Checks the configuration of a fabric.
use std::collections::BTreeSet;

use thiserror::Error;

use crate::router::network;
use hakaru_contract::fabric::{
    Direction, Discipline, End, FabricConfig, Jitter, LinkConfig, Loss, RouterConfig,
    RouterInterface, SwitchConfig,
};

/// An invalid value: its place, the problem, and the valid values.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {problem}; {bounds}")]
pub struct ConfigError {
    /// Path in the configuration.
    pub place: String,
    /// The problem.
    pub problem: String,
    /// Valid values.
    pub bounds: String,
}

/// Ethernet header, tag and FCS.
const FRAME_OVERHEAD_BYTES: u64 = 22;

pub(crate) fn validate(config: &FabricConfig) -> Result<(), ConfigError> {
    within("links", config.links.len() as f64, 1.0, 256.0)?;
    within("switches", config.switches.len() as f64, 0.0, 64.0)?;
    let mut names = BTreeSet::new();
    for switch in &config.switches {
        let place = format!("switch {:?}", switch.name);
        unique(&mut names, &place, &switch.name)?;
        check_switch(&place, switch)?;
    }
    let (mut names, mut interfaces) = (BTreeSet::new(), BTreeSet::new());
    // Switches that are already connected have the same number.
    let mut joined: Vec<usize> = (0..config.switches.len()).collect();
    for link in &config.links {
        let place = format!("link {:?}", link.name);
        unique(&mut names, &place, &link.name)?;
        check_link(&place, link)?;
        let mut ends = Vec::new();
        for end in [&link.a, &link.b] {
            match end {
                End::Interface { name } => unique(&mut interfaces, &place, name)?,
                End::Switch {
                    name,
                    vlan,
                    allowed,
                } => {
                    let known = config
                        .switches
                        .iter()
                        .position(|switch| switch.name == *name);
                    ends.push(known.ok_or_else(|| {
                        error(
                            &place,
                            format!("there is no switch {name:?}"),
                            "name one of `switches`",
                        )
                    })?);
                    within(
                        &format!("{place}: vlan"),
                        vlan.unwrap_or(1).into(),
                        1.0,
                        4094.0,
                    )?;
                    if let Some(allowed) = allowed {
                        check_allowed(&place, *vlan, allowed)?;
                    }
                }
            }
        }
        if let [a, b] = ends[..] {
            let (a, b) = (joined[a], joined[b]);
            if a == b {
                return Err(error(
                    &place,
                    "the link closes a loop, in which frames would circulate forever".into(),
                    "connect the switches as a tree",
                ));
            }
            joined
                .iter_mut()
                .filter(|of| **of == b)
                .for_each(|of| *of = a);
        }
    }
    Ok(())
}

fn check_switch(place: &str, switch: &SwitchConfig) -> Result<(), ConfigError> {
    within(
        &format!("{place}: addresses_max"),
        switch.addresses_max.into(),
        1.0,
        1e6,
    )?;
    within(
        &format!("{place}: address_age_s"),
        switch.address_age_s.into(),
        1.0,
        1e6,
    )?;
    if let Some(router) = &switch.router {
        check_router(&format!("{place}: router"), router)?;
    }
    if let Some(shared) = switch.shared_buffer {
        within(
            &format!("{place}: shared_buffer.bytes"),
            shared.bytes as f64,
            1600.0,
            1e12,
        )?;
        within(
            &format!("{place}: shared_buffer.alpha"),
            shared.alpha,
            1.0 / 128.0,
            16.0,
        )?;
    }
    Ok(())
}

fn check_allowed(place: &str, vlan: Option<u16>, allowed: &[u16]) -> Result<(), ConfigError> {
    if let Some(vlan) = vlan {
        let problem = format!("it is an access port of VLAN {vlan}, and has `allowed`");
        return Err(error(
            place,
            problem,
            "`allowed` is for trunks: set `vlan` to null",
        ));
    }
    if allowed.is_empty() {
        let problem = "a trunk that allows no VLAN".to_owned();
        return Err(error(
            place,
            problem,
            "list at least one, or omit `allowed`",
        ));
    }
    for vlan in allowed {
        within(&format!("{place}: allowed"), f64::from(*vlan), 1.0, 4094.0)?;
    }
    Ok(())
}

fn check_router(place: &str, router: &RouterConfig) -> Result<(), ConfigError> {
    within(
        &format!("{place}: interfaces"),
        router.interfaces.len() as f64,
        1.0,
        256.0,
    )?;
    within(
        &format!("{place}: routes"),
        router.routes.len() as f64,
        0.0,
        4096.0,
    )?;
    for (index, interface) in router.interfaces.iter().enumerate() {
        check_router_interface(place, interface, &router.interfaces[..index])?;
    }
    for route in &router.routes {
        let place = format!(
            "{place}: route to {}/{}",
            route.destination, route.prefix_length
        );
        within(
            &format!("{place}: prefix_length"),
            route.prefix_length.into(),
            0.0,
            32.0,
        )?;
        let near = |of: &&RouterInterface| {
            network(of.address, of.prefix_length) == network(route.via, of.prefix_length)
        };
        if !router.interfaces.iter().any(|of| near(&of)) {
            let problem = format!("no interface is in the network of {}", route.via);
            return Err(error(
                &place,
                problem,
                "`via` is in the network of one of `interfaces`",
            ));
        }
    }
    Ok(())
}

fn check_router_interface(
    place: &str,
    interface: &RouterInterface,
    earlier: &[RouterInterface],
) -> Result<(), ConfigError> {
    let place = format!("{place}: interface {}", interface.address);
    within(
        &format!("{place}: vlan"),
        interface.vlan.into(),
        1.0,
        4094.0,
    )?;
    within(
        &format!("{place}: prefix_length"),
        interface.prefix_length.into(),
        1.0,
        31.0,
    )?;
    within(
        &format!("{place}: mtu_bytes"),
        interface.mtu_bytes.into(),
        576.0,
        65_535.0,
    )?;
    for other in earlier {
        let shorter = interface.prefix_length.min(other.prefix_length);
        if other.vlan == interface.vlan {
            let problem = format!("{} is in VLAN {} as well", other.address, interface.vlan);
            return Err(error(&place, problem, "one address in each VLAN"));
        }
        if network(interface.address, shorter) == network(other.address, shorter) {
            let problem = format!("its network overlaps that of {}", other.address);
            return Err(error(
                &place,
                problem,
                "each interface in a network of its own",
            ));
        }
    }
    Ok(())
}

fn check_link(place: &str, link: &LinkConfig) -> Result<(), ConfigError> {
    within(
        &format!("{place}: mtu_bytes"),
        link.mtu_bytes.into(),
        576.0,
        65_535.0,
    )?;
    for (way, direction) in [("a_to_b", &link.a_to_b), ("b_to_a", &link.b_to_a)] {
        check_direction(&format!("{place}: {way}"), link, direction)?;
    }
    Ok(())
}

fn check_direction(
    place: &str,
    link: &LinkConfig,
    direction: &Direction,
) -> Result<(), ConfigError> {
    if let Some(rate) = direction.rate_bits_per_s {
        within(&format!("{place}.rate_bits_per_s"), rate as f64, 1e3, 1e12)?;
    }
    within(&format!("{place}.delay_us"), direction.delay_us, 0.0, 1e7)?;
    within(
        &format!("{place}.duplicate_percent"),
        direction.duplicate_percent,
        0.0,
        100.0,
    )?;
    within(
        &format!("{place}.corrupt_percent"),
        direction.corrupt_percent,
        0.0,
        100.0,
    )?;
    within(
        &format!("{place}.reorder_percent"),
        direction.reorder_percent,
        0.0,
        100.0,
    )?;
    within(
        &format!("{place}.reorder_us"),
        direction.reorder_us,
        0.0,
        1e7,
    )?;
    check_jitter(place, direction.jitter)?;
    check_loss(place, direction.loss)?;
    check_queue(place, link, direction)
}

fn check_jitter(place: &str, jitter: Jitter) -> Result<(), ConfigError> {
    match jitter {
        Jitter::None => {}
        Jitter::Uniform { max_us: us } | Jitter::Exponential { mean_us: us } => {
            within(&format!("{place}.jitter"), us, 0.0, 1e7)?
        }
        Jitter::Normal {
            mean_us,
            deviation_us,
        } => {
            within(&format!("{place}.jitter.mean_us"), mean_us, 0.0, 1e7)?;
            within(
                &format!("{place}.jitter.deviation_us"),
                deviation_us,
                0.0,
                1e7,
            )?;
        }
    }
    Ok(())
}

fn check_loss(place: &str, loss: Loss) -> Result<(), ConfigError> {
    match loss {
        Loss::None => {}
        Loss::Random { percent } => within(&format!("{place}.loss.percent"), percent, 0.0, 100.0)?,
        Loss::Bursts {
            percent,
            burst_frames,
            bad_percent,
        } => {
            within(
                &format!("{place}.loss.bad_percent"),
                bad_percent,
                f64::MIN_POSITIVE,
                100.0,
            )?;
            within(
                &format!("{place}.loss.burst_frames"),
                burst_frames,
                1.0,
                1e9,
            )?;
            within(
                &format!("{place}.loss.percent"),
                percent,
                0.0,
                bad_percent * 0.999,
            )?;
        }
    }
    Ok(())
}

fn check_queue(place: &str, link: &LinkConfig, direction: &Direction) -> Result<(), ConfigError> {
    let frame = u64::from(link.mtu_bytes) + FRAME_OVERHEAD_BYTES;
    if direction.queue.bytes < frame {
        let problem = format!(
            "a queue of {} bytes has no room for one frame",
            direction.queue.bytes
        );
        return Err(error(
            &format!("{place}.queue.bytes"),
            problem,
            &format!("at least {frame} with this MTU"),
        ));
    }
    if let Discipline::Red {
        min_bytes,
        max_bytes,
        percent,
        weight,
        ..
    } = direction.queue.discipline
    {
        within(
            &format!("{place}.queue.discipline.percent"),
            percent,
            0.0,
            100.0,
        )?;
        within(
            &format!("{place}.queue.discipline.weight"),
            weight,
            f64::MIN_POSITIVE,
            1.0,
        )?;
        if min_bytes >= max_bytes {
            return Err(error(
                &format!("{place}.queue.discipline"),
                format!("min_bytes is {min_bytes}, max_bytes {max_bytes}"),
                "min_bytes must be below max_bytes",
            ));
        }
    }
    Ok(())
}

fn within(place: &str, value: f64, low: f64, high: f64) -> Result<(), ConfigError> {
    // NaN is within no bounds.
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(error(
        place,
        format!("it is {value}"),
        &format!("{low} to {high}"),
    ))
}

fn unique(names: &mut BTreeSet<String>, place: &str, name: &str) -> Result<(), ConfigError> {
    if names.insert(name.to_owned()) {
        return Ok(());
    }
    Err(error(
        place,
        format!("the name {name:?} is used twice"),
        "names must be unique",
    ))
}

fn error(place: &str, problem: String, bounds: &str) -> ConfigError {
    ConfigError {
        place: place.to_owned(),
        problem,
        bounds: bounds.to_owned(),
    }
}
