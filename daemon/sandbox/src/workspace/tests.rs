//! The workspace as the host routes use it.

use super::host_files::CHUNK_BYTES;
use super::*;
use bytes::Bytes;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

const ROOMY: Quota = Quota { bytes: 1 << 20, files: 100 };

async fn open_workspace(folder: &TempDir, quota: Quota) -> Workspace {
    Workspace::open(folder.path(), quota, FilePool::default()).await.unwrap()
}

async fn fresh(quota: Quota) -> (TempDir, Workspace) {
    let folder = TempDir::new().unwrap();
    let workspace = open_workspace(&folder, quota).await;
    (folder, workspace)
}

async fn content(workspace: &Workspace, path: &str) -> Vec<u8> {
    workspace.read(path).await.unwrap().rest().await.unwrap()
}

fn refusal<T>(result: Result<T, WorkspaceError>) -> Refusal {
    match result {
        Err(WorkspaceError::Refused(refusal)) => refusal,
        Err(other) => panic!("failed otherwise: {other}"),
        Ok(_) => panic!("was not refused"),
    }
}

fn exceeded_quota<T>(result: Result<T, WorkspaceError>) -> QuotaKind {
    match result {
        Err(WorkspaceError::Quota(exceeded)) => exceeded.kind,
        Err(other) => panic!("failed otherwise: {other}"),
        Ok(_) => panic!("was not refused"),
    }
}

#[tokio::test]
async fn b4_a_link_in_place_of_the_workspace_is_not_followed() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("real")).unwrap();
    symlink("real", folder.path().join("link")).unwrap();
    let open = |name: &str| {
        let folder = folder.path().join(name);
        async move { Workspace::open(&folder, ROOMY, FilePool::default()).await }
    };
    let error = open("link").await.unwrap_err();
    assert!(
        matches!(&error, WorkspaceError::Io(cause) if cause.to_string().contains("symbolic link")),
        "{error}"
    );
    let mut known = open("real").await.unwrap().downgrade();
    assert!(known.reopen(&folder.path().join("link"), FilePool::default()).await.is_err());
    assert!(known.reopen(&folder.path().join("real"), FilePool::default()).await.is_ok());
}

/// A folder for uploads, beside the workspace.
fn uploads() -> (TempDir, std::path::PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("uploads");
    (folder, path)
}

#[tokio::test]
async fn b2_an_upload_appears_whole_and_a_dropped_one_leaves_nothing() {
    let ((_folder, workspace), (_uploads, uploads)) = (fresh(ROOMY).await, uploads());
    for _ in 0..2 {
        let mut upload = workspace.upload(&uploads, "a/b.txt", false).await.unwrap();
        upload.write("hello ".into()).await.unwrap();
        assert_eq!(fs::read_dir(&uploads).unwrap().count(), 1);
        upload.write("world".into()).await.unwrap();
        upload.finish().await.unwrap();
        assert_eq!(content(&workspace, "a/b.txt").await, b"hello world");
        assert_eq!(workspace.usage(), WorkspaceUsage { bytes: 11, files: 2 });
    }
    let mut dropped = workspace.upload(&uploads, "c", false).await.unwrap();
    dropped.write("gone".into()).await.unwrap();
    drop(dropped);
    let again = workspace.upload(&uploads, "a/b.txt", true).await.unwrap();
    assert!(matches!(again.finish().await, Err(WorkspaceError::Exists)));
    workspace.upload(&uploads, "empty", true).await.unwrap().finish().await.unwrap();
    assert_eq!(fs::read_dir(&uploads).unwrap().count(), 0);
    assert_eq!(workspace.usage(), WorkspaceUsage { bytes: 11, files: 3 });
    assert!(workspace.upload(&uploads, "../out", false).await.is_err());
}

