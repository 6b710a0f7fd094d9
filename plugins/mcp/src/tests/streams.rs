//! Streams of events.

use std::io::{self, Read};

use crate::stream::Events;

/// Gives a text in pieces of so many bytes.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (piece, rest) = self.0.split_at(self.1.min(self.0.len()));
        self.0 = rest;
        buffer[..piece.len()].copy_from_slice(piece);
        Ok(piece.len())
    }
}

fn events(text: &str, piece: usize) -> Vec<String> {
    let mut events = Events::new(Pieces(text.as_bytes(), piece));
    std::iter::from_fn(|| events.next().unwrap()).collect()
}

#[test]
fn m4_events_are_read_whatever_ends_their_lines_and_wherever_they_are_cut() {
    for (text, data) in [
        ("data: a\n\ndata: b\n\n", vec!["a", "b"]),
        ("data: a\r\n\r\ndata:b\r\n\r\n", vec!["a", "b"]),
        ("data: a\r\rdata: b\r\r", vec!["a", "b"]),
        ("\u{feff}data: a\ndata: é\n\n", vec!["a\né"]),
        (": ping\r\n\r\nid: 1\ndata: \n\nevent: message\nid: 2\ndata: {}\nretry: 5\n\n", vec!["{}"]),
        ("event: other\ndata: a\n\ndata: b\n\n", vec!["b"]),
        ("data\n\ndata:  a\n\n", vec![" a"]),
        ("data: a\n\ndata: never ended\n", vec!["a"]),
        ("", vec![]),
    ] {
        for piece in [1, 2, 3, 7, 1_000] {
            assert_eq!(events(text, piece), data, "{text:?} by {piece}");
        }
    }
}

#[test]
fn m4_a_stream_that_does_not_end_is_given_up() {
    let long = ":".repeat(5 << 20);
    let failure = Events::new(long.as_bytes()).next().unwrap_err();
    assert!(format!("{failure:?}").contains("longer than"), "{failure:?}");

    let many = "data: a\n\n".repeat(10_001);
    let mut events = Events::new(many.as_bytes());
    let failure = std::iter::from_fn(|| events.next().transpose()).find_map(Result::err).unwrap();
    assert!(format!("{failure:?}").contains("10000 events"), "{failure:?}");
}
