package compress

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
)

// Offsets of the parts of a simulated program.
const (
	codeAt      = 0x400
	tableAt     = 0x800
	exceptionAt = 0xc00
	programSize = 0x1000
	peAt        = 0x80
	loadedAt    = 0x10000 // the address of the section, which is the whole file from codeAt
)

// simulated returns a program with three functions, whose code begins moved bytes later than in others.
func simulated(moved uint32) []byte {
	b := make([]byte, programSize)
	put := func(at int, values ...uint32) {
		for i, v := range values {
			binary.LittleEndian.PutUint32(b[at+4*i:], v)
		}
	}
	copy(b, "MZ")
	put(peOffset, peAt)
	b[peAt+peSections], b[peAt+peOptionalSize] = 1, 240
	put(peAt+peExceptions, loadedAt+exceptionAt-codeAt, 3*unwindingSize)
	put(peAt+peOptional+240+sectionAddress, loadedAt, programSize-codeAt, codeAt)

	target := int(codeAt + 0x300) // the target of the calls does not move
	for n, at := range []int{codeAt + int(moved), codeAt + int(moved) + 0x50} {
		b[at] = 0xe8
		put(at+1, uint32(target-(at+5)))
		copy(b[at+8:], []byte{0x48, 0x8d, 0x05})
		put(at+11, uint32(target-(at+15)))
		copy(b[at+16:], []byte{0x83, 0x3d})
		put(at+18, uint32(target-(at+22)))
		b[at+30] = byte(n)
	}
	copy(b[tableAt:], headerMagic())
	put(tableAt+headerCount, 3)
	put(tableAt+headerTable, headerSize)
	index, function := tableAt+headerSize, uint32(3*indexSize)
	for n := range uint32(3) {
		begin := moved + 0x50*n
		put(index+int(indexSize*n), begin, function)
		at := index + int(function)
		put(at, begin, 10*n, 0, 0, 100+moved+7*n, 0, 100+moved+7*n+3, 1)
		b[at+functionDataCount] = 2
		put(at+functionSize, 100+moved+7*n+5, 0xffffffff, 40)
		function += functionSize + 3*4
		put(exceptionAt+int(unwindingSize*n), loadedAt+begin, loadedAt+begin+0x50, 0x777)
	}
	return b
}

func TestFilterReducesDifferencesOfMovedCode(t *testing.T) {
	one, other := simulated(0), simulated(0x20)
	before := differing(one[tableAt:], other[tableAt:])
	apply(one)
	apply(other)
	if calls := differing(one[codeAt:codeAt+0x30], other[codeAt+0x20:codeAt+0x50]); calls != 0 {
		t.Errorf("%d bytes of identical code differ", calls)
	}
	// The first function in the index, the function table and the unwind table still differs, because everything moved.
	if after := differing(one[tableAt:], other[tableAt:]); before != 22 || after != 3 {
		t.Errorf("%d bytes of the tables differed before the filter, %d after it", before, after)
	}
}

func TestFormatMatchesFilter(t *testing.T) {
	program := simulated(0)
	apply(program)
	if sum := fmt.Sprintf("%d %x", Format, sha256.Sum256(program)); sum != "1 f8e41211de4bdec56e6f811b9010a9d9e2e76fc13a104e32266a2c92e7499d0c" {
		t.Errorf("format and filtered program are %s; if the filter changed, Format must change, too", sum)
	}
}

func differing(a, b []byte) (n int) {
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

func TestUndoRestoresProgram(t *testing.T) {
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for name, program := range map[string][]byte{"simulated": simulated(16), "of this test": own} {
		changed := bytes.Clone(program)
		apply(changed)
		if differing(changed, program) == 0 {
			t.Errorf("program %s: nothing changed", name)
		}
		undo(changed)
		if n := differing(changed, program); n != 0 {
			t.Errorf("program %s: %d bytes differ", name, n)
		}
	}
}

// TestUndoRestoresDamagedPrograms changes bytes that the filter relies on.
func TestUndoRestoresDamagedPrograms(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 20_000 {
		program := simulated(16)
		for range 1 + random.IntN(4) {
			places := []int{random.IntN(0x200), tableAt + random.IntN(0x120), exceptionAt + random.IntN(0x40), codeAt + random.IntN(0x80)}
			program[places[random.IntN(len(places))]] = byte([]int{0, 1, 0xff, 0xe8, random.IntN(256)}[random.IntN(5)])
		}
		restored := bytes.Clone(program)
		apply(restored)
		undo(restored)
		if !bytes.Equal(program, restored) {
			t.Fatalf("program %d was not restored: %d bytes differ", n, differing(program, restored))
		}
	}
}

func FuzzUndo(f *testing.F) {
	f.Add(simulated(0))
	f.Add(simulated(16)[:exceptionAt+20])
	f.Add([]byte("\xe8\x01\x02\xe8\x00\x00\x00\x00\x48\x8d\x05\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, program []byte) {
		found, back := bytes.Clone(program), bytes.Clone(program)
		apply(found)
		undo(found)
		undo(back)
		apply(back)
		if !bytes.Equal(found, program) || !bytes.Equal(back, program) {
			t.Error("the program was not restored")
		}
	})
}