#[tokio::test]
async fn b2_an_upload_holds_the_quotas_while_it_arrives() {
    let (_uploads, uploads) = uploads();
    let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let shared = Arc::new(SharedQuota::new(30));
    let one = Workspace::open_within(one.path(), Arc::clone(&shared), FilePool::default()).await.unwrap();
    let two = Workspace::open_within(two.path(), Arc::clone(&shared), FilePool::default()).await.unwrap();
    let one = one.with_lower_quota(Quota { bytes: 20, files: 2 });
    let mut upload = one.upload(&uploads, "a", false).await.unwrap();
    upload.write(Bytes::from_static(&[b'x'; 20])).await.unwrap();
    assert_eq!(exceeded_quota(upload.write("x".into()).await), QuotaKind::Bytes);
    assert_eq!(exceeded_quota(two.write("b", Bytes::from_static(&[b'x'; 11])).await), QuotaKind::SharedBytes);
    two.write("b", Bytes::from_static(&[b'x'; 10])).await.unwrap();
    upload.finish().await.unwrap();
    assert_eq!(shared.used_bytes(), 30);
    // A replacement needs room for both files until it is complete.
    let mut upload = one.upload(&uploads, "a", false).await.unwrap();
    assert_eq!(exceeded_quota(upload.write("x".into()).await), QuotaKind::SharedBytes);
    drop(upload);
    two.delete("b").await.unwrap();
    let mut upload = one.upload(&uploads, "a", false).await.unwrap();
    upload.write(Bytes::from_static(&[b'y'; 10])).await.unwrap();
    upload.finish().await.unwrap();
    assert_eq!((one.usage().bytes, shared.used_bytes()), (10, 10));
}

#[tokio::test]
async fn b4_what_is_written_is_read_listed_and_deleted() {
    let (_folder, workspace) = fresh(ROOMY).await;
    workspace.write("a/b/c.txt", Bytes::from_static(b"hello")).await.unwrap();
    assert_eq!(content(&workspace, "a/b/c.txt").await, b"hello");
    let listing = workspace.list().await.unwrap();
    let paths: Vec<_> = listing.entries.iter().map(|entry| (entry.path.as_str(), entry.bytes)).collect();
    assert_eq!(paths, [("a", 0), ("a/b", 0), ("a/b/c.txt", 5)]);
    assert_eq!(workspace.usage(), WorkspaceUsage { bytes: 5, files: 3 });
    for path in ["a/b/c.txt", "a/b", "a"] {
        workspace.delete(path).await.unwrap();
    }
    assert_eq!(workspace.usage(), WorkspaceUsage::default());
    assert!(matches!(workspace.read("a/b/c.txt").await, Err(WorkspaceError::NotFound)));
}

#[tokio::test]
async fn a_file_larger_than_a_piece_is_read_whole() {
    let (_folder, workspace) = fresh(ROOMY).await;
    let bytes: Vec<u8> = (0..=250).cycle().take(CHUNK_BYTES * 2 + 7).collect();
    workspace.write("big", bytes.clone().into()).await.unwrap();
    let reader = workspace.read("big").await.unwrap();
    assert_eq!(reader.bytes(), bytes.len() as u64);
    assert_eq!(reader.rest().await.unwrap(), bytes);
}

#[tokio::test]
async fn b4_paths_that_are_not_plain_are_refused() {
    let (_folder, workspace) = fresh(ROOMY).await;
    for (path, why) in [
        ("../x", Refusal::Spelling),
        ("a/../../x", Refusal::Spelling),
        ("a/./x", Refusal::Spelling),
        ("a//x", Refusal::Spelling),
        ("a/", Refusal::Spelling),
        ("/etc/passwd", Refusal::Absolute),
        ("", Refusal::Empty),
        ("a\0b", Refusal::Nul),
        (".toolgate-replace-x", Refusal::Reserved),
    ] {
        assert_eq!(refusal(workspace.write(path, Bytes::new()).await), why, "{path:?}");
        assert_eq!(refusal(workspace.read(path).await), why, "{path:?}");
        assert_eq!(refusal(workspace.delete(path).await), why, "{path:?}");
    }
    let long = "n".repeat(300);
    assert_eq!(refusal(workspace.write(&long, Bytes::new()).await), Refusal::TooLong);
    assert_eq!(workspace.usage(), WorkspaceUsage::default());
    workspace.write("a..b/.x\n", Bytes::new()).await.unwrap();
}

