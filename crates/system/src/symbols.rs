//! Names of functions and source lines, from the ELF file that runs or one given beside it, or from
//! a list as of `nm` or `/proc/kallsyms`.

use object::{Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};

use crate::loader::{File, LoadError};

/// The symbols of an image.
pub struct Symbols {
    /// Functions whose size is known, by address: start, size, name.
    functions: Vec<(u32, u32, String)>,
    /// Other names of code, as of labels in assembly, by address.
    labels: Vec<(u32, String)>,
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
        let (mut functions, mut labels) = (Vec::new(), Vec::new());
        for symbol in file.symbols().filter(|symbol| !symbol.is_undefined()) {
            let is_function = symbol.kind() == SymbolKind::Text;
            // Assembly's labels have no type unless the source gives one.
            let may_be_label = matches!(symbol.kind(), SymbolKind::Label | SymbolKind::Unknown);
            if !(is_function || may_be_label && is_in_code(&file, &symbol)) {
                continue;
            }
            // $a, $t and $d are the mapping symbols of the ARM ELF format.
            let name = match symbol.name() {
                Ok(name) if !name.is_empty() && !name.starts_with('$') => name.to_owned(),
                _ => continue,
            };
            let address = symbol.address() as u32 & !1;
            if is_function && symbol.size() != 0 {
                functions.push((address, symbol.size() as u32, name));
            } else {
                labels.push((address, name));
            }
        }
        functions.sort();
        labels.sort();
        let load = |section: gimli::SectionId| -> Result<_, gimli::Error> {
            let data = file
                .section_by_name(section.name())
                .and_then(|section| section.uncompressed_data().ok())
                .unwrap_or_default();
            let endian = gimli::RunTimeEndian::Little;
            Ok(gimli::EndianArcSlice::new(std::sync::Arc::from(&*data), endian))
        };
        let lines = gimli::Dwarf::load(load).and_then(addr2line::Context::from_dwarf).ok();
        let has_names = !functions.is_empty() || !labels.is_empty();
        has_names.then_some(Symbols { functions, labels, lines })
    }

    /// Lines of an address in hexadecimal digits, a letter for the kind, and a name. Kinds of
    /// functions are t and w.
    fn parse_list(text: &str) -> Option<Symbols> {
        let mut labels = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let mut words = line.split_whitespace();
            let address = u32::from_str_radix(words.next()?, 16).ok()?;
            let kind = words.next().filter(|kind| kind.len() == 1)?;
            let name = words.next()?;
            if matches!(kind, "t" | "T" | "w" | "W") && !name.starts_with('$') {
                labels.push((address & !1, name.to_owned()));
            }
        }
        labels.sort();
        (!labels.is_empty()).then_some(Symbols { functions: Vec::new(), labels, lines: None })
    }

    /// `function+0x10, file.c:12`, as far as known.
    pub fn describe(&self, address: u32) -> Option<String> {
        let (start, name) = self.function_at(address)?;
        let offset = address - start;
        let mut symbol = if offset == 0 { name.to_owned() } else { format!("{name}+{offset:#x}") };
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

    /// Where the function that covers an address begins, and its name; else those of the last
    /// label before it that is in no function, if it is near.
    fn function_at(&self, address: u32) -> Option<(u32, &str)> {
        let before = self.functions.partition_point(|(start, ..)| *start <= address);
        let function = before.checked_sub(1).map(|last| &self.functions[last]);
        if let Some((start, size, name)) = function
            && address - start < *size
        {
            return Some((*start, name));
        }
        let before = self.labels.partition_point(|(start, _)| *start <= address);
        let (start, name) = &self.labels[before.checked_sub(1)?];
        let end = function.map_or(0, |(start, size, _)| start.saturating_add(*size));
        (*start >= end && address - start < 1 << 20).then_some((*start, name))
    }
}

fn is_in_code(file: &object::File<'_>, symbol: &object::Symbol<'_, '_>) -> bool {
    let section = symbol.section_index().and_then(|at| file.section_by_index(at).ok());
    section.is_some_and(|section| section.kind() == SectionKind::Text)
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
