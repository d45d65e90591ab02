//! The client against a real server: smbd of Samba.
mod client;
mod server;

use client::Client;
use hakaru_smb::wire::{Access, CreateRequest, Dialect, Disposition, FileId, OPTION_FILE, Path};
use hakaru_smb::{Config, Credentials, Op, Output, Password};
use server::{PASSWORD, Smbd, USER};

fn user(password: &str) -> Credentials {
    Credentials::Password(Password {
        domain: String::new(),
        user: USER.to_owned(),
        password: password.to_owned(),
    })
}

fn config(dialect: Dialect) -> Config {
    let mut config = Config::new("127.0.0.1", "data", user(PASSWORD));
    config.dialects = vec![dialect];
    config
}

fn open(path: &str, access: Access, disposition: Disposition) -> Op {
    Op::Create(CreateRequest {
        path: Path::new(path).unwrap(),
        access,
        disposition,
        options: OPTION_FILE,
    })
}

fn created(output: Output) -> FileId {
    match output {
        Output::Created(response) => response.file,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_is_read() {
    let Some(server) = Smbd::start("") else {
        return;
    };
    std::fs::write(server.path("a"), b"hello").unwrap();
    for dialect in Dialect::ALL {
        let (mut client, facts) = Client::connect(server.address, config(dialect)).unwrap();
        eprintln!("{facts:?}");
        assert_eq!(facts.dialect, dialect);
        let file = created(
            client
                .run(open("a", Access::READ, Disposition::Open))
                .unwrap(),
        );
        let read = client.run(Op::Read {
            file,
            offset: 0,
            length: 100,
            keep: true,
        });
        let Ok(Output::Read { length: 5, data }) = read else {
            panic!("{read:?}")
        };
        assert_eq!(&data[..], b"hello");
        assert_eq!(client.run(Op::Close { file }), Ok(Output::Nothing));
        client.log_off();
    }
}