#[tokio::test]
async fn b4_planted_links_pipes_and_second_names_are_refused() {
    let outside = TempDir::new().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    let (folder, workspace) = fresh(ROOMY).await;
    symlink(&secret, folder.path().join("link")).unwrap();
    symlink(outside.path(), folder.path().join("out")).unwrap();
    fs::hard_link(&secret, folder.path().join("second")).unwrap();
    mknodat(CWD, folder.path().join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for path in ["link", "out/secret"] {
        assert_eq!(refusal(workspace.read(path).await), Refusal::Symlink, "{path}");
        assert_eq!(
            refusal(workspace.write(path, Bytes::from_static(b"x")).await),
            Refusal::Symlink,
            "{path}"
        );
    }
    assert_eq!(refusal(workspace.delete("out/secret").await), Refusal::Symlink);
    assert_eq!(refusal(workspace.read("second").await), Refusal::HardLinked);
    assert_eq!(refusal(workspace.read("pipe").await), Refusal::NotRegular);
    assert_eq!(refusal(workspace.write("pipe", Bytes::new()).await), Refusal::NotRegular);
    let shown: Vec<_> = workspace.list().await.unwrap().entries.into_iter().map(|entry| entry.path).collect();
    assert_eq!(shown, ["second"]);
    assert_eq!(fs::read(&secret).unwrap(), b"secret");

    // The same names, once they are plain files.
    fs::remove_file(&secret).unwrap();
    assert_eq!(content(&workspace, "second").await, b"secret");
    workspace.delete("link").await.unwrap();
    workspace.write("link", Bytes::from_static(b"x")).await.unwrap();
    assert_eq!(content(&workspace, "link").await, b"x");
}

#[tokio::test]
async fn b2_a_write_beyond_the_quota_leaves_nothing_behind() {
    let (folder, workspace) = fresh(Quota { bytes: 10, files: 3 }).await;
    workspace.write("old", Bytes::from_static(b"12345678")).await.unwrap();
    assert_eq!(exceeded_quota(workspace.write("new/x", Bytes::from_static(b"123")).await), QuotaKind::Bytes);
    assert_eq!(exceeded_quota(workspace.write("a/b/c", Bytes::new()).await), QuotaKind::Files);
    assert_eq!(workspace.usage(), WorkspaceUsage { bytes: 8, files: 1 });
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    workspace.write("new/x", Bytes::from_static(b"12")).await.unwrap();
    assert_eq!(workspace.usage(), WorkspaceUsage { bytes: 10, files: 3 });
}

#[tokio::test]
async fn b2_replacing_a_file_gives_its_room_back() {
    let (_folder, workspace) = fresh(Quota { bytes: 10, files: 1 }).await;
    for bytes in [&b"0123456789"[..], b"9876543210", b"12", b"", b"0123456789"] {
        workspace.write("one", Bytes::copy_from_slice(bytes)).await.unwrap();
        assert_eq!(workspace.usage(), WorkspaceUsage { bytes: bytes.len() as u64, files: 1 });
    }
    assert_eq!(
        exceeded_quota(workspace.write("one", Bytes::from_static(b"01234567890")).await),
        QuotaKind::Bytes
    );
    assert_eq!(content(&workspace, "one").await, b"0123456789");
}

#[tokio::test]
async fn b2_a_replaced_file_that_is_being_read_stays_counted_and_whole() {
    let (_folder, workspace) = fresh(Quota { bytes: 10, files: 2 }).await;
    workspace.write("one", Bytes::from_static(b"123456")).await.unwrap();
    let reader = workspace.read("one").await.unwrap();
    assert_eq!(exceeded_quota(workspace.write("one", Bytes::from_static(b"12345")).await), QuotaKind::Bytes);
    workspace.write("one", Bytes::from_static(b"abcd")).await.unwrap();
    assert_eq!(workspace.usage(), WorkspaceUsage { bytes: 10, files: 2 });
    assert_eq!(reader.rest().await.unwrap(), b"123456");
    assert_eq!(workspace.usage(), WorkspaceUsage { bytes: 4, files: 1 });
    workspace.write("one", Bytes::from_static(b"0123456789")).await.unwrap();
}

#[tokio::test]
async fn what_must_be_new_replaces_nothing() {
    let (_folder, workspace) = fresh(ROOMY).await;
    workspace.create("folder/file", Bytes::from_static(b"first")).await.unwrap();
    for path in ["folder/file", "folder"] {
        let again = workspace.create(path, Bytes::from_static(b"second")).await;
        assert!(matches!(again, Err(WorkspaceError::Exists)), "{path}: {again:?}");
    }
    assert_eq!(workspace.read("folder/file").await.unwrap().rest().await.unwrap(), b"first");
    workspace.write("folder/file", Bytes::from_static(b"third")).await.unwrap();
    assert_eq!(workspace.usage(), WorkspaceUsage { bytes: 5, files: 2 });
}

#[tokio::test]
async fn a_write_below_a_file_or_onto_a_folder_fails() {
    let (_folder, workspace) = fresh(ROOMY).await;
    workspace.write("folder/file", Bytes::new()).await.unwrap();
    assert!(matches!(workspace.write("folder", Bytes::new()).await, Err(WorkspaceError::IsDirectory)));
    assert!(matches!(
        workspace.write("folder/file/x", Bytes::new()).await,
        Err(WorkspaceError::NotDirectory)
    ));
    assert!(matches!(workspace.delete("folder").await, Err(WorkspaceError::NotEmpty)));
    assert!(matches!(workspace.read("folder").await, Err(WorkspaceError::IsDirectory)));
    assert_eq!(workspace.usage(), WorkspaceUsage { bytes: 0, files: 2 });
}

#[tokio::test]
async fn opening_counts_what_is_there_and_clears_what_a_crash_left() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    fs::write(folder.path().join("a/x"), "12345").unwrap();
    fs::write(folder.path().join(".toolgate-replace-0123"), "half").unwrap();
    let bad_name = std::ffi::OsStr::from_bytes(b"not \xff text");
    fs::write(folder.path().join(bad_name), "1").unwrap();
    symlink("/etc", folder.path().join("link")).unwrap();
    let workspace = open_workspace(&folder, ROOMY).await;
    assert_eq!(workspace.usage(), WorkspaceUsage { bytes: 6, files: 4 });
    let shown: Vec<_> = workspace.list().await.unwrap().entries.into_iter().map(|entry| entry.path).collect();
    assert_eq!(shown, ["a", "a/x", "not \u{fffd} text"]);
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_an_error_that_does_not_name_it() {
    let folder = TempDir::new().unwrap();
    let missing = folder.path().join("missing");
    let error = Workspace::open(&missing, ROOMY, FilePool::default()).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("missing"));
}

