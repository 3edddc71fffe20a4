//! The way to a provider: proxies, certificates, addresses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;

use crate::support::home::TestHome;
use crate::support::server::{Server, Step};
use crate::support::wire::Api;

fn home_at(base_url: &str) -> TestHome {
    let home = TestHome::bare();
    home.write_models(&json!({"far": {"base_url": base_url, "api": "openai-completions", "models": [{"id": "m"}]}}));
    home.write(".violin/agent/settings.json", &json!({"retry": {"base_delay_ms": 1, "max_retries": 0}}).to_string());
    home
}

#[test]
fn a_proxy_is_used_unless_it_is_excepted() {
    let proxy = Server::answering(|_| Step::stream(Api::Chat.answer("through", &[])));
    let address = proxy.url().trim_end_matches("/v1").to_owned();
    let home = home_at("http://models.invalid/v1");
    let output = home.command(&["-p", "hi"]).env("HTTP_PROXY", &address).output().expect("started");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "through\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(proxy.asked()[0].path, "http://models.invalid/v1/chat/completions");
    let mut command = home.command(&["-p", "hi"]);
    let output = command.env("HTTP_PROXY", &address).env("NO_PROXY", "models.invalid").output().expect("started");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), proxy.asked().len()), (Some(1), 1), "{told}");
    assert!(told.contains("models.invalid"), "{told}");
    // A server on this machine is never asked through a proxy.
    let local = Server::answering(|_| Step::stream(Api::Chat.answer("here", &[])));
    let home = home_at(&local.url());
    let output = home.command(&["-p", "hi"]).env("HTTP_PROXY", "http://127.0.0.1:9").output().expect("started");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "here\n");
}

/// A server with a certificate that only `certificate.pem` vouches for.
fn secure_server() -> u16 {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("support/certificate.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("support/key.pem")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("they fit");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let connection = rustls::ServerConnection::new(config.clone()).expect("a connection");
            let mut reader = BufReader::new(rustls::StreamOwned::new(connection, stream));
            let (mut line, mut length) = (String::new(), 0);
            // A client that does not trust the certificate goes here.
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                let header = line.to_lowercase();
                length = header.strip_prefix("content-length:").map_or(length, |n| n.trim().parse().expect("a number"));
                line.clear();
            }
            let mut body = vec![0; length];
            if length == 0 || reader.read_exact(&mut body).is_err() {
                continue;
            }
            let answer = Api::Chat.answer("safely", &[]);
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
                answer.len()
            );
            let _ = reader.get_mut().write_all((head + &answer).as_bytes());
        }
    });
    port
}

#[test]
fn a_certificate_of_ones_own_is_trusted_where_it_is_named() {
    let home = home_at(&format!("https://localhost:{}/v1", secure_server()));
    let output = home.run(&["-p", "hi"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && told.contains("certificate"), "{told}");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/certificate.pem");
    let output = home.command(&["-p", "hi"]).env("SSL_CERT_FILE", file).output().expect("started");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "safely\n", "{}", String::from_utf8_lossy(&output.stderr));
}

/// A redirection is not followed: it would take the key along.
#[test]
fn a_redirection_is_told_and_not_followed() {
    let elsewhere = Server::answering(|_| Step::stream(Api::Chat.answer("stolen", &[])));
    let target = elsewhere.url();
    let server = Server::answering(move |_| Step::error(307, &json!({})).header("location", &target));
    let home = home_at(&server.url());
    let output = home.run(&["-p", "hi"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && told.contains("base_url"), "{told}");
    assert!(elsewhere.asked().is_empty());
}
