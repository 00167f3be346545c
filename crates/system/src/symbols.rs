//! Names of functions and source lines, from the ELF file that runs or one given beside it, or from
//! a list as of `nm` or `/proc/kallsyms`.

use object::{Object, ObjectSymbol, SymbolKind};

use crate::loader::{File, LoadError};

/// The symbols of an image.
pub struct Symbols {
    /// Functions by address: start, size (0 if unknown), name.
    functions: Vec<(u32, u32, String)>,
    lines: Option<addr2line::Context<gimli::EndianArcSlice<gimli::RunTimeEndian>>>,
}

impl Symbols {
    /// Reads a file that is there for its symbols.
    ///
    /// # Errors
    /// It has none.
    pub fn of(file: &File) -> Result<Symbols, LoadError> {
        Symbols::parse(&file.bytes).ok_or_else(|| {
            file.refuse(
                "has no symbols: neither an ELF file with a table of them nor a list as of nm",
            )
        })
    }

    /// Reads an ELF file or a list; `None` if it has no symbols.
    pub fn parse(bytes: &[u8]) -> Option<Symbols> {
        if !bytes.starts_with(b"\x7fELF") {
            return Symbols::parse_list(std::str::from_utf8(bytes).ok()?);
        }
        let file = object::File::parse(bytes).ok()?;
        let mut functions: Vec<(u32, u32, String)> = file
            .symbols()
            .filter(|symbol| {
                matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Label | SymbolKind::Unknown)
                    && symbol.is_definition()
            })
            .filter_map(|symbol| {
                let name = symbol.name().ok()?;
                // $a, $t and $d are the mapping symbols of the ARM ELF format.
                if name.is_empty() || name.starts_with('$') {
                    return None;
                }
                Some((symbol.address() as u32 & !1, symbol.size() as u32, name.to_owned()))
            })
            .collect();
        if functions.is_empty() {
            return None;
        }
        functions.sort();
        let load = |section: gimli::SectionId| -> Result<_, gimli::Error> {
            use object::ObjectSection;
            let data = file
                .section_by_name(section.name())
                .and_then(|section| section.uncompressed_data().ok())
                .unwrap_or_default();
            let endian = gimli::RunTimeEndian::Little;
            Ok(gimli::EndianArcSlice::new(std::sync::Arc::from(&*data), endian))
        };
        let lines = gimli::Dwarf::load(load).and_then(addr2line::Context::from_dwarf).ok();
        Some(Symbols { functions, lines })
    }

    /// Lines of an address in hexadecimal digits, a letter for the kind, and a name. Kinds of
    /// functions are t and w.
    fn parse_list(text: &str) -> Option<Symbols> {
        let mut functions = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let mut words = line.split_whitespace();
            let address = u32::from_str_radix(words.next()?, 16).ok()?;
            let kind = words.next().filter(|kind| kind.len() == 1)?;
            let name = words.next()?;
            if matches!(kind, "t" | "T" | "w" | "W") && !name.starts_with('$') {
                functions.push((address & !1, 0, name.to_owned()));
            }
        }
        functions.sort();
        (!functions.is_empty()).then_some(Symbols { functions, lines: None })
    }

    /// `function+0x10, file.c:12`, as far as known.
    pub fn describe(&self, address: u32) -> Option<String> {
        let index = self.functions.partition_point(|(start, ..)| *start <= address);
        let (start, size, name) = self.functions.get(index.checked_sub(1)?)?;
        let offset = address - start;
        if *size != 0 && offset >= *size || offset >= 1 << 20 {
            return None;
        }
        let mut symbol = if offset == 0 { name.clone() } else { format!("{name}+{offset:#x}") };
        let location = self
            .lines
            .as_ref()
            .and_then(|lines| lines.find_location(u64::from(address)).ok().flatten());
        if let Some((file, line)) = location.and_then(|found| Some((found.file?, found.line?))) {
            let file = file.rsplit('/').next().unwrap_or(file);
            symbol.push_str(&format!(", {file}:{line}"));
        }
        Some(symbol)
    }
}

#[cfg(test)]
mod tests {
    use super::Symbols;

    #[test]
    fn a_list_names_functions_and_nothing_else() {
        let list =
            "c0300000 T _stext\nc0300020 t $a\nc0300020 t resume\t[module]\nc0300028 d table\n";
        let symbols = Symbols::parse(list.as_bytes()).expect("a list");
        let described = |address| symbols.describe(address);
        assert_eq!(described(0xc030_0000).as_deref(), Some("_stext"));
        assert_eq!(described(0xc030_0030).as_deref(), Some("resume+0x10"));
        assert_eq!(described(0xc02f_ffff), None);
    }

    #[test]
    fn what_is_no_list_has_no_symbols() {
        for text in ["", "c0300000 T", "c0300000 resume\n", "hello world again", "c0300000 d table"]
        {
            assert!(Symbols::parse(text.as_bytes()).is_none(), "{text}");
        }
    }
}
