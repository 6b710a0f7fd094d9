//! Scripted name server (RFC 1035, UDP). Each name has a list of answers; the last one repeats.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

/// Query types A and AAAA.
const KINDS: [u16; 2] = [1, 28];

/// Threads that answer, so that a resolver does not give up while one of them waits for a processor.
const THREADS: usize = 3;

/// Handle of the server. Its threads run until the process exits.
#[derive(Clone)]
pub struct NameServer {
    pub address: SocketAddr,
    rows: Arc<Mutex<HashMap<String, Row>>>,
}

#[derive(Default)]
struct Row {
    answers: Vec<Vec<IpAddr>>,
    /// Number of A queries.
    queries: usize,
}

impl NameServer {
    pub fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let address = socket.local_addr().expect("an address");
        let names = Self { address, rows: Arc::default() };
        for _ in 0..THREADS {
            let (answering, socket) = (names.clone(), socket.try_clone().expect("a second descriptor"));
            std::thread::spawn(move || {
                let mut question = [0; 512];
                while let Ok((length, from)) = socket.recv_from(&mut question) {
                    if let Some(answer) = answering.answer(&question[..length]) {
                        let _ = socket.send_to(&answer, from);
                    }
                }
            });
        }
        names
    }

    /// Sets the answers of a name, in the order of its queries.
    pub fn set_answers(&self, name: &str, answers: &[&[&str]]) {
        let read = |text: &&str| text.parse().expect("an address");
        let answers = answers.iter().map(|answer| answer.iter().map(read).collect()).collect();
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.insert(name.to_owned(), Row { answers, queries: 0 });
    }

    /// Number of queries for a name.
    pub fn query_count(&self, name: &str) -> usize {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.get(name).map_or(0, |rows| rows.queries)
    }

    /// Builds the reply to a query, with a TTL of 0.
    fn answer(&self, question: &[u8]) -> Option<Vec<u8>> {
        let (mut name, mut at) = (Vec::new(), 12);
        loop {
            let length = usize::from(*question.get(at)?);
            let label = question.get(at + 1..at + 1 + length)?;
            at += 1 + length;
            if length == 0 {
                break;
            }
            name.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        }
        let kind = u16::from_be_bytes([*question.get(at)?, *question.get(at + 1)?]);
        let addresses = self.addresses(&name.join("."), kind);
        let is_known = addresses.is_some();
        let addresses = addresses.unwrap_or_default();
        let mut answer = question.get(..2)?.to_vec();
        answer.extend(if is_known { [0x81, 0x80] } else { [0x81, 0x83] });
        answer.extend([0, 1, 0, u8::try_from(addresses.len()).ok()?, 0, 0, 0, 0]);
        answer.extend(question.get(12..at + 4)?);
        for address in addresses {
            answer.extend([0xc0, 12]);
            answer.extend(kind.to_be_bytes());
            answer.extend([0, 1, 0, 0, 0, 0]);
            match address {
                IpAddr::V4(address) => answer.extend([&[0, 4][..], &address.octets()].concat()),
                IpAddr::V6(address) => answer.extend([&[0, 16][..], &address.octets()].concat()),
            }
        }
        Some(answer)
    }

    fn addresses(&self, name: &str, kind: u16) -> Option<Vec<IpAddr>> {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = rows.get_mut(name)?;
        // A resolver sends A and AAAA at once; the list advances with the A query.
        let turn = if kind == KINDS[0] { rows.queries } else { rows.queries.saturating_sub(1) };
        rows.queries += usize::from(kind == KINDS[0]);
        let answer = rows.answers.get(turn.min(rows.answers.len().checked_sub(1)?))?;
        let is_of_kind = |address: &&IpAddr| address.is_ipv4() == (kind == KINDS[0]);
        Some(answer.iter().filter(is_of_kind).copied().collect())
    }
}
