package wua

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// object is an object of the agent. It is released with its process.
type object interface {
	// get returns a property, or the result of a method: string, bool, int64, time.Time, object, or nil.
	get(name string, arguments ...any) (any, error)
	// put sets a property to a string, bool, int64 or object.
	put(property string, value any) error
}

// codeError is an HRESULT.
type codeError uint32

// Error implements error.
func (e codeError) Error() string { return fmt.Sprintf("%#08x", uint32(e)) }

// codeOf returns the HRESULT of an error; 0 if it has none.
func codeOf(err error) uint32 {
	code, _ := errors.AsType[codeError](err)
	return uint32(code)
}

// errUnexpected means that a call returned nothing, or a value of another type than documented.
var errUnexpected = errors.New("the result has an unexpected type")

// settings is what the registry and the service control manager know.
type settings struct {
	// isDisabled is true if the service of the agent is disabled.
	isDisabled bool
	// server is the URL of a WSUS server, if a policy requires one.
	server string
	// noAutoUpdate is the policy that turns automatic updates off.
	noAutoUpdate bool
	// installed is when Windows was installed.
	installed time.Time
	// err is why a policy could not be read; nil if there is none.
	err error
}

// Names of the agent's classes, by which COM creates their objects.
const (
	classSession       = "Microsoft.Update.Session"
	classAutoUpdate    = "Microsoft.Update.AutoUpdate"
	classSystemInfo    = "Microsoft.Update.SystemInfo"
	classCollection    = "Microsoft.Update.UpdateColl"
	pendingSoftware    = "IsInstalled=0 and IsHidden=0 and Type='Software'"
	clientID           = "windows-instance-config-daemon"
	operationUninstall = 2 // UpdateOperation in wuapi.h
)

// creator creates an object of a class of the agent.
type creator func(class string) (object, error)

// reader reads a report. It continues after a failure, and records it.
type reader struct {
	create creator
	report windowsupdate.Report
}

// read returns what the agent and the settings say now. With online, the agent searches at its server before.
func read(create creator, s settings, now time.Time, online bool) windowsupdate.Report {
	r := &reader{create: create, report: windowsupdate.Report{
		Read: now, WindowsInstalled: s.installed, Disabled: s.isDisabled, Server: windowsupdate.HostOf(s.server), NoSearches: s.noAutoUpdate,
	}}
	r.record(windowsupdate.CallPolicy, s.err)
	if s.isDisabled {
		return r.report.Bounded()
	}
	if online {
		r.record(windowsupdate.CallOnline, searchOnline(create))
	}
	r.record(windowsupdate.CallSearched, r.searched())
	r.record(windowsupdate.CallRestart, r.restart())
	_, searcher, err := openSearcher(create, false)
	if err != nil {
		r.record(windowsupdate.CallHistory, err)
		r.record(windowsupdate.CallPending, err)
		return r.report.Bounded()
	}
	r.record(windowsupdate.CallHistory, r.history(searcher))
	r.record(windowsupdate.CallPending, r.pending(searcher))
	return r.report.Bounded()
}

func (r *reader) record(call string, err error) {
	if err == nil {
		return
	}
	r.report.Failures = append(r.report.Failures, windowsupdate.Failure{Call: call, Code: codeOf(err)})
}

func (r *reader) searched() error {
	agent, err := r.create(classAutoUpdate)
	if err != nil {
		return err
	}
	results, err := child(agent, "Results")
	if err != nil {
		return err
	}
	last, err := results.get("LastSearchSuccessDate") // empty if there was none
	if err != nil {
		return err
	}
	r.report.Searched, _ = last.(time.Time)
	return nil
}

func (r *reader) restart() error {
	system, err := r.create(classSystemInfo)
	if err != nil {
		return err
	}
	r.report.Restart, err = value[bool](system, "RebootRequired")
	return err
}

// openSearcher returns a searcher, and its session. It searches at the server, or in the agent's data store; it is an error if that cannot be set.
func openSearcher(create creator, online bool) (session, searcher object, err error) {
	if session, err = create(classSession); err != nil {
		return nil, nil, err
	}
	_ = session.put("ClientApplicationID", clientID) // for the agent's log
	if searcher, err = child(session, "CreateUpdateSearcher"); err != nil {
		return nil, nil, err
	}
	return session, searcher, searcher.put("Online", online)
}

// searchOnline makes the agent search at its server. IUpdateSearcher.ServerSelection stays ssDefault: the host's policies choose the server.
func searchOnline(create creator) error {
	_, searcher, err := openSearcher(create, true)
	if err != nil {
		return err
	}
	result, err := child(searcher, "Search", pendingSoftware)
	if err != nil {
		return err
	}
	code, err := value[int64](result, "ResultCode")
	if r := windowsupdate.ResultOf(code); err == nil && r != windowsupdate.ResultSucceeded && r != windowsupdate.ResultPartial {
		return errUnexpected
	}
	return err
}