#[tokio::test]
async fn folders_nest_as_deep_as_the_limit_and_not_deeper() {
    let (_folder, workspace) = fresh(ROOMY).await;
    let deepest = vec!["d"; tree::DEPTH_MAX].join("/");
    workspace.write(&format!("{deepest}/x"), Bytes::new()).await.unwrap();
    let usage = workspace.usage();
    assert_eq!(refusal(workspace.write(&format!("{deepest}/d/x"), Bytes::new()).await), Refusal::TooDeep);
    assert_eq!(workspace.usage(), usage);
}

#[tokio::test]
async fn b2_a_narrowed_workspace_shares_the_counts() {
    let (_folder, workspace) = fresh(ROOMY).await;
    let narrow = workspace.with_lower_quota(Quota { bytes: 4, files: u64::MAX });
    assert_eq!(narrow.quota(), Quota { bytes: 4, files: ROOMY.files });
    workspace.write("a", Bytes::from_static(b"123")).await.unwrap();
    assert_eq!(exceeded_quota(narrow.write("b", Bytes::from_static(b"12")).await), QuotaKind::Bytes);
    workspace.write("b", Bytes::from_static(b"12")).await.unwrap();
    assert_eq!(narrow.usage(), WorkspaceUsage { bytes: 5, files: 2 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b2_many_writers_at_once_never_pass_the_quota() {
    let (folder, workspace) = fresh(Quota { bytes: 50, files: 100 }).await;
    let writers: Vec<_> = (0..20)
        .map(|number| {
            let workspace = workspace.clone();
            tokio::spawn(
                async move { workspace.write(&format!("f{number}"), Bytes::from_static(b"12345")).await },
            )
        })
        .collect();
    let mut written = 0;
    for writer in writers {
        written += u64::from(writer.await.unwrap().is_ok());
    }
    assert_eq!(written, 10);
    assert_eq!(workspace.usage(), WorkspaceUsage { bytes: 50, files: 10 });
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 10);
}
