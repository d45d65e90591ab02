//! The client beside another one, the crate `smb2`, on the same server.
use hakaru_smb::wire::{Change, Dialect, Disposition};
use hakaru_smb::{Encryption, Signing};
use smb2::{SmbClient, Tree};

use super::client::Client;
use super::server::{PASSWORD, Smbd, USER};
use super::{change, config, content, created, folder, list, read_file, write_file};

/// Lengths of files: a page, and some that are no multiple of what a request carries.
const LENGTHS: [usize; 3] = [4096, 65_537, 3_145_733];

/// Global settings of the server, and whether this client must sign and encrypt.
const SERVERS: [(&str, Signing, Encryption); 3] = [
    ("", Signing::IfRequired, Encryption::IfRequired),
    (
        "server signing = mandatory",
        Signing::Required,
        Encryption::IfRequired,
    ),
    (
        "server smb encrypt = desired",
        Signing::IfRequired,
        Encryption::Required,
    ),
];

/// The other client and its share.
struct Peer {
    runtime: tokio::runtime::Runtime,
    client: SmbClient,
    share: Tree,
}

impl Peer {
    fn connect(server: &Smbd) -> Peer {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let (client, share) = runtime.block_on(async {
            let address = server.address.to_string();
            let mut client = smb2::connect(&address, USER, PASSWORD).await.unwrap();
            let share = client.connect_share("data").await.unwrap();
            (client, share)
        });
        Peer {
            runtime,
            client,
            share,
        }
    }

    fn write(&mut self, path: &str, bytes: &[u8]) {
        let written = self.client.write_file(&self.share, path, bytes);
        assert_eq!(self.runtime.block_on(written).unwrap(), bytes.len() as u64);
    }

    fn read(&mut self, path: &str) -> Vec<u8> {
        let read = self.client.read_file(&mut self.share, path);
        self.runtime.block_on(read).unwrap()
    }

    /// Names and lengths of the files in a folder, sorted by name.
    fn list(&mut self, path: &str) -> Vec<(String, u64)> {
        let listed = self.client.list_directory(&mut self.share, path);
        let entries = self.runtime.block_on(listed).unwrap().into_iter();
        let files = entries.filter(|entry| !entry.is_directory);
        let mut files: Vec<_> = files.map(|entry| (entry.name, entry.size)).collect();
        files.sort();
        files
    }

    fn rename(&mut self, from: &str, to: &str) {
        let renamed = self.client.rename(&self.share, from, to);
        self.runtime.block_on(renamed).unwrap();
    }

    fn delete(&mut self, path: &str) {
        let deleted = self.client.delete_file(&self.share, path);
        self.runtime.block_on(deleted).unwrap();
    }
}

#[test]
fn another_client_and_this_one_see_the_same_files() {
    for (global, signing, encryption) in SERVERS {
        let Some(server) = Smbd::start(global) else {
            return;
        };
        let mut own = config(Dialect::Smb311);
        (own.signing, own.encryption) = (signing, encryption);
        let (mut client, _) = Client::connect(server.address, own).unwrap();
        let made = client.run(folder("folder", Disposition::Create));
        made.map(created).unwrap();
        let mut peer = Peer::connect(&server);
        let bytes = content();
        let mut expected = Vec::new();
        for length in LENGTHS {
            let (ours, theirs) = (format!("ours {length}"), format!("theirs 夏 {length}"));
            write_file(
                &mut client,
                true,
                &format!("folder/{ours}"),
                &bytes[..length],
            );
            peer.write(&format!("folder/{theirs}"), &bytes[..length]);
            assert!(
                peer.read(&format!("folder/{ours}")) == bytes[..length],
                "{global} {length}"
            );
            let read = read_file(&mut client, true, &format!("folder/{theirs}"), length);
            assert!(read == bytes[..length], "{global} {length}");
            expected.extend([(ours, length as u64), (theirs, length as u64)]);
        }
        expected.sort();
        assert_eq!(names_and_lengths(&mut client), expected);
        assert_eq!(peer.list("folder"), expected);
        // Each deletes and renames a file of the other one.
        change(&mut client, true, "folder/theirs 夏 4096", Change::Delete).unwrap();
        peer.delete("folder/ours 4096");
        peer.rename("folder/ours 65537", "folder/renamed");
        expected.retain(|(name, length)| *length != 4096 && name != "ours 65537");
        expected.push(("renamed".to_owned(), 65_537));
        expected.sort();
        assert_eq!(names_and_lengths(&mut client), expected);
        assert_eq!(peer.list("folder"), expected);
        client.log_off();
    }
}

fn names_and_lengths(client: &mut Client) -> Vec<(String, u64)> {
    let entries = list(client, "folder").into_iter();
    entries
        .map(|entry| (entry.name.to_string(), entry.facts.length_bytes))
        .collect()
}
