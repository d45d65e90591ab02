//! Scopes of caps, and the caps that an access passes.
use std::collections::HashMap;
use std::sync::Arc;

/// Accesses that a cap applies to, all of them together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Logical unit. Default: all.
    pub lun: Option<u8>,
    /// iSCSI name of the initiator. Default: all.
    pub initiator: Option<String>,
}

/// Positions of the caps that an access passes, in order.
pub type Route = Arc<[usize]>;

/// Finds the route of an access. Routes are computed once for each LU and each initiator that a
/// scope names, so unknown initiators take no memory.
#[derive(Debug)]
pub(crate) struct Routes {
    scopes: Vec<Scope>,
    known: HashMap<(u8, Option<usize>), Route>,
}

impl Routes {
    pub(crate) fn new(scopes: Vec<Scope>) -> Routes {
        Routes {
            scopes,
            known: HashMap::new(),
        }
    }

    pub(crate) fn find(&mut self, lun: u8, initiator: Option<&str>) -> Route {
        // The first scope that names the initiator stands for it.
        let named = initiator.and_then(|name| {
            let names = |scope: &Scope| scope.initiator.as_deref() == Some(name);
            self.scopes.iter().position(names)
        });
        let scopes = &self.scopes;
        let route = self.known.entry((lun, named)).or_insert_with(|| {
            let name = named.and_then(|index| scopes[index].initiator.as_deref());
            let applies = |scope: &Scope| {
                scope.lun.is_none_or(|unit| unit == lun)
                    && (scope.initiator.is_none() || scope.initiator.as_deref() == name)
            };
            let matching = scopes
                .iter()
                .enumerate()
                .filter(|(_, scope)| applies(scope));
            matching.map(|(index, _)| index).collect()
        });
        Arc::clone(route)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(lun: Option<u8>, initiator: Option<&str>) -> Scope {
        Scope {
            lun,
            initiator: initiator.map(str::to_owned),
        }
    }

    #[test]
    fn an_access_passes_the_caps_of_its_lu_and_of_its_initiator_in_order() {
        let mut routes = Routes::new(vec![
            scope(Some(1), None),
            scope(None, Some("a")),
            scope(Some(1), Some("b")),
            scope(None, None),
        ]);
        let mut of = |lun, name| routes.find(lun, name).to_vec();
        assert_eq!(of(1, Some("a")), [0, 1, 3]);
        assert_eq!(of(1, Some("b")), [0, 2, 3]);
        assert_eq!(of(0, Some("b")), [3]);
        assert_eq!(of(0, Some("unknown")), [3]);
        assert_eq!(of(1, None), [0, 3]);
    }

    #[test]
    fn names_of_unknown_initiators_take_no_memory() {
        let mut routes = Routes::new(vec![scope(None, Some("a"))]);
        for name in 0..1000 {
            assert!(routes.find(0, Some(&name.to_string())).is_empty());
        }
        assert_eq!(routes.known.len(), 1);
    }
}
