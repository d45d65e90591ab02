//! Trees in a directory of this machine, on any mounted file system: calls of the operating system.
//!
//! Names are looked up one folder at a time, from the handle of the folder before, and symbolic
//! links are never followed.
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hakaru_files::{Action, OpenMode, Operation};
use hakaru_runtime::file::folder::{self, EntryKind, Folder};

use super::root::{CHUNK_BYTES, Fill, Root, Transport, Visitor};
use crate::failure::{Failure, OrEnvironment};

/// A directory of trees.
pub struct Directory {
    path: PathBuf,
    folder: Folder,
    /// Keeps the lock; `None` before it is locked, and if a reader may not open it.
    lock: Mutex<Option<File>>,
}

impl Directory {
    /// Opens a directory. With `create`, it is created unless it exists.
    ///
    /// # Errors
    /// It may not be created or opened.
    pub fn open(path: &Path, create: bool) -> Result<Directory, Failure> {
        let shown = path.display();
        if create {
            fs::create_dir_all(path).or_environment(
                format_args!("create the directory {shown}"),
                "choose a directory that you may write to",
            )?;
        }
        let folder = Folder::open(path).or_environment(
            format_args!("open the directory {shown}"),
            "correct the path",
        )?;
        Ok(Directory {
            path: path.to_owned(),
            folder,
            lock: Mutex::default(),
        })
    }
}

impl Root for Directory {
    fn locate(&self, path: &str) -> String {
        match path {
            "" => self.path.display().to_string(),
            path => self.path.join(path).display().to_string(),
        }
    }

    fn list(&self) -> io::Result<Vec<(String, bool)>> {
        let mut names = Vec::new();
        // A handle of its own, because a listing has a position.
        let listed = self.folder.open_folder(OsStr::new("."))?;
        listed.list(&mut |entry| {
            let name = entry.name.to_string_lossy().into_owned();
            names.push((name, entry.kind == EntryKind::File));
        })?;
        Ok(names)
    }

    fn read(&self, name: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        match self.folder.open_file(name).and_then(only_file) {
            Ok(file) => file.take(bytes_max).read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(bytes))
    }

    fn replace(&self, name: &str, new_name: &str, contents: &[u8]) -> io::Result<()> {
        // A file of this name is never written to: it may belong to somebody else.
        self.folder.delete_file(new_name)?;
        let mut file = self.folder.create_file(new_name)?;
        file.write_all(contents)?;
        file.sync_all()?;
        self.folder.rename_file(new_name, name)?;
        File::open(&self.path)?.sync_all()
    }

    fn lock(&self, name: &str, exclusive: bool) -> io::Result<bool> {
        let lock = if exclusive {
            let file = self.folder.open_or_create(name).and_then(only_file)?;
            Some(file)
        } else {
            // Trees on a read-only file system can be read without a lock.
            self.folder.open_file(name).and_then(only_file).ok()
        };
        // Without locks (some network file systems), concurrent use is the user's affair.
        let free = lock
            .as_ref()
            .is_none_or(|file| !matches!(folder::lock(file, exclusive), Ok(false)));
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = lock;
        Ok(free)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.folder.delete_file(name).map(drop)
    }

    fn delete_if_empty(&self) {
        // Files of others may be left in it, and it may be a mount point.
        let _ = fs::remove_dir(&self.path);
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.folder.free_bytes()
    }

    fn sync(&self) -> io::Result<()> {
        self.folder.sync_file_system()
    }

    fn visitor(self: Arc<Self>) -> Result<Box<dyn Visitor>, Failure> {
        Ok(Box::new(DirectoryVisitor {
            root: self,
            folder: None,
            buffer: vec![0; CHUNK_BYTES],
        }))
    }

    fn transport(self: Arc<Self>, _keep: bool) -> Result<Box<dyn Transport>, Failure> {
        Ok(Box::new(DirectoryTransport {
            root: self,
            chain: Vec::new(),
            file: None,
        }))
    }
}

/// State of one tool.
struct DirectoryTransport {
    root: Arc<Directory>,
    /// Folders that were looked up, from the tree's root down.
    chain: Vec<Folder>,
    file: Option<File>,
}

