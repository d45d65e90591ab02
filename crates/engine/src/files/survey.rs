//! The verb `survey`: sizes and depths of the files of a directory, without their contents.
use std::path::{Path, PathBuf};

use hakaru_files::{Entry, Survey};
use hakaru_runtime::file::folder::{EntryKind, Folder, FolderEntry};

use crate::failure::{Failure, OrEnvironment};

/// Largest depth that is entered; deeper folders count as unreadable.
const LEVELS_MAX: usize = 1024;

/// Surveys a directory and returns a report as JSON. Symbolic links and other file systems are not
/// entered. It ends when `files_max` files are counted.
///
/// # Errors
/// The directory itself cannot be read. Unreadable folders below it are counted.
pub fn survey(directory: &Path, files_max: u64) -> Result<String, Failure> {
    let hint = "correct the path, or choose a directory that you may read";
    let root = Folder::open(directory)
        .or_environment(format_args!("open {}", directory.display()), hint)?;
    let device = root
        .device()
        .or_environment(format_args!("read {}", directory.display()), hint)?;
    let mut survey = Survey::default();
    // Folders to be entered, by their names from the root. One folder is open at a time, so the
    // depth is not limited by descriptors.
    let mut pending = vec![PathBuf::new()];
    let mut complete = true;
    while let Some(path) = pending.pop() {
        if survey.files() >= files_max {
            complete = false;
            break;
        }
        let level = path.components().count() as u32 + 1;
        let Some(folder) = open(&root, &path) else {
            survey.add(Entry::Unreadable);
            continue;
        };
        let mut files = 0;
        let listed = folder.list(&mut |FolderEntry {
                                           name,
                                           kind,
                                           bytes,
                                           device: of,
                                       }| match kind {
            EntryKind::File => {
                files += 1;
                survey.add(Entry::File { bytes, level });
            }
            EntryKind::Folder if of != device => survey.add(Entry::Mount),
            EntryKind::Folder if level as usize >= LEVELS_MAX => survey.add(Entry::Unreadable),
            EntryKind::Folder => pending.push(path.join(name)),
            EntryKind::Link => survey.add(Entry::Link),
            EntryKind::Other => survey.add(Entry::Other),
        });
        match listed {
            Ok(()) => survey.add(Entry::Folder { files, level }),
            Err(_) => survey.add(Entry::Unreadable),
        }
    }
    Ok(survey.report(complete))
}

/// Opens a folder below the root, name by name, without following links. A path of many levels may
/// be longer than the kernel accepts at once.
fn open(root: &Folder, path: &Path) -> Option<Folder> {
    let mut opened = root.open_folder(".".as_ref()).ok()?;
    for name in path {
        opened = opened.open_folder(name).ok()?;
    }
    Some(opened)
}
