package compress

import "encoding/binary"

// Offsets in Windows executables (Microsoft's PE Format specification) that lead to the unwind table.
const (
	peOffset          = 0x3c // of the PE header
	peSections        = 6    // number of sections
	peOptionalSize    = 20
	peOptional        = 24
	peExceptions      = peOptional + 112 + 3*8 // address and size of the table
	sectionHeaderSize = 40
	sectionAddress    = 12
	sectionSize       = 16
	sectionOffset     = 20

	unwindingSize = 12 // of a function: addresses of its begin, its end, and its unwind information
)

// unwinding replaces the addresses in the unwind table.
func (f filter) unwinding() {
	var begin, end, info uint32
	for table := f.unwindingTable(); len(table.b) >= unwindingSize; table.b = table.b[unwindingSize:] {
		begin = table.difference(0, end)
		end = table.difference(4, begin)
		info = table.difference(8, info)
	}
}

// unwindingTable returns the unwind table, or an empty filter if there is none.
func (f filter) unwindingTable() filter {
	none := filter{nil, f.undo}
	if len(f.b) < peOffset+4 || f.b[0] != 'M' || f.b[1] != 'Z' {
		return none
	}
	header := int64(f.number(peOffset))
	if header+peExceptions+8 > int64(len(f.b)) {
		return none
	}
	pe := filter{f.b[header:], f.undo}
	address, size := pe.number(peExceptions), pe.number(peExceptions+4)
	section := peOptional + int(binary.LittleEndian.Uint16(pe.b[peOptionalSize:]))
	sectionsEnd := section + sectionHeaderSize*int(binary.LittleEndian.Uint16(pe.b[peSections:]))
	for ; section < sectionsEnd && sectionsEnd <= len(pe.b); section += sectionHeaderSize {
		begin, offset := pe.number(section+sectionAddress), pe.number(section+sectionOffset)
		inSection := uint64(address) - uint64(begin)
		if address < begin || inSection+uint64(size) > uint64(pe.number(section+sectionSize)) {
			continue
		}
		from := uint64(offset) + inSection
		if from < uint64(header)+uint64(sectionsEnd) || from+uint64(size) > uint64(len(f.b)) {
			return none
		}
		return filter{f.b[from : from+uint64(size)], f.undo}
	}
	return none
}
