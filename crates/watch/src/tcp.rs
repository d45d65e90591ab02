//! `/proc/net/snmp` and `/proc/net/netstat`: TCP counters of all sockets of a namespace together.
use crate::Visit;

/// Protocol and field in the file, and name of the counter. Fields were added over the years (loss
/// probes in 3.10, deliveries with congestion marks in 4.18); a field that the kernel lacks is not
/// reported.
const COUNTERS: [(&str, &str, &str); 9] = [
    ("Tcp", "OutSegs", "segments_out"),
    ("Tcp", "RetransSegs", "retransmits"),
    ("TcpExt", "TCPTimeouts", "timeouts"),
    ("TcpExt", "TCPFastRetrans", "fast_retransmits"),
    ("TcpExt", "TCPLossProbes", "loss_probes"),
    ("TcpExt", "TCPSlowStartRetrans", "slow_start_retransmits"),
    ("TcpExt", "TCPSpuriousRTOs", "spurious_timeouts"),
    ("TcpExt", "TCPOFOQueue", "out_of_order"),
    ("TcpExt", "TCPDeliveredCE", "delivered_ce"),
];

/// Reports the counters of either file as entity `tcp`. Both files have two lines per protocol: the
/// names of its fields, then their values in the same order. Values are looked up by name, so their
/// order and number may differ between kernels.
///
/// A protocol whose two lines differ in length is skipped entirely, because assigning its values
/// would be a guess.
pub fn parse_snmp(text: &str, visit: &mut Visit<'_>) {
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((protocol, names)) = line.split_once(':') else {
            continue;
        };
        let Some((_, values)) = lines
            .peek()
            .and_then(|next| next.split_once(':'))
            .filter(|(next_protocol, _)| *next_protocol == protocol)
        else {
            continue;
        };
        lines.next();
        let names: Vec<&str> = names.split_ascii_whitespace().collect();
        let values: Vec<&str> = values.split_ascii_whitespace().collect();
        if names.len() == values.len() {
            visit_protocol(protocol, &names, &values, visit);
        }
    }
}

fn visit_protocol(protocol: &str, names: &[&str], values: &[&str], visit: &mut Visit<'_>) {
    for (counter_protocol, field, counter) in COUNTERS {
        let at = names
            .iter()
            .position(|name| counter_protocol == protocol && *name == field);
        if let Some(Ok(value)) = at.map(|at| values[at].parse::<u64>()) {
            visit("tcp", counter, value as f64);
        }
    }
}
