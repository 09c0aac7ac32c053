// wuapi.dll: the Windows Update Agent, of which Wine has objects that answer nothing. The updates that the server of a host has are registry keys
// HKLM\Software\WMCOLab\Updates\<number> with these values:
//
//   ID, Title, Article, Category, Severity    as the agent has them, with one article and one category
//   Revision, RebootBehavior, Published       numbers; Published is in seconds since 1970
//   DownloadResult, InstallResult             the HRESULTs with which download and installation fail
//   Milliseconds                              how long the installation takes
//   UBR, TakenBack                            what Windows does at its next start; see lab/reaper/updates.go
//   State, Accepted, Finished, Result, Code   written by the agent: a state below, whether the license is accepted, and the last installation
//
// Values of HKLM\Software\WMCOLab\Updates itself are quirks: SearchResult is the HRESULT of searches at the server, and with RestartFirst or Busy, the
// agent does not install. A process that ends during an installation ends it; on Windows, the agent's service continues.
//
// Members are as described at https://learn.microsoft.com/windows/win32/wua_sdk.
#include "dispatch.h"
#include <time.h>
#include <wchar.h>
#include <wuapi.h>
#include <wuerror.h>

#define KEY L"Software\\WMCOLab\\Updates"
#define CRITERIA L"IsInstalled=0 and IsHidden=0 and Type='Software'"
#define BUSY L"Global\\WMCOLabUpdates"

DEFINE_GUID(CLSID_UpdateCollection, 0x13639463, 0x00db, 0x4646, 0x80, 0x3d, 0x52, 0x80, 0x26, 0x14, 0x0d, 0x88);

enum { PUBLISHED, FOUND, DOWNLOADED, RESTART, INSTALLED }; // states of an update
enum { DAY = 86400 };

#define MEMBERS \
    X(SESSION, ClientApplicationID) X(SESSION, CreateUpdateSearcher) X(SESSION, CreateUpdateDownloader) X(SESSION, CreateUpdateInstaller) \
    X(SEARCHER, Online) X(SEARCHER, Search) X(SEARCHER, GetTotalHistoryCount) X(SEARCHER, QueryHistory) \
    X(SEARCH, ResultCode) X(SEARCH, Updates) X(UPDATES, Count) X(UPDATES, Item) X(UPDATES, Add) \
    X(UPDATE, Identity) X(UPDATE, Title) X(UPDATE, KBArticleIDs) X(UPDATE, Categories) X(UPDATE, MsrcSeverity) X(UPDATE, IsDownloaded) \
    X(UPDATE, RebootRequired) X(UPDATE, Deadline) X(UPDATE, LastDeploymentChangeTime) X(UPDATE, InstallationBehavior) X(UPDATE, EulaAccepted) \
    X(UPDATE, AcceptEula) X(IDENTITY, UpdateID) X(IDENTITY, RevisionNumber) X(ARTICLES, Count) X(ARTICLES, Item) \
    X(CATEGORIES, Count) X(CATEGORIES, Item) X(CATEGORY, CategoryID) X(BEHAVIOR, CanRequestUserInput) X(BEHAVIOR, RebootBehavior) \
    X(DOWNLOADER, Updates) X(DOWNLOADER, Priority) X(DOWNLOADER, Download) X(INSTALLER, Updates) X(INSTALLER, ForceQuiet) X(INSTALLER, RebootRequiredBeforeInstallation) \
    X(INSTALLER, IsBusy) X(INSTALLER, Install) X(RESULT, ResultCode) X(RESULT, HResult) X(RESULT, RebootRequired) X(RESULT, GetUpdateResult) \
    X(HISTORY, Count) X(HISTORY, Item) X(ENTRY, Title) X(ENTRY, Date) X(ENTRY, Operation) X(ENTRY, ResultCode) X(ENTRY, HResult) \
    X(ENTRY, Categories) X(AUTOMATIC, Results) X(RESULTS, LastSearchSuccessDate) X(SYSTEM, RebootRequired)

enum { SESSION, SEARCHER, SEARCH, UPDATES, UPDATE, IDENTITY, ARTICLES, CATEGORIES, CATEGORY, BEHAVIOR, DOWNLOADER, INSTALLER, RESULT, HISTORY, ENTRY,
       AUTOMATIC, RESULTS, SYSTEM };
#define X(kind, name) kind##_##name,
enum { MEMBERS };
#undef X

