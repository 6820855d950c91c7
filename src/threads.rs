//! Work on several threads where the feature `parallel` is on, on one where it is not. What is done
//! is the same: results never depend on it.
//!
//! Work goes on to its end, unless it is done under a [`Stop`]: runs and studies look at it every millisecond or so, and
//! unwind from there. What is half done is dropped on the way, files that are half written are removed.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Does both, at once if there are threads to spare.
pub fn both<A: Send, B: Send>(
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B + Send,
) -> (A, B) {
    #[cfg(feature = "parallel")]
    {
        let stop = Stop::current();
        let under = stop.as_ref();
        rayon::join(move || first.under(under), move || second.under(under))
    }
    #[cfg(not(feature = "parallel"))]
    (first(), second())
}

/// Does it on one of the threads that share work: what it shares later starts among them.
pub fn within<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    both(work, || ()).0
}

/// Does the same with each of these.
pub fn for_each<T: Send>(items: &mut [T], work: impl Fn(&mut T) + Send + Sync) {
    #[cfg(feature = "parallel")]
    {
        let stop = Stop::current();
        let under = stop.as_ref();
        rayon::iter::ParallelIterator::for_each(
            rayon::iter::IntoParallelRefMutIterator::par_iter_mut(items),
            |item| (|| work(item)).under(under),
        );
    }
    #[cfg(not(feature = "parallel"))]
    items.iter_mut().for_each(work);
}

/// What each of these becomes, in their order.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Send + Sync) -> Vec<R> {
    #[cfg(feature = "parallel")]
    {
        let stop = Stop::current();
        let under = stop.as_ref();
        rayon::iter::ParallelIterator::collect(rayon::iter::ParallelIterator::map(
            rayon::iter::IntoParallelRefIterator::par_iter(items),
            |item| (|| work(item)).under(under),
        ))
    }
    #[cfg(not(feature = "parallel"))]
    items.iter().map(work).collect()
}

/// A wish that work ends before it is done; clones are one wish.
///
/// ```
/// use servecast::threads::{Stop, Stopped};
///
/// let stop = Stop::default();
/// assert_eq!(stop.run(|| 1), Ok(1));
/// stop.stop();
/// assert_eq!(stop.run(|| servecast::load::built_in().run().map(drop).is_ok()), Err(Stopped));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Wish>);

#[derive(Debug, Default)]
struct Wish {
    /// What it is part of, which ends it too.
    around: Option<Stop>,
    is_asked: AtomicBool,
    cause: Mutex<Option<Cause>>,
}

/// Why work ended.
type Cause = Box<dyn Any + Send>;

/// Work ended before it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stopped before it was done")]
pub struct Stopped;

thread_local! {
    /// What the work of this thread is done under.
    static CURRENT: RefCell<Option<Stop>> = const { RefCell::new(None) };
}

impl Stop {
    /// Asks the work to end.
    pub fn stop(&self) {
        self.0.is_asked.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked to.
    pub fn is_stopped(&self) -> bool {
        let around = self.0.around.as_ref();
        self.0.is_asked.load(Ordering::Relaxed) || around.is_some_and(Self::is_stopped)
    }

    /// A wish for a part of the work of this thread: it ends alone, and with the whole.
    pub fn of_part() -> Self {
        Self(Arc::new(Wish { around: Self::current(), ..Wish::default() }))
    }

    /// Does it, on this thread and on those that it takes along.
    ///
    /// # Errors
    /// When it was asked to end, and did so.
    pub fn run<R>(&self, work: impl FnOnce() -> R) -> Result<R, Stopped> {
        let done = panic::catch_unwind(AssertUnwindSafe(|| work.under(Some(self))));
        done.map_err(|cause| {
            if !is_stop(&*cause) {
                panic::resume_unwind(cause);
            }
            Stopped
        })
    }

    /// Why it ended, where the work says so by [`end_because`]; taken once.
    pub fn cause<T: 'static>(&self) -> Option<T> {
        let cause = self.0.cause.lock().unwrap_or_else(PoisonError::into_inner).take();
        cause.and_then(|cause| cause.downcast().ok()).map(|cause| *cause)
    }

    /// What the work of this thread is done under, if it is under one.
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }
}

/// Ends the work of this thread here, if it was asked to end.
pub fn end_if_stopped() {
    let is_stopped = CURRENT.with_borrow(|stop| stop.as_ref().is_some_and(Stop::is_stopped));
    if is_stopped {
        unwind();
    }
}

/// Ends the work of this thread here, and asks all that it is part of to end.
///
/// # Panics
/// When it is not done under a [`Stop`].
pub fn end() -> ! {
    let current = Stop::current().expect("only work under a `Stop` is stopped");
    current.stop();
    unwind()
}

/// The same, and says why to who looks for a [`Stop::cause`]; of several that say so, the first.
///
/// # Panics
/// When it is not done under a [`Stop`].
pub fn end_because(cause: impl Any + Send) -> ! {
    let current = Stop::current().expect("only work under a `Stop` is stopped");
    let known = &current.0.cause;
    known.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| Box::new(cause));
    current.stop();
    unwind()
}

fn unwind() -> ! {
    // No panic: nothing is printed.
    panic::resume_unwind(Box::new(Stopped))
}

/// Whether a panic is the end of work that was asked to end.
pub(crate) fn is_stop(cause: &(dyn Any + Send)) -> bool {
    cause.is::<Stopped>()
}

/// Work under another stop than that of its thread.
trait Under<R>: FnOnce() -> R + Sized {
    fn under(self, stop: Option<&Stop>) -> R {
        struct Before(Option<Stop>);
        impl Drop for Before {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _before = Before(CURRENT.replace(stop.cloned()));
        end_if_stopped();
        self()
    }
}

impl<R, F: FnOnce() -> R> Under<R> for F {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_on_all_threads_and_others_go_on() {
        let (stop, other) = (Stop::default(), Stop::default());
        let items: Vec<u32> = (0..1000).collect();
        let stopped = stop.run(|| {
            map(&items, |item| {
                if *item == 3 {
                    end_because("the third");
                }
                end_if_stopped();
                *item
            })
        });
        assert_eq!(stopped, Err(Stopped));
        assert!(stop.is_stopped() && !other.is_stopped());
        assert_eq!(stop.cause(), Some("the third"));
        assert_eq!(stop.cause::<&str>(), None);
        assert_eq!(other.run(|| map(&items, |item| *item)), Ok(items.clone()));
        // The thread is under nothing any more.
        end_if_stopped();
    }

    #[test]
    fn a_panic_that_is_no_stop_goes_on() {
        let done =
            panic::catch_unwind(|| Stop::default().run(|| panic::resume_unwind(Box::new(7))));
        assert_eq!(done.unwrap_err().downcast_ref(), Some(&7));
    }

    #[test]
    fn a_part_ends_alone_and_with_the_whole() {
        let whole = Stop::default();
        let done = whole.run(|| {
            let part = Stop::of_part();
            assert_eq!(part.run(|| end_because(1)), Err(Stopped));
            end_if_stopped();
            let part = Stop::of_part();
            whole.stop();
            assert_eq!(part.run(|| ()), Err(Stopped));
            end_if_stopped();
        });
        assert_eq!(done, Err(Stopped));
    }

    #[test]
    fn work_in_work_is_under_its_own_stop() {
        let (outer, inner) = (Stop::default(), Stop::default());
        let done = outer.run(|| {
            inner.stop();
            assert_eq!(inner.run(|| ()), Err(Stopped));
            end_if_stopped();
            1
        });
        assert_eq!(done, Ok(1));
    }
}
