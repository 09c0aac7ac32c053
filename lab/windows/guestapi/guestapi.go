// Package guestapi is the API of the lab's program on each Windows host: JSON over HTTP, on a loopback port of the host. Only the
// lab reaches it, whatever the state of the host's network is.
package guestapi

// Port is the guest's port on 127.0.0.1 in the host.
const Port = 9

// AddressesPort is the port of the host's reaper on 127.0.0.1 in the host. After a connection, the reaper enforces the ACLs of
// all endpoints in NetworksDir, assigns the addresses of all pods to the host, and answers AddressesDone, or with an error.
const (
	AddressesPort = 7
	AddressesDone = "done"
)

// Exit codes by which the guest reports to the host's init what to do next. Unix keeps eight bits of them.
const (
	ExitReboot   = 101
	ExitPowerOff = 102
)

// Folders and files on a host that the lab and its guest share.
const (
	Dir                = `C:\lab`
	GuestProgram       = `C:\lab\guest.exe`
	StatsFile          = `C:\lab\sshd.json`        // sshserver.Counters
	PowerShellLog      = `C:\lab\powershell.jsonl` // one JSON string, its command line, for each start of PowerShell
	SSHDLog            = `C:\lab\sshd.log`         // log of the SSH server
	AuthorizedKeysFile = `C:\ProgramData\ssh\administrators_authorized_keys`
	UserFile           = `C:\lab\user`            // name of the user who can log in
	SSHListenFile      = `C:\lab\ssh-listen`      // address and port of the SSH server; :22 without the file
	SSHQuirksFile      = `C:\lab\ssh-quirks.json` // sshserver.Quirks for new connections
	ContainersDir      = `C:\lab\systems`         // hostcompute's compute systems
	MountsDir          = `C:\lab\mounts`          // mounted layers of containers
	NetworksDir        = `C:\lab\hns`             // hns.Store
	AddressFile        = `C:\lab\address`         // the host's address, as text
	HostComputeLog     = `C:\lab\hostcompute.log`
	HostKeyFile        = `C:\ProgramData\ssh\ssh_host_ed25519_key`
)

// Paths of the requests.
const (
	BootPath        = "/boot"          // Nothing -> Boot
	ExecPath        = "/exec"          // ExecRequest -> ExecResult
	ServicesPath    = "/services"      // Nothing -> []Service
	ServiceEditPath = "/services/edit" // ServiceEdit -> Nothing
	ShutdownPath    = "/shutdown"      // Shutdown -> Nothing
	RegistryGetPath = "/registry/get"  // RegistryName -> RegistryAnswer
	RegistrySetPath = "/registry/set"  // RegistryEntry -> Nothing
)

// Nothing is an empty request or answer.
type Nothing struct{}

// Boot identifies a boot of the host.
type Boot struct {
	ID uint32 // the registry's BootId
}

// ExecRequest is a command line for CreateProcess, without a shell.
type ExecRequest struct {
	CommandLine string
}

// ExecResult is the result of a command.
type ExecResult struct {
	Stdout, Stderr []byte
	ExitCode       int
}

// Service is one entry of the Service Control Manager.
type Service struct {
	Name    string
	State   string // stopped, start pending, stop pending, running, continue pending, pause pending, paused
	PID     uint32
	Command string // ImagePath
}

// ServiceEdit changes the configuration of a service like "sc.exe config" on Windows, which Wine lacks. Empty fields change
// nothing.
type ServiceEdit struct {
	Name, Command string
	DependsOn     []string
	Disabled      bool
}

// Shutdown requests a power off or a reboot.
type Shutdown struct {
	Reboot  bool
	Seconds int // from now
}

// RegistryName names a value; Key begins with HKLM\ or HKCU\, an empty Name is the key's default value.
type RegistryName struct{ Key, Name string }

// RegistryValue is a value; Type determines which field has it. Only REG_SZ and REG_DWORD can be written.
type RegistryValue struct {
	Type   string   // REG_SZ, REG_EXPAND_SZ: Text; REG_MULTI_SZ: Texts; REG_DWORD: Number
	Text   string   `json:",omitempty"`
	Texts  []string `json:",omitempty"`
	Number uint64   `json:",omitempty"`
}

// RegistryEntry is a value with its name.
type RegistryEntry struct {
	RegistryName
	Value RegistryValue
}

// RegistryAnswer is a value, or none.
type RegistryAnswer struct {
	Found bool
	Value RegistryValue
}
