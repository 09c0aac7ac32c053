// DismApi.dll: Windows features and packages of updates, which Wine does not have. The only package is that of the last cumulative update, if the
// value Previous of HKLM\Software\WMCOLab\Packages is the revision before it. Its removal sets the value Removed, and takes effect at the next start
// (lab/reaper/updates.go).
//
// Features: Their states are numbers in the registry key
// HKLM\Software\WMCOLab\Features: 0 disabled, 1 enabled, 2 enabled from the next boot. A feature without a value does not
// exist, except that Containers and Microsoft-Hyper-V are disabled. State 2 comes with a value <name>.BootId, the boot in
// which the feature was enabled, and in the next boot with a value <name>.Seen, the tick count of the first query.
//
// Values of HKLM\Software\WMCOLab\DISM are quirks: Milliseconds is the time to open a session, OpenResult and EnableResult
// are the results of opening a session and of enabling a feature, RemoveResult that of removing a package, PendingMilliseconds is how long a feature stays pending
// in the next boot, and RollBacks is how many times it is disabled again there instead.
#include <windows.h>
#include <dismapi.h>
#include <wchar.h>

#define FEATURES L"Software\\WMCOLab\\Features"
#define PACKAGES L"Software\\WMCOLab\\Packages"
#define VERSION L"Software\\Microsoft\\Windows NT\\CurrentVersion"
#define SWITCHES L"Software\\WMCOLab\\DISM"
#define PREFETCH L"SYSTEM\\CurrentControlSet\\Control\\Session Manager\\Memory Management\\PrefetchParameters"
#define SESSION 7 // any number but 0
#define EXPORT __declspec(dllexport) HRESULT WINAPI

enum { DISABLED, ENABLED, PENDING, ABSENT };

static BOOL initialized, opened;

static BOOL read(const WCHAR *key, const WCHAR *name, DWORD *value) {
    DWORD size = sizeof(*value);
    return RegGetValueW(HKEY_LOCAL_MACHINE, key, name, RRF_RT_REG_DWORD, NULL, value, &size) == ERROR_SUCCESS;
}

static BOOL write(const WCHAR *name, DWORD value) {
    return RegSetKeyValueW(HKEY_LOCAL_MACHINE, FEATURES, name, REG_DWORD, &value, sizeof(value)) == ERROR_SUCCESS;
}

static DWORD boot(void) {
    DWORD id = 0;
    read(PREFETCH, L"BootId", &id);
    return id;
}

static DWORD switched(const WCHAR *name) {
    DWORD value = 0;
    read(SWITCHES, name, &value);
    return value;
}

static void value_of(const WCHAR *feature, const WCHAR *what, WCHAR name[256]) {
    swprintf(name, 256, L"%.200ls.%ls", feature, what);
}

// start returns the state of a pending feature in a boot after it was enabled.
static int start(const WCHAR *feature) {
    WCHAR name[256];
    DWORD seen, back = switched(L"RollBacks");
    if (back) {
        back--;
        RegSetKeyValueW(HKEY_LOCAL_MACHINE, SWITCHES, L"RollBacks", REG_DWORD, &back, sizeof(back));
        write(feature, DISABLED);
        return DISABLED;
    }
    value_of(feature, L"Seen", name);
    if (!read(FEATURES, name, &seen)) write(name, seen = GetTickCount());
    if (GetTickCount() - seen < switched(L"PendingMilliseconds")) return PENDING;
    write(feature, ENABLED);
    return ENABLED;
}

// state returns the state of a feature. A boot changes pending to enabled.
static int state(const WCHAR *feature) {
    WCHAR name[256];
    DWORD value, since;
    if (!read(FEATURES, feature, &value)) {
        BOOL every = _wcsicmp(feature, L"Containers") == 0 || _wcsicmp(feature, L"Microsoft-Hyper-V") == 0;
        return every ? DISABLED : ABSENT;
    }
    if (value != PENDING) return value == ENABLED ? ENABLED : DISABLED;
    value_of(feature, L"BootId", name);
    if (read(FEATURES, name, &since) && boot() <= since) return PENDING;
    return start(feature);
}

static HRESULT check(DismSession session) {
    if (!initialized) return DISMAPI_E_DISMAPI_NOT_INITIALIZED;
    return opened && session == SESSION ? S_OK : DISMAPI_E_INVALID_DISM_SESSION;
}

EXPORT DismInitialize(DismLogLevel level, PCWSTR log, PCWSTR scratch) {
    if (initialized) return E_FAIL;
    initialized = TRUE;
    return S_OK;
}

EXPORT DismShutdown(void) {
    if (!initialized) return DISMAPI_E_DISMAPI_NOT_INITIALIZED;
    if (opened) return DISMAPI_E_OPEN_SESSION_HANDLES;
    initialized = FALSE;
    return S_OK;
}

EXPORT DismOpenSession(PCWSTR image, PCWSTR windows, PCWSTR drive, DismSession *session) {
    if (!initialized) return DISMAPI_E_DISMAPI_NOT_INITIALIZED;
    if (opened || wcscmp(image, DISM_ONLINE_IMAGE) != 0) return E_INVALIDARG;
    Sleep(switched(L"Milliseconds"));
    if (switched(L"OpenResult")) return switched(L"OpenResult");
    opened = TRUE;
    *session = SESSION;
    return S_OK;
}

