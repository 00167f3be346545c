//! This test's own program is the oracle: it knows where its functions are and from which lines
//! they come.

#![allow(clippy::unwrap_used)]

use mmulab_symbols::{Place, ProgramSymbols};

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn mmulab_test_of_symbols(value: u64) -> u64 {
    value + 1
}

/// The line of the function above.
const LINE: u32 = line!() - 6;

/// Its name alone would be the encoded type `float`.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn f(value: u64) -> u64 {
    value + 2
}

/// Code that is mapped in this process: start, length, file.
fn code() -> Vec<(u64, u64, String)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let parse = |line: &str| {
        let mut words = line.split_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let is_code = words.next()?.contains('x');
        let start = u64::from_str_radix(start, 16).ok()?;
        let end = u64::from_str_radix(end, 16).ok()?;
        is_code.then_some((start, end - start, words.nth(3)?.to_owned()))
    };
    maps.lines().filter_map(parse).collect()
}

#[test]
fn functions_and_lines_are_where_they_are() {
    assert_eq!(mmulab_test_of_symbols(std::hint::black_box(1)), 2);
    let address = mmulab_test_of_symbols as *const () as u64;
    let mut symbols = ProgramSymbols::default();
    let mut found = Vec::new();
    for (start, length_bytes, name) in code() {
        symbols.map_code(start, length_bytes, &name);
        found.extend(symbols.functions(start, "mmulab_test_of_symbols"));
    }
    assert_eq!(found, [address]);
    let place = symbols.place(address);
    assert_eq!(
        (place.function.as_str(), place.function_address),
        ("mmulab_test_of_symbols", address)
    );
    assert!(place.file.ends_with("own_program.rs"), "{place:?}");
    assert!((LINE..LINE + 4).contains(&place.line), "{place:?}");
    assert_eq!(f(std::hint::black_box(1)), 3);
    assert_eq!(symbols.place(f as *const () as u64).function, "f");
    // The C library, of which only the dynamic symbols may be there.
    let libc_function = libc_malloc();
    assert_eq!(symbols.place(libc_function).function_address, libc_function);
}

fn libc_malloc() -> u64 {
    unsafe extern "C" {
        fn malloc(size_bytes: usize) -> *mut std::ffi::c_void;
    }
    malloc as *const () as u64
}

#[test]
fn what_covers_a_mapping_hides_that_part_of_it() {
    let mut symbols = ProgramSymbols::default();
    symbols.map_code(0x1000, 0x9000, "/no/such/file");
    symbols.map_code(0x3000, 0x1000, "[jit]");
    let object = |object: &str| Place { object: object.to_owned(), ..Place::default() };
    assert_eq!(symbols.place(0x2fff), object("/no/such/file"));
    assert_eq!(symbols.place(0x3000), object("[jit]"));
    assert_eq!(symbols.place(0x4000), object("/no/such/file"));
    assert_eq!(symbols.place(0xa000), Place::default());
    assert_eq!(symbols.place(0), Place::default());
    assert!(symbols.functions(0x1000, "main").is_empty());
}
