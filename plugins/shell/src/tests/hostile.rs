//! Scripts that want to run for ever, to use all memory, or to leave the workspace.

use super::{run, run_in, run_limited};

#[test]
fn a_fork_bomb_ends_by_its_depth() {
    let (ended, _folder) = run("b() { b | b; }; b; echo after");
    assert_eq!(ended.exit_code, 2);
    assert!(ended.notes.iter().any(|note| note.contains("nested too deep")), "{ended:?}");
    assert_eq!(ended.stdout, "");
}

#[test]
fn a_fork_bomb_of_background_jobs_ends_by_its_depth() {
    let (ended, _folder) = run(":(){ :|:& };:; echo after");
    assert_eq!((ended.exit_code, ended.stdout.as_str()), (2, ""), "{ended:?}");
    let (ended, _folder) = run("f() { f & }; f; echo after");
    assert_eq!((ended.exit_code, ended.stdout.as_str()), (2, ""), "{ended:?}");
    let (ended, _folder) = run("f() { echo x | tee >(f); }; f; echo after");
    assert_eq!((ended.exit_code, ended.notes.len()), (2, 1), "{ended:?}");
    let (ended, _folder) = run("f() { echo x & }; f; wait; echo after");
    assert_eq!((ended.exit_code, ended.stdout.as_str()), (0, "x\nafter\n"), "{ended:?}");
}

#[test]
fn a_full_consumer_ends_its_writer_with_a_note() {
    let (ended, _folder) = run("yes > >(head -1); echo $?; yes | tee >(wc -c) > /dev/null");
    assert_eq!(ended.stdout.lines().next(), Some("y"), "{ended:?}");
    assert!(ended.notes.iter().any(|note| note.contains("a pipe takes 8 MiB")), "{ended:?}");
    let (ended, _folder) = run("yes > >(head -1); echo $?");
    assert_eq!((ended.stdout.as_str(), ended.notes.len()), ("y\n141\n", 0), "{ended:?}");
}

#[test]
fn time_writes_what_it_measured_to_the_errors() {
    let (ended, _folder) =
        run("time true; time -p false; echo $?; echo x | time cat; time; ! time true; echo $?");
    assert_eq!(ended.stdout, "1\nx\n1\n", "{ended:?}");
    let signs = ended.stderr.replace(|sign: char| sign.is_ascii_digit(), "0");
    let bash = "\nreal\t0m0.000s\nuser\t0m0.000s\nsys\t0m0.000s\n";
    let posix = "real 0.00\nuser 0.00\nsys 0.00\n";
    assert_eq!(signs, [bash, posix, posix, bash, bash].concat());
}

#[test]
fn wait_and_kill_know_no_other_process() {
    let (ended, _folder) =
        run("true & wait 99; echo $?; kill -0 $!; echo $?; kill -s TERM 7; wait abc; echo $?; kill");
    assert_eq!((ended.exit_code, ended.stdout.as_str()), (2, "127\n1\n127\n"), "{ended:?}");
    let expected = "wait: pid 99 is not a child of this shell\nkill: (2) - No such process\nkill: (7) - No such process\n\
        wait: pid abc is not a child of this shell\nkill: needs the id of a process\n";
    assert_eq!(ended.stderr, expected);
}

#[test]
fn recursion_ends_and_a_little_of_it_works() {
    let (ended, _folder) = run("f() { f; }; f; echo after");
    assert_eq!((ended.exit_code, ended.stdout.as_str()), (2, ""));
    let (ended, _folder) =
        run("f() { if true; then for i in 1; do while true; do f; done; done; fi; }; f; echo after");
    assert_eq!((ended.exit_code, ended.stdout.as_str()), (2, ""));
    for (script, code) in
        [("f() { trap f ERR; false; }; f; echo after", 2), ("f() { trap f EXIT; exit 3; }; f; echo after", 3)]
    {
        let (ended, _folder) = run(script);
        assert_eq!((ended.exit_code, ended.stdout.as_str()), (code, ""), "{script}");
    }
    let (ended, _folder) = run("f() { [ $1 -gt 50 ] && { echo $1; return; }; f $(($1 + 1)); }; f 1");
    assert_eq!((ended.exit_code, ended.stdout.as_str()), (0, "51\n"));
}

