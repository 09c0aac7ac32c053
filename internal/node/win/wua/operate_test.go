package wua

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// idOfUpdate returns the ID of a test's update.
func idOfUpdate(n int) string { return fmt.Sprintf("5a1c7c1e-0000-4000-8000-%012d", n) }

// operations is an agent with three pending updates, of which the second and third are downloaded. Its collection is what it was given.
type operations struct {
	*agent
	pending                           []fake
	collection, downloader, installer fake
	downloads, installs               fake
	given                             []any
	// asked counts downloads and installations.
	asked int
}

func newOperations() *operations {
	o := &operations{agent: newAgent()}
	var all []any
	for n := 1; n <= 3; n++ {
		u := fake{
			"Title": "Update", "Identity": fake{"UpdateID": strings.ToUpper(idOfUpdate(n)), "RevisionNumber": int64(1)}, "IsDownloaded": n > 1, "RebootRequired": false,
			"EulaAccepted": true, "AcceptEula": nil,
		}
		o.pending, all = append(o.pending, u), append(all, u)
	}
	o.updates["Count"], o.updates["Item"] = int64(3), all
	result := func() any { return fake{"ResultCode": int64(2), "HResult": int64(0x00240005)} } // WU_S_REBOOT_REQUIRED
	o.downloads = fake{"GetUpdateResult": []any{result(), result(), result()}}
	o.installs = fake{"GetUpdateResult": []any{result(), result(), result()}, "RebootRequired": true}
	o.collection = fake{"Add": func(arguments ...any) (any, error) {
		o.given = append(o.given, arguments[0])
		return int64(len(o.given) - 1), nil
	}}
	count := func(result fake) func(...any) (any, error) {
		return func(...any) (any, error) { o.asked++; return result, nil }
	}
	o.downloader = fake{"Download": count(o.downloads)}
	o.installer = fake{"Install": count(o.installs), "RebootRequiredBeforeInstallation": false, "IsBusy": false}
	o.session["CreateUpdateDownloader"], o.session["CreateUpdateInstaller"] = o.downloader, o.installer
	return o
}

func (o *operations) create(class string) (object, error) {
	if class == classCollection && o.collection != nil {
		return o.collection, nil
	}
	return o.agent.create(class)
}

func (o *operations) run(t *testing.T, arguments ...string) windowsupdate.Outcome {
	t.Helper()
	r, err := parse(arguments)
	if err != nil {
		t.Fatal(err)
	}
	outcome, ok := r.answer(o.create, func() settings { t.Error("an operation reads settings"); return settings{} }, now()).(windowsupdate.Outcome)
	if !ok {
		t.Fatal("an operation returned no outcome")
	}
	if o.searcher["put Online"] == true {
		t.Error("an operation searches online")
	}
	return outcome
}

func TestArgumentsAreChecked(t *testing.T) {
	var many []string
	for n := range windowsupdate.MaxSelected + 1 {
		many = append(many, idOfUpdate(n))
	}
	for name, test := range map[string]struct {
		args  []string
		wrong string
	}{
		"read":                {nil, ""},
		"search":              {[]string{"search"}, ""},
		"search for an ID":    {[]string{"search", idOfUpdate(1)}, "no further"},
		"download":            {[]string{"download", idOfUpdate(1), idOfUpdate(2)}, ""},
		"download all":        {[]string{"download"}, "0 updates"},
		"install":             {append([]string{"install"}, many[:windowsupdate.MaxSelected]...), ""},
		"install too many":    {append([]string{"install"}, many...), "33 updates are selected; 1 to 32"},
		"install upper case":  {[]string{"install", strings.ToUpper(idOfUpdate(1))}, "is not an update ID"},
		"install a criterion": {[]string{"install", idOfUpdate(1), "IsInstalled=0"}, "is not an update ID"},
		"other":               {[]string{"uninstall", idOfUpdate(1)}, "is not an update operation"},
		"empty":               {[]string{""}, "is not an update operation"},
	} {
		_, err := parse(test.args)
		if test.wrong == "" && err != nil || test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)) {
			t.Errorf("%s: error %v, want %q", name, err, test.wrong)
		}
	}
}

// result is the result of a test's update.
func result(n int, r windowsupdate.Result, code uint32) windowsupdate.UpdateResult {
	return windowsupdate.UpdateResult{ID: idOfUpdate(n), Result: r, Code: code}
}

const succeeded, failed, unknown = windowsupdate.ResultSucceeded, windowsupdate.ResultFailed, windowsupdate.ResultUnknown

