//! Runs file operations in tokio's blocking threads, with a limit.
//!
//! A system call on a file cannot be cancelled: if a call is stopped at its deadline, an operation on a slow disk
//! continues in its thread. So every operation holds its permit inside the thread. An abandoned operation still counts
//! until it ends, and tokio's blocking pool, which others share, cannot run dry.

use std::io;
use std::sync::Arc;

use tokio::sync::Semaphore;

/// Concurrent file operations of all workspaces. Well below tokio's 512 blocking threads; more would not make a disk
/// faster.
const OPERATIONS_DEFAULT: usize = 64;

/// A limit on file operations, shared by all workspaces of a daemon.
#[derive(Clone, Debug)]
pub struct FilePool(Arc<Semaphore>);

impl FilePool {
    /// A pool with that many concurrent operations, at least one.
    pub fn new(operations: usize) -> Self {
        Self(Arc::new(Semaphore::new(operations.clamp(1, Semaphore::MAX_PERMITS))))
    }

    /// Runs `work` in a blocking thread. `kept` (locks, permits of the caller) is dropped when the work ends, which
    /// may be long after the returned future is dropped.
    pub(crate) async fn run<K, R>(&self, kept: K, work: impl FnOnce() -> R + Send + 'static) -> io::Result<R>
    where
        K: Send + 'static,
        R: Send + 'static,
    {
        let permit = Arc::clone(&self.0).acquire_owned().await.map_err(io::Error::other)?;
        let thread = tokio::task::spawn_blocking(move || {
            let result = work();
            drop((kept, permit));
            result
        });
        // Fails only if the runtime shuts down or the work panicked.
        thread.await.map_err(|_| io::Error::other("the file operation did not finish"))
    }
}

impl Default for FilePool {
    fn default() -> Self {
        Self::new(OPERATIONS_DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::mpsc;
    use std::task::Poll;

    #[tokio::test]
    async fn an_abandoned_operation_keeps_its_place_until_it_is_over() {
        let pool = FilePool::new(1);
        let (started, has_started) = tokio::sync::oneshot::channel();
        let (finish, may_finish) = mpsc::channel::<()>();
        let stuck = pool.run((), move || {
            started.send(()).unwrap();
            may_finish.recv().unwrap();
        });
        let mut stuck = Box::pin(stuck);
        poll_fn(|context| {
            assert!(stuck.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        has_started.await.unwrap();
        drop(stuck);
        assert_eq!(pool.0.available_permits(), 0);
        finish.send(()).unwrap();
        assert_eq!(pool.run((), || 7).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn work_that_panics_is_an_error_and_gives_its_place_back() {
        let pool = FilePool::new(1);
        let broken: io::Result<()> = pool.run((), || panic!("on purpose")).await;
        assert!(broken.is_err());
        assert_eq!(pool.run((), || 7).await.unwrap(), 7);
    }
}
