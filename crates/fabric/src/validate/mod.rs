//! Checks the configuration of a fabric.
mod error;
mod link;
mod router;

use std::collections::BTreeSet;

use hakaru_contract::fabric::{End, FabricConfig, SwitchConfig};

pub use error::ConfigError;
use error::{error, unique, within};
use link::check_link;
use router::check_router;

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
