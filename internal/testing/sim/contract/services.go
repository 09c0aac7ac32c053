package contract

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Services checks the contract of hostapi.Services.
func Services(t *testing.T, fixture func(t *testing.T) ServicesFixture) {
	run(t, fixture, []test[ServicesFixture]{
		{"AbsentServicesAreNotListed", absentServicesAreNotListed},
		{"PutCreatesStoppedService", putCreatesStoppedService},
		{"PuttingTwiceChangesNothing", puttingTwiceChangesNothing},
		{"PutChangesOnlyDifferences", putChangesOnlyDifferences},
		{"EmptyEqualsAbsent", emptyEqualsAbsent},
		{"PutRejectsInvalidVariables", putRejectsInvalidVariables},
		{"PutKeepsRunningProcess", putKeepsRunningProcess},
		{"MarkedServicesAreAlwaysListed", markedServicesAreAlwaysListed},
		{"ForeignServicesAreListedByNameOnly", foreignServicesAreListedByNameOnly},
		{"OnlyRequestedServicesAreListed", onlyRequestedServicesAreListed},
		{"StartingTwiceKeepsTheProcess", startingTwiceKeepsTheProcess},
		{"StartStartsDependenciesToo", startStartsDependenciesToo},
		{"StartOfAbsentServiceIsNotFound", startOfAbsentServiceIsNotFound},
		{"StartOfMissingProgramFails", startOfMissingProgramFails},
		{"StopStopsDependantsToo", stopStopsDependantsToo},
		{"StopOfStoppedServiceIsNoError", stopOfStoppedServiceIsNoError},
		{"DeleteStopsFirst", deleteStopsFirst},
		{"DeleteOfAbsentServiceIsNoError", deleteOfAbsentServiceIsNoError},
		{"ServiceThatDeletesItselfDisappearsWhenItStops", serviceThatDeletesItselfDisappearsWhenItStops},
		{"WatchReportsStartStopAndCrash", watchReportsStartStopAndCrash},
		{"WatchReportsEdits", watchReportsEdits},
		{"WatchReportsDeletion", watchReportsDeletion},
		{"WatchEndsWithItsContext", watchEndsWithItsContext},
		{"DeletedServiceCanBeCreatedAgainAfterItStops", deletedServiceCanBeCreatedAgainAfterItStops},
		{"CrashedServiceIsRestarted", crashedServiceIsRestarted},
		{"FailedServiceIsRestarted", failedServiceIsRestarted},
		{"CompletedServiceStaysStopped", completedServiceStaysStopped},
		{"ServiceInheritsMachineEnvironment", serviceInheritsMachineEnvironment},
		{"ServiceEnvironmentTakesEffectAtNextStart", serviceEnvironmentTakesEffectAtNextStart},
	})
}

func absentServicesAreNotListed(t *testing.T, f ServicesFixture) {
	if found := mustList(t, f); found[First].Name != "" {
		t.Errorf("%s is listed: %+v", First, found[First])
	}
}

func putCreatesStoppedService(t *testing.T, f ServicesFixture) {
	want := declare(First, f.AlsoRuns)
	want.Environment = values()
	changed, err := f.Services.Put(deadline(t), want)
	if err != nil || !changed {
		t.Fatalf("Put() = %v, %v, want true, nil", changed, err)
	}
	got := mustList(t, f)[First]
	if diff := cmp.Diff(want, got.Service); diff != "" {
		t.Errorf("the service is not as declared (-want +got):\n%s", diff)
	}
	if got.State != hostapi.Stopped || got.PID != 0 {
		t.Errorf("state %s, process %d; want it stopped", got.State, got.PID)
	}
}

func puttingTwiceChangesNothing(t *testing.T, f ServicesFixture) {
	all := []desired.Service{declare(First, f.Runs), declare(Second, f.Runs, First)}
	all[1].Environment = values()
	mustPut(t, f, all...)
	for _, s := range all {
		if changed, err := f.Services.Put(deadline(t), s); err != nil || changed {
			t.Errorf("second Put(%s) = %v, %v, want false, nil", s.Name, changed, err)
		}
	}
}

