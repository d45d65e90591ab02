//! The folder of the trees in a share, by a session that is kept as long as it is used.
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hakaru_smb::wire::{
    Access, Change, CreateRequest, Disposition, FileId, OPTION_DIRECTORY, OPTION_FILE, Query,
    Sharing, SigningAlgorithm,
};
use hakaru_smb::{Op, Output, SessionFacts, Step, WriteData};
use serde_json::{Value, json};

use super::session::Session;
use super::settings::Settings;
use super::transport::ShareTransport;
use super::visitor::ShareVisitor;
use crate::failure::Failure;
use crate::files::root::{Root, Transport, Visitor};

/// A folder of a share.
pub struct Share {
    settings: Arc<Settings>,
    facts: BTreeMap<String, Value>,
    keeper: Mutex<Keeper>,
}

/// The session of the main thread, and the lock that it holds.
struct Keeper {
    session: Session,
    lock: Option<(String, FileId)>,
}

impl Share {
    /// Begins a session. With `create`, the folder is created unless it exists.
    ///
    /// # Errors
    /// As [`Session::begin`], or the folder may not be created or does not exist.
    pub fn open(settings: Settings, create: bool) -> Result<Share, Failure> {
        let settings = Arc::new(settings);
        let mut session = Session::begin(&settings)?;
        let facts = session.facts().map(describe).unwrap_or_default();
        let opened = open_folder(&mut session, &settings.folder, create);
        if let Err(error) = opened {
            let problem = format!("cannot open {}: {error}", settings.locate(""));
            let failure = Failure::environment(problem, "correct the folder of the share");
            return Err(session.lost().unwrap_or(failure));
        }
        Ok(Share {
            settings,
            facts,
            keeper: Mutex::new(Keeper {
                session,
                lock: None,
            }),
        })
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Root for Share {
    fn locate(&self, path: &str) -> String {
        self.settings.locate(path)
    }

    fn facts(&self) -> BTreeMap<String, Value> {
        self.facts.clone()
    }

    fn list(&self) -> io::Result<Vec<(String, bool)>> {
        let session = &mut self.keeper().session;
        let opened = session.call(open(session, "", Access::READ, OPTION_DIRECTORY));
        let file = created(opened?)?;
        let listed = list(session, file);
        session.call(Op::Close { file })?;
        listed
    }

    fn read(&self, name: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        let session = &mut self.keeper().session;
        let path = session.path(name);
        match session.step(Step::OpenRead { path }) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let read = read_open(session, bytes_max);
        session.step(Step::Close)?;
        read.map(Some)
    }

    fn replace(&self, name: &str, new_name: &str, contents: &[u8]) -> io::Result<()> {
        let session = &mut self.keeper().session;
        // A file of this name is never written to: it may belong to somebody else.
        let path = session.path(new_name);
        ignore_missing(session.step(Step::Delete { path }).map(drop))?;
        let request = CreateRequest {
            path: session.path(new_name),
            access: Access::WRITE.and(Access::DELETE),
            sharing: Sharing::ALL,
            disposition: Disposition::Create,
            options: OPTION_FILE,
        };
        let file = created(session.call(Op::Create(request))?)?;
        let written = write_and_rename(session, file, name, contents);
        session.call(Op::Close { file })?;
        written
    }

    fn lock(&self, name: &str, exclusive: bool) -> io::Result<bool> {
        let keeper = &mut *self.keeper();
        // The server refuses opens that do not share the file with each other, and closes files of
        // a session that ends.
        let (access, sharing, disposition) = match exclusive {
            true => (Access::WRITE, Sharing::NONE, Disposition::OpenIf),
            false => (Access::READ, Sharing::READ, Disposition::Open),
        };
        let request = CreateRequest {
            path: keeper.session.path(name),
            access,
            sharing,
            disposition,
            options: OPTION_FILE,
        };
        match keeper.session.call(Op::Create(request)) {
            Ok(output) => keeper.lock = Some((name.to_owned(), created(output)?)),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return Ok(false),
            Err(error) if exclusive || keeper.session.lost().is_some() => return Err(error),
            // Trees of a share for reading can be read without a lock.
            Err(_) => {}
        }
        Ok(true)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        let keeper = &mut *self.keeper();
        if let Some((_, file)) = keeper.lock.take_if(|(locked, _)| locked == name) {
            keeper.session.call(Op::Close { file })?;
        }
        let path = keeper.session.path(name);
        ignore_missing(keeper.session.step(Step::Delete { path }).map(drop))
    }

    fn delete_if_empty(&self) {
        if self.settings.folder.is_empty() {
            return;
        }
        let session = &mut self.keeper().session;
        let path = session.path("");
        // Files of others may be left in it.
        let _ = session.step(Step::DeleteFolder { path });
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let session = &mut self.keeper().session;
        let opened = session.call(open(session, "", Access::ATTRIBUTES, OPTION_DIRECTORY));
        let file = created(opened?)?;
        let query = Query::Space;
        let space = session.call(Op::Query { file, query });
        session.call(Op::Close { file })?;
        match space? {
            Output::Space(space) => Ok(space.available_bytes),
            _ => Err(unexpected()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        // SMB flushes single files only; a server writes the others when it likes.
        Ok(())
    }

    fn visitor(self: Arc<Self>) -> Result<Box<dyn Visitor>, Failure> {
        let session = Session::begin(&self.settings)?;
        Ok(Box::new(ShareVisitor::new(session)))
    }

    fn transport(self: Arc<Self>, keep: bool) -> Result<Box<dyn Transport>, Failure> {
        let session = Session::begin(&self.settings)?;
        Ok(Box::new(ShareTransport::new(session, keep, &self.settings)))
    }
}

/// Returns what the server and this client agreed on.
fn describe(facts: &SessionFacts) -> BTreeMap<String, Value> {
    use hakaru_smb::wire::{Dialect, EncryptionCipher};
    let dialect = match facts.dialect {
        Dialect::Smb21 => "2.1",
        Dialect::Smb30 => "3.0",
        Dialect::Smb302 => "3.0.2",
        Dialect::Smb311 => "3.1.1",
    };
    let signing = facts.signing.map(|algorithm| match algorithm {
        SigningAlgorithm::HmacSha256 => "hmac_sha256",
        SigningAlgorithm::AesCmac => "aes_cmac",
        SigningAlgorithm::AesGmac => "aes_gmac",
    });
    let encryption = facts.encryption.map(|cipher| match cipher {
        EncryptionCipher::Aes128Gcm => "aes_128_gcm",
        EncryptionCipher::Aes128Ccm => "aes_128_ccm",
    });
    BTreeMap::from([(
        "smb".to_owned(),
        json!({
            "dialect": dialect,
            "signing": signing,
            "encryption": encryption,
            "guest": facts.guest,
            "read_bytes_max": facts.read_bytes_max,
            "write_bytes_max": facts.write_bytes_max,
        }),
    )])
}

/// Checks the folder below the share; with `create`, creates it and those above it.
fn open_folder(session: &mut Session, folder: &str, create: bool) -> io::Result<()> {
    if create {
        let ends = folder.match_indices('/').map(|(at, _)| at);
        for end in ends.chain([folder.len()]).filter(|end| *end > 0) {
            let path = hakaru_smb::wire::Path::new(&folder[..end]).map_err(io::Error::other)?;
            match session.step(Step::CreateFolder { path }) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
    }
    let path = session.path("");
    session.step(Step::Lookup { path }).map(drop)
}

fn open(session: &Session, name: &str, access: Access, options: u32) -> Op {
    Op::Create(CreateRequest {
        path: session.path(name),
        access,
        sharing: Sharing::ALL,
        disposition: Disposition::Open,
        options,
    })
}

fn created(output: Output) -> io::Result<FileId> {
    match output {
        Output::Created(response) => Ok(response.file),
        _ => Err(unexpected()),
    }
}

fn list(session: &mut Session, file: FileId) -> io::Result<Vec<(String, bool)>> {
    let mut names = Vec::new();
    loop {
        let listed = session.call(Op::List {
            file,
            pattern: "*".to_owned(),
            restart: false,
        });
        match listed? {
            Output::Entries { end: true, .. } => return Ok(names),
            Output::Entries { entries, .. } => {
                let is_file =
                    |entry: &hakaru_smb::wire::DirectoryEntry| !entry.facts.is_directory();
                names.extend(entries.into_iter().map(|entry| {
                    let file = is_file(&entry);
                    (entry.name, file)
                }));
            }
            _ => return Err(unexpected()),
        }
    }
}

fn read_open(session: &mut Session, bytes_max: u64) -> io::Result<Vec<u8>> {
    let limit = session.facts().map_or(4096, |facts| facts.read_bytes_max);
    let mut bytes = Vec::new();
    loop {
        let left = bytes_max - bytes.len() as u64;
        if left == 0 {
            return Ok(bytes);
        }
        let read = session.step(Step::Read {
            offset: bytes.len() as u64,
            length: left.min(limit.into()) as u32,
            keep: true,
        })?;
        if read.data.is_empty() {
            return Ok(bytes);
        }
        bytes.extend_from_slice(&read.data);
    }
}

fn write_and_rename(
    session: &mut Session,
    file: FileId,
    name: &str,
    contents: &[u8],
) -> io::Result<()> {
    let limit = session.facts().map_or(4096, |facts| facts.write_bytes_max);
    let mut offset = 0;
    for part in contents.chunks(limit as usize) {
        session.call(Op::Write {
            file,
            offset,
            data: WriteData::from(part.to_vec()),
        })?;
        offset += part.len() as u64;
    }
    session.call(Op::Flush { file })?;
    let change = Change::Rename {
        to: session.path(name),
        replace: true,
    };
    session.call(Op::Set { file, change }).map(drop)
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn unexpected() -> io::Error {
    io::Error::other("an answer to another request")
}
