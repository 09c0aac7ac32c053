// vmcompute.dll: as much of Windows' storage of container layers as it takes to unpack and remove images. A layer is a
// folder. What starts containers is not here. The calls are those of hcsshim's internal/wclayer.
#include <windows.h>
#include <stdint.h>
#include <wchar.h>

#define EXPORT __declspec(dllexport) HRESULT WINAPI
#define SEPARATE_DATA L".$wcidirs$" // ends the name of a file with what is known of a folder beside it

static HRESULT last_error(void) { return HRESULT_FROM_WIN32(GetLastError()); }

// below joins a folder and a name. The caller frees it.
static WCHAR *below(const WCHAR *folder, const WCHAR *name) {
    size_t length = wcslen(folder) + wcslen(name) + 2;
    WCHAR *path = HeapAlloc(GetProcessHeap(), 0, length * sizeof(WCHAR));
    if (path) swprintf(path, length, L"%ls\\%ls", folder, name);
    return path;
}

static void release(WCHAR *path) { HeapFree(GetProcessHeap(), 0, path); }

static BOOL ends(const WCHAR *name, const WCHAR *suffix) {
    size_t n = wcslen(name), s = wcslen(suffix);
    return n >= s && wcscmp(name + n - s, suffix) == 0;
}

// What is done with an entry of a folder that has a counterpart elsewhere.
typedef HRESULT (*ACTION)(const WIN32_FIND_DATAW *entry, const WCHAR *path, const WCHAR *counterpart);

static HRESULT each(const WCHAR *folder, const WCHAR *counterpart, ACTION act) {
    HRESULT result = S_OK;
    WIN32_FIND_DATAW entry;
    WCHAR *pattern = below(folder, L"*");
    if (!pattern) return E_OUTOFMEMORY;
    HANDLE find = FindFirstFileW(pattern, &entry);
    release(pattern);
    if (find == INVALID_HANDLE_VALUE) return last_error();
    do {
        if (wcscmp(entry.cFileName, L".") == 0 || wcscmp(entry.cFileName, L"..") == 0) continue;
        WCHAR *from = below(folder, entry.cFileName), *to = below(counterpart, entry.cFileName);
        result = from && to ? act(&entry, from, to) : E_OUTOFMEMORY;
        release(from);
        release(to);
    } while (SUCCEEDED(result) && FindNextFileW(find, &entry));
    FindClose(find);
    return result;
}

static BOOL is_folder(const WIN32_FIND_DATAW *entry) { return entry->dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY; }

// copy_stream copies so many bytes, or passes over them when there is no target.
static HRESULT copy_stream(HANDLE from, HANDLE to, uint64_t size) {
    static const DWORD most = 1 << 16;
    BYTE *buffer = HeapAlloc(GetProcessHeap(), 0, most);
    HRESULT result = buffer ? S_OK : E_OUTOFMEMORY;
    while (SUCCEEDED(result) && size > 0) {
        DWORD done, part = size < most ? (DWORD)size : most;
        if (!ReadFile(from, buffer, part, &done, NULL)) result = last_error();
        else if (done == 0) result = HRESULT_FROM_WIN32(ERROR_HANDLE_EOF);
        else if (to && !WriteFile(to, buffer, done, &part, NULL)) result = last_error();
        else size -= done;
    }
    HeapFree(GetProcessHeap(), 0, buffer);
    return result;
}

// unwrap writes the file that is wrapped in another: its attributes, then a backup stream (WIN32_STREAM_ID). Of that only
// the data is of use here.
static HRESULT unwrap(HANDLE from, HANDLE to) {
#pragma pack(push, 4)
    struct {
        DWORD id, attributes;
        uint64_t size;
        DWORD name;
    } header;
#pragma pack(pop)
    HRESULT result = copy_stream(from, NULL, sizeof(DWORD));
    while (SUCCEEDED(result)) {
        DWORD done;
        if (!ReadFile(from, &header, sizeof(header), &done, NULL)) return last_error();
        if (done == 0) return S_OK;
        if (done != sizeof(header)) return HRESULT_FROM_WIN32(ERROR_BAD_FORMAT);
        result = copy_stream(from, NULL, header.name);
        if (SUCCEEDED(result)) result = copy_stream(from, header.id == BACKUP_DATA ? to : NULL, header.size);
    }
    return result;
}