func putChangesOnlyDifferences(t *testing.T, f ServicesFixture) {
	mustPut(t, f, declare(First, f.Runs), declare(Second, f.Runs))
	described := declare(Second, f.Runs)
	described.Description += ", in other words"
	for _, step := range []struct {
		what string
		want desired.Service
	}{
		{"command", declare(Second, f.AlsoRuns)},
		{"dependency added", declare(Second, f.AlsoRuns, First)},
		{"dependency removed", declare(Second, f.AlsoRuns)},
		{"description", described},
		{"environment added", with(described, values())},
		{"value of a variable", with(described, map[string]string{FirstVariable: "a", SecondVariable: "b"})},
		{"name of a variable", with(described, map[string]string{FirstVariable: "a", ThirdVariable: "b"})},
		{"variable removed", with(described, map[string]string{FirstVariable: "a"})},
		{"case of a variable", with(described, map[string]string{strings.ToLower(FirstVariable): "a"})},
		{"environment removed", described},
	} {
		if changed, err := f.Services.Put(deadline(t), step.want); err != nil || !changed {
			t.Errorf("%s: Put() = %v, %v, want true, nil", step.what, changed, err)
		}
		if diff := cmp.Diff(step.want, mustList(t, f)[Second].Service); diff != "" {
			t.Errorf("%s: the service is not as declared (-want +got):\n%s", step.what, diff)
		}
	}
}

// with is a declaration with another environment.
func with(s desired.Service, environment map[string]string) desired.Service {
	s.Environment = environment
	return s
}

func emptyEqualsAbsent(t *testing.T, f ServicesFixture) {
	absent := declare(First, f.Runs)
	empty := with(absent, map[string]string{})
	empty.DependsOn = []string{}
	for i, s := range []desired.Service{absent, empty, absent} {
		if changed, err := f.Services.Put(deadline(t), s); err != nil || changed != (i == 0) {
			t.Errorf("Put() number %d = %v, %v, want true once", i+1, changed, err)
		}
		if diff := cmp.Diff(absent, mustList(t, f)[First].Service); diff != "" {
			t.Errorf("after Put() number %d (-want +got):\n%s", i+1, diff)
		}
	}
}

func putRejectsInvalidVariables(t *testing.T, f ServicesFixture) {
	for what, variables := range badVariables() {
		changed, err := f.Services.Put(deadline(t), with(declare(First, f.Runs), variables))
		if err == nil || changed || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: Put() = %v, %v, want an error without a value", what, changed, err)
		}
	}
	if found := mustList(t, f); len(found) > 0 {
		t.Errorf("found %+v, want none", found)
	}
}

func putKeepsRunningProcess(t *testing.T, f ServicesFixture) {
	mustPut(t, f, declare(First, f.Runs))
	mustStart(t, f, First)
	before := mustList(t, f)[First]
	mustPut(t, f, declare(First, f.AlsoRuns))
	after := mustList(t, f)[First]
	if after.PID != before.PID || after.State != hostapi.Running {
		t.Errorf("process was %d, is %d (%s)", before.PID, after.PID, after.State)
	}
	if after.Command != f.AlsoRuns {
		t.Errorf("command is %q, want %q", after.Command, f.AlsoRuns)
	}
}

