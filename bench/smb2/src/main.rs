//! Copies all files of several folders of a share at once, with the crate `smb2`: a connection and
//! a task for each folder, and each file as a whole.
//!
//! usage: smb2-copies read|write ADDRESS SHARE USER PASSWORD FOLDER…
//!
//! FOLDER is `REMOTE=LOCAL`. `read` reads the files that REMOTE has, and discards them. `write`
//! writes the files of LOCAL to REMOTE. Prints the number of files.
use std::error::Error;
use std::path::PathBuf;

/// Direction, server and login, the same for every task.
#[derive(Clone)]
struct Job {
    writes: bool,
    address: String,
    share: String,
    user: String,
    password: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut words = std::env::args().skip(1);
    let mut next = || words.next().ok_or("see the head of main.rs for the usage");
    let job = Job {
        writes: next()? == "write",
        address: next()?,
        share: next()?,
        user: next()?,
        password: next()?,
    };
    let mut tasks = Vec::new();
    for folder in words {
        let (remote, local) = folder.split_once('=').ok_or("a folder is REMOTE=LOCAL")?;
        tasks.push(tokio::spawn(copy(
            job.clone(),
            remote.to_owned(),
            PathBuf::from(local),
        )));
    }
    let mut files = 0;
    for task in tasks {
        files += task.await??;
    }
    println!("{files}");
    Ok(())
}

/// Copies the files of one folder. Returns their number.
async fn copy(
    job: Job,
    remote: String,
    local: PathBuf,
) -> Result<usize, Box<dyn Error + Send + Sync>> {
    let mut client = smb2::connect(&job.address, &job.user, &job.password).await?;
    let mut share = client.connect_share(&job.share).await?;
    let mut files = 0;
    if job.writes {
        for entry in std::fs::read_dir(local)? {
            let entry = entry?;
            let path = format!("{remote}/{}", entry.file_name().display());
            client
                .write_file(&mut share, &path, &std::fs::read(entry.path())?)
                .await?;
            files += 1;
        }
    } else {
        for entry in client.list_directory(&mut share, &remote).await? {
            if !entry.is_directory {
                client
                    .read_file(&mut share, &format!("{remote}/{}", entry.name))
                    .await?;
                files += 1;
            }
        }
    }
    Ok(files)
}
