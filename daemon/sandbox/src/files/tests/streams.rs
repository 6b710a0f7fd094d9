//! Streams of files.

use super::*;
use wasmtime_wasi::p2::Pollable;

async fn writer(guest: &mut Guest, path: &str) -> DynOutputStream {
    let fd = guest.create(path).await.unwrap();
    let stream = guest.view().write_via_stream(borrow(fd), 0).map_err(code).unwrap();
    guest.close(fd);
    guest.table.delete(stream).unwrap()
}

fn reader(guest: &mut Guest, fd: u32, offset: u64) -> DynInputStream {
    let stream = guest.view().read_via_stream(borrow(fd), offset).map_err(code).unwrap();
    guest.table.delete(stream).unwrap()
}

fn stream_code(guest: &mut Guest, error: StreamError) -> Option<ErrorCode> {
    let StreamError::LastOperationFailed(error) = error else { panic!("ended otherwise: {error}") };
    let error = guest.table.push(error).unwrap();
    types::Host::filesystem_error_code(&mut guest.view(), error).unwrap()
}

#[tokio::test]
async fn what_goes_in_by_a_stream_comes_out_by_one() {
    let mut guest = Guest::new(ROOMY).await;
    let mut stream = writer(&mut guest, "f").await;
    let bytes: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    stream.blocking_write_and_flush(bytes.clone().into()).await.unwrap();
    assert_eq!(guest.usage(), WorkspaceUsage { bytes: 200_000, files: 1 });
    let fd = guest.open("f", none(), READ).await.unwrap();
    let mut stream = reader(&mut guest, fd, 1);
    let mut read = Vec::new();
    let end = loop {
        match stream.blocking_read(1 << 20).await {
            Ok(chunk) => read.extend_from_slice(&chunk),
            Err(end) => break end,
        }
    };
    assert!(matches!(end, StreamError::Closed));
    assert_eq!(read, bytes[1..]);
}

#[tokio::test]
async fn a_guest_that_polls_reads_and_writes_too() {
    let mut guest = Guest::new(ROOMY).await;
    let mut stream = writer(&mut guest, "f").await;
    for chunk in [&b"hello "[..], b"world"] {
        assert_eq!(stream.check_write().unwrap(), 64 * 1024);
        stream.write(Bytes::copy_from_slice(chunk)).unwrap();
        stream.flush().unwrap();
        stream.ready().await;
    }
    stream.check_write().unwrap();
    for is_in_memory in [true, false] {
        let fd = guest.open("f", none(), READ).await.unwrap();
        if !is_in_memory {
            evict(&guest.folder.path().join("f"));
        }
        let mut stream = reader(&mut guest, fd, 0);
        assert_eq!(read_polling(&mut stream, 4).await, "hell");
        assert_eq!(read_polling(&mut stream, 100).await, "o world");
        stream.ready().await;
        assert!(matches!(stream.read(1), Err(StreamError::Closed)));
    }
}

