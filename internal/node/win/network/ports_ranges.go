package network

import (
	"strconv"
	"strings"
)

// PortRange is an inclusive range of ports.
type PortRange struct{ First, Last uint16 }

// maxPortRanges limits how many excluded ranges are read.
const maxPortRanges = 512

// parseDynamic parses netsh's output for the dynamic range: two lines that end with a number, the first port and the count. The words before them are
// in the language of Windows.
func parseDynamic(text string) (r PortRange, ok bool) {
	var numbers []uint64
	for line := range strings.Lines(text) {
		at := strings.LastIndexByte(line, ':')
		if n, err := strconv.ParseUint(strings.TrimSpace(line[at+1:]), 10, 17); at >= 0 && err == nil {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) != 2 || numbers[0] == 0 || numbers[1] == 0 || numbers[0]+numbers[1]-1 > 65535 {
		return PortRange{}, false
	}
	return PortRange{uint16(numbers[0]), uint16(numbers[0] + numbers[1] - 1)}, true
}

// parseExcluded parses netsh's output for excluded ranges: lines with the first and the last port. Ranges with an asterisk were added by an
// administrator: Windows does not assign their ports, but programs can listen on them.
func parseExcluded(text string) (ranges []PortRange) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 2 || len(ranges) == maxPortRanges {
			continue
		}
		first, errFirst := strconv.ParseUint(fields[0], 10, 16)
		last, errLast := strconv.ParseUint(fields[1], 10, 16)
		if errFirst == nil && errLast == nil && first > 0 && first <= last {
			ranges = append(ranges, PortRange{uint16(first), uint16(last)})
		}
	}
	return ranges
}
