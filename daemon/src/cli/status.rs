//! `toolgate status --config`: the daemon of this machine, by its settings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use toolgate_cli::{Client, Failure, Printer, Server, TlsFiles, show_status};
use toolgate_state::config::{Config, Listen, Overrides};

/// Asks the daemon at the address of the settings. A daemon with TLS has a certificate for the names that others use, so the
/// certificate of the settings is trusted at this machine's own address.
pub(super) async fn ask(settings: &Path, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let config = Config::load(Some(settings), Overrides::default())
        .map_err(|error| Failure::new(error.to_string(), error.hint()))?;
    let files = TlsFiles { pinned: config.tls.certificate.clone(), ..TlsFiles::default() };
    let server = match config.listen {
        Listen::Unix(path) => format!("unix:{}", path.display()),
        Listen::Tcp(mut address) => {
            address.set_ip(match address.ip() {
                IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
                own => own,
            });
            format!("{}://{address}", if files.pinned.is_some() { "https" } else { "http" })
        }
    };
    let client = Server::parse(&server).and_then(|server| Client::new(server, None, &files));
    show_status(&client?, printer).await
}