// operationTest is an operation of all three updates, unless it has IDs.
type operationTest struct {
	edit func(o *operations)
	ids  []string
	want windowsupdate.Outcome
	// given are the updates that the agent downloads or installs.
	given []int
}

func (test operationTest) run(t *testing.T, operation string) {
	o := newOperations()
	if test.edit != nil {
		test.edit(o)
	}
	ids := test.ids
	if ids == nil {
		ids = []string{idOfUpdate(3), idOfUpdate(1), idOfUpdate(2), idOfUpdate(1)}
	}
	got := o.run(t, append([]string{operation}, ids...)...)
	if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty(), cmpopts.SortSlices(func(x, y windowsupdate.UpdateResult) bool { return x.ID < y.ID })); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	var given []int
	for _, u := range o.given {
		for n, p := range o.pending {
			if fmt.Sprintf("%p", u) == fmt.Sprintf("%p", p) {
				given = append(given, n+1)
			}
		}
	}
	if diff := cmp.Diff(test.given, given); diff != "" {
		t.Errorf("updates in the collection (-want +got):\n%s", diff)
	}
	priority := o.downloader["put Priority"]
	if _, fails := priority.(error); !fails && operation == operationDownload && len(given) > 0 && priority != downloadLow {
		t.Errorf("the priority of the download is %v", priority)
	}
	if len(given) == 0 && o.asked > 0 {
		t.Error("the agent was asked to do nothing")
	}
}

func failure(call string, code uint32) *windowsupdate.Failure {
	return &windowsupdate.Failure{Call: call, Code: code}
}

func TestMissingUpdatesAreDownloaded(t *testing.T) {
	all := func(first windowsupdate.UpdateResult) windowsupdate.Outcome {
		return windowsupdate.Outcome{Results: []windowsupdate.UpdateResult{first, result(2, succeeded, 0), result(3, succeeded, 0)}}
	}
	for name, test := range map[string]operationTest{
		"one of three":   {nil, nil, all(result(1, succeeded, 0)), []int{1}},
		"all downloaded": {func(o *operations) { o.pending[0]["IsDownloaded"] = true }, nil, all(result(1, succeeded, 0)), nil},
		"waits for a restart": {func(o *operations) { o.pending[0]["RebootRequired"] = true }, nil,
			all(result(1, succeeded, 0)), nil},
		"unknown ID": {nil, []string{idOfUpdate(9)}, windowsupdate.Outcome{}, nil},
		"unreadable update": {func(o *operations) { o.updates["Item"] = []any{codeError(0x8007000e), o.pending[1], "x"} }, nil,
			windowsupdate.Outcome{Results: []windowsupdate.UpdateResult{result(2, succeeded, 0)}}, nil},
		"without priorities": {func(o *operations) { o.downloader["put Priority"] = codeError(unknownName) }, nil, all(result(1, succeeded, 0)), []int{1}},
		"license": {func(o *operations) {
			o.pending[0]["EulaAccepted"], o.pending[0]["AcceptEula"] = false, func(...any) (any, error) { o.pending[0]["EulaAccepted"] = true; return nil, nil }
			o.downloader["Download"] = func(...any) (any, error) {
				if o.pending[0]["EulaAccepted"] != true {
					return nil, codeError(0x80240023) // WU_E_EULAS_DECLINED
				}
				return o.downloads, nil
			}
		}, nil, all(result(1, succeeded, 0)), []int{1}},
		"license of one fails": {func(o *operations) {
			o.pending[0]["EulaAccepted"], o.pending[0]["AcceptEula"], o.pending[1]["IsDownloaded"] = false, codeError(0x80070005), false
		}, nil, all(result(1, failed, 0x80070005)), []int{2}},
		"license of all fails": {func(o *operations) {
			o.pending[0]["EulaAccepted"], o.pending[0]["AcceptEula"] = "no", codeError(0x80070005)
		}, nil,
			all(result(1, failed, 0x80070005)), nil},
		"partial failure": {func(o *operations) {
			o.pending[1]["IsDownloaded"] = false
			o.downloads["GetUpdateResult"] = []any{fake{"ResultCode": int64(4), "HResult": int64(-2145107924)}, fake{"ResultCode": int64(2), "HResult": int64(0)}}
		}, nil, all(result(1, failed, 0x8024402c)), []int{1, 2}},
		"fewer results": {func(o *operations) { o.downloads["GetUpdateResult"] = []any{} }, nil, all(result(1, unknown, 0x80240007)), []int{1}},
		"result is a text": {func(o *operations) {
			o.downloads["GetUpdateResult"] = []any{fake{"ResultCode": "2", "HResult": "0"}}
		}, nil, all(result(1, unknown, 0)), []int{1}},
		"result is nothing": {func(o *operations) { o.downloads["GetUpdateResult"] = []any{nil} }, nil, all(result(1, unknown, 0)), []int{1}},
		"result is out of range": {func(o *operations) {
			o.downloads["GetUpdateResult"] = []any{fake{"ResultCode": int64(1 << 40)}}
		}, nil, all(result(1, unknown, 0)), []int{1}},
	} {
		t.Run(name, func(t *testing.T) { test.run(t, operationDownload) })
	}
}

