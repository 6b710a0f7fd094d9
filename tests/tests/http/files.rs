//! Workspace files over HTTP: preconditions are enforced, or refused where they cannot be.

use super::*;

use std::thread;

#[test]
fn a_file_that_must_be_new_replaces_no_file() {
    with_fixture(|fixture| {
        let session = fixture.daemon.operator().open_session("acme/bot");
        let new = |path: &str, text: &[u8]| {
            let headers = [("If-None-Match", "*")];
            session.client.send("PUT", &session.path(&format!("/files/{path}")), &headers, text)
        };
        new("folder/a.txt", b"first").expect(204);
        let refused = new("folder/a.txt", b"second").expect_refusal(412, "CONFLICT");
        assert_eq!(refused.json()["details"]["precondition"], "failed");
        new("folder", b"second").expect_refusal(412, "CONFLICT");
        assert_eq!(session.get_file("folder/a.txt").expect(200).text(), "first");
        session.put_file("folder/a.txt", b"third").expect(204);
        assert_eq!(session.get_file("folder/a.txt").expect(200).text(), "third");
        // With concurrent writers, one creates the file and its bytes stay.
        let texts: Vec<String> = (0..16).map(|at| at.to_string().repeat(10_000)).collect();
        let made: Vec<&String> = thread::scope(|scope| {
            let writers: Vec<_> =
                texts.iter().map(|text| (text, scope.spawn(|| new("raced", text.as_bytes())))).collect();
            let ended = writers.into_iter().map(|(text, writer)| (text, writer.join().expect("an answer")));
            ended.filter(|(_, reply)| reply.status == 204).map(|(text, _)| text).collect()
        });
        let [made] = made.as_slice() else { panic!("{} of them made it", made.len()) };
        assert_eq!(session.get_file("raced").expect(200).text(), **made);
    });
}

/// Ignoring an unsupported precondition could overwrite a file that the client wants to protect.
#[test]
fn preconditions_that_files_do_not_support_are_refused() {
    with_fixture(|fixture| {
        let session = fixture.daemon.operator().open_session("acme/bot");
        session.put_file("a.txt", b"kept").expect(204);
        let send = |method: &str, field: &str, value: &str| {
            session.client.send(method, &session.path("/files/a.txt"), &[(field, value)], b"other")
        };
        for (method, field, value) in [
            ("PUT", "If-Match", "*"),
            ("PUT", "If-Match", "\"1\""),
            ("PUT", "If-None-Match", "\"1\""),
            ("DELETE", "If-Match", "\"1\""),
            ("DELETE", "If-None-Match", "*"),
        ] {
            let reply = send(method, field, value).expect_refusal(400, "INVALID_REQUEST");
            assert!(reply.text().contains("ETag"), "{method} {field}: {}", reply.text());
        }
        assert_eq!(session.get_file("a.txt").expect(200).text(), "kept");
        session.client.delete(&session.path("/files/a.txt")).expect(204);
    });
}