/// Evicts a file from the page cache, if possible, so that reading it waits for the disk.
fn evict(path: &std::path::Path) {
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

/// Reads as a polling guest does: after an empty read it waits until the stream is ready.
async fn read_polling(stream: &mut DynInputStream, bytes: usize) -> Bytes {
    loop {
        let read = stream.read(bytes).unwrap();
        if !read.is_empty() {
            return read;
        }
        stream.ready().await;
    }
}

/// Copying is the host's work and burns no guest fuel.
#[tokio::test]
async fn b2_what_is_read_and_written_is_owed_as_fuel_whichever_way_it_goes() {
    const BYTES: usize = 4_000;
    const FUEL: u64 = 1_000;
    let (mut guest, meter) = Guest::with_meter(ROOMY).await;
    let fd = guest.create("f").await.unwrap();
    assert_eq!(meter.take_fuel(), 0, "opening moves nothing");
    guest.write(fd, &[1; BYTES], 0).await.unwrap();
    assert_eq!(meter.take_fuel(), FUEL, "a write");
    let mut stream = writer(&mut guest, "f").await;
    stream.blocking_write_and_flush(vec![1; BYTES].into()).await.unwrap();
    assert_eq!(meter.take_fuel(), FUEL, "a write by a stream");
    for is_in_memory in [true, false] {
        let forget = |guest: &Guest| {
            if !is_in_memory {
                evict(&guest.host("f"));
            }
        };
        forget(&guest);
        guest.view().read(borrow(fd), BYTES as u64, 0).await.map_err(code).unwrap();
        assert_eq!(meter.take_fuel(), FUEL, "a read, in memory: {is_in_memory}");
        forget(&guest);
        let mut stream = reader(&mut guest, fd, 0);
        assert_eq!(read_polling(&mut stream, BYTES).await.len(), BYTES);
        assert_eq!(meter.take_fuel(), FUEL, "a read by a stream, in memory: {is_in_memory}");
    }
}

#[tokio::test]
async fn b2_a_stream_stops_at_the_quota_and_the_guest_learns_why() {
    let mut guest = Guest::new(Quota { bytes: 10, files: 2 }).await;
    let mut stream = writer(&mut guest, "f").await;
    stream.blocking_write_and_flush("1234567890".into()).await.unwrap();
    let refused = stream.blocking_write_and_flush("x".into()).await.unwrap_err();
    assert_eq!(stream_code(&mut guest, refused), Some(ErrorCode::Quota));
    assert!(matches!(stream.check_write(), Err(StreamError::Closed)));
    assert!(matches!(stream.write("x".into()), Err(StreamError::Closed)));
    assert_eq!(guest.access.exceeded_limit(), Some(LimitName::WorkspaceBytes));
    assert_eq!(guest.get("f").await.unwrap(), b"1234567890");
    assert_eq!(guest.usage().bytes, 10);
}

#[tokio::test]
async fn appending_goes_to_the_end_whoever_wrote_last() {
    let mut guest = Guest::new(ROOMY).await;
    guest.put("f", b"1").await;
    let mut other = guest.sibling();
    let mut streams = Vec::new();
    for guest in [&mut guest, &mut other] {
        let fd = guest.open("f", none(), WRITE).await.unwrap();
        let stream = guest.view().append_via_stream(borrow(fd)).map_err(code).unwrap();
        streams.push(guest.table.delete(stream).unwrap());
    }
    for (at, chunk) in ["2", "3", "4", "5"].into_iter().enumerate() {
        streams[at % 2].blocking_write_and_flush(chunk.into()).await.unwrap();
    }
    assert_eq!(guest.get("f").await.unwrap(), b"12345");
    assert_eq!(guest.usage().bytes, 5);
}

#[tokio::test]
async fn b2_writing_nothing_does_nothing_however_often() {
    let mut guest = Guest::new(ROOMY).await;
    let mut stream = writer(&mut guest, "f").await;
    guest.access.take_effects();
    for _ in 0..10_000 {
        stream.write(Bytes::new()).unwrap();
    }
    stream.blocking_write_and_flush(Bytes::new()).await.unwrap();
    assert_eq!(guest.access.unfinished_operations(), 0);
    assert_eq!(guest.access.take_effects(), []);
    stream.blocking_write_and_flush("x".into()).await.unwrap();
    assert_eq!(guest.get("f").await.unwrap(), b"x");
}

#[tokio::test]
async fn b2_a_guest_that_does_not_wait_is_stopped() {
    let mut guest = Guest::new(ROOMY).await;
    let lock = guest.workspace.lock().await;
    let mut stream = {
        drop(lock);
        writer(&mut guest, "f").await
    };
    let lock = guest.workspace.lock().await;
    stream.write("x".into()).unwrap();
    assert_eq!(stream.check_write().unwrap(), 0);
    assert!(matches!(stream.write("y".into()), Err(StreamError::Trap(_))));
    drop(lock);
    let mut stream = writer(&mut guest, "g").await;
    let too_much = Bytes::from(vec![0; 64 * 1024 + 1]);
    assert!(matches!(stream.write(too_much), Err(StreamError::Trap(_))));
    stream.write(Bytes::from(vec![0; 64 * 1024])).unwrap();
    stream.ready().await;
    stream.check_write().unwrap();
}

#[tokio::test]
async fn a_dropped_stream_still_finishes_its_write() {
    let mut guest = Guest::new(ROOMY).await;
    let mut stream = writer(&mut guest, "f").await;
    stream.write("kept".into()).unwrap();
    stream.cancel().await;
    drop(stream);
    assert_eq!(guest.get("f").await.unwrap(), b"kept");
}

#[tokio::test]
async fn b2_a_stream_keeps_a_removed_file_counted() {
    let mut guest = Guest::new(Quota { bytes: 10, files: 2 }).await;
    let mut stream = writer(&mut guest, "f").await;
    stream.blocking_write_and_flush("12345".into()).await.unwrap();
    guest.unlink("f").await.unwrap();
    stream.blocking_write_and_flush("67890".into()).await.unwrap();
    assert!(stream.blocking_write_and_flush("x".into()).await.is_err());
    assert_eq!(guest.usage(), WorkspaceUsage { bytes: 10, files: 1 });
    drop(stream);
    assert_eq!(guest.usage(), WorkspaceUsage::default());
}

#[tokio::test]
async fn a_folder_has_no_streams() {
    let mut guest = Guest::new(ROOMY).await;
    let top = guest.top();
    assert_eq!(code(guest.view().read_via_stream(top, 0).err().unwrap()), ErrorCode::IsDirectory);
    let top = guest.top();
    assert_eq!(code(guest.view().write_via_stream(top, 0).err().unwrap()), ErrorCode::IsDirectory);
}
