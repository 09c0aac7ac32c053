package win

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// Leaves of the CPUID instruction. Hypervisors use those from 0x40000000 on; there, Hyper-V reports the privileges of a partition (Hypervisor
// Top-Level Functional Specification, Feature and Interface Discovery).
const (
	cpuFeatures      = 1
	hypervisorVendor = 0x40000000
	hypervisorRights = 0x40000003
)

// Bits of what the leaves return.
const (
	// hypervisorPresent is a bit of ECX of cpuFeatures.
	hypervisorPresent = 1 << 31
	// createPartitions is a bit of EBX of hypervisorRights. Only the partition in which Hyper-V was installed has it: its virtual machines see the
	// same hypervisor without this bit.
	createPartitions = 1 << 0
)

// hyperVVendor is the vendor ID of Hyper-V. Other hypervisors also return it if Windows should use their calls like those of Hyper-V.
const hyperVVendor = "Microsoft Hv"

// cpuid executes the CPUID instruction, which needs no privilege.
func cpuid(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32)

func virtualization() (v wicdapi.Virtualization) {
	v.Processor = windows.IsProcessorFeaturePresent(windows.PF_VIRT_FIRMWARE_ENABLED) &&
		windows.IsProcessorFeaturePresent(windows.PF_SECOND_LEVEL_ADDRESS_TRANSLATION)
	if _, _, ecx, _ := cpuid(cpuFeatures, 0); ecx&hypervisorPresent == 0 {
		return v
	}
	last, ebx, ecx, edx := cpuid(hypervisorVendor, 0)
	var name []byte
	for _, part := range []uint32{ebx, ecx, edx} {
		name = binary.LittleEndian.AppendUint32(name, part)
	}
	v.Hypervisor = string(bytes.TrimRight(name, "\x00"))
	if v.Hypervisor == hyperVVendor && last >= hypervisorRights {
		_, rights, _, _ := cpuid(hypervisorRights, 0)
		v.HyperV = rights&createPartitions != 0
	}
	return v
}
