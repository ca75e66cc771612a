//! A CUDA stream for each thread that acts: its copies and kernels then wait for nobody else's, and the learner's not
//! for them.
//!
//! tch knows no streams. libtorch's stable C interface does (`torch/csrc/stable/c/shim.h`, 2.10 and later), in its CUDA
//! half, which is loaded at run time; so its functions are looked up there. Where they are missing the thread stays on
//! the default stream, which is correct and shared with the learner. Without streams in common there is no order
//! between threads: whoever hands memory on the device to another thread settles the device first.

use std::cell::Cell;
use tch::Device;

/// Gives this thread a stream of its own on `device`, if that is a GPU. Later calls cost nothing.
pub(crate) fn own_once(device: Device) {
    thread_local! {
        static DONE: Cell<bool> = const { Cell::new(false) };
    }
    let Device::Cuda(index) = device else {
        return;
    };
    if !DONE.replace(true)
        && let Err(reason) = own(index)
    {
        tracing::info!("inference shares the default stream of cuda:{index}: {reason}");
    }
}

#[cfg(target_os = "linux")]
fn own(index: usize) -> Result<(), String> {
    use std::ffi::{c_int, c_void};
    /// `torch_get_cuda_stream_from_pool`; 0 is success.
    type FromPool = unsafe extern "C" fn(bool, i32, *mut *mut c_void) -> c_int;
    /// `torch_set_current_cuda_stream`.
    type SetCurrent = unsafe extern "C" fn(*mut c_void, i32) -> c_int;

    let index = i32::try_from(index).map_err(|e| e.to_string())?;
    let find = |name: &std::ffi::CStr| {
        // SAFETY: a valid C string, looked up among the libraries that are loaded for everybody.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        match found.is_null() {
            true => Err(format!("this libtorch has no {}", name.to_string_lossy())),
            false => Ok(found),
        }
    };
    let from_pool = find(c"torch_get_cuda_stream_from_pool")?;
    let set_current = find(c"torch_set_current_cuda_stream")?;
    // SAFETY: these are functions of these types, by libtorch's header; they throw nothing. The stream lives as long as
    // the process.
    unsafe {
        let from_pool = std::mem::transmute::<*mut c_void, FromPool>(from_pool);
        let set_current = std::mem::transmute::<*mut c_void, SetCurrent>(set_current);
        let mut stream = std::ptr::null_mut();
        if from_pool(true, index, &raw mut stream) != 0 || set_current(stream, index) != 0 {
            return Err("libtorch gave no stream".into());
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn own(_index: usize) -> Result<(), String> {
    Err("CUDA is supported on Linux only".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_gpu_there_is_no_stream_and_a_reason() {
        own_once(Device::Cpu);
        if let Err(reason) = own(0) {
            // The latter where libtorch's CUDA half is there, but no GPU.
            let known = ["torch_get_cuda_stream_from_pool", "libtorch gave no stream"];
            assert!(known.iter().any(|k| reason.contains(k)), "{reason}");
        }
    }
}
