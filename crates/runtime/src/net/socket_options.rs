//! Options of a TCP socket that are set before it connects or listens, and their values as the
//! kernel reports them (socket(7), tcp(7)).
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd};

use hakaru_contract::SocketOptions;
use libc::{IPPROTO_TCP, SOL_SOCKET, c_int, c_void, socklen_t};

/// Longest name of a congestion control algorithm, with its final NUL (`TCP_CA_NAME_MAX`), bytes.
const ALGORITHM_BYTES: usize = 16;

/// Options of a socket as the kernel reports them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketFacts {
    /// Send buffer as the kernel accounts it, bytes. This is twice the requested size, or the size
    /// that auto-tuning has reached.
    pub send_buffer_bytes: u32,
    /// Receive buffer, accounted likewise, bytes.
    pub receive_buffer_bytes: u32,
    /// Name of the congestion control algorithm.
    pub congestion_control: String,
    /// `TCP_NOTSENT_LOWAT`, bytes. `None` if the socket has no limit of its own.
    pub not_sent_low_water_bytes: Option<u32>,
    /// `SO_MAX_PACING_RATE`, bytes per second. `None` without a limit.
    pub pacing_bytes_per_s: Option<u64>,
    /// `TCP_NODELAY`.
    pub no_delay: bool,
}

/// Sets `options` on a TCP socket.
///
/// # Errors
/// The kernel refuses an option, or grants less than requested. The message names the option and a
/// remedy.
pub fn apply(options: &SocketOptions, socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    let fd = socket.as_raw_fd();
    let buffers = [
        (
            "SO_SNDBUF",
            libc::SO_SNDBUF,
            libc::SO_SNDBUFFORCE,
            "net.core.wmem_max",
            options.send_buffer_bytes,
        ),
        (
            "SO_RCVBUF",
            libc::SO_RCVBUF,
            libc::SO_RCVBUFFORCE,
            "net.core.rmem_max",
            options.receive_buffer_bytes,
        ),
    ];
    for (name, option, force, limit, bytes) in buffers {
        if let Some(bytes) = bytes {
            set_buffer(fd, (name, option, force, limit), bytes)?;
        }
    }
    apply_congestion_control(options, socket)?;
    if let Some(bytes) = options.not_sent_low_water_bytes {
        let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        set_int(fd, IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)?;
    }
    if let Some(rate) = options.pacing_bytes_per_s {
        // The kernel takes a long; 8 bytes since Linux 4.20.
        set_bytes(
            fd,
            SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            &rate.to_ne_bytes(),
        )?;
    }
    set_int(fd, IPPROTO_TCP, libc::TCP_NODELAY, options.no_delay.into())
}

/// Sets the congestion control algorithm. Call it again on a new connection, which takes that of
/// its route (`tcp_ca_dst_init`, `tcp_ca_openreq_child`) and ignores the earlier setting.
///
/// # Errors
/// The kernel lacks the algorithm or restricts it to privileged users.
pub fn apply_congestion_control(options: &SocketOptions, socket: impl AsFd) -> io::Result<()> {
    let Some(algorithm) = &options.congestion_control else {
        return Ok(());
    };
    let fd = socket.as_fd().as_raw_fd();
    set_bytes(fd, IPPROTO_TCP, libc::TCP_CONGESTION, algorithm.as_bytes())
        .map_err(|e| congestion_control_error(algorithm, &e))
}

impl SocketFacts {
    /// Reads the options of a TCP socket.
    ///
    /// # Errors
    /// The socket is not TCP.
    pub fn of(socket: impl AsFd) -> io::Result<SocketFacts> {
        let fd = socket.as_fd().as_raw_fd();
        let bytes = |option| Ok::<_, io::Error>(get_int(fd, SOL_SOCKET, option)?.max(0) as u32);
        let low_water = get_int(fd, IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT)? as u32;
        Ok(SocketFacts {
            send_buffer_bytes: bytes(libc::SO_SNDBUF)?,
            receive_buffer_bytes: bytes(libc::SO_RCVBUF)?,
            congestion_control: get_algorithm(fd)?,
            // 0 selects net.ipv4.tcp_notsent_lowat, which means no limit by default.
            not_sent_low_water_bytes: Some(low_water)
                .filter(|&bytes| bytes != 0 && bytes != u32::MAX),
            pacing_bytes_per_s: Some(get_pacing(fd)?).filter(|&rate| rate != u64::MAX),
            no_delay: get_int(fd, IPPROTO_TCP, libc::TCP_NODELAY)? != 0,
        })
    }
}

/// Sets the size of a buffer, above the system's limit if this process is privileged. Fails if the
/// kernel grants less.
fn set_buffer(
    fd: c_int,
    (name, option, force, limit): (&str, c_int, c_int, &str),
    bytes: u32,
) -> io::Result<()> {
    let requested = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    match set_int(fd, SOL_SOCKET, force, requested) {
        Err(e) if e.kind() == ErrorKind::PermissionDenied => {
            set_int(fd, SOL_SOCKET, option, requested)?;
        }
        other => other?,
    }
    let granted = get_int(fd, SOL_SOCKET, option)?.max(0) as u32 / 2;
    if granted < bytes {
        return Err(io::Error::new(
            ErrorKind::PermissionDenied,
            format!(
                "{name}: {bytes} bytes were requested and {granted} granted; raise {limit} (sysctl), or run as root"
            ),
        ));
    }
    Ok(())
}