// find returns the collection of the pending updates.
func find(searcher object) (updates object, err error) {
	result, err := child(searcher, "Search", pendingSoftware)
	if err != nil {
		return nil, err
	}
	return child(result, "Updates")
}

func (r *reader) pending(searcher object) error {
	updates, err := find(searcher)
	if err != nil {
		return err
	}
	total, err := value[int64](updates, "Count")
	if err != nil {
		return err
	}
	r.report.Total = int(total)
	for _, u := range items(updates, windowsupdate.MaxPending) {
		r.report.Pending = append(r.report.Pending, update(u))
	}
	return nil
}

// update reads an update. Properties that an earlier agent does not have are left out.
func update(u object) windowsupdate.Update {
	result := windowsupdate.Update{ID: idOf(u), Title: text(u, "Title"), Severity: text(u, "MsrcSeverity")}
	if identity, err := child(u, "Identity"); err == nil {
		revision, _ := value[int64](identity, "RevisionNumber")
		result.Revision = int(revision)
	}
	if articles, err := child(u, "KBArticleIDs"); err == nil {
		for i := range count(articles, maxArticles) {
			number, _ := value[string](articles, "Item", i)
			result.KBs = append(result.KBs, windowsupdate.ArticleOf(number))
		}
	}
	result.Class = windowsupdate.ClassOf(categories(u), result.KBs)
	result.Downloaded, _ = value[bool](u, "IsDownloaded")
	result.RestartPending, _ = value[bool](u, "RebootRequired")
	result.Deadline, _ = value[time.Time](u, "Deadline")
	result.Published, _ = value[time.Time](u, "LastDeploymentChangeTime")
	if behavior, err := child(u, "InstallationBehavior"); err == nil {
		result.Interactive, _ = value[bool](behavior, "CanRequestUserInput")
		if number, err := value[int64](behavior, "RebootBehavior"); err == nil {
			result.Restart = windowsupdate.RestartOf(number)
		}
	}
	return result
}

// idOf returns the GUID of an update in lower case; empty if it cannot be read.
func idOf(update object) string {
	identity, err := child(update, "Identity")
	if err != nil {
		return ""
	}
	return strings.ToLower(text(identity, "UpdateID"))
}

// Limits of the collections of one update.
const maxArticles, maxCategories = 8, 32

func categories(o object) (ids []string) {
	all, err := child(o, "Categories")
	if err != nil {
		return nil
	}
	for _, category := range items(all, maxCategories) {
		ids = append(ids, text(category, "CategoryID"))
	}
	return ids
}

func (r *reader) history(searcher object) error {
	total, err := value[int64](searcher, "GetTotalHistoryCount")
	if err != nil || total <= 0 {
		return err
	}
	// The last entries come first.
	entries, err := child(searcher, "QueryHistory", int64(0), min(total, windowsupdate.MaxHistory))
	if err != nil {
		return err
	}
	for _, entry := range items(entries, windowsupdate.MaxHistory) {
		r.report.History = append(r.report.History, operation(entry))
	}
	return nil
}

func operation(entry object) windowsupdate.Operation {
	result := windowsupdate.Operation{Title: text(entry, "Title")}
	result.KB = windowsupdate.KBOf(result.Title)
	result.Class = windowsupdate.ClassOf(categories(entry), []string{result.KB})
	result.Date, _ = value[time.Time](entry, "Date")
	kind, _ := value[int64](entry, "Operation")
	result.Uninstall = kind == operationUninstall
	code, _ := value[int64](entry, "ResultCode")
	result.Result = windowsupdate.ResultOf(code)
	failure, _ := value[int64](entry, "HResult")
	result.Code = uint32(failure)
	return result
}

// value returns a property or result of a type.
func value[T any](o object, name string, arguments ...any) (T, error) {
	v, err := o.get(name, arguments...)
	result, ok := v.(T)
	if err == nil && !ok {
		err = errUnexpected
	}
	return result, err
}

func child(o object, name string, arguments ...any) (object, error) {
	return value[object](o, name, arguments...)
}

func text(o object, property string) string {
	v, _ := value[string](o, property)
	return v
}

// count returns the number of items of a collection, at most limit.
func count(collection object, limit int64) int64 {
	n, _ := value[int64](collection, "Count")
	return min(max(n, 0), limit)
}

// items returns the first objects of a collection.
func items(collection object, limit int64) (all []object) {
	for i := range count(collection, limit) {
		if item, err := child(collection, "Item", i); err == nil {
			all = append(all, item)
		}
	}
	return all
}