func TestDownloadedUpdatesAreInstalled(t *testing.T) {
	outcome := func(restart bool, results ...windowsupdate.UpdateResult) windowsupdate.Outcome {
		return windowsupdate.Outcome{Results: results, Restart: restart}
	}
	for name, test := range map[string]operationTest{
		"two of three": {nil, nil, outcome(true, result(2, succeeded, 0), result(3, succeeded, 0)), []int{2, 3}},
		"no restart": {func(o *operations) { o.installs["RebootRequired"] = false }, nil,
			outcome(false, result(2, succeeded, 0), result(3, succeeded, 0)), []int{2, 3}},
		"not selected":   {nil, []string{idOfUpdate(2)}, outcome(true, result(2, succeeded, 0)), []int{2}},
		"not downloaded": {nil, []string{idOfUpdate(1)}, outcome(false), nil},
		"unknown ID":     {nil, []string{idOfUpdate(9)}, outcome(false), nil},
		"interactive": {func(o *operations) { o.pending[1]["InstallationBehavior"] = fake{"CanRequestUserInput": true} }, nil,
			outcome(true, result(2, succeeded, 0), result(3, succeeded, 0)), []int{2, 3}},
		"waits for a restart": {func(o *operations) {
			o.pending[0]["RebootRequired"], o.pending[1]["RebootRequired"], o.installs["RebootRequired"] = true, true, false
		}, nil, outcome(true, result(1, succeeded, 0), result(2, succeeded, 0), result(3, succeeded, 0)), []int{3}},
		"restart first": {func(o *operations) {
			o.installer["RebootRequiredBeforeInstallation"], o.installer["IsBusy"] = true, true
		}, nil,
			windowsupdate.Outcome{RestartFirst: true}, nil},
		"busy": {func(o *operations) { o.installer["IsBusy"] = true }, nil,
			windowsupdate.Outcome{Failure: failure(windowsupdate.CallBusy, windowsupdate.CodeInProgress)}, nil},
		"license of one fails": {func(o *operations) {
			o.pending[1]["EulaAccepted"], o.pending[1]["AcceptEula"] = false, codeError(0x80070005)
		}, nil,
			outcome(true, result(2, failed, 0x80070005), result(3, succeeded, 0)), []int{3}},
		"partial failure": {func(o *operations) {
			o.installs["GetUpdateResult"] = []any{
				fake{"ResultCode": int64(3), "HResult": int64(-2145124330)}, fake{"ResultCode": int64(4), "HResult": int64(-2146498270)},
			}
		}, nil, outcome(true, result(2, windowsupdate.ResultPartial, 0x80240016), result(3, failed, 0x800f0922)), []int{2, 3}},
		"fewer results": {func(o *operations) {
			o.installs["GetUpdateResult"] = []any{fake{"ResultCode": int64(2), "RebootRequired": true}}
			o.installs["RebootRequired"] = "yes"
		}, nil, outcome(true, result(2, succeeded, 0), result(3, unknown, 0x80240007)), []int{2, 3}},
		"property is absent": {func(o *operations) { o.installer["put ForceQuiet"] = codeError(unknownName) }, nil,
			outcome(true, result(2, succeeded, 0), result(3, succeeded, 0)), []int{2, 3}},
	} {
		t.Run(name, func(t *testing.T) { test.run(t, operationInstall) })
	}
}

func TestInstallationAsksNoUser(t *testing.T) {
	o := newOperations()
	o.run(t, operationInstall, idOfUpdate(2))
	if o.installer["put ForceQuiet"] != true || o.asked != 1 {
		t.Errorf("ForceQuiet is %v, and %d installations were made", o.installer["put ForceQuiet"], o.asked)
	}
}

