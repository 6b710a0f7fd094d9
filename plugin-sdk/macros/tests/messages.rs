//! What an author sees: each file in `fail` must not compile, with the message beside it; each in `pass` must.
//!
//! After a change of a message: `TRYBUILD=overwrite cargo test -p toolgate-sdk-macros --test messages`, then read the
//! difference as an author would.

#[test]
fn t2_every_mistake_is_told_at_its_token_with_what_to_write() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/pass/*.rs");
    cases.compile_fail("tests/fail/*.rs");
}
