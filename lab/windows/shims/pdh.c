// pdh.dll: the performance counters that kubelet reads, with the constant values of an idle server. Wine's own file supports
// neither their paths nor the calls for arrays of values. windows_exporter requests raw values, of which there are none.
#include <windows.h>
#include <wchar.h>

#define PDH_MORE_DATA 0x800007D2
#define EXPORT __declspec(dllexport) LONG WINAPI

typedef struct {
    DWORD status;
    DWORD padding;
    double number;
} VALUE;

typedef struct {
    WCHAR *name;
    VALUE value;
} ITEM;

static const struct {
    const WCHAR *path;
    double number;
} counters[] = {
    {L"", 0}, // all other counters
    {L"\\Processor(_Total)\\% Processor Time", 7},
    {L"\\Process(_Total)\\Working Set - Private", 900.0 * 1024 * 1024},
    {L"\\Memory\\Committed Bytes", 1400.0 * 1024 * 1024},
};

// A counter's handle is its index in the table plus one.
static LONG add(LPCWSTR path, HANDLE *counter) {
    size_t found = 0;
    for (size_t i = 1; i < sizeof(counters) / sizeof(counters[0]); i++)
        if (_wcsicmp(path, counters[i].path) == 0) found = i;
    *counter = (HANDLE)(found + 1);
    return 0;
}

static double number(HANDLE counter) { return counters[(size_t)counter - 1].number; }

EXPORT PdhOpenQuery(LPCWSTR source, DWORD_PTR data, HANDLE *query) { *query = (HANDLE)1; return 0; }
EXPORT PdhOpenQueryW(LPCWSTR source, DWORD_PTR data, HANDLE *query) { *query = (HANDLE)1; return 0; }
EXPORT PdhCloseQuery(HANDLE query) { return 0; }
EXPORT PdhCollectQueryData(HANDLE query) { return 0; }
EXPORT PdhCollectQueryDataEx(HANDLE query, DWORD seconds, HANDLE event) { return 0; }
EXPORT PdhValidatePathW(LPCWSTR path) { return 0; }
EXPORT PdhAddCounterW(HANDLE query, LPCWSTR path, DWORD_PTR data, HANDLE *counter) { return add(path, counter); }
EXPORT PdhAddEnglishCounterW(HANDLE query, LPCWSTR path, DWORD_PTR data, HANDLE *counter) { return add(path, counter); }

EXPORT PdhGetFormattedCounterValue(HANDLE counter, DWORD format, LPDWORD type, VALUE *value) {
    value->status = 0;
    value->number = number(counter);
    return 0;
}

// One item, as for a counter with one instance; the name follows the item in the buffer.
EXPORT PdhGetFormattedCounterArrayW(HANDLE counter, DWORD format, LPDWORD size, LPDWORD count, ITEM *item) {
    static const WCHAR name[] = L"_Total";
    DWORD need = sizeof(ITEM) + sizeof(name);
    *count = 1;
    if (*size < need) {
        *size = need;
        return PDH_MORE_DATA;
    }
    item->name = (WCHAR *)(item + 1);
    wcscpy(item->name, name);
    item->value.status = 0;
    item->value.number = number(counter);
    return 0;
}

// The information about a counter: its values are numbers (PERF_COUNTER_RAWCOUNT). The texts that follow on Windows are missing.
EXPORT PdhGetCounterInfoW(HANDLE counter, BOOLEAN explain, LPDWORD size, DWORD *info) {
    const DWORD need = 256;
    DWORD has = *size;
    *size = need;
    if (has < need) return PDH_MORE_DATA;
    memset(info, 0, need);
    info[0] = need;
    info[1] = 0x10000;
    return 0;
}

EXPORT PdhGetRawCounterArrayW(HANDLE counter, LPDWORD size, LPDWORD count, void *items) {
    *count = 0;
    return 0;
}