#[test]
fn deep_syntax_is_an_error() {
    for script in ["(", "$(", "echo $(", "{ ", "\"${x:-", "if ", "[[ ( ", "f() { "] {
        let script = script.repeat(5_000);
        let (ended, _folder) = run(&script);
        assert_eq!(ended.exit_code, 2, "{}", &script[..10]);
    }
    let (ended, _folder) = run(&format!("echo $(({}1{}))", "(".repeat(5_000), ")".repeat(5_000)));
    assert_ne!(ended.exit_code, 0);
    let (ended, _folder) =
        run(&format!("awk 'BEGIN {{ print {}1{} }}'", "(".repeat(5_000), ")".repeat(5_000)));
    assert_eq!(ended.exit_code, 2);
    let (ended, _folder) = run(&format!("echo 1 | jq '{}.{}'", "[".repeat(5_000), "]".repeat(5_000)));
    assert_ne!(ended.exit_code, 0);
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    for script in [
        format!("jq -n --argjson x '{deep}' '$x'"),
        format!("jq -n '$ARGS' --jsonargs '{deep}'"),
        format!("echo '{deep}' > deep.json; jq -n --slurpfile x deep.json '$x'"),
        format!("jq -n '\"{deep}\" | fromjson'"),
    ] {
        let (ended, _folder) = run(&script);
        assert_ne!(ended.exit_code, 0, "{}", &script[..30]);
    }
    let (ended, _folder) = run("jq -nc --argjson x '[[1]]' '$x'; jq -nc '\"[[2]]\" | fromjson'");
    assert_eq!((ended.exit_code, ended.stdout.as_str()), (0, "[[1]]\n[[2]]\n"));
}

#[test]
fn a_writer_without_end_stops_with_its_reader() {
    let (ended, _folder) = run("yes | head -3; yes | head -1 | cat; while true; do echo x; done | head -2");
    assert_eq!((ended.exit_code, ended.stdout.as_str()), (0, "y\ny\ny\ny\nx\nx\n"));
    assert_eq!(ended.notes, [""; 0]);
}

#[test]
fn output_is_cut_with_a_note() {
    let (ended, _folder) = run("seq 100000");
    assert_eq!(ended.exit_code, 0);
    assert!(ended.stdout.len() < 100_000 && ended.stdout.starts_with("1\n2\n"));
    assert!(ended.notes[0].contains("`stdout` has 588895 bytes"), "{:?}", ended.notes);
    let (ended, _folder) = run("yes");
    assert_eq!(ended.exit_code, 141);
    let (ended, _folder) = run("yes | wc -l");
    assert!(ended.notes[0].contains("a pipe takes 8 MiB"), "{:?}", ended.notes);
}