enum { LIMIT = 64 }; // of updates in a list

// Thing is an object that is one update or a list of updates, by their numbers. A result has HRESULTs of operations beside them.
typedef struct {
    Object object;
    BOOL online; // of a searcher
    int count;
    DWORD updates[LIMIT];
    HRESULT codes[LIMIT];
} Thing;

static BOOL member(int kind, const WCHAR *name, DISPID *id) {
#define X(kind, name) {kind, L## #name},
    static const struct { int kind; const WCHAR *name; } all[] = {MEMBERS};
#undef X
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (kind == all[i].kind && !_wcsicmp(name, all[i].name)) { *id = i; return TRUE; }
    return FALSE;
}

static HRESULT make(int kind, Object **made) {
    if (!(*made = prepare(kind, sizeof(Thing)))) return E_OUTOFMEMORY;
    ((Thing *)*made)->online = TRUE;
    return S_OK;
}

static void destroy(Object *o) {}

static BOOL class_kind(REFCLSID class, int *kind) {
    static const struct { const CLSID *class; int kind; } all[] = {
        {&CLSID_UpdateSession, SESSION}, {&CLSID_UpdateCollection, UPDATES}, {&CLSID_AutomaticUpdates, AUTOMATIC}, {&CLSID_SystemInformation, SYSTEM},
    };
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (IsEqualGUID(class, all[i].class)) { *kind = all[i].kind; return TRUE; }
    return FALSE;
}

// key_of returns the key of an update, or of the agent itself for number 0.
static const WCHAR *key_of(DWORD update, WCHAR key[64]) {
    swprintf(key, 64, update ? KEY L"\\%08u" : KEY, update);
    return key;
}

static DWORD number(DWORD update, const WCHAR *name) {
    WCHAR key[64];
    DWORD value = 0, size = sizeof(value);
    RegGetValueW(HKEY_LOCAL_MACHINE, key_of(update, key), name, RRF_RT_REG_DWORD, NULL, &value, &size);
    return value;
}

static void set(DWORD update, const WCHAR *name, DWORD value) {
    WCHAR key[64];
    RegSetKeyValueW(HKEY_LOCAL_MACHINE, key_of(update, key), name, REG_DWORD, &value, sizeof(value));
}

// list adds the updates with a state from first to last.
static void list(Thing *to, DWORD first, DWORD last) {
    WCHAR key[64];
    for (DWORD n = 1, size = 0; to->count < LIMIT; n++, size = 0) {
        if (RegGetValueW(HKEY_LOCAL_MACHINE, key_of(n, key), L"ID", RRF_RT_REG_SZ, NULL, NULL, &size)) return;
        DWORD state = number(n, L"State");
        if (state >= first && state <= last) to->updates[to->count++] = n;
    }
}

static BOOL restart_is_pending(void) {
    Thing waiting = {.count = 0};
    list(&waiting, RESTART, RESTART);
    return waiting.count > 0;
}

static HRESULT give_number(LONG value, VARIANT *result) { V_VT(result) = VT_I4; V_I4(result) = value; return S_OK; }
static HRESULT give_bool(BOOL value, VARIANT *result) { V_VT(result) = VT_BOOL; V_BOOL(result) = value ? VARIANT_TRUE : VARIANT_FALSE; return S_OK; }
static HRESULT give_text(const WCHAR *value, VARIANT *result) { V_VT(result) = VT_BSTR; V_BSTR(result) = SysAllocString(value); return S_OK; }
static HRESULT give_nothing(VARIANT *result) { V_VT(result) = VT_EMPTY; return S_OK; }
static HRESULT give_date(double seconds, VARIANT *result) { V_VT(result) = VT_DATE; V_DATE(result) = 25569 + seconds / DAY; return S_OK; }

static HRESULT give_value(DWORD update, const WCHAR *name, VARIANT *result) {
    WCHAR key[64], value[16384] = L"";
    DWORD size = sizeof(value);
    RegGetValueW(HKEY_LOCAL_MACHINE, key_of(update, key), name, RRF_RT_REG_SZ, NULL, value, &size);
    return give_text(value, result);
}

// give_child returns a new object with some of the updates of another.
static HRESULT give_child(int kind, const Thing *of, int first, int count, VARIANT *result) {
    Object *made;
    if (make(kind, &made)) return E_OUTOFMEMORY;
    Thing *t = (Thing *)made;
    for (int i = 0; i < count; i++, t->count++) { t->updates[i] = of->updates[first + i]; t->codes[i] = of->codes[first + i]; }
    return give(made, VT_DISPATCH, result);
}

