//! What the attribute `boxed` keeps of an asynchronous function, and what it changes.
#![allow(missing_docs, clippy::expect_used)]

use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use toolgate_macros::boxed;

struct Words(String);

#[boxed]
impl Words {
    pub async fn first(&self, _permit: Arc<()>, separator: &str) -> Option<&str> {
        let _large = [0_u8; 1000];
        std::future::ready(()).await;
        self.0.split(separator).next()
    }

    async fn private(&self) -> [u8; 1000] {
        let large = [0; 1000];
        std::future::ready(()).await;
        large
    }
}

#[boxed]
pub async fn parse(text: &str) -> Result<u8, Box<dyn Error + Send + Sync>> {
    let number = text.parse()?;
    Ok(number)
}

fn poll<F: Future + ?Sized>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_public_function_returns_a_box_and_a_private_one_its_body() {
    let words = Words("a b".to_owned());
    assert_eq!(size_of_val(&words.first(Arc::default(), " ")), 2 * size_of::<usize>());
    assert!(size_of_val(&words.private()) >= 1000);
}

#[test]
fn an_unused_argument_lives_as_long_as_the_future() {
    let (words, permit) = (Words("a b".to_owned()), Arc::new(()));
    let mut future = words.first(Arc::clone(&permit), " ");
    assert_eq!(Arc::strong_count(&permit), 2, "held before the first poll");
    assert_eq!(poll(future.as_mut()), Poll::Ready(Some("a")));
    assert_eq!(Arc::strong_count(&permit), 1, "dropped with the body");
}

#[test]
fn an_output_borrows_from_the_receiver_alone() {
    let words = Words("a b".to_owned());
    let separator = " ".to_owned();
    let found = poll(words.first(Arc::default(), &separator).as_mut());
    drop(separator);
    assert_eq!(found, Poll::Ready(Some("a")));
}

#[test]
fn errors_are_converted_to_those_of_the_signature() {
    assert!(matches!(poll(parse("7").as_mut()), Poll::Ready(Ok(7))));
    assert!(matches!(poll(parse("x").as_mut()), Poll::Ready(Err(_))));
}
