package compress

import (
	"bytes"
	"encoding/binary"
)

// apply replaces addresses in b, so that programs with the same code have the same bytes: moved code changes the
// distances of its calls, and each entry of a table begins where the previous one ends. It needs no parameters, works on
// any bytes, and undo is its exact inverse. A change of apply changes the format of payloads.
func apply(b []byte) {
	filter{b, false}.functions()
	filter{b, false}.unwinding()
	filter{b, false}.code()
}

// undo is the inverse of apply.
func undo(b []byte) {
	filter{b, true}.code()
	filter{b, true}.unwinding()
	filter{b, true}.functions()
}

// filter takes the same steps in both directions: the bytes that it reads to find a number have not been changed
// before, or are already restored.
type filter struct {
	b    []byte
	undo bool
}

// difference replaces the number at an offset with its difference from base, or restores it. It returns the original
// number.
func (f filter) difference(at int, base uint32) uint32 {
	current := f.number(at)
	if f.undo {
		binary.LittleEndian.PutUint32(f.b[at:], current+base)
		return current + base
	}
	binary.LittleEndian.PutUint32(f.b[at:], current-base)
	return current
}

// optional is like difference, but leaves zero, which means none, unchanged. The difference that would be zero is replaced by
// the one that zero would have had.
func (f filter) optional(at int, base uint32) uint32 {
	switch current := f.number(at); {
	case current == 0:
		return base
	case !f.undo && current == base, f.undo && current == -base:
		to := -base
		if f.undo {
			to = base
		}
		binary.LittleEndian.PutUint32(f.b[at:], to)
		return base
	}
	return f.difference(at, base)
}

func (f filter) number(at int) uint32 { return binary.LittleEndian.Uint32(f.b[at:]) }

// code replaces the distances in instructions with addresses, counted from the beginning of the file. It cannot
// identify all instructions: it also changes a few bytes that are none.
func (f filter) code() {
	var begins [256]bool // whether an instruction with a distance begins with a byte
	for _, b := range []byte{0xe8, 0x83, 0x48, 0x49, 0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f} {
		begins[b] = true
	}
	for at := 0; at+7 <= len(f.b); at++ {
		first := f.b[at]
		if !begins[first] {
			continue
		}
		second, third := f.b[at+1], f.b[at+2]
		length := 0
		switch {
		case first == 0xe8: // call
			length = 1
		case first == 0x83 && second == 0x3d: // cmp dword [rip+distance], number
			length = 2
		case first&0xf8 == 0x48 && third&0xc7 == 0x05: // lea, mov and cmp of 64 bits with [rip+distance]
			switch second {
			case 0x8d, 0x8b, 0x89, 0x3b, 0x39:
				length = 3
			}
		}
		if length > 0 {
			f.address(at + length)
			at += length + 3 // even if nothing changed: a decision must not depend on bytes that change later
		}
	}
}

// address replaces the distance at an offset with the address that it leads to, if that is in the file. Distances that
// look like such addresses are swapped with them, so that each can be restored.
func (f filter) address(at int) {
	size, from := int64(len(f.b)), int64(at+4)
	current := int64(int32(f.number(at)))
	if current < -from || current >= size {
		return
	}
	switch {
	case !f.undo && current < size-from:
		current += from
	case !f.undo:
		current -= size
	case current >= 0:
		current -= from
	default:
		current += size
	}
	binary.LittleEndian.PutUint32(f.b[at:], uint32(current))
}

// The function table of a Go program (runtime.pclntab) begins with a header of 8-byte numbers, described by
// runtime.pcHeader; runtime._func describes functions. Go's linker has written this version since Go 1.20.
const (
	headerCount = 8     // number of functions
	headerTable = 8 * 8 // offset of the index, which the functions follow
	headerSize  = headerTable + 8

	indexSize = 8 // of a function in the index: address, offset of the function from the index

	functionName       = 4
	functionTables     = 16 // three offsets of tables; more of them follow the function
	functionTablesEnd  = 28
	functionTableCount = 28
	functionDataCount  = 43
	functionSize       = 44
)

func headerMagic() []byte { return []byte{0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8} }

// functions replaces the numbers in the function table with their differences from those of the previous function.
func (f filter) functions() {
	header := bytes.Index(f.b, headerMagic())
	if header < 0 || len(f.b)-header < headerSize {
		return
	}
	count := binary.LittleEndian.Uint64(f.b[header+headerCount:])
	offset := binary.LittleEndian.Uint64(f.b[header+headerTable:])
	if offset < headerSize || offset > uint64(len(f.b)-header) {
		return
	}
	table := filter{f.b[header+int(offset):], f.undo}
	if count > uint64(len(table.b)/indexSize) {
		return
	}
	previous := function{end: uint32(count * indexSize)}
	for i := range int(count) {
		next, ok := table.function(i*indexSize, previous)
		if !ok {
			return
		}
		previous = next
	}
}

// function has the numbers with which those of the next function are compared.
type function struct{ address, name, table, end uint32 }

// function replaces the numbers of one function. Bytes that begin before the end of the previous function, or do not end in
// the table, are not a function, and neither is anything after them.
func (f filter) function(index int, previous function) (function, bool) {
	current := function{table: previous.table}
	current.address = f.difference(index, previous.address)
	offset := f.difference(index+4, previous.end)
	begin := int(offset)
	if offset < previous.end || begin > len(f.b)-functionSize {
		return current, false
	}
	tables, data := uint64(f.number(begin+functionTableCount)), uint64(f.b[begin+functionDataCount])
	end := uint64(offset) + functionSize + 4*(tables+data)
	if end > uint64(len(f.b)) {
		return current, false
	}
	f.difference(begin, current.address)
	current.name = f.difference(begin+functionName, previous.name)
	for at := begin + functionTables; at < begin+functionTablesEnd; at += 4 {
		current.table = f.optional(at, current.table)
	}
	for at := begin + functionSize; at < begin+functionSize+4*int(tables); at += 4 {
		current.table = f.optional(at, current.table)
	}
	current.end = uint32(end)
	return current, true
}