func markedServicesAreAlwaysListed(t *testing.T, f ServicesFixture) {
	mustPut(t, f, declare(First, f.Runs))
	list, err := f.Services.List(deadline(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(list, func(s hostapi.Service) bool { return s.Name == First }) {
		t.Errorf("%s is not listed", First)
	}
}

func onlyRequestedServicesAreListed(t *testing.T, f ServicesFixture) {
	mustPut(t, f, declare(First, f.Runs), declare(Second, f.Runs))
	list, err := f.Services.List(deadline(t), []string{Second, Second, Third})
	if err != nil || len(list) != 1 || list[0].Name != Second {
		t.Errorf("requested %s and %s, got %+v, %v", Second, Third, list, err)
	}
}

func foreignServicesAreListedByNameOnly(t *testing.T, f ServicesFixture) {
	mustPut(t, f, desired.Service{Name: First, Description: "of another program", Command: f.Runs})
	if mustList(t, f)[First].Description != "of another program" {
		t.Errorf("%s is not listed by its name", First)
	}
	list, err := f.Services.List(deadline(t), []string{Second})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.Name == First {
			t.Errorf("%s is listed although it was not requested", First)
		}
	}
}

func startingTwiceKeepsTheProcess(t *testing.T, f ServicesFixture) {
	mustPut(t, f, declare(First, f.Runs))
	mustStart(t, f, First)
	before := mustList(t, f)[First]
	if before.State != hostapi.Running || before.PID == 0 {
		t.Fatalf("after Start: state %s, process %d", before.State, before.PID)
	}
	mustStart(t, f, First)
	if after := mustList(t, f)[First]; after.PID != before.PID {
		t.Errorf("the second Start replaced process %d by %d", before.PID, after.PID)
	}
}

func startStartsDependenciesToo(t *testing.T, f ServicesFixture) {
	mustPut(t, f, declare(First, f.Runs), declare(Second, f.Runs, First))
	mustStart(t, f, Second)
	for name, s := range mustList(t, f) {
		if s.State != hostapi.Running {
			t.Errorf("%s is %s", name, s.State)
		}
	}
}

func startOfAbsentServiceIsNotFound(t *testing.T, f ServicesFixture) {
	if err := f.Services.Start(deadline(t), First); !errors.Is(err, hostapi.ErrNotFound) {
		t.Errorf("Start() = %v, want ErrNotFound", err)
	}
}

func startOfMissingProgramFails(t *testing.T, f ServicesFixture) {
	mustPut(t, f, declare(First, f.Missing))
	err := f.Services.Start(deadline(t), First)
	if err == nil || errors.Is(err, hostapi.ErrNotFound) {
		t.Errorf("Start() = %v, want an error other than that of a missing service", err)
	}
	if s := mustList(t, f)[First]; s.State != hostapi.Stopped {
		t.Errorf("afterwards it is %s, want it stopped", s.State)
	}
}

func stopStopsDependantsToo(t *testing.T, f ServicesFixture) {
	mustPut(t, f, declare(First, f.Runs), declare(Second, f.Runs, First), declare(Third, f.Runs, Second))
	mustStart(t, f, Third)
	if err := f.Services.Stop(deadline(t), First); err != nil {
		t.Fatal(err)
	}
	for name, s := range mustList(t, f) {
		if s.State != hostapi.Stopped || s.PID != 0 {
			t.Errorf("%s: state %s, process %d; want it stopped", name, s.State, s.PID)
		}
	}
}

func stopOfStoppedServiceIsNoError(t *testing.T, f ServicesFixture) {
	mustPut(t, f, declare(First, f.Runs))
	for _, name := range []string{First, Second} {
		if err := f.Services.Stop(deadline(t), name); err != nil {
			t.Errorf("stopping %s: %v", name, err)
		}
	}
}

func deleteStopsFirst(t *testing.T, f ServicesFixture) {
	mustPut(t, f, declare(First, f.Runs), declare(Second, f.Runs, First))
	mustStart(t, f, Second)
	if err := f.Services.Delete(deadline(t), First); err != nil {
		t.Fatal(err)
	}
	found := mustList(t, f)
	if found[First].Name != "" || found[Second].State != hostapi.Stopped {
		t.Errorf("%s is %+v, and %s, which depends on it, is %s; want it absent, and the other stopped", First, found[First], Second, found[Second].State)
	}
	mustPut(t, f, declare(First, f.Runs))
	mustStart(t, f, First)
}

func deleteOfAbsentServiceIsNoError(t *testing.T, f ServicesFixture) {
	mustPut(t, f, declare(First, f.Runs))
	for range 2 {
		if err := f.Services.Delete(deadline(t), First); err != nil {
			t.Fatal(err)
		}
	}
}

func serviceThatDeletesItselfDisappearsWhenItStops(t *testing.T, f ServicesFixture) {
	mustPut(t, f, declare(First, f.Runs))
	mustStart(t, f, First)
	f.DeleteItself(t, First)
	if got := mustList(t, f)[First]; got.State != hostapi.Running {
		t.Errorf("state %q; want it running until it is stopped", got.State)
	}
	if err := f.Services.Stop(deadline(t), First); err != nil {
		t.Fatal(err)
	}
	for ctx := deadline(t); mustList(t, f)[First].Name != ""; {
		if ctx.Err() != nil {
			t.Fatal("the service still exists")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func deletedServiceCanBeCreatedAgainAfterItStops(t *testing.T, f ServicesFixture) {
	first := declare(First, f.Runs)
	mustPut(t, f, first, declare(Second, f.Runs, First))
	mustStart(t, f, Second)
	f.Delete(t, First)
	if changed, err := f.Services.Put(deadline(t), first); !errors.Is(err, hostapi.ErrDeleted) || changed {
		t.Fatalf("Put() of a service that goes when it has stopped = %v, %v, want ErrDeleted", changed, err)
	}
	if err := f.Services.Stop(deadline(t), First); err != nil {
		t.Fatal(err)
	}
	if changed, err := f.Services.Put(deadline(t), first); err != nil || !changed {
		t.Fatalf("Put() of a service that is gone = %v, %v, want true, nil", changed, err)
	}
	mustStart(t, f, Second)
}

func crashedServiceIsRestarted(t *testing.T, f ServicesFixture) {
	if f.NoRecovery != "" {
		t.Skip(f.NoRecovery)
	}
	expectRestart(t, f, func() { f.Crash(t, First) })
}

// failedServiceIsRestarted: Windows treats this as a failure, although it is not a crash.
func failedServiceIsRestarted(t *testing.T, f ServicesFixture) {
	if f.NoRecovery != "" {
		t.Skip(f.NoRecovery)
	}
	expectRestart(t, f, func() { f.End(t, First, 1) })
}

func expectRestart(t *testing.T, f ServicesFixture, disrupt func()) {
	t.Helper()
	mustPut(t, f, declare(First, f.Runs))
	mustStart(t, f, First)
	before := mustList(t, f)[First]
	disrupt()
	eventually(t, First+" runs as another process", func() bool {
		s := mustList(t, f)[First]
		return s.State == hostapi.Running && s.PID != before.PID
	})
}

func completedServiceStaysStopped(t *testing.T, f ServicesFixture) {
	mustPut(t, f, declare(First, f.Runs))
	mustStart(t, f, First)
	f.End(t, First, 0)
	eventually(t, First+" has stopped", func() bool { return mustList(t, f)[First].State == hostapi.Stopped })
	time.Sleep(2 * f.Recovery)
	if s := mustList(t, f)[First]; s.State != hostapi.Stopped || s.ExitCode != 0 {
		t.Errorf("afterwards it is %s, with exit code %d", s.State, s.ExitCode)
	}
}

func serviceInheritsMachineEnvironment(t *testing.T, f ServicesFixture) {
	mustPut(t, f, with(declare(First, f.Runs), map[string]string{FirstVariable: "a"}))
	mustStart(t, f, First)
	variables := f.Variables(t, First)
	if !slices.ContainsFunc(slices.Collect(maps.Keys(variables)), func(n string) bool { return strings.EqualFold(n, "SystemRoot") }) {
		t.Errorf("its process has the variables %q", slices.Sorted(maps.Keys(variables)))
	}
}

func serviceEnvironmentTakesEffectAtNextStart(t *testing.T, f ServicesFixture) {
	if f.NoVariables != "" {
		t.Skip(f.NoVariables)
	}
	expect := func(when string, want map[string]string) {
		t.Helper()
		got := map[string]string{}
		for name, value := range f.Variables(t, First) {
			if slices.Contains(Variables(), name) {
				got[name] = value
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	restart := func() {
		if err := f.Services.Stop(deadline(t), First); err != nil {
			t.Fatal(err)
		}
		mustStart(t, f, First)
	}
	first, second := map[string]string{FirstVariable: "a", SecondVariable: "b"}, map[string]string{SecondVariable: "c"}
	mustPut(t, f, with(declare(First, f.Runs), first))
	mustStart(t, f, First)
	expect("started", first)
	mustPut(t, f, with(declare(First, f.Runs), second))
	expect("put", first)
	restart()
	expect("started again", second)
	mustPut(t, f, declare(First, f.Runs))
	restart()
	expect("without an environment", map[string]string{})
}
