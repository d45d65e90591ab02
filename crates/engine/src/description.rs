//! Sessions, LUs and sockets in the words of the contract.
use hakaru_contract as contract;
use hakaru_iscsi_session::{LuFacts, Negotiated};
use hakaru_runtime::socket_options::{SocketFacts, SocketOptions};
use serde_json::{Value, json};

/// What an LU said of itself.
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

/// Keys as negotiated.
pub fn describe_keys(keys: &Negotiated) -> Value {
    json!({
        "header_digest": keys.header_digest,
        "data_digest": keys.data_digest,
        "initial_r2t": keys.initial_r2t,
        "immediate_data": keys.immediate_data,
        "max_send_segment_bytes": keys.segment_max,
        "max_burst_bytes": keys.max_burst,
        "first_burst_bytes": keys.first_burst,
        "max_outstanding_r2t": keys.max_outstanding_r2t,
    })
}

/// Options of a socket as the system takes them.
pub fn socket_options(options: &contract::SocketOptions) -> SocketOptions {
    SocketOptions {
        send_buffer_bytes: options.send_buffer_bytes,
        receive_buffer_bytes: options.receive_buffer_bytes,
        congestion_control: options.congestion_control.clone(),
        not_sent_low_water_bytes: options.not_sent_low_water_bytes,
        no_delay: options.no_delay,
    }
}

/// What the kernel has made of them.
pub fn describe_socket(facts: &SocketFacts) -> Value {
    json!({
        "send_buffer_bytes": facts.send_buffer_bytes,
        "receive_buffer_bytes": facts.receive_buffer_bytes,
        "congestion_control": facts.congestion_control,
        "not_sent_low_water_bytes": facts.not_sent_low_water_bytes,
        "no_delay": facts.no_delay,
    })
}
