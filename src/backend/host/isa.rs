//! Which instructions the kernels use, chosen when the first one runs.

use std::sync::OnceLock;

/// A set of instructions. Those of other architectures are never chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// What every processor of the architecture has.
    Baseline,
    /// x86-64 with AVX2, F16C, FMA and BMI2.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ, VL and VBMI.
    Avx512,
    /// AArch64.
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
        static CHOSEN: OnceLock<Isa> = OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let named = std::env::var("ARRAYBRIDGE_ISA").ok();
            let named = Isa::NAMES.iter().find(|(name, _)| named.as_deref() == Some(name));
            named.map(|(_, isa)| *isa).filter(|isa| isa.is_there()).unwrap_or_else(Isa::best)
        })
    }

    fn best() -> Isa {
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
