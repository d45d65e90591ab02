"""Login keys and socket options of a study as the engines take them. Pure."""

from __future__ import annotations

from hakaru.engine import contract
from hakaru.kinds.vms.iscsi import InitiatorEnd, Socket, TargetEnd
from hakaru.login_defaults import TARGET


def socket_options(socket: Socket) -> contract.SocketOptions:
    """Of either end."""
    return contract.SocketOptions(
        send_buffer_bytes=socket.send_buffer,
        receive_buffer_bytes=socket.receive_buffer,
        congestion_control=socket.congestion_control,
        not_sent_low_water_bytes=socket.not_sent_low_water,
        no_delay=socket.no_delay,
    )


def login_keys(end: InitiatorEnd) -> contract.LoginKeys:
    """What every VM's initiator offers."""
    return contract.LoginKeys(
        max_recv_data_segment_length=end.max_recv_data_segment_length,
        max_burst_length=end.max_burst_length,
        first_burst_length=end.first_burst_length,
        initial_r2t=end.initial_r2t,
        immediate_data=end.immediate_data,
        max_outstanding_r2t=end.max_outstanding_r2t,
        header_digest=end.header_digest,
        data_digest=end.data_digest,
    )


def target_keys(end: TargetEnd) -> contract.LoginKeys:
    """What the array declares and agrees to."""
    return contract.LoginKeys(
        max_recv_data_segment_length=end.max_recv_data_segment_length,
        max_burst_length=end.max_burst_length,
        first_burst_length=end.first_burst_length,
        initial_r2t=end.initial_r2t,
        immediate_data=end.immediate_data,
        max_outstanding_r2t=end.max_outstanding_r2t,
        header_digest=TARGET.header_digest,
        data_digest=TARGET.data_digest,
    )
