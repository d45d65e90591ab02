//! Panic containment. A panic while one connection is served is caught here and costs that session
//! alone. A panic anywhere else ends the process at once, because the state of the whole engine is
//! in doubt.
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

thread_local! {
    /// Whether this thread is within `contain`.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Calls `act`, which must touch the state of one connection only.
///
/// # Errors
/// The message of the panic.
pub fn contain<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    CONTAINED.set(true);
    let done = catch_unwind(AssertUnwindSafe(act));
    CONTAINED.set(false);
    done.map_err(|panic| message_of(panic.as_ref()))
}

/// Makes every panic that is not contained abort the process, in any thread. Otherwise the other
/// threads would wait forever for the thread that panicked.
pub fn abort_elsewhere() {
    let report_panic = take_hook();
    set_hook(Box::new(move |panic| {
        report_panic(panic);
        if !CONTAINED.get() {
            std::process::abort();
        }
    }));
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("panic with a non-string payload").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contained_panic_is_reported_and_does_not_affect_the_next_call() {
        let number = 7;
        assert_eq!(
            contain(|| -> u32 { panic!("planted {number}") }),
            Err("planted 7".to_owned())
        );
        assert_eq!(
            contain(|| -> u32 { panic!("planted") }),
            Err("planted".to_owned())
        );
        assert!(!CONTAINED.get());
        assert_eq!(contain(|| 5), Ok(5));
    }
}
