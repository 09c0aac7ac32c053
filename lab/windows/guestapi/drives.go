package guestapi

// DrivesPort is the port of the host's reaper on 127.0.0.1 in the host. A program sends a Drive as a line of JSON. The reaper creates or
// removes the drive C: of a container and answers DriveDone, or with an error.
const (
	DrivesPort = 6
	DriveDone  = "done"
)

// Drive is the drive C: of a container.
type Drive struct {
	// Root is the folder of the host with the files of the container's layers, in MountsDir.
	Root   string
	Mounts []Mount `json:",omitempty"`
	// OnHost adds only the mounts to the host's own drive, for HostProcess containers.
	OnHost bool `json:",omitempty"`
	// Host is the computer name in the container. If empty, it is that of the host.
	Host string `json:",omitempty"`
	// Namespace is the network namespace of the container, whose endpoint determines how its programs resolve names.
	Namespace string `json:",omitempty"`
	Limits
	Remove bool `json:",omitempty"`
}

// Limits are the limits of all processes of a container. 0 is no limit.
type Limits struct {
	MemoryInMB   uint64 `json:",omitempty"`
	ProcessorMax uint32 `json:",omitempty"` // 10000 are all processors of the host
}

// Mount is a folder or a file of the host in a container. The fields have the names of Windows' MappedDirectory.
type Mount struct {
	HostPath, ContainerPath string
	ReadOnly                bool `json:",omitempty"`
}

// DriveTag is the prefix of WINEDEBUG in processes with their own drive C:. The name of the drive follows. WINEDEBUG is the
// only variable of a new process that Wine passes to its loader.
const DriveTag = "lab:"
