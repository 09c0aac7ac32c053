package winbuild

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// added has the source files that patches add.
//
//go:embed patches
var added embed.FS

// A patch changes the files of one module, or of Go's own source tree.
type patch struct {
	module string // module path; empty for GOROOT/src
	// programs limits the patch to builds of programs of the module itself.
	programs bool
	edits    []edit            // in order
	adds     map[string]string // new file, relative to the tree -> name in the patches folder
}

// An edit replaces text that must occur in a file a known number of times, or adds lines after it.
type edit struct {
	file    string // relative to the tree, with slashes
	find    string
	times   int    // occurrences of find; 0 means one
	replace string // replaces find; empty to keep it
	add     string // is added after it
}

// gorootPatch returns the patch with which programs can use Unix sockets and remove folders on Wine.
func gorootPatch() patch {
	const sockets = "net/unixsock_posix.go"
	return patch{
		adds: map[string]string{"net/unixsock_wine.go": "net_unixsock_wine.go.txt"},
		edits: []edit{
			{
				file: sockets,
				find: "func (sd *sysDialer) dialUnix(ctx context.Context, laddr, raddr *UnixAddr) (*UnixConn, error) {\n",
				add:  "if sd.network == \"unix\" && raddr != nil { return sd.dialUnixOverTCP(ctx, raddr) }\n",
			},
			{
				file: sockets,
				find: "func (sl *sysListener) listenUnix(ctx context.Context, laddr *UnixAddr) (*UnixListener, error) {\n",
				add:  "if sl.network == \"unix\" { return sl.listenUnixOverTCP(ctx, laddr) }\n",
			},
			{ // Wine rejects a delete with POSIX semantics with an error that Go does not expect.
				file:    "internal/syscall/windows/at_windows.go",
				find:    "\tdefault:\n\t\treturn err.(NTStatus).Errno()\n\t}\n}\n\n// TestDeleteatFallback",
				replace: "\tdefault:\n\t\treturn deleteatFallback(h)\n\t}\n}\n\n// TestDeleteatFallback",
			},
		},
	}
}

// imagePatch returns the patch with which programs can use UDP, because Wine does not support an option that Go sets.
func imagePatch() patch {
	return patch{edits: []edit{{
		file:    "net/fd_windows.go",
		find:    "err = syscall.WSAIoctl(fd.pfd.Sysfd, windows.SIO_UDP_NETRESET, (*byte)(unsafe.Pointer(&flag)), size, nil, 0, &ret, nil, 0)\n",
		replace: "_ = windows.SIO_UDP_NETRESET\n",
	}}}
}

// modulePatches returns the patches of modules that call functions that Wine lacks.
func modulePatches() []patch {
	return []patch{sysPatch(), clientGoPatch(), winioPatch(), kubernetesPatch(), hcsshimPatch()}
}

func sysPatch() patch {
	return patch{module: "golang.org/x/sys", adds: map[string]string{"windows/svc/environment_wine.go": "sys_environment_wine.go.txt"}, edits: []edit{
		{ // Run is called before any code of the service reads a variable.
			file: "windows/svc/service.go",
			find: "func Run(name string, handler Handler) error {\n",
			add:  "takeEnvironment(name)\n",
		},
		{ // Services run in session 1 in Wine.
			file:    "windows/svc/security.go",
			find:    "return parentProcess.SessionID == 0 && strings.EqualFold(",
			replace: "return strings.EqualFold(",
		},
		{ // Wine returns volume GUID paths (flag 1) that it cannot open, so this requests drive letters.
			file: "windows/zsyscall_windows.go",
			find: "func GetFinalPathNameByHandle(file Handle, filePath *uint16, filePathSize uint32, flags uint32) (n uint32, err error) {\n",
			add:  "flags &^= 1\n",
		},
	}}
}

// clientGoPatch returns the patch for the kubelet's certificates. Their store has a symbolic link to the current certificate,
// but on Wine creating the link succeeds without an effect.
func clientGoPatch() patch {
	const store = "util/certificate/certificate_store.go"
	return patch{
		module: "k8s.io/client-go",
		adds:   map[string]string{"util/certificate/store_wine.go": "clientgo_store_wine.go.txt"},
		edits: []edit{
			{file: store, find: "os.Symlink(filename, updatedPath)", replace: "copyInstead(filename, updatedPath)"},
			{file: store, find: "fi.Mode()&os.ModeSymlink != os.ModeSymlink", replace: "!fi.Mode().IsRegular()", times: 3},
		},
	}
}

// kubernetesPatch returns the patch for the kubelet's volumes of ConfigMaps, Secrets and tokens, which contain symbolic links.
func kubernetesPatch() patch {
	return patch{
		module: "k8s.io/kubernetes",
		adds:   map[string]string{"pkg/volume/util/atomic_writer_wine.go": "kubernetes_atomic_writer_wine.go.txt"},
		edits: []edit{{
			file: "pkg/volume/util/atomic_writer.go",
			find: "func (w *AtomicWriter) Write(payload map[string]FileProjection, setPerms func(subPath string) error) error {\n",
			add:  "if runtime.GOOS == \"windows\" { return w.writeWithoutLinks(payload) }\n",
		}},
	}
}

