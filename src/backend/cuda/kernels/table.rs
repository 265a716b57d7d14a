//! Which kernel is where: the entries of the modules that regen.sh makes.

use crate::backend::kernels::{Kernel, Type, flags};

/// A module's PTX, which ends with NUL, by its number.
pub const MODULES: [&str; 22] = {
    macro_rules! ptx {
        ($($name:literal)*) => { [$(concat!(include_str!(concat!($name, ".ptx")), "\0")),*] };
    }
    ptx! {
        "moves" "pack"
        "cast_i" "cast_l" "cast_u" "cast_f" "cast_d"
        "cast_i_any" "cast_l_any" "cast_u_any" "cast_f_any" "cast_d_any"
        "transpose_i" "transpose_l" "transpose_u" "transpose_f" "transpose_d"
        "transpose_i_any" "transpose_l_any" "transpose_u_any" "transpose_f_any" "transpose_d_any"
    }
};

/// Every entry, as (module, name with its NUL).
pub const ENTRIES: [(usize, &str); 32] = {
    macro_rules! entries {
        ($($module:literal $name:literal)*) => { [$(($module, concat!("ab_", $name, "\0"))),*] };
    }
    entries! {
        0 "copy_1" 0 "copy_2" 0 "copy_4" 0 "copy_8" 0 "copy_16"
        0 "transpose_1" 0 "transpose_2" 0 "transpose_4" 0 "transpose_8" 0 "transpose_16"
        0 "pack_bits" 1 "pack"
        2 "cast_i" 3 "cast_l" 4 "cast_u" 5 "cast_f" 6 "cast_d"
        7 "cast_i_any" 8 "cast_l_any" 9 "cast_u_any" 10 "cast_f_any" 11 "cast_d_any"
        12 "transpose_i" 13 "transpose_l" 14 "transpose_u" 15 "transpose_f" 16 "transpose_d"
        17 "transpose_i_any" 18 "transpose_l_any" 19 "transpose_u_any" 20 "transpose_f_any" 21 "transpose_d_any"
    }
};

/// The number in [`ENTRIES`] of what does a kernel's work with the flags of its parameters, whose `types`
/// say the rest.
pub fn entry(kernel: Kernel, flags: u32) -> usize {
    const RARE: u32 = flags::EXACT
        | flags::FROM_COMPLEX
        | flags::TO_COMPLEX
        | flags::SOURCE_BITS
        | flags::SOURCE_ODD
        | flags::DESTINATION_ODD;
    let rare = if flags & RARE != 0 { 5 } else { 0 };
    let word = |size: u8| size.trailing_zeros() as usize;
    match kernel {
        Kernel::Copy(size) => word(size),
        Kernel::Transpose(size) => 5 + word(size),
        Kernel::PackBits => 10,
        Kernel::Pack(_) => 11,
        Kernel::Cast(from, _) => 12 + rare + kind(from),
        Kernel::CastTransposed(from, _) => 22 + rare + kind(from),
    }
}

/// A type's kind, of numbers.h, in the order of the entries: i, l, u, f, d.
fn kind(of: Type) -> usize {
    match of {
        Type::B8 | Type::I8 | Type::I16 | Type::I32 | Type::U8 | Type::U16 => 0,
        Type::I64 | Type::U32 => 1,
        Type::U64 => 2,
        Type::F16 | Type::Bf16 | Type::F32 | Type::X8 => 3,
        Type::F64 => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the entries in a PTX.
    fn entries(ptx: &str) -> Vec<String> {
        let names = ptx.split(".entry ").skip(1);
        names.map(|rest| rest[..rest.find('(').unwrap()].to_owned() + "\0").collect()
    }

    #[test]
    fn the_modules_have_these_entries_and_no_others() {
        for (module, ptx) in MODULES.iter().enumerate() {
            assert!(ptx.contains(".version 4.0\n.target sm_50\n"));
            let named: Vec<_> =
                ENTRIES.iter().filter(|(its, _)| *its == module).map(|(_, name)| *name).collect();
            assert_eq!(entries(ptx), named);
        }
    }

    #[test]
    fn every_kernel_has_an_entry() {
        for kernel in Kernel::all() {
            let name = ENTRIES[entry(kernel, 0)].1.trim_end_matches('\0');
            assert!(
                kernel.name().starts_with(name)
                    || matches!(kernel, Kernel::Cast(..) | Kernel::CastTransposed(..))
            );
            let rare = ENTRIES[entry(kernel, flags::EXACT)].1.trim_end_matches('\0');
            match kernel {
                Kernel::Cast(..) | Kernel::CastTransposed(..) => assert_eq!(rare, format!("{name}_any")),
                _ => assert_eq!(rare, name),
            }
        }
        assert_eq!(ENTRIES[entry(Kernel::Transpose(16), 0)].1, "ab_transpose_16\0");
        assert_eq!(ENTRIES[entry(Kernel::Cast(Type::U32, Type::F32), 0)].1, "ab_cast_l\0");
    }
}
