//! Checks of the configuration of a fabric.
mod error;
mod link;
mod router;

use std::collections::BTreeSet;

use hakaru_contract::fabric::{End, FabricConfig, SwitchConfig};

pub use error::ConfigError;
use error::{error, unique, within};
use link::check_link;
use router::check_router;

/// Length of the address of a Unix socket, bytes (sun_path of Linux, without its end).
const SOCKET_BYTES_MAX: usize = 107;

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
    // Number of the tree that each switch belongs to. Connected switches are in the same tree.
    let mut trees: Vec<usize> = (0..config.switches.len()).collect();
    for link in &config.links {
        let place = format!("link {:?}", link.name);
        unique(&mut names, &place, &link.name)?;
        check_link(&place, link)?;
        let a = check_end(&place, &link.a, config, &mut interfaces)?;
        let b = check_end(&place, &link.b, config, &mut interfaces)?;
        if let Some((a, b)) = a.zip(b) {
            connect(&place, &mut trees, a, b)?;
        }
    }
    Ok(())
}

/// Checks an end of a link. Returns the index of its switch, or `None` for an interface, whose name
/// is added to `interfaces`.
fn check_end(
    place: &str,
    end: &End,
    config: &FabricConfig,
    interfaces: &mut BTreeSet<String>,
) -> Result<Option<usize>, ConfigError> {
    let (name, vlan, allowed) = match end {
        End::Interface { name } => return unique(interfaces, place, name).map(|()| None),
        End::VhostUser { name, socket } => {
            let is_long = socket.len() > SOCKET_BYTES_MAX;
            if is_long || socket.contains('\0') || ["", "@"].contains(&socket.as_str()) {
                let problem = format!("{socket:?} is no socket");
                let hint =
                    "give a path, or `@` and a name, of at most 107 bytes without null bytes";
                return Err(error(place, problem, hint));
            }
            return unique(interfaces, place, name).map(|()| None);
        }
        End::Switch {
            name,
            vlan,
            allowed,
        } => (name, vlan, allowed),
    };
    let mut switches = config.switches.iter();
    let index = switches.position(|switch| switch.name == *name);
    if index.is_none() {
        let problem = format!("there is no switch {name:?}");
        return Err(error(place, problem, "name one of `switches`"));
    }
    let vlan_or_default = vlan.unwrap_or(1).into();
    within(&format!("{place}: vlan"), vlan_or_default, 1.0, 4094.0)?;
    if let Some(allowed) = allowed {
        check_allowed(place, *vlan, allowed)?;
    }
    Ok(index)
}

/// Joins the trees of two switches. Fails if the switches are connected already.
fn connect(place: &str, trees: &mut [usize], a: usize, b: usize) -> Result<(), ConfigError> {
    let (a, b) = (trees[a], trees[b]);
    if a == b {
        return Err(error(
            place,
            "the link closes a loop, in which frames would circulate forever".into(),
            "connect the switches as a tree",
        ));
    }
    let joined = trees.iter_mut().filter(|tree| **tree == b);
    joined.for_each(|tree| *tree = a);
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
        let problem = format!("an access port of VLAN {vlan} has `allowed`");
        return Err(error(
            place,
            problem,
            "`allowed` is for trunks: set `vlan` to null",
        ));
    }
    if allowed.is_empty() {
        let problem = "the trunk allows no VLAN".to_owned();
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
