//! The scripted, faulty HTTP/1.1 server as a program, for tests that are not written in Rust and for benchmarks.
//!
//! Usage: `kvikio-faulty-server [--port PORT] [--root DIR] [--tls CA.pem] [--flaw expired|wrong-host] [--proxy]
//! [--forever]`
//!
//! It prints its URL (`http://127.0.0.1:PORT`) as the first line and runs until its standard input ends or it is killed
//! (a client that starts it with a pipe therefore takes it along when it dies); `--forever` does not look at the input.
//!
//! Paths are `/FAULT/LEN/ANYTHING`, for example `/ok/1048576`, `/reset1/300000/a`, `/503x1/10/b`, `/redirect/100`: the
//! list is in `crates/testkit/src/server/paths.rs`. Byte `i` of each object is `(i * 31 + i // 251) % 256`, and each
//! `ANYTHING` counts its own requests. With `--root`, files below DIR are served too (ranges, sendfile). With `--tls`,
//! it speaks TLS and writes the certificate of its authority to that file; `--flaw` spoils its own certificate. With
//! `--proxy` it is a proxy instead. `/log` answers the requests so far, a line
//! each: method, target, range.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use kvikio_testkit::server::{Authority, Flaw, Script, Server};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("kvikio-faulty-server: {why}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), String> {
    let mut script = Script::new().by_path();
    let (mut port, mut is_forever) = (0, false);
    let (mut tls, mut flaw) = (None, Flaw::None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--port" => port = value()?.parse().map_err(|_| "a port is a number".to_owned())?,
            "--root" => script = script.root(value()?),
            "--tls" => {
                let authority = Authority::new();
                let path = value()?;
                std::fs::write(&path, authority.pem()).map_err(|error| format!("{path}: {error}"))?;
                tls = Some(authority);
            }
            "--flaw" => {
                flaw = match value()?.as_str() {
                    "expired" => Flaw::Expired,
                    "wrong-host" => Flaw::WrongHost,
                    other => return Err(format!("unknown flaw {other}")),
                }
            }
            "--proxy" => script = script.proxy(),
            "--forever" => is_forever = true,
            _ => return Err(format!("unknown argument {arg}")),
        }
    }
    if let Some(authority) = tls {
        script = script.tls(&authority, flaw);
    }
    let server = Server::listen(script, SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    println!("{}", server.url(""));
    std::io::stdout().flush().map_err(|error| error.to_string())?;
    let mut byte = [0];
    while is_forever || std::io::stdin().read(&mut byte).is_ok_and(|len| len > 0) {
        if is_forever {
            std::thread::park();
        }
    }
    Ok(())
}
