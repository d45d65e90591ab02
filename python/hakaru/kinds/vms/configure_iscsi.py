"""Login keys and socket options of a study in the format of the engines. Pure."""

from __future__ import annotations

from hakaru.engine import contract
from hakaru.kinds.vms.iscsi import InitiatorEnd, Socket, TargetEnd
from hakaru.login_defaults import TARGET


def socket_options(socket: Socket) -> contract.SocketOptions:
    """Socket options of one end."""
    return contract.SocketOptions(
        send_buffer_bytes=socket.send_buffer,
        receive_buffer_bytes=socket.receive_buffer,
        congestion_control=socket.congestion_control,
        not_sent_low_water_bytes=socket.not_sent_low_water,
        pacing_bytes_per_s=None if socket.pacing is None else socket.pacing // 8,
        no_delay=socket.no_delay,
    )


def login_keys(end: InitiatorEnd) -> contract.LoginKeys:
    """Login keys that the initiator of every VM offers."""
    return _keys(end, end.header_digest, end.data_digest)


def target_keys(end: TargetEnd) -> contract.LoginKeys:
    """Login keys that the array declares and agrees to, with its default digests."""
    return _keys(end, TARGET.header_digest, TARGET.data_digest)


def _keys(end: InitiatorEnd | TargetEnd, header_digest: bool, data_digest: bool) -> contract.LoginKeys:
    return contract.LoginKeys(
        max_recv_data_segment_length=end.max_recv_data_segment_length,
        max_burst_length=end.max_burst_length,
        first_burst_length=end.first_burst_length,
        initial_r2t=end.initial_r2t,
        immediate_data=end.immediate_data,
        max_outstanding_r2t=end.max_outstanding_r2t,
        header_digest=header_digest,
        data_digest=data_digest,
    )
