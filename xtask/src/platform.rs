//! What a CPU libtorch is made of on each platform: which wheels, by which hash, and which files of them.

use anyhow::{Result, bail};

/// The libtorch that tch 0.24 is built for; torch-sys refuses any other.
pub(crate) const VERSION: &str = "2.11.0";

/// Everything that differs between platforms.
#[derive(Debug)]
pub(crate) struct Platform {
    /// `os-arch` as Rust spells them; part of the name of the cached folder.
    pub(crate) name: &'static str,
    /// The platform tags (PEP 425) of the wheels below.
    pub(crate) tags: &'static [&'static str],
    pub(crate) wheels: &'static [Wheel],
    /// Symbolic links `(link, target)` inside `lib/`.
    pub(crate) links: &'static [(&'static str, &'static str)],
    /// Text files `(name, text)` inside `lib/`.
    pub(crate) scripts: &'static [(&'static str, &'static str)],
}

/// One wheel and what is taken from it.
#[derive(Debug)]
pub(crate) struct Wheel {
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
    /// SHA-256 of the wheel's file, in lower-case hexadecimal.
    pub(crate) sha256: &'static str,
    /// The folder of headers that becomes `include/`, with its closing slash.
    pub(crate) include: Option<&'static str>,
    /// The folder that `libs` are in, with its closing slash.
    pub(crate) lib_dir: &'static str,
    pub(crate) libs: &'static [&'static str],
}

impl Wheel {
    /// How the wheel's file name begins (PEP 427 turns `-` into `_`).
    pub(crate) fn file_prefix(&self) -> String {
        format!("{}-{}-", self.package.replace('-', "_"), self.version)
    }
}

impl Platform {
    /// The platform that xtask itself was built for.
    pub(crate) fn current() -> Result<&'static Self> {
        let name = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
        match PLATFORMS.iter().find(|platform| platform.name == name) {
            Some(platform) => Ok(platform),
            None => bail!(
                "there is no CPU libtorch recipe for {name} (only for {}). Install libtorch {VERSION} or PyTorch \
                 {VERSION} yourself, then set LIBTORCH to its folder or run `cargo xtask setup --from-python`",
                PLATFORMS
                    .iter()
                    .map(|p| p.name)
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
        }
    }

    /// The names of all files that end up in `lib/`.
    pub(crate) fn lib_files(&self) -> impl Iterator<Item = &'static str> {
        let libs = self
            .wheels
            .iter()
            .flat_map(|wheel| wheel.libs.iter().copied());
        let links = self.links.iter().map(|(link, _)| *link);
        libs.chain(links)
            .chain(self.scripts.iter().map(|(name, _)| *name))
    }

    /// The shared objects that a program needs to run (those that it is only linked with are left out).
    pub(crate) fn runtime_libs(&self) -> impl Iterator<Item = &'static str> {
        self.wheels
            .iter()
            .flat_map(|wheel| wheel.libs.iter().copied())
            .filter(|lib| !lib.starts_with("libshm."))
    }
}

/// How the main library is called here.
pub(crate) const TORCH_CPU: &str = if cfg!(target_os = "macos") {
    "libtorch_cpu.dylib"
} else {
    "libtorch_cpu.so"
};

// The wheel's libtorch.so needs libtorch_cuda.so; `-ltorch` must find something, so this names what it stands for.
const LINUX_SCRIPTS: &[(&str, &str)] = &[("libtorch.so", "INPUT(libtorch_cpu.so libc10.so)\n")];
// torch-sys links with `-lgomp`; without this the compiler's own copy would be found, and two OpenMP pools run.
const LINUX_LINKS: &[(&str, &str)] = &[("libgomp.so", "libgomp.so.1")];

/// All platforms with a recipe. The lists of libraries are the closure of what libtorch_cpu needs to load.
pub(crate) const PLATFORMS: &[Platform] = &[
    Platform {
        name: "linux-x86_64",
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
                include: Some("torch/include/"),
                lib_dir: "torch/lib/",
                libs: &["libc10.so", "libtorch_cpu.so", "libgomp.so.1", "libshm.so"],
            },
            Wheel {
                package: "nvidia-cuda-runtime",
                version: "13.0.96",
                sha256: "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
                include: None,
                lib_dir: "nvidia/cu13/lib/",
                libs: &["libcudart.so.13"],
            },
            Wheel {
                package: "nvidia-cuda-cupti",
                version: "13.0.85",
                sha256: "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
                include: None,
                lib_dir: "nvidia/cu13/lib/",
                libs: &["libcupti.so.13"],
            },
        ],
        links: LINUX_LINKS,
        scripts: LINUX_SCRIPTS,
    },
    Platform {
        name: "linux-aarch64",
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
                include: Some("torch/include/"),
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
                include: None,
                lib_dir: "nvidia/cu13/lib/",
                libs: &["libcudart.so.13"],
            },
            Wheel {
                package: "nvidia-cuda-cupti",
                version: "13.0.85",
                sha256: "796bd679890ee55fb14a94629b698b6db54bcfd833d391d5e94017dd9d7d3151",
                include: None,
                lib_dir: "nvidia/cu13/lib/",
                libs: &["libcupti.so.13"],
            },
        ],
        links: LINUX_LINKS,
        scripts: LINUX_SCRIPTS,
    },
    Platform {
        name: "macos-aarch64",
        tags: &["macosx_11_0_arm64"],
        wheels: &[Wheel {
            package: "torch",
            version: VERSION,
            sha256: "4b5866312ee6e52ea625cd211dcb97d6a2cdc1131a5f15cc0d87eec948f6dd34",
            include: Some("torch/include/"),
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
        scripts: &[],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_platform_has_headers_a_main_library_and_well_formed_hashes() {
        for platform in PLATFORMS {
            assert!(
                platform.wheels.iter().any(|wheel| wheel.include.is_some()),
                "{}",
                platform.name
            );
            for stem in ["libtorch_cpu.", "libtorch.", "libc10."] {
                assert!(
                    platform.lib_files().any(|file| file.starts_with(stem)),
                    "{}: {stem}",
                    platform.name
                );
            }
            for wheel in platform.wheels {
                assert_eq!(
                    wheel.sha256.len(),
                    64,
                    "{} of {}",
                    wheel.package,
                    platform.name
                );
                assert!(
                    wheel
                        .sha256
                        .bytes()
                        .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
                );
                assert!(wheel.lib_dir.ends_with('/'));
            }
        }
    }

    #[test]
    fn no_hash_is_given_twice() {
        let mut hashes: Vec<_> = PLATFORMS
            .iter()
            .flat_map(|p| p.wheels)
            .map(|wheel| wheel.sha256)
            .collect();
        hashes.sort_unstable();
        let count = hashes.len();
        hashes.dedup();
        assert_eq!(hashes.len(), count);
    }

    #[test]
    fn a_program_runs_without_the_files_that_only_the_linker_reads() {
        let linux = &PLATFORMS[0];
        let libs: Vec<_> = linux.runtime_libs().collect();
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

    #[test]
    fn wheel_files_are_named_with_underscores() {
        assert_eq!(
            PLATFORMS[0].wheels[1].file_prefix(),
            "nvidia_cuda_runtime-13.0.96-"
        );
    }
}
