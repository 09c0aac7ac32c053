package wua

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// Arguments of the process after Command. Without one, it reads.
const (
	operationSearch   = "search"
	operationDownload = "download"
	operationInstall  = "install"
)

// request is what a process does for its parent.
type request struct {
	operation string
	ids       []string
}

// parse returns the request of the arguments after Command.
func parse(args []string) (request, error) {
	if len(args) == 0 {
		return request{}, nil
	}
	r := request{args[0], args[1:]}
	switch r.operation {
	case operationSearch:
		if len(r.ids) > 0 {
			return request{}, fmt.Errorf("%s has no further arguments", operationSearch)
		}
		return r, nil
	case operationDownload, operationInstall:
		return r, windowsupdate.CheckIDs(r.ids)
	}
	return request{}, fmt.Errorf("%.64q is not an update operation; it must be %s, %s or %s", r.operation, operationSearch, operationDownload, operationInstall)
}

// answer does what the request says, and returns a report or an outcome.
func (r request) answer(create creator, current func() settings, now time.Time) any {
	switch r.operation {
	case operationDownload:
		return operate(create, (*work).download, r.ids)
	case operationInstall:
		return operate(create, (*work).install, r.ids)
	}
	return read(create, current(), now, r.operation == operationSearch)
}

// work is one download or installation.
type work struct {
	create  creator
	session object
	outcome windowsupdate.Outcome
}

// callError is the error of a call of the agent that ends the work.
type callError struct {
	call string
	err  error
}

// Error implements error.
func (e *callError) Error() string { return e.call + ": " + e.err.Error() }

// inCall returns the error of a call with its name; nil if there is none.
func inCall(call string, err error) error {
	if err == nil {
		return nil
	}
	return &callError{call, err}
}

// operate returns the outcome of a work.
func operate(create creator, do func(w *work, ids []string) error, ids []string) windowsupdate.Outcome {
	w := &work{create: create}
	if failed, ok := errors.AsType[*callError](do(w, ids)); ok {
		w.outcome.Failure = &windowsupdate.Failure{Call: failed.call, Code: codeOf(failed.err)}
	}
	return w.outcome.Bounded()
}

// downloadLow is dpLow of DownloadPriority in wuapi.h: the download leaves bandwidth to others.
const downloadLow = int64(1)

// download downloads those of the updates that the host does not have. An installed update that waits for a restart may have lost its files.
func (w *work) download(ids []string) error {
	chosen, err := w.choose(ids)
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(chosen, func(u pendingUpdate) bool {
		has := u.Downloaded || u.RestartPending
		if has {
			w.add(u, windowsupdate.ResultSucceeded, 0)
		}
		return has
	})
	if len(missing) == 0 {
		return nil
	}
	downloader, err := child(w.session, "CreateUpdateDownloader")
	if err != nil {
		return inCall("IUpdateSession.CreateUpdateDownloader", err)
	}
	_ = downloader.put("Priority", downloadLow) // the download works without it
	_, err = w.run(downloader, "IUpdateDownloader", "Download", missing)
	return err
}

// install installs those of the updates that are downloaded.
func (w *work) install(ids []string) error {
	chosen, err := w.choose(ids)
	if err != nil {
		return err
	}
	var downloaded []pendingUpdate
	for _, u := range chosen {
		switch {
		case u.RestartPending:
			w.add(u, windowsupdate.ResultSucceeded, 0)
			w.outcome.Restart = true
		case u.Downloaded:
			downloaded = append(downloaded, u)
		}
	}
	if len(downloaded) == 0 {
		return nil
	}
	installer, err := w.installer()
	if err != nil || w.outcome.RestartFirst {
		return err
	}
	result, err := w.run(installer, "IUpdateInstaller", "Install", downloaded)
	if err != nil || result == nil {
		return err
	}
	restart, _ := value[bool](result, "RebootRequired")
	w.outcome.Restart = w.outcome.Restart || restart
	return nil
}

// installer returns an installer that works without a user, unless it is busy. It sets RestartFirst if the installer needs a restart first.
func (w *work) installer() (object, error) {
	installer, err := child(w.session, "CreateUpdateInstaller")
	if err != nil {
		return nil, inCall("IUpdateSession.CreateUpdateInstaller", err)
	}
	// An earlier agent does not have the property.
	if err := installer.put("ForceQuiet", true); err != nil && !slices.Contains([]uint32{unknownName, memberNotFound}, codeOf(err)) {
		return nil, inCall("IUpdateInstaller2.ForceQuiet", err)
	}
	if w.outcome.RestartFirst, err = value[bool](installer, "RebootRequiredBeforeInstallation"); err != nil || w.outcome.RestartFirst {
		return nil, inCall("IUpdateInstaller.RebootRequiredBeforeInstallation", err)
	}
	isBusy, err := value[bool](installer, "IsBusy")
	if err == nil && isBusy {
		err = codeError(windowsupdate.CodeInProgress)
	}
	return installer, inCall(windowsupdate.CallBusy, err)
}

