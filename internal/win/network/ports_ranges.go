package network

import (
	"strconv"
	"strings"
)

// PortRange is a range of ports with its ends.
type PortRange struct{ First, Last uint16 }

// maxPortRanges is how many excluded ranges are read.
const maxPortRanges = 512

// parseDynamic reads what netsh says of the dynamic range: two lines that end with a number, the first port and how many. The words before
// are in the language of Windows.
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

// parseExcluded reads what netsh says of excluded ranges: lines with the first and the last port. Those with an asterisk are an
// administrator's: they keep Windows from giving the ports away, and programs can listen on them.
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