fn congestion_control_error(name: &str, error: &io::Error) -> io::Error {
    let message = match error.kind() {
        ErrorKind::NotFound => {
            format!(
                "this kernel has no congestion control `{name}`; `sysctl net.ipv4.tcp_available_congestion_control` lists them"
            )
        }
        ErrorKind::PermissionDenied => {
            format!(
                "congestion control `{name}` is restricted to privileged users; add it to net.ipv4.tcp_allowed_congestion_control, or run as root"
            )
        }
        _ => format!("cannot set congestion control `{name}`: {error}"),
    };
    io::Error::new(error.kind(), message)
}

fn set_int(fd: c_int, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    set_bytes(fd, level, option, &value.to_ne_bytes())
}

fn set_bytes(fd: c_int, level: c_int, option: c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads `value.len()` bytes, all of which are in `value`.
    let result = unsafe {
        libc::setsockopt(
            fd,
            level,
            option,
            value.as_ptr().cast::<c_void>(),
            value.len() as socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn get_int(fd: c_int, level: c_int, option: c_int) -> io::Result<c_int> {
    let mut value = [0; size_of::<c_int>()];
    get_bytes(fd, level, option, &mut value)?;
    Ok(c_int::from_ne_bytes(value))
}

/// Returns the pacing rate in bytes per second; the greatest number without a limit.
fn get_pacing(fd: c_int) -> io::Result<u64> {
    let mut rate = [0; size_of::<u64>()];
    get_bytes(fd, SOL_SOCKET, libc::SO_MAX_PACING_RATE, &mut rate)?;
    Ok(u64::from_ne_bytes(rate))
}

fn get_algorithm(fd: c_int) -> io::Result<String> {
    let mut name = [0; ALGORITHM_BYTES];
    let length = get_bytes(fd, IPPROTO_TCP, libc::TCP_CONGESTION, &mut name)?;
    let name = name[..length]
        .split(|&byte| byte == 0)
        .next()
        .unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Returns the number of bytes that the kernel wrote.
fn get_bytes(fd: c_int, level: c_int, option: c_int, value: &mut [u8]) -> io::Result<usize> {
    let mut length = value.len() as socklen_t;
    // SAFETY: `value` has `length` bytes. The kernel writes no more, and stores the number written
    // in `length`.
    let result = unsafe {
        libc::getsockopt(
            fd,
            level,
            option,
            value.as_mut_ptr().cast::<c_void>(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok((length as usize).min(value.len()))
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Listener, Socket};

    fn options() -> SocketOptions {
        SocketOptions {
            send_buffer_bytes: Some(50_000),
            receive_buffer_bytes: Some(60_000),
            congestion_control: Some("reno".into()),
            not_sent_low_water_bytes: Some(16_384),
            pacing_bytes_per_s: Some(5_000_000_000),
            no_delay: false,
        }
    }

    fn match_requested_options(facts: &SocketFacts) -> bool {
        let expected = SocketFacts {
            send_buffer_bytes: 100_000,
            receive_buffer_bytes: 120_000,
            congestion_control: "reno".into(),
            not_sent_low_water_bytes: Some(16_384),
            pacing_bytes_per_s: Some(5_000_000_000),
            no_delay: false,
        };
        *facts == expected
    }

    /// Accepts the pending connection.
    fn accepted(listener: &Listener) -> Socket {
        loop {
            if let Some((server, _)) = listener.accept().unwrap() {
                return server;
            }
        }
    }

    #[test]
    fn options_hold_for_both_ends_of_a_connection() {
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind_with(any, &options()).unwrap();
        let client = Socket::connect_with(listener.local_address().unwrap(), &options()).unwrap();
        let server = accepted(&listener);
        for facts in [
            SocketFacts::of(&listener),
            SocketFacts::of(&client),
            SocketFacts::of(&server),
        ] {
            assert!(
                match_requested_options(facts.as_ref().unwrap()),
                "{facts:?}"
            );
        }
    }

    #[test]
    fn sockets_keep_the_kernels_defaults_except_for_no_delay() {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = Socket::connect(listener.local_address().unwrap()).unwrap();
        let server = accepted(&listener);
        for facts in [SocketFacts::of(&client), SocketFacts::of(&server)] {
            let facts = facts.unwrap();
            assert!(facts.no_delay);
            assert_eq!(facts.not_sent_low_water_bytes, None);
            assert_eq!(facts.pacing_bytes_per_s, None);
        }
    }

    #[test]
    fn an_algorithm_that_the_kernel_lacks_is_refused_by_name() {
        let options = SocketOptions {
            congestion_control: Some("nosuch".into()),
            ..SocketOptions::default()
        };
        let error = Listener::bind_with("127.0.0.1:0".parse().unwrap(), &options).unwrap_err();
        assert!(error.to_string().contains("`nosuch`"), "{error}");
    }
}