#[test]
fn nothing_outside_of_the_workspace_is_touched() {
    let outside = tempfile::tempdir().unwrap();
    let inside = outside.path().join("workspace");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(outside.path().join("kept.txt"), "kept").unwrap();
    std::fs::write(inside.join("own.txt"), "own").unwrap();
    let scripts = [
        "rm -rf /",
        "rm -rf /*",
        "rm -rf ..",
        "rm -rf ../*",
        "rm -f ../kept.txt",
        "echo x > ../kept.txt",
        "echo x >> /etc/passwd",
        "cat < /etc/passwd",
        "cat ../kept.txt",
        "cp own.txt ../kept.txt",
        "mv own.txt /var/tmp/",
        "mv own.txt /tmp/../",
        "rm -rf /tmp",
        "cd / && rm -rf *",
        "cd ..",
        "find / -delete",
        "sed -i s/kept/gone/ ../kept.txt",
        "tee ../kept.txt",
        "touch /x",
        "mkdir /x",
        "tar cf ../kept.txt own.txt",
        "tar xf a.tar -C /",
        "awk 'BEGIN { print 1 > \"../kept.txt\" }'",
        "sort -o ../kept.txt own.txt",
        "patch -i /etc/passwd",
        "ls /",
        "rm -rf /workspace",
        "rm -rf .",
        "gzip ../kept.txt",
        "sed -n 'w ../kept.txt' own.txt",
        "uniq own.txt ../kept.txt",
        "base64 ../kept.txt",
        "source ../kept.txt",
        "../kept.txt",
    ];
    for script in scripts {
        let ended = run_in(&inside, script);
        assert_ne!(ended.exit_code, 0, "{script}: {ended:?}");
        assert!(!ended.stderr.is_empty(), "{script}: {ended:?}");
        assert_eq!(std::fs::read_to_string(outside.path().join("kept.txt")).unwrap(), "kept", "{script}");
        assert_eq!(std::fs::read_to_string(inside.join("own.txt")).unwrap(), "own", "{script}");
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 2, "{script}");
    }
    let ended = run_in(&inside, "rm -rf own.txt; ls");
    assert_eq!((ended.exit_code, ended.stdout.as_str()), (0, ""));
}

#[test]
fn many_files_and_large_texts_are_taken_or_refused() {
    let (ended, folder) = run("");
    for index in 0..5_000 {
        std::fs::write(folder.path().join(format!("{index}.txt")), "").unwrap();
    }
    assert_eq!(ended.exit_code, 0);
    let ended = run_in(folder.path(), "ls *.txt | wc -l; echo {1..3}{1..3} | wc -w");
    assert_eq!(ended.stdout, "5000\n9\n");
    let ended = run_in(folder.path(), "echo {1..1000}{1..1000}");
    assert_ne!(ended.exit_code, 0);
    let text = "a line of a large here-document\n".repeat(30_000);
    let ended = run_in(folder.path(), &format!("wc -l <<E\n{text}E\n"));
    assert_eq!((ended.exit_code, ended.stdout.as_str()), (0, "30000\n"));
    let ended = run_in(
        folder.path(),
        "x=aaaaaaaaaa; for i in 1 2 3 4 5; do x=$x$x$x$x$x$x$x$x$x$x; done; echo ${#x}",
    );
    assert_eq!(ended.stdout, "1000000\n");
    let ended = run_in(folder.path(), "echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa! | grep -E '(a+)+\\1$'");
    assert_ne!(ended.exit_code, 0);
    let ended = run_in(folder.path(), "printf '%999999999d' 1 | wc -c; awk 'BEGIN { $999999999 = 1 }'");
    assert!(ended.stdout.len() < 20 && ended.exit_code == 2, "{ended:?}");
}

#[test]
fn more_paths_than_the_limit_are_an_error_and_never_cut() {
    let folder = tempfile::tempdir().unwrap();
    for (inside, count) in [(".", 6), ("few/deep", 6), ("two/a", 5), ("two/b", 5)] {
        let inside = folder.path().join(inside);
        std::fs::create_dir_all(&inside).unwrap();
        (0..count).for_each(|index| std::fs::write(inside.join(format!("{index}.txt")), "x\n").unwrap());
    }
    let run =
        |max_paths, script: &str| run_limited(folder.path(), script, |files| files.max_paths = max_paths);
    let scripts = [
        ("echo *", 1),
        ("for path in 1*; do echo $path; done", 1),
        ("names=(*.txt); echo ${#names[@]}", 1),
        ("echo */*/*", 1),
        ("shopt -s globstar; echo **", 1),
        ("ls", 1),
        ("find .", 1),
        ("find . -name 1.txt", 1),
        ("find few -empty", 1),
        ("grep -rl x .", 2),
        ("grep -r none .", 2),
        ("tar cf a.tar few", 2),
        ("diff -r . few", 2),
        // No folder of these has too many, and all together do.
        ("echo two/*/*", 1),
        ("shopt -s globstar; echo two/**", 1),
        ("find two", 1),
        ("grep -rl x two", 2),
        ("tar cf a.tar two", 2),
    ];
    for (script, status) in scripts {
        let ended = run(5, script);
        assert_eq!(ended.exit_code, status, "{script}: {ended:?}");
        assert!(ended.stderr.contains("more than 5 "), "{script}: {ended:?}");
        let names_way_out = ["in smaller folders", "one by one"].iter().any(|way| ended.stderr.contains(way));
        assert!(names_way_out, "{script}: {ended:?}");
        let ended = run(100, script);
        assert!(!ended.stderr.contains("more than"), "{script}: {ended:?}");
    }
    let ended = run(5, "rm *; echo after");
    assert_eq!((ended.exit_code, ended.stdout.as_str()), (1, ""));
    assert!(folder.path().join("0.txt").exists());
    let ended = run(100, "echo few/* none/*; echo *.txt; find few -name 1.txt; grep -rl x two | wc -l");
    let expected = "few/deep none/*\n0.txt 1.txt 2.txt 3.txt 4.txt 5.txt\nfew/deep/1.txt\n10\n";
    assert_eq!((ended.exit_code, ended.stdout.as_str()), (0, expected));
}