static HRESULT import_wrapped(const WIN32_FIND_DATAW *entry, const WCHAR *from, const WCHAR *to) {
    if (is_folder(entry)) {
        if (!CreateDirectoryW(to, NULL) && GetLastError() != ERROR_ALREADY_EXISTS) return last_error();
        return each(from, to, import_wrapped);
    }
    if (ends(entry->cFileName, SEPARATE_DATA)) return S_OK;
    HANDLE in = CreateFileW(from, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL);
    if (in == INVALID_HANDLE_VALUE) return last_error();
    HANDLE out = CreateFileW(to, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);
    HRESULT result = out == INVALID_HANDLE_VALUE ? last_error() : unwrap(in, out);
    if (out != INVALID_HANDLE_VALUE) CloseHandle(out);
    CloseHandle(in);
    return result;
}

static HRESULT import_plain(const WIN32_FIND_DATAW *entry, const WCHAR *from, const WCHAR *to) {
    if (!is_folder(entry)) return ends(entry->cFileName, SEPARATE_DATA) || CopyFileW(from, to, FALSE) ? S_OK : last_error();
    if (!CreateDirectoryW(to, NULL) && GetLastError() != ERROR_ALREADY_EXISTS) return last_error();
    return each(from, to, import_plain);
}

// The files of a layer come wrapped, what it changes in the registry (Hives) does not.
static HRESULT import_top(const WIN32_FIND_DATAW *entry, const WCHAR *from, const WCHAR *to) {
    return (wcscmp(entry->cFileName, L"Hives") == 0 ? import_plain : import_wrapped)(entry, from, to);
}

EXPORT ImportLayer(const void *driver, const WCHAR *layer, const WCHAR *folder, const void *parents, size_t count) {
    return each(folder, layer, import_top);
}

static HRESULT remove_entry(const WIN32_FIND_DATAW *entry, const WCHAR *path, const WCHAR *counterpart) {
    SetFileAttributesW(path, FILE_ATTRIBUTE_NORMAL);
    if (!is_folder(entry)) return DeleteFileW(path) ? S_OK : last_error();
    HRESULT result = each(path, path, remove_entry);
    return FAILED(result) || RemoveDirectoryW(path) ? result : last_error();
}

EXPORT DestroyLayer(const void *driver, const WCHAR *layer) {
    HRESULT result = each(layer, layer, remove_entry);
    if (result == HRESULT_FROM_WIN32(ERROR_PATH_NOT_FOUND) || result == HRESULT_FROM_WIN32(ERROR_FILE_NOT_FOUND)) return S_OK;
    return FAILED(result) || RemoveDirectoryW(layer) ? result : last_error();
}

// ProcessBaseImage leaves what containers on this layer begin with: empty disks.
EXPORT ProcessBaseImage(const WCHAR *layer) {
    static const WCHAR *disks[] = {L"blank-base.vhdx", L"blank.vhdx"};
    for (size_t i = 0; i < sizeof(disks) / sizeof(disks[0]); i++) {
        WCHAR *path = below(layer, disks[i]);
        if (!path) return E_OUTOFMEMORY;
        HANDLE disk = CreateFileW(path, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);
        release(path);
        if (disk == INVALID_HANDLE_VALUE) return last_error();
        CloseHandle(disk);
    }
    return S_OK;
}

// NameToGuid gives equal names equal numbers, in any case (FNV-1a). Windows has others for them.
EXPORT NameToGuid(const WCHAR *name, GUID *guid) {
    uint64_t halves[2] = {0xcbf29ce484222325, 0x84222325cbf29ce4};
    for (; *name; name++)
        for (int i = 0; i < 2; i++) halves[i] = (halves[i] ^ towlower(*name)) * 0x100000001b3;
    memcpy(guid, halves, sizeof(*guid));
    return S_OK;
}
