//! Counters. They are cumulative, except those whose names end in `_now`.

/// Counters of one LU. A READ or WRITE counts when it is answered GOOD, with the bytes that it
/// moved. Commands with several accesses (COMPARE AND WRITE, EXTENDED COPY, …) count each access
/// that succeeds, at the LU that the command names, even if the command then fails.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LuCounters {
    reads: u64,
    writes: u64,
    read_bytes: u64,
    write_bytes: u64,
}

impl LuCounters {
    pub(crate) fn read(&mut self, bytes: u32) {
        self.reads += 1;
        self.read_bytes += u64::from(bytes);
    }

    pub(crate) fn written(&mut self, bytes: u32) {
        self.writes += 1;
        self.write_bytes += u64::from(bytes);
    }

    pub(crate) fn visit(&self, entity: &str, visit: &mut dyn FnMut(&str, &str, f64)) {
        visit(entity, "reads", self.reads as f64);
        visit(entity, "writes", self.writes as f64);
        visit(entity, "read_bytes", self.read_bytes as f64);
        visit(entity, "write_bytes", self.write_bytes as f64);
    }
}

/// Counters of one portal. Bytes are those of the TCP streams.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PortCounters {
    pub(crate) rx_bytes: u64,
    pub(crate) tx_bytes: u64,
    /// Part of `tx_bytes` sent in place and without a copy.
    pub(crate) tx_lent_bytes: u64,
    pub(crate) pdus_in: u64,
    pub(crate) pdus_out: u64,
}

impl PortCounters {
    /// Adds the PDUs of one connection.
    pub(crate) fn add_pdus(&mut self, pdus_in: u64, pdus_out: u64) {
        self.pdus_in += pdus_in;
        self.pdus_out += pdus_out;
    }

    pub(crate) fn visit(&self, entity: &str, visit: &mut dyn FnMut(&str, &str, f64)) {
        visit(entity, "rx_bytes", self.rx_bytes as f64);
        visit(entity, "tx_bytes", self.tx_bytes as f64);
        visit(entity, "tx_lent_bytes", self.tx_lent_bytes as f64);
        visit(entity, "pdus_in", self.pdus_in as f64);
        visit(entity, "pdus_out", self.pdus_out as f64);
    }
}

/// Counters of all sessions together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SessionCounters {
    pub(crate) logins: u64,
    pub(crate) logins_refused: u64,
    pub(crate) logins_denied: u64,
    pub(crate) logouts: u64,
    pub(crate) reinstatements: u64,
    /// Part of `reinstatements` that came from another address.
    pub(crate) reinstatements_elsewhere: u64,
    pub(crate) timeouts: u64,
    pub(crate) protocol_errors: u64,
    pub(crate) panics: u64,
    pub(crate) rejects: u64,
    pub(crate) task_management: u64,
}

impl SessionCounters {
    pub(crate) fn visit(&self, visit: &mut dyn FnMut(&str, &str, f64)) {
        for (name, value) in [
            ("logins", self.logins),
            ("logins_refused", self.logins_refused),
            ("logins_denied", self.logins_denied),
            ("logouts", self.logouts),
            ("reinstatements", self.reinstatements),
            ("reinstatements_elsewhere", self.reinstatements_elsewhere),
            ("timeouts", self.timeouts),
            ("protocol_errors", self.protocol_errors),
            ("panics", self.panics),
            ("rejects", self.rejects),
            ("task_management", self.task_management),
        ] {
            visit("sessions", name, value as f64);
        }
    }
}

/// All counters.
#[derive(Clone, Debug)]
pub(crate) struct Counters {
    pub(crate) ports: Vec<PortCounters>,
    /// Indexed by LUN.
    pub(crate) lus: [LuCounters; 256],
    pub(crate) sessions: SessionCounters,
}

impl Counters {
    pub(crate) fn new(ports: usize) -> Self {
        Self {
            ports: vec![PortCounters::default(); ports],
            lus: [LuCounters::default(); 256],
            sessions: SessionCounters::default(),
        }
    }
}
