//! Scripts of the shell (T8), and declared commands (T8b).

use toolgate_tests::json;

use super::with_fixture;

/// T8: a script works on the session's files; what it leaves is there for the next call and over HTTP.
#[test]
fn t8_a_script_runs_over_the_files_of_the_workspace() {
    with_fixture(|fixture| {
        let session = fixture.session();
        session.put_file("in/names.txt", b"Ada\nGrace\nAda\n").expect(204);
        let script = "cd in && sort names.txt | uniq -c | awk '{ print $2 \": \" $1 }' > ../counts.txt; cat ../counts.txt; ls /; exit 3";
        let reply = session.call("shell/run", json!({"script": script}));
        assert_eq!(reply.output()["stdout"], "Ada: 2\nGrace: 1\n", "{}", reply.0);
        assert_eq!(reply.output()["exit_code"], 3);
        assert!(
            reply.output()["stderr"]
                .as_str()
                .is_some_and(|text| text.contains("ls: cannot access '/': Permission denied"))
        );
        assert_eq!(session.get_file("counts.txt").expect(200).text(), "Ada: 2\nGrace: 1\n");
        let reply = session.call("shell/run", json!({"script": "wc -l < counts.txt; jq -c . <<< '{ \"a\": 1 }'; tar czf c.tgz in && tar tzf c.tgz | sort; date -r c.tgz +%Y >/dev/null; echo $PWD"}));
        assert_eq!(reply.output()["stdout"], "2\n{\"a\":1}\nin/\nin/names.txt\n/workspace\n", "{}", reply.0);
        let reply = session.call("shell/run", json!({"script": "echo '#!/bin/sh\necho ran' > s; chmod +x s; [ -x s ] && ./s; [ -x counts.txt ] || echo data"}));
        assert_eq!(reply.output()["stdout"], "ran\ndata\n", "{}", reply.0);
        let other = fixture.session();
        let reply = other.call("shell/run", json!({"script": "ls; cat", "stdin": "from outside\n"}));
        assert_eq!(reply.output()["stdout"], "from outside\n", "{}", reply.0);
    });
}

/// T8: hostile scripts end by the limits of the shell or of the call, and the daemon serves on.
#[test]
fn t8_hostile_scripts_end_by_limits() {
    with_fixture(|fixture| {
        let session = fixture.session();
        let run = |script: &str| session.call("shell/run", json!({"script": script}));
        let reply = run("bomb() { bomb | bomb; }; bomb");
        assert_eq!(reply.output()["exit_code"], 2, "{}", reply.0);
        let reply = run("yes | head -n 2; rm -rf /; echo $?");
        assert_eq!(reply.output()["stdout"], "y\ny\n1\n", "{}", reply.0);
        run("while true; do :; done").expect_error("FUEL_EXHAUSTED");
        let reply = run("echo still here");
        assert_eq!(reply.output()["stdout"], "still here\n", "{}", reply.0);
    });
}

/// T8b: an organization declares a command; its arguments are data.
#[test]
fn t8b_a_declared_command_is_a_tool() {
    with_fixture(|fixture| {
        let operator = fixture.daemon.operator();
        operator.make_agent("commands/bot", &json!({"enabled": ["*"]}));
        let definition = json!({
            "kind": "shell", "description": "Notes of the team",
            "commands": [
                {"name": "find", "description": "Finds lines in the notes.", "command": "grep -n -F -e \"$text\" -- \"$file\"",
                 "hints": {"read_only": true},
                 "input_schema": {"type": "object", "required": ["text", "file"],
                    "properties": {"text": {"type": "string"}, "file": {"type": "string"}}}},
            ],
        });
        let mut wrong = definition.clone();
        wrong["commands"][0]["command"] = json!("if true");
        let refused = operator
            .make("/v1/orgs/commands/tools/notes", &wrong)
            .expect_refusal(422, "INVALID_POLICY")
            .json();
        assert_eq!(refused["details"]["pointer"], "/commands/0/command", "{refused}");
        operator.make("/v1/orgs/commands/tools/notes", &definition).expect(201);
        let session = operator.open_session("commands/bot");
        session.put_file("notes.txt", b"call Ada\n$(touch x); rm notes.txt\n").expect(204);
        let find = |text: &str| session.call("notes/find", json!({"text": text, "file": "notes.txt"}));
        assert_eq!(find("Ada").output()["stdout"], "1:call Ada\n");
        for text in ["$(touch x); rm notes.txt", "'; touch x; '", "`touch x`", "no such; touch x"] {
            let reply = find(text);
            let is_there = text.starts_with("$(");
            assert_eq!(reply.output()["exit_code"], i32::from(!is_there), "{}", reply.0);
        }
        session.get_file("x").expect_refusal(404, "NOT_FOUND");
        session
            .call("notes/find", json!({"text": "a\u{0}b", "file": "notes.txt"}))
            .expect_error("INVALID_ARGUMENTS");
    });
}
