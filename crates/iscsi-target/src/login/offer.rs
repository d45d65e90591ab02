//! The target's part in the negotiation.

use hakaru_wire::iscsi::keys::{Digest, Offer};

use crate::config::TargetConfig;

/// Returns the target's part in the negotiation.
pub(super) fn offer(config: &TargetConfig) -> Offer {
    let keys = &config.limits.keys;
    let digests = |taken: bool| -> &'static [Digest] {
        if taken {
            &[Digest::Crc32c, Digest::None]
        } else {
            &[Digest::None]
        }
    };
    Offer {
        auth_methods: config.access.methods(),
        header_digests: digests(keys.header_digest),
        data_digests: digests(keys.data_digest),
        initial_r2t: keys.initial_r2t,
        immediate_data: keys.immediate_data,
        max_recv_data_segment_length: keys.max_recv_data_segment_length,
        max_burst_length: keys.max_burst_length,
        first_burst_length: keys.first_burst_length,
        // At error recovery level 0 the target retains nothing that a reconnecting initiator would
        // have to wait for.
        default_time2wait: 0,
        default_time2retain: 0,
        max_outstanding_r2t: keys.max_outstanding_r2t,
        ..Offer::default()
    }
}
