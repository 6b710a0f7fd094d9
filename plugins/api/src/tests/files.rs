//! Workspace files as bodies, and responses as workspace files.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

thread_local! {
    static ROOT: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// The workspace of this thread's test.
pub fn workspace_root() -> Option<PathBuf> {
    ROOT.with_borrow(Clone::clone)
}

fn workspace(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let place = folder.path().join(name);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, content).unwrap();
    }
    ROOT.set(Some(folder.path().to_owned()));
    folder
}

fn upload() -> Value {
    let mut schema = any_of(&["title", "tags", "meta", "count"]);
    schema["properties"]["count"] = json!({"type": "integer"});
    schema["properties"]["file"] = json!({"type": "string"});
    schema["properties"]["more"] = json!({"type": "array", "items": {"type": "string"}});
    with_action(json!({
        "method": "POST", "body": "multipart", "input_schema": schema,
        "arguments": {"file": {"in": "body", "file": true}, "more": {"in": "body", "name": "more[]", "file": true}},
    }))
}

fn description(document: &Value) -> Value {
    plugin(document).unwrap().description().clone()
}

#[test]
fn c7_files_and_values_are_parts_of_one_body() {
    let _folder = workspace(&[("in/a \"b\".png", b"\x89PNG\r\n"), ("x.bin", b"\0"), ("y.csv", b"1")]);
    let arguments = json!({
        "title": "é", "tags": ["x", "y"], "meta": {"a": [1]}, "count": 2.0,
        "file": "/workspace/in/a \"b\".png", "more": ["x.bin", "./y.csv"],
    });
    let sent = sent(&upload(), &arguments.to_string()).unwrap();

    let content_type = sent.header("content-type").unwrap().to_owned();
    let boundary = content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
    assert_eq!(boundary.len(), 41);
    let body = String::from_utf8_lossy(sent.body()).replace(boundary, "B");
    let part = |head: &str, content: &str| {
        format!("--B\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n")
    };
    let parts = [
        part("name=\"title\"", "é"),
        part("name=\"tags\"", "x"),
        part("name=\"tags\"", "y"),
        part("name=\"meta\"\r\nContent-Type: application/json", "{\"a\":[1]}"),
        part("name=\"count\"", "2"),
        part("name=\"file\"; filename=\"a %22b%22.png\"\r\nContent-Type: image/png", "\u{fffd}PNG\r\n"),
        part("name=\"more[]\"; filename=\"x.bin\"\r\nContent-Type: application/octet-stream", "\0"),
        part("name=\"more[]\"; filename=\"y.csv\"\r\nContent-Type: text/csv", "1"),
    ];
    for part in &parts {
        assert!(body.contains(part), "{part:?} is missing in {body:?}");
    }
    assert_eq!(body.len(), parts.concat().len() + "--B--\r\n".len());
}

