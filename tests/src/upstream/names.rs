//! A name server that says what it is told: for each name a row of answers, of which the last stays.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

/// A(ddress) and AAAA, as questions number them.
const KINDS: [u16; 2] = [1, 28];

/// The server. It ends with the process, since nothing waits for it.
#[derive(Clone)]
pub struct Names {
    pub address: SocketAddr,
    told: Arc<Mutex<HashMap<String, Told>>>,
}

#[derive(Default)]
struct Told {
    answers: Vec<Vec<IpAddr>>,
    /// Questions for addresses of IPv4.
    asked: usize,
}

impl Names {
    pub fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let address = socket.local_addr().expect("an address");
        let names = Self { address, told: Arc::default() };
        let answering = names.clone();
        std::thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut question) {
                if let Some(answer) = answering.answer(&question[..length]) {
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        names
    }

    /// What a name is answered with: the first question with the first of these, and so on.
    pub fn tell(&self, name: &str, answers: &[&[&str]]) {
        let read = |text: &&str| text.parse().expect("an address");
        let answers = answers.iter().map(|answer| answer.iter().map(read).collect()).collect();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.insert(name.to_owned(), Told { answers, asked: 0 });
    }

    /// How often a name was asked for.
    pub fn asked(&self, name: &str) -> usize {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.get(name).map_or(0, |told| told.asked)
    }

    /// RFC 1035, as little of it as this needs. Answers are not to be kept.
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
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let told = told.get_mut(name)?;
        // Both kinds are asked for at once; the row moves on with the first.
        let turn = if kind == KINDS[0] { told.asked } else { told.asked.saturating_sub(1) };
        told.asked += usize::from(kind == KINDS[0]);
        let answer = told.answers.get(turn.min(told.answers.len().checked_sub(1)?))?;
        let is_of_kind = |address: &&IpAddr| address.is_ipv4() == (kind == KINDS[0]);
        Some(answer.iter().filter(is_of_kind).copied().collect())
    }
}
