//! A private smbd on a loopback port, with all its files in one folder of its own.
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// A user that every Debian system has and that no person uses.
pub const USER: &str = "games";
pub const PASSWORD: &str = "correct horse";

/// A running server. It ends when this is dropped, and with the thread that started it.
pub struct Smbd {
    child: Child,
    folder: PathBuf,
    pub address: SocketAddr,
}

impl Smbd {
    /// Starts a server whose `[global]` section has the additional lines. Returns None, with the
    /// reason on standard error, if this machine cannot run one.
    pub fn start(global: &str) -> Option<Smbd> {
        let id = Command::new("id").arg("-u").output().ok()?;
        if id.stdout != b"0\n" {
            eprintln!("skipped: a private smbd is started as root only");
            return None;
        }
        for tool in ["smbd", "smbpasswd", "smbclient", "setpriv"] {
            if Command::new(tool).arg("--version").output().is_err() {
                eprintln!("skipped: {tool} is missing (Debian packages samba, smbclient)");
                return None;
            }
        }
        Some(Smbd::run(global))
    }

    fn run(global: &str) -> Smbd {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("hakaru-smbd-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        for part in ["private", "state", "share", "locked"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        let mode = |part: &str, mode| {
            fs::set_permissions(folder.join(part), fs::Permissions::from_mode(mode)).unwrap();
        };
        mode("share", 0o777);
        mode("locked", 0o755);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let config = folder.join("smb.conf");
        fs::write(&config, configuration(&folder, address.port(), global)).unwrap();
        add_user(&config);
        let log = fs::File::create(folder.join("smbd.log")).unwrap();
        // If the thread of the test ends without dropping the server, the kernel ends it.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "smbd", "-F", "--no-process-group"])
            .arg(format!("--configfile={}", config.display()))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut server = Smbd {
            child,
            folder,
            address,
        };
        let limit = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(address).is_err() {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none(), "smbd ended: {}", server.log());
            assert!(Instant::now() < limit, "smbd is silent: {}", server.log());
            thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// Returns a path below the share `data`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join("share").join(name)
    }

    /// Returns a call of smbclient that runs commands in the share `data`.
    pub fn smbclient_command(&self, commands: &str) -> Command {
        let config = self.folder.join("smb.conf");
        let mut command = Command::new("smbclient");
        command
            .arg(format!("//{}/data", self.address.ip()))
            .args(["-p", &self.address.port().to_string()])
            .args(["-U", &format!("{USER}%{PASSWORD}"), "-c", commands])
            .arg(format!("--configfile={}", config.display()));
        command
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("smbd.log")).unwrap_or_default()
    }

    fn signal(&self, signal: &str) {
        // The server leads a process group, which its children are in.
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args([signal, "--", &group]).status();
    }
}

impl Drop for Smbd {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.log());
        }
        self.signal("-TERM");
        let limit = Instant::now() + Duration::from_secs(10);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < limit {
            thread::sleep(Duration::from_millis(5));
        }
        self.signal("-KILL");
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn configuration(folder: &Path, port: u16, global: &str) -> String {
    let dir = folder.display();
    format!(
        "[global]
server role = standalone server
passdb backend = smbpasswd:{dir}/private/smbpasswd
private dir = {dir}/private
state directory = {dir}/state
cache directory = {dir}/state
lock directory = {dir}/state
pid directory = {dir}/state
ncalrpc dir = {dir}/state/ncalrpc
log file = {dir}/smbd.log
interfaces = lo
bind interfaces only = yes
smb ports = {port}
disable netbios = yes
disable spoolss = yes
load printers = no
rpc start on demand helpers = no
guest account = nobody
server min protocol = SMB2_10
{global}

[data]
path = {dir}/share
read only = no
guest ok = yes
force user = {USER}

[locked]
path = {dir}/locked
read only = yes

[private]
path = {dir}/share
valid users = root

[sealed]
path = {dir}/share
read only = no
force user = {USER}
server smb encrypt = required
"
    )
}

fn add_user(config: &Path) {
    let mut child = Command::new("smbpasswd")
        .arg("-c")
        .arg(config)
        .args(["-a", "-s", USER])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    write!(stdin, "{PASSWORD}\n{PASSWORD}\n").unwrap();
    drop(stdin);
    assert!(child.wait().unwrap().success(), "smbpasswd failed");
}
