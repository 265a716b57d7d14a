//! Which instructions the kernels use, chosen when the first one runs.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A set of instructions. Those of other architectures are never chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// What every processor of the architecture has, without intrinsics where there is [`Isa::Neon`].
    Baseline,
    /// x86-64 with AVX2, F16C, FMA and BMI2.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ, VL and VBMI.
    Avx512,
    /// AArch64, whose baseline has NEON: transposes use it by name, while casts and copies are what the
    /// compiler makes of the loops of [`Isa::Baseline`], which is NEON as well.
    Neon,
}

impl Isa {
    const NAMES: [(&str, Isa); 4] =
        [("baseline", Isa::Baseline), ("avx2", Isa::Avx2), ("avx512", Isa::Avx512), ("neon", Isa::Neon)];

    /// The name that `ARRAYBRIDGE_ISA` takes.
    pub fn name(self) -> &'static str {
        Isa::NAMES[self as usize].0
    }

    /// The best that this processor has, or what the environment variable `ARRAYBRIDGE_ISA` names if
    /// the processor has it.
    pub fn get() -> Isa {
        // No OnceLock: after a fork one could wait for a thread that is gone. All come to the same.
        static CHOSEN: AtomicUsize = AtomicUsize::new(Isa::NAMES.len());
        let chosen = CHOSEN.load(Ordering::Relaxed);
        if let Some((_, isa)) = Isa::NAMES.get(chosen) {
            return *isa;
        }
        let isa = from_environment().and_then(Isa::named).unwrap_or_else(Isa::best);
        CHOSEN.store(isa as usize, Ordering::Relaxed);
        isa
    }

    /// The one with a name, if the processor has it.
    fn named(name: &str) -> Option<Isa> {
        let (_, isa) = Isa::NAMES.iter().find(|(its, _)| *its == name)?;
        isa.is_there().then_some(*isa)
    }

    /// The best that this processor has.
    pub fn best() -> Isa {
        let falling = [Isa::Avx512, Isa::Avx2, Isa::Neon];
        falling.into_iter().find(|isa| isa.is_there()).unwrap_or(Isa::Baseline)
    }

    /// Whether this processor has it.
    pub fn is_there(self) -> bool {
        match self {
            Isa::Baseline => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("f16c")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("bmi2")
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                Isa::Avx2.is_there()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vbmi")
            }
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => true,
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }
}

/// What `ARRAYBRIDGE_ISA` says. Not by the standard library, which allocates a copy.
fn from_environment() -> Option<&'static str> {
    #[cfg(unix)]
    {
        // SAFETY: the name is a C string, and so is what is found: part of the process's environment, of
        // which only the comparison that follows reads.
        unsafe {
            let value = libc::getenv(c"ARRAYBRIDGE_ISA".as_ptr());
            if value.is_null() { None } else { std::ffi::CStr::from_ptr(value).to_str().ok() }
        }
    }
    #[cfg(not(unix))]
    {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_the_enum() {
        for (name, isa) in Isa::NAMES {
            assert_eq!(isa.name(), name);
            assert_eq!(Isa::named(name), isa.is_there().then_some(isa));
        }
        assert_eq!(Isa::named("sse9"), None);
    }

    #[test]
    fn every_architecture_has_its_own() {
        assert_eq!(Isa::named("baseline"), Some(Isa::Baseline));
        assert_eq!(Isa::Neon.is_there(), cfg!(target_arch = "aarch64"));
        if cfg!(target_arch = "aarch64") {
            assert_eq!(Isa::best(), Isa::Neon);
        }
        if !cfg!(target_arch = "x86_64") {
            assert!(!Isa::Avx2.is_there() && !Isa::Avx512.is_there());
        }
    }

    #[test]
    fn the_environment_chooses() {
        let named = std::env::var("ARRAYBRIDGE_ISA").unwrap_or_default();
        match named.as_str() {
            "baseline" => assert_eq!(Isa::get(), Isa::Baseline),
            "neon" if cfg!(target_arch = "aarch64") => assert_eq!(Isa::get(), Isa::Neon),
            "avx2" if Isa::Avx2.is_there() => assert_eq!(Isa::get(), Isa::Avx2),
            "" => assert_eq!(Isa::get(), Isa::best()),
            _ => assert!(Isa::get().is_there()),
        }
    }
}
