//! What a CPU libtorch is made of on each platform.

use crate::recipe::{Recipe, Wheel};

/// The libtorch that tch 0.24 is built for; torch-sys refuses any other.
pub(crate) const VERSION: &str = "2.11.0";

/// How the main library is called here.
pub(crate) const TORCH_CPU: &str = if cfg!(target_os = "macos") {
    "libtorch_cpu.dylib"
} else {
    "libtorch_cpu.so"
};

// The wheel's libtorch.so needs libtorch_cuda.so; `-ltorch` must find something, so this names what it stands for.
const LINUX_TEXTS: &[(&str, &str)] = &[
    ("lib/libtorch.so", "INPUT(libtorch_cpu.so libc10.so)\n"),
    BUILD_VERSION,
];
// torch-sys reads it.
const BUILD_VERSION: (&str, &str) = ("build-version", "2.11.0\n");
// torch-sys links with `-lgomp`; without this the compiler's own copy would be found, and two OpenMP pools run.
const LINUX_LINKS: &[(&str, &str)] = &[("libgomp.so", "libgomp.so.1")];

const WHAT: &str = "libtorch 2.11.0 for the CPU";
const SIZE: [&str; 2] = ["500 MB", "1.2 GB"];
const OFFLINE: &str = "Or install libtorch 2.11.0 or PyTorch 2.11.0 yourself, then set LIBTORCH to its folder or run \
                       `cargo xtask setup --from-python`";

/// All platforms with a recipe. The lists of libraries are the closure of what libtorch_cpu needs to load.
pub(crate) const PLATFORMS: &[Recipe] = &[
    Recipe {
        platform: "linux-x86_64",
        what: WHAT,
        folder: "libtorch-2.11.0-cpu-linux-x86_64",
        size: SIZE,
        offline: OFFLINE,
        tags: &[
            "manylinux_2_28_x86_64",
            "manylinux_2_25_x86_64",
            "manylinux_2_17_x86_64",
        ],
        wheels: &[
            Wheel {
                package: "torch",
                version: VERSION,
                sha256: "0f68f4ac6d95d12e896c3b7a912b5871619542ec54d3649cf48cc1edd4dd2756",
                folder: Some(("torch/include/", "include")),
                lib_dir: "torch/lib/",
                libs: &["libc10.so", "libtorch_cpu.so", "libgomp.so.1", "libshm.so"],
            },
            Wheel {
                package: "nvidia-cuda-runtime",
                version: "13.0.96",
                sha256: "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
                folder: None,
                lib_dir: "nvidia/cu13/lib/",
                libs: &["libcudart.so.13"],
            },
            Wheel {
                package: "nvidia-cuda-cupti",
                version: "13.0.85",
                sha256: "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
                folder: None,
                lib_dir: "nvidia/cu13/lib/",
                libs: &["libcupti.so.13"],
            },
        ],
        links: LINUX_LINKS,
        texts: LINUX_TEXTS,
    },
    Recipe {
        platform: "linux-aarch64",
        what: WHAT,
        folder: "libtorch-2.11.0-cpu-linux-aarch64",
        size: SIZE,
        offline: OFFLINE,
        tags: &[
            "manylinux_2_28_aarch64",
            "manylinux_2_25_aarch64",
            "manylinux_2_17_aarch64",
        ],
        wheels: &[
            Wheel {
                package: "torch",
                version: VERSION,
                sha256: "f99924682ef0aa6a4ab3b1b76f40dc6e273fca09f367d15a524266db100a723f",
                folder: Some(("torch/include/", "include")),
                lib_dir: "torch/lib/",
                libs: &[
                    "libc10.so",
                    "libtorch_cpu.so",
                    "libgomp.so.1",
                    "libshm.so",
                    "libarm_compute.so",
                    "libarm_compute_graph.so",
                    "libnvpl_blas_core.so.0",
                    "libnvpl_blas_lp64_gomp.so.0",
                    "libnvpl_lapack_core.so.0",
                    "libnvpl_lapack_lp64_gomp.so.0",
                ],
            },
            Wheel {
                package: "nvidia-cuda-runtime",
                version: "13.0.96",
                sha256: "ef9bcbe90493a2b9d810e43d249adb3d02e98dd30200d86607d8d02687c43f55",
                folder: None,
                lib_dir: "nvidia/cu13/lib/",
                libs: &["libcudart.so.13"],
            },
            Wheel {
                package: "nvidia-cuda-cupti",
                version: "13.0.85",
                sha256: "796bd679890ee55fb14a94629b698b6db54bcfd833d391d5e94017dd9d7d3151",
                folder: None,
                lib_dir: "nvidia/cu13/lib/",
                libs: &["libcupti.so.13"],
            },
        ],
        links: LINUX_LINKS,
        texts: LINUX_TEXTS,
    },
    Recipe {
        platform: "macos-aarch64",
        what: WHAT,
        folder: "libtorch-2.11.0-cpu-macos-aarch64",
        size: SIZE,
        offline: OFFLINE,
        tags: &["macosx_11_0_arm64"],
        wheels: &[Wheel {
            package: "torch",
            version: VERSION,
            sha256: "4b5866312ee6e52ea625cd211dcb97d6a2cdc1131a5f15cc0d87eec948f6dd34",
            folder: Some(("torch/include/", "include")),
            lib_dir: "torch/lib/",
            libs: &[
                "libc10.dylib",
                "libtorch_cpu.dylib",
                "libtorch.dylib",
                "libomp.dylib",
                "libshm.dylib",
            ],
        }],
        links: &[],
        texts: &[BUILD_VERSION],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_platform_has_headers_a_main_library_and_its_version_in_all_places() {
        for recipe in PLATFORMS {
            let name = recipe.platform;
            assert!(recipe.wheels.iter().any(|w| w.folder.is_some()), "{name}");
            let texts = recipe.texts.iter().map(|(path, _)| *path);
            let files: Vec<_> = recipe.wheels.iter().flat_map(|w| w.libs).copied().collect();
            for stem in ["libtorch_cpu.", "libtorch.", "libc10."] {
                let scripts = texts.clone().filter_map(|path| path.strip_prefix("lib/"));
                let mut all = files.iter().copied().chain(scripts);
                assert!(all.any(|file| file.starts_with(stem)), "{name}: {stem}");
            }
            assert!(recipe.folder.contains(VERSION) && WHAT.contains(VERSION));
            assert_eq!(BUILD_VERSION.1.trim(), VERSION);
        }
    }

    #[test]
    fn a_program_runs_without_the_files_that_only_the_linker_reads() {
        let libs: Vec<_> = PLATFORMS[0].runtime_libs().collect();
        assert_eq!(
            libs,
            [
                "libc10.so",
                "libtorch_cpu.so",
                "libgomp.so.1",
                "libcudart.so.13",
                "libcupti.so.13"
            ]
        );
    }
}
