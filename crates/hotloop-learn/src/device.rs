//! Where tensors live, and how libtorch and the allocator are set up for this engine.

use crate::error::LearnError;
use std::{
    cell::Cell,
    path::{Path, PathBuf},
};
use tch::Device;

/// What is accepted, for error texts.
const ACCEPTED: &str = "accepted are `cpu`, `cuda` and `cuda:N`";

/// Reads a device's name: `cpu`, `cuda` (the first GPU) or `cuda:N`. Looks at no hardware.
///
/// # Errors
/// For any other spelling, with a suggestion where one is near.
pub fn parse(spelling: &str) -> Result<Device, LearnError> {
    let refuse = |reason: String| LearnError::Device {
        spelling: spelling.into(),
        reason,
    };
    match spelling {
        "cpu" => return Ok(Device::Cpu),
        "cuda" => return Ok(Device::Cuda(0)),
        _ => {}
    }
    // Only plain digits: `parse` alone would take `+1`.
    let index = spelling
        .strip_prefix("cuda:")
        .filter(|n| n.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|n| n.parse::<u16>().ok());
    if let Some(index) = index {
        return Ok(Device::Cuda(usize::from(index)));
    }
    let lower = spelling.trim().to_ascii_lowercase();
    let near = match lower.as_str() {
        "gpu" | "nvidia" => Some("cuda".to_owned()),
        _ => lower
            .strip_prefix("gpu:")
            .map(|n| format!("cuda:{n}"))
            .or(Some(lower.clone())),
    };
    Err(refuse(
        match near.filter(|n| n != spelling && parse(n).is_ok()) {
            Some(near) => format!("unknown; did you mean `{near}`? ({ACCEPTED})"),
            None => format!("unknown; {ACCEPTED}"),
        },
    ))
}

/// The canonical name of a device, which [`parse`] reads back.
pub fn name(device: Device) -> String {
    match device {
        Device::Cuda(index) => format!("cuda:{index}"),
        Device::Cpu => "cpu".into(),
        other => format!("{other:?}").to_ascii_lowercase(),
    }
}

/// Reads a device's name and makes sure that it can be used, without touching any other GPU. Whoever
/// is about to make tensors begins here, so the allocator is set up as well.
///
/// # Errors
/// As [`parse`]; and for a GPU that is not there, with the real reason.
pub fn open(spelling: &str) -> Result<Device, LearnError> {
    let device = parse(spelling)?;
    tune_allocator();
    let Device::Cuda(index) = device else {
        return Ok(device);
    };
    let refuse = |reason: String| LearnError::Device {
        spelling: spelling.into(),
        reason,
    };
    cuda::load().map_err(refuse)?;
    let count = usize::try_from(tch::Cuda::device_count()).unwrap_or(0);
    if count == 0 {
        return Err(refuse(cuda::why_none()));
    }
    if index >= count {
        let list: Vec<String> = (0..count).map(|i| format!("`cuda:{i}`")).collect();
        return Err(refuse(format!(
            "there is no such GPU; this machine has {count}: {}",
            list.join(", ")
        )));
    }
    Ok(device)
}

/// The folder that a shared library was loaded from, where the system tells: by Linux' map of this
/// process.
pub fn loaded_from(library: &str) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])))
        .find(|path| path.file_name().is_some_and(|name| name == library))?;
    path.parent().map(Path::to_path_buf)
}

/// Finding CUDA at run time, so that one build serves machines with and without it.
#[cfg(target_os = "linux")]
mod cuda {
    use std::{
        ffi::{CStr, CString},
        os::unix::ffi::OsStrExt,
        path::Path,
        sync::OnceLock,
    };

    /// Loads `libtorch_cuda` from beside `libtorch_cpu`, once. Must come before the first question
    /// to libtorch about CUDA, which it answers from memory ever after.
    pub(super) fn load() -> Result<(), String> {
        static LOADED: OnceLock<Result<(), String>> = OnceLock::new();
        LOADED.get_or_init(try_load).clone()
    }

    fn try_load() -> Result<(), String> {
        let lib = super::loaded_from("libtorch_cpu.so")
            .ok_or("cannot tell where libtorch_cpu.so was loaded from")?;
        let path = lib.join("libtorch_cuda.so");
        if !path.exists() {
            return Err(format!(
                "this libtorch is the CPU-only one ({} has no libtorch_cuda.so); set up one with \
                 CUDA by `cargo xtask setup --from-python`, or use `cpu`",
                lib.display()
            ));
        }
        open(&path)
    }

    fn open(path: &Path) -> Result<(), String> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
        // SAFETY: a valid C string; loading runs the library's initialisers, which register its
        // kernels with libtorch, as they do when it is linked.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if !handle.is_null() {
            // Never closed: libtorch keeps pointers into it.
            return Ok(());
        }
        // SAFETY: dlerror returns null or a C string valid until the next call on this thread.
        let reason = unsafe {
            let text = libc::dlerror();
            if text.is_null() {
                "the loader gives no reason".into()
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        };
        Err(format!("cannot load {}: {reason}", path.display()))
    }

    /// Why libtorch sees no GPU although its CUDA half is loaded.
    pub(super) fn why_none() -> String {
        if !Path::new("/proc/driver/nvidia/version").exists() {
            return "no NVIDIA driver is loaded on this machine; use `cpu`".into();
        }
        match std::env::var("CUDA_VISIBLE_DEVICES") {
            Ok(v) => format!("libtorch sees no GPU; CUDA_VISIBLE_DEVICES is `{v}`"),
            Err(_) => "libtorch sees no GPU, although a driver is loaded; it may be too old for \
                       libtorch's CUDA, or the device files /dev/nvidia* may be missing"
                .into(),
        }
    }
}