// Errors of a property that an object does not have: DISP_E_UNKNOWNNAME and DISP_E_MEMBERNOTFOUND.
const unknownName, memberNotFound = 0x80020006, 0x80020003

// pendingUpdate is a pending update with its object.
type pendingUpdate struct {
	windowsupdate.Update
	object object
}

// choose returns the pending updates with these IDs, each once. It opens the session.
func (w *work) choose(ids []string) (chosen []pendingUpdate, err error) {
	session, searcher, err := openSearcher(w.create, false)
	if err != nil {
		return nil, inCall(windowsupdate.CallPending, err)
	}
	w.session = session
	updates, err := find(searcher)
	if err != nil {
		return nil, inCall(windowsupdate.CallPending, err)
	}
	total, err := value[int64](updates, "Count")
	if err != nil {
		return nil, inCall(windowsupdate.CallPending, err)
	}
	missing := slices.Compact(slices.Sorted(slices.Values(ids)))
	for i := int64(0); i < min(total, maxSearched) && len(missing) > 0; i++ {
		o, err := child(updates, "Item", i)
		if err != nil {
			continue // it may be another one
		}
		if j := slices.Index(missing, idOf(o)); j >= 0 {
			missing = slices.Delete(missing, j, j+1)
			chosen = append(chosen, pendingUpdate{update(o), o})
		}
	}
	return chosen, nil
}

// maxSearched limits the updates that are compared with the IDs: a report lists fewer, but they may be in another order now.
const maxSearched = 5000

// run downloads or installs updates, and adds their results. Its result is nil if the license of no update could be accepted.
func (w *work) run(agent object, class, method string, updates []pendingUpdate) (result object, err error) {
	updates = slices.DeleteFunc(updates, func(u pendingUpdate) bool {
		err := acceptLicense(u.object)
		if err != nil {
			w.add(u, windowsupdate.ResultFailed, codeOf(err))
		}
		return err != nil
	})
	if len(updates) == 0 {
		return nil, nil
	}
	collection, err := w.create(classCollection)
	if err != nil {
		return nil, inCall("IUpdateCollection", err)
	}
	for _, u := range updates {
		if _, err := collection.get("Add", u.object); err != nil {
			return nil, inCall("IUpdateCollection.Add", err)
		}
	}
	if err := agent.put("Updates", collection); err != nil {
		return nil, inCall(class+".Updates", err)
	}
	if result, err = child(agent, method); err != nil {
		return nil, inCall(class+"."+method, err)
	}
	for i, u := range updates {
		w.addOf(u, result, int64(i))
	}
	return result, nil
}

// acceptLicense accepts the license of an update if it has one. Whether it was accepted may be unknown; accepting it again does no harm.
func acceptLicense(update object) error {
	if isAccepted, err := value[bool](update, "EulaAccepted"); err == nil && isAccepted {
		return nil
	}
	_, err := update.get("AcceptEula")
	return err
}

// addOf adds the result at an index of the results. If it cannot be read, it is unknown.
func (w *work) addOf(u pendingUpdate, results object, i int64) {
	one, err := child(results, "GetUpdateResult", i)
	if err != nil {
		w.add(u, windowsupdate.ResultUnknown, codeOf(err))
		return
	}
	result := windowsupdate.ResultUnknown
	if code, err := value[int64](one, "ResultCode"); err == nil {
		result = windowsupdate.ResultOf(code)
	}
	failure, _ := value[int64](one, "HResult")
	if result == windowsupdate.ResultSucceeded { // such as with WU_S_REBOOT_REQUIRED, which is not an error
		failure = 0
	}
	w.add(u, result, uint32(failure))
	restart, _ := value[bool](one, "RebootRequired") // installations have it
	w.outcome.Restart = w.outcome.Restart || restart
}

func (w *work) add(u pendingUpdate, result windowsupdate.Result, code uint32) {
	w.outcome.Results = append(w.outcome.Results, windowsupdate.UpdateResult{ID: u.ID, Result: result, Code: code})
}
