//! Descriptions of sessions, LUs and sockets as JSON values of the contract.
use hakaru_iscsi_session::LuFacts;
use hakaru_runtime::net::socket_options::SocketFacts;
use hakaru_wire::iscsi::keys::{Agreed, Digest};
use serde_json::{Value, json};

/// Describes an LU by the facts that its target reported.
pub fn describe_lu(facts: &LuFacts) -> Value {
    json!({
        "vendor": facts.vendor,
        "product": facts.product,
        "revision": facts.revision,
        "block_bytes": facts.volume.block_bytes,
        "capacity_bytes": facts.volume.capacity_bytes,
        "luns": facts.luns,
    })
}

/// Describes the negotiated keys, spelled as in the configuration.
pub fn describe_keys(agreed: &Agreed) -> Value {
    json!({
        "header_digest": agreed.header_digest == Digest::Crc32c,
        "data_digest": agreed.data_digest == Digest::Crc32c,
        "initial_r2t": agreed.initial_r2t,
        "immediate_data": agreed.immediate_data,
        "max_recv_data_segment_length": agreed.max_recv_data_segment_length,
        "peer_max_recv_data_segment_length": agreed.peer_max_recv_data_segment_length,
        "max_burst_length": agreed.max_burst_length,
        "first_burst_length": agreed.first_burst_length,
        "max_outstanding_r2t": agreed.max_outstanding_r2t,
    })
}

/// Describes the options of a socket as the kernel reports them.
pub fn describe_socket(facts: &SocketFacts) -> Value {
    json!({
        "send_buffer_bytes": facts.send_buffer_bytes,
        "receive_buffer_bytes": facts.receive_buffer_bytes,
        "congestion_control": facts.congestion_control,
        "not_sent_low_water_bytes": facts.not_sent_low_water_bytes,
        "pacing_bytes_per_s": facts.pacing_bytes_per_s,
        "no_delay": facts.no_delay,
    })
}