// index_of returns the argument of Item or GetUpdateResult, or -1.
static int index_of(VARIANT *arguments, UINT count, int limit) {
    return count == 1 && V_VT(arguments) == VT_I4 && V_I4(arguments) >= 0 && V_I4(arguments) < limit ? V_I4(arguments) : -1;
}

static HRESULT search(BOOL online, VARIANT *arguments, UINT count, VARIANT *result) {
    Thing found = {.count = 0};
    if (count != 1 || V_VT(arguments) != VT_BSTR || _wcsicmp(V_BSTR(arguments), CRITERIA)) return WU_E_INVALID_CRITERIA;
    if (online && number(0, L"SearchResult")) return number(0, L"SearchResult");
    if (online) {
        list(&found, PUBLISHED, PUBLISHED);
        for (int i = 0; i < found.count; i++) set(found.updates[i], L"State", FOUND);
        found.count = 0;
    }
    list(&found, FOUND, RESTART);
    return give_child(SEARCH, &found, 0, found.count, result);
}

// download_one and install_one return the HRESULT of an update.
static HRESULT download_one(DWORD update) {
    if (!number(update, L"Accepted")) return WU_E_EULAS_DECLINED;
    if (number(update, L"DownloadResult")) return number(update, L"DownloadResult");
    if (number(update, L"State") == FOUND) set(update, L"State", DOWNLOADED);
    return S_OK;
}

static HRESULT install_one(DWORD update) {
    HRESULT failed = number(update, L"InstallResult");
    if (!number(update, L"Accepted")) return WU_E_EULAS_DECLINED;
    if (number(update, L"State") == FOUND) return WU_E_DM_NOTDOWNLOADED;
    if (number(update, L"State") != DOWNLOADED) return S_OK;
    Sleep(number(update, L"Milliseconds"));
    if (!failed) set(update, L"State", number(update, L"RebootBehavior") == irbNeverReboots ? INSTALLED : RESTART);
    set(update, L"Finished", time(NULL));
    set(update, L"Result", failed ? orcFailed : orcSucceeded);
    set(update, L"Code", failed);
    return failed;
}

static HRESULT operate(Thing *updates, HRESULT (*each)(DWORD update), VARIANT *result) {
    if (!updates->count) return WU_E_NO_UPDATE;
    for (int i = 0; i < updates->count; i++) updates->codes[i] = each(updates->updates[i]);
    return give_child(RESULT, updates, 0, updates->count, result);
}

static HRESULT install(Thing *updates, VARIANT *result) {
    HANDLE busy = CreateMutexW(NULL, FALSE, BUSY);
    if (number(0, L"Busy") || number(0, L"RestartFirst") || WaitForSingleObject(busy, 0) == WAIT_TIMEOUT) {
        CloseHandle(busy);
        return WU_E_INSTALL_NOT_ALLOWED;
    }
    HRESULT failed = operate(updates, install_one, result);
    ReleaseMutex(busy);
    CloseHandle(busy);
    return failed;
}

static BOOL is_busy(void) {
    HANDLE busy = CreateMutexW(NULL, FALSE, BUSY);
    BOOL held = WaitForSingleObject(busy, 0) == WAIT_TIMEOUT;
    if (!held) ReleaseMutex(busy);
    CloseHandle(busy);
    return held || number(0, L"Busy");
}

// result_of returns the OperationResultCode of all updates of a result.
static LONG result_of(const Thing *t) {
    int failed = 0;
    for (int i = 0; i < t->count; i++) failed += t->codes[i] != S_OK;
    return !failed ? orcSucceeded : failed < t->count ? orcSucceededWithErrors : orcFailed;
}

static BOOL needs_restart(const Thing *t) {
    for (int i = 0; i < t->count; i++)
        if (number(t->updates[i], L"State") == RESTART) return TRUE;
    return FALSE;
}

// history adds the updates with a finished installation, the last one first, after update 0: that of ten days ago, which each host has.
static void history(Thing *to) {
    Thing all = {.count = 0};
    list(&all, PUBLISHED, INSTALLED);
    for (int i = 0; i < all.count && to->count < LIMIT - 1; i++) {
        DWORD finished = number(all.updates[i], L"Finished");
        int at = to->count;
        if (!finished) continue;
        for (; at > 0 && number(to->updates[at - 1], L"Finished") < finished; at--) to->updates[at] = to->updates[at - 1];
        to->updates[at] = all.updates[i];
        to->count++;
    }
    to->updates[to->count++] = 0;
}

