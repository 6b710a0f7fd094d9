//! `/tmp`: files in memory, for the length of a call.

use super::{run, run_in};

#[test]
fn files_of_tmp_are_there_for_one_call() {
    let script = "echo one > /tmp/a; echo two >> /tmp/a; mkdir -p /tmp/d/e; cp /tmp/a /tmp/d/e/b; cd /tmp; ls; cat d/e/b
        find /tmp -type f | sort; echo /tmp/d/*/b; [ -f /tmp/a ] && [ -d /tmp/d ] && [ ! -e /tmp/none ] && echo tested
        sed -i s/two/three/ a; grep -rn t /tmp/d; sort -r a -o /tmp/c; cat c; wc -c < /tmp/c; tar cf t.tar d; tar tf t.tar
        mv d moved; ls moved/e; rm -r moved; ls; touch -d 2020-01-02 a; date -r a +%F; pwd";
    let expected = "a\nd\none\ntwo\n/tmp/a\n/tmp/d/e/b\n/tmp/d/e/b\ntested\n/tmp/d/e/b:2:two\nthree\none\n10\nd/\nd/e/\nd/e/b\nb\n\
        a\nc\nt.tar\n2020-01-02\n/tmp\n";
    let (ended, folder) = run(script);
    assert_eq!((ended.stderr.as_str(), ended.stdout.as_str()), ("", expected));
    let ended = run_in(folder.path(), "ls /tmp | wc -l; cat /tmp/a");
    assert_eq!((ended.exit_code, ended.stdout.as_str()), (1, "0\n"));
    assert!(ended.stderr.contains("No such file"), "{ended:?}");
}

#[test]
fn files_move_between_tmp_and_the_workspace() {
    let script = "mkdir -p in/deep; echo x > in/deep/f; mv in /tmp/; ls; cat /tmp/in/deep/f; cp -r /tmp/in out; cat out/deep/f
        mv /tmp/in/deep/f g; cat g; ls /tmp/in/deep | wc -l; mkdir /tmp/full full; touch /tmp/full/a full/b; mv -T /tmp/full full; echo $?; ls /tmp/full";
    let (ended, _folder) = run(script);
    assert_eq!(ended.stdout, "x\nx\nx\n0\n1\na\n");
    assert!(ended.stderr.contains("cannot move '/tmp/full': Directory not empty"), "{ended:?}");
}

#[test]
fn mktemp_makes_files_in_tmp() {
    let script = "f=$(mktemp); d=$(mktemp -d); echo $f $d | sed 's/[a-z0-9]*\\( \\|$\\)/X\\1/g'; echo x > $f; cat $f; ls -d $d | wc -l
        mktemp -p . a.XXXXXX.txt | cut -c 1-4; g=$(mktemp --suffix=.json b.XXXX); ls | wc -l; echo ${g##*.}; mktemp aXX; echo $?; mktemp -u | cut -c1-9";
    let (ended, _folder) = run(script);
    assert_eq!(ended.stdout, "/tmp/tmp.X /tmp/tmp.X\nx\n1\n./a.\n2\njson\n1\n/tmp/tmp.\n", "{ended:?}");
    assert!(ended.stderr.contains("too few X's"), "{ended:?}");
}

#[test]
fn a_handle_outlives_the_path_of_its_file() {
    let script = "exec 3> /tmp/a; echo 1 >&3; mv /tmp/a /tmp/b; echo 2 >&3; cat /tmp/b; rm /tmp/b; echo 3 >&3; ls /tmp | wc -l
        { echo long; echo x > /tmp/c; echo y; } > /tmp/c; tr '\\0' . < /tmp/c";
    let (ended, _folder) = run(script);
    assert_eq!(ended.stdout, "1\n2\n0\nx\n...y\n", "{ended:?}");
}

#[test]
fn tmp_has_a_limit_and_gives_back_what_is_removed() {
    let (ended, _folder) = run(
        "seq 900000 > /tmp/a && cp /tmp/a /tmp/b; cp /tmp/a /tmp/c; echo $?; rm /tmp/*; cp /dev/null /tmp/a; seq 900000 > /tmp/c; echo $?",
    );
    assert_eq!(ended.stdout, "1\n0\n", "{ended:?}");
    assert!(ended.stderr.contains("No space left on device: /tmp takes 16 MiB in a call"), "{ended:?}");
    let (ended, _folder) =
        run("exec 3>/tmp/a; rm /tmp/a; seq 900000 >&3; seq 900000 >&3; seq 900000 >&3; echo $?");
    assert_eq!(ended.stdout, "1\n", "{ended:?}");
    let (ended, _folder) = run("i=0; while touch /tmp/$((i++)); do :; done 2>&1; echo $i");
    assert!(ended.stdout.contains("No space left on device"), "{ended:?}");
}

#[test]
fn wrong_paths_of_tmp_are_errors_as_on_a_disk() {
    let scripts = [
        ("echo x > /tmp/none/a", "No such file or directory"),
        ("touch /tmp/a; echo x > /tmp/a/b", "Not a directory"),
        ("mkdir /tmp/a; echo x > /tmp/a", "Is a directory"),
        ("mkdir /tmp/a; mkdir /tmp/a", "File exists"),
        ("mkdir -p /tmp/a/b; rmdir /tmp/a", "Directory not empty"),
        ("touch /tmp/a; rmdir /tmp/a", "Not a directory"),
        ("mkdir /tmp/a; rm /tmp/a", "Is a directory"),
        ("mkdir /tmp/a; mv /tmp/a /tmp/a/b", "into itself"),
        ("rm -rf /tmp", "it stays"),
        ("cat /tmp", "Is a directory"),
        ("cat /tmpfile", "Permission denied: only the files of the workspace and of /tmp are there"),
    ];
    for (script, message) in scripts {
        let (ended, _folder) = run(script);
        assert_ne!(ended.exit_code, 0, "{script}: {ended:?}");
        assert!(ended.stderr.contains(message), "{script}: {ended:?}");
    }
}
