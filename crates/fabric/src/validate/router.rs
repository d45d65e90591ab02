//! Checks of the router of an L3 switch.
use hakaru_contract::fabric::{RouterConfig, RouterInterface};

use super::error::{ConfigError, error, within};
use crate::router::network;

pub(super) fn check_router(place: &str, router: &RouterConfig) -> Result<(), ConfigError> {
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
        let reaches_via = |interface: &&RouterInterface| {
            let prefix_length = interface.prefix_length;
            network(interface.address, prefix_length) == network(route.via, prefix_length)
        };
        if !router
            .interfaces
            .iter()
            .any(|interface| reaches_via(&interface))
        {
            let problem = format!("no interface is in the network of {}", route.via);
            return Err(error(
                &place,
                problem,
                "`via` must be in the network of one of `interfaces`",
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
            let problem = format!(
                "interface {} is already in VLAN {}",
                other.address, interface.vlan
            );
            return Err(error(
                &place,
                problem,
                "a router has at most one address in each VLAN",
            ));
        }
        if network(interface.address, shorter) == network(other.address, shorter) {
            let problem = format!("its network overlaps that of {}", other.address);
            return Err(error(
                &place,
                problem,
                "each interface must be in a network of its own",
            ));
        }
    }
    Ok(())
}