static HRESULT put(Thing *t, DISPID id, VARIANT *value) {
    switch (id) {
    case SESSION_ClientApplicationID: return V_VT(value) == VT_BSTR ? S_OK : DISP_E_TYPEMISMATCH;
    case DOWNLOADER_Priority: return V_VT(value) != VT_I4 ? DISP_E_TYPEMISMATCH : V_I4(value) < 1 || V_I4(value) > 4 ? E_INVALIDARG : S_OK;
    case INSTALLER_ForceQuiet: return V_VT(value) == VT_BOOL ? S_OK : DISP_E_TYPEMISMATCH;
    case SEARCHER_Online:
        if (V_VT(value) != VT_BOOL) return DISP_E_TYPEMISMATCH;
        t->online = V_BOOL(value) != VARIANT_FALSE;
        return S_OK;
    case DOWNLOADER_Updates: case INSTALLER_Updates: {
        Thing *from = V_VT(value) == VT_DISPATCH ? (Thing *)V_DISPATCH(value) : NULL;
        if (!from || from->object.kind != UPDATES) return E_INVALIDARG;
        t->count = from->count;
        memcpy(t->updates, from->updates, sizeof(t->updates));
        return S_OK;
    }
    }
    return DISP_E_MEMBERNOTFOUND;
}

static HRESULT add(Thing *t, VARIANT *value, VARIANT *result) {
    Thing *update = V_VT(value) == VT_DISPATCH ? (Thing *)V_DISPATCH(value) : NULL;
    if (!update || update->object.kind != UPDATE) return E_INVALIDARG;
    if (t->count == LIMIT) return E_OUTOFMEMORY;
    t->updates[t->count++] = update->updates[0];
    return give_number(t->count - 1, result);
}

// of_agent handles the members of objects that belong to no update.
static HRESULT of_agent(Thing *t, DISPID id, VARIANT *arguments, UINT count, VARIANT *result) {
    Thing all = {.count = 0};
    switch (id) {
    case SESSION_CreateUpdateSearcher: return give_child(SEARCHER, t, 0, 0, result);
    case SESSION_CreateUpdateDownloader: return give_child(DOWNLOADER, t, 0, 0, result);
    case SESSION_CreateUpdateInstaller: return give_child(INSTALLER, t, 0, 0, result);
    case SEARCHER_Search: return search(t->online, arguments, count, result);
    case SEARCHER_GetTotalHistoryCount: history(&all); return give_number(all.count, result);
    case SEARCHER_QueryHistory: // from an index, at most so many
        history(&all);
        if (count != 2 || V_VT(&arguments[0]) != VT_I4 || V_VT(&arguments[1]) != VT_I4 || V_I4(&arguments[0]) < 1) return E_INVALIDARG;
        if (index_of(&arguments[1], 1, all.count) < 0) return E_INVALIDARG;
        return give_child(HISTORY, &all, V_I4(&arguments[1]), min(V_I4(&arguments[0]), all.count - V_I4(&arguments[1])), result);
    case DOWNLOADER_Download: return operate(t, download_one, result);
    case INSTALLER_Install: return install(t, result);
    case INSTALLER_IsBusy: return give_bool(is_busy(), result);
    case INSTALLER_RebootRequiredBeforeInstallation: return give_bool(number(0, L"RestartFirst"), result);
    case AUTOMATIC_Results: return give_child(RESULTS, t, 0, 0, result);
    case RESULTS_LastSearchSuccessDate: return give_date(time(NULL) - 3600, result);
    case SYSTEM_RebootRequired: return give_bool(restart_is_pending(), result);
    }
    return DISP_E_MEMBERNOTFOUND;
}

// of_entry handles the members of an entry of the history.
static HRESULT of_entry(const Thing *t, DISPID id, VARIANT *result) {
    DWORD update = t->updates[0];
    switch (id) {
    case ENTRY_Title: return update ? give_value(update, L"Title", result) : give_text(L"Cumulative Update for the lab (KB5068787)", result);
    case ENTRY_Date: return give_date(update ? number(update, L"Finished") : time(NULL) / DAY * DAY - 10 * DAY, result);
    case ENTRY_Operation: return give_number(uoInstallation, result);
    case ENTRY_ResultCode: return give_number(update ? number(update, L"Result") : orcSucceeded, result);
    case ENTRY_HResult: return give_number(update ? number(update, L"Code") : S_OK, result);
    case ENTRY_Categories: return give_child(CATEGORIES, t, 0, update != 0, result);
    }
    return DISP_E_MEMBERNOTFOUND;
}