/// Other systems have no CUDA build of libtorch.
#[cfg(not(target_os = "linux"))]
mod cuda {
    pub(super) fn load() -> Result<(), String> {
        Err("CUDA is supported on Linux only; use `cpu`".into())
    }

    pub(super) fn why_none() -> String {
        "libtorch sees no GPU".into()
    }
}

/// Gives this thread one intra-op thread in libtorch: parallel maths is by shards here, and OpenMP
/// pools that contend for cores are far slower than none. A number in the user's `OMP_NUM_THREADS`
/// wins. Every thread that touches libtorch calls this first; later calls cost nothing.
pub fn set_threads_once() {
    thread_local! {
        static DONE: Cell<bool> = const { Cell::new(false) };
    }
    if !DONE.replace(true) {
        let user = std::env::var("OMP_NUM_THREADS").ok();
        tch::set_num_threads(intra_op_threads(user.as_deref()));
    }
}

fn intra_op_threads(omp_num_threads: Option<&str>) -> i32 {
    // OpenMP takes a list, one number per nesting level.
    let first = omp_num_threads.and_then(|v| v.split(',').next());
    first
        .and_then(|n| n.trim().parse().ok())
        .filter(|n| *n >= 1)
        .unwrap_or(1)
}

/// Waits until everything that was asked of a GPU is done, on whichever stream. What one thread wrote there may be read
/// by another, on a stream of its own, after that only.
pub(crate) fn settle(device: Device) {
    if let Device::Cuda(index) = device {
        tch::Cuda::synchronize(index as i64);
    }
}

/// Keeps glibc from handing the memory of large tensors back to the kernel after each use, which
/// costs a page fault per 4 KiB on the next. Elsewhere it does nothing, and so do later calls.
pub fn tune_allocator() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| {
            // The largest threshold that glibc takes: half of a thread heap.
            const LARGEST: libc::c_int = 32 << 20;
            // SAFETY: mallopt only sets parameters of the allocator.
            let taken = unsafe {
                libc::mallopt(libc::M_MMAP_THRESHOLD, LARGEST) == 1
                    && libc::mallopt(libc::M_TRIM_THRESHOLD, 1 << 30) == 1
            };
            if !taken {
                tracing::warn!("the allocator refused its settings; large batches may run slower");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn br_66_spellings() {
        assert_eq!(parse("cpu").unwrap(), Device::Cpu);
        assert_eq!(parse("cuda").unwrap(), Device::Cuda(0));
        assert_eq!(parse("cuda:7").unwrap(), Device::Cuda(7));
        for (wrong, near) in [
            ("gpu", "`cuda`"),
            ("CUDA:0", "`cuda:0`"),
            ("GPU:1", "`cuda:1`"),
            (" cpu", "`cpu`"),
        ] {
            let e = parse(wrong).unwrap_err().to_string();
            assert!(
                e.contains(&format!("did you mean {near}")) && e.contains(ACCEPTED),
                "{e}"
            );
        }
        for wrong in [
            "",
            "cuda:",
            "cuda:-1",
            "cuda:+1",
            "cuda:x",
            "tpu",
            "cuda:99999999",
        ] {
            let e = parse(wrong).unwrap_err().to_string();
            assert!(e.contains(ACCEPTED) && !e.contains("did you mean"), "{e}");
        }
        for device in [Device::Cpu, Device::Cuda(3)] {
            assert_eq!(parse(&name(device)).unwrap(), device);
        }
    }

    #[test]
    fn br_66_a_gpu_that_is_not_there_is_an_error_with_the_reason() {
        assert_eq!(open("cpu").unwrap(), Device::Cpu);
        // No machine has this many.
        let e = open("cuda:4096").unwrap_err().to_string();
        assert!(e.starts_with("device `cuda:4096`: "), "{e}");
        let known = [
            "no libtorch_cuda.so",
            "no NVIDIA driver",
            "no such GPU",
            "sees no GPU",
        ];
        assert!(known.iter().any(|k| e.contains(k)), "{e}");
    }

    #[test]
    fn br_55_one_intra_op_thread_unless_the_user_says_otherwise() {
        for (user, threads) in [
            (None, 1),
            (Some("4"), 4),
            (Some("2,3"), 2),
            (Some("0"), 1),
            (Some("many"), 1),
        ] {
            assert_eq!(intra_op_threads(user), threads, "{user:?}");
        }
        let expected = intra_op_threads(std::env::var("OMP_NUM_THREADS").ok().as_deref());
        let seen = std::thread::spawn(|| {
            set_threads_once();
            set_threads_once();
            tch::get_num_threads()
        });
        assert_eq!(seen.join().unwrap(), expected);
        tune_allocator();
    }
}