impl Transport for DirectoryTransport {
    fn execute(&mut self, operation: &Operation, buffer: &mut Arc<Vec<u8>>) -> io::Result<u64> {
        let name = last_name(&operation.path);
        match &operation.action {
            Action::Lookup { level } => {
                self.chain.truncate(*level as usize - 1);
                let found = self.folder().lookup(name)?;
                self.chain.push(found);
                Ok(0)
            }
            Action::List => count_entries(self.folder()),
            Action::Open {
                mode: OpenMode::Read,
            } => {
                let file = self.folder().open_file(name)?;
                let metadata = file.metadata()?;
                if !metadata.is_file() {
                    return Err(io::Error::other("it is not a regular file"));
                }
                self.file = Some(file);
                Ok(metadata.len())
            }
            Action::Open {
                mode: OpenMode::Write,
            } => {
                self.file = Some(self.folder().write_file(name)?);
                Ok(0)
            }
            Action::Read { offset, length } => {
                let part = &mut Arc::make_mut(buffer)[..*length as usize];
                let read = self.open_file()?.read_at(part, *offset)?;
                Ok(read as u64)
            }
            Action::Write { offset, length } => {
                let part = &buffer[..*length as usize];
                let written = self.open_file()?.write_at(part, *offset)?;
                Ok(written as u64)
            }
            Action::Flush => self.open_file()?.sync_all().map(|()| 0),
            Action::Close => {
                let file = self.file.take().ok_or_else(not_open)?;
                folder::close(file).map(|()| 0)
            }
            Action::Create => folder::close(self.folder().create_file(name)?).map(|()| 0),
            Action::Stat => match self.folder().file_bytes(name)? {
                Some(_) => Ok(0),
                None => Err(io::ErrorKind::NotFound.into()),
            },
            Action::Rename { to } => self.folder().rename_file(name, last_name(to)).map(|()| 0),
            Action::Delete => match self.folder().delete_file(name)? {
                true => Ok(0),
                false => Err(io::ErrorKind::NotFound.into()),
            },
        }
    }
}

impl DirectoryTransport {
    fn folder(&self) -> &Folder {
        self.chain.last().unwrap_or(&self.root.folder)
    }

    fn open_file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(not_open)
    }
}

/// State of one thread that builds, checks or deletes.
struct DirectoryVisitor {
    root: Arc<Directory>,
    /// The current folder; `None`: the destination.
    folder: Option<Folder>,
    buffer: Vec<u8>,
}

impl DirectoryVisitor {
    fn folder(&self) -> &Folder {
        self.folder.as_ref().unwrap_or(&self.root.folder)
    }
}

impl Visitor for DirectoryVisitor {
    fn enter(&mut self, names: &[String], create: bool) -> io::Result<()> {
        self.folder = None;
        for (depth, name) in names.iter().enumerate() {
            if create && depth + 1 == names.len() {
                self.folder().create_folder(name)?;
            }
            self.folder = Some(self.folder().lookup(name)?);
        }
        Ok(())
    }

    fn entries(&mut self) -> io::Result<u64> {
        count_entries(self.folder())
    }

    fn file_bytes(&mut self, name: &str) -> io::Result<Option<u64>> {
        self.folder().file_bytes(name)
    }

    fn write(&mut self, name: &str, size: u64, fill: &mut Fill<'_>) -> io::Result<()> {
        let mut file = self.folder().write_file(name)?;
        let mut offset = 0;
        while offset < size {
            let length = (size - offset).min(CHUNK_BYTES as u64) as usize;
            fill(offset, &mut self.buffer[..length]);
            file.write_all(&self.buffer[..length])?;
            offset += length as u64;
        }
        // A network file system may report only now that it could not write.
        folder::close(file)
    }

    fn read(
        &mut self,
        name: &str,
        accept: &mut dyn FnMut(u64) -> bool,
        check: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> io::Result<()> {
        let mut file = self.folder().open_file(name).and_then(only_file)?;
        let size = file.metadata()?.len();
        let (mut offset, mut continues) = (0, accept(size));
        while continues && offset < size {
            let length = (size - offset).min(CHUNK_BYTES as u64) as usize;
            file.read_exact(&mut self.buffer[..length])?;
            continues = check(offset, &self.buffer[..length]);
            offset += length as u64;
        }
        Ok(())
    }

    fn drop_from_cache(&mut self, name: &str) -> io::Result<()> {
        folder::drop_from_cache(&self.folder().open_file(name)?)
    }

    fn delete_file(&mut self, name: &str) -> io::Result<bool> {
        self.folder().delete_file(name)
    }

    fn delete_folder(&mut self, names: &[String]) -> io::Result<()> {
        let Some((name, above)) = names.split_last() else {
            return Ok(());
        };
        self.enter(above, false)?;
        self.folder().delete_folder(name).map(drop)
    }
}

/// Lists a folder, and returns the number of its entries.
fn count_entries(folder: &Folder) -> io::Result<u64> {
    let mut entries = 0;
    // A handle of its own, because a listing has a position.
    folder
        .open_folder(OsStr::new("."))?
        .list(&mut |_| entries += 1)?;
    Ok(entries)
}

fn only_file(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

fn not_open() -> io::Error {
    io::Error::other("no file is open")
}

fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
