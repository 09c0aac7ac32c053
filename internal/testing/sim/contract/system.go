package contract

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// SystemFixture is a Windows for one test.
type SystemFixture struct {
	System hostapi.System
	// Disk is where Folder is.
	Disk hostapi.Disk
	// Folder is an empty folder for the test, by its Windows name.
	Folder string
	// Feature is a feature that the test can enable, or that is enabled; empty if NoFeatures is why there is none.
	Feature    string
	NoFeatures string
	// OtherHypervisor is set if Windows may run on its hypervisor without feature Hyper-V, for virtualization-based security: Credential Guard, which
	// is on by default on members of a domain, needs it (https://learn.microsoft.com/windows/security/identity-protection/credential-guard).
	OtherHypervisor bool
}

// System checks the contract of hostapi.System, without a restart.
func System(t *testing.T, fixture func(t *testing.T) SystemFixture) {
	run(t, fixture, []test[SystemFixture]{
		{"FactsAreComplete", factsAreComplete},
		{"FactsAreStableUntilRestart", factsAreStableUntilRestart},
		{"HyperVSupportIsReported", hyperVSupportIsReported},
		{"UnknownFeaturesAreNotFound", unknownFeaturesAreNotFound},
		{"EnablingFeatureTwiceIsHarmless", enablingFeatureTwiceIsHarmless},
		{"LockIsExclusive", lockIsExclusive},
		{"LocksWithDifferentNamesAreIndependent", locksWithDifferentNamesAreIndependent},
	})
}

func mustFacts(t *testing.T, f SystemFixture) wicdapi.HostFacts {
	t.Helper()
	facts, err := f.System.Facts(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

func factsAreComplete(t *testing.T, f SystemFixture) {
	facts := mustFacts(t, f)
	if len(facts.Unread) > 0 {
		t.Errorf("facts could not be read: %v", facts.Unread)
	}
	for field, missing := range map[string]bool{
		"hostname": facts.Hostname == "", "build": facts.Build < 10000, "product": facts.Product == "",
		"installation": facts.Installation == "", "architecture": facts.Architecture == "", "bootID": facts.BootID == "",
		"freeBytes": facts.FreeBytes == 0, "diskBytes": facts.DiskBytes < facts.FreeBytes, "memoryBytes": facts.MemoryBytes == 0,
		"processors": facts.Processors < 1, "numaNodes": facts.NUMANodes < 1,
		"interfaces": len(facts.Interfaces) == 0,
	} {
		if missing {
			t.Errorf("%s is missing in %+v", field, facts)
		}
	}
	if offset := time.Since(facts.Clock).Abs(); offset > time.Minute {
		t.Errorf("clock is %v, %v off", facts.Clock, offset)
	}
	routes := 0
	for _, i := range facts.Interfaces {
		if i.DefaultRoute {
			routes++
		}
		if i.Name == "" || i.Index == 0 || len(i.GUID) != 36 || i.GUID != strings.ToLower(i.GUID) {
			t.Errorf("an interface is not described: %+v", i)
		}
		for _, a := range i.Addresses {
			if !a.IsValid() || a.Bits() == 0 {
				t.Errorf("%q has the address %v", i.Name, a)
			} else if a.Addr().IsLoopback() && !i.DefaultRoute {
				t.Errorf("address %q of %q is a loopback address", a, i.Name)
			}
		}
	}
	if routes > 1 {
		t.Errorf("%d interfaces have the default route", routes)
	}
}

func factsAreStableUntilRestart(t *testing.T, f SystemFixture) {
	first, second := mustFacts(t, f), mustFacts(t, f)
	if first.BootID != second.BootID || first.Hostname != second.Hostname {
		t.Errorf("boot %q of %q became %q of %q", first.BootID, first.Hostname, second.BootID, second.Hostname)
	}
}

// hyperVSupportIsReported checks that the facts about Hyper-V are consistent.
func hyperVSupportIsReported(t *testing.T, f SystemFixture) {
	got := mustFacts(t, f).Virtualization
	feature, err := f.System.Feature(deadline(t), desired.HyperVFeature)
	if err != nil || feature == "" {
		t.Errorf("the state of feature %s is %q, %v", desired.HyperVFeature, feature, err)
	}
	if got.HyperV && (feature != wicdapi.FeatureEnabled && !f.OtherHypervisor || got.Hypervisor != "Microsoft Hv") {
		t.Errorf("Hyper-V runs, but its feature is %q and the hypervisor is %q", feature, got.Hypervisor)
	}
	if len(got.Hypervisor) > 12 || strings.ContainsRune(got.Hypervisor, 0) {
		t.Errorf("the hypervisor is %q", got.Hypervisor)
	}
}

func unknownFeaturesAreNotFound(t *testing.T, f SystemFixture) {
	if _, err := enable(t, f, "No-Such-Feature"); !errors.Is(err, hostapi.ErrNotFound) {
		t.Errorf("EnableFeature() = %v, want ErrNotFound", err)
	}
	if state, err := f.System.Feature(deadline(t), "No-Such-Feature"); err != nil || state != wicdapi.FeatureUnknown {
		t.Errorf("Feature() = %s, %v, want %s", state, err, wicdapi.FeatureUnknown)
	}
}

// WineStartFailure is ERROR_INTERNAL_ERROR, with which a process of Wine ends before its program starts. That is rare and happens on busy machines.
const WineStartFailure = syscall.Errno(1359)

// enable enables a feature, again if the process for it did not start.
func enable(t *testing.T, f SystemFixture, feature string) (reboot bool, err error) {
	for range 3 {
		if reboot, err = f.System.EnableFeature(deadline(t), feature); !errors.Is(err, WineStartFailure) {
			return reboot, err
		}
		t.Logf("enabling feature %s again: %v", feature, err)
	}
	return reboot, err
}

func enablingFeatureTwiceIsHarmless(t *testing.T, f SystemFixture) {
	if f.Feature == "" {
		t.Skip(f.NoFeatures)
	}
	first, err := enable(t, f, f.Feature)
	if err != nil {
		t.Fatal(err)
	}
	second, err := enable(t, f, f.Feature)
	if err != nil || first != second {
		t.Errorf("reboot needed: %v, then %v, %v", first, second, err)
	}
}

func lockIsExclusive(t *testing.T, f SystemFixture) {
	name := f.Folder + `\test.lock`
	for range 2 { // the second time the file exists
		release, err := f.System.Lock(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.System.Lock(name); !errors.Is(err, hostapi.ErrLocked) {
			t.Errorf("second Lock() = %v, want ErrLocked", err)
		}
		release()
	}
}

func locksWithDifferentNamesAreIndependent(t *testing.T, f SystemFixture) {
	for _, name := range []string{`\one.lock`, `\two.lock`} {
		release, err := f.System.Lock(f.Folder + name)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
}