// TestFailedCallsAreNamed has an agent that fails, or answers with another type, at each call that the work cannot do without.
func TestFailedCallsAreNamed(t *testing.T) {
	const code = codeError(0x80070005)
	for name, test := range map[string]struct {
		edit func(o *operations, instead any)
		// puts is true for a property that is set, and has no result.
		puts              bool
		download, install string
	}{
		"no session": {func(o *operations, v any) { o.session = fake{"CreateUpdateSearcher": v} }, false, windowsupdate.CallPending, windowsupdate.CallPending},
		"online":     {func(o *operations, v any) { o.searcher["put Online"] = v }, true, windowsupdate.CallPending, windowsupdate.CallPending},
		"search":     {func(o *operations, v any) { o.searcher["Search"] = v }, false, windowsupdate.CallPending, windowsupdate.CallPending},
		"updates":    {func(o *operations, v any) { o.result["Updates"] = v }, false, windowsupdate.CallPending, windowsupdate.CallPending},
		"count":      {func(o *operations, v any) { o.updates["Count"] = v }, false, windowsupdate.CallPending, windowsupdate.CallPending},
		"downloader": {func(o *operations, v any) { o.session["CreateUpdateDownloader"] = v }, false, "IUpdateSession.CreateUpdateDownloader", ""},
		"installer":  {func(o *operations, v any) { o.session["CreateUpdateInstaller"] = v }, false, "", "IUpdateSession.CreateUpdateInstaller"},
		"quiet":      {func(o *operations, v any) { o.installer["put ForceQuiet"] = v }, true, "", "IUpdateInstaller2.ForceQuiet"},
		"restart first": {func(o *operations, v any) { o.installer["RebootRequiredBeforeInstallation"] = v }, false,
			"", "IUpdateInstaller.RebootRequiredBeforeInstallation"},
		"busy": {func(o *operations, v any) { o.installer["IsBusy"] = v }, false, "", windowsupdate.CallBusy},
		"add":  {func(o *operations, v any) { o.collection["Add"] = v }, true, "IUpdateCollection.Add", "IUpdateCollection.Add"},
		"set updates": {func(o *operations, v any) { o.downloader["put Updates"], o.installer["put Updates"] = v, v }, true,
			"IUpdateDownloader.Updates", "IUpdateInstaller.Updates"},
		"operation": {func(o *operations, v any) { o.downloader["Download"], o.installer["Install"] = v, v }, false,
			"IUpdateDownloader.Download", "IUpdateInstaller.Install"},
	} {
		for operation, call := range map[string]string{operationDownload: test.download, operationInstall: test.install} {
			if call == "" {
				continue
			}
			t.Run(name+" of "+operation, func(t *testing.T) {
				o := newOperations()
				test.edit(o, code)
				if diff := cmp.Diff(failure(call, uint32(code)), o.run(t, operation, idOfUpdate(1), idOfUpdate(2)).Failure); diff != "" {
					t.Errorf("failure (-want +got):\n%s", diff)
				}
				for _, instead := range []any{nil, "text"} {
					o := newOperations()
					test.edit(o, instead)
					if got := o.run(t, operation, idOfUpdate(1), idOfUpdate(2)); !test.puts && (got.Failure == nil || got.Failure.Call != call) {
						t.Errorf("with %#v, the outcome is %+v", instead, got)
					}
				}
			})
		}
	}
}

// TestMissingClassesAreFailures: no session, or no collection.
func TestMissingClassesAreFailures(t *testing.T) {
	o := newOperations()
	o.session = nil
	if got := o.run(t, operationDownload, idOfUpdate(1)); cmp.Diff(failure(windowsupdate.CallPending, 0x80040154), got.Failure) != "" {
		t.Errorf("without a session, the outcome is %+v", got)
	}
	o = newOperations()
	o.collection = nil
	if got := o.run(t, operationInstall, idOfUpdate(2)); cmp.Diff(failure("IUpdateCollection", 0x80040154), got.Failure) != "" || o.asked > 0 {
		t.Errorf("without a collection, the outcome is %+v", got)
	}
}

// TestManyPendingUpdatesAreSearched: the report lists fewer than there are.
func TestManyPendingUpdatesAreSearched(t *testing.T) {
	o := newOperations()
	var many []any
	for range 3 * windowsupdate.MaxPending {
		many = append(many, o.pending[0])
	}
	o.updates["Item"] = append(many, o.pending[1])
	o.updates["Count"] = int64(len(many) + 1)
	if _, found := o.run(t, operationInstall, idOfUpdate(2)).Of(idOfUpdate(2)); !found {
		t.Error("the last of many updates is not found")
	}
	o.updates["Count"] = int64(1 << 40)
	if _, found := o.run(t, operationInstall, idOfUpdate(9)).Of(idOfUpdate(9)); found {
		t.Error("an unknown update is found")
	}
}
