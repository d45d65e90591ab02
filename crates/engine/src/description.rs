//! Sessions and LUs in the words of `ready`.
use hakaru_initiator::{LuFacts, Negotiated};
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
