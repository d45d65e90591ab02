//! A panic in the handling of one connection is a defect, but not everybody's: it is caught here and costs that session. A panic anywhere else still ends
//! the process at once, as there is nobody to blame and nothing to go on with.
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

thread_local! {
    /// This thread is within `contain`.
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Calls `act`, which is about one connection alone.
///
/// # Errors
/// It panicked; what it said.
pub fn contain<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    CONTAINED.set(true);
    let done = catch_unwind(AssertUnwindSafe(act));
    CONTAINED.set(false);
    done.map_err(|panic| message_of(panic.as_ref()))
}

/// Lets every panic that is not contained end the process, whichever thread it is in: a thread that is gone would be waited for for ever.
pub fn abort_elsewhere() {
    let tell = take_hook();
    set_hook(Box::new(move |panic| {
        tell(panic);
        if !CONTAINED.get() {
            std::process::abort();
        }
    }));
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without words").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contained_panic_is_told_and_the_next_call_is_none_the_worse() {
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
