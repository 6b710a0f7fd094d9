//! Commands whose output depends on the disk, and what commands refuse.

use super::run;

#[test]
fn tree_draws_folders() {
    let (ended, _folder) = run(
        "mkdir -p a/b/c x; touch a/b/f a/g .h z.txt; tree; tree -a -L 1; tree -d --noreport a; tree -I 'a|x' -f; tree -P '*.txt' --dirsfirst -F; tree none; echo $?; cd /tmp; mkdir t; tree",
    );
    let expected = ".\n├── a\n│   ├── b\n│   │   ├── c\n│   │   └── f\n│   └── g\n├── x\n└── z.txt\n\n5 directories, 3 files\n\
        .\n├── .h\n├── a\n├── x\n└── z.txt\n\n3 directories, 2 files\n\
        a\n└── b\n    └── c\n\
        .\n└── ./z.txt\n\n1 directory, 1 file\n\
        .\n├── a/\n│   └── b/\n│       └── c/\n├── x/\n└── z.txt\n\n5 directories, 1 file\n\
        none  [error opening dir]\n\n0 directories, 0 files\n2\n\
        .\n└── t\n\n2 directories, 0 files\n";
    assert_eq!(ended.stdout, expected, "{ended:?}");
}

#[test]
fn du_counts_blocks_of_files_and_folders() {
    let (ended, _folder) = run(
        "mkdir -p d/e; seq 2000 > d/a; echo x > d/e/b; du d; du -sh d; du -a d; du -d 0 d; du -b d; du -sc d d/e; du -k d/a; du -hs /tmp",
    );
    let expected = "8\td/e\n24\td\n24K\td\n12\td/a\n4\td/e/b\n8\td/e\n24\td\n24\td\n4098\td/e\n17087\td\n24\td\n8\td/e\n32\ttotal\n12\td/a\n4.0K\t/tmp\n";
    assert_eq!(ended.stdout, expected, "{ended:?}");
}

#[test]
fn stat_shows_a_file() {
    let (ended, _folder) = run(
        "echo x > a; touch -d 2024-03-05T10:11:12Z a; stat a; stat -c '%a %A %U %h %b %B' a .; stat -c %q a; echo $?; stat; echo $?; stat -f a; echo $?",
    );
    let expected = "  File: a\n  Size: 2\tBlocks: 8\tIO Block: 4096   regular file\n\
        Access: (0644/-rw-r--r--)  Uid: ( 1000/   agent)   Gid: ( 1000/   agent)\n\
        Modify: 2024-03-05 10:11:12.000000000 +0000\n644 -rw-r--r-- agent 1 8 512\n";
    assert!(ended.stdout.starts_with(expected) && ended.stdout.ends_with("1\n1\n1\n"), "{ended:?}");
    assert!(ended.stderr.contains("`%q` is not supported by this shell: %n"), "{ended:?}");
}

#[test]
fn unknown_options_are_told_with_those_that_are_known() {
    for script in [
        "bc -x",
        "column -E",
        "stat -f x",
        "du -x",
        "tree -X",
        "file -k x",
        "md5sum -x",
        "sha1sum --tag",
        "od -S 3",
        "xxd -E",
        "fold -z",
        "join -x",
        "split -x",
        "shuf -x",
        "unzip -Y",
        "zip -Y",
        "mktemp -Q",
        "true | time -x true",
        "wait -p x",
        "sort -q",
    ] {
        let (ended, _folder) = run(script);
        assert_ne!(ended.exit_code, 0, "{script}: {ended:?}");
        assert!(ended.stderr.contains("is not supported by this shell"), "{script}: {ended:?}");
    }
    for script in [
        "od -t f4 x",
        "od -t q x",
        "od -w3 x",
        "od -A q x",
        "od -j 900 x",
        "split -n r/3 x",
        "split -a 1 -l 1 x",
        "shuf -r x",
        "fold -w x",
        "column -t -R q x",
        "join -1 0 x x",
        "join -o 3.1 x x",
        "tree -L 0",
        "du -d x",
        "date -d 'last foo'",
        "bc < /dev/zero",
    ] {
        let (ended, _folder) = run(&format!("seq 30 > x; {script}"));
        assert_ne!((ended.exit_code, ended.stderr.as_str()), (0, ""), "{script}: {ended:?}");
    }
}

#[test]
fn bc_refuses_statements_and_names_the_way_out() {
    for (program, token) in [
        ("define f(x) { return x; }", "define"),
        ("if (1 > 0) 5", "if"),
        ("i = 0; while (i < 3) { i += 1; }", "while"),
        ("for (i = 0; i < 3; i++) i", "for"),
        ("a[1] = 4", "["),
        ("auto x", "auto"),
        ("x++", "++"),
        ("--x", "--"),
        ("{ 1 }", "{"),
    ] {
        let (ended, _folder) = run(&format!("bc <<'E'\n1 # {{ if\n{program}\n7\nE\n"));
        let message = format!(
            "bc: `{token}` is not supported by this shell: bc here has expressions and variables; use awk for loops\n"
        );
        assert_eq!((ended.exit_code, ended.stdout.as_str(), ended.stderr), (1, "1\n", message), "{program}");
    }
}

#[test]
fn programs_of_bc_have_limits() {
    let deep = format!("{}1{}", "(".repeat(5_000), ")".repeat(5_000));
    for (program, message) in [
        ("2^1000000", "a power has more than 20000 digits"),
        ("x=9^9999; x=x*x; x=x*x; x=x*x; 1", "a number has more than 20000 digits"),
        ("2^0.5", "a power needs a whole exponent: use `e(y*l(x))`"),
        ("scale = 99999999", "scale is at most 20000"),
        ("scale = 5000; e(1)", "the argument of e or the scale is too large"),
        ("e(99999999)", "the argument of e or the scale is too large"),
        ("l(0)", "l needs a number above 0"),
        ("obase = 100", "obase is from 2 to 16"),
        ("obase = 16; 10.5", "a fraction in base 16 is not supported"),
        ("f(1)", "Function f not defined"),
        ("2 +", "syntax error at the end of a statement"),
        ("2 $ 3", "syntax error at $"),
        (&deep, "nested too deep"),
        (&"- ".repeat(5_000), "nested too deep"),
        (&"! ".repeat(5_000), "nested too deep"),
        (&"2^".repeat(5_000), "nested too deep"),
        (&"x=".repeat(5_000), "nested too deep"),
    ] {
        let (ended, _folder) = run(&format!("bc -l <<'E' | tail -1\n{program}\nobase=10; 7\nE\n"));
        assert!(ended.stderr.contains(message), "{message}: {}", ended.stderr);
        assert_eq!(ended.stdout, "7\n", "{message}");
    }
    let (ended, _folder) = run(
        "echo '2^10000' | bc | wc -c; echo '(((((1)))))' | bc; echo 'scale=500; e(1)' | bc -l | wc -l; echo 'e(1000)' | bc -l | wc -c",
    );
    assert_eq!(ended.stdout, "3100\n1\n8\n469\n", "{ended:?}");
}

#[test]
fn help_lists_every_command() {
    let (ended, _folder) = run(
        "help | tr ' ' '\\n' | grep -xE 'time|wait|kill|bc|column|stat|du|tree|file|md5sum|sha1sum|od|xxd|fold|join|split|shuf|unzip|zip' | wc -l; type zip kill; which bc",
    );
    assert_eq!(ended.stdout, "19\nzip is /usr/bin/zip\nkill is a shell builtin\n/usr/bin/bc\n", "{ended:?}");
}