#[test]
fn c7_a_file_is_the_whole_body_with_the_type_of_its_name_or_a_declared_one() {
    let _folder = workspace(&[("photo.JPG", b"\xff\xd8")]);
    let mut schema = any_of(&["photo"]);
    schema["properties"]["photo"] = json!({"type": "string"});
    for (content_type, expected) in [(Value::Null, "image/jpeg"), (json!("image/x-raw"), "image/x-raw")] {
        let document = with_action(json!({
            "method": "PUT", "body": "binary", "content_type": content_type, "input_schema": schema,
        }));
        let sent = sent(&document, r#"{"photo": "photo.JPG"}"#).unwrap();
        assert_eq!((sent.header("content-type"), sent.body()), (Some(expected), &b"\xff\xd8"[..]));
        assert_eq!(description(&document)["capabilities"]["filesystem"], "workspace");
    }
    assert_eq!(description(&with_action(json!({})))["capabilities"].get("filesystem"), None);
}

#[test]
fn c7_a_path_that_names_no_file_of_the_workspace_is_refused_before_a_request() {
    let _folder = workspace(&[("a/b", b"")]);
    for (path, words) in [
        ("missing.txt", "cannot be read: `missing.txt`: file not found"),
        ("a", "cannot be read: `a`: that is a folder"),
        ("../x", "no path of a workspace file"),
        ("/etc/passwd", "no path of a workspace file"),
        ("a/b/../../../x", "no path of a workspace file"),
        ("", "no path of a workspace file"),
        ("a\0b", "no path of a workspace file"),
    ] {
        let network = answering(Reply::json(&json!({})));
        let arguments = json!({"title": "", "tags": "", "meta": "", "count": 1, "file": path});
        let refused =
            plugin(&upload()).unwrap().call(&testing::context().build(), "act", &arguments).unwrap_err();
        assert_eq!((refused.code(), network.sent().len()), ("INVALID_ARGUMENTS", 0), "{path}");
        assert!(refused.message().contains(words), "{refused}");
    }
}

#[test]
fn c7_the_files_of_a_request_are_bounded_together() {
    let half = vec![b'x'; 9 << 20];
    let _folder = workspace(&[("a.bin", &half), ("b.bin", &half)]);
    let request = |more: &[&str]| {
        let arguments =
            json!({"title": "", "tags": "", "meta": "", "count": 1, "file": "a.bin", "more": more});
        sent(&upload(), &arguments.to_string())
    };
    assert!(request(&[]).unwrap().body().len() > half.len());
    let refused = request(&["b.bin"]).unwrap_err();
    assert_eq!(refused.code(), "INVALID_ARGUMENTS");
    assert!(refused.message().contains("with `b.bin` the files of the request"), "{refused}");
}

/// Calls an action that saves its response, and returns the result.
fn save(reply: Reply, arguments: &Value) -> Result<Value, Error> {
    let document = with_action(json!({"result": {"file": "save_as"}, "path": "/reports/2026%20may"}));
    let network = answering(reply);
    let result = plugin(&document).unwrap().call(&testing::context().build(), "act", arguments);
    assert_eq!(network.sent()[0].header("accept"), Some("*/*"));
    assert_eq!(network.sent()[0].url(), "https://api.example.com/v1/reports/2026%20may");
    result
}

#[test]
fn c7_a_response_is_saved_where_the_model_says_or_as_the_service_calls_it() {
    let folder = workspace(&[("report.pdf", b"old"), ("out/x", b"old")]);
    let pdf = || Reply::new(200).header("content-type", "application/pdf").body(b"%PDF\xff".to_vec());
    for (reply, arguments, path) in [
        (pdf(), json!({"save_as": "out/new/r.pdf"}), "out/new/r.pdf"),
        (pdf(), json!({"save_as": "/workspace/out/x"}), "out/x"),
        (
            pdf().header("content-disposition", "attachment; filename=\"../../report.pdf\""),
            json!({}),
            "report-2.pdf",
        ),
        (pdf().header("content-disposition", "inline; FileName=\"a;b.pdf\"; x=1"), json!({}), "a_b.pdf"),
        (pdf().header("content-disposition", "attachment; filename=c.pdf ; x=1"), json!({}), "c.pdf"),
        (
            pdf().header("content-disposition", "inline; name=\"filename=d\"; filename=e.pdf"),
            json!({}),
            "e.pdf",
        ),
        (pdf(), json!({"save_as": null}), "2026_20may.pdf"),
        (pdf().header("content-disposition", "attachment; filename=\"..\""), json!({}), "download.pdf"),
    ] {
        let found = save(reply, &arguments).unwrap();
        assert_eq!(found, json!({"path": path, "bytes": 5, "content_type": "application/pdf"}));
        assert_eq!(fs::read(folder.path().join(path)).unwrap(), b"%PDF\xff");
    }
    assert_eq!(fs::read(folder.path().join("report.pdf")).unwrap(), b"old");
}

#[test]
fn c7_a_response_that_fails_leaves_no_file() {
    let folder = workspace(&[("x", b"old")]);
    let breaks =
        http::Error::Unavailable { host: "api.example.com".to_owned(), why: http::Unavailable::Broken };
    for (reply, arguments, words) in [
        (Reply::text("no").status(404), json!({"save_as": "x"}), "status 404"),
        (Reply::new(200).body("part").breaks(breaks), json!({"save_as": "x"}), "ended early"),
        (Reply::new(204), json!({"save_as": "x"}), "nothing in its body"),
        (Reply::new(200).body("a"), json!({"save_as": "../x"}), "no path of a workspace file"),
    ] {
        let error = save(reply, &arguments).unwrap_err();
        assert!(error.message().contains(words), "{error}");
    }
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["x"]);
    assert_eq!(fs::read(folder.path().join("x")).unwrap(), b"old");
}

#[test]
fn c7_what_a_definition_does_not_say_of_its_file_is_added() {
    let document = with_members(json!({"safe_methods": true}));
    let mut document = document;
    document["actions"][0]["result"] = json!({"file": "save_as"});
    let described = description(&document);
    let tool = &described["tools"][0];

    assert_eq!(described["capabilities"]["filesystem"], "workspace");
    assert_eq!(tool["input_schema"]["properties"]["save_as"]["type"], "string");
    assert_eq!(tool["output_schema"]["required"], json!(["path", "bytes"]));
    assert_eq!((&tool["hints"]["read_only"], &tool["hints"]["destructive"]), (&json!(false), &json!(false)));
}

#[test]
fn c7_a_definition_whose_files_have_no_place_is_refused() {
    let text = json!({"type": "object", "properties": {"f": {"type": "string"}, "n": {"type": "integer"}}});
    for (action, place, words) in [
        (json!({"arguments": {"f": {"in": "query", "file": true}}}), "/arguments/f/file", "unknown field"),
        (
            json!({"method": "POST", "arguments": {"f": {"in": "body", "file": true}}}),
            "/arguments/f/file",
            "no files",
        ),
        (
            json!({"method": "POST", "body": "multipart", "arguments": {"n": {"in": "body", "file": true}}}),
            "/arguments/n",
            "named by its path",
        ),
        (
            json!({"method": "POST", "body": "multipart", "arguments": {"f": {"in": "body", "whole": true}}}),
            "/arguments/f",
            "many parts",
        ),
        (
            json!({"method": "POST", "body": "binary", "arguments": {"n": "query", "f": "body"}}),
            "/arguments/f",
            "no members",
        ),
        (json!({"method": "POST", "body": "multipart", "content_type": "a/b"}), "/content_type", "always"),
        (json!({"result": {"file": "n"}}), "/arguments/n", "no string"),
        (json!({"result": {"file": "f"}, "arguments": {"f": "query"}}), "/arguments/f", "not sent"),
        (json!({"result": {"file": "f", "pointer": "/a"}}), "/result", "two ways"),
        (
            json!({"result": {"file": "f"}, "hints": {"read_only": true}}),
            "/hints/read_only",
            "changes the workspace",
        ),
    ] {
        let mut document = with_action(json!({"input_schema": text}));
        merge(&mut document["actions"][0], action.clone());
        let error = plugin(&document).err().expect("a refusal");
        let details = error.details().unwrap();
        assert_eq!(details["pointer"], format!("/actions/0{place}"), "{action}: {error}");
        assert!(error.message().contains(words), "{action}: {error}");
    }
}