#[test]
fn braces_with_too_many_words_are_an_error() {
    for braces in ["{1..200000}", "{-9223372036854775808..9223372036854775807}", "x{1..400}{1..400}"] {
        let (ended, _folder) = run(&format!("for i in {braces}; do echo $i; done; echo after"));
        assert_eq!((ended.exit_code, ended.stdout.as_str()), (1, ""), "{braces}");
        assert!(ended.stderr.contains("more than 100000 words"), "{braces}: {ended:?}");
    }
    let (ended, _folder) =
        run("echo {1..99999} | wc -w; echo {9223372036854775806..9223372036854775807} {3..1..2} {x} {1..}");
    assert_eq!(ended.stdout, "99999\n9223372036854775806 9223372036854775807 3 1 {x} {1..}\n");
}

#[test]
fn an_error_in_the_words_of_a_compound_command_is_told_and_ends_its_subshell_alone() {
    let scripts = [
        ("for i in $((1/0)); do echo $i; done; echo after", 1, ""),
        ("case $((1/0)) in *) echo x;; esac; echo after", 1, ""),
        ("a=$((1/0)) env; echo after", 1, ""),
        ("(case $((1/0)) in *) echo x;; esac); echo after $?", 0, "after 1\n"),
        ("echo $(for i in $((1/0)); do echo $i; done) inner; echo after $?", 0, "inner\nafter 0\n"),
        ("for ((i=1/0;;)); do echo x; done; echo after $?", 0, "after 1\n"),
        ("for ((i=0; i<2; i++)); do echo $i; done", 0, "0\n1\n"),
        (
            "readonly i=1; for i in 2; do echo $i; done 2>&1 | cat; echo after",
            0,
            "i: readonly variable\nafter\n",
        ),
    ];
    for (script, exit_code, stdout) in scripts {
        let (ended, _folder) = run(script);
        assert_eq!((ended.exit_code, ended.stdout.as_str()), (exit_code, stdout), "{script}: {ended:?}");
        assert_eq!(ended.stderr.contains("division by 0"), script.contains("1/0"), "{script}: {ended:?}");
        assert!(ended.notes.is_empty(), "{script}: {ended:?}");
    }
}

/// Rust formats no wider text.
#[test]
fn a_width_beyond_the_largest_is_cut() {
    let (ended, _folder) = run("printf '%.70000d' 1 | wc -c; seq -f '%.70000g' 1 1 | wc -l");
    assert_eq!(ended.stdout.split_whitespace().collect::<Vec<_>>(), ["65535", "1"], "{ended:?}");
}

#[test]
fn a_malformed_header_of_a_patch_is_an_error() {
    let (ended, _folder) = run("printf 'a\\n' > a; printf -- '--- a\\n+++ a\\n@@ é\\n' | patch a");
    assert_ne!(ended.exit_code, 0, "{ended:?}");
    assert!(!ended.stderr.is_empty(), "{ended:?}");
}