// hcsshimPatch returns the patch for HostProcess containers. Wine lacks silos, logons of services and most properties of jobs,
// such as the processor time.
func hcsshimPatch() patch {
	const job, limits = "internal/jobobject/jobobject.go", "internal/jobobject/limits.go"
	const container = "internal/jobcontainers/jobcontainer.go"
	return patch{
		module: "github.com/Microsoft/hcsshim", programs: true,
		adds: map[string]string{
			"internal/jobcontainers/jobcontainer_wine.go": "hcsshim_jobcontainer_wine.go.txt",
			"internal/jobobject/jobobject_wine.go":        "hcsshim_jobobject_wine.go.txt",
		},
		edits: []edit{
			{
				file: container,
				find: "func (c *JobContainer) bindSetup(ctx context.Context, s *specs.Spec, opts CreateOptions) (_ resources.ResourceCloser, err error) {\n",
				add:  "return c.setupOnWine(ctx, s, opts)\n",
			},
			{file: container, find: "c.job.QueryProcessorStats()", replace: "c.processorTimeOnWine()"},
			{file: container, find: "env = append(env, sandboxMountPointEnvVar+\"=\"+c.rootfsLocation)\n", add: "env = append(env, c.variableOnWine())\n"},
			{
				file: "internal/jobcontainers/logon.go",
				find: "func (c *JobContainer) processToken(ctx context.Context, userOrGroup string) (windows.Token, error) {\n",
				add:  "if strings.HasPrefix(userOrGroup, `NT AUTHORITY\\`) { return openCurrentProcessToken() }\n",
			},
			{file: "internal/jobcontainers/process.go", find: "LoadLibrary(\"kernel32.dll\")", replace: "LoadLibrary(\"kernelbase.dll\")"},
			{file: job, find: "func enableIOTracking(job windows.Handle) error {\n", add: "return nil\n"},
			{
				file: job,
				find: "func (job *JobObject) QueryStorageStats() (*winapi.JOBOBJECT_IO_ATTRIBUTION_INFORMATION, error) {\n",
				add:  "return &winapi.JOBOBJECT_IO_ATTRIBUTION_INFORMATION{}, nil\n",
			},
			{
				file: job,
				find: "func (job *JobObject) QueryMemoryStats() (*winapi.JOBOBJECT_MEMORY_USAGE_INFORMATION, error) {\n",
				add:  "used, err := job.memoryOnWine()\nreturn &winapi.JOBOBJECT_MEMORY_USAGE_INFORMATION{JobMemory: used, PeakJobMemoryUsed: used}, err\n",
			},
			{file: job, find: "func (job *JobObject) QueryPrivateWorkingSet() (uint64, error) {\n", add: "return job.memoryOnWine()\n"},
			{file: limits, find: "func (job *JobObject) SetMemoryLimit(memoryLimitInBytes uint64) error {\n", add: "return nil\n"},
			{file: limits, find: "func (job *JobObject) SetCPULimit(rateControlType CPURateControlType, rateControlValue uint32) error {\n", add: "return nil\n"},
		},
	}
}

func winioPatch() patch {
	const backup = "backup.go"
	return patch{
		module: "github.com/Microsoft/go-winio",
		adds:   map[string]string{"backup_wine.go": "winio_backup_wine.go.txt", "pipe_wine.go": "winio_pipe_wine.go.txt"},
		edits: []edit{
			{file: "pipe.go", find: "\th, err := makeServerPipeHandle(path, sd, c, true)\n\tif err != nil {\n\t\treturn nil, err\n\t}\n", add: "occupyFirst(path, h)\n"},
			{file: "pkg/fs/resolve.go", find: "guid := true\n", replace: "guid := false\n"}, // as GetFinalPathNameByHandle above
			{file: backup, find: "type BackupFileWriter struct {\n", add: "stream backupStream\n"},
			{file: backup, find: "&BackupFileWriter{f, includeSecurity, 0}", replace: "&BackupFileWriter{f: f, includeSecurity: includeSecurity}"},
			{
				file:    backup,
				find:    "err := backupWrite(windows.Handle(w.f.Fd()), b, &bytesWritten, false, w.includeSecurity, &w.ctx)\n",
				replace: "err := w.stream.write(w.f, b)\nbytesWritten = uint32(len(b))\n",
			},
		},
	}
}

// files returns the changed and added files of the tree at root: path relative to root -> content.
func (p patch) files(root string) (map[string]string, error) {
	out := map[string]string{}
	for _, e := range p.edits {
		text, ok := out[e.file]
		if !ok {
			raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.file)))
			if err != nil {
				return nil, fmt.Errorf("reading the file to patch: %w", err)
			}
			text = string(raw)
		}
		if n, want := strings.Count(text, e.find), max(e.times, 1); n != want {
			return nil, fmt.Errorf("patching %s in %s: found the text to replace %d times, want %d: %q; "+
				"upstream changed, adapt lab/windows/winbuild/patches.go", e.file, root, n, want, e.find)
		}
		replace := e.replace
		if replace == "" {
			replace = e.find
		}
		out[e.file] = strings.ReplaceAll(text, e.find, replace+e.add)
	}
	for file, name := range p.adds {
		raw, err := added.ReadFile("patches/" + name)
		if err != nil {
			return nil, fmt.Errorf("reading the file to add: %w", err)
		}
		out[file] = string(raw)
	}
	return out, nil
}
