//! Work that must not hold up the thread that it falls to: done on a thread of its own, before the program ends.

use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// How many are at work.
static AT_WORK: Mutex<usize> = Mutex::new(0);
static DONE: Condvar = Condvar::new();
/// So long the end of the program waits for them.
const PATIENCE: Duration = Duration::from_secs(2);

/// Does this on a thread of its own. The program ends after it, unless by a signal. Without a thread it is not done.
pub(crate) fn aside(work: impl FnOnce() + Send + 'static) {
    static AWAITED: Once = Once::new();
    AWAITED.call_once(|| {
        // SAFETY: the function is of the type that is asked for, and lives as long as the program. Where it cannot be
        // registered the program ends without waiting.
        unsafe { libc::atexit(wait) };
    });
    let one = One::new();
    // What of it is dropped where there is no thread ends by that.
    let _ = Builder::new().name("hotloop-aside".into()).spawn(move || {
        work();
        drop(one);
    });
}

/// One that is at work.
struct One;

impl One {
    fn new() -> Self {
        *at_work() += 1;
        Self
    }
}

impl Drop for One {
    fn drop(&mut self) {
        *at_work() -= 1;
        DONE.notify_all();
    }
}

fn at_work() -> MutexGuard<'static, usize> {
    AT_WORK.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn wait() {
    let _ = DONE.wait_timeout_while(at_work(), PATIENCE, |n| *n > 0);
}