// of_list handles the members of lists and results.
static HRESULT of_list(Thing *t, DISPID id, VARIANT *arguments, UINT count, VARIANT *result) {
    int i = index_of(arguments, count, t->count);
    switch (id) {
    case UPDATES_Count: case ARTICLES_Count: case CATEGORIES_Count: case HISTORY_Count: return give_number(t->count, result);
    case UPDATES_Add: return count == 1 ? add(t, arguments, result) : DISP_E_BADPARAMCOUNT;
    case SEARCH_ResultCode: return give_number(orcSucceeded, result);
    case SEARCH_Updates: return give_child(UPDATES, t, 0, t->count, result);
    case RESULT_ResultCode: return give_number(result_of(t), result);
    case RESULT_HResult: return give_number(t->count == 1 ? t->codes[0] : S_OK, result);
    case RESULT_RebootRequired: return give_bool(needs_restart(t), result);
    }
    if (i < 0) return WU_E_INVALIDINDEX;
    switch (id) {
    case UPDATES_Item: return give_child(UPDATE, t, i, 1, result);
    case ARTICLES_Item: return give_value(t->updates[i], L"Article", result);
    case CATEGORIES_Item: return give_child(CATEGORY, t, i, 1, result);
    case HISTORY_Item: return give_child(ENTRY, t, i, 1, result);
    case RESULT_GetUpdateResult: return give_child(RESULT, t, i, 1, result);
    }
    return DISP_E_MEMBERNOTFOUND;
}

// of_update handles the members of an update and of its parts.
static HRESULT of_update(const Thing *t, DISPID id, VARIANT *result) {
    DWORD update = t->updates[0];
    switch (id) {
    case UPDATE_Identity: return give_child(IDENTITY, t, 0, 1, result);
    case UPDATE_KBArticleIDs: return give_child(ARTICLES, t, 0, 1, result);
    case UPDATE_Categories: return give_child(CATEGORIES, t, 0, 1, result);
    case UPDATE_InstallationBehavior: return give_child(BEHAVIOR, t, 0, 1, result);
    case UPDATE_Title: return give_value(update, L"Title", result);
    case UPDATE_MsrcSeverity: return give_value(update, L"Severity", result);
    case UPDATE_IsDownloaded: return give_bool(number(update, L"State") >= DOWNLOADED, result);
    case UPDATE_RebootRequired: return give_bool(number(update, L"State") == RESTART, result);
    case UPDATE_Deadline: return give_nothing(result);
    case UPDATE_LastDeploymentChangeTime: return give_date(number(update, L"Published"), result);
    case UPDATE_EulaAccepted: return give_bool(number(update, L"Accepted"), result);
    case UPDATE_AcceptEula: set(update, L"Accepted", 1); return give_nothing(result);
    case IDENTITY_UpdateID: return give_value(update, L"ID", result);
    case IDENTITY_RevisionNumber: return give_number(number(update, L"Revision"), result);
    case CATEGORY_CategoryID: return give_value(update, L"Category", result);
    case BEHAVIOR_CanRequestUserInput: return give_bool(FALSE, result);
    case BEHAVIOR_RebootBehavior: return give_number(number(update, L"RebootBehavior"), result);
    }
    return DISP_E_MEMBERNOTFOUND;
}

static HRESULT call(Object *o, DISPID id, WORD flags, VARIANT *arguments, UINT count, VARIANT *result) {
    Thing *t = (Thing *)o;
    if (flags & DISPATCH_PROPERTYPUT) return count == 1 ? put(t, id, arguments) : DISP_E_BADPARAMCOUNT;
    switch (o->kind) {
    case SEARCH: case UPDATES: case ARTICLES: case CATEGORIES: case RESULT: case HISTORY: return of_list(t, id, arguments, count, result);
    case UPDATE: case IDENTITY: case CATEGORY: case BEHAVIOR: return of_update(t, id, result);
    case ENTRY: return of_entry(t, id, result);
    }
    return of_agent(t, id, arguments, count, result);
}