EXPORT DismCloseSession(DismSession session) {
    HRESULT result = check(session);
    if (result == S_OK) opened = FALSE;
    return result;
}

EXPORT DismGetFeatureInfo(DismSession session, PCWSTR feature, PCWSTR identifier, DismPackageIdentifier kind,
                          DismFeatureInfo **info) {
    static const DismPackageFeatureState states[] = {DismStateStaged, DismStateInstalled, DismStateInstallPending};
    HRESULT result = check(session);
    int now;
    if (result != S_OK) return result;
    if ((now = state(feature)) == ABSENT) return DISMAPI_E_UNKNOWN_FEATURE;
    // The name follows the structure, so that DismDelete frees both.
    size_t length = (wcslen(feature) + 1) * sizeof(WCHAR);
    if (!(*info = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, sizeof(**info) + length))) return E_OUTOFMEMORY;
    memcpy(*info + 1, feature, length);
    (*info)->FeatureName = (*info)->DisplayName = (*info)->Description = (PCWSTR)(*info + 1);
    (*info)->FeatureState = states[now];
    (*info)->RestartRequired = DismRestartRequired;
    return S_OK;
}

EXPORT DismDelete(VOID *structure) {
    if (structure) HeapFree(GetProcessHeap(), 0, structure);
    return S_OK;
}

EXPORT DismEnableFeature(DismSession session, PCWSTR feature, PCWSTR identifier, DismPackageIdentifier kind, WINBOOL limit,
                         PCWSTR *sources, UINT count, WINBOOL all, HANDLE cancel, DISM_PROGRESS_CALLBACK progress,
                         PVOID data) {
    WCHAR name[256];
    HRESULT result = check(session);
    if (result != S_OK) return result;
    if (cancel && WaitForSingleObject(cancel, 0) == WAIT_OBJECT_0) return HRESULT_FROM_WIN32(ERROR_CANCELLED);
    switch (state(feature)) {
    case ABSENT: return DISMAPI_E_UNKNOWN_FEATURE;
    case ENABLED: return S_OK;
    case PENDING: return ERROR_SUCCESS_REBOOT_REQUIRED;
    }
    if (switched(L"EnableResult")) return switched(L"EnableResult");
    if (!all) return DISMAPI_E_PARENT_FEATURE_DISABLED; // like for a feature that depends on others
    value_of(feature, L"Seen", name);
    RegDeleteKeyValueW(HKEY_LOCAL_MACHINE, FEATURES, name);
    value_of(feature, L"BootId", name);
    if (!write(name, boot()) || !write(feature, PENDING)) return E_FAIL;
    return ERROR_SUCCESS_REBOOT_REQUIRED;
}

// last_update names the package of the last cumulative update. It returns FALSE if there is none.
static BOOL last_update(WCHAR identity[128]) {
    WCHAR build[16];
    DWORD previous = 0, revision = 0, size = sizeof(build);
    if (!read(PACKAGES, L"Previous", &previous) || !previous || !read(VERSION, L"UBR", &revision)) return FALSE;
    if (RegGetValueW(HKEY_LOCAL_MACHINE, VERSION, L"CurrentBuildNumber", RRF_RT_REG_SZ, NULL, build, &size)) return FALSE;
    swprintf(identity, 128, L"Package_for_RollupFix~31bf3856ad364e35~amd64~~%ls.%lu.1.5", build, revision);
    return TRUE;
}

EXPORT DismGetPackages(DismSession session, DismPackage **packages, UINT *count) {
    static const WCHAR foundation[] = L"Microsoft-Windows-Foundation-Package~31bf3856ad364e35~amd64~~10.0.20348.1";
    WCHAR identity[128];
    DWORD removed = 0;
    HRESULT result = check(session);
    if (result != S_OK) return result;
    if (!(*packages = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, 2 * sizeof(**packages) + sizeof(identity)))) return E_OUTOFMEMORY;
    (*packages)[0].PackageName = foundation;
    (*packages)[0].PackageState = DismStateInstalled;
    *count = 1;
    if (!last_update(identity)) return S_OK;
    read(PACKAGES, L"Removed", &removed);
    memcpy(*packages + 2, identity, sizeof(identity));
    (*packages)[1].PackageName = (PCWSTR)(*packages + 2);
    (*packages)[1].PackageState = removed ? DismStateUninstallPending : DismStateInstalled;
    *count = 2;
    return S_OK;
}

EXPORT DismRemovePackage(DismSession session, PCWSTR identifier, DismPackageIdentifier kind, HANDLE cancel, DISM_PROGRESS_CALLBACK progress,
                         PVOID data) {
    WCHAR identity[128];
    DWORD one = 1;
    HRESULT result = check(session);
    if (result != S_OK) return result;
    if (cancel && WaitForSingleObject(cancel, 0) == WAIT_OBJECT_0) return HRESULT_FROM_WIN32(ERROR_CANCELLED);
    if (kind != DismPackageName || !last_update(identity) || wcscmp(identity, identifier) != 0) return E_INVALIDARG;
    if (switched(L"RemoveResult")) return switched(L"RemoveResult");
    if (RegSetKeyValueW(HKEY_LOCAL_MACHINE, PACKAGES, L"Removed", REG_DWORD, &one, sizeof(one)) != ERROR_SUCCESS) return E_FAIL;
    return ERROR_SUCCESS_REBOOT_REQUIRED;
}
