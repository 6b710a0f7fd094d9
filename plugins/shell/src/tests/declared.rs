//! Declared tools: what a definition may say, and that no argument is ever a part of a script.

use std::fs;

use toolgate_sdk::serde_json::{Value, json};
use toolgate_sdk::{Defined, testing};

use super::FOLDER;
use crate::declared::Declared;

fn describe(commands: Value) -> Result<Value, toolgate_sdk::Error> {
    let definition = json!({"kind": "shell", "description": "Commands", "commands": commands});
    Declared::describe(&json!({"namespace": "notes", "definition": definition}).to_string())
}

/// Calls the one command of a definition, in a folder with a few files.
fn call(command: &str, arguments: &Value) -> Result<Value, toolgate_sdk::Error> {
    let properties: serde_json::Map<String, Value> =
        arguments.as_object().unwrap().keys().map(|name| (name.clone(), json!({}))).collect();
    let schema = json!({"type": "object", "properties": properties});
    let described =
        describe(json!([{"name": "run", "description": "Runs", "command": command, "input_schema": schema}]))
            .unwrap();
    let plan = described["tools"][0]["definition"].to_string();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "kept\n").unwrap();
    fs::write(folder.path().join("b.txt"), "kept\n").unwrap();
    FOLDER.set(Some(folder.path().to_owned()));
    let result = Declared::call("run", &plan, &testing::context().build(), &arguments.to_string());
    let names = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 2, "{arguments}: files were made or removed");
    assert_eq!(fs::read_to_string(folder.path().join("a.txt")).unwrap(), "kept\n");
    result
}

use toolgate_sdk::serde_json;

const HOSTILE: [&str; 38] = [
    "",
    " ",
    "a b",
    "  two  blanks ",
    "*",
    "?.txt",
    "[ab].txt",
    "{a,b}.txt",
    "~",
    "$HOME",
    "${HOME}",
    "$(touch x)",
    "`touch x`",
    "; touch x",
    "&& touch x",
    "|| touch x",
    "| tee x",
    "> x",
    "a.txt; rm a.txt",
    "'",
    "\"",
    "'; touch x; '",
    "\"; touch x; \"",
    "\\",
    "\\'",
    "\n",
    "a\nb",
    "\n\ntouch x\n",
    "#",
    "!",
    "-rf",
    "--",
    "$((x=1))",
    "x[$(touch x)]",
    "a[$(touch x)]",
    "\t",
    "ü$(touch x)\u{2028}",
    "%s%n",
];

/// Pieces from which more arguments are made.
const PIECES: [&str; 16] =
    ["'", "\"", "$(", ")", "`", ";", "\n", " ", "*", "touch x", "rm a.txt", "\\", "${", "}", "&", "|"];

fn random_texts() -> impl Iterator<Item = String> {
    // xorshift64, so that each run tries the same.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..300).map(move |_| {
        let mut text = String::new();
        for _ in 0..8 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            text.push_str(PIECES[usize::try_from(state % 16).unwrap()]);
        }
        text
    })
}

#[test]
fn t8b_an_argument_is_one_word_whatever_it_holds() {
    for text in HOSTILE.iter().map(|text| (*text).to_owned()).chain(random_texts()) {
        for word in ["$text", "\"$text\"", "${text}", "${text:-none}", "pre$text"] {
            let command = format!("count() {{ printf '%s:' $#; printf '%s' \"$1\"; }}; count {word}");
            let result = call(&command, &json!({"text": text})).unwrap();
            let expected = match word {
                "${text:-none}" if text.is_empty() => "1:none".to_owned(),
                "pre$text" => format!("1:pre{text}"),
                _ => format!("1:{text}"),
            };
            assert_eq!(result["stdout"], expected, "{word} of {text:?}: {result}");
        }
    }
}

#[test]
fn t8b_arguments_stay_data_in_pipes_conditions_and_lists() {
    for text in HOSTILE.iter().map(|text| (*text).to_owned()).chain(random_texts()) {
        let command = "copy=$text; printf '%s' \"$copy\" | cat; [[ $text == \"$copy\" ]] || echo other; case $copy in $text) ;; *) echo other;; esac; \
                       for word in $text; do :; done; [ \"$word\" = \"$text\" ] || echo other";
        let result = call(command, &json!({"text": text})).unwrap();
        assert_eq!(
            (&result["stdout"], &result["exit_code"]),
            (&json!(text), &json!(0)),
            "{text:?}: {result}"
        );
    }
    let result = call(
        "printf '<%s>' \"${list[@]}\" ${#list[@]} $count $flag",
        &json!({"list": HOSTILE.to_vec(), "count": 5, "flag": true}),
    )
    .unwrap();
    let all: String = HOSTILE.iter().map(|text| format!("<{text}>")).collect();
    assert_eq!(result["stdout"], format!("{all}<38><5><true>"));
}

#[test]
fn t8b_a_zero_byte_is_refused_and_a_missing_argument_is_unset() {
    let error = call("echo \"$text\"", &json!({"text": "a\0b"})).unwrap_err();
    assert!(error.message().contains("zero byte"), "{error:?}");
    let result = call("echo ${text-unset}", &json!({"text": null})).unwrap();
    assert_eq!(result["stdout"], "unset\n");
}

#[test]
fn t8b_a_definition_is_refused_with_its_place() {
    let command = |change: fn(&mut Value)| {
        let mut command = json!({"name": "run", "description": "Runs", "command": "echo $x", "input_schema": {"type": "object", "properties": {"x": {"type": "string"}}}});
        change(&mut command);
        json!([command])
    };
    assert!(describe(command(|_| {})).is_ok());
    let refused: [(Value, &str); 6] = [
        (json!([]), "/commands"),
        (command(|command| command["command"] = json!("if true")), "/commands/0/command"),
        (
            command(|command| command["input_schema"]["properties"] = json!({"a-b": {}})),
            "/commands/0/input_schema/properties",
        ),
        (
            command(|command| command["input_schema"]["properties"] = json!({"IFS": {}})),
            "/commands/0/input_schema/properties",
        ),
        (command(|command| command["input_schema"]["type"] = json!("array")), "/commands/0/input_schema"),
        (command(|command| command["method"] = json!("GET")), "/commands/0/method"),
    ];
    for (commands, pointer) in refused {
        let error = describe(commands.clone()).unwrap_err();
        assert_eq!(
            error.details().map(|details| details["pointer"].clone()),
            Some(json!(pointer)),
            "{commands}: {error:?}"
        );
    }
}

/// An argument is a number in arithmetic, and assigns nothing.
#[test]
fn t8b_an_argument_in_arithmetic_is_no_expression() {
    for form in [
        "[[ $n -gt 3 ]]",
        ": $((n+1))",
        ": $((10-$n))",
        "(( n > 3 ))",
        "x=abc; : ${x:$n}",
        "list=(a b); : ${list[$n]}",
        "copy=$n; : $((copy))",
        "let y=$n",
        "declare -i y; y=$n",
    ] {
        for hostile in ["ok=1", "1,ok=1", "ok++", "0]+(ok=1)+list[0"] {
            let result = call(&format!("ok=0; {form}; echo $ok"), &json!({"n": hostile})).unwrap();
            assert_ne!(result["stdout"], "1\n", "{form} with {hostile}");
        }
    }
    let number = call("(( i = n + 1 )); x=abcdef; echo $i $((n*2)) ${x:$n}", &json!({"n": "3"})).unwrap();
    assert_eq!(number["stdout"], "4 6 def\n");
}
