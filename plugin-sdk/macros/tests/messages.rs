//! Compile errors of the macros: each file in `fail` must fail with the message beside it, and each in `pass` must compile.
//!
//! After a change of a message: `TRYBUILD=overwrite cargo test -p toolgate-sdk-macros --test messages`, then review
//! the difference.

#[test]
fn t2_every_mistake_is_reported_at_its_token_with_the_fix() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/pass/*.rs");
    cases.compile_fail("tests/fail/*.rs");
}
