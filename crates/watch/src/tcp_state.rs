//! Numbers of the kernel's states, and their names.

/// State of a connection (include/net/tcp_states.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpState(pub u8);

impl TcpState {
    /// Connection established.
    pub const ESTABLISHED: TcpState = TcpState(1);
    /// Remainder of a closed connection.
    pub const TIME_WAIT: TcpState = TcpState(6);
    /// Waiting for connections.
    pub const LISTEN: TcpState = TcpState(10);

    /// Returns the name of the state, as in RFC 9293.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        const NAMES: [&str; 12] = [
            "established",
            "syn_sent",
            "syn_received",
            "fin_wait_1",
            "fin_wait_2",
            "time_wait",
            "closed",
            "close_wait",
            "last_ack",
            "listen",
            "closing",
            "syn_received",
        ];
        NAMES.get(usize::from(self.0).checked_sub(1)?).copied()
    }
}

/// State of congestion control (`enum tcp_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CongestionState(pub u8);

impl CongestionState {
    /// The retransmission timer has fired.
    pub const LOSS: CongestionState = CongestionState(4);

    /// Returns the name of the state.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        const NAMES: [&str; 5] = ["open", "disorder", "window_reduced", "recovery", "loss"];
        NAMES.get(usize::from(self.0)).copied()
    }
}
