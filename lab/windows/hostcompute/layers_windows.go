package main

import "C"

import (
	"os"
	"unicode/utf16"
	"unsafe"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hcs"
)

func main() {}

func layers() hcs.Layers { return hcs.Layers{Mounts: guestapi.MountsDir} }

// descriptor is Windows' WC_LAYER_DESCRIPTOR.
type descriptor struct {
	id    hcs.GUID
	flags uint32
	path  *uint16
}

func paths(first unsafe.Pointer, count uintptr) []string {
	var list []string
	for _, d := range unsafe.Slice((*descriptor)(first), int(count)) {
		list = append(list, text(d.path))
	}
	return list
}

//export ActivateLayer
func ActivateLayer(driver unsafe.Pointer, layer *uint16) uint32 { return 0 }

//export DeactivateLayer
func DeactivateLayer(driver unsafe.Pointer, layer *uint16) uint32 { return 0 }

//export CreateLayer
func CreateLayer(driver unsafe.Pointer, layer, parent *uint16) uint32 {
	return result(os.MkdirAll(text(layer), 0o755), "CreateLayer %s", text(layer))
}

//export CreateSandboxLayer
func CreateSandboxLayer(driver unsafe.Pointer, layer *uint16, parent uintptr, first unsafe.Pointer, count uintptr) uint32 {
	return result(layers().CreateScratch(text(layer)), "CreateSandboxLayer %s", text(layer))
}

//export ExpandSandboxSize
func ExpandSandboxSize(driver unsafe.Pointer, layer *uint16, size uint64) uint32 { return 0 }

//export DestroyLayer
func DestroyLayer(driver unsafe.Pointer, layer *uint16) uint32 {
	return result(layers().Destroy(text(layer)), "DestroyLayer %s", text(layer))
}

//export PrepareLayer
func PrepareLayer(driver unsafe.Pointer, layer *uint16, first unsafe.Pointer, count uintptr) uint32 {
	return result(layers().Prepare(text(layer), paths(first, count)), "PrepareLayer %s", text(layer))
}

//export UnprepareLayer
func UnprepareLayer(driver unsafe.Pointer, layer *uint16) uint32 {
	err := changeDrive(guestapi.Drive{Root: layers().Mount(text(layer)), Remove: true})
	if err == nil {
		err = layers().Unprepare(text(layer))
	}
	return result(err, "UnprepareLayer %s", text(layer))
}

//export GetLayerMountPath
func GetLayerMountPath(driver unsafe.Pointer, layer *uint16, length *uintptr, buffer *uint16) uint32 {
	volume := append(utf16.Encode([]rune(layers().Volume(text(layer)))), 0)
	if buffer != nil {
		copy(unsafe.Slice(buffer, int(*length)), volume)
	}
	*length = uintptr(len(volume))
	return 0
}

//export ImportLayer
func ImportLayer(driver unsafe.Pointer, layer, from *uint16, first unsafe.Pointer, count uintptr) uint32 {
	return result(layers().Import(text(layer), text(from)), "ImportLayer %s", text(layer))
}

//export LayerExists
func LayerExists(driver unsafe.Pointer, layer *uint16, exists *uint32) uint32 {
	*exists = 0
	if _, err := os.Stat(text(layer)); err == nil {
		*exists = 1
	}
	return 0
}

//export NameToGuid
func NameToGuid(name *uint16, guid unsafe.Pointer) uint32 {
	*(*hcs.GUID)(guid) = hcs.GUIDOf(text(name))
	return 0
}

//export ProcessBaseImage
func ProcessBaseImage(layer *uint16) uint32 {
	return result(layers().ProcessBase(text(layer)), "ProcessBaseImage %s", text(layer))
}

//export ProcessUtilityImage
func ProcessUtilityImage(folder *uint16) uint32 {
	return result(layers().ProcessUtility(text(folder)), "ProcessUtilityImage %s", text(folder))
}

//export GrantVmAccess
func GrantVmAccess(machine, file *uint16) uint32 { return 0 }
