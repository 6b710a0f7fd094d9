//! Archives that come back as they were, and archives that were made to do harm.

use std::fs;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::{Folder, folder, lines};

fn put(folder: &Folder, name: &str, bytes: &[u8]) {
    fs::write(folder.folder.path().join(name), bytes).unwrap();
}

fn refusal(folder: &Folder, archive: &str) -> String {
    let before = folder.all();
    let told = folder.workspace.unpack(archive, "out/here").unwrap_err().message().to_owned();
    assert_eq!(folder.all(), before, "{told}");
    told
}

fn zip_of(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in entries {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// A tar archive whose names are written past the checks of the crate.
fn tar_of(entries: &[(&[u8], tar::EntryType, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, kind, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name);
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    gzip(&bytes)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn what_is_packed_is_unpacked_as_it_was() {
    for archive in ["x.zip", "x.tar.gz", "sub/x.TGZ"] {
        let long = format!("src/{}/{}.txt", "d".repeat(120), "ü".repeat(60));
        let folder =
            folder(&[("src/a.txt", &lines(5_000)), ("src/sub/empty", ""), (&long, "deep"), ("b.txt", "b")]);
        fs::create_dir(folder.folder.path().join("src/nothing")).unwrap();

        let packed =
            folder.workspace.pack(&["src".to_owned(), "b.txt".to_owned()], archive, ".", false).unwrap();
        assert_eq!((packed.files, packed.folders), (4, 4), "{archive}");
        let unpacked = folder.workspace.unpack(archive, "out/here").unwrap();
        assert_eq!((unpacked.files, unpacked.folders, unpacked.bytes), (4, 4, packed.bytes), "{archive}");

        assert_eq!(folder.text("out/here/src/a.txt"), lines(5_000));
        assert_eq!(folder.text(&format!("out/here/{long}")), "deep");
        assert!(folder.folder.path().join("out/here/src/nothing").is_dir());
        assert!(folder.all().iter().all(|path| !path.ends_with('~')), "{:?}", folder.all());
    }
}

#[test]
fn t7_what_would_not_be_unpacked_is_not_packed() {
    let deep = format!("{}x", "d/".repeat(64));
    for name in ["a\nb", "f/a\tb", "a\\b", "C:x", &deep] {
        let folder = folder(&[(name, "x"), ("ok", "")]);
        let top = name.split('/').next().unwrap().to_owned();
        for archive in ["x.zip", "x.tgz"] {
            let before = folder.all();
            let refused =
                folder.workspace.pack(&[top.clone(), "ok".to_owned()], archive, ".", false).unwrap_err();
            assert!(refused.message().contains("`unpack` would refuse it"), "{refused}");
            assert_eq!(folder.all(), before);
        }
    }
    let folder = folder(&[]);
    fs::create_dir_all(folder.folder.path().join("a/b")).unwrap();
    for number in 0..1_999 {
        fs::write(folder.folder.path().join(format!("a/b/{number}")), "").unwrap();
    }
    let pack = |base| folder.workspace.pack(&["a/b".to_owned()], "x.zip", base, true);
    let refused = pack(".").unwrap_err();
    assert!(refused.message().contains("2000 files and folders"), "the folder `a` counts too: {refused}");
    pack("a").unwrap();
    assert_eq!(folder.workspace.unpack("x.zip", "out").unwrap().files, 1_999);
}

#[test]
fn t7_an_archive_that_is_too_much_to_unpack_is_told_so_when_it_is_packed() {
    let folder = folder(&[]);
    for (mib, is_told) in [(10, false), (11, true)] {
        put(&folder, "a", &vec![b'x'; mib * 1024 * 1024]);
        let packed = folder.workspace.pack(&["a".to_owned()], "x.zip", ".", true).unwrap();

        assert_eq!(packed.note.is_some(), is_told, "{mib} MiB: {packed:?}");
        assert_eq!(folder.workspace.unpack("x.zip", "out").is_err(), is_told, "{mib} MiB");
    }
}

#[test]
fn t7_archives_of_other_kinds_are_told_by_their_names() {
    let folder = folder(&[]);
    let tar = tar_of(&[(b"a", tar::EntryType::Regular, b"x")]);
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(tar.as_slice()), &mut plain).unwrap();
    for (bytes, expected) in [
        (
            gzip(lines(1_000).as_bytes()),
            "it is a single file compressed with gzip, and no tar archive is in it; have it packed anew",
        ),
        (gzip(b"short"), "it is a single file compressed with gzip"),
        (gzip(b""), "it is a single file compressed with gzip"),
        (plain, "is a tar archive without gzip, which is not unpacked here"),
        (b"BZh91AY".to_vec(), "is a bzip2 file"),
        (b"\xfd7zXZ\0".to_vec(), "is an xz file"),
        (b"7z\xbc\xaf\x27\x1c".to_vec(), "is a 7z archive"),
        (b"Rar!\x1a\x07".to_vec(), "is a rar archive"),
        (b"\x28\xb5\x2f\xfd".to_vec(), "is a zstd file"),
        (
            zip_by_method(12),
            "a file in it is compressed by `Bzip2`, which is not known here; have it packed anew",
        ),
        (zip_by_method(14), "a file in it is compressed by `Lzma`"),
        (zip_by_method(77), "a file in it is compressed by `Unknown`"),
    ] {
        put(&folder, "x", &bytes);
        let told = refusal(&folder, "x");
        assert!(told.contains(expected) && !told.contains("damaged"), "{told}");
    }
    // Tars are older than their mark, and one of nothing is only its end.
    let mut unmarked = tar_of_old();
    put(&folder, "x", &gzip(&unmarked));
    assert_eq!(folder.workspace.unpack("x", "old").unwrap().files, 1);
    unmarked.fill(0);
    put(&folder, "x", &gzip(&unmarked));
    assert_eq!(folder.workspace.unpack("x", "none").unwrap().files, 0);
}

/// A zip archive that says it is compressed in this way.
fn zip_by_method(method: u8) -> Vec<u8> {
    let mut zip = zip_of(&[("a", b"x")]);
    let central = memchr::memmem::find(&zip, b"PK\x01\x02").unwrap();
    zip[8] = method;
    zip[central + 10] = method;
    zip
}

/// A tar archive as the seventh edition of Unix made it.
fn tar_of_old() -> Vec<u8> {
    let mut header = tar::Header::new_old();
    header.set_path("a").unwrap();
    header.set_size(0);
    header.set_mode(0o644);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.resize(1536, 0);
    bytes
}

#[test]
fn the_same_files_give_the_same_bytes() {
    let folder = folder(&[("a.txt", "a"), ("f/b.txt", "b")]);
    for ending in ["zip", "tar.gz"] {
        let name = |number| format!("{number}.{ending}");
        folder.workspace.pack(&["a.txt".to_owned(), "f".to_owned()], &name(1), ".", false).unwrap();
        folder
            .workspace
            .pack(&["f".to_owned(), "a.txt".to_owned(), "f/b.txt".to_owned()], &name(2), ".", false)
            .unwrap();

        let read = |number| fs::read(folder.folder.path().join(name(number))).unwrap();
        assert_eq!(read(1), read(2));
    }
}

#[test]
fn names_count_from_the_base_and_an_archive_never_holds_itself() {
    let folder = folder(&[("docs/a.md", "a"), ("docs/old.zip", "x")]);

    let packed = folder.workspace.pack(&["docs".to_owned()], "docs/old.zip", "docs", true).unwrap();
    assert_eq!((packed.files, packed.folders), (1, 0));
    folder.workspace.unpack("docs/old.zip", "out").unwrap();
    assert_eq!(folder.text("out/a.md"), "a");

    let told = |paths: &[&str], archive, base| {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        folder.workspace.pack(&paths, archive, base, false).unwrap_err().message().to_owned()
    };
    assert!(told(&["docs"], "x.rar", ".").contains("end it in `.zip`"));
    assert!(told(&["docs"], "docs/old.zip", ".").contains("set `overwrite`"));
    assert!(told(&["docs"], "x.zip", "out").contains("does not lie in `base`"));
    assert!(told(&["doks"], "x.zip", ".").contains("did you mean `docs`?"));
    assert!(told(&[], "x.zip", ".").contains("nothing to pack"));
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for (name, reason) in [
        ("../x", "leads out of its folder"),
        ("a/../../x", "leads out of its folder"),
        ("/etc/x", "is absolute"),
        ("..\\x", "is one of Windows"),
        ("C:x", "is one of Windows"),
        ("a\nb", "has control characters"),
        ("", "is no name"),
        ("./.", "is no name"),
    ] {
        let folder = folder(&[]);
        put(&folder, "x.tar.gz", &tar_of(&[(name.as_bytes(), tar::EntryType::Regular, b"x")]));
        let told = refusal(&folder, "x.tar.gz");
        assert!(told.contains(reason), "{name:?}: {told}");

        // The crate that writes zips mends names, so a harmless one of the same length is overwritten.
        let harmless = "q".repeat(name.len().max(1));
        let mut zip = zip_of(&[(&harmless, b"x")]);
        for place in memchr::memmem::find_iter(&zip.clone(), &harmless) {
            zip[place..place + name.len()].copy_from_slice(name.as_bytes());
        }
        if !name.is_empty() {
            put(&folder, "x.zip", &zip);
            let told = refusal(&folder, "x.zip");
            assert!(told.contains(reason), "{name:?}: {told}");
        }
    }
    let folder = folder(&[]);
    put(&folder, "x.tar.gz", &tar_of(&[(b"a\xff", tar::EntryType::Regular, b"x")]));
    assert!(refusal(&folder, "x.tar.gz").contains("is not UTF-8"));
}

#[test]
fn links_and_devices_are_refused() {
    use tar::EntryType;

    let folder = folder(&[]);
    for kind in [EntryType::Symlink, EntryType::Link, EntryType::Fifo, EntryType::Block, EntryType::GNUSparse]
    {
        put(&folder, "x.tar.gz", &tar_of(&[(b"ok", EntryType::Regular, b"x"), (b"bad", kind, b"")]));
        let told = refusal(&folder, "x.tar.gz");
        assert!(told.contains("`bad` in it is a link"), "{kind:?}: {told}");
    }
    let mut writer = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    writer.add_symlink("bad", "/etc/passwd", SimpleFileOptions::default()).unwrap();
    put(&folder, "x.zip", &writer.finish().unwrap().into_inner());
    assert!(refusal(&folder, "x.zip").contains("`bad` in it is a link"));
}

#[test]
fn the_same_name_twice_is_refused() {
    use tar::EntryType::{Directory, Regular};

    let folder = folder(&[]);
    for (entries, reason) in [
        (&[(&b"a"[..], Regular, &b"1"[..]), (b"./a", Regular, b"2")][..], "`a` is in it twice"),
        (&[(b"a", Regular, b"1"), (b"a/b", Regular, b"2")], "`a` in it is a file and a folder"),
        (&[(b"a/b", Regular, b"1"), (b"a", Regular, b"2")], "`a` is in it twice"),
        (&[(b"a", Regular, b"1"), (b"a/", Directory, b"")], "`a` in it is a file and a folder"),
    ] {
        put(&folder, "x.tar.gz", &tar_of(entries));
        let told = refusal(&folder, "x.tar.gz");
        assert!(told.contains(reason), "{told}");
    }
}

#[test]
fn t7_a_zip_with_the_same_name_twice_is_refused() {
    let folder = folder(&[]);
    let twice = |bytes: Vec<u8>| {
        let mut bytes = bytes;
        while let Some(at) = memchr::memmem::find(&bytes, b"name2") {
            bytes[at + 4] = b'1';
        }
        bytes
    };
    put(&folder, "x.zip", &twice(zip_of(&[("name1", b"1"), ("b", b"b"), ("name2", b"2")])));
    let told = refusal(&folder, "x.zip");
    assert!(told.contains("a name is in it twice"), "{told}");

    put(&folder, "y.zip", &zip_of(&[("name1", b"1"), ("b", b"b"), ("name2", b"2")]));
    assert_eq!(folder.workspace.unpack("y.zip", "y").unwrap().files, 3);
}

/// A PAX header as node-tar and npm write it: name and size of the entry that follows.
fn pax(records: &[(&str, &str)]) -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in records {
        let rest = format!(" {key}={value}\n");
        let length = (rest.len()..).find(|length| length.to_string().len() + rest.len() == *length).unwrap();
        text.extend_from_slice(format!("{length}{rest}").as_bytes());
    }
    text
}

#[test]
fn a_size_in_a_pax_header_is_the_size_of_its_file() {
    use tar::EntryType::{Regular, XHeader};

    let long = format!("{}.txt", "n".repeat(120));
    let folder = folder(&[]);
    let unpack = |note: &[(&str, &str)], content: &[u8]| {
        put(
            &folder,
            "x.tgz",
            &tar_of(&[(b"PaxHeader", XHeader, &pax(note)), (b"a", Regular, content), (b"b", Regular, b"z")]),
        );
        folder.workspace.unpack("x.tgz", "out").map_err(|error| error.message().to_owned())
    };
    for name in ["é.txt", long.as_str()] {
        unpack(&[("path", name), ("size", "2"), ("mtime", "1.5")], b"hi").unwrap();
        assert_eq!(folder.text(&format!("out/{name}")), "hi");
        assert_eq!(folder.text("out/b"), "z");
        std::fs::remove_dir_all(folder.folder.path().join("out")).unwrap();
    }
    for (size, told) in [
        ("8589934592", "more than 10 MiB"),
        ("3", "a file in it has two sizes, 3 and 2 bytes"),
        ("x", "the size of a file in it is no number"),
    ] {
        assert!(unpack(&[("size", size)], b"hi").unwrap_err().contains(told), "{size}");
    }
}

#[test]
fn bombs_end_at_the_limits() {
    use tar::EntryType::{GNULongName, Regular, XHeader};

    let folder = folder(&[]);
    let zeros = vec![0; 17 * 1024 * 1024];
    put(&folder, "x.zip", &zip_of(&[("a", &zeros)]));
    assert!(refusal(&folder, "x.zip").contains("more than 10 MiB"));
    put(&folder, "x.tar.gz", &tar_of(&[(b"a", Regular, &zeros)]));
    assert!(refusal(&folder, "x.tar.gz").contains("more than 10 MiB"));
    for kind in [GNULongName, XHeader] {
        put(&folder, "x.tar.gz", &tar_of(&[(b"a", kind, &zeros)]));
        let told = refusal(&folder, "x.tar.gz");
        assert!(told.contains("longer than any name"), "{told}");
    }

    let names: Vec<String> = (0..2_001).map(|number| format!("{number}")).collect();
    let entries: Vec<_> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    put(&folder, "x.zip", &zip_of(&entries));
    assert!(refusal(&folder, "x.zip").contains("more than 2000 files"));
    let entries: Vec<_> = names.iter().map(|name| (name.as_bytes(), Regular, &b""[..])).collect();
    put(&folder, "x.tar.gz", &tar_of(&entries));
    assert!(refusal(&folder, "x.tar.gz").contains("more than 2000 files"));
}

#[test]
fn a_damaged_archive_leaves_nothing_behind() {
    let folder = folder(&[("a.txt", &lines(20_000))]);
    for name in ["x.zip", "x.tar.gz"] {
        folder.workspace.pack(&["a.txt".to_owned()], name, ".", false).unwrap();
        let whole = fs::read(folder.folder.path().join(name)).unwrap();
        put(&folder, name, &whole[..whole.len() / 2]);
        let told = refusal(&folder, name);
        assert!(told.contains("damaged") || told.contains("cannot be read"), "{name}: {told}");

        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 0x55;
        put(&folder, name, &flipped);
        refusal(&folder, name);
    }
    put(&folder, "x.zip", b"no archive");
    assert!(refusal(&folder, "x.zip").contains("neither zip nor gzip"));
    put(&folder, "x.zip", b"");
    refusal(&folder, "x.zip");
    put(&folder, "x.tar.gz", &gzip(b"no archive inside"));
    refusal(&folder, "x.tar.gz");
}

#[test]
fn t7_what_stands_behind_a_gzip_stream_counts() {
    use tar::EntryType::Regular;

    let folder = folder(&[]);
    let whole = tar_of(&[(b"a", Regular, b"x")]);
    let (before_sums, padding) = (whole.len() - 8, vec![0; 100_000]);
    let flipped = |bytes: &[u8], at: usize| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        bytes
    };
    let more = gzip(b"more");
    let is_damaged = |bytes: Vec<u8>, what: &str| {
        put(&folder, "x.tgz", &bytes);
        let told = refusal(&folder, "x.tgz");
        let is_told = told.starts_with("`x.tgz` cannot be read to its end: ")
            && told.ends_with("; it may be damaged or cut short");
        assert!(is_told, "{what}: {told}");
    };
    for at in 0..8 {
        is_damaged(flipped(&whole, before_sums + at), &format!("byte {at} of the sums"));
        is_damaged(whole[..before_sums + at].to_vec(), &format!("cut at byte {at} of the sums"));
        let of_another = flipped(&more, more.len() - 8 + at);
        is_damaged([&whole[..], &of_another].concat(), &format!("byte {at} of the sums of another member"));
    }
    is_damaged([&whole[..], &more[..more.len() - 1]].concat(), "another member, cut");
    is_damaged([&whole[..], &flipped(&more, 0)].concat(), "another member with a wrong mark");
    is_damaged([&whole[..], b"garbage"].concat(), "no member");
    is_damaged([&whole[..], &padding, b"garbage"].concat(), "no member behind zeros");

    for (number, bytes) in [
        whole.clone(),
        [&whole[..], &more, &more].concat(),
        [&whole[..], &gzip(b"")].concat(),
        [&whole[..], &padding].concat(),
        [&whole[..], &padding, &more].concat(),
    ]
    .into_iter()
    .enumerate()
    {
        put(&folder, "x.tgz", &bytes);
        assert_eq!(folder.workspace.unpack("x.tgz", &number.to_string()).unwrap().files, 1, "{number}");
    }
    // A zip of which a sum is wrong is told of alike.
    let zip = zip_of(&[("a", b"content")]);
    let at = memchr::memmem::find(&zip, b"PK\x01\x02").unwrap() + 16;
    is_damaged(flipped(&zip, at), "the sum of a zip");
}

#[test]
fn t7_what_stands_behind_the_end_of_a_tar_is_read_within_the_limits() {
    let folder = folder(&[]);
    let padded = |mib: usize| {
        let mut tar = tar_of_old();
        tar.resize(tar.len() + mib * 1024 * 1024, 0);
        gzip(&tar)
    };
    put(&folder, "x.tgz", &padded(1));
    assert_eq!(folder.workspace.unpack("x.tgz", "out").unwrap().files, 1);

    put(&folder, "x.tgz", &padded(20));
    let told = folder.workspace.unpack("x.tgz", "more").unwrap_err();
    assert!(told.message().contains("more than 10 MiB"), "{told}");
    assert_eq!(folder.all(), ["out", "out/a", "x.tgz"]);
}

#[test]
fn t7_a_name_that_is_told_is_the_one_to_give() {
    let folder = folder(&[("C:\\x", "x"), ("it's \"b\"\nc", "x")]);
    for number in 0..2 {
        let told = folder.workspace.pack(&[".".to_owned()], "x.zip", ".", false).unwrap_err();
        let name = told.message().split('`').nth(1).unwrap();
        folder.workspace.move_path(name, &number.to_string(), false).unwrap();
    }
    folder.workspace.pack(&[".".to_owned()], "x.zip", ".", false).unwrap();
}

#[test]
fn t7_a_name_in_an_archive_is_shown_as_it_is_as_far_as_it_can_be_seen() {
    let folder = folder(&[]);
    for (name, expected) in
        [("..\\it's", "`..\\it's` in it is one of Windows"), ("a\nb", "`a\\nb` in it has control")]
    {
        put(&folder, "x.tgz", &tar_of(&[(name.as_bytes(), tar::EntryType::Regular, b"x")]));
        let told = refusal(&folder, "x.tgz");
        assert!(told.contains(expected), "{told}");
    }
    put(&folder, "x.tgz", &tar_of(&[(b"it's\t\\", tar::EntryType::Symlink, b"")]));
    assert!(refusal(&folder, "x.tgz").contains("`it's\\t\\` in it is a link"));
}

#[test]
fn an_archive_is_unpacked_into_a_folder_of_its_own() {
    let folder = folder(&[("a.txt", "a"), ("full/b.txt", "b")]);
    fs::create_dir(folder.folder.path().join("empty")).unwrap();
    folder.workspace.pack(&["a.txt".to_owned()], "x.zip", ".", false).unwrap();

    for to in [".", "full", "a.txt"] {
        assert!(folder.workspace.unpack("x.zip", to).is_err(), "{to}");
    }
    folder.workspace.unpack("x.zip", "empty").unwrap();
    assert_eq!(folder.text("empty/a.txt"), "a");
}

#[test]
fn what_is_too_much_to_compress_is_put_together() {
    let folder = folder(&[("a.txt", &"a".repeat(5_000_000))]);
    for archive in ["x.zip", "x.tar.gz"] {
        let packed = folder.workspace.pack(&["a.txt".to_owned()], archive, ".", false).unwrap();
        assert!(!packed.compressed && packed.archive_bytes > 5_000_000);
        let to = format!("out-{archive}");
        assert_eq!(folder.workspace.unpack(archive, &to).unwrap().bytes, 5_000_000);
        folder.workspace.delete(&to, true).unwrap();
        folder.workspace.delete(archive, false).unwrap();
    }
    fs::write(folder.folder.path().join("b"), vec![0; 12 * 1024 * 1024]).unwrap();
    let refused =
        folder.workspace.pack(&["a.txt".to_owned(), "b".to_owned()], "x.zip", ".", false).unwrap_err();
    assert!(refused.message().contains("more than 16 MiB"), "{refused}");
    assert_eq!(folder.all(), ["a.txt", "b"]);
}
