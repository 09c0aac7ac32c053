// Package guestapi is the conversation between the lab and the program it puts into each
// Windows host: JSON over HTTP, on a loopback port of the host that only the lab reaches,
// whatever happens to the host's network.
package guestapi

// Port is where the guest answers, on 127.0.0.1 in the host.
const Port = 9

// AddressesPort is where the host's keeper answers, on 127.0.0.1 in the host: whoever connects has it give the host the addresses of all
// pods that NetworksDir has now, and reads AddressesDone when they are there, or what went wrong.
const (
	AddressesPort = 7
	AddressesDone = "done"
)

// Exit codes by which the guest tells the host's init what to do next. Unix keeps eight bits of them.
const (
	ExitReboot   = 101
	ExitPowerOff = 102
)

// Folders and files in a host that the lab and its guest share.
const (
	Dir                = `C:\lab`
	GuestProgram       = `C:\lab\guest.exe`
	StatsFile          = `C:\lab\sshd.json`        // sshd.Stats
	PowerShellLog      = `C:\lab\powershell.jsonl` // one JSON string, its command line, for each start of PowerShell
	SSHDLog            = `C:\lab\sshd.log`         // what the SSH server did
	SSHDir             = `C:\ProgramData\ssh`      // as OpenSSH has it
	AuthorizedKeysFile = `C:\ProgramData\ssh\administrators_authorized_keys`
	UserFile           = `C:\lab\user`    // name of the user who may log in
	ContainersDir      = `C:\lab\systems` // what hostcompute knows of containers,
	MountsDir          = `C:\lab\mounts`  // and their files
	NetworksDir        = `C:\lab\hns`     // hns.Store
	HostComputeLog     = `C:\lab\hostcompute.log`
	HostKeyFile        = `C:\ProgramData\ssh\ssh_host_ed25519_key`
)

// Paths of the requests.
const (
	BootPath           = "/boot"            // Nothing -> Boot
	ExecPath           = "/exec"            // ExecRequest -> ExecResult
	ServicesPath       = "/services"        // Nothing -> []Service
	ServiceEditPath    = "/services/edit"   // ServiceEdit -> Nothing
	ShutdownPath       = "/shutdown"        // Shutdown -> Nothing
	RegistryGetPath    = "/registry/get"    // RegistryName -> RegistryAnswer
	RegistrySetPath    = "/registry/set"    // RegistryEntry -> Nothing
	RegistryDeletePath = "/registry/delete" // RegistryName -> Nothing; a missing value is no error
)

// Nothing is an empty request or answer.
type Nothing struct{}

// Boot says which start of the host this is.
type Boot struct {
	ID uint32 // the registry's BootId
}

// ExecRequest is a command line for CreateProcess: no shell in between.
type ExecRequest struct {
	CommandLine string
	Dir         string // C:\ when empty
	Stdin       []byte
}

// ExecResult is what a command left.
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

// ServiceEdit changes the declaration of a service, as "sc.exe config" does on Windows (Wine's lacks it). What is empty stays.
type ServiceEdit struct {
	Name, Command string
	DependsOn     []string
	Disabled      bool
}

// Shutdown asks for the end of this boot.
type Shutdown struct {
	Reboot  bool
	Seconds int // from now
}

// RegistryName is the place of a value; Key begins with HKLM\ or HKCU\, an empty Name is the key's default value.
type RegistryName struct{ Key, Name string }

// RegistryValue is a value of one of the types in use; Type tells which field counts.
type RegistryValue struct {
	Type   string   // REG_SZ, REG_EXPAND_SZ: Text; REG_MULTI_SZ: Texts; REG_DWORD, REG_QWORD: Number; REG_BINARY: Data
	Text   string   `json:",omitempty"`
	Texts  []string `json:",omitempty"`
	Number uint64   `json:",omitempty"`
	Data   []byte   `json:",omitempty"`
}

// RegistryEntry is a value with its place.
type RegistryEntry struct {
	RegistryName
	Value RegistryValue
}

// RegistryAnswer is a value, or none.
type RegistryAnswer struct {
	Found bool
	Value RegistryValue
}
