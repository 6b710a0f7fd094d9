//! Streams of events.

use std::io::{self, Read};

use crate::stream::{Event, EventKind, Events, Form};

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

fn events(text: &str, piece: usize) -> Vec<Event> {
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
        ("data\n\ndata:  a\n\n", vec![" a"]),
        ("data: a\n\ndata: never ended\n", vec!["a"]),
        ("", vec![]),
    ] {
        for piece in [1, 2, 3, 7, 1_000] {
            let found: Vec<_> = events(text, piece).into_iter().map(|event| event.data).collect();
            assert_eq!(found, data, "{text:?} by {piece}");
        }
    }
}

#[test]
fn m4_the_name_of_an_event_is_kept_until_the_event_ends() {
    let names: Vec<_> = events("event: other\ndata: a\n\ndata: b\n\nevent: message\ndata: c\n\n", 3)
        .into_iter()
        .map(|event| event.kind)
        .collect();
    assert_eq!(names, [EventKind::Other, EventKind::Message, EventKind::Message]);
}

#[test]
fn m4_the_last_id_and_the_pause_of_a_stream_are_kept_to_resume_it() {
    for (text, id, retry) in [
        ("id: e1\nretry: 50\ndata: \n\n", Some("e1"), Some(50)),
        ("id: e1\ndata: a\n\nid: e2\n\n", Some("e2"), None),
        ("id: a b\ndata: a\n\nid: \u{e9}\n\n", Some("a b"), None),
        ("retry: soon\n\n: ping\n\n", None, None),
    ] {
        let mut stream = Events::new(text.as_bytes());
        while stream.next().unwrap().is_some() {}
        assert_eq!(stream.position.id.as_deref(), id, "{text:?}");
        assert_eq!(stream.position.retry.map(|pause| pause.as_millis()), retry, "{text:?}");
    }
}

#[test]
fn m4_the_form_of_a_body_is_told_by_its_first_bytes() {
    for (text, form) in [
        ("{}", Form::Json),
        ("\u{feff} \r\n[1]", Form::Json),
        ("data: {}\n\n", Form::Events),
        ("\n: ping\n", Form::Events),
        ("event:a", Form::Events),
        ("datum: {}", Form::Other),
        ("<html>", Form::Other),
        ("id", Form::Other),
        (" \n", Form::Empty),
    ] {
        for piece in [1, 4, 1_000] {
            let mut body = Events::new(Pieces(text.as_bytes(), piece));
            assert_eq!(body.form().unwrap(), form, "{text:?} by {piece}");
            assert_eq!(body.rest().unwrap(), text.as_bytes());
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
